// Watchers and whistleblowers, and the games that follow.
#include <algorithm>

#include "chain/market/bonds.h"
#include "chain/market/watchers.h"
#include "crypto/vrf.h"
#include "sim/market/run_impl.h"

namespace quern::sim::market {

// --- Watchers --------------------------------------------------------------------------------------------------------

void MarketRun::watch(const TaskClaim& live) {
    const auto& claim = live.claim;
    if (claim.forced_beacon.is_zero() || claim.voided) return;
    if (claim.state != ClaimState::revealing && claim.state != ClaimState::challenge) return;
    for (const auto& report : live.reports) {
        if (!types::stands_for(report) || report.choice != types::ReportChoice::sealed) continue;
        if (report.revealed_at >= chain_.height) continue;  // the logs of this block are not there yet
        for (const auto& watcher : accounts_)
            if (spec_.groups[watcher.purse].whistleblower > 0) watch_report(watcher, live, report);
    }
}

void MarketRun::watch_report(const Account& watcher, const TaskClaim& live, const types::VerifierReport& report) {
    const auto& [task, claim, reports, custody] = live;
    const ReportKey key{task.id, task.round, claim.draws, report.place};
    if (!watched_.insert({key, watcher.address}).second) return;
    if (watcher.address == report.verifier || watcher.address == claim.solver) return;
    const auto bond = chain_.bond(Role::whistleblower, watcher.address);
    const auto ticket = crypto::vrf_prove(
        watcher.key, core::watch_message(claim.forced_beacon, claim.id, claim.draws, report.place).view());
    if (!chain::market::is_watcher(ticket.output, bond.bonded, claim.watch_bonds)) return;
    const auto* verifier = account_at(report.verifier);
    auto& told = verdicts_.at(key);
    const auto& proven = proven_.at({task.id, task.round});
    const auto& strategy = strategy_of(watcher);
    const bool is_friend = verifier != nullptr && verifier->purse == watcher.purse;
    const auto seal = [&] {
        Sealed sealed{&watcher, task.id, report.place, told.report.sealed.result_roots[told.report.sealed.true_index],
                      {},       false};
        rng_.fill(sealed.salt.data);
        types::WatchCommitPayload payload;
        payload.task = task.id;
        payload.report = report.place;
        payload.seal = core::watch_seal(watcher.address, sealed.root, sealed.salt);
        append(payload.public_key, watcher.public_key.bytes.view());
        append(payload.proof, ticket.proof.view());
        if (send(watcher, NativeKind::watch_commit, payload)) seals_.push_back(sealed);
    };
    if (is_friend && strategy.tells_friends) {  // knows what there is to find, and has nothing to say against it
        if (is_forced(told, live)) seal();
        return;
    }
    if (proven.withheld && proven.purse != watcher.purse) return;
    if (!by_chance(strategy.watch_percent)) return;
    ++ledger_of(watcher).watches;
    ++result_.watched;
    const auto drawn = training_.drawn(live, report.verifier);
    // Of several accounts that collude one computes.
    if (!spec_.groups[watcher.purse].colludes || computed_.insert({key, watcher.purse}).second)
        compute(watcher, segment_work() * Uint256(drawn.size()));
    // A history that is wrong, and a verifier that has passed it there.
    for (const auto segment : drawn) {
        if (!proven.faked.contains(segment)) continue;
        if (strategy.passes_friends && proven.purse == watcher.purse) return;
        const auto rival = std::make_shared<History>(training_.replayed(*proven.history, segment));
        accuse(watcher, live, 0, rival->root, exec::test::history_opening(*rival), rival);
        accuse(watcher, live, core::kPassTarget + report.place, rival->root, exec::test::history_opening(*rival),
               rival);
        return;
    }
    const auto& shown = chain_.shown(report.result_root);
    const auto tiles =
        told.how == Verifying::passes || told.how == Verifying::copies ? Tiles::executed : Tiles::made_up;
    // What it computes itself. Of a verifier that has computed it is the same.
    const auto own = tiles == Tiles::executed
                         ? training_.report(live, report.verifier, *proven.history, true, {}, Tiles::executed, rng_)
                         : told.report;
    std::vector<std::size_t> differ;
    for (std::size_t i = 0; i < own.results.size() && i < shown.size(); ++i)
        if (shown[i] != own.sealed.true_leaves[1 + i]) differ.push_back(i);
    if (differ.empty()) return;
    if (differ.size() == 1 && core::is_alteration(shown[differ[0]], own.results[differ[0]].words)) return seal();
    const std::size_t place = differ.front();
    accuse(watcher, live, 1U + report.place, own.sealed.true_leaves[1 + place],
           training_.probe_opening(told.report, report.opened, place), proven.history);
}

void MarketRun::open_seals(const TaskClaim& live) {
    if (live.claim.state != ClaimState::opening && live.claim.state != ClaimState::jackpots) return;
    for (auto& seal : seals_) {
        if (seal.task != live.task.id || seal.opened || seal.place >= live.reports.size()) continue;
        const auto now = chain_.shared_live(live.task.id);
        if (now->claim.state != ClaimState::opening && now->claim.state != ClaimState::jackpots) return;
        if (now->reports[seal.place].choice != types::ReportChoice::forced) continue;
        seal.opened = true;
        send(*seal.by, NativeKind::watch_reveal,
             types::WatchRevealPayload{live.task.id, 0, seal.place, seal.root, seal.salt});
    }
}

// --- Whistleblowers --------------------------------------------------------------------------------------------------

// Trains a claim again from its first state, which nobody can keep from it; or accuses it of what is not so.
void MarketRun::retrain(const TaskClaim& live) {
    const auto& [task, claim, reports, custody] = live;
    const Round round{task.id, task.round};
    if (claim.state < ClaimState::committing || claim.state > ClaimState::challenge || claim.voided) return;
    const auto& proven = proven_.at(round);
    // Who cannot get the data either is in doubt; who can knows that whoever misses it is idle.
    const bool doubtful = claim.missing > 0 && proven.withheld;
    if (retrained_.insert({round, doubtful ? std::uint8_t{1} : std::uint8_t{0}}).second) {
        for (const auto& account : accounts_) {
            const auto& strategy = strategy_of(account);
            if (spec_.groups[account.purse].whistleblower == 0 || account.address == claim.solver) continue;
            if (!by_chance(doubtful ? std::max(strategy.doubt_percent, strategy.retrain_percent)
                                    : strategy.retrain_percent))
                continue;
            if (strategy.passes_friends && proven.purse == account.purse) continue;
            compute(account, segment_work() * Uint256(training_.segments()));
            if (!proven.faked.empty())
                accuse(account, live, 0, truth_->root, exec::test::history_opening(*truth_), truth_);
        }
    }
    if (!strawed_.insert(round).second || !proven.faked.empty()) return;
    for (const auto& account : accounts_) {
        const auto& strategy = strategy_of(account);
        if (spec_.groups[account.purse].whistleblower == 0 || account.address == claim.solver) continue;
        if (!by_chance(strategy.straw_percent)) continue;
        const Segments straw{rng_.below(training_.segments())};
        const auto rival = std::make_shared<History>(training_.with_faked(straw));
        accuse(account, live, 0, rival->root, exec::test::history_opening(*rival), rival, straw);
    }
}

// What somebody else says already, or what has fallen, pays nobody twice.
bool MarketRun::is_accused(const TaskClaim& live, std::uint32_t target) const {
    if (target != 0 && live.reports[core::target_report(target)].slashed()) return true;
    const Round round{live.task.id, live.task.round};
    if (target == 0)
        for (const auto& report : live.reports)
            if (report.revealed() && !report.pass && !report.slashed() &&
                verdicts_.at({live.task.id, live.task.round, live.claim.draws, report.place}).right)
                return true;
    return std::any_of(accusations_.begin(), accusations_.end(), [&](const Accusation& each) {
        return each.round == round && each.reveal.target == target && each.right;
    });
}

void MarketRun::accuse(const Account& by, const TaskClaim& live, std::uint32_t target, const Hash32& claim,
                       Bytes opening, std::shared_ptr<const History> rival, const Segments& faked) {
    if (faked.empty() && is_accused(live, target)) return;
    if (commit_accusation(by, live, target, claim, std::move(opening), std::move(rival), faked))
        ++ledger_of(by).accusations;
}

bool MarketRun::commit_accusation(const Account& by, const TaskClaim& live, std::uint32_t target, const Hash32& claim,
                                  Bytes opening, std::shared_ptr<const History> rival, const Segments& faked) {
    const auto stake = chain::market::challenge_stake(chain_.params.market, live.task);
    if (free_bond(Role::whistleblower, by) < stake) return false;
    Accusation accusation;
    accusation.by = &by;
    accusation.round = {live.task.id, live.task.round};
    accusation.rival = std::move(rival);
    accusation.faked = faked;
    accusation.right = faked.empty();
    accusation.reveal = {live.task.id, 0, target, claim, {}, std::move(opening)};
    rng_.fill(accusation.reveal.salt.data);
    accusation.committed_at = chain_.height;
    if (!send(by, NativeKind::challenge_commit,
              types::ChallengeCommitPayload{live.task.id, 0,
                                            core::challenge_commitment(by.address, claim, accusation.reveal.salt)}))
        return false;
    accusations_.push_back(std::move(accusation));
    return true;
}

void MarketRun::reveal_accusations(const TaskClaim& live) {
    const Round round{live.task.id, live.task.round};
    for (auto& accusation : accusations_) {
        if (accusation.round != round || accusation.revealed || accusation.committed_at >= chain_.height) continue;
        accusation.revealed = true;
        send(*accusation.by, NativeKind::challenge_reveal, accusation.reveal);
    }
}

// --- Games -----------------------------------------------------------------------------------------------------------

void MarketRun::play(const TaskClaim& live) {
    const Round round{live.task.id, live.task.round};
    const auto now = chain_.shared_live(live.task.id);
    if (now->claim.open_disputes == 0) return;
    const auto& proven = proven_.at(round);
    for (const auto id : now->claim.disputes) {
        const auto dispute = chain_.shared_dispute(id);
        if (dispute->closed_at != 0 || !(dispute->claim == live.claim.id)) continue;
        const auto* defender = account_at(dispute->defender);
        const auto* rival = account_at(dispute->rival);
        if (defender == nullptr || rival == nullptr) continue;
        bool right = false;  // who accuses
        const History* stands_for = nullptr;
        Segments faked;                                                       // of that
        if (dispute->rival_role == Role::verifier && dispute->target == 0) {  // a FAIL
            for (const auto& [key, verdict] : verdicts_) {
                if (std::get<0>(key) != round.first || std::get<1>(key) != round.second) continue;
                if (verdict.verifier != rival->address || verdict.rival == nullptr) continue;
                right = verdict.right;
                stands_for = verdict.rival.get();
                faked = verdict.faked;
            }
        } else {
            for (const auto& each : accusations_) {
                if (each.round != round || each.by != rival || each.reveal.target != dispute->target) continue;
                right = each.right;
                stands_for = each.rival.get();
                faked = each.faked;
            }
        }
        if (stands_for == nullptr) continue;
        const Account& wrong = right ? *defender : *rival;
        const bool fights = strategy_of(wrong).fights && !core::is_probe_target(dispute->target);
        // Who is wrong first: where it gives up at once nobody else has to move.
        if (!fights) lose(wrong, live, *dispute, right);
        if (const auto after = chain_.shared_dispute(id); after->closed_at != 0) continue;
        if (right ? play(*rival, live, id, core::Side::rival, *stands_for, faked)
                  : play(*defender, live, id, core::Side::defender, *proven.history, proven.faked))
            continue;
        if (!fights) continue;
        if (right)
            play(*defender, live, id, core::Side::defender, *proven.history, proven.faked);
        else
            play(*rival, live, id, core::Side::rival, *stands_for, faked);
    }
}

void MarketRun::lose(const Account& who, const TaskClaim& live, const types::Dispute& dispute, bool defends) {
    const auto& strategy = strategy_of(who);
    if (strategy.stalls) return;
    const auto* rival = account_at(dispute.rival);
    const bool by_stranger = rival != nullptr && rival->purse != who.purse;
    if (defends && dispute.target == 0 && strategy.concedes_to_friend && by_stranger && waits_for_friend(who, live))
        return;
    send(who, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute.id});
}

