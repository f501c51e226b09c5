#include "compute/worker/decide.h"

#include <algorithm>

#include "chain/market/delays.h"
#include "chain/market/windows.h"
#include "compute/core/claims.h"
#include "compute/core/history.h"
#include "crypto/content_id.h"
#include "crypto/hash.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

using chain::types::ClaimState;
using chain::types::NativeKind;
using chain::types::TaskState;
using chain::types::TickObject;
using chain::types::VerifierReport;

template <chain::types::Record Payload>
Attempt attempt(std::string purpose, NativeKind kind, const Payload& payload) {
    return {std::move(purpose), kind, chain::types::encode_record(payload), false};
}

bool has_claim(const Claim& claim) { return claim.state != ClaimState::none; }
std::uint64_t due_at(const Task& task, const Claim& claim) { return has_claim(claim) ? claim.deadline : task.deadline; }

bool is_open(const DisputeView& view) { return view.dispute->closed_at == 0 && view.game != nullptr; }

Hash32 salt_of(const Hash32& secret, std::uint32_t target) {
    const std::array<std::uint8_t, 4> number{static_cast<std::uint8_t>(target >> 24),
                                             static_cast<std::uint8_t>(target >> 16),
                                             static_cast<std::uint8_t>(target >> 8), static_cast<std::uint8_t>(target)};
    return crypto::sha256({secret.view(), number});
}

struct Accusation {
    std::uint32_t target = 0;
    Hash32 claim;
    Bytes opening;
};

class Decider {
public:
    Decider(const Me& me, const View& view)
        : me_(me),
          view_(view),
          task_(view.live.task),
          claim_(view.live.claim),
          next_(view.height + 1),
          next_ms_(view.market_ms + 1) {}

    std::vector<Action> run() {
        if (me_.solver) solve();
        if (me_.verifier) verify();
        if (me_.whistleblower) blow_whistle();
        for (const DisputeView& dispute : view_.disputes)
            if (is_open(dispute)) play(dispute);
        if (me_.ticks) tick();
        return std::move(actions_);
    }

private:
    // Of an action that is taken once in each round of a task: "bid/3.0".
    [[nodiscard]] std::string purpose(const char* what) const {
        return std::string(what) + "/" + std::to_string(task_.id) + "." + std::to_string(task_.round);
    }
    // The same in each stretch.
    [[nodiscard]] std::string claim_purpose(const char* what) const {
        return purpose(what) + "-" + std::to_string(claim_.id.stretch);
    }
    // The same in each draw of a claim's verifiers.
    [[nodiscard]] std::string draw_purpose(const char* what) const {
        return claim_purpose(what) + "." + std::to_string(claim_.draws);
    }
    // Before the deadline of a task that is assigned, or of its claim.
    [[nodiscard]] bool in_time() const { return next_ms_ < due_at(task_, claim_); }
    void send(Attempt what) { actions_.push_back(Send{{std::move(what)}}); }

    // --- Solver
    void solve() {
        if (task_.state == TaskState::open) return bid();
        if (task_.state == TaskState::assigned) {
            const auto& seat = task_.seats.at(0);
            if (seat.solver == me_.address && in_time())
                send(attempt(purpose("start"), NativeKind::task_start, chain::types::TaskIdPayload{task_.id}));
            return;
        }
        if (claim_.solver != me_.address) return;
        if (claim_.state == ClaimState::working) {
            actions_.push_back(Train{});
            if (in_time()) post_progress();
        } else if (claim_.state == ClaimState::custody || claim_.state == ClaimState::committing || defends_history()) {
            // What verifiers ask for; what it stands for. Trained again when its files are gone.
            actions_.push_back(Train{});
        }
    }

    void bid() {
        if (task_.submitter == me_.address || next_ms_ >= chain::market::bids_until(task_)) return;
        if (std::find(task_.barred.begin(), task_.barred.end(), me_.address) != task_.barred.end()) return;
        for (const auto& bid : task_.bids)
            if (bid.bidder == me_.address) return;
        const Uint256 price = me_.bid_price.is_zero() ? task_.spec.money.price_cap / 2 : me_.bid_price;
        const std::string reason = reason_to_decline(price);
        if (!reason.empty()) {
            actions_.push_back(Decline{reason});
            return;
        }
        actions_.push_back(Examine{});  // kept up, so that what was found is not looked for again
        if (!view_.examined.unfit.empty())
            actions_.push_back(Decline{view_.examined.unfit});
        else if (view_.examined.fit && !view_.covered)
            actions_.push_back(Decline{"the bond does not cover it beside other bids"});
        else if (view_.examined.fit)
            send(attempt(purpose("bid"), NativeKind::task_bid, promised(price)));
    }

