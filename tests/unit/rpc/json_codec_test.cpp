#include "chain/types/json_codec.h"

#include <gtest/gtest.h>

#include "chain/types/native_objects.h"

namespace quern::chain::types {
namespace {

Task sample_task() {
    Task task;
    task.id = 7;
    task.submitter.data[19] = 0xaa;
    task.spec.contents.uris = {"https://example.org/a", "ipfs://b"};
    task.spec.money.price_cap = Uint256(1) << 200;
    task.spec.plan = {1, 2, 3};
    task.spec.header_paths = {{Hash32{}, Hash32{}}, {Hash32{{1}}}};
    task.state = TaskState::expired;
    task.bids.push_back({});
    task.seats.push_back({});
    task.payments.push_back({Address{}, Uint256(5), "refund"});
    return task;
}

TEST(JsonCodec, record_survives_a_round_trip) {
    const Task task = sample_task();
    const json::Value json = to_json(task);
    EXPECT_EQ(json.find("state")->as_u64().value(), 6u);
    EXPECT_EQ(json.find("spec")->find("plan")->as_string().value(), "0x010203");
    const auto back = record_from_json<Task>(json, ExtraMembers::refuse);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(encode_record(*back), encode_record(task));
    const auto reparsed = json::parse(json.dump());
    ASSERT_TRUE(reparsed);
    EXPECT_EQ(encode_record(*record_from_json<Task>(*reparsed)), encode_record(task));
}

TEST(JsonCodec, missing_field_is_named_with_its_path) {
    json::Value json = to_json(sample_task());
    json::Value spec = *json.find("spec");
    json::Value money = *spec.find("money");
    money.erase("priceCap");
    spec.set("money", money);
    json.set("spec", spec);
    const auto result = record_from_json<Task>(json);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().name, "json.missing_field");
    EXPECT_EQ(result.error().detail, "spec.money.priceCap");
}

TEST(JsonCodec, wrong_types_and_ranges_are_refused) {
    const auto error_of = [](const char* field, json::Value value) {
        json::Value json = to_json(sample_task());
        json.set(field, std::move(value));
        const auto result = record_from_json<Task>(json);
        return result ? std::string("accepted") : std::string(result.error().name);
    };
    EXPECT_EQ(error_of("id", "0x7"), "json.wrong_type");
    EXPECT_EQ(error_of("id", -1), "json.out_of_range");
    EXPECT_EQ(error_of("round", 4294967296), "json.out_of_range");
    EXPECT_EQ(error_of("state", 256), "json.out_of_range");
    EXPECT_EQ(error_of("submitter", "0x00"), "bytes.wrong_length");
    EXPECT_EQ(error_of("submitter", "00000000000000000000000000000000000000aa"), "hex.bad_digit");
    EXPECT_EQ(error_of("escrow", "0x"), "uint256.empty");
    EXPECT_EQ(error_of("escrow", "0x1" + std::string(64, '0')), "uint256.overflow");
    EXPECT_EQ(error_of("bids", json::Value::object()), "json.wrong_type");
    EXPECT_EQ(error_of("spec", json::Value::array()), "json.wrong_type");
    EXPECT_EQ(error_of("reason", nullptr), "json.wrong_type");
}

TEST(JsonCodec, extra_members_are_ignored_or_refused) {
    json::Value json = to_json(sample_task());
    json.set("stateName", "expired");
    EXPECT_TRUE(record_from_json<Task>(json));
    const auto strict = record_from_json<Task>(json, ExtraMembers::refuse);
    ASSERT_FALSE(strict);
    EXPECT_EQ(strict.error().name, "json.unknown_field");
    EXPECT_EQ(strict.error().detail, "stateName");
}

TEST(JsonCodec, amounts_are_read_in_three_forms) {
    for (const json::Value& form : {json::Value("0x1f"), json::Value("31"), json::Value(31)}) {
        Uint256 amount;
        ASSERT_TRUE(from_json(form, amount)) << form.dump();
        EXPECT_EQ(amount, Uint256(31));
    }
}

}  // namespace
}  // namespace quern::chain::types
