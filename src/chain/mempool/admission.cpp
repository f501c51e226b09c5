#include "chain/mempool/admission.h"

#include <unordered_map>

#include "chain/exec/outlay.h"
#include "chain/types/transaction_errors.h"

namespace quern::chain::mempool {
namespace {

constexpr std::size_t kWorthThreads = 8;  // signatures; to wake a thread takes as long as one of them

// A state whose accounts are read once: the senders of a batch are few, or each is needed twice.
class AccountsOnce final : public state::StateReader {
public:
    explicit AccountsOnce(const state::StateReader& base) : base_(base) {}
    std::optional<state::Account> account(const types::Address& address) const override {
        const auto known = accounts_.find(address);
        if (known != accounts_.end()) return known->second;
        return accounts_.emplace(address, base_.account(address)).first->second;
    }
    Bytes code(const Hash32& hash) const override { return base_.code(hash); }
    Hash32 storage(const types::Address& address, const Hash32& slot) const override {
        return base_.storage(address, slot);
    }
    std::optional<Bytes> native(BytesView key) const override { return base_.native(key); }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                      std::size_t limit) const override {
        return base_.native_range(prefix, start, limit);
    }

private:
    const state::StateReader& base_;
    mutable std::unordered_map<types::Address, std::optional<state::Account>, SeededHasher> accounts_;
};

exec::Result form_refusal(const Error& error) {
    if (error.name == types::kInvalidSignature) return exec::refuse(exec::kInvalidSender, error.detail);
    if (error.name == types::kUnknownType || error.name == types::kBlobUnsupported)
        return exec::refuse(exec::kTypeNotSupported, error.to_string());
    return exec::malformed(error.name, error.detail);
}

void take(Arrival& arrival, types::RecoveredTransaction transaction, const Source& source) {
    arrival.pooled = std::make_shared<PooledTransaction>();
    arrival.pooled->bytes = footprint(transaction);
    arrival.pooled->transaction = std::move(transaction);
    arrival.pooled->source = source;
}

}  // namespace

std::vector<Arrival> recover_all(const Pool& pool, ThreadPool* threads, std::span<const Bytes> encoded,
                                 const Source& source) {
    std::vector<Arrival> arrivals(encoded.size());
    std::vector<Hash32> hashes(encoded.size());
    for (std::size_t i = 0; i < encoded.size(); ++i) hashes[i] = arrivals[i].hash = types::transaction_hash(encoded[i]);
    const auto known = pool.find(hashes);
    const auto recover = [&](std::size_t i) {
        if (known[i]) {
            arrivals[i].result = exec::refuse(exec::kAlreadyKnown);
        } else if (auto recovered = pool.senders().recover(encoded[i], hashes[i])) {
            take(arrivals[i], std::move(*recovered), source);
        } else {
            arrivals[i].result = form_refusal(recovered.error());
        }
    };
    if (threads == nullptr || encoded.size() < kWorthThreads)
        for (std::size_t i = 0; i < encoded.size(); ++i) recover(i);
    else
        threads->parallel_for(encoded.size(), recover);
    return arrivals;
}

std::vector<Arrival> recover_all(ThreadPool& threads, std::span<const JournalEntry> entries) {
    std::vector<Arrival> arrivals(entries.size());
    threads.parallel_for(entries.size(), [&](std::size_t i) {
        const JournalEntry& entry = entries[i];
        arrivals[i].hash = types::transaction_hash(entry.transaction);
        auto tx = types::decode_transaction(entry.transaction);
        if (!tx) {
            arrivals[i].result = form_refusal(tx.error());
            return;
        }
        take(arrivals[i], {std::move(*tx), entry.transaction, arrivals[i].hash, entry.sender}, {});
    });
    return arrivals;
}

bool admit(Pool& pool, std::span<Arrival> arrivals, const state::StateReader& state, std::uint64_t height) {
    const AccountsOnce accounts(state);
    std::vector<Candidate> candidates;
    std::vector<std::size_t> places;
    std::vector<exec::Result> results(arrivals.size());
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
        const Arrival& arrival = arrivals[i];
        if (!arrival.pooled) continue;
        const auto& transaction = arrival.pooled->transaction;
        // A fee below the current base fee may wait for better times, below the least possible one not.
        results[i] = exec::precheck(pool.params(), accounts, height + 1, transaction, pool.params().min_base_fee);
        if (!results[i].in_block()) continue;
        arrival.pooled->outlay = exec::outlay_of(pool.params(), transaction.tx);
        const auto account = accounts.account(transaction.sender).value_or(state::empty_account());
        candidates.push_back({arrival.pooled, {account.nonce, account.balance}});
        places.push_back(i);
    }
    if (!candidates.empty()) {
        auto admitted = pool.add(std::move(candidates), height);
        if (admitted.empty()) return false;
        for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = std::move(admitted[i].result);
    }
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
        if (!arrivals[i].pooled) continue;
        arrivals[i].result = std::move(results[i]);
        if (!arrivals[i].result.in_block()) arrivals[i].pooled.reset();
    }
    return true;
}

}  // namespace quern::chain::mempool
