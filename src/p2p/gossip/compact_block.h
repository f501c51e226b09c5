// Blocks as short ids: cutting one, and putting one together from transactions that are here already. Ids are salted
// for each block by its sender, so that nobody can prepare two transactions with one id; two that share one by accident
// or by the sender's doing are asked for, and a block whose body is not the header's is fetched whole, without blame.
// Pure; thread-safe values.
//
//   key of a block = first 16 bytes of SHA-256(header hash || salt (8, big endian))
//   id             = SipHash-2-4(key, transaction hash), big endian
#pragma once

#include <functional>
#include <optional>

#include "p2p/messages/messages.h"

namespace quern::p2p::gossip {

class BlockIds {
public:
    BlockIds(const Hash32& header_hash, std::uint64_t salt);
    [[nodiscard]] messages::ShortId of(const Hash32& transaction_hash) const;

private:
    FixedBytes<16> key_;
};

// `known` says which transactions the receiver probably has; the others travel inside.
[[nodiscard]] messages::CompactBlock make_compact(const chain::types::Block& block, BytesView certificate,
                                                  std::uint64_t salt,
                                                  const std::function<bool(const Hash32& hash)>& known);

class BlockAssembly {
public:
    // Called with each transaction that is here.
    using Take = std::function<void(const Hash32& hash, const Bytes& encoded)>;
    // `each_known` calls what it is given with all of them.
    BlockAssembly(messages::CompactBlock compact, const std::function<void(const Take&)>& each_known);

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
    BlockIds ids_;
    std::vector<std::optional<Bytes>> transactions_;
    std::vector<std::optional<messages::ShortId>> expected_;
};

}  // namespace quern::p2p::gossip
