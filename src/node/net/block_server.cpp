#include "node/net/block_server.h"

#include "chain/store/block_store.h"
#include "node/chain/certificate_lookup.h"

namespace quern::node {

namespace messages = p2p::messages;
using chain::store::BlockStore;

namespace {

// A store that cannot be read is the executor's to report; to a peer the block is not there.
std::optional<Bytes> read(const Expected<std::optional<Bytes>>& found) { return found ? *found : std::nullopt; }

}  // namespace

std::optional<messages::BlockAnswer> BlockServer::block(const Hash32& hash) const {
    const auto at = board_.latest();
    const BlockStore blocks(*at->reader);
    auto block = read(blocks.block(hash));
    if (!block) return std::nullopt;
    return messages::BlockAnswer{std::move(*block), read(blocks.finalization(hash)).value_or(Bytes{})};
}

std::optional<messages::BlockTransactions> BlockServer::transactions(
    const messages::GetBlockTransactions& asked) const {
    const auto at = board_.latest();
    const auto encoded = read(BlockStore(*at->reader).block(asked.block));
    if (!encoded) return std::nullopt;
    auto block = chain::types::decode_block(*encoded);
    if (!block) return std::nullopt;
    messages::BlockTransactions answer{asked.block, {}};
    for (const std::uint64_t index : asked.indexes) {
        if (index >= block->transactions.size()) return std::nullopt;
        answer.encoded.push_back(block->transactions[index]);
    }
    return answer;
}

std::vector<Bytes> BlockServer::certificates(const messages::GetCertificate& asked) const {
    const auto at = board_.latest();
    std::vector<Bytes> served;
    const auto found = CertificateLookup(*at->reader, heights_).about(asked.epoch, asked.view);
    if (!found) return served;
    for (const auto& certificate : *found)
        if (static_cast<std::uint8_t>(certificate.type) == asked.kind &&
            served.size() < messages::kMaxCertificatesInAnswer)
            served.push_back(encode(certificate));
    return served;
}

messages::Range BlockServer::range(const messages::GetRange& asked) const {
    const auto at = board_.latest();
    const BlockStore blocks(*at->reader);
    messages::Range answer;
    std::uint64_t bytes = 0;
    const std::uint64_t limit = std::min(asked.max_bytes, kMaxServedRangeBytes);
    const std::uint64_t count = std::min<std::uint64_t>(asked.count, messages::kMaxRangeBlocks);
    for (std::uint64_t i = 0; i < count && asked.first <= at->number() && i <= at->number() - asked.first; ++i) {
        const auto hash = blocks.canonical_hash(asked.first + i);
        if (!hash || !*hash) break;
        auto block = read(blocks.block(**hash));
        if (!block) break;
        auto certificate = read(blocks.finalization(**hash)).value_or(Bytes{});
        bytes += block->size() + certificate.size() + 16;
        if (bytes > limit && !answer.blocks.empty()) break;
        answer.blocks.push_back({std::move(*block), std::move(certificate)});
    }
    return answer;
}

}  // namespace quern::node