    // Classes that are not set are those that the task asks for.
    [[nodiscard]] chain::types::TaskBidPayload promised(const Uint256& price) const {
        const auto& least = task_.spec.classes;
        return {task_.id, 0, price, me_.speed_class == 0 ? least.speed : me_.speed_class,
                me_.bandwidth_class == 0 ? least.bandwidth : me_.bandwidth_class};
    }

    [[nodiscard]] std::string reason_to_decline(const Uint256& price) const {
        if (chain::market::memory_mib(task_.spec) > me_.max_memory_mib) return "needs more memory than allowed";
        if (price > task_.spec.money.price_cap) return "pays less than this solver's price";
        if (price.is_zero()) return "pays nothing";
        const auto& least = task_.spec.classes;
        if (const auto promise = promised(price);
            promise.speed_class < least.speed || promise.bandwidth_class < least.bandwidth)
            return "needs more speed or bandwidth than this solver has";
        // What a game about a segment may ask for once more, and a checkpoint is due after.
        if (!chain::market::has_time_for(me_.speed_class, task_.segment_work, task_.spec.windows.heartbeat_s))
            return "gives a segment less time than this solver needs for it";
        if (core::segment_count(chain::market::stretch_of(task_, 0).steps, task_.spec.work.interval) > kMaxSegments)
            return "more checkpoints than this solver keeps";
        return {};
    }

    void post_progress() {
        if (claim_.step >= chain::market::stretch_of(view_.live).last()) {
            if (view_.trained.proof != nullptr)
                send(attempt(claim_purpose("prove"), NativeKind::task_prove, *view_.trained.proof));
            return;
        }
        const std::uint64_t due = claim_.step + task_.spec.work.interval;
        for (const CheckpointRecord& record : view_.trained.checkpoints) {
            if (record.step != due) continue;
            const chain::types::TaskCheckpointPayload payload{task_.id,       record.step, record.state_root,
                                                              record.content, record.loss, record.loss_path};
            send(attempt(purpose("checkpoint") + "@" + std::to_string(due), NativeKind::task_checkpoint, payload));
        }
    }

    [[nodiscard]] bool defends_history() const {
        return std::any_of(view_.disputes.begin(), view_.disputes.end(), [&](const DisputeView& each) {
            return is_open(each) && each.dispute->target == 0 && each.dispute->defender == me_.address;
        });
    }

    // --- Verifier
    // Who is silent pays, so the last moment is before the end.
    [[nodiscard]] bool ends_soon() const {
        return next_ms_ + chain::market::in_ms(task_.spec.windows.verify_s) / kMissingShare >= claim_.deadline;
    }

    [[nodiscard]] const VerifierReport* own_report() const {
        for (const auto& report : view_.live.reports)
            if (report.verifier == me_.address) return &report;
        return nullptr;
    }

    [[nodiscard]] bool accuses_as(chain::types::Role role) const {
        return std::any_of(view_.disputes.begin(), view_.disputes.end(), [&](const DisputeView& each) {
            return is_open(each) && each.dispute->rival == me_.address && each.dispute->rival_role == role;
        });
    }

