// Golden traces: the program of EIP-3155's example, with the values that stand there.
#include "chain/statetest/trace.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/json.h"
#include "chain/evm/code_cache.h"
#include "chain/statetest/cases.h"

namespace quern::chain::statetest {
namespace {

// The lines of a state test in which 0x..a1 calls the code with this gas.
std::vector<std::string> lines_of(const std::string& code, std::uint64_t gas) {
    const std::string sender = "0x00000000000000000000000000000000000000a1";
    const std::string contract = "0x00000000000000000000000000000000000000c0";
    const auto account = [](const char* balance, const std::string& its_code) {
        return json::Value::object(
            {{"nonce", "0x0"}, {"balance", balance}, {"code", its_code}, {"storage", json::Value::object()}});
    };
    const auto test = json::Value::object(
        {{"env", json::Value::object({{"currentCoinbase", "0x00000000000000000000000000000000000000cb"},
                                      {"currentGasLimit", "0xffffffffffff"},
                                      {"currentNumber", "0x1"},
                                      {"currentTimestamp", "0x1"},
                                      {"currentDifficulty", "0x20000"}})},
         {"pre", json::Value::object({{sender, account("0xffffffffffff", "0x")}, {contract, account("0x0", code)}})},
         {"transaction", json::Value::object({{"nonce", "0x0"},
                                              {"gasPrice", "0x1"},
                                              {"to", contract},
                                              {"sender", sender},
                                              {"gasLimit", json::Value::array({Uint256(gas).to_hex_quantity()})},
                                              {"value", json::Value::array({"0x0"})},
                                              {"data", json::Value::array({"0x"})}})},
         {"post",
          json::Value::object(
              {{"Istanbul", json::Value::array({json::Value::object(
                                {{"hash", to_hex0x(Hash32{})},
                                 {"logs", to_hex0x(Hash32{})},
                                 {"indexes", json::Value::object({{"data", 0}, {"gas", 0}, {"value", 0}})}})})}})}});
    vm::evm::Machine machine;
    evm::CodeCache codes;
    std::ostringstream out;
    RunContext context{machine, codes, std::nullopt, false, &out};
    EXPECT_TRUE(run_state_test(context, "", test));
    std::vector<std::string> lines;
    std::istringstream text(out.str());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
}

TEST(Trace, is_the_example_of_the_eip) {
    const std::string expected =
        R"({"pc":0,"op":96,"gas":"0x2540be400","gasCost":"0x3","stack":[],"depth":1,"returnData":"0x","refund":"0x0","memSize":0,"opName":"PUSH1"}
{"pc":2,"op":128,"gas":"0x2540be3fd","gasCost":"0x3","stack":["0x40"],"depth":1,"returnData":"0x","refund":"0x0","memSize":0,"opName":"DUP1"}
{"pc":3,"op":83,"gas":"0x2540be3fa","gasCost":"0xc","stack":["0x40","0x40"],"depth":1,"returnData":"0x","refund":"0x0","memSize":0,"opName":"MSTORE8"}
{"pc":4,"op":96,"gas":"0x2540be3ee","gasCost":"0x3","stack":[],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":6,"op":96,"gas":"0x2540be3eb","gasCost":"0x3","stack":["0x40"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":8,"op":85,"gas":"0x2540be3e8","gasCost":"0x4e20","stack":["0x40","0x40"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"SSTORE"}
{"pc":9,"op":96,"gas":"0x2540b95c8","gasCost":"0x3","stack":[],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":11,"op":96,"gas":"0x2540b95c5","gasCost":"0x3","stack":["0x40"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":13,"op":96,"gas":"0x2540b95c2","gasCost":"0x3","stack":["0x40","0x0"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":15,"op":96,"gas":"0x2540b95bf","gasCost":"0x3","stack":["0x40","0x0","0x40"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":17,"op":96,"gas":"0x2540b95bc","gasCost":"0x3","stack":["0x40","0x0","0x40","0x0"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":19,"op":90,"gas":"0x2540b95b9","gasCost":"0x2","stack":["0x40","0x0","0x40","0x0","0x2"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"GAS"}
{"pc":20,"op":250,"gas":"0x2540b95b7","gasCost":"0x24abb676c","stack":["0x40","0x0","0x40","0x0","0x2","0x2540b95b7"],"depth":1,"returnData":"0x","refund":"0x0","memSize":96,"opName":"STATICCALL"}
{"pc":21,"op":96,"gas":"0x2540b92a7","gasCost":"0x3","stack":["0x1"],"depth":1,"returnData":"0xf5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b","refund":"0x0","memSize":96,"opName":"PUSH1"}
{"pc":23,"op":243,"gas":"0x2540b92a4","gasCost":"0x0","stack":["0x1","0x40"],"depth":1,"returnData":"0xf5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b","refund":"0x0","memSize":96,"opName":"RETURN"}
)";
    const auto lines = lines_of("0x604080536040604055604060006040600060025afa6040f3", 10'000'000'000 + 21'000);
    std::string steps;
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) steps += lines[i] + "\n";
    EXPECT_EQ(steps, expected);
    ASSERT_FALSE(lines.empty());
    const auto summary = json::parse(lines.back());
    ASSERT_TRUE(summary) << lines.back();
    EXPECT_EQ(*summary->find("output"), json::Value("40"));
    EXPECT_EQ(*summary->find("gasUsed"), json::Value(Uint256(21'000 + 0x515c).to_hex_quantity()));
    EXPECT_EQ(*summary->find("pass"), json::Value(true));
    EXPECT_EQ(*summary->find("fork"), json::Value("Istanbul"));
    EXPECT_EQ(summary->get_string("stateRoot").value().size(), 66U);
}

TEST(Trace, names_what_failed) {
    const auto lines = lines_of("0x600c01", 100'000);  // PUSH1 0c ADD
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(lines[1],
              R"({"pc":2,"op":1,"gas":"0x13495","gasCost":"0x13495","stack":["0xc"],"depth":1,"returnData":"0x",)"
              R"("refund":"0x0","memSize":0,"opName":"ADD","error":"stack underflow"})");
    EXPECT_EQ(json::parse(lines[2])->get_bool("pass").value(), false);
}

}  // namespace
}  // namespace quern::chain::statetest
