// The phases before the leaf: what a post and a pick must hold, how they are checked against the two sides' claims, and
// what a pick narrows the game down to.
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
    bool nodes = false;
    bool pick = false;
    bool previous = false;
    bool program = false;
    bool anchor_path = false;
    bool anchor_leaf = false;
    bool probe_path = false;
    bool tiles = false;
};

Status check_form(const SplitMove& move, const Form& form) {
    const bool extra = (!form.nodes && !move.nodes.empty()) || (!form.pick && move.pick != Pick{}) ||
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

constexpr auto kDefender = static_cast<std::size_t>(Side::defender);
constexpr auto kRival = static_cast<std::size_t>(Side::rival);

// S_{j-1} as leaf `index` of the defender's states of the stride's steps.
Status check_step_state(const Game& game, const SplitMove& move, std::uint64_t index) {
    const auto top =
        crypto::merkle_top_from_path(move.previous_state, index, steps_leaf_count(game), move.previous_path);
    if (!top) return fail("dispute.bad_path", top.error().to_string());
    if (*top != game.steps_top) return fail("dispute.bad_path", "not the stride's state before the step");
    return {};
}

// S_{j-1} under the defender's history, or among its states of the stride where no history holds it: as a leaf before
// the first that differs it is the rival's too.
Status accept_previous_state(Game& game, const SplitMove& move) {
    const std::uint64_t stride = game.context.stride;
    if (const std::uint64_t inside = (game.step - 1) % stride; inside != 0) {
        QUERN_CHECK(check_step_state(game, move, inside - 1));
    } else {
        const Hash32& root = game.probe ? game.history_root : game.claims[kDefender];
        QUERN_CHECK(check_path(MerkleTag::history, root, move.previous_state, history_index(game.context, game.step),
                               game.context.history_leaves, move.previous_path));
    }
    game.previous_state = move.previous_state;
    return {};
}

// --- What ties a top that nobody committed to before to what its side has claimed -----------------------------

// In a history game the last of the side's states inside the stride must be what its history says, so the two differ.
// In a probe game the state before the stride is given, and who lists anything else than what follows from it is caught
// at the first step of the list that differs.
Status check_steps_anchor(const Game& game, std::size_t side, const SplitMove& move, const Hash32& top) {
    if (game.probe) return {};
    return check_anchor(game.cursor, top, game.stride_roots[side], game.cursor.leaf_count - 1, move.anchor_path);
}

// Of a trace it is one leaf. In a history game it is the output of the node that updates the differing slot; in a probe
// game the output whose tile was probed.
Status check_trace_anchor(const Game& game, std::size_t side, const SplitMove& move, const Hash32& top,
                          const PlanProgram& program) {
    if (move.program.size() != 1) return fail("dispute.bad_opening", "one update or node is to be opened");
    const ProgramOpening& opening = move.program.front();
    if (!at_probe(game)) {
        if (opening.index != game.slot) return fail("dispute.bad_opening", "another slot differs");
        QUERN_TRY(const std::uint32_t update, open_update(program.root, program.header, opening));
        return check_anchor(game.cursor, top, game.slot_roots[side], update, move.anchor_path);
    }
    if (opening.index != game.probe_node) return fail("dispute.bad_opening", "another node was probed");
    QUERN_TRY(const Node node, open_node(program.root, program.header, opening));
    QUERN_CHECK(check_path(MerkleTag::bytes, move.anchor_leaf, game.claims[side], game.probe_tile, node.shape.tiles(),
                           move.probe_path));
    return check_anchor(game.cursor, top, move.anchor_leaf, game.probe_node, move.anchor_path);
}

// Hash of the micro-state that a side's claimed output tile implies: after the last micro-step accumulator 0 is the
// output tile, and a matmul's partial is +0.
Hash32 last_micro_hash(const Game& game, std::size_t side, std::size_t accumulators) {
    std::vector<Hash32> hashes(accumulators, vm::tensor::tile_hash(vm::tensor::Tile{}));
    hashes.front() = game.tile_hashes[side];
    return crypto::list_id_of(MerkleTag::micro, hashes);
}

Status check_micro_anchor(const Game& game, std::size_t side, const SplitMove& move, const Hash32& top) {
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    return check_anchor(game.cursor, top, last_micro_hash(game, side, disputed.accumulators),
                        game.cursor.leaf_count - 1, move.anchor_path);
}

Status check_top(const Game& game, std::size_t side, const SplitMove& move, const Hash32& top,
                 const PlanProgram& program) {
    if (game.phase == Phase::steps) return check_steps_anchor(game, side, move, top);
    if (game.phase == Phase::trace) return check_trace_anchor(game, side, move, top, program);
    return check_micro_anchor(game, side, move, top);
}

// The parts with which a side shows such a top.
Form form_of_top(const Game& game) {
    Form form;
    form.anchor_path = game.phase != Phase::steps || !game.probe;
    form.program = game.phase == Phase::trace;
    form.anchor_leaf = game.phase == Phase::trace && at_probe(game);
    form.probe_path = form.anchor_leaf;
    return form;
}

bool is_open_tree(const Game& game) { return !game.cursor.sealed && at_top(game.cursor); }

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
    QUERN_CHECK(
        check_form(move, {.program = true, .anchor_path = node.op == Op::slot, .anchor_leaf = node.op == Op::slot}));
    if (node.op == Op::seed) return vm::tensor::tensor_root(vm::tensor::seed_tensor(game.context.seed_beacon));
    QUERN_CHECK(check_path(MerkleTag::state, game.previous_state, move.anchor_leaf, node.attributes[0],
                           program.header.slot_count, move.anchor_path));
    return move.anchor_leaf;
}

