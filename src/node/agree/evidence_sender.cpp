#include "node/agree/evidence_sender.h"

#include "base/log.h"
#include "chain/store/certificate_store.h"
#include "chain/types/native_tx.h"

namespace quern::node {

namespace exec = chain::exec;

namespace types = chain::types;

EvidenceSender::EvidenceSender(const Parts& parts, crypto::PrivateKey key)
    : parts_(parts), key_(std::move(key)), address_(crypto::address20(key_)) {
    const auto stored = chain::store::EvidenceStore(parts_.store).all();
    if (!stored) {
        log::warning(log::Category::consensus, "pending evidence not read reason={}", stored.error().to_string());
        return;
    }
    const MutexLock lock(mutex_);
    for (const auto& [convict, evidence] : *stored)
        if (pending_.size() < kMaxPendingEvidence) pending_[convict] = Pending{evidence, std::nullopt, false};
}

void EvidenceSender::write(const chain::store::WriteBatch& batch) const {
    if (const auto written = parts_.store.write(batch, true); !written)
        log::warning(log::Category::consensus, "pending evidence not written reason={}", written.error().to_string());
}

void EvidenceSender::convict(chain::consensus::sdbft::Evidence evidence) {
    const auto convict = crypto::address20(evidence.signer);
    const Bytes encoded = encode(evidence);
    {
        const MutexLock lock(mutex_);
        // One offence suffices: a convict is out for good.
        if (pending_.size() >= kMaxPendingEvidence || pending_.contains(convict)) return;
        pending_[convict] = Pending{encoded, std::nullopt, false};
    }
    chain::store::WriteBatch batch;
    chain::store::EvidenceStore::put(batch, convict, encoded);
    write(batch);
}

std::size_t EvidenceSender::pending() const {
    const MutexLock lock(mutex_);
    return pending_.size();
}

void EvidenceSender::step() {
    std::map<types::Address, Pending> work;
    {
        const MutexLock lock(mutex_);
        work = pending_;
    }
    chain::store::WriteBatch over;
    for (auto& [convict, pending] : work) {
        const bool done = handle(pending);
        if (done) chain::store::EvidenceStore::erase(over, convict);
        const MutexLock lock(mutex_);
        if (done)
            pending_.erase(convict);
        else
            pending_[convict] = pending;
    }
    if (!over.empty()) write(over);
}

Bytes EvidenceSender::transaction(const Bytes& evidence, std::uint64_t nonce, const Uint256& max_fee) const {
    types::Transaction tx;
    tx.type = types::TxType::native;
    tx.native_kind = static_cast<std::uint8_t>(types::NativeKind::evidence);
    tx.chain_id = parts_.chain_id;
    tx.nonce = nonce;
    tx.max_priority_fee_per_gas = max_fee / Uint256(kEvidenceFeeFactor);
    tx.max_fee_per_gas = max_fee;
    tx.gas_limit = kEvidenceGas;
    tx.data = types::encode_record(types::EvidencePayload{evidence});
    types::sign(tx, key_);
    return types::encode(tx);
}

bool EvidenceSender::handle(Pending& pending) {
    if (pending.sent && parts_.pool.find(*pending.sent) != nullptr) return false;  // waits for a block
    const auto at = parts_.board.latest();
    const auto account = at->state.account(address_);
    const std::uint64_t nonce = account ? account->nonce : 0;
    auto sent = parts_.submitter.submit(transaction(pending.evidence, parts_.pool.next_nonce(address_, nonce),
                                                    at->next_base_fee * Uint256(kEvidenceFeeFactor)));
    // A validator need not have free money: then the evidence travels without a fee (doc/staking.md).
    if (exec::is(sent.result, exec::kInsufficientFunds))
        sent = parts_.submitter.submit(transaction(pending.evidence, nonce, Uint256()));
    if (sent) {
        pending.sent = sent.hash;
        log::info(log::Category::consensus, "evidence sent tx={}", to_hex0x(sent.hash));
        return false;
    }
    // Convicted already, too long ago, never in that committee: the state says so.
    if (sent.result.band != exec::Band::retry && !exec::is_listed(sent.result)) {
        log::info(log::Category::consensus, "evidence closed reason={}", sent.result.to_string());
        return true;
    }
    if (!pending.warned)
        log::warning(log::Category::consensus, "evidence waits reason={} account={}", sent.result.to_string(),
                     to_hex0x(address_));
    pending.warned = true;
    return false;
}

}  // namespace quern::node
