// The split phases: what a post must hold, how it is checked against the poster's own claim, and what two posts narrow
// the game down to.
#include <algorithm>

#include "compute/core/dispute_game.h"
#include "compute/core/history.h"

namespace quern::compute::core {

using crypto::MerkleTag;
using vm::tensor::Node;
using vm::tensor::Op;

namespace {

// Which of a move's parts the phase asks for; the others must be empty, so that nothing unchecked reaches the state.
struct Form {
    bool nodes = true;
    bool previous = false;
    bool program = false;
    bool anchor_path = false;
    bool anchor_leaf = false;
    bool probe_path = false;
    bool tiles = false;
};

Status check_form(const SplitMove& move, const Form& form) {
    const bool extra = (!form.nodes && !move.nodes.empty()) ||
                       (!form.previous && (!move.previous_path.empty() || !move.previous_state.is_zero())) ||
                       (!form.program && !move.program.empty()) || (!form.anchor_path && !move.anchor_path.empty()) ||
                       (!form.anchor_leaf && !move.anchor_leaf.is_zero()) ||
                       (!form.probe_path && !move.probe_path.empty()) || (!form.tiles && !move.tiles.empty());
    if (extra) return fail("dispute.unexpected_field");
    return {};
}

Status check_path(MerkleTag tag, const Hash32& root, const Hash32& leaf, std::uint64_t index, std::uint64_t count,
                  std::span<const Hash32> path) {
    const Status status = tag == MerkleTag::bytes ? crypto::check_tile_path(root, leaf, index, count, path)
                                                  : crypto::check_list_path(tag, root, leaf, index, count, path);
    if (!status) return fail("dispute.bad_path", status.error().to_string());
    return {};
}

std::size_t other(std::size_t side) { return 1 - side; }

// S_{j-1} as leaf `index` of the side's states of the stride's steps.
Status check_step_state(const Game& game, std::size_t side, const SplitMove& move, std::uint64_t index) {
    const auto top =
        crypto::merkle_top_from_path(move.previous_state, index, steps_leaf_count(game), move.previous_path);
    if (!top) return fail("dispute.bad_path", top.error().to_string());
    if (*top != game.steps_tops[side]) return fail("dispute.bad_path", "not the stride's state before the step");
    return {};
}

// S_{j-1} under the side's own history, or among its states of the stride where no history holds it; both sides' must
// be the same, they agree on all leaves before j.
Status accept_previous_state(Game& game, std::size_t side, const SplitMove& move) {
    const std::uint64_t stride = game.context.stride;
    if (const std::uint64_t inside = (game.step - 1) % stride; inside != 0) {
        QUERN_CHECK(check_step_state(game, side, move, inside - 1));
    } else {
        const Hash32& root = game.probe ? game.history_root : game.claims[side];
        QUERN_CHECK(check_path(MerkleTag::history, root, move.previous_state, history_index(game.context, game.step),
                               game.context.history_leaves, move.previous_path));
    }
    if (game.posts[other(side)].present && game.previous_state != move.previous_state)
        return fail("dispute.not_agreed", "the state before the step");
    game.previous_state = move.previous_state;
    return {};
}

Status accept_history(Game& game, std::size_t side, const SplitMove& move) {
    QUERN_CHECK(check_form(move, {}));
    return check_post(game.cursor, side, move.nodes);
}

// Nobody has committed to the states inside a stride: in a history game the side's last one must be what its history
// says, so the two differ. In a probe game the state before the stride is given, and who lists anything else than what
// follows from it is caught at the first step of the list that differs.
Status accept_steps(Game& game, std::size_t side, const SplitMove& move) {
    const bool first = at_top(game.cursor);
    QUERN_CHECK(check_form(move, {.anchor_path = first && !game.probe}));
    QUERN_CHECK(check_post(game.cursor, side, move.nodes));
    if (!first) return {};
    if (!game.probe)
        QUERN_CHECK(check_anchor(game.cursor, move.nodes, game.stride_roots[side], game.cursor.leaf_count - 1,
                                 move.anchor_path));
    game.steps_tops.resize(2);
    game.steps_tops[side] = post_top(game.cursor, move.nodes);
    return {};
}

Status accept_state(Game& game, std::size_t side, const SplitMove& move) {
    const bool first = at_top(game.cursor);
    QUERN_CHECK(check_form(move, {.previous = first}));
    QUERN_CHECK(check_post(game.cursor, side, move.nodes));
    return first ? accept_previous_state(game, side, move) : Status{};
}

// The trace was not committed before: what ties it to the claim is one leaf. In a history game it is the output of the
// node that updates the differing slot; in a probe game the output whose tile was probed.
Status accept_first_trace(Game& game, std::size_t side, const SplitMove& move, const PlanProgram& program) {
    if (move.program.size() != 1) return fail("dispute.bad_opening", "one update or node is to be opened");
    const ProgramOpening& opening = move.program.front();
    if (!at_probe(game)) {
        if (opening.index != game.slot) return fail("dispute.bad_opening", "another slot differs");
        QUERN_TRY(const std::uint32_t update, open_update(program.root, program.header, opening));
        return check_anchor(game.cursor, move.nodes, game.slot_roots[side], update, move.anchor_path);
    }
    QUERN_CHECK(accept_previous_state(game, side, move));
    if (opening.index != game.probe_node) return fail("dispute.bad_opening", "another node was probed");
    QUERN_TRY(const Node node, open_node(program.root, program.header, opening));
    QUERN_CHECK(check_path(MerkleTag::bytes, move.anchor_leaf, game.claims[side], game.probe_tile, node.shape.tiles(),
                           move.probe_path));
    return check_anchor(game.cursor, move.nodes, move.anchor_leaf, game.probe_node, move.anchor_path);
}

Status accept_trace(Game& game, std::size_t side, const SplitMove& move, const PlanProgram& program) {
    const bool first = at_top(game.cursor);
    const bool first_probe = first && at_probe(game);
    QUERN_CHECK(check_form(move, {.previous = first_probe,
                                  .program = first,
                                  .anchor_path = first,
                                  .anchor_leaf = first_probe,
                                  .probe_path = first_probe}));
    QUERN_CHECK(check_post(game.cursor, side, move.nodes));
    if (!first) return {};
    QUERN_CHECK(accept_first_trace(game, side, move, program));
    game.trace_tops.resize(2);
    game.trace_tops[side] = post_top(game.cursor, move.nodes);
    return {};
}

// Opens the differing node and its operands' nodes. A node that reads itself or a later one is no node of a program:
// its operands are not opened and its output is +0 (disputed_node).
Status accept_node(Game& game, const SplitMove& move, const PlanProgram& program) {
    if (move.program.empty() || move.program.front().index != game.node)
        return fail("dispute.bad_opening", "the differing node is to be opened first");
    QUERN_TRY(const Node node, open_node(program.root, program.header, move.program.front()));
    const bool in_order =
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](std::uint32_t input) { return input < game.node; });
    const std::size_t operands = in_order ? node.inputs.size() : 0;
    if (move.program.size() != 1 + operands) return fail("dispute.bad_opening", "one opening for each operand");
    std::vector<Bytes> node_bytes{move.program.front().bytes};
    for (std::size_t i = 0; i < operands; ++i) {
        const ProgramOpening& opening = move.program[1 + i];
        if (opening.index != node.inputs[i]) return fail("dispute.bad_opening", "not the operand's node");
        if (const auto operand = open_node(program.root, program.header, opening); !operand)
            return fail(operand.error());
        node_bytes.push_back(opening.bytes);
    }
    game.node_bytes = std::move(node_bytes);
    game.cursor = sealed_cursor(MerkleTag::bytes, node.shape.tiles(), game.cursor.nodes[0], game.cursor.nodes[1]);
    return {};
}

