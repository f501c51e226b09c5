// Opening, checking and leaving games; what is known of the disputed node.
#include "compute/core/dispute_game.h"

#include <algorithm>

#include "chain/market/storage.h"
#include "compute/core/history.h"

namespace quern::compute::core {

using crypto::MerkleTag;
using vm::tensor::Node;

namespace {

// What a deposit pays for a dispute: its game (the node with its operands, pairs of roots, hashes and numbers), with
// the longest plan; and the record around it.
constexpr std::size_t kHashField = 1 + Hash32::kSize;
constexpr std::size_t kNodeBytes = (1 + vm::tensor::kMaxInputs) * (kMaxOpeningBytes + 2);
constexpr std::size_t kPairsAndNumbers = 8 * (2 * kHashField + 2) + 5 * kHashField + 30 * 9;
static_assert(vm::tensor::kMaxDataSets * kHashField + kNodeBytes + kPairsAndNumbers <= kGameBytes);
constexpr std::size_t kRecordBytes = 512;
static_assert(kMaxPlanBytes + kGameBytes + kRecordBytes <= chain::market::kDisputeBytes);

Expected<Game> open_game(const GameContext& context, const Hash32& defender, const Hash32& rival, std::uint64_t budget,
                         std::uint64_t now) {
    if (defender == rival) return fail("dispute.equal_claims");
    if (context.stride == 0 || context.stride > kMaxStride)
        return fail("dispute.bad_context", "a stride has 1 to 2^20 steps");
    if (context.history_leaves < 2 || context.history_leaves > kMaxStrides + 1)
        return fail("dispute.bad_context", "a history has a state before and after each of 1 to 2^20 strides");
    if (budget == 0) return fail("dispute.bad_context", "no time to move");
    const auto plan = TaskPlan::decode(context.plan);
    if (!plan) return fail("dispute.bad_context", plan.error().to_string());
    if (context.before > plan->steps() || last_step(context) > plan->steps())
        return fail("dispute.bad_context", "more steps than the plan has");
    if (context.before % context.stride != 0) return fail("dispute.bad_context", "begins inside a stride");
    Game game;
    game.context = context;
    game.claims = {defender, rival};
    game.budget = {budget, budget};
    game.charged_to = now;
    return game;
}

bool is_pair(const std::vector<Hash32>& values) { return values.size() == 2; }

Status check_node_data(const Game& game) {
    const Expected<DisputedNode> node = disputed_node(game);
    if (!node) return fail("dispute.bad_game", node.error().to_string());
    if (game.phase < Phase::micro) return {};
    if (!is_pair(game.tile_hashes) || game.tile >= node->node.shape.tiles()) return fail("dispute.bad_game", "tile");
    if (game.phase == Phase::micro) {
        if (game.micro_tops.size() != (at_top(game.cursor) ? 0 : 2)) return fail("dispute.bad_game", "micro-trace");
        return {};
    }
    if (game.micro_step >= node->micro_steps ||
        (node->micro_steps > 1 && (!is_pair(game.micro_tops) || !is_pair(game.micro_hashes))))
        return fail("dispute.bad_game", "micro-step");
    if (game.phase == Phase::leaf &&
        (game.values.size() != 2 || game.accumulator >= node->accumulators || game.element >= vm::tensor::kTileWords))
        return fail("dispute.bad_game", "leaf");
    return {};
}

Status check_steps(const Game& game) {
    const GameContext& context = game.context;
    if (context.history_leaves < 2 || context.history_leaves > kMaxStrides + 1 || context.stride == 0 ||
        context.stride > kMaxStride || context.before > kMaxPlanSteps || context.before % context.stride != 0 ||
        game.stride >= context.history_leaves || game.step > last_step(context))
        return fail("dispute.bad_game", "steps");
    if (game.phase > Phase::history && game.stride == 0) return fail("dispute.bad_game", "no stride");
    if (game.probe && (game.probe_step <= context.before ||
                       stride_of(game.probe_step, context.stride, context.before) != game.stride))
        return fail("dispute.bad_game", "the probed step");
    if (game.phase == Phase::steps) {
        if (!game.probe && !is_pair(game.stride_roots)) return fail("dispute.bad_game", "stride roots");
        if (steps_leaf_count(game) == 0) return fail("dispute.bad_game", "the stride's steps");
    }
    if (game.phase <= Phase::steps) return {};
    if (game.step <= context.before || stride_of(game.step, context.stride, context.before) != game.stride ||
        (game.probe && game.step > game.probe_step))
        return fail("dispute.bad_game", "step");
    return {};
}

Status check_phase_data(const Game& game) {
    QUERN_CHECK(check_steps(game));
    if (game.phase >= Phase::trace && !at_probe(game) && !is_pair(game.slot_roots))
        return fail("dispute.bad_game", "slot roots");
    if (game.phase >= Phase::trace &&
        game.trace_tops.size() != (game.phase == Phase::trace && at_top(game.cursor) ? 0 : 2))
        return fail("dispute.bad_game", "trace");
    if (game.phase >= Phase::micro || (game.phase == Phase::tile && !game.node_bytes.empty()))
        return check_node_data(game);
    return {};
}

}  // namespace

const char* to_string(Phase phase) {
    switch (phase) {
        case Phase::history:
            return "history";
        case Phase::steps:
            return "steps";
        case Phase::state:
            return "state";
        case Phase::trace:
            return "trace";
        case Phase::tile:
            return "tile";
        case Phase::micro:
            return "micro";
        case Phase::element:
            return "element";
        case Phase::leaf:
            return "leaf";
        case Phase::decided:
            return "decided";
    }
    return "unknown";
}

Expected<Game> open_history_game(const GameContext& context, const Hash32& defender_root, const Hash32& rival_root,
                                 std::uint64_t budget, std::uint64_t now) {
    QUERN_TRY(Game game, open_game(context, defender_root, rival_root, budget, now));
    game.cursor = sealed_cursor(MerkleTag::history, context.history_leaves, defender_root, rival_root);
    return game;
}

Expected<Game> open_probe_game(const GameContext& context, const Hash32& history_root, std::uint64_t step,
                               std::uint64_t node, std::uint64_t tile, const Hash32& defender_hash,
                               const Hash32& rival_hash, std::uint64_t budget, std::uint64_t now) {
    QUERN_TRY(Game game, open_game(context, defender_hash, rival_hash, budget, now));
    if (step <= context.before || step > last_step(context))
        return fail("dispute.bad_context", "there is no such step");
    QUERN_TRY(const TaskPlan plan, TaskPlan::decode(context.plan));
    const std::uint64_t node_count = plan.at(step).header.node_count;
    if (node >= node_count) return fail("dispute.bad_context", "there is no such node");
    game.probe = true;
    game.history_root = history_root;
    game.probe_step = step;
    game.stride = stride_of(step, context.stride, context.before);
    game.probe_node = node;
    game.probe_tile = tile;
    if (const std::uint64_t before = steps_leaf_count(game); before != 0) {
        game.phase = Phase::steps;
        game.cursor = open_cursor(MerkleTag::steps, before);
    } else {
        game.phase = Phase::trace;
        game.step = step;
        game.cursor = open_cursor(MerkleTag::trace, node_count);
    }
    return game;
}

std::uint64_t steps_leaf_count(const Game& game) {
    return game.probe ? (game.probe_step - 1) % game.context.stride : game.context.stride;
}

std::uint64_t disputed_from(const Game& game) {
    if (game.step != 0 || game.stride == 0) return game.step;
    return first_step(game.stride, game.context.stride, game.context.before);
}

Status check_game(const Game& game) {
    if (game.phase < Phase::history || game.phase > Phase::decided || game.verdict > Verdict::both_lose)
        return fail("dispute.bad_game", "unknown phase or verdict");
    if ((game.phase == Phase::decided) != (game.verdict != Verdict::none))
        return fail("dispute.bad_game", "phase and verdict");
    if (game.phase == Phase::decided) return {};
    if (!is_pair(game.claims) || game.budget.size() != 2) return fail("dispute.bad_game", "claims or budgets");
    if (has_post(game) && game.phase == Phase::leaf) return fail("dispute.bad_game", "a post in the last phase");
    QUERN_TRY(const PlanProgram program, disputed_program(game));
    if (game.context.data_roots.size() != program.header.data.size())
        return fail("dispute.bad_game", "a root for each data tensor");
    QUERN_CHECK(check_phase_data(game));
    const bool cursor_in_use = game.phase != Phase::element && game.phase != Phase::leaf &&
                               !(game.phase == Phase::tile && game.node_bytes.empty());
    if (game.phase == Phase::tile && !is_pair(game.cursor.nodes)) return fail("dispute.bad_game", "the cursor's nodes");
    if (!cursor_in_use) {
        if (game.phase == Phase::tile && has_post(game)) return fail("dispute.bad_game", "a post without its node");
        return {};
    }
    if (!game.cursor.sealed && game.cursor.nodes.size() < 2 && has_post(game) != (game.cursor.nodes.size() == 1))
        return fail("dispute.bad_game", "a post without its top");
    return check_cursor(game.cursor);
}

Expected<PlanProgram> disputed_program(const Game& game) {
    const auto plan = TaskPlan::decode(game.context.plan);
    if (!plan) return fail("dispute.bad_game", plan.error().to_string());
    if (game.step > plan->steps()) return fail("dispute.bad_game", "the plan has no such step");
    return game.step == 0 ? plan->programs().front() : plan->at(game.step);
}

Expected<DisputedNode> disputed_node(const Game& game) {
    if (game.node_bytes.empty()) return fail("dispute.wrong_phase", "the node is not known yet");
    DisputedNode result;
    QUERN_TRY(const PlanProgram program, disputed_program(game));
    result.header = program.header;
    QUERN_TRY(result.node, vm::tensor::decode_node(game.node_bytes.front()));
    for (std::size_t i = 1; i < game.node_bytes.size(); ++i) {
        QUERN_TRY(const Node operand, vm::tensor::decode_node(game.node_bytes[i]));
        result.operands.push_back({operand.dtype, operand.shape});
    }
    result.valid = result.operands.size() == result.node.inputs.size() &&
                   vm::tensor::check_node(result.node, result.operands, result.header).has_value();
    if (result.valid) {
        result.micro_steps = vm::tensor::micro_step_count(result.node, result.operands);
        result.accumulators = vm::tensor::accumulator_count(result.node);
    }
    return result;
}

Expected<SplitMove> decode_split_move(BytesView bytes) {
    if (bytes.size() > kMaxMoveBytes) return fail("dispute.move_too_large");
    return chain::types::decode_record<SplitMove>(bytes);
}

Hash32 post_hash(const SplitMove& post) { return crypto::sha256(chain::types::encode_record(post)); }

Expected<LeafWitness> decode_leaf_witness(BytesView bytes) {
    if (bytes.size() > kMaxMoveBytes) return fail("dispute.move_too_large");
    return chain::types::decode_record<LeafWitness>(bytes);
}

bool correct_probe(Game& game, const Hash32& told_hash, const Hash32& true_hash) {
    if (!game.probe || game.claims.size() != 2 || game.claims[0] != told_hash) return false;
    game.claims[0] = true_hash;
    return true;
}

Status concede(Game& game, Side side, std::uint64_t now) {
    QUERN_CHECK(check_game(game));
    if (game.phase == Phase::decided) return fail("dispute.decided");
    Game next = game;
    charge_clocks(next, now);
    if (next.phase == Phase::decided) return fail("dispute.clock_ran_out");
    next.verdict = side == Side::defender ? Verdict::rival_wins : Verdict::defender_wins;
    next.phase = Phase::decided;
    next.reason = "conceded";
    next.post = {};
    game = std::move(next);
    return {};
}

}  // namespace quern::compute::core
