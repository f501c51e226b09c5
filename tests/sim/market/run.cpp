#include "sim/market/run.h"

#include <algorithm>

#include "chain/exec/handlers/events.h"
#include "chain/market/bonds.h"
#include "chain/types/event_reader.h"
#include "sim/market/run_impl.h"

namespace quern::sim::market {
namespace {

namespace events = exec::events;
constexpr std::uint64_t kMostBlocks = 200'000;
constexpr double kPocketMoney = 100'000;  // QRN of each account beside its bonds
constexpr std::uint64_t kWindow = 60;

Account make_account(Rng& rng, std::size_t purse) {
    Hash32 secret;
    rng.fill(secret.data);
    secret.data[0] = 1;
    auto key = *crypto::PrivateKey::from_bytes(secret.view());
    const auto public_key = crypto::derive_public(key);
    const auto address = types::address_of(public_key);
    return {std::move(key), public_key, address, purse};
}

Uint256 price_cap_of(const Settings& settings, const types::TaskSubmitPayload& task) {
    const auto plan = core::TaskPlan::decode(task.plan)->planned(task.work.interval, task.work.stride);
    return from_qrn(static_cast<double>(settings.reward_qrn)) / plan.total;
}

}  // namespace

const Ledger& RunResult::of(std::string_view purse) const {
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == purse) return purses[i];
    static const Ledger none;
    return none;
}

RunResult run(const RunSpec& spec) { return MarketRun(spec).run(); }

MarketRun::MarketRun(const RunSpec& spec)
    : spec_(spec),
      rng_(spec.settings.seed * 1'000'003 + 17),
      chain_(spec.settings),
      training_(spec.settings.segments, spec.settings.interval),
      keeper_(make_account(rng_, 0)),
      task_(exec::test::spec_of(training_.programs(), spec.settings.interval)),
      truth_(std::make_shared<History>(training_.truth())) {
    const auto& settings = spec_.settings;
    task_.work.verifiers = static_cast<std::uint32_t>(settings.verifiers);
    task_.work.samples = static_cast<std::uint32_t>(settings.samples);
    auto& windows = task_.windows;
    windows.bid_s = windows.start_s = windows.heartbeat_s = windows.prove_s = windows.verify_s = windows.challenge_s =
        std::max(kWindow, settings.chain.market.min_window_s);
    task_.money.price_cap = price_cap_of(settings, task_);
    const Uint256 samples = segment_work() * Uint256(std::min(settings.samples, settings.segments)) *
                            Uint256(settings.verifiers) * task_.money.price_cap;
    task_.money.tax = samples * Uint256(settings.tax_percent) / Uint256(100);
}

Uint256 MarketRun::segment_work() const {
    return core::TaskPlan::decode(task_.plan)->planned(task_.work.interval, task_.work.stride).segment;
}

void MarketRun::set_up() {
    result_.name = spec_.name;
    for (std::size_t purse = 0; purse < spec_.groups.size(); ++purse) {
        result_.names.push_back(spec_.groups[purse].name);
        result_.purses.emplace_back();
        for (std::size_t i = 0; i < spec_.groups[purse].accounts; ++i) accounts_.push_back(make_account(rng_, purse));
    }
    for (std::size_t i = 0; i < accounts_.size(); ++i) by_address_[accounts_[i].address] = i;
    for (const auto& account : accounts_) {
        const auto& group = spec_.groups[account.purse];
        const auto parts = static_cast<double>(group.accounts);
        const Uint256 all = from_qrn(kPocketMoney + (group.solver + group.verifier + group.whistleblower) / parts + 1);
        chain_.give(account.address, all);
        ledger_of(account).before += all;
    }
    chain_.give(keeper_.address, from_qrn(kPocketMoney));
    chain_.begin();
    for (const auto& account : accounts_) {
        const auto& group = spec_.groups[account.purse];
        const auto parts = static_cast<double>(group.accounts);
        for (const auto& [role, bonded] : {std::pair{Role::solver, group.solver},
                                           {Role::verifier, group.verifier},
                                           {Role::whistleblower, group.whistleblower}})
            if (bonded > 0) send(account, NativeKind::bond, types::BondPayload{role, from_qrn(bonded / parts)});
    }
    if (const auto status = chain_.finish(); !status) result_.faults.push_back(status.error().to_string());
    // Bonds are drawn from the next epoch on.
    while (chain_.height <= chain_.params.epoch_length) {
        chain_.begin();
        (void)chain_.finish();
    }
}

