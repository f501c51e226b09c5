#include "compute/worker/sender.h"

#include <algorithm>

#include "base/log.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;

constexpr std::uint64_t kRetryBlocks = 3;     // after a refusal or failure
constexpr std::uint64_t kForgetBlocks = 30;   // a transaction that never shows up is given up
constexpr std::uint64_t kRaiseBlocks = 3;     // a transaction that waits longer may pay too little
constexpr std::uint64_t kRaisePercent = 125;  // what a node asks of a replacement is less
constexpr std::uint64_t kGasMarginPercent = 130;
constexpr std::uint64_t kGasMargin = 50'000;
constexpr std::uint64_t kWarnBlocks = 100;  // between two warnings about limits
constexpr std::uint64_t kFeeHeadroom = 2;   // fee cap = this x the node's gas price

}  // namespace

Sender::Sender(NodeView& node, crypto::PrivateKey key, std::uint64_t chain_id, Spending spending)
    : node_(node),
      key_(std::move(key)),
      address_(crypto::address20(key_)),
      chain_id_(chain_id),
      spending_(std::move(spending)) {}

// In words that an operator sees, once in a while: a worker that must not pay may miss a deadline and lose its bond.
void Sender::warn_of_limit(const Error& error) {
    if (warned_at_ != 0 && height_ < warned_at_ + kWarnBlocks) return;
    warned_at_ = std::max<std::uint64_t>(height_, 1);
    log::warning(log::Category::worker, "not paid: {}; see --max-fee-per-gas and --max-fees-per-day",
                 error.to_string());
}

void Sender::refresh(std::uint64_t height) {
    height_ = height;
    for (auto it = pending_.begin(); it != pending_.end();) {
        Pending& entry = it->second;
        if (entry.done) {
            it = height > entry.height + kRetryBlocks ? pending_.erase(it) : std::next(it);
            continue;
        }
        for (const Hash32& hash : entry.hashes) {
            const auto outcome = node_.outcome(hash);
            if (!outcome || !outcome->has_value()) continue;
            if (!(*outcome)->success)
                log::warning(log::Category::worker, "transaction failed purpose={} reason={}", it->first,
                             (*outcome)->failure);
            entry.done = true;
            entry.height = height;
            break;
        }
        if (!entry.done && height > entry.height + kForgetBlocks) {
            log::warning(log::Category::worker, "transaction never included purpose={} tx={}", it->first,
                         to_hex0x(entry.hashes.back()));
            it = pending_.erase(it);
            continue;
        }
        if (!entry.done && height > entry.raised_at + kRaiseBlocks) {
            if (const Status raised = raise_fees(entry); !raised)
                log::debug(log::Category::worker, "fees not raised purpose={} reason={}", it->first,
                           raised.error().to_string());
            entry.raised_at = height;
        }
        ++it;
    }
}

Sender::Outcome Sender::send_encoded(const std::string& purpose, NativeKind kind, const Bytes& payload, Retry retry) {
    if (pending_.contains(purpose)) return Outcome::waiting;
    auto sent = sign_and_send(kind, payload);
    if (!sent) {
        log::debug(log::Category::worker, "not sent purpose={} reason={}", purpose, sent.error().to_string());
        if (sent.error().is_busy()) warn_of_limit(sent.error());
        if (retry == Retry::later) pending_[purpose] = {{}, true, height_, height_, {}};
        return Outcome::refused;
    }
    log::info(log::Category::worker, "sent purpose={} tx={} bytes={}", purpose, to_hex0x(sent->hashes.back()),
              payload.size());
    pending_[purpose] = std::move(*sent);
    return Outcome::sent;
}

Expected<Sender::Pending> Sender::sign_and_send(NativeKind kind, const Bytes& payload) {
    QUERN_TRY(const Bytes call_data, chain::types::abi::encode_call(kind, payload));
    const auto target = chain::types::group_address(chain::types::group_of(kind));
    QUERN_TRY(const std::uint64_t gas, node_.estimate_gas(address_, target, call_data));
    if (gas > kMaxTransactionGas) return fail("spending.gas_too_high", std::to_string(gas));
    QUERN_TRY(const Uint256 price, node_.gas_price());

    Pending entry;
    entry.height = entry.raised_at = height_;
    chain::types::Transaction& tx = entry.newest;
    tx.type = chain::types::TxType::native;
    tx.chain_id = chain_id_;
    QUERN_TRY(tx.nonce, node_.pending_nonce(address_));
    QUERN_TRY(tx.max_fee_per_gas, spending_.fee_cap(price, kFeeHeadroom));
    tx.max_priority_fee_per_gas = price;
    tx.gas_limit = gas * kGasMarginPercent / 100 + kGasMargin;
    tx.native_kind = static_cast<std::uint8_t>(kind);
    tx.data = payload;
    QUERN_CHECK(spending_.book(tx.max_fee_per_gas * tx.gas_limit));
    chain::types::sign(tx, key_);
    QUERN_TRY(const Hash32 hash, node_.send_raw(chain::types::encode(tx)));
    entry.hashes.push_back(hash);
    return entry;
}

Status Sender::raise_fees(Pending& entry) {
    QUERN_TRY(const Uint256 price, node_.gas_price());
    chain::types::Transaction tx = entry.newest;
    const auto raised = [](const Uint256& fee) { return mul_div(fee, kRaisePercent, 100).value_or(fee) + Uint256(1); };
    // While the fee cap covers the price, the transaction waits for something else than its fees.
    if (price < tx.max_fee_per_gas) return {};
    const Uint256 before = tx.max_fee_per_gas;
    QUERN_TRY(const Uint256 wanted, spending_.fee_cap(price, kFeeHeadroom));
    QUERN_TRY(tx.max_fee_per_gas, spending_.fee_cap(std::max(wanted, raised(before)), 1));
    // One of the two is paid, never both.
    QUERN_CHECK(spending_.book((tx.max_fee_per_gas - before) * tx.gas_limit));
    tx.max_priority_fee_per_gas = raised(tx.max_priority_fee_per_gas);
    if (tx.max_priority_fee_per_gas > tx.max_fee_per_gas) tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    chain::types::sign(tx, key_);
    QUERN_TRY(const Hash32 hash, node_.send_raw(chain::types::encode(tx)));
    log::info(log::Category::worker, "fees raised tx={} replaces={}", to_hex0x(hash), to_hex0x(entry.hashes.back()));
    entry.hashes.push_back(hash);
    entry.newest = std::move(tx);
    return {};
}

}  // namespace quern::compute::worker