    void verify() {
        const VerifierReport* report = own_report();
        const bool reports = report != nullptr && is_active(*report) && claim_.state >= ClaimState::custody &&
                             claim_.state <= ClaimState::revealing;
        if (!reports && !accuses_as(chain::types::Role::verifier)) return;
        actions_.push_back(Report{});
        if (!reports || !in_time()) return;
        const Replayed& mine = view_.report;
        const bool missing = mine.data_missing || (mine.data_awaited && ends_soon());
        const bool knows = missing || mine.data_checked || mine.finding != nullptr;
        if (claim_.state == ClaimState::custody && report->custody == 0 && knows)
            send(attempt(draw_purpose("custody"), NativeKind::custody_receipt,
                         chain::types::CustodyReceiptPayload{task_.id, claim_.id.stretch, !missing}));
        // Who said that it has the data takes that back while it has committed nothing: what others have ended the
        // custody for, or what only a replay reads.
        const bool commits = claim_.state == ClaimState::committing && report->commitment.is_zero();
        if (commits && missing && mine.finding == nullptr)
            send(attempt(draw_purpose("data_missing"), NativeKind::custody_receipt,
                         chain::types::CustodyReceiptPayload{task_.id, claim_.id.stretch, false}));
        if (mine.finding == nullptr) return;
        const bool reveals =
            claim_.state == ClaimState::revealing && !report->commitment.is_zero() && !report->revealed();
        if (!commits && !reveals) return;
        const Finding& finding = *mine.finding;
        const auto sealed =
            core::seal_report(me_.address, finding.pass, finding.rival_root(), finding.probes, finding.secret);
        if (!sealed) return;
        if (commits) {
            send(attempt(draw_purpose("verify_commit"), NativeKind::verify_commit,
                         chain::types::VerifyCommitPayload{task_.id, claim_.id.stretch, sealed->commitment}));
        } else if (sealed->commitment == report->commitment) {
            auto reveal = core::make_reveal(*sealed, task_.id, sealed->true_index, claim_.id.stretch);
            if (!reveal.pass) reveal.initial_path = core::history_path(finding.history, 0);
            send(attempt(draw_purpose("verify_reveal"), NativeKind::verify_reveal, reveal));
        }
    }

    // --- Whistleblower
    void blow_whistle() {
        const bool party = claim_.solver == me_.address || task_.submitter == me_.address || own_report() != nullptr;
        const bool watches = !party && claim_.state >= ClaimState::custody && claim_.state <= ClaimState::disputed;
        if (!watches && !accuses_as(chain::types::Role::whistleblower)) return;
        actions_.push_back(Watch{});
        if (!watches || view_.watch.finding == nullptr || !view_.all_disputes) return;
        for (const Accusation& accusation : accusations(*view_.watch.finding)) challenge(accusation);
    }

    // Whether the verifier was drawn for the segment of a step.
    [[nodiscard]] bool sampled(const Address& verifier, std::uint64_t step) const {
        const auto stretch = chain::market::stretch_of(view_.live);
        const std::uint64_t segments = core::segment_count(stretch.steps, task_.spec.work.interval);
        const auto drawn = core::draw_segments(claim_.verify_beacon, verifier, segments, task_.spec.work.samples);
        return std::binary_search(drawn.begin(), drawn.end(),
                                  core::segment_of(step, task_.spec.work.interval, stretch.before));
    }

    [[nodiscard]] std::vector<Accusation> accusations(const Finding& finding) {
        std::vector<Accusation> found;
        if (!finding.pass) {
            // Probes that were taken from a wrong history are not worth a challenge: those who passed the wrong step
            // answer for it as the solver does.
            const Hash32 claim = finding.rival_root();
            const Bytes opening = core::encode(core::HistoryChallenge{core::history_path(finding.history, 0)});
            found.push_back({0, claim, opening});
            for (const auto& report : view_.live.reports)
                if (stands_for(report) && sampled(report.verifier, finding.wrong_step))
                    found.push_back({core::kPassTarget + report.place, claim, opening});
            return found;
        }
        if (finding.programs == nullptr) return found;
        std::size_t first = 0;
        for (const auto& report : view_.live.reports) {
            const auto probes = probes_of(view_.live, report.verifier, finding.programs->plan);
            const std::size_t begin = first;
            first += probes.size();
            if (first > finding.probe_hashes.size()) break;
            const auto mine = std::span(finding.probe_hashes).subspan(begin, probes.size());
            if (!stands_for(report) || result_root_of(report, mine) == report.result_root) continue;
            const auto told = view_.probes.find(report.result_root);
            if (told == view_.probes.end()) {
                actions_.push_back(ReadProbes{report});
                continue;
            }
            const std::vector<Hash32>& revealed = *told->second;
            for (std::size_t p = 0; p < std::min(probes.size(), revealed.size()); ++p) {
                const Hash32& expected = mine[p];
                if (revealed[p] == expected) continue;
                core::ProbeChallenge challenge;
                challenge.segment = probes[p].segment;
                challenge.probe = probes[p].probe;
                challenge.tile_hash = revealed[p];
                challenge.path =
                    crypto::merkle_path(core::result_leaves(report.pass, report.rival_root, revealed), 1 + p);
                challenge.node = core::ProgramProver(finding.programs->at(probes[p].step)).node(probes[p].node);
                found.push_back({1U + report.place, expected, core::encode(challenge)});
                break;  // one wrong tile is enough
            }
        }
        return found;
    }

