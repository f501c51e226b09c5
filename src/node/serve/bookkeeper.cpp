#include "node/serve/bookkeeper.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quern::node {
namespace {

namespace types = chain::types;
namespace api = chain::api;
using types::NativeKind;
using types::Role;
using Sign = api::Movement::Sign;

// What a payment is for.
struct PaymentKind {
    std::string_view reason;
    std::string_view category;
    std::optional<Role> role;  // in which it is earned; absent: it depends
    bool submitter = false;
};
constexpr std::array<PaymentKind, 14> kPayments{{
    {"solver_reward", "reward", Role::solver},
    {"held_reward", "reward", Role::solver},
    {"verifier_fee", "fee", Role::verifier},
    {"custodian_fee", "fee", Role::custodian},
    {"profiler_fee", "fee", Role::verifier},
    {"bounty", "bounty", std::nullopt},
    {"dispute_cost", "dispute_cost", std::nullopt},
    {"jackpot", "jackpot", Role::whistleblower},
    {"slash_share", "slash_share", std::nullopt, true},
    {"refund", "refund", std::nullopt, true},
    {"held_forfeited", "refund", std::nullopt, true},
    {"data_prepaid", "data_challenge", std::nullopt, true},
    {"data_answer", "data_answer", std::nullopt},
    {"storage_deposit", "deposit_returned", std::nullopt},
}};
constexpr PaymentKind kUnknownPayment{"", "other", std::nullopt};

const PaymentKind& payment_kind(std::string_view reason) {
    const auto* found = std::find_if(kPayments.begin(), kPayments.end(),
                                     [&](const PaymentKind& each) { return each.reason == reason; });
    return found == kPayments.end() ? kUnknownPayment : *found;
}

std::string kind_name(const types::abi::NativeCall* call) {
    return call == nullptr ? "" : std::string(types::find_kind(static_cast<std::uint8_t>(call->kind))->name);
}

}  // namespace

Bookkeeper::Bookkeeper(const types::Address& account, const api::Holdings& before) : account_(account) {
    for (const auto& bond : before.bonds) bonds_[bond.role] = bond.bonded + bond.unbonding;
}

api::Movement& Bookkeeper::move(std::string_view category, std::string reason, const Uint256& amount, Sign balance,
                                Sign bond) {
    Movement movement;
    movement.place = place_;
    movement.category = category;
    movement.reason = std::move(reason);
    movement.task = task_;
    movement.amount = amount;
    movement.balance = balance;
    movement.bond = bond;
    movements_.push_back(std::move(movement));
    return movements_.back();
}

void Bookkeeper::paid(const events::Paid& event, bool of_submitter) {
    const PaymentKind& kind = payment_kind(event.reason);
    auto& movement = move(kind.category, event.reason, event.amount, Sign::plus);
    movement.role = kind.role;
    movement.submitter = kind.submitter || (event.reason == "storage_deposit" && of_submitter);
}

// bond and unbond name their amounts; what was withdrawn is what the bond holds less.
void Bookkeeper::bond_changed(const events::BondChanged& event, const types::abi::NativeCall* call) {
    const Uint256 now = event.bonded + event.unbonding;
    const Uint256 held = std::exchange(bonds_[event.role], now);
    Movement* movement = nullptr;
    if (now > held) {
        movement = &move("bonded", "bond", now - held, Sign::minus, Sign::plus);
    } else if (held > now) {
        movement = &move("withdrawn", "withdraw", held - now, Sign::plus, Sign::minus);
    } else if (call != nullptr && call->kind == NativeKind::unbond) {
        const auto payload = types::decode_record<types::UnbondPayload>(call->payload);
        movement = &move("unbonding", "unbond", payload ? payload->amount : Uint256(), Sign::none);
    }
    if (movement != nullptr) movement->role = event.role;
}

void Bookkeeper::event(const MarketEvent& event, const MarketEvent* next, const types::abi::NativeCall* call) {
    if (const auto account = account_of(event); account != account_) return;
    if (const auto* submission = std::get_if<events::TaskSubmitted>(&event)) {
        move("escrow", "task_submit", submission->escrow - submission->deposit, Sign::minus).submitter = true;
        move("deposit_paid", "task_submit", submission->deposit, Sign::minus).submitter = true;
    } else if (const auto* payment = std::get_if<events::Paid>(&event)) {
        paid(*payment, next != nullptr && std::holds_alternative<events::TaskDeleted>(*next));
    } else if (const auto* change = std::get_if<events::BondChanged>(&event)) {
        bond_changed(*change, call);
    } else if (const auto* slash = std::get_if<events::Slashed>(&event)) {
        move("slashed", slash->reason, slash->amount, Sign::none, Sign::minus).role = slash->role;
        Uint256& held = bonds_[slash->role];
        held -= std::min(held, slash->amount);
    } else if (const auto* challenge = std::get_if<events::ChallengeCommitted>(&event)) {
        move("deposit_paid", "challenge_commit", challenge->deposit, Sign::minus).role = challenge->role;
    } else if (const auto* asked = std::get_if<events::DataChallenged>(&event)) {
        move("data_challenge", "data_challenge", asked->prepaid, Sign::minus).submitter = true;
    } else if (const auto* seal = std::get_if<events::WatchSealed>(&event)) {
        move("deposit_paid", "watch_commit", seal->deposit, Sign::minus).role = Role::whistleblower;
    } else if (const auto* staked = std::get_if<events::Delegated>(&event)) {
        move("staked", kind_name(call), staked->amount, Sign::minus);
    } else if (const auto* leaving = std::get_if<events::Undelegated>(&event)) {
        move("unstaking", kind_name(call), leaving->amount, Sign::none);
    } else if (const auto* back = std::get_if<events::StakeWithdrawn>(&event)) {
        move("stake_withdrawn", kind_name(call), back->amount, Sign::plus);
        if (!back->slashed.is_zero()) move("stake_slashed", "validator_convicted", back->slashed, Sign::none);
    } else if (const auto* reward = std::get_if<events::EvidenceRewarded>(&event)) {
        move("evidence_reward", "validator_convicted", reward->amount, Sign::plus);
    } else if (const auto* evidence = std::get_if<events::EvidenceCommitted>(&event)) {
        if (!evidence->deposit.is_zero()) move("deposit_paid", "evidence_commit", evidence->deposit, Sign::minus);
    } else if (const auto* former = std::get_if<events::EvidenceReleased>(&event)) {
        move("deposit_returned", kind_name(call), former->deposit, Sign::plus);
    }
}

void Bookkeeper::add(const types::RecoveredTransaction& transaction, const types::Receipt& receipt,
                     const api::Place& place) {
    place_ = place;
    const auto call = native_call_of(transaction.tx);
    std::vector<MarketEvent> events;
    for (const auto& log : receipt.logs)
        if (auto event = read_market_event(log)) events.push_back(std::move(*event));
    task_.reset();
    for (const MarketEvent& event : events)
        if (!task_) task_ = task_of(event);
    if (!task_ && call) task_ = task_named_by(*call);
    for (std::size_t i = 0; i < events.size(); ++i)
        event(events[i], i + 1 < events.size() ? &events[i + 1] : nullptr, call ? &*call : nullptr);
    if (transaction.sender != account_) return;
    const Uint256 fee = Uint256(receipt.gas_used) * receipt.effective_gas_price;
    if (!fee.is_zero()) move("gas", kind_name(call ? &*call : nullptr), fee, Sign::minus);
}

}  // namespace quern::node