bool is_input(Op op) { return vm::tensor::is_kind(op, vm::tensor::OpKind::input); }

// The true root of an input node's output: known to the chain, or opened under the agreed S_{j-1}.
Expected<Hash32> input_root(const Game& game, const Node& node, const PlanProgram& program, const SplitMove& move) {
    QUERN_CHECK(check_form(
        move,
        {.nodes = false, .program = true, .anchor_path = node.op == Op::slot, .anchor_leaf = node.op == Op::slot}));
    if (node.op == Op::seed) return vm::tensor::tensor_root(vm::tensor::seed_tensor(game.context.seed_beacon));
    QUERN_CHECK(check_path(MerkleTag::state, game.previous_state, move.anchor_leaf, node.attributes[0],
                           program.header.slot_count, move.anchor_path));
    return move.anchor_leaf;
}

Status accept_tile(Game& game, std::size_t side, const SplitMove& move, const PlanProgram& program) {
    const bool first = at_top(game.cursor);
    if (!first) {
        QUERN_CHECK(check_form(move, {}));
        return check_post(game.cursor, side, move.nodes);
    }
    QUERN_CHECK(accept_node(game, move, program));
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    if (disputed.valid && is_input(disputed.node.op)) {
        QUERN_TRY(const Hash32 truth, input_root(game, disputed.node, program, move));
        game.verdict = truth == game.cursor.nodes[0]   ? Verdict::defender_wins
                       : truth == game.cursor.nodes[1] ? Verdict::rival_wins
                                                       : Verdict::both_lose;
        game.phase = Phase::decided;
        game.reason = "input";
        return {};
    }
    QUERN_CHECK(check_form(move, {.program = true}));
    return check_post(game.cursor, side, move.nodes);
}

