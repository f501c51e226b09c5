// What a replay of a proven training found, and the two forms in which it is kept on disk: a verifier's report, with
// what its commitment and reveal are made of, and a whistleblower's watch. Both are saved before the first transaction
// about them is sent, so that a restart says the same again. Plain values.
#pragma once

#include <memory>
#include <vector>

#include "base/expected.h"
#include "chain/types/fields.h"
#include "compute/core/verification_report.h"
#include "vm/tensor/graph.h"

namespace quern::compute::worker {

// Probe tiles that are kept beside their hashes, to tell forced errors from lies: 16 MiB of them at most.
inline constexpr std::size_t kMaxWatchedTiles = 4096;

// The wrong step of a history that nobody serves: it is another than what training comes to, nobody knows from where
// on.
inline constexpr std::uint64_t kWrongSomewhere = UINT64_MAX;

struct Finding {
    bool pass = true;
    std::uint64_t wrong_step = 0;           // last of the first stride that differs
    std::vector<Hash32> history;            // this worker's own roots, unless `pass`
    Hash32 secret;                          // a report's randomness; the salts of a watch's challenges follow from it
    std::vector<core::ProbeResult> probes;  // of a report, in the result tree's order
    // Of a report: the salts of challenges of its peers' follow from it. Not `secret`, which an opening shows.
    Hash32 peer_secret;
    // Of a watch: of all reports, in their order. Of a report: of its peers', in segments that both were drawn for.
    std::vector<Hash32> probe_hashes;
    std::vector<vm::tensor::Tile> probe_tiles;           // these tiles; none when there are more than kMaxWatchedTiles
    std::shared_ptr<const core::TaskPrograms> programs;  // of one that passes: to open nodes for challenges

    [[nodiscard]] Hash32 rival_root() const;  // zero when `pass`
};

struct SavedReport {
    bool pass = false;
    Hash32 rival_root;
    Hash32 randomness;
    Bytes history;     // the roots claimed when !pass
    Bytes probe_dims;  // 16 bytes each, big endian
    std::vector<std::uint64_t> probe_tiles;
    Bytes probe_words;  // 4,096 bytes each
    std::uint64_t wrong_step = 0;
    Hash32 peer_secret;
    Bytes peer_probes;  // hashes of the tiles that peers' reports must have told
    Bytes peer_words;   // these tiles
    QUERN_FIELDS(v("pass", pass), v("rivalRoot", rival_root), v("randomness", randomness), v("history", history),
                 v("probeDims", probe_dims), v("probeTiles", probe_tiles), v("probeWords", probe_words),
                 v("wrongStep", wrong_step), v("peerSecret", peer_secret), v("peerProbes", peer_probes),
                 v("peerWords", peer_words))
};
struct SavedWatch {
    std::uint64_t wrong_step = 0;
    Bytes history;  // this worker's own roots, when the history is wrong
    Bytes probes;   // hashes of all reports' probe tiles, in the order of the reports
    Hash32 secret;
    Bytes probe_words;  // of the tiles, 4,096 bytes each; empty when there are too many
    QUERN_FIELDS(v("wrongStep", wrong_step), v("history", history), v("probes", probes), v("secret", secret),
                 v("probeWords", probe_words))
};

[[nodiscard]] SavedReport pack_report(const Finding& finding);
[[nodiscard]] SavedWatch pack_watch(const Finding& finding);
// Errors (local faults: the file is this worker's own): worker.bad_saved_report, worker.bad_saved_watch.
[[nodiscard]] Expected<Finding> unpack(const SavedReport& saved);
[[nodiscard]] Expected<Finding> unpack(const SavedWatch& saved);

// 32-byte roots as one byte string and back, for records.
[[nodiscard]] Bytes join_roots(const std::vector<Hash32>& roots);
[[nodiscard]] std::vector<Hash32> split_roots(BytesView bytes);

}  // namespace quern::compute::worker
