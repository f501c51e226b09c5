// Blocks as short ids: cutting one, and putting one together from transactions that are here already. The transactions'
// root is checked by who imports the block; a block that fails there although no peer lied (two transactions with one
// short id, which only their maker can produce) is fetched whole. Pure; thread-safe values.
#pragma once

#include <functional>
#include <optional>

#include "p2p/messages/messages.h"

namespace quern::p2p::gossip {

// `known` says which transactions the receiver probably has; the others travel inside.
[[nodiscard]] messages::CompactBlock make_compact(const chain::types::Block& block, BytesView certificate,
                                                  const std::function<bool(const messages::ShortId&)>& known);

class BlockAssembly {
public:
    BlockAssembly(messages::CompactBlock compact,
                  const std::function<std::optional<Bytes>(const messages::ShortId&)>& lookup);

    [[nodiscard]] const Hash32& hash() const { return hash_; }
    [[nodiscard]] const messages::CompactBlock& compact() const { return compact_; }
    // Indices of what is still missing, ascending.
    [[nodiscard]] std::vector<std::uint64_t> missing() const;
    // The missing ones in their order. Errors: compact_block.wrong_count, compact_block.wrong_transaction.
    [[nodiscard]] Status fill(const std::vector<Bytes>& transactions);
    // Once nothing is missing. Error compact_block.incomplete, compact_block.too_large.
    [[nodiscard]] Expected<messages::BlockAnswer> finish() const;

private:
    messages::CompactBlock compact_;
    Hash32 hash_;
    std::vector<std::optional<Bytes>> transactions_;
    std::vector<std::optional<messages::ShortId>> expected_;
};

}  // namespace quern::p2p::gossip
