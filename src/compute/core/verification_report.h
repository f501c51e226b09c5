// What a verifier asserts and how it is sealed: the segments and probe tiles that the beacon gives it, its result tree,
// and the two-leaf commitment that leaves room for forced errors. Used by verifiers (build), the chain (draw, check)
// and whistleblowers (recompute). Pure functions; thread-safe. Definitions: doc/verification.md, "Verification
// reports".
//
//   result tree: leaf 0 = merkle_leaf(pass (0/1) || rival root), leaf 1 + i = hash of probe tile i, in order of
//                segments and of probes in a segment; result root = list_id(report, 1 + probes)
//   leaf_i       = H(blind_i || result root_i), i = 0, 1: one root is the truth, the other has the low bit of one
//                  element of one probe tile flipped; which, where and the blinds follow from r
//   commitment   = H(address || leaf_0 || leaf_1 || H(r)), H = SHA-256
// Probes of a report that fails the solver are taken from the verifier's own replay and cannot be challenged.
#pragma once

#include "chain/types/native_objects.h"
#include "compute/core/task_plan.h"
#include "vm/tensor/tensor.h"

namespace quern::compute::core {

using chain::types::Address;

inline constexpr std::uint32_t kProbesPerSegment = 2;
inline constexpr std::uint32_t kMaxSamples = 1U << 10;  // segments per verifier: a reveal stays below 70 KiB
inline constexpr std::uint32_t kMaxLargest = 16;        // of these, those that a proof names
inline constexpr std::uint32_t kUsualLargest = 4;       // that a submitter asks for who says nothing

// `samples` distinct segments of 0..segments-1 beside those in `largest`, and these, ascending; all of them when there
// are no more. Uniform over the subsets of the others (Floyd's sampling), drawn from H(beacon, address). `largest` is
// as check_largest has it.
[[nodiscard]] std::vector<std::uint64_t> draw_segments(const Hash32& verify_beacon, const Address& verifier,
                                                       std::uint64_t segments, std::uint64_t samples,
                                                       std::span<const std::uint64_t> largest = {});
// Whether a proof names min(`wanted`, segments) segments, ascending and each once. Which ones move most the chain does
// not know. Error prove.largest.
[[nodiscard]] Status check_largest(std::span<const std::uint64_t> largest, std::uint64_t wanted,
                                   std::uint64_t segments);
// What a verifier of the claim replays.
[[nodiscard]] std::vector<std::uint64_t> segments_of(const chain::types::Task& task, const chain::types::Claim& claim,
                                                     const Address& verifier);

// Probe `probe` of a segment: w = H(beacon, address, segment, probe) as 64-bit words;
// step = first + w0 mod k, node = w1 mod node count of the step's program (input nodes included), tile = w2 mod tiles
// of the node's output.
struct Probe {
    std::uint64_t segment = 0;
    std::uint32_t probe = 0;  // < kProbesPerSegment
    std::uint64_t step = 0;   // 1..N
    std::uint64_t node = 0;
    std::uint64_t tile_draw = 0;  // w2; the tile once the node is known: probe_tile()

