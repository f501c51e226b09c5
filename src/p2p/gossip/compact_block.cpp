#include "p2p/gossip/compact_block.h"

#include <map>

#include "base/big_endian.h"
#include "crypto/hash.h"
#include "crypto/siphash.h"

namespace quern::p2p::gossip {

BlockIds::BlockIds(const Hash32& header_hash, std::uint64_t salt)
    : key_(FixedBytes<16>::copy_of(crypto::sha256({header_hash.view(), be64(salt).view()}).view().first(16))) {}

messages::ShortId BlockIds::of(const Hash32& transaction_hash) const {
    return be64(crypto::siphash24(key_, transaction_hash));
}

messages::CompactBlock make_compact(const chain::types::Block& block, BytesView certificate, std::uint64_t salt,
                                    const std::function<bool(const Hash32&)>& known) {
    const BlockIds ids(chain::types::hash_of(block.header), salt);
    messages::CompactBlock compact;
    compact.header = block.header;
    compact.salt = salt;
    compact.withdrawals = block.withdrawals;
    compact.parent_certificate = block.parent_certificate;
    compact.certificate = to_bytes(certificate);
    for (std::size_t i = 0; i < block.transactions.size(); ++i) {
        const Hash32 hash = chain::types::transaction_hash(block.transactions[i]);
        if (known(hash))
            compact.ids.push_back(ids.of(hash));
        else
            compact.prefilled.push_back({i, block.transactions[i]});
    }
    return compact;
}

BlockAssembly::BlockAssembly(messages::CompactBlock compact, const std::function<void(const Take&)>& each_known)
    : compact_(std::move(compact)), hash_(chain::types::hash_of(compact_.header)), ids_(hash_, compact_.salt) {
    const std::size_t count = compact_.transaction_count();
    transactions_.resize(count);
    expected_.resize(count);
    for (const auto& each : compact_.prefilled)
        if (each.index < count) transactions_[each.index] = each.encoded;
    std::size_t next = 0;
    for (std::size_t i = 0; i < count && next < compact_.ids.size(); ++i) {
        if (transactions_[i]) continue;
        expected_[i] = compact_.ids[next++];
    }
    // Where two transactions or two places share an id, which is which is asked.
    struct Found {
        std::optional<std::size_t> place;
        std::optional<Hash32> hash;
    };
    std::map<messages::ShortId, Found> wanted;
    for (std::size_t i = 0; i < count; ++i)
        if (expected_[i]) {
            const auto [at, is_new] = wanted.emplace(*expected_[i], Found{i, std::nullopt});
            if (!is_new) at->second.place.reset();
        }
    each_known([&](const Hash32& hash, const Bytes& encoded) {
        const auto at = wanted.find(ids_.of(hash));
        if (at == wanted.end() || !at->second.place) return;
        Found& found = at->second;
        if (found.hash && *found.hash != hash) {
            transactions_[*found.place].reset();
            found.place.reset();
            return;
        }
        found.hash = hash;
        transactions_[*found.place] = encoded;
    });
}

std::vector<std::uint64_t> BlockAssembly::missing() const {
    std::vector<std::uint64_t> indices;
    for (std::size_t i = 0; i < transactions_.size(); ++i)
        if (!transactions_[i]) indices.push_back(i);
    return indices;
}

Status BlockAssembly::fill(const std::vector<Bytes>& transactions) {
    const auto indices = missing();
    if (transactions.size() != indices.size()) return fail("compact_block.wrong_count");
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto& expected = expected_[indices[i]];
        if (!expected || ids_.of(chain::types::transaction_hash(transactions[i])) != *expected)
            return fail("compact_block.wrong_transaction", "index " + std::to_string(indices[i]));
        transactions_[indices[i]] = transactions[i];
    }
    return {};
}

Expected<messages::BlockAnswer> BlockAssembly::finish() const {
    chain::types::Block block;
    block.header = compact_.header;
    block.withdrawals = compact_.withdrawals;
    block.parent_certificate = compact_.parent_certificate;
    std::size_t bytes = 0;
    for (const auto& each : transactions_) {
        if (!each) return fail("compact_block.incomplete");
        bytes += each->size();
        if (bytes > chain::types::kMaxBlockBytes) return fail("compact_block.too_large");
        block.transactions.push_back(*each);
    }
    return messages::BlockAnswer{chain::types::encode(block), compact_.certificate};
}

}  // namespace quern::p2p::gossip
