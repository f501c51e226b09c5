// The one dispute game: two claims about a training history that start from the same state under the same plan are
// narrowed down, split by split, to one element of one micro-step, which evaluate_leaf decides; which program the
// disputed step runs follows from the task's plan (task_plan.h). Pure: the chain
// (exec/handlers/disputes) applies moves to a Game that it stores; workers drive the same object through
// dispute_strategy.h. Definitions and arguments: doc/verification.md, "The dispute game".
//
// A round is a post of the defender and a pick of the rival: the defender posts the descendants of its node, the rival
// answers with the first of them that differs from its own, both proven up to the two nodes. So the state keeps of a
// post no more than its hash: what was posted the rival reads in the chain's logs, and what it picks proves itself.
//
// Phases:
//   history   descend the history tree, up to 128 sub-roots a post, to the first stride whose state root differs
//   steps     (skipped when a stride is one step) the states of its steps, anchored: the last one is the history's.
//             Descend to the first step j whose state root differs. A probe game about a step inside a stride begins
//             here, with the states before that step; a rival that has the same says so
//   state     the first post opens S_{j-1} (agreed); descend the state tree to the first slot that differs
//   trace     the step's trace (leaf i = tensor root of node i's output), anchored: the leaf of the slot's update node
//   is
//             the slot's root. Descend to the first node that differs
//   tile      the first post opens node and operand descriptors; descend the output tensor's tile tree. An input node
//             (slot, seed) ends here: whoever is right opens or names its true root
//   micro     descend the disputed tile's micro-trace (skipped when it has one step)
//   element   the defender posts its accumulator tiles, the rival repeats them and gives its own; the chain finds the
//             first differing element
//   leaf      the rival (or the defender) proves the leaf; the chain executes it
// A move that does not fold to its side's own claim is refused: it never counts. Whoever lies somewhere must at last
// differ from the truth in one executed element.
//
// Clocks: one budget of milliseconds of market time a side, never reset. One side owes a move at a time, and its clock
// runs: the defender's while no post waits, the rival's while one does and in `leaf` (the accuser carries the proof). A
// side is charged all the time that passes, so the result does not depend on when somebody ticks.
// The chain begins one game of a defender at a time: in one that waits nobody owes a move and no clock runs.
// Thread-safety: pure functions on values.
#pragma once

#include <array>
#include <limits>
#include <optional>

#include "chain/types/fields.h"
#include "compute/core/program_opening.h"
#include "compute/core/task_plan.h"
#include "compute/core/tree_cursor.h"
#include "vm/tensor/leaf.h"

