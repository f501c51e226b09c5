#include "compute/worker/spending.h"

#include "base/fs.h"
#include "chain/types/fields.h"

namespace quern::compute::worker {
namespace {

constexpr std::size_t kMaxFileBytes = 64U << 10;

}  // namespace

Expected<Spending> Spending::open(std::string file, const SpendingLimits& limits, const Clock& clock) {
    Spending spending(std::move(file), limits, clock);
    if (!fs::exists(spending.file_)) return spending;
    QUERN_TRY(const Bytes bytes, fs::read_file(spending.file_, kMaxFileBytes));
    auto ledger = chain::types::decode_record<Ledger>(bytes);
    if (!ledger) return detailed(ledger.error(), spending.file_ + ": " + ledger.error().detail);
    spending.ledger_ = std::move(*ledger);
    return spending;
}

Expected<Uint256> Spending::fee_cap(const Uint256& price, std::uint64_t headroom) const {
    if (price > limits_.max_fee_per_gas)
        return busy(kPriceTooHigh, "the node asks " + price.to_decimal() + " grains per gas, at most " +
                                       limits_.max_fee_per_gas.to_decimal() + " are allowed");
    const auto wanted = mul_div(price, headroom, 1);
    return wanted ? std::min(*wanted, limits_.max_fee_per_gas) : limits_.max_fee_per_gas;
}

Uint256 Spending::booked() const {
    const std::uint64_t now = hour();
    Uint256 sum;
    // An hour ahead of the clock counts too: the clock was set back, the money is gone all the same.
    for (const Hour& each : ledger_.hours)
        if (each.hour + kSpendingHours > now) sum += each.grains;
    return sum;
}

Status Spending::book(const Uint256& cost, std::uint64_t percent) {
    const auto total = checked_add(booked(), cost);
    const Uint256 most = mul_div(limits_.per_day, percent, 100).value_or(limits_.per_day);
    if (!total || *total > most)
        return busy(kDayLimit, booked().to_decimal() + " grains of " + most.to_decimal() +
                                   " were spent in the last 24 hours, " + cost.to_decimal() + " are asked");
    const std::uint64_t now = hour();
    std::erase_if(ledger_.hours, [&](const Hour& each) { return each.hour + kSpendingHours <= now; });
    if (ledger_.hours.empty() || ledger_.hours.back().hour < now) ledger_.hours.push_back({now, Uint256()});
    ledger_.hours.back().grains += cost;
    return fs::write_file_atomic(file_, chain::types::encode_record(ledger_), 0600);
}

}  // namespace quern::compute::worker
