// What a tapped run (executor.h) shows of each node while its output and its operands are alive, and what verifiers and
// disputants make of it without keeping an output: single tiles, tile hashes, the micro-trace of a tile, a leaf's
// reads. Values of a tap are valid during its call only. Pure; thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "vm/tensor/data.h"
#include "vm/tensor/leaf.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor {

// A tensor whose words lie in a buffer of the run, in any order: that of an operand, where the node is read in place.
struct TensorView {
    DType dtype = DType::f32;
    View view;

    [[nodiscard]] const Shape& shape() const { return view.shape; }
};

struct TappedNode {
    std::uint32_t number = 0;
    const Node* node = nullptr;
    TensorView output;  // as altered, in a run with alterations
    std::span<const TensorView> operands;
};
using Tap = std::function<void(const TappedNode&)>;

// As of a Tensor with the same elements.
[[nodiscard]] Tile read_tile(const TensorView& tensor, std::uint64_t tile);
// Tiles hashed between two looks at a cancellation, after whose request these results are of no use: 1 MiB.
inline constexpr std::size_t kHashBatch = 256;
[[nodiscard]] std::vector<Hash32> tile_hashes(const TensorView& tensor, ThreadPool* pool,
                                              const Cancellation* cancellation = nullptr);
[[nodiscard]] Hash32 tensor_root(const TensorView& tensor, ThreadPool* pool,
                                 const Cancellation* cancellation = nullptr);

// The micro-trace of output tile `tile`, whose last state holds the output's own tile: of an altered output the altered
// one. Copies the rows and columns of the operands that the tile is made of, no whole operand.
[[nodiscard]] std::vector<MicroState> micro_trace(const TappedNode& tapped, std::uint64_t tile);
// The same one after the other, until `take` says that it wants no more.
void each_micro_state(const TappedNode& tapped, std::uint64_t tile, const TakeMicroState& take);
// What the states of one micro-trace of a node's take, and what the copies that it is made from take at most.
[[nodiscard]] std::uint64_t micro_state_bytes(const Node& node, std::span<const OperandType> operands);
[[nodiscard]] std::uint64_t micro_copy_bytes(const Node& node, std::span<const OperandType> operands);

// evaluate_leaf on the operands of a tapped node, with the tiles that it has read, in order.
struct TappedLeaf {
    std::uint32_t value = 0;
    std::deque<std::pair<TileRead, Tile>> tiles;  // of data packed (data.h)
};
// Errors: those of evaluate_leaf, of which leaf.missing_tile means that `data` has the tile not.
[[nodiscard]] Expected<TappedLeaf> evaluate_leaf(const TappedNode& tapped, const ProgramHeader& header,
                                                 const LeafTarget& target, const MicroState& before,
                                                 const DataSource& data);

}  // namespace quern::vm::tensor
