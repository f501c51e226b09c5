#include <gtest/gtest.h>

#include "p2p/gossip/compact_block.h"

namespace quern::p2p {
namespace {

Bytes20 peer(std::uint8_t last) {
    Bytes20 out;
    out.data[19] = last;
    return out;
}
Bytes transaction(std::uint8_t n) { return Bytes(60, n); }
Hash32 hash_of(const Bytes& encoded) { return chain::types::transaction_hash(encoded); }
messages::ShortId id_of(std::uint8_t n) { return messages::short_id(hash_of(transaction(n))); }

// --- Compact blocks
// ---------------------------------------------------------------------------------------------------

TEST(CompactBlock, is_put_together_from_what_is_known_and_what_is_asked) {
    chain::types::Block block;
    block.header.number = 3;
    for (std::uint8_t i = 0; i < 6; ++i) block.transactions.push_back(transaction(i));
    block.parent_certificate = Bytes(9, 9);
    block.withdrawals = {{1, 2, peer(3), 4}};
    const auto compact = gossip::make_compact(block, Bytes{1}, [](const auto& id) { return id != id_of(2); });
    EXPECT_EQ(compact.prefilled.size(), 1U);
    const auto wire = messages::decode_compact_block(messages::encode(compact));
    ASSERT_TRUE(wire);
    gossip::BlockAssembly assembly(*wire, [](const auto& id) -> std::optional<Bytes> {
        for (const std::uint8_t i : std::array<std::uint8_t, 3>{0, 1, 3})
            if (id == id_of(i)) return transaction(i);
        return std::nullopt;
    });
    EXPECT_EQ(assembly.hash(), chain::types::hash_of(block.header));
    EXPECT_EQ(assembly.missing(), (std::vector<std::uint64_t>{4, 5}));
    EXPECT_EQ(assembly.finish().error().name, "compact_block.incomplete");
    EXPECT_EQ(assembly.fill({transaction(4)}).error().name, "compact_block.wrong_count");
    EXPECT_EQ(assembly.fill({transaction(5), transaction(4)}).error().name, "compact_block.wrong_transaction");
    ASSERT_TRUE(assembly.fill({transaction(4), transaction(5)}));
    EXPECT_EQ(assembly.finish()->block, chain::types::encode(block));
}

}  // namespace
}  // namespace quern::p2p
