#include "p2p/gossip/compact_block.h"

namespace quern::p2p::gossip {

using messages::ShortId;

messages::CompactBlock make_compact(const chain::types::Block& block, BytesView certificate,
                                    const std::function<bool(const ShortId&)>& known) {
    messages::CompactBlock compact;
    compact.header = block.header;
    compact.withdrawals = block.withdrawals;
    compact.parent_certificate = block.parent_certificate;
    compact.certificate = to_bytes(certificate);
    for (std::size_t i = 0; i < block.transactions.size(); ++i) {
        const ShortId id = messages::short_id(chain::types::transaction_hash(block.transactions[i]));
        if (known(id))
            compact.ids.push_back(id);
        else
            compact.prefilled.push_back({i, block.transactions[i]});
    }
    return compact;
}

BlockAssembly::BlockAssembly(messages::CompactBlock compact,
                             const std::function<std::optional<Bytes>(const ShortId&)>& lookup)
    : compact_(std::move(compact)), hash_(chain::types::hash_of(compact_.header)) {
    const std::size_t count = compact_.transaction_count();
    transactions_.resize(count);
    expected_.resize(count);
    for (const auto& each : compact_.prefilled)
        if (each.index < count) transactions_[each.index] = each.encoded;
    std::size_t next = 0;
    for (std::size_t i = 0; i < count && next < compact_.ids.size(); ++i) {
        if (transactions_[i]) continue;
        expected_[i] = compact_.ids[next++];
        transactions_[i] = lookup(*expected_[i]);
    }
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
        if (!expected || messages::short_id(chain::types::transaction_hash(transactions[i])) != *expected)
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