    void challenge(const Accusation& accusation) {
        // Those about reports of earlier draws were about something else.
        const std::uint64_t since = accusation.target == 0 ? 0 : claim_.draw_at;
        for (const DisputeView& each : view_.disputes)
            if (each.dispute->rival == me_.address && each.dispute->target == accusation.target &&
                each.dispute->opened_at > since)
                return;
        const Hash32 salt = salt_of(view_.watch.finding->secret, accusation.target);
        chain::types::ChallengeRevealPayload reveal;
        reveal.task = task_.id;
        reveal.stretch = claim_.id.stretch;
        reveal.target = accusation.target;
        reveal.claim = accusation.claim;
        reveal.salt = salt;
        reveal.opening = accusation.opening;
        std::string target(1, ':');
        target += std::to_string(accusation.target);
        // Reveal first: it is refused until the commitment is in an earlier block, whoever sent that before a restart.
        // It is tried in every block, because the commitment holds the task back only for a few.
        Send send;
        if (!claim_.voided || next_ms_ < claim_.challenge_hold) {
            send.attempts.push_back(
                attempt(draw_purpose("challenge_reveal") + target, NativeKind::challenge_reveal, reveal));
            send.attempts.back().each_block = true;
        }
        const bool window_open = claim_.challenge_until == 0 || next_ms_ < claim_.challenge_until;
        if (!claim_.voided && window_open) {
            const Hash32 commitment = core::challenge_commitment(me_.address, accusation.claim, salt);
            send.attempts.push_back(
                attempt(draw_purpose("challenge_commit") + target, NativeKind::challenge_commit,
                        chain::types::ChallengeCommitPayload{task_.id, claim_.id.stretch, commitment}));
        }
        if (!send.attempts.empty()) actions_.push_back(std::move(send));
    }

    // --- Disputes
    // Another game has decided what it is about: a tick closes it, and nobody loses by it.
    [[nodiscard]] bool is_moot(const Dispute& dispute) const {
        if (dispute.target == 0) return claim_.voided && claim_.locked.is_zero();
        const std::size_t place = core::target_report(dispute.target);
        return place < view_.live.reports.size() && view_.live.reports[place].slashed();
    }

    void play(const DisputeView& view) {
        const Dispute& dispute = *view.dispute;
        const core::Game& game = *view.game;
        if ((dispute.defender != me_.address && dispute.rival != me_.address) || is_moot(dispute)) return;
        Play play;
        play.dispute = dispute.id;
        play.side = dispute.defender == me_.address ? core::Side::defender : core::Side::rival;
        play.deadline = core::next_deadline(game);
        const bool defends = play.side == core::Side::defender;
        // A game about a probe starts from the solver's history, and who passed a history must be led there by it.
        const bool published =
            core::is_probe_target(dispute.target) || (core::is_pass_target(dispute.target) && defends);
        if (!published) {
            play.claim = claim(dispute, defends);
            if (play.claim == nullptr) return;
        }
        play.due = core::may_move(game, play.side) && next_ms_ < play.deadline;
        actions_.push_back(play);
        const std::string position = position_of(game);
        if (play.due && view.planned != nullptr && view.planned->position == position)
            send_move(dispute.id, position, view.planned->move);
    }

    [[nodiscard]] std::shared_ptr<const std::vector<Hash32>> claim(const Dispute& dispute, bool defends) const {
        if (defends) return view_.trained.history;
        const auto& finding =
            dispute.rival_role == chain::types::Role::verifier ? view_.report.finding : view_.watch.finding;
        if (finding == nullptr || finding->pass) return nullptr;
        return {finding, &finding->history};
    }

