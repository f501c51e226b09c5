// What the parties of a market simulation compute: the true training of a small plan, what solvers make up of it, and
// reports about either. What it costs is counted in work units by whoever asks; here it is microseconds.
#pragma once

#include <set>

#include "base/rng.h"
#include "sim/market/chain.h"

namespace quern::sim::market {

using Segments = std::set<std::uint64_t>;

// How a report's tiles come about.
enum class Tiles {
    executed,
    copied,   // from what is public without executing: constants, and the states that segments begin and end with
    made_up,  // none is right
};

class Training {
public:
    Training(std::uint64_t segments, std::uint64_t interval);

    [[nodiscard]] const core::TaskPrograms& programs() const { return *programs_; }
    [[nodiscard]] const History& truth() const { return truth_; }
    [[nodiscard]] std::uint64_t segments() const { return segments_; }
    [[nodiscard]] std::uint64_t interval() const { return interval_; }
    // The segment of a step, from 1 on.
    [[nodiscard]] std::uint64_t segment_of(std::uint64_t step) const { return (step - 1) / interval_; }

    // A history in which these segments end in a state that no execution leads to; what follows is consistent.
    [[nodiscard]] History with_faked(const Segments& faked) const;
    // What somebody has that executes one segment from the state which `claimed` begins it with, and takes the rest as
    // it is claimed.
    [[nodiscard]] History replayed(const History& claimed, std::uint64_t segment) const;
    // A party that stands for `history`, which outlives it, and has made up these segments of it.
    [[nodiscard]] core::DisputeParty party(const TaskClaim& live, const History& history,
                                           const Segments& faked = {}) const;

    // The segments that a verifier is drawn for.
    [[nodiscard]] std::vector<std::uint64_t> drawn(const TaskClaim& live, const types::Address& verifier) const;
    struct Report {
        core::SealedReport sealed;
        std::vector<core::Probe> probes;
        std::vector<core::ProbeResult> results;
    };
    [[nodiscard]] Report report(const TaskClaim& live, const types::Address& verifier, const History& history,
                                bool pass, const Hash32& rival_root, Tiles tiles, Rng& rng) const;
    // Of probe `place` of a report that opened leaf `opened`.
    [[nodiscard]] Bytes probe_opening(const Report& report, std::uint8_t opened, std::size_t place) const;

private:
    void roots_of(History& history) const;
    [[nodiscard]] bool is_public(const core::Probe& probe) const;

    std::uint64_t segments_;
    std::uint64_t interval_;
    const core::TaskPrograms* programs_;
    History truth_;
    core::ProgramProver prover_;
};

}  // namespace quern::sim::market
