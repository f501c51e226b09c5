#include "node/serve/market_guide.h"

#include <bit>

#include "chain/market/bonds.h"
#include "chain/market/delays.h"
#include "chain/market/watchers.h"
#include "compute/core/dispute_game.h"
#include "compute/core/task_spec.h"

namespace quern::node {
namespace {

namespace core = compute::core;
namespace market = chain::market;
namespace tensor = vm::tensor;

// {defender's, rival's} of a game, as an object; null while the game has not come that far.
template <class T, class Fn>
json::Value both(const std::vector<T>& pair, Fn&& show) {
    if (pair.size() != 2) return nullptr;
    return json::Value::object({{"defender", show(pair[0])}, {"rival", show(pair[1])}});
}

json::Value hashes(const std::vector<Hash32>& pair) {
    return both(pair, [](const Hash32& hash) { return json::Value(to_hex0x(hash)); });
}

// A 32-bit word as the game knows it and as the number that it stands for.
json::Value word(std::uint32_t bits, tensor::DType dtype) {
    json::Value value = json::Value::object({{"bits", bits}});
    if (dtype == tensor::DType::f32)
        value.set("value", static_cast<double>(std::bit_cast<float>(bits)));
    else
        value.set("value", static_cast<std::int64_t>(static_cast<std::int32_t>(bits)));
    return value;
}

const char* name_of(core::Verdict verdict) {
    switch (verdict) {
        case core::Verdict::none:
            return "none";
        case core::Verdict::defender_wins:
            return "defender_wins";
        case core::Verdict::rival_wins:
            return "rival_wins";
        case core::Verdict::both_lose:
            return "both_lose";
    }
    return "unknown";
}

std::string name_of(tensor::Op op) {
    const tensor::OpInfo* const info = tensor::find_op(op);
    return std::string(info == nullptr ? "unknown" : info->name);
}

}  // namespace

std::string CoreMarketGuide::op_name(std::uint32_t op) const {
    return op > std::numeric_limits<std::uint8_t>::max() ? "unknown" : name_of(static_cast<tensor::Op>(op));
}

Expected<chain::api::TaskEstimate> CoreMarketGuide::estimate_task(const chain::types::TaskSubmitPayload& spec) const {
    QUERN_TRY(const core::TaskPlan plan, core::check_task_spec(spec, params_.custodians));
    const auto work = market::task_work(spec, plan.planned(spec.work.interval, spec.work.stride, spec.work.tranche));
    QUERN_TRY(const auto escrow, market::escrow_of(params_, spec, work.plan));
    chain::api::TaskEstimate estimate;
    estimate.steps = work.plan.steps;
    estimate.work_per_step = work.plan.step;
    estimate.commit_work = work.plan.commit;
    estimate.total_work = work.plan.total;
    estimate.segments = market::segment_count(work.plan.steps, work.plan.interval);
    estimate.sampled_segments = market::sampled_segments(work);
    estimate.verifier_work = market::sampled_work(work);
    estimate.reward = escrow.reward;
    estimate.verifier_fee = escrow.verifier_fee;
    estimate.verifier_fees = escrow.verifier_fees;
    estimate.custody_fee = escrow.custody_fee;
    estimate.custody_fees = escrow.custody_fees;
    estimate.profiler_fee = escrow.profiler_fee;
    estimate.profiler_fees = escrow.profiler_fees;
    estimate.tax = escrow.tax;
    estimate.storage_deposit = escrow.storage_deposit;
    estimate.escrow = escrow.total;
    estimate.stretches = market::stretch_count(work.plan.steps, work.plan.tranche);
    QUERN_TRY(const Uint256 largest, market::work_price(spec.money.price_cap, work.plan.stretch));
    const Uint256 reward = market::locked_reward(params_, largest, spec.money.tax, work.plan.stretch, work.plan.total);
    const auto claim = market::solver_bond(params_, reward, work.verifiers, escrow.verifier_fee);
    const auto solver = claim ? checked_mul(*claim, Uint256(market::claims_at_once(estimate.stretches))) : std::nullopt;
    const auto verifier = market::verifier_bond(params_, escrow.verifier_fee);
    const auto profiler = market::verifier_bond(params_, escrow.profiler_fee);
    if (!solver || !verifier || !profiler) return fail("task.price_overflow");
    estimate.solver_bond = *solver;
    estimate.verifier_bond = *verifier;
    if (spec.profiling.profilers != 0) estimate.profiler_bond = *profiler;
    return estimate;
}

std::uint64_t CoreMarketGuide::retention_end(const chain::types::Task& task) const {
    return market::retention_end(params_, task);
}

Expected<json::Value> CoreMarketGuide::describe_game(BytesView bytes) const {
    QUERN_TRY(const core::Game game, chain::types::decode_record<core::Game>(bytes));
    const bool decided = game.phase == core::Phase::decided;
    tensor::DType dtype = tensor::DType::f32;
    json::Value operation;
    if (!game.node_bytes.empty())
        if (const auto node = tensor::decode_node(game.node_bytes[0])) {
            dtype = node->dtype;
            operation = name_of(node->op);
        }
    json::Array waits_for;
    if (!decided && core::owes_move(game, core::Side::defender)) waits_for.push_back("defender");
    if (!decided && core::owes_move(game, core::Side::rival)) waits_for.push_back("rival");
    return json::Value::object(
        {{"phase", core::to_string(game.phase)},
         {"verdict", name_of(game.verdict)},
         {"reason", game.reason},
         {"about", game.probe ? "probe" : "history"},
         {"claims", hashes(game.claims)},
         {"stride", game.stride},
         {"step", game.step},
         {"previousState", to_hex0x(game.previous_state)},
         {"slot", game.slot},
         {"slotRoots", hashes(game.slot_roots)},
         {"traceTops", hashes(game.trace_tops)},
         {"node", game.node},
         {"nodeOp", std::move(operation)},
         {"tile", game.tile},
         {"tileHashes", hashes(game.tile_hashes)},
         {"microStep", game.micro_step},
         {"microHashes", hashes(game.micro_hashes)},
         {"accumulator", game.accumulator},
         {"element", game.element},
         {"values", both(game.values, [&](std::uint32_t bits) { return word(bits, dtype); })},
         {"trueValue", decided && game.reason == "leaf" ? word(game.true_value, dtype) : json::Value()},
         {"cursor",
          json::Value::object(
              {{"leafCount", game.cursor.leaf_count}, {"level", game.cursor.level}, {"index", game.cursor.index}})},
         {"post", core::has_post(game) ? json::Value(to_hex0x(game.post)) : json::Value()},
         {"waitsFor", std::move(waits_for)},
         {"msLeft", both(game.budget, [](std::uint64_t left) { return json::Value(left); })},
         {"deadline", decided || !core::has_begun(game) ? json::Value() : json::Value(core::next_deadline(game))}});
}

}  // namespace quern::node
