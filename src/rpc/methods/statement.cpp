// account_statement: what became of an account's money in the market and in staking.
#include <map>

#include "rpc/methods/backend.h"
#include "rpc/methods/ledger_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
namespace api = chain::api;
using Sign = api::Movement::Sign;

constexpr std::uint64_t kDefaultMovements = 200;
constexpr std::uint64_t kMaxMovements = 2'000;

json::Value role_json(const api::Movement& movement) {
    if (movement.submitter) return "submitter";
    return movement.role ? json::Value(types::to_string(*movement.role)) : json::Value();
}

json::Value movement_json(const api::Movement& movement) {
    json::Value object = place_json(movement.place);
    Balance balance;
    Balance bond;
    add(balance, movement.amount, movement.balance);
    add(bond, movement.amount, movement.bond);
    object.set("task", movement.task ? json::Value(*movement.task) : json::Value());
    object.set("role", role_json(movement));
    object.set("category", movement.category);
    object.set("reason", movement.reason);
    object.set("amount", quantity(movement.amount));
    object.set("amountQrn", in_qrn(movement.amount));
    object.set("balanceChange", balance.grains());
    object.set("bondChange", bond.grains());
    return object;
}

// One side of the account: the balance, or a role's bond with what is unbonding.
struct Side {
    Uint256 before;
    Uint256 after;
    Balance listed;  // what the movements sum to

    [[nodiscard]] Balance unlisted() const {
        Balance rest;
        rest.add(after);
        rest.take(before);
        rest.take(listed);
        return rest;
    }
    [[nodiscard]] json::Value told() const {
        return json::Value::object({{"before", quantity(before)},
                                    {"after", quantity(after)},
                                    {"listed", listed.grains()},
                                    {"unlisted", unlisted().grains()}});
    }
};

std::map<types::Role, Uint256> whole_bonds(const api::Holdings& holdings) {
    std::map<types::Role, Uint256> bonds;
    for (const auto& bond : holdings.bonds) bonds[bond.role] = bond.bonded + bond.unbonding;
    return bonds;
}

// The movements of a page against what the account held before its first block and after its last one.
class Check {
public:
    explicit Check(const std::vector<api::StatementBlock>& blocks) : blocks_(blocks) {
        if (blocks.empty()) return;
        balance_.before = blocks.front().before.balance;
        balance_.after = blocks.back().after.balance;
        for (const auto& [role, amount] : whole_bonds(blocks.front().before)) bonds_[role].before = amount;
        for (const auto& [role, amount] : whole_bonds(blocks.back().after)) bonds_[role].after = amount;
        for (const auto& block : blocks)
            for (const auto& movement : block.movements) {
                add(balance_.listed, movement.amount, movement.balance);
                if (movement.role && movement.bond != Sign::none)
                    add(bonds_[*movement.role].listed, movement.amount, movement.bond);
            }
    }
    [[nodiscard]] json::Value told() const {
        if (blocks_.empty()) return {};
        bool agrees = balance_.unlisted().is_zero();
        json::Array bonds;
        for (const auto& [role, side] : bonds_) {
            agrees = agrees && side.unlisted().is_zero();
            json::Value bond = side.told();
            bond.set("role", types::to_string(role));
            bonds.push_back(std::move(bond));
        }
        return json::Value::object({{"firstBlock", blocks_.front().number},
                                    {"lastBlock", blocks_.back().number},
                                    {"balance", balance_.told()},
                                    {"bonds", std::move(bonds)},
                                    {"agrees", agrees}});
    }

private:
    const std::vector<api::StatementBlock>& blocks_;
    Side balance_;
    std::map<types::Role, Side> bonds_;
};

struct Total {
    std::uint64_t count = 0;
    Uint256 amount;
};

