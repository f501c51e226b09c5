#include "compute/worker/sender.h"

#include <algorithm>

#include "base/fs.h"
#include "base/log.h"

namespace quern::compute::worker {
namespace {

constexpr std::uint64_t kRetryBlocks = 3;                     // after a refusal or failure
constexpr std::uint64_t kAskAgainBlocks = 30;                 // whether the node still has what does not show up
constexpr std::uint64_t kRaiseBlocks = 3;                     // a transaction that waits longer may pay too little
constexpr std::uint64_t kRaisePercent = 125;                  // what a node asks of a replacement is less
constexpr std::uint64_t kWarnBlocks = 100;                    // between two warnings of a kind
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;  // one move is 64 KiB at most

// Of the day's limit that a transaction may use.
std::uint64_t share_of(std::uint8_t kind) {
    using chain::types::NativeKind;
    if (kind == static_cast<std::uint8_t>(NativeKind::tick)) return kTickPercent;
    // Neither is promised to anybody before it is sent.
    const bool is_free = kind == static_cast<std::uint8_t>(NativeKind::data_answer) ||
                         kind == static_cast<std::uint8_t>(NativeKind::profile_commit);
    return is_free ? kAnswerPercent : 100;
}

}  // namespace

Expected<chain::types::Transaction> compose_native(NodeView& node, const chain::types::Address& from,
                                                   std::uint64_t chain_id, chain::types::NativeKind kind,
                                                   const Bytes& payload, const FeeCap& fee_cap) {
    QUERN_TRY(const Bytes call_data, chain::types::abi::encode_call(kind, payload));
    const auto target = chain::types::group_address(chain::types::group_of(kind));
    QUERN_TRY(const std::uint64_t gas, node.estimate_gas(from, target, call_data));
    if (gas > kMaxTransactionGas) return fail("spending.gas_too_high", std::to_string(gas));
    QUERN_TRY(const Uint256 price, node.gas_price());

    chain::types::Transaction tx;
    tx.type = chain::types::TxType::native;
    tx.chain_id = chain_id;
    QUERN_TRY(tx.nonce, node.pending_nonce(from));
    QUERN_TRY(tx.max_fee_per_gas, fee_cap(price));
    // Nodes advise the tip that was paid before: a whole price would be advised to the next, and grow with each.
    QUERN_TRY(const Uint256 tip, node.tip());
    tx.max_priority_fee_per_gas = std::min(tip, tx.max_fee_per_gas);
    tx.gas_limit = gas_limit_of(kind, gas);
    tx.native_kind = static_cast<std::uint8_t>(kind);
    tx.data = payload;
    return tx;
}

Sender::Sender(NodeView& node, crypto::PrivateKey key, std::uint64_t chain_id, Spending spending, std::string file)
    : node_(&node),
      key_(std::move(key)),
      address_(crypto::address20(key_)),
      chain_id_(chain_id),
      spending_(std::move(spending)),
      file_(std::move(file)) {}

Expected<Sender> Sender::open(NodeView& node, crypto::PrivateKey key, std::uint64_t chain_id, Spending spending,
                              std::string file) {
    Sender sender(node, std::move(key), chain_id, std::move(spending), std::move(file));
    QUERN_CHECK(sender.load());
    return sender;
}

Status Sender::load() {
    if (!fs::exists(file_)) return {};
    QUERN_TRY(const Bytes bytes, fs::read_file(file_, kMaxFileBytes));
    auto saved = chain::types::decode_record<Saved>(bytes);
    if (!saved) return detailed(saved.error(), file_ + ": " + saved.error().detail);
    for (SavedPending& each : saved->pending) {
        Pending entry;
        entry.hashes = std::move(each.hashes);
        entry.done = each.done;
        entry.height = each.height;
        entry.raised_at = each.raised_at;
        QUERN_TRY(entry.newest, chain::types::decode_transaction(each.newest));
        pending_[each.purpose] = std::move(entry);
    }
    return {};
}

Status Sender::save() const {
    Saved saved;
    for (const auto& [purpose, entry] : pending_)
        if (!entry.hashes.empty())
            saved.pending.push_back(
                {purpose, entry.hashes, chain::types::encode(entry.newest), entry.done, entry.height, entry.raised_at});
    return fs::write_file_atomic(file_, chain::types::encode_record(saved), 0600);
}

// In words that an operator sees, once in a while: a worker that must not pay may miss a deadline and lose its bond.
void Sender::warn_of_limit(const Error& error) {
    if (warned_at_ != 0 && height_ < warned_at_ + kWarnBlocks) return;
    warned_at_ = std::max<std::uint64_t>(height_, 1);
    log::warning(log::Category::worker, "not paid: {}; see --max-fee-per-gas and --max-fees-per-day",
                 error.to_string());
}

void Sender::warn_of_refusal(const std::string& purpose, const Error& error) {
    if (refusal_warned_at_ != 0 && height_ < refusal_warned_at_ + kWarnBlocks) return;
    refusal_warned_at_ = std::max<std::uint64_t>(height_, 1);
    log::warning(log::Category::worker, "not sent purpose={} reason={}", purpose, error.to_string());
}

bool Sender::included(const std::string& purpose, Pending& entry) {
    for (const Hash32& hash : entry.hashes) {
        const auto outcome = node_->outcome(hash);
        if (!outcome || !outcome->has_value()) continue;
        if ((*outcome)->failure == kTickedAlready)
            log::info(log::Category::worker, "another account ticked first purpose={}", purpose);
        else if (!(*outcome)->success)
            log::warning(log::Category::worker, "transaction failed purpose={} reason={}", purpose,
                         (*outcome)->failure);
        entry.ran_out = (*outcome)->failure == kOutOfGas;
        return true;
    }
    return false;
}

bool Sender::repeat(Pending& entry) {
    const auto known = node_->knows(entry.hashes.back());
    if (!known) return true;
    entry.known = *known;
    if (entry.known) return true;
    const auto sent = node_->send_raw(chain::types::encode(entry.newest));
    entry.known = sent.has_value();
    return sent || sent.error().is_busy();
}

void Sender::refresh(std::uint64_t height) {
    height_ = height;
    bool changed = false;
    for (auto it = pending_.begin(); it != pending_.end();) {
        const std::string& purpose = it->first;
        Pending& entry = it->second;
        if (entry.done) {
            const bool over = height > entry.height + kRetryBlocks;
            changed = changed || (over && !entry.hashes.empty());
            it = over ? pending_.erase(it) : std::next(it);
            continue;
        }
        if (included(purpose, entry)) {
            entry.done = true;
        } else if (!entry.known && !repeat(entry)) {
            entry.done = included(purpose, entry);  // between the two questions
            if (!entry.done) {
                log::warning(log::Category::worker, "transaction refused purpose={} tx={}", purpose,
                             to_hex0x(entry.hashes.back()));
                changed = true;
                it = pending_.erase(it);
                continue;
            }
        } else if (height > entry.height + kAskAgainBlocks) {
            entry.known = false;
            entry.height = height;
        }
        if (entry.done) {
            changed = true;
            if (entry.ran_out) {  // it was estimated before what made it dearer: at once, with what is known now
                it = pending_.erase(it);
                continue;
            }
            entry.height = height;
        }
        if (!entry.done && height > entry.raised_at + kRaiseBlocks) {
            if (const Status raised = raise_fees(entry); !raised)
                log::debug(log::Category::worker, "fees not raised purpose={} reason={}", purpose,
                           raised.error().to_string());
            entry.raised_at = height;
        }
        ++it;
    }
    if (!changed) return;
    if (const Status saved = save(); !saved)
        log::error(log::Category::worker, "what is on its way was not saved reason={}", saved.error().to_string());
}

void Sender::send(const Send& send) {
    for (const Attempt& attempt : send.attempts)
        if (this->send(attempt) != Outcome::refused) return;
}

Sender::Outcome Sender::send(const Attempt& attempt) {
    if (pending_.contains(attempt.purpose)) return Outcome::waiting;
    const Status sent = sign_and_send(attempt);
    if (sent) {
        log::info(log::Category::worker, "sent purpose={} tx={} bytes={}", attempt.purpose,
                  to_hex0x(pending_.at(attempt.purpose).hashes.back()), attempt.payload.size());
        return Outcome::sent;
    }
    pending_.erase(attempt.purpose);
    log::debug(log::Category::worker, "not sent purpose={} reason={}", attempt.purpose, sent.error().to_string());
    if (is_spending_limit(sent.error()))
        warn_of_limit(sent.error());
    else if (attempt.kind != chain::types::NativeKind::tick && !attempt.each_block && !sent.error().is_busy())
        warn_of_refusal(attempt.purpose, sent.error());  // others may have ticked; a reveal may be early
    if (!attempt.each_block) pending_[attempt.purpose] = {{}, true, false, false, height_, height_, {}};
    return Outcome::refused;
}

Status Sender::sign_and_send(const Attempt& attempt) {
    QUERN_TRY(chain::types::Transaction tx,
              compose_native(*node_, address_, chain_id_, attempt.kind, attempt.payload,
                             [this](const Uint256& price) { return spending_.fee_cap(price, kFeeHeadroom); }));
    QUERN_CHECK(spending_.book(tx.max_fee_per_gas * tx.gas_limit, share_of(tx.native_kind)));
    Pending& entry = pending_[attempt.purpose];
    entry.height = entry.raised_at = height_;
    const Status told = tell_node(entry, std::move(tx));
    if (told) return told;
    pending_.erase(attempt.purpose);
    QUERN_CHECK(save());
    return told;
}

Status Sender::tell_node(Pending& entry, chain::types::Transaction tx) {
    chain::types::sign(tx, key_);
    const Bytes encoded = chain::types::encode(tx);
    entry.hashes.push_back(chain::types::transaction_hash(encoded));
    entry.newest = std::move(tx);
    entry.known = false;
    QUERN_CHECK(save());
    const auto sent = node_->send_raw(encoded);
    entry.known = sent.has_value();
    if (!sent && !sent.error().is_busy()) return fail(sent.error());
    return {};
}

Status Sender::raise_fees(Pending& entry) {
    QUERN_TRY(const Uint256 price, node_->gas_price());
    chain::types::Transaction tx = entry.newest;
    const auto raised = [](const Uint256& fee) { return mul_div(fee, kRaisePercent, 100).value_or(fee) + Uint256(1); };
    // While the fee cap covers the price, the transaction waits for something else than its fees.
    if (price < tx.max_fee_per_gas) return {};
    const Uint256 before = tx.max_fee_per_gas;
    QUERN_TRY(const Uint256 wanted, spending_.fee_cap(price, kFeeHeadroom));
    QUERN_TRY(tx.max_fee_per_gas, spending_.fee_cap(std::max(wanted, raised(before)), 1));
    // One of the two is paid, never both.
    QUERN_CHECK(spending_.book((tx.max_fee_per_gas - before) * tx.gas_limit, share_of(tx.native_kind)));
    tx.max_priority_fee_per_gas = raised(tx.max_priority_fee_per_gas);
    if (tx.max_priority_fee_per_gas > tx.max_fee_per_gas) tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    const Pending former = entry;
    if (const Status told = tell_node(entry, std::move(tx)); !told) {
        entry = former;
        QUERN_CHECK(save());
        return told;
    }
    log::info(log::Category::worker, "fees raised tx={} replaces={}", to_hex0x(entry.hashes.back()),
              to_hex0x(former.hashes.back()));
    return {};
}

}  // namespace quern::compute::worker
