// Training histories: the roots of the states S_0, S_u, S_2u, … S_N of a task, their tree, and the manifest in which a
// solver publishes them with its checkpoints. Used by workers, verifiers and the chain (sizes, segments). Pure
// functions; thread-safe.
//
// Steps are numbered 1..N; step j leads from S_{j-1} to S_j. Stride s (1..N/u) is the steps (s-1)*u+1 .. s*u; nobody
// hashes a state inside one unless a dispute asks. With a checkpoint each k steps (a multiple of u), segment i
// (0-based) is the steps i*k+1 .. (i+1)*k, from checkpoint i (= S_{i*k}) to checkpoint i+1.
#pragma once

#include "base/bytes.h"
#include "base/expected.h"
#include "chain/market/work.h"

namespace quern::compute::core {

inline constexpr std::uint64_t kMaxStrides = 1U << 20;  // of a task
inline constexpr std::uint64_t kMaxStride = 1U << 20;   // steps of one
inline constexpr std::uint64_t kMaxSteps = kMaxStrides * kMaxStride;

// history_root = list_id(history, N/u + 1) over the state roots themselves.
[[nodiscard]] Hash32 history_root(std::span<const Hash32> state_roots);
// Siblings of leaf `index` (path for check_list_path with MerkleTag::history).
[[nodiscard]] std::vector<Hash32> history_path(std::span<const Hash32> state_roots, std::uint64_t index);
// Error merkle.*: `state_root` is not that after stride `index` (0: S_0) of the history of `strides` under `root`.
[[nodiscard]] Status check_history_leaf(const Hash32& root, const Hash32& state_root, std::uint64_t index,
                                        std::uint64_t strides, std::span<const Hash32> path);

using chain::market::segment_count;  // what a history is cut into is what its verifiers are paid for
using chain::market::stride_count;
// The stride that leads over a step (1..), and what it leads from: S_{first-1}.
[[nodiscard]] constexpr std::uint64_t stride_of(std::uint64_t step, std::uint64_t stride) {
    return (step - 1) / stride + 1;
}
[[nodiscard]] constexpr std::uint64_t first_step(std::uint64_t number, std::uint64_t stride) {
    return (number - 1) * stride + 1;
}
struct SegmentSteps {
    std::uint64_t first = 0;  // first step of the segment; its result is S_first
    std::uint64_t last = 0;
};
[[nodiscard]] constexpr SegmentSteps segment_steps(std::uint64_t segment, std::uint64_t interval) {
    return {segment * interval + 1, (segment + 1) * interval};
}

// What task_prove's history_content names. Serialised (RLP):
//   manifest = [format 2, steps N, interval k, stride u, roots (32 * (N/u + 1) bytes), contents (32 * (N/k + 1) bytes)]
struct HistoryManifest {
    std::uint64_t interval = 0;
    std::uint64_t stride = 1;
    std::vector<Hash32> state_roots;          // N/u + 1
    std::vector<Hash32> checkpoint_contents;  // content ids of S_0, S_k, S_2k, … S_N as safetensors: N/k + 1

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