json::Value totals_json(const std::vector<api::StatementBlock>& blocks) {
    std::map<std::string_view, Total> totals;
    for (const auto& block : blocks)
        for (const auto& movement : block.movements) {
            Total& total = totals[movement.category];
            ++total.count;
            total.amount += movement.amount;
        }
    json::Value object = json::Value::object();
    for (const auto& [category, total] : totals)
        object.set(category, json::Value::object({{"count", total.count},
                                                  {"amount", quantity(total.amount)},
                                                  {"amountQrn", in_qrn(total.amount)}}));
    return object;
}

Result statement(const Backend& backend, const Call& call) {
    const std::uint64_t head = backend.chain->head_number();
    const std::uint64_t from = call.number_or(1, 0);
    const std::uint64_t to = call.number_or(2, head);
    if (from > to) return rpc_fail(kInvalidParams, "invalid block range params");
    const std::uint64_t limit = std::min(call.number_or(3, kDefaultMovements), kMaxMovements);
    if (limit == 0) return rpc_fail(kInvalidParams, "a page holds 1 item at least");
    QUERN_RPC_TRY(const std::uint64_t since, backend.ledger->since());
    const auto page = backend.ledger->statement(call.address(0), from, to, limit, [&] { return call.is_cancelled(); });
    if (!page) return page.error().name == api::kLedgerCancelled ? timed_out() : rpc_fail(page.error());
    json::Array movements;
    for (const auto& block : page->items)
        for (const auto& movement : block.movements) movements.push_back(movement_json(movement));
    return json::Value::object({{"address", hex(call.address(0))},
                                {"fromBlock", from},
                                {"toBlock", std::min(to, head)},
                                {"since", since},
                                {"movements", std::move(movements)},
                                {"totals", totals_json(page->items)},
                                {"check", Check(page->items).told()},
                                {"next", page->next ? json::Value(*page->next) : json::Value()}});
}

}  // namespace

Status add_statement_methods(Registry& registry, const Backend& backend) {
    return registry.add(
        {"account_statement",
         "Each movement of an account's money by the market and by staking, in order, a page at a time: what it "
         "earned, "
         "paid, had back, bonded, withdrew and lost, with the gas of what it sent for that. Transfers are not listed.",
         {{"address", Kind::address, true, "the account"},
          {"fromBlock", Kind::number, false, "first block; 0 when left out"},
          {"toBlock", Kind::number, false, "last block; the newest when left out"},
          {"limit", Kind::number, false,
           "movements in the page, 200 when left out, at most 2,000; those of a block are never parted"}},
         {"object",
          "movements: block, timestamp (seconds), transaction, from (who sent it), kind (of the native transaction), "
          "task (null: none), role (submitter, solver, verifier, whistleblower, custodian; null where the chain does "
          "not say), "
          "category, reason (the event's, as in market.md, or the transaction's kind), amount, amountQrn, "
          "balanceChange and bondChange: how balance and bond (with what is unbonding) changed by it, in grains, "
          "decimal, negative ones with a sign. Categories: reward, fee, bounty, dispute_cost (γ), jackpot, "
          "slash_share, refund, deposit_returned, escrow, deposit_paid, bonded, unbonding (moves nothing yet), "
          "withdrawn, slashed, staked, unstaking (moves nothing yet), stake_withdrawn, stake_slashed (cut off what was "
          "withdrawn), evidence_reward, data_challenge (prepaid, or back), data_answer, gas. totals: of the page, "
          "count, amount, amountQrn by category. check: the "
          "page against the account, null when it is empty: balance and bonds, each with before (the block "
          "firstBlock), "
          "after (lastBlock), listed (what the movements sum to), unlisted (the rest: transfers, a proposer's tips); "
          "agrees: nothing is unlisted. since: the first block that this node's index knows; what happened before is "
          "not told. next: the fromBlock of the next page, null at the end"},
         {{kInvalidParams, "invalid block range params"},
          {kInvalidParams, "a page holds 1 item at least"},
          {kTimedOut, "request timed out"}},
         {},
         [backend](const Call& call) -> Result { return statement(backend, call); }});
}

}  // namespace quern::rpc::methods
