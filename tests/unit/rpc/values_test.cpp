#include "rpc/values.h"

#include <gtest/gtest.h>

namespace quern::rpc {
namespace {

template <class Read>
std::string error_of(Read read, std::string_view json) {
    const auto value = json::parse(json);
    EXPECT_TRUE(value) << json;
    const auto result = read(*value);
    return result ? std::string("taken") : std::string(result.error().name);
}

struct Case {
    std::string_view json;
    std::string_view error;
};

TEST(Values, quantities_have_one_form) {
    for (const Case& each : {
             Case{R"("0x0")", "taken"},
             Case{R"("0xffffffffffffffff")", "taken"},
             Case{R"("0x10000000000000000")", "value.out_of_range"},
             Case{R"("0x")", "value.bad_quantity"},
             Case{R"("0x00")", "value.bad_quantity"},
             Case{R"("0x01")", "value.bad_quantity"},
             Case{R"("0xg")", "value.bad_quantity"},
             Case{R"("0x0x1")", "value.bad_quantity"},
             Case{R"("0x-1")", "value.bad_quantity"},
             Case{R"("1")", "value.bad_hex"},
             Case{R"("")", "value.bad_hex"},
             Case{"1", "value.wrong_type"},
             Case{"null", "value.wrong_type"},
             Case{R"(["0x1"])", "value.wrong_type"},
         })
        EXPECT_EQ(error_of(read_quantity64, each.json), each.error) << each.json;
    EXPECT_EQ(error_of(read_quantity, R"("0x1)" + std::string(64, '0') + "\""), "value.bad_quantity");
    EXPECT_EQ(error_of(read_number, "7"), "taken");
    EXPECT_EQ(error_of(read_number, "-7"), "value.out_of_range");
}

TEST(Values, bytes_are_whole_and_of_their_length) {
    for (const Case& each : {
             Case{R"("0x")", "taken"},
             Case{R"("0XaBcD")", "taken"},
             Case{R"("0xabc")", "value.bad_hex"},
             Case{R"("0xag")", "value.bad_hex"},
             Case{R"("0x0xab")", "value.bad_hex"},
             Case{R"("abcd")", "value.bad_hex"},
             Case{"{}", "value.wrong_type"},
         })
        EXPECT_EQ(error_of(read_data, each.json), each.error) << each.json;
    const auto text = [](std::size_t digits) { return "\"0x" + std::string(digits, 'a') + "\""; };
    EXPECT_EQ(error_of(read_hash, text(64)), "taken");
    EXPECT_EQ(error_of(read_hash, text(63)), "value.bad_hex");
    EXPECT_EQ(error_of(read_hash, text(66)), "value.bad_hex");
    EXPECT_EQ(error_of(read_address, text(40)), "taken");
    EXPECT_EQ(error_of(read_address, text(64)), "value.bad_hex");
    EXPECT_EQ(error_of(read_address, "\"0x" + std::string(38, 'a') + "0g\""), "value.bad_hex");
}

TEST(Values, a_block_is_named_in_one_way) {
    const std::string hash = "\"0x" + std::string(64, 'a') + "\"";
    for (const auto& [json, error] : std::initializer_list<std::pair<std::string, std::string_view>>{
             {R"("latest")", "taken"},
             {R"("0x7")", "taken"},
             {hash, "taken"},
             {R"({"blockHash":)" + hash + "}", "taken"},
             {R"({"blockNumber":"latest"})", "taken"},
             {R"({"blockNumber":"0x1","blockHash":)" + hash + "}", "value.bad_block"},
             {"{}", "value.bad_block"},
             {R"({"blockNumber":{"blockNumber":"0x1"}})", "value.bad_block"},
             {R"({"blockHash":"0x1"})", "value.bad_hex"},
             {"7", "value.bad_block"},
             {"null", "value.bad_block"},
             {R"("newest")", "value.bad_hex"},
             {R"("0x07")", "value.bad_quantity"},
         })
        EXPECT_EQ(error_of(read_block, json), error) << json;
}

}  // namespace
}  // namespace quern::rpc
