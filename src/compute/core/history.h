// Training histories: the state roots S_0 … S_N of a task, their tree, and the manifest in which a solver publishes
// them with its checkpoints. Used by workers, verifiers and the chain (sizes, segments). Pure functions; thread-safe.
//
// Steps are numbered 1..N; step j leads from S_{j-1} to S_j. With a checkpoint each k steps, segment i (0-based) is the
// steps i*k+1 .. (i+1)*k, from checkpoint i (= S_{i*k}) to checkpoint i+1.
#pragma once

#include "base/bytes.h"
#include "base/expected.h"
#include "chain/market/work.h"

namespace quern::compute::core {

inline constexpr std::uint64_t kMaxSteps = 1U << 20;

// history_root = list_id(history, N + 1) over the state roots themselves.
[[nodiscard]] Hash32 history_root(std::span<const Hash32> state_roots);
// Siblings of leaf `index` (path for check_list_path with MerkleTag::history).
[[nodiscard]] std::vector<Hash32> history_path(std::span<const Hash32> state_roots, std::uint64_t index);
// Error merkle.*: `state_root` is not S_index of the history of `steps` steps under `root`.
[[nodiscard]] Status check_history_leaf(const Hash32& root, const Hash32& state_root, std::uint64_t index,
                                        std::uint64_t steps, std::span<const Hash32> path);

using chain::market::segment_count;  // what a history is cut into is what its verifiers are paid for
struct SegmentSteps {
    std::uint64_t first = 0;  // first step of the segment; its result is S_first
    std::uint64_t last = 0;
};
[[nodiscard]] constexpr SegmentSteps segment_steps(std::uint64_t segment, std::uint64_t interval) {
    return {segment * interval + 1, (segment + 1) * interval};
}

// What task_prove's history_content names. Serialised (RLP):
//   manifest = [format 1, steps N, interval k, roots (32 * (N+1) bytes), contents (32 * (N/k + 1) bytes)]
struct HistoryManifest {
    std::uint64_t interval = 0;
    std::vector<Hash32> state_roots;          // N + 1
    std::vector<Hash32> checkpoint_contents;  // content ids of S_0, S_k, S_2k, … S_N as safetensors: N/k + 1

    bool operator==(const HistoryManifest&) const = default;
    [[nodiscard]] std::uint64_t steps() const { return state_roots.empty() ? 0 : state_roots.size() - 1; }
};
inline constexpr std::size_t kMaxManifestBytes = 64 * (kMaxSteps + 1) + 64;

// Errors: history.wrong_counts.
[[nodiscard]] Status check_manifest(const HistoryManifest& manifest);
[[nodiscard]] Bytes encode(const HistoryManifest& manifest);
// Strict. Errors: history.too_large, history.unknown_format, history.wrong_counts, rlp.*.
[[nodiscard]] Expected<HistoryManifest> decode_manifest(BytesView bytes);

}  // namespace quern::compute::core
