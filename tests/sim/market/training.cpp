#include "sim/market/training.h"

#include <algorithm>
#include <bit>

#include "crypto/merkle.h"

namespace quern::sim::market {
namespace {

namespace tensor = vm::tensor;
constexpr std::uint32_t kFakeMask = 1U << 18;  // of the loss' mantissa: no sum of steps leads there
constexpr float kStep = 1.5F;                  // what a step of TinyProgram adds

std::uint32_t after_step(std::uint32_t loss) {
    return std::bit_cast<std::uint32_t>(std::bit_cast<float>(loss) + kStep);
}

}  // namespace

Training::Training(std::uint64_t segments, std::uint64_t interval)
    : segments_(segments),
      interval_(interval),
      programs_(&exec::test::tiny().programs(segments * interval)),
      truth_(exec::test::compute_history(*programs_)),
      prover_(programs_->any()) {}

void Training::roots_of(History& history) const { history.root = core::history_root(history.roots); }

History Training::with_faked(const Segments& faked) const {
    History history = truth_;
    if (faked.empty()) return history;
    for (std::uint64_t step = *faked.begin() * interval_ + 1; step < history.states.size(); ++step) {
        auto& word = history.states[step][0].words[0];
        word = after_step(history.states[step - 1][0].words[0]);
        if (step % interval_ == 0 && faked.contains(segment_of(step))) word ^= kFakeMask;
        history.step_roots[step] = history.roots[step] = tensor::state_root(history.states[step]);
    }
    roots_of(history);
    return history;
}

History Training::replayed(const History& claimed, std::uint64_t segment) const {
    History history = claimed;
    for (std::uint64_t step = segment * interval_ + 1; step <= (segment + 1) * interval_; ++step) {
        history.states[step][0].words[0] = after_step(history.states[step - 1][0].words[0]);
        history.step_roots[step] = history.roots[step] = tensor::state_root(history.states[step]);
    }
    roots_of(history);
    return history;
}

core::DisputeParty Training::party(const TaskClaim& live, const History& history, const Segments& faked) const {
    auto party = exec::test::party_of(live, history);
    if (faked.empty()) return party;
    party.alter = [this, faked](std::uint64_t step, std::uint32_t node, tensor::Tensor& output) {
        if (step % interval_ == 0 && faked.contains(segment_of(step)) && node == programs_->at(step).updates.front())
            output.words[0] ^= kFakeMask;
    };
    return party;
}

std::vector<std::uint64_t> Training::drawn(const TaskClaim& live, const types::Address& verifier) const {
    return core::segments_of(live.task, live.claim, verifier);
}

bool Training::is_public(const core::Probe& probe) const {
    const auto& program = programs_->at(probe.step);
    const auto op = program.nodes[probe.node].op;
    if (op == tensor::Op::full) return true;
    if (op == tensor::Op::slot) return (probe.step - 1) % interval_ == 0;
    return probe.node == program.updates.front() && probe.step % interval_ == 0;
}

Training::Report Training::report(const TaskClaim& live, const types::Address& verifier, const History& history,
                                  bool pass, const Hash32& rival_root, Tiles tiles, Rng& rng) const {
    Report report;
    report.probes =
        core::draw_probes(live.claim.verify_beacon, verifier, drawn(live, verifier), interval_, programs_->plan, 0);
    for (const auto& probe : report.probes) {
        tensor::Executor executor(programs_->at(probe.step), tensor::arith::Backend::scalar, nullptr);
        const auto outputs = executor.run_all(history.states[probe.step - 1], exec::test::tiny().data,
                                              tensor::seed_tensor(live.claim.seed_beacon));
        core::ProbeResult result;
        result.words = tensor::read_tile(outputs[probe.node], 0);
        // Two bits of one word: no forced error looks like it.
        if (tiles == Tiles::made_up || (tiles == Tiles::copied && !is_public(probe))) result.words[0] ^= 6U;
        report.results.push_back(result);
    }
    Hash32 secret;
    rng.fill(secret.data);
    report.sealed = *core::seal_report(verifier, pass, rival_root, report.results, secret);
    return report;
}

Bytes Training::probe_opening(const Report& report, std::uint8_t opened, std::size_t place) const {
    const auto& told = core::opened_leaves(report.sealed, opened);
    core::ProbeChallenge challenge;
    challenge.segment = report.probes[place].segment;
    challenge.probe = report.probes[place].probe;
    challenge.tile_hash = told[1 + place];
    challenge.path = crypto::merkle_path(told, 1 + place);
    challenge.node = prover_.node(report.probes[place].node);
    return core::encode(challenge);
}

}  // namespace quern::sim::market