// Whether a friend is about to accuse the history, too, so that its solver can lose to it.
bool MarketRun::waits_for_friend(const Account& solver, const TaskClaim& live) {
    const Round round{live.task.id, live.task.round};
    for (const auto& each : accusations_) {
        if (each.round != round || each.by->purse != solver.purse || each.reveal.target != 0) continue;
        // It commits, reveals in a later block, and has a game then.
        return chain_.height <= each.committed_at + 1;
    }
    const auto& proven = proven_.at(round);
    for (const auto& account : accounts_) {
        if (account.purse != solver.purse || account.address == solver.address) continue;
        if (spec_.groups[account.purse].whistleblower == 0) continue;
        const auto other = std::make_shared<History>(training_.replayed(*proven.history, *proven.faked.rbegin()));
        if (commit_accusation(account, live, 0, other->root, exec::test::history_opening(*other), other, {}))
            return true;
    }
    return false;
}

bool MarketRun::play(const Account& who, const TaskClaim& live, std::uint64_t dispute, core::Side side,
                     const History& history, const Segments& faked) {
    const auto game = *types::decode_record<core::Game>(chain_.shared_dispute(dispute)->game);
    if (!core::has_begun(game) || !core::may_move(game, side)) return false;
    const auto key = std::make_pair(dispute, side);
    auto strategy = games_.find(key);
    if (strategy == games_.end()) {
        compute(who, segment_work());  // the states that the game asks for
        strategy = games_.emplace(key, core::DisputeStrategy(training_.party(live, history, faked))).first;
    }
    const auto move = strategy->second.next_move(game, side, quern::test::waiting_post(game));
    if (!move) {
        result_.faults.push_back("no move: " + move.error().to_string());
        return false;
    }
    if (const auto* split = std::get_if<core::SplitMove>(&*move))
        return send(who, NativeKind::dispute_split, types::DisputeSplitPayload{dispute, types::encode_record(*split)});
    if (const auto* leaf = std::get_if<core::LeafWitness>(&*move))
        return send(who, NativeKind::dispute_prove_leaf,
                    types::DisputeProveLeafPayload{dispute, types::encode_record(*leaf)});
    return false;
}

}  // namespace quern::sim::market