const Account* MarketRun::account_at(const types::Address& address) const {
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? nullptr : &accounts_[found->second];
}

Uint256 MarketRun::free_bond(Role role, const Account& account) const {
    return chain::market::free_part(chain_.bond(role, account.address));
}

// --- Bookkeeping -----------------------------------------------------------------------------------------------------

bool MarketRun::book(const Account& from, const exec::Result& result) {
    const bool ok = result.band == exec::Band::ok;
    if (!ok) ++result_.refusals[std::string(result.name)];
    if (!result.in_block()) return false;
    ++result_.transactions;
    const auto& receipt = chain_.last_receipt();
    if (&from != &keeper_) ledger_of(from).gas += receipt.effective_gas_price * Uint256(receipt.gas_used);
    if (ok) book_logs();
    return ok;
}

void MarketRun::book_logs() {
    for (const auto& log : chain_.last_receipt().logs) {
        if (const auto paid = types::read_event<events::Paid>(log)) {
            if (const auto* to = account_at(paid->to)) ledger_of(*to).received[paid->reason] += paid->amount;
        } else if (const auto slashed = types::read_event<events::Slashed>(log)) {
            if (const auto* who = account_at(slashed->account))
                ledger_of(*who).slashed[slashed->reason] += slashed->amount;
        } else if (const auto drawn = types::read_event<events::VerifierDrawn>(log)) {
            ++result_.reports;
            if (const auto* who = account_at(drawn->verifier)) ++ledger_of(*who).reports;
        } else if (const auto assigned = types::read_event<events::SolverAssigned>(log)) {
            if (const auto* who = account_at(assigned->solver)) ++ledger_of(*who).assigned;
        } else if (const auto opened = types::read_event<events::ReportOpened>(log)) {
            if (opened->choice == types::ReportChoice::forced) ++result_.forced;
        } else if (const auto closed = types::read_event<events::DisputeClosed>(log)) {
            static const char* const kWinners[] = {"nobody", "defender", "rival", "neither"};
            ++result_.disputes[std::string(kWinners[static_cast<int>(closed->winner)]) + " " + closed->reason];
        } else if (types::read_event<events::ErrorFound>(log)) {
            ++result_.found;
        } else if (const auto ended = types::read_event<events::TaskStateChanged>(log)) {
            if (types::is_final(ended->to))
                ++result_.ends[std::string(types::to_string(ended->to)) + " " + ended->reason];
        } else if (const auto changed = types::read_event<events::ClaimStateChanged>(log)) {
            if (changed->to != ClaimState::settled) continue;
            const auto& proven = proven_[{changed->task, changed->round}];
            auto& ledger = result_.purses[proven.purse];
            ++ledger.settled;
            if (!proven.faked.empty()) ++ledger.paid_lies;
        }
    }
}

// --- Blocks ----------------------------------------------------------------------------------------------------------

RunResult MarketRun::run() {
    set_up();
    while ((submitted_ < spec_.settings.tasks || !live_.empty()) && chain_.height < kMostBlocks &&
           result_.faults.empty())
        block();
    close();
    return std::move(result_);
}

void MarketRun::block() {
    chain_.begin();
    while (submitted_ < spec_.settings.tasks && live_.size() < spec_.settings.at_once && result_.faults.empty())
        submit();
    for (const auto id : live_) {
        if (chain_.is_due(id))
            book(keeper_, chain_.send(keeper_.address, NativeKind::tick,
                                      types::encode_record(types::TickPayload{types::TickObject::task, id})));
        if (chain_.exists(id)) act(id);
    }
    if (const auto status = chain_.finish(); !status) result_.faults.push_back(status.error().to_string());
    std::erase_if(live_, [&](std::uint64_t id) { return !chain_.exists(id); });
}