    bool operator==(const Probe&) const = default;
};
// `segment` is one of the history's that begins after step `before` of the plan.
[[nodiscard]] Probe draw_probe(const Hash32& verify_beacon, const Address& verifier, std::uint64_t segment,
                               std::uint32_t probe, std::uint64_t interval, const TaskPlan& plan,
                               std::uint64_t before = 0);
[[nodiscard]] std::uint64_t probe_tile(const Probe& probe, const vm::tensor::Shape& node_shape);
// All probes of a report in the result tree's order: leaf of entry i is 1 + i.
[[nodiscard]] std::vector<Probe> draw_probes(const Hash32& verify_beacon, const Address& verifier,
                                             std::span<const std::uint64_t> segments, std::uint64_t interval,
                                             const TaskPlan& plan, std::uint64_t before = 0);

// --- The verifier's side ---------------------------------------------------------------------------------------------
struct ProbeResult {
    vm::tensor::Shape shape;  // of the node's output
    std::uint64_t tile = 0;
    vm::tensor::Tile words{};
};
// Everything of a report that the verifier keeps until it has opened all of it. What `r` (fresh, secret) decides is
// derived, so (r, results) rebuild it after a crash.
struct SealedReport {
    bool pass = false;
    Hash32 rival_root;  // zero when pass
    Hash32 randomness;  // r
    std::vector<Hash32> true_leaves;
    std::vector<Hash32> altered_leaves;
    std::size_t altered_probe = 0;       // among the probes ...
    vm::tensor::Tile altered_words{};    // ... whose true tile is this ...
    std::uint32_t altered_element = 0;   // ... and of which this word's low bit is flipped in the altered result
    std::uint8_t true_index = 0;         // which of leaf_0, leaf_1 holds the true root
    std::array<Hash32, 2> result_roots;  // by that index
    std::array<Hash32, 2> blinds;
    std::array<Hash32, 2> leaves;
    Hash32 commitment;
};
// Errors: verify.no_probes, verify.bad_verdict (a pass with a rival root or a fail without), verify.bad_probe.
[[nodiscard]] Expected<SealedReport> seal_report(const Address& verifier, bool pass, const Hash32& rival_root,
                                                 std::span<const ProbeResult> probes, const Hash32& randomness);
// The reveal transaction's payload, opening leaf `opened`.
[[nodiscard]] chain::types::VerifyRevealPayload make_reveal(const SealedReport& report, std::uint64_t task,
                                                            std::uint8_t opened, std::uint32_t stretch = 0);
// Leaves of a result tree from what a reveal shows: the verdict, then the probe tiles' hashes.
[[nodiscard]] std::vector<Hash32> result_leaves(bool pass, const Hash32& rival_root, std::span<const Hash32> probes);
// The opened tree's leaves (what answers challenges of probes).
[[nodiscard]] const std::vector<Hash32>& opened_leaves(const SealedReport& report, std::uint8_t opened);

// Which leaf to open when the beacon after the commitment forces an error, or does not.
[[nodiscard]] inline std::uint8_t choice_of(const SealedReport& report, bool is_forced) {
    return static_cast<std::uint8_t>(is_forced ? 1 - report.true_index : report.true_index);
}
// The payload that shows what was told: of a report that opened leaf `opened`.
[[nodiscard]] chain::types::ReportOpenPayload make_opening(const SealedReport& report, std::uint64_t task,
                                                           std::uint8_t opened, std::uint32_t stretch = 0);

// --- The watcher's side ----------------------------------------------------------------------------------------------
// What a watcher's VRF is asked about: H("quern.watch" || the beacon that forces errors || what the keys of the
// report's watches begin with); `draw` is the claim's number of draws.
[[nodiscard]] Hash32 watch_message(const Hash32& forced_beacon, const chain::types::ClaimId& claim, std::uint64_t draw,
                                   std::uint8_t place);
// H(address || true result root || salt).
[[nodiscard]] Hash32 watch_seal(const Address& watcher, const Hash32& root, const Hash32& salt);
// Whether `told` may be `tile` as a forced error alters it: with the low bit of one word flipped.
[[nodiscard]] bool is_alteration(const Hash32& told, const vm::tensor::Tile& tile);

// --- The chain's side ------------------------------------------------------------------------------------------------
// Whether the payload opens `commitment` of `verifier` for a report over `segments` segments. Errors:
// verify.bad_opened, verify.bad_verdict, verify.bad_commitment, verify.bad_probe_count, verify.bad_result_root.
[[nodiscard]] Status check_reveal(const Address& verifier, const Hash32& commitment,
                                  const chain::types::VerifyRevealPayload& reveal, std::uint64_t segments);

struct Ratio {
    std::uint64_t numerator = 0;
    std::uint64_t denominator = 1;
};
// p_f of a chain with this forced_error_inverse.
[[nodiscard]] constexpr Ratio forced_probability(std::uint64_t inverse) {
    return inverse == 0 ? Ratio{} : Ratio{1, inverse};
}
// What an opening shows.
struct OpenedChoice {
    bool forced = false;  // had to tell the altered result
    bool right = false;   // told what it had to
    // Of the altered probe, when that was told as it had to be: its place among the report's, and its tile's hashes.
    std::size_t probe = 0;
    Hash32 true_hash;
    Hash32 told_hash;
};
// Of a report over `segments` segments that opened leaf `opened`, with this result root and the other leaf. Errors:
// verify.bad_opening: the randomness is not that of the commitment, or what shows the alteration does not.
[[nodiscard]] Expected<OpenedChoice> check_opening(const Address& verifier, const chain::types::VerifierReport& report,
                                                   const chain::types::ReportOpenPayload& opening,
                                                   std::uint64_t segments, const Hash32& beacon,
                                                   const Ratio& probability);

// Of the result that a report answers for: the one it told or, once it has shown that it had to alter that, the true
// one.
[[nodiscard]] inline const Hash32& answered_root(const chain::types::VerifierReport& report) {
    return report.choice == chain::types::ReportChoice::forced ? report.true_root : report.result_root;
}

// Whether the report must open the altered root: H(r || beacon) as a number below the share `probability`. The beacon
// is one drawn after the commitment. Probability 0 never forces.
[[nodiscard]] bool forced(const Hash32& randomness, const Hash32& beacon, const Ratio& probability);

}  // namespace quern::compute::core
