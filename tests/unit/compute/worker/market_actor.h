// Parties of a market that do what decide() says, on the chain of the handlers' tests: what work would have found out
// is computed from histories that are known beforehand.
#pragma once

#include "compute/worker/decide.h"
#include "lifecycle_fixture.h"

namespace quern::compute::worker::test {

using namespace chain::exec::test;

// Last step of the first stride in which a history that is claimed is another than what was replayed.
inline std::uint64_t wrong_step_of(const TaskClaim& live, const History& replayed, const History& claimed) {
    std::size_t wrong = chain::market::stretch_of(live).before / replayed.stride;
    while (replayed.roots[wrong] == claimed.roots[wrong]) ++wrong;
    return wrong * replayed.stride;
}

// What a verifier finds that replayed `replayed`; `claimed`: the solver's history, where it matters.
inline std::shared_ptr<const Finding> report_of(const TaskClaim& live, const Address& verifier, const History& replayed,
                                                const History* claimed = nullptr) {
    const auto stretch = chain::market::stretch_of(live);
    auto finding = std::make_shared<Finding>();
    finding->pass = replayed.root_of(stretch) == live.claim.history_root;
    if (!finding->pass) {
        finding->history = replayed.roots_of(stretch);
        finding->wrong_step =
            claimed == nullptr ? stretch.before + replayed.stride : wrong_step_of(live, replayed, *claimed);
    }
    finding->secret = crypto::sha256(as_bytes("secret of " + to_hex(verifier)));
    finding->peer_secret = crypto::sha256(as_bytes("salts of " + to_hex(verifier)));
    const auto compute = [&](const core::Probe& probe) -> core::ProbeResult {
        tensor::Executor executor(replayed.programs->at(probe.step), tensor::arith::Backend::scalar, nullptr);
        const auto outputs =
            executor.run_all(replayed.states[probe.step - 1], tiny().data, tensor::seed_tensor(live.claim.seed_beacon));
        const auto& output = outputs[probe.node];
        const std::uint64_t tile = core::probe_tile(probe, output.shape);
        return {output.shape, tile, tensor::read_tile(output, tile)};
    };
    const auto& plan = replayed.programs->plan;
    for (const auto& probe : probes_of(live, verifier, plan)) finding->probes.push_back(compute(probe));
    if (!finding->pass) return finding;
    for (const auto& report : live.reports)
        for (const auto& peers : peer_probes(live, verifier, report.verifier, plan)) {
            finding->probe_tiles.push_back(compute(peers.probe).words);
            finding->probe_hashes.push_back(tensor::tile_hash(finding->probe_tiles.back()));
        }
    finding->programs = std::make_shared<const core::TaskPrograms>(*replayed.programs);
    return finding;
}

// What a whistleblower finds that replayed `replayed` beside the history `claimed`.
inline std::shared_ptr<const Finding> watch_of(const TaskClaim& live, const History& replayed, const History& claimed) {
    const auto stretch = chain::market::stretch_of(live);
    auto finding = std::make_shared<Finding>();
    finding->pass = replayed.root_of(stretch) == claimed.root_of(stretch);
    finding->secret = crypto::sha256(as_bytes("secret of the watch " + std::to_string(stretch.before)));
    if (!finding->pass) {
        finding->history = replayed.roots_of(stretch);
        finding->wrong_step = wrong_step_of(live, replayed, claimed);
        return finding;
    }
    for (const auto& report : live.reports) {
        const auto own = report_of(live, report.verifier, replayed);
        for (const auto& probe : own->probes) {
            finding->probe_hashes.push_back(tensor::tile_hash(probe.words));
            finding->probe_tiles.push_back(probe.words);
        }
    }
    finding->programs = std::make_shared<const core::TaskPrograms>(*replayed.programs);
    return finding;
}

class Actor {
public:
    // Stands for `claim`, and finds it when it replays.
    Actor(const Address& address, const History& claim) : claim_(&claim) {
        me.address = address;
        me.max_memory_mib = 4096;
        me.ticks = false;
    }