void MarketRun::submit() {
    std::vector<const Account*> submitters;
    for (const auto& account : accounts_)
        if (spec_.groups[account.purse].submits) submitters.push_back(&account);
    if (submitters.empty()) {
        result_.faults.emplace_back("nobody submits");
        return;
    }
    const auto& submitter = *submitters[submitted_ % submitters.size()];
    if (!send(submitter, NativeKind::task_submit, task_)) {
        result_.faults.emplace_back("a task was refused: " + result_.refusals.begin()->first);
        return;
    }
    const std::uint64_t id = chain_.globals().next_task - 1;
    live_.push_back(id);
    ++submitted_;
    ++ledger_of(submitter).submitted;
    const auto task = chain_.shared_task(id);
    ledger_of(submitter).escrowed += task->escrow - task->deposit;
    const auto& market = chain_.params.market;
    result_.lock = chain::market::solver_bond(market, *task);
    result_.verifier_lock = chain::market::verifier_bond(market, *task);
    result_.fee = chain::market::verifier_fee(*task, 0);
    result_.reward = chain::market::price_at_cap(*task, task->total_work);
    result_.tax = task->spec.money.tax;
    result_.training = result_.reward * Uint256(spec_.settings.cost_percent) / Uint256(100);
}

void MarketRun::act(std::uint64_t id) {
    const auto live = chain_.shared_live(id);
    const auto& [task, claim, reports, custody] = *live;
    if (types::is_final(task.state)) return;
    if (task.state == TaskState::open) return bid(*live);
    if (task.state == TaskState::assigned) {
        if (const auto* solver = account_at(task.seats.at(0).solver))
            send(*solver, NativeKind::task_start, types::TaskIdPayload{id});
        return;
    }
    switch (claim.state) {
        case ClaimState::working:
            if (const auto* solver = account_at(claim.solver)) train(*solver, *live);
            return;
        case ClaimState::custody:
            answer_custody(*live);
            break;
        case ClaimState::committing:
            commit_reports(*live);
            break;
        case ClaimState::revealing:
            if (!chain::market::awaits_forced_beacon(claim)) reveal_reports(*live);
            break;
        case ClaimState::opening:
            open_reports(*live);
            break;
        default:
            break;
    }
    const auto now = chain_.shared_live(id);
    if (now->task.state != TaskState::running || now->claim.id.round != claim.id.round) return;
    watch(*now);
    retrain(*now);
    reveal_accusations(*now);
    open_seals(*now);
    play(*now);
}

void MarketRun::close() {
    const auto ends = [&](const Account& account) {
        Uint256 all = chain_.balance(account.address);
        for (const auto role : {Role::solver, Role::verifier, Role::whistleblower}) {
            const auto bond = chain_.bond(role, account.address);
            if (!bond.locked.is_zero()) result_.faults.emplace_back("a bond is still locked");
            all += chain::market::whole_bond(bond);
        }
        return all;
    };
    Uint256 held;
    for (const auto& account : accounts_) {
        ledger_of(account).after += ends(account);
    }
    const Uint256 unit_cost = task_.money.price_cap * Uint256(spec_.settings.cost_percent);  // a hundredth part of it
    for (std::size_t i = 0; i < result_.purses.size(); ++i) {
        auto& ledger = result_.purses[i];
        ledger.cost = ledger.work * unit_cost / Uint256(100);
        held += ledger.after;
        // What came in and went out by the chain's own word is the difference of what there was and is.
        auto received = ledger.received;
        received.erase("storage_deposit");
        if (ledger.before + sum(received) != ledger.after + sum(ledger.slashed) + ledger.gas + ledger.escrowed)
            result_.faults.push_back("the money of " + result_.names[i] + " does not add up");
    }
    const auto globals = chain_.globals();
    result_.minted = globals.minted;
    result_.burned = globals.burned;
    result_.jackpot_vault = globals.jackpot_vault;
    result_.treasury_vault = globals.treasury_vault;
    held += chain_.balance(keeper_.address) + globals.burned + globals.jackpot_vault + globals.treasury_vault;
    if (held != globals.minted) result_.faults.emplace_back("money was made or lost");
    if (const auto whole = chain_.check_from_genesis(); !whole) result_.faults.push_back(whole.error().to_string());
    if (chain_.height >= kMostBlocks) result_.faults.emplace_back("a task does not end");
    result_.blocks = chain_.height;
}

}  // namespace quern::sim::market