// Opens the disputed node; one that is an input decides the game.
Status open_disputed_node(Game& game, const SplitMove& move, const PlanProgram& program) {
    QUERN_CHECK(accept_node(game, move, program));
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    if (!disputed.valid || !is_input(disputed.node.op)) return {};
    QUERN_TRY(const Hash32 truth, input_root(game, disputed.node, program, move));
    game.verdict = truth == game.cursor.nodes[0]   ? Verdict::defender_wins
                   : truth == game.cursor.nodes[1] ? Verdict::rival_wins
                                                   : Verdict::both_lose;
    game.phase = Phase::decided;
    game.reason = "input";
    return {};
}

// The hash of the micro-state that a side has claimed.
Hash32 claimed_micro_hash(const Game& game, std::size_t side, const DisputedNode& disputed) {
    return disputed.micro_steps == 1 ? last_micro_hash(game, side, disputed.accumulators) : game.micro_hashes[side];
}

Status check_accumulators(const Game& game, std::size_t side, const DisputedNode& disputed,
                          std::span<const Bytes> tiles) {
    std::vector<Hash32> hashes;
    for (const Bytes& tile : tiles) {
        if (tile.size() != vm::tensor::kTileBytes) return fail("dispute.bad_tile", "a tile has 4,096 bytes");
        hashes.push_back(crypto::merkle_leaf(tile));
    }
    if (crypto::list_id_of(MerkleTag::micro, hashes) != claimed_micro_hash(game, side, disputed))
        return fail("dispute.does_not_fold", "the accumulators are not the claimed ones");
    return {};
}

Status post_element(const Game& game, const SplitMove& move) {
    QUERN_CHECK(check_form(move, {.tiles = true}));
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    if (move.tiles.size() != disputed.accumulators) return fail("dispute.bad_tile", "wrong number of accumulators");
    return check_accumulators(game, kDefender, disputed, move.tiles);
}

