// task_history, account_statement and task_simulate: arguments, errors, and what they make of what the ledger tells.
#include <gtest/gtest.h>

#include "rpc/statement_text.h"
#include "unit/rpc/fake_backend.h"

namespace quern::rpc {
namespace {

namespace types = chain::types;
namespace api = chain::api;
using api::Movement;
using Sign = Movement::Sign;

class LedgerMethodsTest : public ::testing::Test, protected testing::Fixture {
protected:
    LedgerMethodsTest() {
        types::Globals globals;
        globals.next_task = 8;
        chain.current->objects[types::key_of<types::Globals>()] = types::encode_record(globals);
        chain.add_block({});
        chain.add_block({});
    }
    json::Value ok(std::string_view method, std::string_view params) const {
        const auto result = call(method, params);
        EXPECT_TRUE(result) << method << params << ": " << result.error().message;
        return result ? *result : json::Value();
    }
    RpcError error(std::string_view method, std::string_view params) const {
        const auto result = call(method, params);
        EXPECT_FALSE(result) << method << params;
        return result ? RpcError() : result.error();
    }
    static std::string at(const json::Value& object, std::string_view name) {
        const json::Value* value = object.find(name);
        return value == nullptr ? "(absent)" : value->dump();
    }
    static api::Place place(std::uint64_t block) {
        api::Place place;
        place.block = block;
        place.timestamp = 1'700'000'000 + block;
        place.transaction.data[31] = static_cast<std::uint8_t>(block);
        place.sender.data[19] = 0x0a;
        place.kind = "tick";
        return place;
    }
    static Movement movement(std::uint64_t block, std::string_view category, const Uint256& amount, Sign balance,
                             Sign bond = Sign::none) {
        Movement moved;
        moved.place = place(block);
        moved.category = category;
        moved.reason = "because";
        moved.task = 7;
        moved.role = types::Role::solver;
        moved.amount = amount;
        moved.balance = balance;
        moved.bond = bond;
        return moved;
    }
    static api::Holdings holdings(std::uint64_t balance, std::uint64_t bonded, std::uint64_t unbonding = 0) {
        api::Holdings held;
        held.balance = balance;
        held.bonds.push_back({types::Role::solver, bonded, 0, unbonding});
        return held;
    }
    // A reward of 30 and a slash of 40 in block 1, gas of 5 in block 2.
    void earn_and_lose() {
        ledger.blocks.items.push_back(
            {1,
             holdings(100, 60, 40),
             holdings(130, 60),
             {movement(1, "reward", 30, Sign::plus), movement(1, "slashed", 40, Sign::none, Sign::minus)}});
        ledger.blocks.items.push_back({2, holdings(130, 60), holdings(125, 60), {movement(2, "gas", 5, Sign::minus)}});
    }
    static constexpr std::string_view kAddress = R"("0x00000000000000000000000000000000000000aa")";
    std::string with_address(const std::string& more) const { return "[" + std::string(kAddress) + more + "]"; }
};

TEST_F(LedgerMethodsTest, task_history_names_events_and_where_they_were) {
    api::ToldEvent event{"BidPlaced", 7, std::nullopt, json::Value::object({{"bidder", "0xaa"}, {"price", "0x3"}})};
    ledger.events.items.push_back({place(5), event});
    ledger.events.next = 9;
    const auto told = ok("task_history", "[7]");
    EXPECT_EQ(at(told, "task"), "7");
    EXPECT_EQ(at(told, "since"), "1");
    EXPECT_EQ(at(told, "next"), "9");
    EXPECT_EQ(told.find("events")->dump(),
              R"([{"block":5,"timestamp":1700000005,"transaction":)"
              R"("0x0000000000000000000000000000000000000000000000000000000000000005","from":)"
              R"("0x000000000000000000000000000000000000000a","kind":"tick","event":"BidPlaced","dispute":null,)"
              R"("fields":{"bidder":"0xaa","price":"0x3"}}])");
    EXPECT_EQ(ledger.asked.limit, 100U);
    ok("task_history", "[7,12,5000]");
    EXPECT_EQ(ledger.asked.from, 12U);
    EXPECT_EQ(ledger.asked.limit, 1'000U);
}

TEST_F(LedgerMethodsTest, task_history_refuses_what_is_no_task_and_empty_pages) {
    EXPECT_EQ(error("task_history", "[8]").message, "task.unknown: 8");
    EXPECT_EQ(error("task_history", "[0]").message, "task.unknown: 0");
    EXPECT_EQ(error("task_history", "[7,0,0]").code, kInvalidParams);
    EXPECT_EQ(error("task_history", "[]").code, kInvalidParams);
    EXPECT_EQ(error("task_history", R"(["seven"])").code, kInvalidParams);
}

TEST_F(LedgerMethodsTest, end_when_the_client_is_gone) {
    CallDeadline deadline(std::chrono::hours(1), nullptr);
    deadline.cancel();
    for (const auto& [method, params] :
         {std::pair("task_history", std::string("[7]")), std::pair("account_statement", with_address(""))}) {
        const auto result = registry->call(method, *json::parse(params), CallContext{{}, nullptr, &deadline});
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, kTimedOut);
    }
}

TEST_F(LedgerMethodsTest, account_statement_lists_sums_and_checks) {
    earn_and_lose();
    const auto told = ok("account_statement", with_address(""));
    ASSERT_EQ(told.find("movements")->size(), 3U);
    const json::Value& slash = (*told.find("movements"))[1];
    EXPECT_EQ(at(slash, "category"), R"("slashed")");
    EXPECT_EQ(at(slash, "role"), R"("solver")");
    EXPECT_EQ(at(slash, "amount"), R"("0x28")");
    EXPECT_EQ(at(slash, "amountQrn"), R"("0.00000000000000004")");
    EXPECT_EQ(at(slash, "balanceChange"), R"("0")");
    EXPECT_EQ(at(slash, "bondChange"), R"("-40")");
    EXPECT_EQ(told.find("totals")->dump(),
              R"({"gas":{"count":1,"amount":"0x5","amountQrn":"0.000000000000000005"},)"
              R"("reward":{"count":1,"amount":"0x1e","amountQrn":"0.00000000000000003"},)"
              R"("slashed":{"count":1,"amount":"0x28","amountQrn":"0.00000000000000004"}})");
    EXPECT_EQ(
        told.find("check")->dump(),
        R"({"firstBlock":1,"lastBlock":2,"balance":{"before":"0x64","after":"0x7d","listed":"25","unlisted":"0"},)"
        R"("bonds":[{"before":"0x64","after":"0x3c","listed":"-40","unlisted":"0","role":"solver"}],"agrees":true})");
    EXPECT_EQ(at(told, "fromBlock"), "0");
    EXPECT_EQ(at(told, "toBlock"), "2");
    EXPECT_EQ(at(told, "next"), "null");
}

TEST_F(LedgerMethodsTest, account_statement_says_what_it_does_not_explain) {
    earn_and_lose();
    ledger.blocks.items[1].after.balance = 120;
    const auto balance = ok("account_statement", with_address(""));
    EXPECT_EQ(at(*balance.find("check"), "agrees"), "false");
    EXPECT_EQ(at(*balance.find("check")->find("balance"), "unlisted"), R"("-5")");
    ledger.blocks.items[1].after = holdings(125, 61);
    const auto bond = ok("account_statement", with_address(""));
    EXPECT_EQ(at(*bond.find("check"), "agrees"), "false");
    EXPECT_EQ(at((*bond.find("check")->find("bonds"))[0], "unlisted"), R"("1")");
    ledger.blocks.items.clear();
    const auto nothing = ok("account_statement", with_address(""));
    EXPECT_EQ(at(nothing, "check"), "null");
    EXPECT_EQ(at(nothing, "totals"), "{}");
}

TEST_F(LedgerMethodsTest, account_statement_calls_who_submitted_so) {
    auto moved = movement(1, "escrow", 5, Sign::minus);
    moved.role.reset();
    moved.submitter = true;
    ledger.blocks.items.push_back({1, holdings(100, 60), holdings(95, 60), {moved}});
    EXPECT_EQ(at((*ok("account_statement", with_address("")).find("movements"))[0], "role"), R"("submitter")");
    ledger.blocks.items[0].movements[0].submitter = false;
    EXPECT_EQ(at((*ok("account_statement", with_address("")).find("movements"))[0], "role"), "null");
}

TEST_F(LedgerMethodsTest, account_statement_checks_its_range) {
    ok("account_statement", with_address(R"(,1,"0x2",9999)"));
    EXPECT_EQ(ledger.asked.from, 1U);
    EXPECT_EQ(ledger.asked.to, 2U);
    EXPECT_EQ(ledger.asked.limit, 2'000U);
    EXPECT_EQ(error("account_statement", with_address(",2,1")).message, "invalid block range params");
    EXPECT_EQ(error("account_statement", with_address(",3")).message, "invalid block range params");
    EXPECT_EQ(error("account_statement", with_address(",1,2,0")).code, kInvalidParams);
    EXPECT_EQ(error("account_statement", R"(["0x12"])").code, kInvalidParams);
    EXPECT_EQ(error("account_statement", "[]").code, kInvalidParams);
}

TEST_F(LedgerMethodsTest, task_simulate_tells_what_would_come_of_it) {
    api::NativeTrial trial;
    trial.success = true;
    trial.gas_used = 1'000;
    trial.before = holdings(100, 0);
    trial.before.bonds.clear();
    trial.after = holdings(60, 40);
    trial.task = 7;
    trial.escrow_before = 9;
    trial.escrow_after = 4;
    trial.events.push_back({"BondChanged", std::nullopt, std::nullopt, json::Value::object({{"role", "solver"}})});
    chain.trial_result = trial;
    const auto told = ok("task_simulate", with_address(R"(,"bond",{"role":1,"amount":"40"})"));
    EXPECT_EQ(
        told.dump(),
        R"({"success":true,"failure":null,"detail":null,"gasUsed":"0x3e8","gasSuggested":"0x5dc",)"
        R"("baseFee":"0x2328","baseFeeQrn":"0.000000000000009","affordable":false,)"
        R"("events":[{"event":"BondChanged","task":null,"dispute":null,"fields":{"role":"solver"}}],)"
        R"("before":{"balance":"0x64","bonds":[]},)"
        R"("after":{"balance":"0x3c","bonds":[{"role":"solver","bonded":"0x28","locked":"0x0","unbonding":"0x0"}]},)"
        R"("balanceChange":"-40","bondChanges":[{"role":"solver","bonded":"40","locked":"0","unbonding":"0"}],)"
        R"("escrow":{"task":7,"before":"0x9","after":"0x4","change":"-5"}})");
    ASSERT_EQ(chain.calls.size(), 1U);
    EXPECT_EQ(chain.calls[0].native_kind, static_cast<std::uint8_t>(types::NativeKind::bond));
    const Bytes payload = types::encode_record(types::BondPayload{types::Role::solver, 40});
    EXPECT_EQ(chain.calls[0].data, payload);
    ok("task_simulate", with_address(",\"bond\",\"" + to_hex0x(payload) + "\""));
    EXPECT_EQ(chain.calls[1].data, payload);
}

TEST_F(LedgerMethodsTest, task_simulate_tells_whether_what_is_left_pays_the_fee) {
    api::NativeTrial trial;
    trial.gas_used = 1'000;
    trial.after.balance = 1'000 * chain.next_base_fee();
    chain.trial_result = trial;
    EXPECT_EQ(at(ok("task_simulate", with_address(R"(,"task_start",{"task":1})")), "affordable"), "true");
    trial.before.balance = trial.after.balance;
    trial.after.balance -= 1;
    chain.trial_result = trial;
    EXPECT_EQ(at(ok("task_simulate", with_address(R"(,"task_start",{"task":1})")), "affordable"), "false");
}

TEST_F(LedgerMethodsTest, task_simulate_takes_a_gas_limit) {
    ok("task_simulate", with_address(R"(,"task_start",{"task":1},"latest","0x5208")"));
    EXPECT_EQ(chain.calls.back().gas, 21'000U);
    ok("task_simulate", with_address(R"(,"task_start",{"task":1},"latest","0x10000000000000000")"));
    EXPECT_EQ(chain.calls.back().gas, chain.block_gas_limit());
    ok("task_simulate", with_address(R"(,"task_start",{"task":1})"));
    EXPECT_EQ(chain.calls.back().gas, std::nullopt);
}

TEST_F(LedgerMethodsTest, task_simulate_tells_why_it_would_fail) {
    api::NativeTrial trial;
    trial.failure = "bid.above_cap";
    trial.detail = "cap 3";
    chain.trial_result = trial;
    const auto told = ok("task_simulate", with_address(R"(,"task_start",{"task":1})"));
    EXPECT_EQ(at(told, "success"), "false");
    EXPECT_EQ(at(told, "failure"), R"("bid.above_cap")");
    EXPECT_EQ(at(told, "detail"), R"("cap 3")");
    EXPECT_EQ(at(told, "gasSuggested"), "null");
    EXPECT_EQ(at(told, "escrow"), "null");
    EXPECT_EQ(at(told, "bondChanges"), "[]");
}

TEST_F(LedgerMethodsTest, task_simulate_shows_what_a_submission_costs) {
    types::TaskSubmitPayload spec;
    spec.work.interval = 5;
    const auto told = ok("task_simulate", with_address(",\"task_submit\"," + types::to_json(spec).dump()));
    EXPECT_EQ(at(*told.find("price"), "totalWork"), R"("0x1388")");
    spec.work.interval = 0;
    const auto bad = ok("task_simulate", with_address(",\"task_submit\"," + types::to_json(spec).dump()));
    EXPECT_EQ(at(bad, "price"), "null");
    EXPECT_EQ(at(ok("task_simulate", with_address(R"(,"task_start",{"task":1})")), "price"), "(absent)");
}

TEST_F(LedgerMethodsTest, task_simulate_refuses_what_is_no_transaction) {
    EXPECT_EQ(error("task_simulate", with_address(R"(,"pay",{})")).message, "native.unknown_kind: pay");
    const auto missing = error("task_simulate", with_address(R"(,"task_bid",{"task":1})"));
    EXPECT_EQ(missing.code, kInvalidParams);
    EXPECT_TRUE(missing.message.starts_with("json.missing_field")) << missing.message;
    EXPECT_TRUE(error("task_simulate", with_address(R"(,"task_start",{"task":1,"more":2})"))
                    .message.starts_with("json.unknown_field"));
    EXPECT_EQ(error("task_simulate", with_address(R"(,"task_start","0x1")")).code, kInvalidParams);
    EXPECT_EQ(error("task_simulate", with_address(R"(,"task_start")")).code, kInvalidParams);
    EXPECT_EQ(error("task_simulate", R"(["x","task_start",{}])").code, kInvalidParams);
    const auto large = [&](std::size_t bytes) {
        return with_address(",\"task_start\",\"" + to_hex0x(Bytes(bytes)) + "\"");
    };
    ok("task_simulate", large(types::kMaxTransactionBytes));
    EXPECT_EQ(error("task_simulate", large(types::kMaxTransactionBytes + 1)).message,
              "tx.too_large: 262145 bytes of payload");
    chain.trial_result = fail("chain.state_unavailable", "the state of block 0 is not kept");
    EXPECT_TRUE(error("task_simulate", with_address(R"(,"task_start",{"task":1},"0x0")"))
                    .message.starts_with("chain.state_unavailable"));
}

// --- What quern-cli makes of it --------------------------------------------------------------------------------------

class StatementTextTest : public LedgerMethodsTest {
protected:
    [[nodiscard]] Ask ask() const {
        return [this](std::string_view method, json::Value params) -> Expected<Result> {
            return registry->call(method, params, CallContext{});
        };
    }
    static constexpr std::string_view kPlain = "0x00000000000000000000000000000000000000aa";
    [[nodiscard]] std::vector<json::Value> pages() const {
        const auto pages = fetch_statement(ask(), {std::string(kPlain), {}, {}});
        EXPECT_TRUE(pages) << pages.error().to_string();
        return pages.value_or(std::vector<json::Value>());
    }
};

TEST_F(StatementTextTest, is_csv_with_a_header) {
    earn_and_lose();
    ledger.blocks.items[0].movements[0].reason = "=so, \"well\"\x1b[2J";
    const auto csv = statement_csv(pages());
    ASSERT_TRUE(csv) << csv.error().to_string();
    const std::string_view begin =
        "time,block,task,role,category,reason,kind,balance_change_qrn,bond_change_qrn,amount_grains,"
        "balance_change_grains,bond_change_grains,transaction,from\r\n"
        "2023-11-14T22:13:21Z,1,7,solver,reward,sowell2J,tick,0.00000000000000003,0,30,30,0,0x";
    EXPECT_EQ(csv->substr(0, begin.size()), begin);
    EXPECT_EQ(std::count(csv->begin(), csv->end(), '\n'), 4);
    EXPECT_EQ(std::count(csv->begin(), csv->end(), '\r'), 4);
    EXPECT_TRUE(csv->ends_with(",0x000000000000000000000000000000000000000a\r\n"));
}

TEST_F(StatementTextTest, is_a_table_with_totals_that_says_whether_they_agree) {
    earn_and_lose();
    const auto table = statement_table(pages());
    ASSERT_TRUE(table) << table.error().to_string();
    EXPECT_NE(table->find("Totals, in QRN:"), std::string::npos);
    EXPECT_NE(table->find("explains every grain"), std::string::npos) << *table;
    ledger.blocks.items[1].after.balance = 124;
    const auto other = statement_table(pages());
    ASSERT_TRUE(other);
    EXPECT_NE(other->find("not listed (transfers, tips) -0.000000000000000001"), std::string::npos) << *other;
    EXPECT_NE(other->find("does not explain all"), std::string::npos);
    EXPECT_NE(statement_remarks(pages())->find("does not explain all"), std::string::npos) << "with CSV, too";
}

TEST_F(StatementTextTest, says_when_the_index_begins_too_late_for_it) {
    earn_and_lose();
    ledger.begins = 2;
    const auto remarks = statement_remarks(pages());
    ASSERT_TRUE(remarks);
    EXPECT_NE(remarks->find("index begins with block 2: nothing before it is listed"), std::string::npos) << *remarks;
    EXPECT_EQ(remarks->find("explains every grain"), std::string::npos);
}

TEST_F(StatementTextTest, goes_on_until_the_last_page) {
    earn_and_lose();
    int calls = 0;
    const auto two = fetch_statement(
        [&](std::string_view method, json::Value params) -> Expected<Result> {
            ++calls;
            EXPECT_EQ(params[1], json::Value(calls == 1 ? 0 : 40));
            auto page = *registry->call(method, params = json::Value::array({kPlain}), CallContext{});
            page.set("next", calls == 1 ? json::Value(40) : json::Value());
            return Result(page);
        },
        {std::string(kPlain), {}, {}});
    ASSERT_TRUE(two);
    EXPECT_EQ(two->size(), 2U);
    calls = 0;
    const auto endless = fetch_statement(
        [&](std::string_view, const json::Value&) -> Expected<Result> {
            ++calls;
            return Result(json::Value::object({{"next", 5}}));
        },
        {std::string(kPlain), {}, {}});
    EXPECT_EQ(endless.error().name, "statement.bad_answer");
    EXPECT_EQ(calls, 2);
}

TEST_F(StatementTextTest, says_what_the_node_refused_or_left_out) {
    EXPECT_EQ(fetch_statement(ask(), {"0x12", {}, {}}).error().name, "statement.refused");
    const auto page = *json::parse(R"({"movements":[{"timestamp":1}]})");
    EXPECT_EQ(statement_csv({page}).error().name, "statement.bad_answer");
    EXPECT_EQ(statement_table({page}).error().name, "statement.bad_answer");
    EXPECT_EQ(statement_csv({json::Value()}).error().name, "statement.bad_answer");
    const auto unpaged = fetch_statement(
        [](std::string_view, const json::Value&) -> Expected<Result> { return Result(json::Value::object({})); },
        {"0x12", {}, {}});
    EXPECT_EQ(unpaged.error().name, "statement.bad_answer");
}

}  // namespace
}  // namespace quern::rpc
