#include "compute/worker/decide.h"

#include <algorithm>
#include <utility>

#include "base/big_endian.h"
#include "chain/market/claim_state.h"
#include "chain/market/custody.h"
#include "chain/market/delays.h"
#include "chain/market/windows.h"
#include "compute/core/claims.h"
#include "compute/core/history.h"
#include "compute/core/profiling.h"
#include "compute/core/task_spec.h"
#include "compute/worker/profile_cover.h"
#include "crypto/content_id.h"
#include "crypto/hash.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

using chain::types::ClaimState;
using chain::types::NativeKind;
using chain::types::ReportChoice;
using chain::types::TaskState;
using chain::types::TickObject;
using chain::types::VerifierReport;

template <chain::types::Record Payload>
Attempt attempt(std::string purpose, NativeKind kind, const Payload& payload) {
    return {std::move(purpose), kind, chain::types::encode_record(payload), false};
}

bool has_claim(const Claim& claim) { return claim.state != ClaimState::none; }
std::uint64_t due_at(const Task& task, const Claim& claim) { return has_claim(claim) ? claim.deadline : task.deadline; }

// Salts of what a watcher seals: behind the targets of challenges.
constexpr std::uint32_t kSealSalts = 0x10000;
// At which contents are read from the node and hashed, at least, while their fragments are made.
constexpr std::uint64_t kFragmentBytesPerSecond = std::uint64_t{1} << 28;
bool is_open(const DisputeView& view) { return view.dispute->closed_at == 0 && view.game != nullptr; }

Hash32 salt_of(const Hash32& secret, std::uint32_t target) {
    Bytes number;
    append_big_endian(number, target, 4);
    return crypto::sha256({secret.view(), number});
}

