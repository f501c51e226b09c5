#include "node/chain/certificate_lookup.h"

#include <algorithm>

#include "chain/store/certificate_store.h"

namespace quern::node {

using chain::consensus::Certificate;

Expected<Bytes> CertificateLookup::block_at(std::uint64_t height) const {
    QUERN_TRY(const auto hash, blocks_.canonical_hash(height));
    if (!hash) return fault("store.corrupt", "no block at " + std::to_string(height));
    QUERN_TRY(const auto encoded, blocks_.block(*hash));
    if (!encoded) return fault("store.corrupt", "the block at " + std::to_string(height) + " is missing");
    return *encoded;
}

Expected<std::vector<Certificate>> CertificateLookup::kept(std::uint64_t epoch, std::uint64_t view) const {
    std::vector<Certificate> found;
    QUERN_TRY(const auto encoded, chain::store::CertificateStore(reader_).find(epoch, view));
    for (const auto& each : encoded) {
        QUERN_TRY(auto certificate, chain::consensus::decode_certificate(each));
        found.push_back(std::move(certificate));
    }
    return found;
}

Expected<std::vector<Certificate>> CertificateLookup::about(std::uint64_t epoch, std::uint64_t view) const {
    QUERN_TRY(auto found, kept(epoch, view));
    const auto add = [&](BytesView encoded) -> Status {
        QUERN_TRY(auto certificate, chain::consensus::decode_certificate(encoded));
        const auto same = [&](const Certificate& known) { return known.vote() == certificate.vote(); };
        if (certificate.epoch == epoch && certificate.view == view && std::none_of(found.begin(), found.end(), same))
            found.push_back(std::move(certificate));
        return {};
    };
    QUERN_TRY(const auto height, blocks_.height_of(epoch, view));
    if (!height) return found;
    QUERN_TRY(const auto hash, blocks_.canonical_hash(*height));
    QUERN_TRY(const auto finalization, blocks_.finalization(hash.value_or(Hash32{})));
    if (finalization) QUERN_CHECK(add(*finalization));
    QUERN_TRY(const auto head, blocks_.head());
    if (head && *height < head->number) {
        QUERN_TRY(const auto encoded, block_at(*height + 1));
        QUERN_TRY(const auto child, chain::types::decode_block(encoded));
        if (!child.parent_certificate.empty()) QUERN_CHECK(add(child.parent_certificate));
    }
    return found;
}

Expected<Certificate> CertificateLookup::covering(std::uint64_t height) const {
    QUERN_TRY(const auto head, blocks_.head());
    const std::uint64_t last = std::min(heights_.last(heights_.epoch_of(height)), head ? head->number : 0);
    for (std::uint64_t at = height; at <= last; ++at) {
        QUERN_TRY(const auto hash, blocks_.canonical_hash(at));
        if (!hash) break;
        QUERN_TRY(const auto finalization, blocks_.finalization(*hash));
        if (finalization) return chain::consensus::decode_certificate(*finalization);
    }
    return fail("certificate.none", std::to_string(height));
}

}  // namespace quern::node