    void send_move(std::uint64_t id, const std::string& position, const core::Move& move) {
        // One purpose per position, so that a move is sent once.
        const std::string purpose = "dispute/" + std::to_string(id) + "@" + position;
        if (const auto* split = std::get_if<core::SplitMove>(&move))
            send(attempt(purpose, NativeKind::dispute_split,
                         chain::types::DisputeSplitPayload{id, chain::types::encode_record(*split)}));
        else if (const auto* witness = std::get_if<core::LeafWitness>(&move))
            send(attempt(purpose, NativeKind::dispute_prove_leaf,
                         chain::types::DisputeProveLeafPayload{id, chain::types::encode_record(*witness)}));
        else if (std::holds_alternative<core::Concede>(move))
            send(attempt(purpose, NativeKind::dispute_concede, chain::types::DisputeConcedePayload{id}));
    }

    // --- Ticks
    // Milliseconds that this worker waits after a tick is due, so that not all send it at once.
    [[nodiscard]] std::uint64_t patience(std::uint64_t id, std::uint64_t since) const {
        const Bytes key = chain::types::object_key(chain::types::ObjectPrefix::task, id + (since << 20));
        const Hash32 lot = crypto::sha256({me_.address.view(), key});
        return (lot.data[0] * std::uint64_t{256} + lot.data[1]) * kTickSpreadMs >> 16;
    }

    // When a tick moves the task or its claim on; also the height, where the state waits for a beacon.
    template <class Object>
    [[nodiscard]] bool is_due(const Object& object) const {
        return object.deadline != 0 && next_ms_ >= object.deadline + patience(task_.id, object.since) &&
               (!chain::market::awaits_draw(object) || next_ >= chain::market::draw_height(object.draw_at));
    }

    void tick() {
        // One whose windows are over waits until those before it are settled.
        const bool waits = claim_.state == ClaimState::challenge && claim_.id.stretch != task_.settled;
        const bool due = has_claim(claim_) ? !waits && is_due(claim_) : is_due(task_);
        const std::string of = std::to_string(task_.id) + "-" + std::to_string(claim_.id.stretch);
        if (due) send_tick(TickObject::task, of, task_.id, due_at(task_, claim_));
        for (const DisputeView& each : view_.disputes) {
            const Dispute& dispute = *each.dispute;
            if (dispute.closed_at == 0 && dispute.deadline != 0 &&
                next_ms_ >= dispute.deadline + patience(dispute.id, 0))
                send_tick(TickObject::dispute, std::to_string(dispute.id), dispute.id, dispute.deadline);
        }
    }

    void send_tick(TickObject object, const std::string& name, std::uint64_t id, std::uint64_t deadline) {
        const char* const what = object == TickObject::task ? "tick/task/" : "tick/dispute/";
        send(attempt(what + name + "@" + std::to_string(deadline), NativeKind::tick,
                     chain::types::TickPayload{object, id}));
    }

    const Me& me_;
    const View& view_;
    const Task& task_;
    const Claim& claim_;           // state none: there is none yet
    const std::uint64_t next_;     // height of the first block that a transaction can be in
    const std::uint64_t next_ms_;  // the least that its market time can be
    std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> decide(const Me& me, const View& view) {
    if (chain::types::is_final(view.live.task.state)) return {};
    return Decider(me, view).run();
}

std::optional<Attempt> declare(const chain::types::RoleBond& bond, const chain::types::Capacity& mine) {
    if (bond.capacity == mine) return std::nullopt;
    return attempt("declare_capacity", NativeKind::declare_capacity,
                   chain::types::DeclareCapacityPayload{chain::types::Role::verifier, mine});
}

std::string position_of(const core::Game& game) {
    return std::string(core::to_string(game.phase)) + "." + std::to_string(game.cursor.level) + "." +
           std::to_string(game.cursor.index) + (core::has_post(game) ? ".posted" : "");
}

Hash32 result_root_of(const VerifierReport& report, std::span<const Hash32> probes) {
    return crypto::list_id_of(crypto::MerkleTag::report, core::result_leaves(report.pass, report.rival_root, probes));
}

std::vector<core::Probe> probes_of(const TaskClaim& live, const Address& verifier, const core::TaskPlan& plan) {
    const auto& spec = live.task.spec;
    const Hash32& beacon = live.claim.verify_beacon;
    const auto stretch = chain::market::stretch_of(live);
    const auto drawn = core::draw_segments(beacon, verifier, core::segment_count(stretch.steps, spec.work.interval),
                                           spec.work.samples);
    return core::draw_probes(beacon, verifier, drawn, spec.work.interval, plan, stretch.before);
}

}  // namespace quern::compute::worker
