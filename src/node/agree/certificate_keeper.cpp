#include "node/agree/certificate_keeper.h"

#include "base/big_endian.h"
#include "base/log.h"
#include "chain/consensus/sdbft/messages.h"
#include "chain/store/block_store.h"
#include "chain/store/certificate_store.h"
#include "chain/store/tables.h"
#include "node/chain/certificate_lookup.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
namespace store = chain::store;
using chain::consensus::Certificate;

namespace {

constexpr std::string_view kThinnedUntil = "certificates_thinned_until";  // epochs before it are thin
constexpr std::uint64_t kMaxThinnedAtOnce = 16;                           // epochs

void warn(std::string_view what, const Error& error) {
    log::warning(log::Category::consensus, "{} reason={}", what, error.to_string());
}

}  // namespace

void CertificateKeeper::keep(Certificate certificate) {
    std::size_t waiting = 0;
    {
        const MutexLock lock(mutex_);
        waiting_.push_back(std::move(certificate));
        waiting = waiting_.size();
    }
    if (waiting >= kMaxUnwrittenCertificates) return flush();
    if (waiting == 1) (void)parts_.work.post_own([this] { flush(); });
}

void CertificateKeeper::entered(std::uint64_t epoch) {
    (void)parts_.work.post_own([this, epoch] {
        flush();
        if (const auto pruned = prune(epoch); !pruned) warn("certificates not pruned", pruned.error());
    });
}

void CertificateKeeper::flush() {
    const MutexLock disk(disk_);
    std::vector<Certificate> certificates;
    {
        const MutexLock lock(mutex_);
        certificates.swap(waiting_);
    }
    if (certificates.empty()) return;
    store::WriteBatch batch;
    std::vector<Certificate> newer;
    for (auto& certificate : certificates) {
        look_for_conflicts(certificate, newer);
        store::CertificateStore::put(batch, certificate.epoch, certificate.view,
                                     static_cast<std::uint8_t>(certificate.type), certificate.hash,
                                     encode(certificate));
        // A block that became final with a later one may have this of its own, by which ranges are cut and served.
        if (certificate.type == chain::consensus::VoteType::finalize)
            store::BlockStore::put_finalization(batch, certificate.hash, encode(certificate));
        newer.push_back(std::move(certificate));
    }
    // Not synced: the journal and the blocks hold the newest ones.
    if (const auto written = parts_.store.write(batch, false); !written) warn("certificates not kept", written.error());
}

bool CertificateKeeper::is_settled(const Certificate& certificate) const {
    const auto& tip = parts_.board.latest()->head->block.header.consensus;
    return certificate.epoch < tip.epoch || (certificate.epoch == tip.epoch && certificate.view <= tip.view);
}

void CertificateKeeper::look_for_conflicts(const Certificate& certificate, const std::vector<Certificate>& newer) {
    const CertificateLookup lookup(parts_.store, heights_);
    auto known = is_settled(certificate) ? lookup.about(certificate.epoch, certificate.view)
                                         : lookup.kept(certificate.epoch, certificate.view);
    if (!known) return warn("contradictions not looked for", known.error());
    for (const auto& other : newer)
        if (other.epoch == certificate.epoch && other.view == certificate.view) known->push_back(other);
    for (const auto& other : *known) {
        if (!sdbft::is_slashable_pair(certificate.vote(), other.vote())) continue;
        log::error(log::Category::consensus,
                   "TWO CERTIFICATES CONTRADICT EACH OTHER epoch={} view={} first={} second={}", certificate.epoch,
                   certificate.view, sdbft::describe(other), sdbft::describe(certificate));
        const auto committee = parts_.committee(certificate.epoch);
        if (!committee) continue;
        for (auto& evidence : sdbft::conflicts_between(certificate, other, *committee))
            parts_.convict(std::move(evidence));
    }
}

Status CertificateKeeper::prune(std::uint64_t epoch) {
    const MutexLock disk(disk_);
    // As long as the state knows the epoch's committee, and so whom to convict.
    const std::uint64_t kept = parts_.window_blocks / parts_.epoch_length + 1;
    for (std::size_t erased = store::kMaxPrunedAtOnce; epoch > kept && erased == store::kMaxPrunedAtOnce;) {
        store::WriteBatch batch;
        QUERN_TRY(erased, store::CertificateStore(parts_.store).prune(batch, epoch - kept));
        if (erased != 0) QUERN_CHECK(parts_.store.write(batch, false));
    }
    return thin(epoch);
}

Status CertificateKeeper::thin(std::uint64_t epoch) {
    if (epoch <= store::kWholeCertificateEpochs) return {};
    const std::uint64_t end = epoch - store::kWholeCertificateEpochs;
    QUERN_TRY(const auto mark, store::get_meta(parts_.store, kThinnedUntil));
    std::uint64_t at = from_big_endian(mark.value_or(Bytes{}));
    // A node that was away for long does it bit by bit.
    const std::uint64_t until = std::min(end, at + kMaxThinnedAtOnce);
    const store::BlockStore blocks(parts_.store);
    for (; at < until; ++at) {
        std::set<Hash32> on_chain;
        for (std::uint64_t height = heights_.first(at); height < heights_.last(at); ++height) {
            QUERN_TRY(const auto hash, blocks.canonical_hash(height));
            if (hash) on_chain.insert(*hash);
        }
        store::WriteBatch batch;
        QUERN_CHECK(store::CertificateStore(parts_.store).thin(batch, at, on_chain));
        const auto next = be64(at + 1);
        store::put_meta(batch, kThinnedUntil, next);
        QUERN_CHECK(parts_.store.write(batch, false));
    }
    return {};
}

}  // namespace quern::node
