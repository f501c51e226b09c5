// Solvers and verifiers.
#include <algorithm>

#include "chain/market/bonds.h"
#include "sim/market/run_impl.h"

namespace quern::sim::market {
namespace {

constexpr std::uint64_t kCheckpointsPerBlock = 100;

}  // namespace

// --- Solvers ---------------------------------------------------------------------------------------------------------

void MarketRun::bid(const TaskClaim& live) {
    const auto& task = live.task;
    if (task.draw_at != 0 || !bids_.insert({task.id, task.round}).second) return;
    const Uint256 price = task.spec.money.price_cap * Uint256(spec_.settings.bid_percent) / Uint256(100);
    const Uint256 needed = chain::market::seat_bond(chain_.params.market, task);
    for (const auto& account : accounts_) {
        if (spec_.groups[account.purse].solver == 0 || account.address == task.submitter) continue;
        if (std::find(task.barred.begin(), task.barred.end(), account.address) != task.barred.end()) continue;
        // Whatever else of what it has bid for it wins.
        if (free_bond(Role::solver, account) < needed * Uint256(spec_.settings.at_once)) continue;
        send(account, NativeKind::task_bid, types::TaskBidPayload{task.id, 0, price});
    }
}

void MarketRun::train(const Account& solver, const TaskClaim& live) {
    const auto& [task, claim, reports, custody] = live;
    const Round round{task.id, task.round};
    const auto& strategy = strategy_of(solver);
    if (!proven_.contains(round)) {
        Proven proven{truth_, {}, solver.purse, strategy.withholds_data};
        const std::uint64_t n = training_.segments();
        const std::uint64_t faked = strategy.faked_per_mille == 0 || !by_chance(strategy.lies_percent)
                                        ? 0
                                        : std::max<std::uint64_t>(1, n * strategy.faked_per_mille / 1000);
        while (proven.faked.size() < std::min(faked, n)) proven.faked.insert(rng_.below(n));
        if (!proven.faked.empty()) {
            proven.history = std::make_shared<History>(training_.with_faked(proven.faked));
            ++ledger_of(solver).lies;
        }
        compute(solver, segment_work() * Uint256(n - proven.faked.size()));
        proven_.emplace(round, std::move(proven));
    }
    const auto& history = *proven_.at(round).history;
    std::uint64_t step = claim.step;
    for (std::uint64_t i = 0; i < kCheckpointsPerBlock && step + training_.interval() <= task.steps; ++i) {
        step += training_.interval();
        if (!send(solver, NativeKind::task_checkpoint, exec::test::checkpoint_of(task, history, step))) return;
    }
    if (step == task.steps) send(solver, NativeKind::task_prove, exec::test::proof_of(task, history));
}

// --- Verifiers -------------------------------------------------------------------------------------------------------

// Of those who were drawn: whether so few are strangers that they cannot say that the data is missing.
bool MarketRun::has_majority(const TaskClaim& live, std::size_t purse) const {
    std::size_t strangers = 0;
    for (const auto& report : live.reports) {
        const auto* who = account_at(report.verifier);
        strangers += who != nullptr && who->purse == purse ? 0 : 1;
    }
    return 2 * strangers <= live.reports.size();
}

Verifying MarketRun::how(const Account& verifier, const TaskClaim& live, std::uint8_t place) {
    (void)place;
    const auto& strategy = strategy_of(verifier);
    if (strategy.verifying != Verifying::by_lot) return strategy.verifying;
    // The same whenever it is asked about this draw.
    const std::uint64_t lot = (live.claim.verify_beacon.data[0] + verifier.address.data[0]) % 6;
    return static_cast<Verifying>(lot);
}

void MarketRun::answer_custody(const TaskClaim& live) {
    const auto& proven = proven_.at({live.task.id, live.task.round});
    for (const auto& report : live.reports) {
        const auto* verifier = account_at(report.verifier);
        if (verifier == nullptr || report.custody != 0 || report.slashed()) continue;
        const bool has_data = !proven.withheld || verifier->purse == proven.purse;
        const bool looks = how(*verifier, live, report.place) != Verifying::passes;
        const bool says = how(*verifier, live, report.place) != Verifying::misses && (has_data || !looks);
        send(*verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{live.task.id, 0, says});
    }
}

MarketRun::Verdict& MarketRun::verdict(const Account& verifier, const TaskClaim& live, std::uint8_t place) {
    const ReportKey key{live.task.id, live.task.round, live.claim.draws, place};
    const auto known = verdicts_.find(key);
    if (known != verdicts_.end()) return known->second;
    const auto& proven = proven_.at({live.task.id, live.task.round});
    const bool is_friend = verifier.purse == proven.purse && strategy_of(verifier).passes_friends;
    Verdict mine;
    mine.verifier = verifier.address;
    mine.how = how(verifier, live, place);
    const auto drawn = training_.drawn(live, verifier.address);
    auto tiles = Tiles::executed;
    if (is_friend) {
        mine.how = Verifying::passes;
        // Where nobody else can look nobody sees that its tiles are made up.
        if (proven.withheld)
            tiles = Tiles::made_up;
        else
            compute(verifier, segment_work() * Uint256(drawn.size()));
    } else if (mine.how == Verifying::passes) {
        tiles = Tiles::made_up;
    } else if (mine.how == Verifying::copies) {
        tiles = Tiles::copied;
    } else if (mine.how == Verifying::replays || mine.how == Verifying::withholds) {
        compute(verifier, segment_work() * Uint256(drawn.size()));
        for (const auto segment : drawn) {
            if (mine.rival != nullptr || !proven.faked.contains(segment)) continue;
            mine.rival = std::make_shared<History>(training_.replayed(*proven.history, segment));
            mine.right = true;
        }
    } else if (mine.how == Verifying::fails) {
        mine.faked = {drawn.front()};
        mine.rival = std::make_shared<History>(training_.with_faked(mine.faked));
        if (mine.rival->root == proven.history->root) mine.rival = nullptr;
    }
    const bool pass = mine.rival == nullptr;
    mine.report = training_.report(live, verifier.address, pass ? *proven.history : *mine.rival, pass,
                                   pass ? Hash32{} : mine.rival->root, tiles, rng_);
    return verdicts_.emplace(key, std::move(mine)).first->second;
}

void MarketRun::commit_reports(const TaskClaim& live) {
    for (const auto& report : live.reports) {
        const auto* verifier = account_at(report.verifier);
        if (verifier == nullptr || !types::is_active(report) || !report.commitment.is_zero()) continue;
        const auto& mine = verdict(*verifier, live, report.place);
        send(*verifier, NativeKind::verify_commit,
             types::VerifyCommitPayload{live.task.id, 0, mine.report.sealed.commitment});
    }
}

bool MarketRun::is_forced(const Verdict& verdict, const TaskClaim& live) const {
    return core::forced(verdict.report.sealed.randomness, live.claim.forced_beacon,
                        core::forced_probability(chain_.params.market.forced_error_inverse));
}

void MarketRun::reveal_reports(const TaskClaim& live) {
    for (const auto& report : live.reports) {
        const auto* verifier = account_at(report.verifier);
        if (verifier == nullptr || !types::is_active(report) || report.commitment.is_zero() || report.revealed())
            continue;
        const auto& mine = verdict(*verifier, live, report.place);
        if (mine.how == Verifying::withholds) continue;
        auto reveal = core::make_reveal(mine.report.sealed, live.task.id,
                                        core::choice_of(mine.report.sealed, is_forced(mine, live)));
        if (mine.rival != nullptr) reveal.initial_path = core::history_path(mine.rival->roots, 0);
        send(*verifier, NativeKind::verify_reveal, reveal);
    }
}

void MarketRun::open_reports(const TaskClaim& live) {
    for (const auto& report : live.reports) {
        const auto* verifier = account_at(report.verifier);
        if (verifier == nullptr || !types::stands_for(report) || report.choice != types::ReportChoice::sealed) continue;
        const auto& mine = verdict(*verifier, live, report.place);
        send(*verifier, NativeKind::report_open, core::make_opening(mine.report.sealed, live.task.id, report.opened));
    }
}

}  // namespace quern::sim::market