// Hash of the micro-state that a side's claimed output tile implies: after the last micro-step accumulator 0 is the
// output tile, and a matmul's partial is +0.
Hash32 last_micro_hash(const Game& game, std::size_t side, std::size_t accumulators) {
    std::vector<Hash32> hashes(accumulators, vm::tensor::tile_hash(vm::tensor::Tile{}));
    hashes.front() = game.tile_hashes[side];
    return crypto::list_id_of(MerkleTag::micro, hashes);
}

Status accept_micro(Game& game, std::size_t side, const SplitMove& move) {
    const bool first = at_top(game.cursor);
    QUERN_CHECK(check_form(move, {.anchor_path = first}));
    QUERN_CHECK(check_post(game.cursor, side, move.nodes));
    if (!first) return {};
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    QUERN_CHECK(check_anchor(game.cursor, move.nodes, last_micro_hash(game, side, disputed.accumulators),
                             game.cursor.leaf_count - 1, move.anchor_path));
    game.micro_tops.resize(2);
    game.micro_tops[side] = post_top(game.cursor, move.nodes);
    return {};
}

Status accept_element(Game& game, std::size_t side, const SplitMove& move) {
    QUERN_CHECK(check_form(move, {.nodes = false, .tiles = true}));
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    if (move.tiles.size() != disputed.accumulators) return fail("dispute.bad_tile", "wrong number of accumulators");
    std::vector<Hash32> hashes;
    for (const Bytes& tile : move.tiles) {
        if (tile.size() != vm::tensor::kTileBytes) return fail("dispute.bad_tile", "a tile has 4,096 bytes");
        hashes.push_back(crypto::merkle_leaf(tile));
    }
    const Hash32 claimed =
        disputed.micro_steps == 1 ? last_micro_hash(game, side, disputed.accumulators) : game.micro_hashes[side];
    if (crypto::list_id_of(MerkleTag::micro, hashes) != claimed)
        return fail("dispute.does_not_fold", "the accumulators are not the claimed ones");
    return {};
}

Status enter_tile_steps(Game& game) {
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    game.tile = game.cursor.index;
    game.tile_hashes = game.cursor.nodes;
    if (disputed.micro_steps == 1) {
        game.phase = Phase::element;
    } else {
        game.phase = Phase::micro;
        game.cursor = open_cursor(MerkleTag::micro, disputed.micro_steps);
        game.micro_tops.clear();
    }
    return {};
}

// The cursor is at the state after `step`, the first that differs. All headers of a plan agree in their slots.
void enter_state(Game& game, const vm::tensor::ProgramHeader& header, std::uint64_t step) {
    const std::vector<Hash32> nodes = game.cursor.nodes;
    game.step = step;
    game.phase = Phase::state;
    game.cursor = sealed_cursor(MerkleTag::state, header.slot_count, nodes[0], nodes[1]);
}

// The cursor has come to a leaf: takes it as the phase's result and opens the next phase's tree.
Status leave_tree(Game& game, const PlanProgram& program) {
    const std::uint64_t index = game.cursor.index;
    const std::vector<Hash32> nodes = game.cursor.nodes;
    switch (game.phase) {
        case Phase::history:
            if (index == 0) return fail("dispute.bad_context", "the histories start from different states");
            game.stride = index;
            if (game.context.stride > 1) {
                game.stride_roots = nodes;
                game.phase = Phase::steps;
                game.cursor = open_cursor(MerkleTag::steps, steps_leaf_count(game));
                return {};
            }
            enter_state(game, program.header, disputed_from(game));
            return {};
        case Phase::steps:
            enter_state(game, program.header, disputed_from(game) + index);
            return {};
        case Phase::state:
            game.slot = index;
            game.slot_roots = nodes;
            game.phase = Phase::trace;
            game.cursor = open_cursor(MerkleTag::trace, program.header.node_count);
            return {};
        case Phase::trace:
            game.node = index;
            game.phase = Phase::tile;
            // The number of tiles is known once the node is opened.
            game.cursor = sealed_cursor(MerkleTag::bytes, 0, nodes[0], nodes[1]);
            return {};
        case Phase::tile:
            return enter_tile_steps(game);
        case Phase::micro:
            game.micro_step = index;
            game.micro_hashes = nodes;
            game.phase = Phase::element;
            return {};
        default:
            return fail("dispute.wrong_phase");
    }
}

