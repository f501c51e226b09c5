// The runner itself: that right results pass, wrong ones fail with what was expected and what came, and bad files are
// named. That the machine is right is what the official fixtures are for.
#include "chain/statetest/fixture_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <sstream>

#include "base/fs.h"
#include "crypto/hash.h"
#include "fixture_accounts.h"

namespace quern::chain::statetest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunOptions with(const std::function<void(RunOptions&)>& set) {
    RunOptions options;
    set(options);
    return options;
}

// 7 wei from the sender to the heir at a gas price of 2, of which the base fee is 1.
struct Fixture {
    Fixture() {
        const Value slots = Value::object({{"0x01", "0x05"}});
        pre =
            Value::object({{std::string(kSender), account(3, 1'000'000)}, {std::string(kHeir), account(0, 1, slots)}});
        after = Value::object({{std::string(kSender), account(4, 1'000'000 - 7 - 42'000)},
                               {std::string(kHeir), account(0, 8, slots)},
                               {std::string(kCoinbase), account(0, 21'000)}});
        env = Value::object({{"currentCoinbase", std::string(kCoinbase)},
                             {"currentGasLimit", "0x989680"},
                             {"currentNumber", "0x01"},
                             {"currentTimestamp", "0x03e8"},
                             {"currentDifficulty", "0x00"},
                             {"currentRandom", "0x00"},
                             {"currentBaseFee", "0x01"},
                             {"currentExcessBlobGas", "0x00"}});
        transaction = Value::object(
            {{"nonce", "0x03"}, {"gasPrice", "0x02"}, {"to", std::string(kHeir)}, {"sender", std::string(kSender)}});
        transaction.set("gasLimit", Value::array({"0x5208"}));
        transaction.set("value", Value::array({"0x07", "0x08"}));
        transaction.set("data", Value::array({"0x"}));
    }
    Value part(const Value& state, std::uint64_t value_index = 0) const {
        return Value::object({{"hash", root_of(state)},
                              {"logs", to_hex0x(crypto::keccak256(Bytes{0xc0}))},
                              {"indexes", Value::object({{"data", 0}, {"gas", 0}, {"value", value_index}})},
                              {"state", state}});
    }
    Value refused(std::string_view exception) const {
        Value refusal = part(pre);
        refusal.set("expectException", exception);
        return refusal;
    }
    Value test(const Value& one, std::string_view fork = "Osaka") const {
        Value post = Value::object();
        post.set(fork, Value::array({one}));
        return Value::object({{"env", env}, {"pre", pre}, {"transaction", transaction}, {"post", post}});
    }

    Value pre, after, env, transaction;
};

class FixtureRun : public ::testing::Test {
protected:
    FixtureRun() { std::filesystem::create_directories(folder / "deep"); }
    ~FixtureRun() override { std::filesystem::remove_all(folder); }

    void write_text(const std::string& name, std::string_view text) {
        ASSERT_TRUE(fs::write_file_atomic((folder / name).string(), as_bytes(text)));
    }
    void write(const std::string& name, const Value& tests) { write_text(name, tests.dump()); }
    // What is printed, with the counts below.
    std::string run(const RunOptions& options = {}) {
        std::ostringstream out;
        const std::vector<std::string> paths = {folder.string()};
        const auto counts = run_fixtures(paths, options, out);
        if (!counts) return counts.error().to_string();
        return out.str() + std::to_string(counts->passed) + "/" + std::to_string(counts->failed) + "/" +
               std::to_string(counts->skipped);
    }

    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("quern-fixtures-" + std::to_string(::getpid()));
    Fixture fixture;
};

TEST_F(FixtureRun, right_results_pass) {
    write("deep/b.json", Value::object({{"transfer", fixture.test(fixture.part(fixture.after))}}));
    write("a.json", Value::object({{"transfer", fixture.test(fixture.part(fixture.after))}}));
    write_text("none.txt", "{");
    EXPECT_THAT(run(with([](RunOptions& options) { options.jobs = 2; })), ::testing::EndsWith("2/0/0"));
}

TEST_F(FixtureRun, wrong_results_fail_with_what_was_expected_and_what_came) {
    Value wrong = fixture.after;
    wrong.set(kHeir, account(0, 9, Value::object({{"0x02", "0x06"}})));
    wrong.set(std::string(kSender.substr(0, 40)) + "ff", account(1, 1));
    write("a.json", Value::object({{"transfer", fixture.test(fixture.part(wrong))}}));
    const std::string text = run();
    EXPECT_THAT(text, HasSubstr("a.json transfer Osaka d0 g0 v0: state root: expected " + root_of(wrong) + ", got " +
                                root_of(fixture.after)));
    EXPECT_THAT(text, ::testing::EndsWith("0/1/0"));
    const std::string more = run(with([](RunOptions& options) { options.verbose = true; }));
    EXPECT_THAT(more, HasSubstr(std::string(kHeir) + " balance: expected 0x9, got 0x8"));
    EXPECT_THAT(more, HasSubstr(std::string(kHeir) + " slot 0x1: expected 0x0, got 0x5"));
    EXPECT_THAT(more, HasSubstr(std::string(kHeir) + " slot 0x2: expected 0x6, got 0x0"));
    EXPECT_THAT(more, HasSubstr("ff account: expected one, got none"));
    EXPECT_THAT(more, Not(HasSubstr(std::string(kCoinbase) + " ")));

    Value other_logs = fixture.part(fixture.after);
    other_logs.set("logs", to_hex0x(Hash32{}));
    write("a.json", Value::object({{"transfer", fixture.test(other_logs)}}));
    EXPECT_THAT(run(), HasSubstr("hash of the logs: expected 0x0000"));
    // Of the transaction's values, the other one.
    write("a.json", Value::object({{"transfer", fixture.test(fixture.part(fixture.after, 1))}}));
    EXPECT_THAT(run(), HasSubstr("d0 g0 v1: state root"));
    write("a.json", Value::object({{"transfer", fixture.test(fixture.part(fixture.after, 2))}}));
    EXPECT_THAT(run(), HasSubstr("statetest.bad_index: value 2"));
}

TEST_F(FixtureRun, refusals_are_compared_by_name) {
    fixture.transaction.set("nonce", "0x04");
    const auto outcome = [&](const Value& part) {
        write("a.json", Value::object({{"transfer", fixture.test(part)}}));
        return run();
    };
    EXPECT_THAT(outcome(fixture.refused("TransactionException.NONCE_MISMATCH_TOO_HIGH")), ::testing::EndsWith("1/0/0"));
    EXPECT_THAT(outcome(fixture.refused("TransactionException.NONCE_IS_MAX|"
                                        "TransactionException.NONCE_MISMATCH_TOO_HIGH")),
                ::testing::EndsWith("1/0/0"));
    EXPECT_THAT(outcome(fixture.refused("TR_NonceTooHigh")), ::testing::EndsWith("1/0/0"));
    EXPECT_THAT(
        outcome(fixture.refused("TransactionException.NONCE_MISMATCH_TOO_LOW")),
        HasSubstr("refused as tx.nonce_mismatch_too_high, expected TransactionException.NONCE_MISMATCH_TOO_LOW"));
    EXPECT_THAT(outcome(fixture.part(fixture.pre)), HasSubstr("refused: tx.nonce_mismatch_too_high"));
    Value changed = fixture.part(fixture.after);
    changed.set("expectException", "TransactionException.NONCE_MISMATCH_TOO_HIGH");
    EXPECT_THAT(outcome(changed), HasSubstr("state root: expected"));
    fixture.transaction.set("nonce", "0x03");
    EXPECT_THAT(outcome(fixture.refused("TransactionException.NONCE_MISMATCH_TOO_HIGH")),
                HasSubstr("accepted, expected TransactionException.NONCE_MISMATCH_TOO_HIGH"));
}

TEST_F(FixtureRun, what_no_transaction_can_hold_is_refused) {
    fixture.transaction.set("value", Value::array({"0x:bigint 0x" + std::string(65, '1')}));
    write("a.json",
          Value::object({{"large", fixture.test(fixture.refused("TransactionException.RLP_INVALID_VALUE"))}}));
    EXPECT_THAT(run(), ::testing::EndsWith("1/0/0"));
    write("a.json", Value::object({{"large", fixture.test(fixture.part(fixture.pre))}}));
    EXPECT_THAT(run(), HasSubstr("statetest.number_too_large"));
    fixture.transaction.set("value", Value::array({"0xg"}));
    write("a.json", Value::object({{"bad", fixture.test(fixture.refused("TransactionException.RLP_INVALID_VALUE"))}}));
    EXPECT_THAT(run(), HasSubstr("uint256.bad_digit"));
}

TEST_F(FixtureRun, bad_files_are_failures_with_a_name) {
    write_text("a.json", "{\"x\": ");
    EXPECT_THAT(run(), HasSubstr("a.json: json.syntax"));
    write("a.json", Value::object({{"x", fixture.test(fixture.part(fixture.after))}}));
    fixture.env.erase("currentNumber");
    write("b.json", Value::object({{"y", fixture.test(fixture.part(fixture.after))}}));
    fixture.pre.set("0x12", account(0, 1));
    Fixture other;
    other.pre = fixture.pre;
    write("c.json", Value::object({{"z", other.test(other.part(other.after))}}));
    const std::string text = run();
    EXPECT_THAT(text, HasSubstr("b.json y: env: json.missing_field"));
    EXPECT_THAT(text, HasSubstr("c.json z: pre: bytes.wrong_length: account 0x12"));
    EXPECT_THAT(text, ::testing::EndsWith("1/2/0"));
}

TEST_F(FixtureRun, forks_and_names_choose) {
    const Value part = fixture.part(fixture.after);
    write("a.json", Value::object({{"first", fixture.test(part)},
                                   {"second", fixture.test(part, "Cancun")},
                                   {"third", fixture.test(part, "Byantium")}}));
    EXPECT_THAT(run(), ::testing::EndsWith("2/0/1"));
    EXPECT_THAT(run(with([](RunOptions& options) { options.fork = vm::evm::Revision::cancun; })),
                ::testing::EndsWith("1/0/0"));
    EXPECT_THAT(run(with([](RunOptions& options) { options.name_pattern = "^f|d$"; })), ::testing::EndsWith("2/0/1"));
    EXPECT_THAT(run(with([](RunOptions& options) { options.name_pattern = "^f"; })), ::testing::EndsWith("1/0/0"));
    EXPECT_THAT(run(with([](RunOptions& options) { options.name_pattern = "("; })), HasSubstr("statetest.bad_pattern"));
    std::ostringstream out;
    const std::vector<std::string> nowhere = {(folder / "nowhere").string()};
    EXPECT_EQ(run_fixtures(nowhere, {}, out).error().name, "fs.not_found");
    const std::vector<std::string> nothing = {(folder / "deep").string()};
    EXPECT_EQ(run_fixtures(nothing, {}, out).error().name, "statetest.no_fixtures");
}

TEST_F(FixtureRun, json_is_a_list_with_an_object_for_each_part) {
    write("a.json", Value::object({{"first", fixture.test(fixture.part(fixture.after))},
                                   {"second", fixture.test(fixture.part(fixture.pre))}}));
    std::ostringstream out;
    const std::vector<std::string> paths = {folder.string()};
    ASSERT_TRUE(run_fixtures(paths, with([](RunOptions& options) { options.as_json = true; }), out));
    const auto list = json::parse(out.str());
    ASSERT_TRUE(list) << out.str();
    ASSERT_EQ(list->size(), 2U);
    EXPECT_EQ(*(*list)[0].find("name"), Value("first"));
    EXPECT_EQ(*(*list)[0].find("pass"), Value(true));
    EXPECT_EQ(*(*list)[0].find("fork"), Value("Osaka"));
    EXPECT_EQ(*(*list)[0].find("stateRoot"), Value(root_of(fixture.after)));
    EXPECT_EQ(*(*list)[1].find("pass"), Value(false));
    EXPECT_NE((*list)[1].find("error"), nullptr);
}

TEST_F(FixtureRun, other_kinds_are_known_by_their_shape) {
    write_text("rlp.json", R"({"good": {"in": "dog", "out": "83646f67"}, "bad": {"in": "dog", "out": "83646f68"}})");
    write_text("trie.json", R"({"x": {"in": [["do", "verb"]], "root":
        "0x014f07ed95e2e028804d915e0dbd4ed451e394e1acfd29e463c11a060b2ddef7"}})");
    write_text("blocks.json", R"({"x": {"blocks": [], "genesisBlockHeader": {}}})");
    const std::string text = run();
    EXPECT_THAT(text, HasSubstr("rlp                       1 passed      1 failed"));
    EXPECT_THAT(text, HasSubstr("1 files hold cases of formats that are not run here"));
}

TEST(PreState, roots_are_those_of_the_content_after_any_change) {
    const Value pre =
        Value::object({{std::string(kSender), account(1, 5, Value::object({{"0x01", "0x01"}, {"0x02", "0x02"}}))},
                       {std::string(kHeir), account(0, 0)}});
    const auto state = PreState::parse(pre);
    ASSERT_TRUE(state) << state.error().to_string();
    const auto sender = fixed_from_hex<20>(kSender).value();
    const auto coinbase = fixed_from_hex<20>(kCoinbase).value();
    const auto word = [](std::uint64_t number) { return Uint256(number).to_be32(); };
    const auto root_after = [&](auto&& change) {
        state::Overlay overlay(*state, state::EmptyAccounts::kept);
        change(overlay);
        return to_hex0x(state->root(overlay));
    };
    const auto expected = [&](Value storage, bool with_coinbase = false) {
        Value accounts = pre;
        accounts.set(kSender, account(1, 5, std::move(storage)));
        if (with_coinbase) accounts.set(kCoinbase, account(0, 0));
        return root_of(accounts);
    };
    EXPECT_EQ(root_after([](state::Overlay&) {}), root_of(pre));
    EXPECT_EQ(root_after([&](state::Overlay& overlay) {
                  overlay.set_storage(sender, word(1), word(0));
                  overlay.set_storage(sender, word(3), word(7));
                  overlay.set_account(coinbase, state::empty_account());
              }),
              expected(Value::object({{"0x02", "0x02"}, {"0x03", "0x07"}}), true));
    EXPECT_EQ(root_after([&](state::Overlay& overlay) {
                  overlay.set_storage(sender, word(3), word(7));
                  overlay.clear_storage(overlay.account_ref(sender));
                  overlay.set_storage(sender, word(1), word(9));
              }),
              expected(Value::object({{"0x01", "0x09"}})));
    EXPECT_EQ(root_after([&](state::Overlay& overlay) { overlay.clear_storage(overlay.account_ref(sender)); }),
              expected(Value::object()));
    EXPECT_EQ(root_after([&](state::Overlay& overlay) { overlay.erase(overlay.account_ref(sender)); }),
              root_of(Value::object({{std::string(kHeir), account(0, 0)}})));
}

}  // namespace
}  // namespace quern::chain::statetest
