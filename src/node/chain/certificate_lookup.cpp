#include "node/chain/certificate_lookup.h"

#include <algorithm>

#include "base/rlp.h"

#include "chain/store/certificate_store.h"

namespace quern::node {

using chain::consensus::Certificate;

namespace {

// The view alone: bodies can be large.
Expected<std::uint64_t> view_of(BytesView encoded) {
    QUERN_TRY(auto block, rlp::decode_list(encoded));
    QUERN_TRY(const auto header, block.next());
    QUERN_TRY(const auto decoded, chain::types::decode_header(header.whole));
    return decoded.consensus.view;
}

}  // namespace

Expected<Bytes> CertificateLookup::block_at(std::uint64_t height) const {
    QUERN_TRY(const auto hash, blocks_.canonical_hash(height));
    if (!hash) return fault("store.corrupt", "no block at " + std::to_string(height));
    QUERN_TRY(const auto encoded, blocks_.block(*hash));
    if (!encoded) return fault("store.corrupt", "the block at " + std::to_string(height) + " is missing");
    return *encoded;
}

Expected<std::optional<std::uint64_t>> CertificateLookup::height_of(std::uint64_t epoch, std::uint64_t view) const {
    QUERN_TRY(const auto head, blocks_.head());
    if (!head || head->number < heights_.first(epoch)) return std::optional<std::uint64_t>();
    // Views grow with heights.
    std::uint64_t low = std::max<std::uint64_t>(1, heights_.first(epoch));
    std::uint64_t high = std::min(heights_.last(epoch), head->number) + 1;
    while (low < high) {
        const std::uint64_t middle = low + (high - low) / 2;
        QUERN_TRY(const auto block, block_at(middle));
        QUERN_TRY(const std::uint64_t found, view_of(block));
        if (found == view) return std::optional(middle);
        if (found < view)
            low = middle + 1;
        else
            high = middle;
    }
    return std::optional<std::uint64_t>();
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
    QUERN_TRY(const auto height, height_of(epoch, view));
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