Status resolve_element(Game& game) {
    const std::vector<Bytes>& ours = game.posts[0].move.tiles;
    const std::vector<Bytes>& theirs = game.posts[1].move.tiles;
    for (std::uint32_t accumulator = 0; accumulator < ours.size(); ++accumulator) {
        QUERN_TRY(const vm::tensor::Tile defender, vm::tensor::tile_from_bytes(ours[accumulator]));
        QUERN_TRY(const vm::tensor::Tile rival, vm::tensor::tile_from_bytes(theirs[accumulator]));
        for (std::uint32_t element = 0; element < vm::tensor::kTileWords; ++element) {
            if (defender[element] == rival[element]) continue;
            game.accumulator = accumulator;
            game.element = element;
            game.values = {defender[element], rival[element]};
            game.phase = Phase::leaf;
            return {};
        }
    }
    return fail("dispute.no_difference");
}

Status accept(Game& game, std::size_t side, const SplitMove& move, const PlanProgram& program) {
    switch (game.phase) {
        case Phase::history:
            return accept_history(game, side, move);
        case Phase::steps:
            return accept_steps(game, side, move);
        case Phase::state:
            return accept_state(game, side, move);
        case Phase::trace:
            return accept_trace(game, side, move, program);
        case Phase::tile:
            return accept_tile(game, side, move, program);
        case Phase::micro:
            return accept_micro(game, side, move);
        case Phase::element:
            return accept_element(game, side, move);
        default:
            return fail("dispute.wrong_phase");
    }
}

Status resolve(Game& game, const PlanProgram& program) {
    if (game.phase == Phase::element) {
        QUERN_CHECK(resolve_element(game));
    } else if (game.phase == Phase::steps && game.probe && at_top(game.cursor) &&
               game.steps_tops[0] == game.steps_tops[1]) {
        // The state before the probed step is agreed: the last of the list.
        game.step = game.probe_step;
        game.phase = Phase::trace;
        QUERN_TRY(const PlanProgram probed, disputed_program(game));
        game.cursor = open_cursor(MerkleTag::trace, probed.header.node_count);
    } else {
        QUERN_CHECK(descend(game.cursor, game.posts[0].move.nodes, game.posts[1].move.nodes));
        if (at_leaf(game.cursor)) QUERN_CHECK(leave_tree(game, program));
    }
    game.posts.assign(2, {});
    return {};
}

}  // namespace

Status apply_split(Game& game, Side side, const SplitMove& move, std::uint64_t now) {
    QUERN_CHECK(check_game(game));
    const auto index = static_cast<std::size_t>(side);
    if (game.phase == Phase::decided) return fail("dispute.decided");
    Game next = game;
    charge_clocks(next, now);
    if (next.phase == Phase::decided) return fail("dispute.clock_ran_out");
    if (move.phase != static_cast<std::uint8_t>(next.phase) || next.phase == Phase::leaf)
        return fail("dispute.wrong_phase", std::string("the game is in phase ") + to_string(next.phase));
    if (next.posts[index].present) return fail("dispute.already_posted");
    QUERN_TRY(const PlanProgram program, disputed_program(next));
    QUERN_CHECK(accept(next, index, move, program));
    if (next.phase == Phase::decided) {
        next.posts.assign(2, {});
    } else {
        // Only what the comparison needs waits in the state.
        SplitMove& kept = next.posts[index].move;
        next.posts[index].present = true;
        kept.phase = move.phase;
        kept.nodes = move.nodes;
        kept.tiles = move.tiles;
        if (next.posts[other(index)].present) QUERN_CHECK(resolve(next, program));
    }
    game = std::move(next);
    return {};
}

}  // namespace quern::compute::core