Status pick_element(Game& game, const SplitMove& move) {
    QUERN_CHECK(check_form(move, {.tiles = true}));
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    const std::size_t accumulators = disputed.accumulators;
    if (move.tiles.size() != 2 * accumulators) return fail("dispute.bad_tile", "wrong number of accumulators");
    const std::span<const Bytes> tiles = move.tiles;
    QUERN_CHECK(check_accumulators(game, kDefender, disputed, tiles.first(accumulators)));
    QUERN_CHECK(check_accumulators(game, kRival, disputed, tiles.subspan(accumulators)));
    for (std::uint32_t accumulator = 0; accumulator < accumulators; ++accumulator) {
        QUERN_TRY(const vm::tensor::Tile defender, vm::tensor::tile_from_bytes(tiles[accumulator]));
        QUERN_TRY(const vm::tensor::Tile rival, vm::tensor::tile_from_bytes(tiles[accumulators + accumulator]));
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

Status enter_tile_steps(Game& game) {
    QUERN_TRY(const DisputedNode disputed, disputed_node(game));
    game.tile = game.cursor.index;
    game.tile_hashes = game.cursor.nodes;
    if (disputed.micro_steps == 1) {
        game.phase = Phase::element;
    } else {
        game.phase = Phase::micro;
        game.cursor = open_cursor(MerkleTag::micro, disputed.micro_steps);
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

// The defender's: descendants of its node, or its accumulators.
Status accept_post(Game& game, const SplitMove& move, const PlanProgram& program) {
    if (game.phase == Phase::element) return post_element(game, move);
    const bool first = at_top(game.cursor);
    Form form;
    if (is_open_tree(game)) form = form_of_top(game);
    form.nodes = true;
    form.previous = first && (game.phase == Phase::state || (game.phase == Phase::trace && at_probe(game)));
    if (first && game.phase == Phase::tile) {
        QUERN_CHECK(open_disputed_node(game, move, program));
        if (game.phase == Phase::decided) return {};
        form.program = true;
    }
    QUERN_CHECK(check_form(move, form));
    QUERN_CHECK(check_post(game.cursor, kDefender, move.nodes));
    if (form.previous) QUERN_CHECK(accept_previous_state(game, move));
    if (!is_open_tree(game)) return {};
    const Hash32 top = post_top(game.cursor, move.nodes);
    QUERN_CHECK(check_top(game, kDefender, move, top, program));
    game.cursor.nodes = {top};
    if (game.phase == Phase::steps) game.steps_top = top;
    return {};
}

// The rival's: the first of the defender's descendants that is not its own.
Status accept_pick(Game& game, const SplitMove& move, const PlanProgram& program) {
    if (game.phase == Phase::element) return pick_element(game, move);
    const bool is_first_of_open = is_open_tree(game);
    if (is_first_of_open && game.phase == Phase::steps && game.probe && move.pick == Pick{}) {
        // The rival's list is the defender's: its last state, before the probed step, is agreed.
        QUERN_CHECK(check_form(move, {}));
        game.step = game.probe_step;
        game.phase = Phase::trace;
        QUERN_TRY(const PlanProgram probed, disputed_program(game));
        game.cursor = open_cursor(MerkleTag::trace, probed.header.node_count);
        return {};
    }
    Form form;
    if (is_first_of_open) form = form_of_top(game);
    form.pick = true;
    QUERN_CHECK(check_form(move, form));
    QUERN_TRY(const PickedTops tops, check_pick(game.cursor, move.pick));
    if (is_first_of_open) {
        QUERN_CHECK(check_top(game, kRival, move, tops.rival, program));
        if (game.phase == Phase::trace) game.trace_tops = {tops.defender, tops.rival};
        if (game.phase == Phase::micro) game.micro_tops = {tops.defender, tops.rival};
    }
    descend(game.cursor, move.pick);
    return at_leaf(game.cursor) ? leave_tree(game, program) : Status{};
}

Status accept(Game& game, Side side, const SplitMove& move, const PlanProgram& program) {
    if (side == Side::defender) {
        if (has_post(game)) return fail("dispute.already_posted");
        QUERN_CHECK(accept_post(game, move, program));
        if (game.phase != Phase::decided) game.post = post_hash(move);
        return {};
    }
    if (has_post(game)) {
        game.post = {};
        return accept_pick(game, move, program);
    }
    // What decides alone the rival may show at once.
    if (!may_move(game, side)) return fail("dispute.no_post");
    QUERN_CHECK(open_disputed_node(game, move, program));
    if (game.phase != Phase::decided) return fail("dispute.no_post");
    return {};
}

}  // namespace

Status apply_split(Game& game, Side side, const SplitMove& move, std::uint64_t now) {
    QUERN_CHECK(check_game(game));
    if (game.phase == Phase::decided) return fail("dispute.decided");
    Game next = game;
    charge_clocks(next, now);
    if (next.phase == Phase::decided) return fail("dispute.clock_ran_out");
    if (move.phase != static_cast<std::uint8_t>(next.phase) || next.phase == Phase::leaf)
        return fail("dispute.wrong_phase", std::string("the game is in phase ") + to_string(next.phase));
    QUERN_TRY(const PlanProgram program, disputed_program(next));
    QUERN_CHECK(accept(next, side, move, program));
    game = std::move(next);
    return {};
}

}  // namespace quern::compute::core
