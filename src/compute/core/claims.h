// Challenges of claims: their commitment and what a reveal opens. Used by whistleblowers (build) and the chain (check).
// Pure functions; thread-safe. RLP records; ChallengeRevealPayload::opening holds one of them, by target.
#pragma once

#include "chain/params/params.h"
#include "chain/types/native_tx.h"
#include "compute/core/program_opening.h"
#include "compute/core/verification_report.h"

namespace quern::compute::core {

// H(address || claim || salt), SHA-256: binds the sender, so that a copied commitment opens for nobody else.
[[nodiscard]] Hash32 challenge_commitment(const Address& challenger, const Hash32& claim, const Hash32& salt);

// What a challenge speaks of (ChallengeRevealPayload::target, Dispute::target):
//   0                the solver's history
//   1 + i            a probe tile of report i
//   kPassTarget + i  the PASS of report i: the solver's history, for the segments that its verifier was drawn for
inline constexpr std::uint32_t kPassTarget = 0x100;
static_assert(chain::params::kMaxVerifiers < kPassTarget, "or a probe of one report is the PASS of another");
[[nodiscard]] constexpr bool is_probe_target(std::uint32_t target) { return target != 0 && target < kPassTarget; }
[[nodiscard]] constexpr bool is_pass_target(std::uint32_t target) { return target >= kPassTarget; }
// Whose bond answers for what the defender says.
[[nodiscard]] constexpr chain::types::Role defender_role(std::uint32_t target) {
    return target == 0 ? chain::types::Role::solver : chain::types::Role::verifier;
}
// Index of the report that a target other than 0 speaks of.
[[nodiscard]] constexpr std::size_t target_report(std::uint32_t target) {
    return is_pass_target(target) ? target - kPassTarget : target - 1;
}

// target 0 and kPassTarget + i, claim = the rival history root: the state that the stretch begins with is its leaf 0.
struct HistoryChallenge {
    std::vector<Hash32> initial_path;
    QUERN_FIELDS(v("initialPath", initial_path))
};
// target 1 + i, claim = the rival hash of a probe tile of report i. Step, node and tile follow from the task's
// verify_beacon and the report's verifier; the node is opened for the number of its tiles.
struct ProbeChallenge {
    std::uint64_t segment = 0;
    std::uint32_t probe = 0;
    Hash32 tile_hash;          // the defender's ...
    std::vector<Hash32> path;  // ... as its leaf under the report's result root
    ProgramOpening node;
    QUERN_FIELDS(v("segment", segment), v("probe", probe), v("tileHash", tile_hash), v("path", path), v("node", node))
};
inline constexpr std::size_t kMaxChallengeBytes = 8U << 10;

// Strict decoding, bounded by kMaxChallengeBytes. Errors: challenge.too_large, rlp.*.
[[nodiscard]] Expected<HistoryChallenge> decode_history_challenge(BytesView bytes);
[[nodiscard]] Expected<ProbeChallenge> decode_probe_challenge(BytesView bytes);
[[nodiscard]] Bytes encode(const HistoryChallenge& challenge);
[[nodiscard]] Bytes encode(const ProbeChallenge& challenge);

// Errors: challenge.equal_claim, challenge.bad_initial_path.
[[nodiscard]] Status check_history_challenge(const HistoryChallenge& challenge, const Hash32& claim,
                                             const Hash32& defender_root, const Hash32& start_root,
                                             std::uint64_t strides);

// What the chain knows about a report when one of its probes is challenged.
struct ReportContext {
    const TaskPlan* plan = nullptr;  // outlives the call
    chain::market::Stretch stretch;  // of its claim
    Hash32 verify_beacon;
    Address verifier;
    Hash32 result_root;                   // of the opened leaf
    std::uint64_t interval = 0;           // k
    std::vector<std::uint64_t> segments;  // that its verifier replays
};
struct ProbeTarget {
    std::uint64_t step = 0;
    std::uint64_t node = 0;
    std::uint64_t tile = 0;
    Hash32 defender_hash;
};
// The arguments of open_probe_game. Errors: challenge.equal_claim, challenge.not_sampled, challenge.bad_probe_path,
// dispute.bad_opening.
[[nodiscard]] Expected<ProbeTarget> check_probe_challenge(const ProbeChallenge& challenge, const Hash32& claim,
                                                          const ReportContext& report);

}  // namespace quern::compute::core
