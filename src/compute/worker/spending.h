// What a worker may pay in fees: at most so much per gas, at most so much in a day. The node tells the price of gas, so
// a node that lies, or one whose mempool somebody floods, would otherwise decide how much of the worker's money is
// burnt. What was booked in the last 24 hours outlives restarts. Used by one thread.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/record.h"
#include "chain/types/native_kinds.h"

namespace quern::compute::worker {

// More than any of a worker's transactions needs; an estimate above it is a lie or a mistake.
inline constexpr std::uint64_t kMaxTransactionGas = std::uint64_t{1} << 24;
// Over an estimate: what others send before it may make a transaction dearer. A receipt may come to be the one that
// ends the last draw of 48 custodians, and with it a claim of 16 verifiers.
inline constexpr std::uint64_t kGasMarginPercent = 150;
inline constexpr std::uint64_t kGasMargin = 200'000;
inline constexpr std::uint64_t kReceiptGasMargin = 600'000;
[[nodiscard]] constexpr std::uint64_t gas_limit_of(chain::types::NativeKind kind, std::uint64_t estimate) {
    const bool receipt = kind == chain::types::NativeKind::custody_receipt;
    return estimate * kGasMarginPercent / 100 + (receipt ? kReceiptGasMargin : kGasMargin);
}
inline constexpr std::uint64_t kSpendingHours = 24;
// Of the day's limit that ticks may use up, what was spent for other things included. The rest is for what this worker
// must send in time or lose a bond: whoever makes tasks and disputes run into ticks must not use that up.
inline constexpr std::uint64_t kTickPercent = 50;
// And of the answers to questions, at which a share of a reward is at stake: no bond.
inline constexpr std::uint64_t kAnswerPercent = 75;

inline constexpr std::string_view kPriceTooHigh = "spending.price_too_high";
inline constexpr std::string_view kDayLimit = "spending.day_limit";
[[nodiscard]] inline bool is_spending_limit(const Error& error) {
    return error.name == kPriceTooHigh || error.name == kDayLimit;
}

struct SpendingLimits {
    Uint256 max_fee_per_gas;  // grains
    Uint256 per_day;          // grains in any 24 hours, in full hours
};

class Spending {
public:
    // `file` keeps what was booked; it need not exist yet. `clock` outlives this. Errors: fs.*, rlp.* (a damaged file:
    // what was spent is not known, so nothing may be).
    [[nodiscard]] static Expected<Spending> open(std::string file, const SpendingLimits& limits, const Clock& clock);

    // The fee cap for a transaction when gas costs `price`: `headroom` times that, at most the limit. Error
    // spending.price_too_high (busy).
    [[nodiscard]] Expected<Uint256> fee_cap(const Uint256& price, std::uint64_t headroom) const;

    // Books the most that a transaction can cost, in grains; saved before this returns. What was booked stays booked
    // even if the node says that it refused the transaction: nothing but its word says so. Errors: spending.day_limit
    // (busy), fs.*.
    // Nothing above this percentage of the day's limit is booked.
    [[nodiscard]] Status book(const Uint256& cost, std::uint64_t percent = 100);

    // Booked within the last 24 hours, in grains.
    [[nodiscard]] Uint256 booked() const;

private:
    struct Hour {
        std::uint64_t hour = 0;  // since 1970
        Uint256 grains;
        QUERN_FIELDS(v("hour", hour), v("grains", grains))
    };
    struct Ledger {
        std::vector<Hour> hours;  // ascending
        QUERN_FIELDS(v("hours", hours))
    };

    Spending(std::string file, const SpendingLimits& limits, const Clock& clock)
        : file_(std::move(file)), limits_(limits), clock_(&clock) {}
    [[nodiscard]] std::uint64_t hour() const { return clock_->now_ms() / 3'600'000; }

    std::string file_;
    SpendingLimits limits_;
    const Clock* clock_;
    Ledger ledger_;
};

}  // namespace quern::compute::worker
