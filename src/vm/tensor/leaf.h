// The smallest thing the chain ever executes: one element of one micro-step of one tile of one node, in integer-only
// arithmetic, from tiles that a Merkle proof brought in. Used by the dispute handlers and by workers, who build the
// witness. Pure; thread-safe. Definitions: doc/verification.md, "Micro-steps" and "Leaf".
//
// Micro-steps of an output tile. The state between two of them is up to two accumulator tiles:
//   matmul            one per 32 of the inner dim, sum_rows one per 32 rows, scatter_add_rows one per 32 positions:
//                     the partial sum's chain goes on; after the 8th of a block of 256, or the last, total += partial
//                     and partial = +0.                              accumulators {total, partial}
//                     (the last one's total is the output tile; its partial is +0)
//   imatmul           per strip of 256 of the inner dim one per 32 of it, partial += the products of bytes (i32), then
//                     one: total += partial times both scales and partial = 0.               accumulators {total,
//                     partial}
//   sum_last/max_last one per source tile along the row: lanes op= columns; then one fold.   {lanes or output}
//   kth_last          for bit 31 to 0, with the candidate found | bit: one per source tile along the row, lanes +=
//   words
//                     that are not below it; then a fold: found = candidate where the lanes sum to k or more, and lanes
//                     = +0.                                                                 {found, lanes}
//   everything else   one: the output tile.                                                  {output}
// The accumulators before the first are +0, for max_last's lanes -inf (all 1,024 words). Words that lie outside the
// output keep that to the end; of the lanes, which are 32 words for each of the output's rows whatever the shape of its
// tiles, those without a row keep it until the fold and are +0 after it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "vm/tensor/graph.h"
#include "vm/tensor/tensor.h"

namespace quern::vm::tensor {

struct MicroState {
    std::vector<Tile> accumulators;  // 1 or 2
    bool operator==(const MicroState&) const = default;
};

[[nodiscard]] std::size_t accumulator_count(const Node& node);
// Number of micro-steps of each output tile of the node; at least 1.
[[nodiscard]] std::uint64_t micro_step_count(const Node& node, std::span<const OperandType> inputs);
[[nodiscard]] MicroState initial_micro_state(const Node& node);
// list_id(micro) over the accumulators' tile hashes: a leaf of the micro-trace. For a node with one
// accumulator and one micro-step nothing else is ever asked for.
[[nodiscard]] Hash32 micro_state_hash(const MicroState& state);
// The states after micro-steps 0 .. count-1 of output tile `tile`, from whole inputs: not of nodes that read something
// else (inputs, windows), whose one state is the tile of their output, and here +0.
[[nodiscard]] std::vector<MicroState> micro_trace(const Node& node, std::span<const Tensor* const> inputs,
                                                  std::uint64_t tile);
// The same one after the other, of which none is kept, until `take` says that it wants no more.
using TakeMicroState = std::function<bool(const MicroState&)>;
void each_micro_state(const Node& node, std::span<const Tensor* const> inputs, std::uint64_t tile,
                      const TakeMicroState& take);

// Which input tiles a given output element of a given micro-step reads, in order, at most kMaxLeafTiles. A
// data-dependent read (gather_rows) needs the index tile first: `known` serves tiles that are there already.
inline constexpr std::size_t kMaxLeafTiles = 3;
// Of a window node: the data tensor, behind its operand. Its tiles are those of its content (data.h).
inline constexpr std::uint32_t kDataOperand = 1;
struct TileRead {
    std::uint32_t operand = 0;  // which input of the node
    std::uint64_t tile = 0;     // its tile number
    bool operator==(const TileRead&) const = default;
};
// Serves tile contents to evaluate_leaf; nullptr when the witness lacks it.
class TileSource {
public:
    virtual ~TileSource() = default;
    [[nodiscard]] virtual const Tile* tile(const TileRead& read) const = 0;
};
struct LeafTarget {
    std::uint64_t tile = 0;         // output tile number
    std::uint64_t micro_step = 0;   // < micro_step_count
    std::uint32_t accumulator = 0;  // < accumulator_count
    std::uint32_t element = 0;      // < 1,024: word of the tile
};
// The value of the target element after the micro-step, from the accumulators before it and the input tiles it reads.
// Total: a node that does not pass check_node evaluates to +0. Integer-only. Errors: leaf.missing_tile names the tile
// that `source` lacks; leaf.input_node; leaf.unknown_op (no program that was decoded has one).
[[nodiscard]] Expected<std::uint32_t> evaluate_leaf(const Node& node, const ProgramHeader& header,
                                                    std::span<const OperandType> inputs, const LeafTarget& target,
                                                    const MicroState& before, const TileSource& source);
// The reads that evaluate_leaf makes for the target, given whole inputs: what a witness must hold. Not of a window
// node: none.
[[nodiscard]] std::vector<TileRead> leaf_reads(const Node& node, std::span<const Tensor* const> inputs,
                                               const LeafTarget& target);

}  // namespace quern::vm::tensor
