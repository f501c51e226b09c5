// Training histories: the roots of the states S_a, S_{a+u}, S_{a+2u}, … S_b of a stretch of a task's work, their tree,
// and the manifest in which a solver publishes them with its checkpoints. Used by workers, verifiers and the chain
// (sizes, segments). Pure functions; thread-safe.
//
// Steps are numbered 1..N; step j leads from S_{j-1} to S_j. A history of n = b - a steps, by default all (a = 0, n =
// N), counts from its beginning: stride s (1..n/u) is the steps a+(s-1)*u+1 .. a+s*u; nobody hashes a state inside one
// unless a dispute asks. With a checkpoint each k steps (a multiple of u), segment i (0-based) is the steps
// a+i*k+1 .. a+(i+1)*k, from checkpoint i (= S_{a+i*k}) to checkpoint i+1. `before` is a.
#pragma once

#include "base/bytes.h"
#include "base/expected.h"
#include "chain/market/work.h"

namespace quern::compute::core {

inline constexpr std::uint64_t kMaxStrides = 1U << 20;    // of a stretch of work
inline constexpr std::uint64_t kMaxStretches = 1U << 20;  // of a task
inline constexpr std::uint64_t kMaxStride = 1U << 20;     // steps of one
inline constexpr std::uint64_t kMaxSteps = kMaxStrides * kMaxStride;

// history_root = list_id(history, n/u + 1) over the state roots themselves.
[[nodiscard]] Hash32 history_root(std::span<const Hash32> state_roots);
// Siblings of leaf `index` (path for check_list_path with MerkleTag::history).
[[nodiscard]] std::vector<Hash32> history_path(std::span<const Hash32> state_roots, std::uint64_t index);
// Error merkle.*: `state_root` is not that after stride `index` (0: S_a) of the history of `strides` under `root`.
[[nodiscard]] Status check_history_leaf(const Hash32& root, const Hash32& state_root, std::uint64_t index,
                                        std::uint64_t strides, std::span<const Hash32> path);

using chain::market::segment_count;  // what a history is cut into is what its verifiers are paid for
using chain::market::stride_count;
// The stride that leads over a step (1..), and what it leads from: S_{first-1}.
[[nodiscard]] constexpr std::uint64_t stride_of(std::uint64_t step, std::uint64_t stride, std::uint64_t before = 0) {
    return (step - before - 1) / stride + 1;
}
[[nodiscard]] constexpr std::uint64_t first_step(std::uint64_t number, std::uint64_t stride, std::uint64_t before = 0) {
    return before + (number - 1) * stride + 1;
}
struct SegmentSteps {
    std::uint64_t first = 0;  // first step of the segment; its result is S_first
    std::uint64_t last = 0;
};
[[nodiscard]] constexpr SegmentSteps segment_steps(std::uint64_t segment, std::uint64_t interval,
                                                   std::uint64_t before = 0) {
    return {before + segment * interval + 1, before + (segment + 1) * interval};
}
// The segment of a step.
[[nodiscard]] constexpr std::uint64_t segment_of(std::uint64_t step, std::uint64_t interval, std::uint64_t before) {
    return (step - before - 1) / interval;
}

// What task_prove's history_content names. Serialised (RLP):
//   manifest = [format 2, steps n, interval k, stride u, roots (32 * (n/u + 1) bytes), contents (32 * (n/k + 1) bytes)]
struct HistoryManifest {
    std::uint64_t interval = 0;
    std::uint64_t stride = 1;
    std::vector<Hash32> state_roots;          // n/u + 1
    std::vector<Hash32> checkpoint_contents;  // state contents of S_a, S_{a+k}, … S_b: n/k + 1

    bool operator==(const HistoryManifest&) const = default;
    [[nodiscard]] std::uint64_t steps() const { return state_roots.empty() ? 0 : (state_roots.size() - 1) * stride; }
};
inline constexpr std::size_t kMaxManifestBytes = 64 * (kMaxStrides + 1) + 64;

// Errors: history.wrong_counts.
[[nodiscard]] Status check_manifest(const HistoryManifest& manifest);
[[nodiscard]] Bytes encode(const HistoryManifest& manifest);
// Strict. Errors: history.too_large, history.unknown_format, history.wrong_counts, rlp.*.
[[nodiscard]] Expected<HistoryManifest> decode_manifest(BytesView bytes);

}  // namespace quern::compute::core
