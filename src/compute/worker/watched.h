// What reports tell beside what this worker has computed of them, and what of that is worth an accusation. Of all
// probes of all reports who watches a claim, of those in segments that it was drawn for, too, a verifier. Used by
// decide.h and by replays, which compute the probes in the order that is defined here. Pure.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "chain/types/native_objects.h"
#include "compute/worker/finding.h"

namespace quern::compute::worker {

// The result root of a report that has revealed these probes.
[[nodiscard]] Hash32 result_root_of(const chain::types::VerifierReport& report, std::span<const Hash32> probes);

// The probes of a report, in its result tree's order.
[[nodiscard]] std::vector<core::Probe> probes_of(const chain::types::TaskClaim& live,
                                                 const chain::types::Address& verifier, const core::TaskPlan& plan);
// The same with their places in it.
struct NumberedProbe {
    std::size_t place = 0;
    core::Probe probe;
};
[[nodiscard]] std::vector<NumberedProbe> numbered_probes_of(const chain::types::TaskClaim& live,
                                                            const chain::types::Address& verifier,
                                                            const core::TaskPlan& plan);
// Of a peer's report those in segments that the verifier replays, too; none of its own.
[[nodiscard]] std::vector<NumberedProbe> peer_probes(const chain::types::TaskClaim& live,
                                                     const chain::types::Address& verifier,
                                                     const chain::types::Address& peer, const core::TaskPlan& plan);

// A PASS that was revealed, and what this worker computed of it. Points into claim and finding.
struct Watched {
    const chain::types::VerifierReport* report = nullptr;
    std::shared_ptr<const core::TaskPrograms> programs;
    std::vector<NumberedProbe> probes;        // those that were computed
    std::span<const Hash32> hashes;           // of their tiles
    std::span<const vm::tensor::Tile> tiles;  // none: they were too many to keep
    std::optional<Hash32> root;               // of the true result, of who computed all
};
[[nodiscard]] bool has_passed(const chain::types::VerifierReport& report);
// `verifier`: who has found it with its own report, in segments that it shares with others; else it watched all.
[[nodiscard]] std::vector<Watched> watched_reports(const chain::types::TaskClaim& live, const Finding& finding,
                                                   std::optional<chain::types::Address> verifier = {});

// Which of the probes that were computed a report tells otherwise, in their order. `told`: what it has revealed.
[[nodiscard]] std::vector<std::size_t> differences(const Watched& watched, std::span<const Hash32> told);
// Whether the verifier may have had to tell this: an alteration is of one probe. Where there are no tiles to compare,
// any that stands alone may be one.
[[nodiscard]] bool may_be_forced(const chain::types::Claim& claim, const Watched& watched, std::span<const Hash32> told,
                                 std::span<const std::size_t> wrong);
// Takes the alteration that was shown out of what the report has told. False: what it calls the truth of that probe is
// not what was computed here, if it was.
[[nodiscard]] bool put_right(std::vector<Hash32>& told, const Watched& watched);

// What a challenge says (chain/types, ChallengeRevealPayload).
struct Accusation {
    std::uint32_t target = 0;
    Hash32 claim;
    Bytes opening;
    // False: there is nothing to accuse any more, and what was committed before gets its stake back.
    bool stands = true;
};
// Of one of the probes that differ: not one that its verifier may be able to take back as forced, if there is another.
[[nodiscard]] Accusation accuse(const Watched& watched, std::span<const Hash32> told,
                                std::span<const std::size_t> wrong);

}  // namespace quern::compute::worker