// In which role a worker compares others' reports with what it has computed.
struct Accuser {
    const Hash32& secret;  // the salts follow from it
    bool stakes = true;    // false: only what was committed before is revealed
    bool seals = false;    // it may be drawn as a watcher
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
        if (chain::types::is_final(task_.state)) {
            answer();
            if (me_.ticks) tick_asked();
            return std::move(actions_);
        }
        if (me_.solver) solve();
        if (me_.verifier) profile();
        if (me_.verifier) verify();
        if (me_.whistleblower) blow_whistle();
        if (me_.custodian) keep();
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
        if (!has_time_for_fragments()) return "gives the proof less time than making its fragments takes";
        if (core::segment_count(chain::market::stretch_of(task_, 0).steps, task_.spec.work.interval) > kMaxSegments)
            return "more checkpoints than this solver keeps";
        return {};
    }

    // Three states are read once for each custodian, and twice more, before a proof can name their fragments; half of
    // the window is for the rest. No rule of the chain gives a large state more time than a small one.
    [[nodiscard]] bool has_time_for_fragments() const {
        if (task_.custodians == 0) return true;
        const Uint256 read = Uint256(3) * Uint256(task_.custodians + 2) * Uint256(core::task_state_bytes(task_));
        return read <= Uint256(task_.spec.windows.prove_s / 2) * Uint256(kFragmentBytesPerSecond);
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

    // --- Profiler
    // Commits once to what was written down, and shows it when all have committed. What is not the own commitment's is
    // not shown: the chain would refuse it.
    void profile() {
        const chain::types::TaskProfiler* const own = own_profiler(task_, me_.address);
        if (own == nullptr || !own->replay.is_zero()) return;
        const bool is_bound = !own->commitment.is_zero();
        // Who has committed keeps what it must show, between two windows, too. What was begun goes on at any gas price.
        if (!is_bound && (!in_time() || !me_.profiles)) return;
        if (!is_bound && view_.profiled.found == nullptr && !view_.covers_profile) {
            const std::string reason = reason_not_to_profile(me_, task_, view_.gas_price);
            actions_.push_back(Decline{reason.empty() ? "the bond does not cover a profile beside others" : reason});
            return;
        }
        actions_.push_back(Profile{});  // kept up, so that it is not read again
        if (!in_time() || view_.profiled.found == nullptr) return;
        const auto& [measures, salt] = *view_.profiled.found;
        const Hash32 commitment = core::profile_commitment(me_.address, measures, salt);
        // Another draw of the same task is another profile.
        const auto named = [&](const char* what) {
            return purpose(what) + "@" + to_hex(task_.profiling.beacon.view().first(8));
        };
        if (!task_.profiling.revealing && own->commitment.is_zero())
            send(attempt(named("profile_commit"), NativeKind::profile_commit,
                         chain::types::ProfileCommitPayload{task_.id, commitment}));
        else if (task_.profiling.revealing && own->commitment == commitment)
            send(attempt(named("profile_reveal"), NativeKind::profile_reveal,
                         chain::types::ProfileRevealPayload{task_.id, measures, salt}));
    }

    // --- Verifier
    // Who is silent pays, so the last moment is before the end.
    [[nodiscard]] bool ends_soon() const {
        return next_ms_ + chain::market::in_ms(task_.spec.windows.verify_s) / kMissingShare >= claim_.deadline;
    }

    // Of what a receipt says whether it is here.
    [[nodiscard]] bool is_missing(const auto& data) const {
        return data.data_missing || (data.data_awaited && ends_soon());
    }
    void send_receipt(std::string purpose, bool data_ok) {
        send(attempt(std::move(purpose), NativeKind::custody_receipt,
                     chain::types::CustodyReceiptPayload{task_.id, claim_.id.stretch, data_ok}));
    }

    [[nodiscard]] const VerifierReport* own_report() const {
        for (const auto& report : view_.live.reports)
            if (report.verifier == me_.address) return &report;
        return nullptr;
    }

    // Whether what this worker says there was found with the own report, whichever bond answers for it: it has said
    // FAIL, or accuses another of the draw. Else it has watched the claim.
    [[nodiscard]] bool is_found_in_report(const Dispute& dispute) const {
        return dispute.rival_role == chain::types::Role::verifier || (dispute.target != 0 && own_report() != nullptr);
    }
    [[nodiscard]] bool accuses(bool found_in_report) const {
        return std::any_of(view_.disputes.begin(), view_.disputes.end(), [&](const DisputeView& each) {
            return is_open(each) && each.dispute->rival == me_.address &&
                   is_found_in_report(*each.dispute) == found_in_report;
        });
    }

    void verify() {
        const VerifierReport* report = own_report();
        const bool reports = report != nullptr && is_active(*report) && claim_.state >= ClaimState::custody &&
                             claim_.state <= ClaimState::revealing;
        const bool opens = report != nullptr && may_open(*report);
        const bool compares = report != nullptr && report->revealed() && claim_.state >= ClaimState::revealing &&
                              claim_.state <= ClaimState::disputed;
        if (!reports && !opens && !compares && !accuses(true)) return;
        actions_.push_back(Report{});
        if (opens) open(*report);
        if (compares && view_.report.finding != nullptr) compare_peers(*report, *view_.report.finding);
        if (!reports || !in_time()) return;
        const Replayed& mine = view_.report;
        const bool missing = is_missing(mine);
        const bool knows = missing || mine.data_checked || mine.finding != nullptr;
        if (claim_.state == ClaimState::custody && report->custody == 0 && knows)
            send_receipt(draw_purpose("custody"), !missing);
        // Who said that it has the data takes that back while it has committed nothing: what others have ended the
        // custody for, or what only a replay reads.
        const bool commits = claim_.state == ClaimState::committing && report->commitment.is_zero();
        if (commits && missing && mine.finding == nullptr) send_receipt(draw_purpose("data_missing"), false);
        const bool reveals =
            claim_.state == ClaimState::revealing && !report->commitment.is_zero() && !report->revealed();
        if (!commits && !reveals) return;
        const core::SealedReport* sealed = sealed_for(*report);
        if (sealed == nullptr) return;
        if (commits) {
            send(attempt(draw_purpose("verify_commit"), NativeKind::verify_commit,
                         chain::types::VerifyCommitPayload{task_.id, claim_.id.stretch, sealed->commitment}));
        } else if (const auto choice = choice_now(*sealed)) {
            auto reveal = core::make_reveal(*sealed, task_.id, *choice, claim_.id.stretch);
            if (!reveal.pass) reveal.initial_path = core::history_path(mine.finding->history, 0);
            send(attempt(draw_purpose("verify_reveal"), NativeKind::verify_reveal, reveal));
        }
    }

    // What others of the draw have told, with what was computed for the own report: a lie costs them their lock.
    void compare_peers(const VerifierReport& own, const Finding& finding) {
        const Accuser accuser{finding.peer_secret, !own.slashed()};
        if (!finding.pass)
            for (const Accusation& accusation : pass_accusations(finding)) challenge(accusation, accuser);
        for (const Watched& each : watched_reports(view_.live, finding, me_.address)) judge(each, accuser);
    }

    // What the own report was made of, of which the chain has the commitment or none yet; null: it is not here.
    [[nodiscard]] const core::SealedReport* sealed_for(const VerifierReport& report) {
        if (view_.report.finding == nullptr) return nullptr;
        const Finding& finding = *view_.report.finding;
        if (!sealed_)
            if (auto sealed =
                    core::seal_report(me_.address, finding.pass, finding.rival_root(), finding.probes, finding.secret))
                sealed_ = std::move(*sealed);
        const bool fits = sealed_ && (report.commitment.is_zero() || sealed_->commitment == report.commitment);
        return fits ? &*sealed_ : nullptr;
    }

    // The leaf that the own report has to open; nullopt while nobody can know, or this worker does not.
    [[nodiscard]] std::optional<std::uint8_t> choice_now(const core::SealedReport& sealed) const {
        if (chain::market::awaits_forced_beacon(claim_)) return std::nullopt;
        bool is_forced = false;
        if (!claim_.forced_beacon.is_zero()) {
            if (!me_.forced_error_inverse) return std::nullopt;
            is_forced = core::forced(sealed.randomness, claim_.forced_beacon,
                                     core::forced_probability(*me_.forced_error_inverse));
        }
        return core::choice_of(sealed, is_forced != (me_.fault == Fault::wrong_choice));
    }

    // Whether there are two results of the own report of which nobody knows which one it had to tell.
    [[nodiscard]] bool is_sealed(const VerifierReport& report) const {
        return stands_for(report) && report.choice == ReportChoice::sealed && !claim_.forced_beacon.is_zero() &&
               me_.fault != Fault::silent_opening;
    }

    // All show it at the end, and who is challenged for what it was forced to tell before that.
    [[nodiscard]] bool may_open(const VerifierReport& report) const {
        if (!is_sealed(report)) return false;
        if (claim_.state == ClaimState::opening) return in_time();
        return std::any_of(view_.disputes.begin(), view_.disputes.end(), [&](const DisputeView& each) {
            return each.dispute->closed_at == 0 && is_about_probe_of(*each.dispute, report);
        });
    }

    // A game in which the report's verifier defends one of its probes.
    [[nodiscard]] static bool is_about_probe_of(const Dispute& dispute, const VerifierReport& report) {
        return core::is_probe_target(dispute.target) && core::target_report(dispute.target) == report.place &&
               dispute.defender == report.verifier;
    }

    // A game about the probe that is altered in the own report: any other one is defended as it was told.
    [[nodiscard]] bool is_about_altered(const DisputeView& view, const VerifierReport& report,
                                        const core::SealedReport& sealed) const {
        if (view.game == nullptr || view.dispute->closed_at != 0 || !is_about_probe_of(*view.dispute, report))
            return false;
        const auto plan = core::TaskPlan::decode(task_.spec.plan);
        if (!plan) return false;
        const auto probes = probes_of(view_.live, me_.address, *plan);
        if (sealed.altered_probe >= probes.size()) return false;
        const core::Probe& altered = probes[sealed.altered_probe];
        return view.game->probe_step == altered.step && view.game->probe_node == altered.node &&
               view.game->probe_tile == view_.report.finding->probes[sealed.altered_probe].tile;
    }

    void open(const VerifierReport& report) {
        const core::SealedReport* sealed = sealed_for(report);
        if (sealed == nullptr) return;
        // Who told the truth defends it as it is, and who is accused of something else ends nobody's sealing.
        const auto asked = [&](const DisputeView& each) { return is_about_altered(each, report, *sealed); };
        if (claim_.state != ClaimState::opening &&
            (report.opened == sealed->true_index || std::none_of(view_.disputes.begin(), view_.disputes.end(), asked)))
            return;
        // Who told what it had not to has nothing to show beside.
        const std::uint8_t shown = me_.fault == Fault::wrong_choice ? sealed->true_index : report.opened;
        send(attempt(draw_purpose("report_open"), NativeKind::report_open,
                     core::make_opening(*sealed, task_.id, shown, claim_.id.stretch)));
    }

    // Whether a game about a probe of the own report waits for the opening that puts its claim right: who moves before
    // that stands for the altered tile. As long as what was told is not known here, it may be that one.
    [[nodiscard]] bool awaits_opening(const DisputeView& view) {
        const Dispute& dispute = *view.dispute;
        const VerifierReport* report = me_.verifier ? own_report() : nullptr;
        if (report == nullptr || !is_about_probe_of(dispute, *report)) return false;
        // The node has told of the opening, and perhaps not of the game after it.
        if (report->choice == ReportChoice::forced) return !view_.all_disputes;
        if (!is_sealed(*report)) return false;
        if (view_.report.finding == nullptr) return true;
        const core::SealedReport* sealed = sealed_for(*report);
        return sealed != nullptr && report->opened != sealed->true_index && is_about_altered(view, *report, *sealed);
    }

    // --- Whistleblower
    void blow_whistle() {
        const bool party = claim_.solver == me_.address || task_.submitter == me_.address || own_report() != nullptr;
        const bool chosen = view_.watches || !view_.tickets.empty() || view_.watch.finding != nullptr;
        const bool watches =
            chosen && !party && claim_.state >= ClaimState::custody && claim_.state <= ClaimState::disputed;
        const bool collects = !party && awaits_jackpots();
        if (!watches && !collects && !accuses(false)) return;
        actions_.push_back(Watch{});
        if (view_.watch.finding == nullptr) return;
        const Finding& finding = *view_.watch.finding;
        if (collects) collect_jackpots(finding);
        if (!watches) return;
        const Accuser accuser{finding.secret, true, true};
        if (!finding.pass) {
            challenge(history_accusation(finding, 0), accuser);
            for (const Accusation& accusation : pass_accusations(finding)) challenge(accusation, accuser);
        }
        for (const Watched& each : watched_reports(view_.live, finding)) judge(each, accuser);
    }

    // Whether the verifier was drawn for the segment of a step.
    [[nodiscard]] bool sampled(const Address& verifier, std::uint64_t step) const {
        const auto drawn = core::segments_of(task_, claim_, verifier);
        return std::binary_search(
            drawn.begin(), drawn.end(),
            core::segment_of(step, task_.spec.work.interval, chain::market::stretch_of(view_.live).before));
    }

    [[nodiscard]] static Accusation history_accusation(const Finding& finding, std::uint32_t target) {
        return {target, finding.rival_root(),
                core::encode(core::HistoryChallenge{core::history_path(finding.history, 0)})};
    }
    // Probes that were taken from a wrong history are not worth a challenge: those who passed the wrong step answer for
    // it as the solver does.
    [[nodiscard]] std::vector<Accusation> pass_accusations(const Finding& finding) const {
        std::vector<Accusation> found;
        if (finding.wrong_step == kWrongSomewhere) return found;  // nobody knows who was drawn for it
        for (const auto& report : view_.live.reports) {
            if (!has_passed(report) || report.verifier == me_.address || !sampled(report.verifier, finding.wrong_step))
                continue;
            found.push_back(history_accusation(finding, core::kPassTarget + report.place));
            found.back().stands = stands_for(report);
        }
        return found;
    }

    // One wrong tile is enough for a challenge. But one that its verifier may have been forced to alter is left to the
    // opening, which decides that, and sealed by who is its watcher.
    void judge(const Watched& watched, const Accuser& accuser) {
        const VerifierReport& report = *watched.report;
        if (watched.root == core::answered_root(report)) return;
        const auto told = view_.probes.find(report.result_root);
        if (told == view_.probes.end()) {
            actions_.push_back(ReadProbes{report});
            return;
        }
        std::vector<Hash32> hashes = *told->second;
        const bool known = report.choice != ReportChoice::forced || put_right(hashes, watched);
        const std::vector<std::size_t> wrong = differences(watched, hashes);
        if (wrong.empty()) return;
        if (may_be_forced(claim_, watched, hashes, wrong)) {
            if (accuser.seals && stands_for(report)) seal(watched);
            return;
        }
        Accusation found = accuse(watched, hashes, wrong);
        found.stands = known && stands_for(report);
        challenge(found, accuser);
    }

    [[nodiscard]] Hash32 seal_salt(const VerifierReport& report) const {
        return salt_of(view_.watch.finding->secret, kSealSalts + report.place);
    }
    [[nodiscard]] std::string report_purpose(const char* what, const VerifierReport& report) const {
        return draw_purpose(what) + ":" + std::to_string(report.place);
    }

    void seal(const Watched& watched) {
        const VerifierReport& report = *watched.report;
        const auto ticket = view_.tickets.find(report.place);
        const bool takes_seals = claim_.state >= ClaimState::revealing && claim_.state <= ClaimState::disputed &&
                                 !claim_.voided && report.seals < chain::params::kMaxSeals;
        if (ticket == view_.tickets.end() || !takes_seals) return;
        chain::types::WatchCommitPayload payload;
        payload.task = task_.id;
        payload.stretch = claim_.id.stretch;
        payload.report = report.place;
        payload.seal = core::watch_seal(me_.address, *watched.root, seal_salt(report));
        payload.public_key = ticket->second.public_key;
        payload.proof = ticket->second.proof;
        send(attempt(report_purpose("watch_commit", report), NativeKind::watch_commit, payload));
    }

    // Whether what this worker may have sealed about the report may still be paid, whatever its bond is now.
    [[nodiscard]] static bool may_pay(const VerifierReport& report) {
        return stands_for(report) && report.choice != ReportChoice::truth && report.seals > report.found;
    }
    [[nodiscard]] bool awaits_jackpots() const {
        return (claim_.state == ClaimState::opening || claim_.state == ClaimState::jackpots) &&
               std::any_of(view_.live.reports.begin(), view_.live.reports.end(),
                           [&](const VerifierReport& report) { return may_pay(report); });
    }

    // Tried of every forced error: the chain knows what this worker has sealed.
    void collect_jackpots(const Finding& finding) {
        if (!in_time()) return;
        for (const Watched& each : watched_reports(view_.live, finding)) {
            const VerifierReport& report = *each.report;
            if (!may_pay(report) || report.choice != ReportChoice::forced || each.root != report.true_root) continue;
            chain::types::WatchRevealPayload payload;
            payload.task = task_.id;
            payload.stretch = claim_.id.stretch;
            payload.report = report.place;
            payload.root = *each.root;
            payload.salt = seal_salt(report);
            send(attempt(report_purpose("watch_reveal", report), NativeKind::watch_reveal, payload));
        }
    }

    void challenge(const Accusation& accusation, const Accuser& accuser) {
        if (!view_.all_disputes) return;
        // Those about reports of earlier draws were about something else, and what was forced is out of what is told.
        const std::uint64_t since = accusation.target == 0 ? 0 : claim_.draw_at;
        for (const DisputeView& each : view_.disputes)
            if (each.dispute->rival == me_.address && each.dispute->target == accusation.target &&
                each.dispute->opened_at > since && each.dispute->reason != "forced")
                return;
        const Hash32 salt = salt_of(accuser.secret, accusation.target);
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
        // Where all games are taken a reveal has its stake back, again and again.
        const bool has_place = (accusation.target == 0 ? claim_.rivals : claim_.report_rivals) < me_.max_disputes;
        if (accusation.stands && accuser.stakes && !claim_.voided && window_open && has_place) {
            const Hash32 commitment = core::challenge_commitment(me_.address, accusation.claim, salt);
            send.attempts.push_back(
                attempt(draw_purpose("challenge_commit") + target, NativeKind::challenge_commit,
                        chain::types::ChallengeCommitPayload{task_.id, claim_.id.stretch, commitment}));
        }
        if (!send.attempts.empty()) actions_.push_back(std::move(send));
    }

    // --- Custodian
    void keep() {
        const auto& custody = view_.live.custody;
        const bool first = claim_.state == ClaimState::custody;
        if ((!first && claim_.state != ClaimState::committing) || chain::market::awaits_custodians(claim_, custody))
            return;
        // Drawn as a verifier as well it answers as one: its word would be about all of the data.
        if (own_report() != nullptr) return;
        const auto place = custodian_place(view_.live, me_.address);
        if (!place || custody->custodians[*place].receipt != 0 || !in_time()) return;
        actions_.push_back(Keep{*place});
        // Once others have ended the custody nobody asks what is missing; what comes yet is paid all the same.
        const bool missing = first && is_missing(view_.kept);
        if (missing || view_.kept.data_checked)
            send_receipt(claim_purpose("fragments") + "." + std::to_string(custody->draws), !missing);
    }

    // --- Disputes
    // Another game has decided what it is about: a tick closes it, and nobody loses by it.
    [[nodiscard]] bool is_moot(const Dispute& dispute) const {
        if (dispute.target == 0) return chain::market::is_history_lost(claim_);
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
        play.due = core::may_move(game, play.side) && next_ms_ < play.deadline && !awaits_opening(view);
        actions_.push_back(play);
        const std::string position = position_of(game);
        if (play.due && view.planned != nullptr && view.planned->position == position)
            send_move(dispute.id, position, view.planned->move);
    }

    [[nodiscard]] std::shared_ptr<const std::vector<Hash32>> claim(const Dispute& dispute, bool defends) const {
        if (defends) return view_.trained.history;
        const auto& finding = is_found_in_report(dispute) ? view_.report.finding : view_.watch.finding;
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

    // --- The held share
    // Whoever shows the piece is paid for it; it is the solver that loses by silence.
    void answer() {
        if (!me_.solver || !is_owed(task_, me_.address) || next_ms_ >= task_.asked[0].until) return;
        actions_.push_back(ReadPiece{});  // kept up, so that it is not read again
        if (view_.piece != nullptr)
            send(attempt("data_answer/" + std::to_string(task_.id) + "@" + std::to_string(task_.asked[0].until),
                         NativeKind::data_answer, *view_.piece));
    }

    void tick_asked() {
        const std::uint64_t until = task_.asked[0].until;
        if (!is_owed(task_, me_.address) && next_ms_ >= until + patience(task_.id, until))
            send_tick(TickObject::task, std::to_string(task_.id) + "-asked", task_.id, until);
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
    [[nodiscard]] bool is_due(const Object& object, const std::optional<std::uint64_t>& anchor) const {
        return object.deadline != 0 && next_ms_ >= object.deadline + patience(task_.id, object.since) &&
               (!anchor || next_ >= chain::market::draw_height(*anchor));
    }

    void tick() {
        // One whose windows are over waits until those before it are settled.
        const bool waits = claim_.state == ClaimState::challenge && !chain::market::is_next_to_settle(task_, claim_);
        const bool due = has_claim(claim_)
                             ? !waits && is_due(claim_, chain::market::draw_anchor(claim_, view_.live.custody))
                             : is_due(task_, chain::market::draw_anchor(task_));
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
    const Claim& claim_;                        // state none: there is none yet
    const std::uint64_t next_;                  // height of the first block that a transaction can be in
    const std::uint64_t next_ms_;               // the least that its market time can be
    std::optional<core::SealedReport> sealed_;  // of the own finding, once it is asked for
    std::vector<Action> actions_;
};

}  // namespace

std::optional<std::size_t> custodian_place(const TaskClaim& live, const Address& address) {
    return live.custody ? chain::market::place_of(*live.custody, address) : std::nullopt;
}

bool is_owed(const Task& task, const Address& solver) { return !task.seats.empty() && task.seats[0].solver == solver; }

std::vector<Action> decide(const Me& me, const View& view) {
    if (!chain::types::is_live(view.live.task)) return {};
    return Decider(me, view).run();
}

std::optional<Attempt> declare(const chain::types::RoleBond& bond, const chain::types::Capacity& mine) {
    if (bond.capacity == mine) return std::nullopt;
    return attempt(std::string("declare_capacity/") + chain::types::to_string(bond.role), NativeKind::declare_capacity,
                   chain::types::DeclareCapacityPayload{bond.role, mine});
}

std::string position_of(const core::Game& game) {
    return std::string(core::to_string(game.phase)) + "." + std::to_string(game.cursor.level) + "." +
           std::to_string(game.cursor.index) + (core::has_post(game) ? ".posted" : "");
}

}  // namespace quern::compute::worker
