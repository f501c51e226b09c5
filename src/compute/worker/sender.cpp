#include "compute/worker/sender.h"

#include "base/log.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;

constexpr std::uint64_t kRetryBlocks = 3;    // after a refusal or failure
constexpr std::uint64_t kForgetBlocks = 30;  // a transaction that never shows up is given up
constexpr std::uint64_t kGasMarginPercent = 130;
constexpr std::uint64_t kGasMargin = 50'000;
constexpr std::uint64_t kFeeHeadroom = 2;  // fee cap = this x the node's gas price

}  // namespace

Sender::Sender(NodeClient& node, crypto::PrivateKey key, std::uint64_t chain_id)
    : node_(node), key_(std::move(key)), address_(crypto::address20(key_)), chain_id_(chain_id) {}

void Sender::refresh(std::uint64_t height) {
    height_ = height;
    for (auto it = pending_.begin(); it != pending_.end();) {
        Pending& entry = it->second;
        if (!entry.done) {
            const auto outcome = node_.outcome(entry.hash);
            if (outcome && outcome->has_value()) {
                if (!(*outcome)->success)
                    log::warning(log::Category::worker, "transaction failed purpose={} reason={}", it->first,
                                 (*outcome)->failure);
                entry.done = true;
                entry.height = height;
            } else if (height > entry.height + kForgetBlocks) {
                log::warning(log::Category::worker, "transaction never included purpose={} tx={}", it->first,
                             to_hex0x(entry.hash));
                it = pending_.erase(it);
                continue;
            }
        } else if (height > entry.height + kRetryBlocks) {
            it = pending_.erase(it);
            continue;
        }
        ++it;
    }
}

Sender::Outcome Sender::send_encoded(const std::string& purpose, NativeKind kind, const Bytes& payload) {
    if (pending_.contains(purpose)) return Outcome::waiting;
    const auto hash = sign_and_send(kind, payload);
    if (!hash) {
        log::debug(log::Category::worker, "not sent purpose={} reason={}", purpose, hash.error().to_string());
        pending_[purpose] = {{}, true, height_};
        return Outcome::refused;
    }
    log::info(log::Category::worker, "sent purpose={} tx={} bytes={}", purpose, to_hex0x(*hash), payload.size());
    pending_[purpose] = {*hash, false, height_};
    return Outcome::sent;
}

Expected<Hash32> Sender::sign_and_send(NativeKind kind, const Bytes& payload) {
    QUERN_TRY(const Bytes call_data, chain::types::abi::encode_call(kind, payload));
    const auto target = chain::types::group_address(chain::types::group_of(kind));
    QUERN_TRY(const std::uint64_t gas, node_.estimate_gas(address_, target, call_data));
    QUERN_TRY(const Uint256 price, node_.gas_price());

    chain::types::Transaction tx;
    tx.type = chain::types::TxType::native;
    tx.chain_id = chain_id_;
    QUERN_TRY(tx.nonce, node_.pending_nonce(address_));
    tx.max_fee_per_gas = price * kFeeHeadroom;
    tx.max_priority_fee_per_gas = price;
    tx.gas_limit = gas * kGasMarginPercent / 100 + kGasMargin;
    tx.native_kind = static_cast<std::uint8_t>(kind);
    tx.data = payload;
    chain::types::sign(tx, key_);
    return node_.send_raw(chain::types::encode(tx));
}

}  // namespace quern::compute::worker