    [[nodiscard]] View view(const World& world, const TaskClaim& live, std::uint64_t height) const {
        // `height` above the world's: as late as a worker may act that counts on the blocks' pace here.
        const std::uint64_t ahead = height - world.height;
        const std::uint64_t later_ms = ahead == 0 ? 0 : (ahead + 1) * world.block_ms - 1;
        View view{height, world.market_ms() + later_ms, live, {true, {}}, trained(live), {}, {}, {}, true, {}};
        view.kept = kept;
        view.profiled = profiled;
        view.covers_profile = covers_profile;
        view.gas_price = gas_price;
        const bool drawn = !live.claim.verify_beacon.is_zero();
        if (drawn) view.report.finding = report_of(live, me.address, *claim_, published);
        if (drawn && published != nullptr) view.watch.finding = watch_of(live, *claim_, *published);
        for (const std::uint64_t id : live.claim.disputes) view.disputes.push_back(dispute(world, live, id));
        for (const auto& report : live.reports)
            if (const auto told = world.probes.find(report.result_root); told != world.probes.end() && knows_probes)
                view.probes[told->first] = std::make_shared<const std::vector<Hash32>>(told->second);
        return view;
    }
    [[nodiscard]] View view(const World& world, const TaskClaim& live) const { return view(world, live, world.height); }

    [[nodiscard]] std::vector<Action> decide(const World& world, std::uint64_t id) const {
        const TaskClaim live = world.live(id);
        return worker::decide(me, view(world, live));
    }

    Me me;
    const History* published = nullptr;  // the solver's history, for those who look for a lie in it
    Kept kept;                           // as a custodian
    Profiled profiled;                   // as a profiler
    bool covers_profile = true;
    Uint256 gas_price;
    bool knows_probes = true;  // what reports have revealed was asked for

private:
    [[nodiscard]] Trained trained(const TaskClaim& live) const {
        if (live.claim.state == ClaimState::none) return {};
        const Task& task = live.task;
        const auto stretch = chain::market::stretch_of(live);
        Trained trained;
        for (std::uint64_t step = stretch.before + task.spec.work.interval; step <= stretch.last();
             step += task.spec.work.interval) {
            const auto posted = checkpoint_of(task, *claim_, step);
            trained.checkpoints.push_back(
                {posted.step, posted.state_root, posted.content, posted.loss, posted.loss_path});
        }
        trained.history = std::make_shared<const std::vector<Hash32>>(claim_->roots_of(stretch));
        trained.proof =
            std::make_shared<const chain::types::TaskProvePayload>(proof_of(task, *claim_, live.claim.id.stretch));
        return trained;
    }
    [[nodiscard]] DisputeView dispute(const World& world, const TaskClaim& live, std::uint64_t id) const {
        DisputeView view;
        view.dispute = world.shared_dispute(id);
        if (view.dispute->closed_at != 0) return view;
        view.game = std::make_shared<const core::Game>(*chain::types::decode_record<core::Game>(view.dispute->game));
        if (view.dispute->defender != me.address && view.dispute->rival != me.address) return view;
        const auto side = view.dispute->defender == me.address ? core::Side::defender : core::Side::rival;
        core::DisputeStrategy strategy(party_of(live, *claim_));
        const auto move = strategy.next_move(*view.game, side, waiting_post(*view.game));
        EXPECT_TRUE(move) << move.error().to_string();
        if (move) view.planned = std::make_shared<const PlannedMove>(PlannedMove{position_of(*view.game), *move});
        return view;
    }

    const History* claim_;
};

[[nodiscard]] inline std::vector<Attempt> attempts_of(const std::vector<Action>& actions) {
    std::vector<Attempt> all;
    for (const Action& action : actions)
        if (const auto* send = std::get_if<Send>(&action))
            all.insert(all.end(), send->attempts.begin(), send->attempts.end());
    return all;
}
[[nodiscard]] inline const Attempt* find(const std::vector<Attempt>& attempts, NativeKind kind) {
    for (const Attempt& attempt : attempts)
        if (attempt.kind == kind) return &attempt;
    return nullptr;
}
template <class Wanted>
[[nodiscard]] bool wants(const std::vector<Action>& actions) {
    for (const Action& action : actions)
        if (std::holds_alternative<Wanted>(action)) return true;
    return false;
}

}  // namespace quern::compute::worker::test