namespace quern::compute::core {

inline constexpr std::size_t kMaxMoveBytes = 64U << 10;
inline constexpr std::size_t kGameBytes = 2'048;  // what the state keeps of a game at most, beside its plan

enum class Phase : std::uint8_t {
    history = 1,
    steps = 2,
    state = 3,
    trace = 4,
    tile = 5,
    micro = 6,
    element = 7,
    leaf = 8,
    decided = 9
};
enum class Side : std::uint8_t { defender = 0, rival = 1 };
enum class Verdict : std::uint8_t { none = 0, defender_wins = 1, rival_wins = 2, both_lose = 3 };
[[nodiscard]] const char* to_string(Phase phase);
inline constexpr std::uint64_t kNotBegun = std::numeric_limits<std::uint64_t>::max();  // Game::charged_to

// A move of a phase before `leaf`: the defender's post or the rival's pick. What its phase and side do not ask for is
// empty (doc/verification.md, "Moves").
struct SplitMove {
    std::uint8_t phase = 0;             // must be the game's phase
    std::vector<Hash32> nodes;          // post: the sub-roots of the defender's node, kSplitLevels below or the leaves
    Pick pick;                          // none: the lists of the steps before a probed one are the same
    Hash32 previous_state;              // S_{j-1} ...
    std::vector<Hash32> previous_path;  // ... under the defender's history, or under its states of the stride's steps
    std::vector<ProgramOpening> program;  // trace: the slot's update. tile: the node, then its operands' nodes
    std::vector<Hash32> anchor_path;  // steps: the last state under the side's top. trace: the anchored leaf under the
                                      // top of the side's trace. tile, input node of kind slot: the slot's root
                                      // (anchor_leaf) under S_{j-1}
    Hash32 anchor_leaf;
    std::vector<Hash32> probe_path;  // trace in a probe game: the probed tile's hash under anchor_leaf
    std::vector<Bytes> tiles;        // element: the defender's accumulators after the disputed micro-step, 4,096 bytes
                                     // each; in a pick the rival's after them
    QUERN_FIELDS(v("phase", phase), v("nodes", nodes), v("pick", pick), v("previousState", previous_state),
                 v("previousPath", previous_path), v("program", program), v("anchorPath", anchor_path),
                 v("anchorLeaf", anchor_leaf), v("probePath", probe_path), v("tiles", tiles))
};

struct OperandTile {
    std::uint32_t operand = 0;
    std::uint64_t tile = 0;
    Hash32 root;                    // the operand's tensor root ...
    std::vector<Hash32> root_path;  // ... as its node's leaf under the sender's trace; of data neither is given
    Bytes bytes;                    // 4,096; of the last tile of data those that there are
    std::vector<Hash32> tile_path;  // under root
    QUERN_FIELDS(v("operand", operand), v("tile", tile), v("root", root), v("rootPath", root_path), v("bytes", bytes),
                 v("tilePath", tile_path))
};
struct LeafWitness {
    std::vector<Bytes> accumulators;  // before the micro-step; empty when it is the first
    std::vector<Hash32> micro_path;   // their state hash as leaf u-1 under the sender's micro-trace
    std::vector<OperandTile> tiles;   // at most kMaxLeafTiles
    QUERN_FIELDS(v("accumulators", accumulators), v("microPath", micro_path), v("tiles", tiles))
};

// What a game is about; fixed when it opens.
struct GameContext {
    Bytes plan;                      // of the task: its programs' roots and headers were proven at task_submit
    std::vector<Hash32> data_roots;  // content ids of the data tensors, as many as the programs' headers name
    Hash32 seed_beacon;
    std::uint64_t stride = 1;          // u
    std::uint64_t history_leaves = 0;  // n / u + 1 of a history of n steps
    std::uint64_t before = 0;          // steps of the plan before them, a multiple of u
    QUERN_FIELDS(v("plan", plan), v("dataRoots", data_roots), v("seedBeacon", seed_beacon), v("stride", stride),
                 v("historyLeaves", history_leaves), v("before", before))
};

struct Game {
    GameContext context;
    bool probe = false;  // true: the claims are hashes of one tile of one node of one step
    Phase phase = Phase::history;
    Verdict verdict = Verdict::none;
    std::string reason;          // "leaf", "input", "clock", "conceded"
    std::vector<Hash32> claims;  // {defender's, rival's}: history roots, or probe tile hashes
    TreeCursor cursor;
    Hash32 post;                       // the hash of the one that waits for the rival's pick; zero: none
    std::uint64_t stride = 0;          // 1..n/u: the first that differs, or the probed step's
    std::vector<Hash32> stride_roots;  // of the state after it, {defender's, rival's}: what `steps` is anchored at
    Hash32 steps_top;                  // of the states of its steps, the defender's
    std::uint64_t step = 0;  // j: first step whose result differs (the step that leads from S_{j-1} to S_j), or probed
    Hash32 history_root;     // probe games: the history S_{j-1} is opened under
    std::uint64_t probe_step = 0;  // probe games; j, unless the parties differ about a step before it
    Hash32 previous_state;         // S_{j-1}, agreed
    std::uint64_t slot = 0;
    std::vector<Hash32> slot_roots;  // of the differing slot, {defender's, rival's}
    std::uint64_t probe_node = 0;    // probe games
    std::uint64_t probe_tile = 0;
    std::vector<Hash32> trace_tops;  // {defender's, rival's}
    std::uint64_t node = 0;          // first differing node
    std::vector<Bytes> node_bytes;   // RLP of it and of its operands' nodes
    std::uint64_t tile = 0;
    std::vector<Hash32> tile_hashes;
    std::uint64_t micro_step = 0;
    std::vector<Hash32> micro_tops;
    std::vector<Hash32> micro_hashes;  // of the disputed micro-state
    std::uint32_t accumulator = 0;
    std::uint32_t element = 0;
    std::vector<std::uint32_t> values;  // claimed, {defender's, rival's}
    std::uint32_t true_value = 0;       // after the leaf was executed
    std::vector<std::uint64_t> budget;  // milliseconds left, {defender's, rival's}
    std::uint64_t charged_to = 0;       // market time up to which clocks are charged; kNotBegun: the game waits
    QUERN_FIELDS(v("context", context), v("probe", probe), v("phase", phase), v("verdict", verdict),
                 v("reason", reason), v("claims", claims), v("cursor", cursor), v("post", post), v("stride", stride),
                 v("strideRoots", stride_roots), v("stepsTop", steps_top), v("step", step),
                 v("historyRoot", history_root), v("probeStep", probe_step), v("previousState", previous_state),
                 v("slot", slot), v("slotRoots", slot_roots), v("probeNode", probe_node), v("probeTile", probe_tile),
                 v("traceTops", trace_tops), v("node", node), v("nodeBytes", node_bytes), v("tile", tile),
                 v("tileHashes", tile_hashes), v("microStep", micro_step), v("microTops", micro_tops),
                 v("microHashes", micro_hashes), v("accumulator", accumulator), v("element", element),
                 v("values", values), v("trueValue", true_value), v("budget", budget), v("chargedTo", charged_to))
};

// Opens a game about two different history roots over the same first state. Errors: dispute.equal_claims,
// dispute.bad_context.
[[nodiscard]] Expected<Game> open_history_game(const GameContext& context, const Hash32& defender_root,
                                               const Hash32& rival_root, std::uint64_t budget, std::uint64_t now);
// Opens a game about the hash of tile `tile` of node `node` in step `step` (of the plan) of the history `history_root`.
[[nodiscard]] Expected<Game> open_probe_game(const GameContext& context, const Hash32& history_root, std::uint64_t step,
                                             std::uint64_t node, std::uint64_t tile, const Hash32& defender_hash,
                                             const Hash32& rival_hash, std::uint64_t budget, std::uint64_t now);

// The last step of the plan that the history holds the result of.
[[nodiscard]] inline std::uint64_t last_step(const GameContext& context) {
    return context.before + (context.history_leaves - 1) * context.stride;
}
// Index in the history of the state before a step that is the first of its stride.
[[nodiscard]] inline std::uint64_t history_index(const GameContext& context, std::uint64_t step) {
    return (step - 1 - context.before) / context.stride;
}
// Whether the disputed step is the probed one, and not one before it in its stride.
[[nodiscard]] inline bool at_probe(const Game& game) { return game.probe && game.step == game.probe_step; }
// States in the tree of the phase `steps`: of the stride's steps; in a probe game of those before the probed one.
[[nodiscard]] std::uint64_t steps_leaf_count(const Game& game);
// The earliest step that may turn out to be the disputed one; 0 while nothing is known of it.
[[nodiscard]] std::uint64_t disputed_from(const Game& game);

// Starts the clocks of a game that waits, {defender's, rival's} milliseconds.
void begin_game(Game& game, std::array<std::uint64_t, 2> clocks, std::uint64_t now);
// Whether its clocks have been started. Moves are taken before, and none is owed.
[[nodiscard]] inline bool has_begun(const Game& game) { return game.charged_to != kNotBegun; }
[[nodiscard]] inline bool has_post(const Game& game) { return !game.post.is_zero(); }
// H(RLP of the post): what the state keeps of it.
[[nodiscard]] Hash32 post_hash(const SplitMove& post);
// Whether the game waits for `side`, whether or not it has begun; and whether it owes a move now (its clock runs).
[[nodiscard]] bool is_next(const Game& game, Side side);
[[nodiscard]] bool owes_move(const Game& game, Side side);
// Whether a move of `side` could be taken now: it is next, or either side may prove what decides the game (a leaf, an
// input).
[[nodiscard]] bool may_move(const Game& game, Side side);
// Charges clocks up to the market time `now`; decides the game when a budget is used up. The same in one call or in
// many.
void charge_clocks(Game& game, std::uint64_t now);
// Market time from which charge_clocks would decide, if nobody moves; 0 when the game is decided or
// has not begun.
[[nodiscard]] std::uint64_t next_deadline(const Game& game);

// Moves as the chain receives them: strict RLP of at most kMaxMoveBytes. Errors: dispute.move_too_large, rlp.*.
[[nodiscard]] Expected<SplitMove> decode_split_move(BytesView bytes);
[[nodiscard]] Expected<LeafWitness> decode_leaf_witness(BytesView bytes);

// Applies a side's move; the game is unchanged on error. Errors: dispute.decided, dispute.clock_ran_out (charge_clocks
// at this time decides the game: do that instead), dispute.wrong_phase, dispute.already_posted, dispute.no_post,
// dispute.unexpected_field, dispute.wrong_node_count, dispute.does_not_fold, dispute.bad_pick, dispute.not_first,
// dispute.no_difference, dispute.bad_opening, dispute.bad_path, dispute.not_anchored, dispute.bad_tile,
// dispute.bad_context, dispute.bad_game.
[[nodiscard]] Status apply_split(Game& game, Side side, const SplitMove& move, std::uint64_t now);
// Executes the leaf and decides. Anyone of the two may send it. Errors: dispute.decided, dispute.clock_ran_out,
// dispute.wrong_phase, dispute.bad_witness, leaf.missing_tile, dispute.bad_game.
[[nodiscard]] Status apply_leaf(Game& game, Side side, const LeafWitness& witness, std::uint64_t now);
// Errors: dispute.decided, dispute.clock_ran_out, dispute.bad_game.
[[nodiscard]] Status concede(Game& game, Side side, std::uint64_t now);

// In a game about a probe in which nobody has moved, so that nothing is tied to the claims: the defender's turns out to
// be `true_hash`, since what it told it was forced to alter. False: it claims something else.
[[nodiscard]] bool correct_probe(Game& game, const Hash32& told_hash, const Hash32& true_hash);

// Whether the vectors and numbers of a decoded game hang together; the functions above check it first, so a game from
// anywhere is safe to use. Error: dispute.bad_game.
[[nodiscard]] Status check_game(const Game& game);

// The program that the plan has for the disputed step; its first one while the step is not known, of which only what
// all agree in is read. Error: dispute.bad_game.
[[nodiscard]] Expected<PlanProgram> disputed_program(const Game& game);

// The node that the game has come to, with its operands' types: from the tile phase's first post on.
struct DisputedNode {
    vm::tensor::ProgramHeader header;
    vm::tensor::Node node;
    std::vector<vm::tensor::OperandType> operands;
    bool valid = false;  // check_node holds; else every element of the output is +0, in one micro-step
    std::uint64_t micro_steps = 1;
    std::size_t accumulators = 1;
};
// Error: dispute.wrong_phase before the node is known.
[[nodiscard]] Expected<DisputedNode> disputed_node(const Game& game);

}  // namespace quern::compute::core
