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

// --- Compact blocks
// ---------------------------------------------------------------------------------------------------

TEST(CompactBlock, is_put_together_from_what_is_known_and_what_is_asked) {
    chain::types::Block block;
    block.header.number = 3;
    for (std::uint8_t i = 0; i < 6; ++i) block.transactions.push_back(transaction(i));
    block.parent_certificate = Bytes(9, 9);
    block.withdrawals = {{1, 2, peer(3), 4}};
    const auto compact =
        gossip::make_compact(block, Bytes{1}, 77, [](const Hash32& hash) { return hash != hash_of(transaction(2)); });
    EXPECT_EQ(compact.prefilled.size(), 1U);
    const auto wire = messages::decode_compact_block(messages::encode(compact));
    ASSERT_TRUE(wire);
    gossip::BlockAssembly assembly(*wire, [](const auto& take) {
        for (const std::uint8_t i : std::array<std::uint8_t, 4>{0, 1, 3, 99})
            take(hash_of(transaction(i)), transaction(i));
    });
    EXPECT_EQ(assembly.hash(), chain::types::hash_of(block.header));
    EXPECT_EQ(assembly.missing(), (std::vector<std::uint64_t>{4, 5}));
    EXPECT_EQ(assembly.finish().error().name, "compact_block.incomplete");
    EXPECT_EQ(assembly.fill({transaction(4)}).error().name, "compact_block.wrong_count");
    EXPECT_EQ(assembly.fill({transaction(5), transaction(4)}).error().name, "compact_block.wrong_transaction");
    ASSERT_TRUE(assembly.fill({transaction(4), transaction(5)}));
    EXPECT_EQ(assembly.finish()->block, chain::types::encode(block));
}

TEST(CompactBlock, ids_differ_with_block_and_salt_so_collisions_cannot_be_prepared) {
    const Hash32 hash = hash_of(transaction(1));
    const gossip::BlockIds ids(Hash32{{1}}, 5);
    EXPECT_EQ(ids.of(hash), gossip::BlockIds(Hash32{{1}}, 5).of(hash));
    EXPECT_NE(ids.of(hash), gossip::BlockIds(Hash32{{1}}, 6).of(hash));
    EXPECT_NE(ids.of(hash), gossip::BlockIds(Hash32{{2}}, 5).of(hash));
    EXPECT_NE(ids.of(hash), ids.of(hash_of(transaction(2))));
    // Two that agree in what relaying calls them, as whoever grinds them can make them, are two in a block.
    Hash32 first = hash;
    first.data[31] ^= 1;
    EXPECT_EQ(messages::short_id(first), messages::short_id(hash));
    EXPECT_NE(ids.of(first), ids.of(hash));
}

TEST(CompactBlock, what_shares_an_id_is_asked_for) {
    messages::CompactBlock compact;
    compact.salt = 3;
    const gossip::BlockIds ids(chain::types::hash_of(compact.header), compact.salt);
    const auto id = ids.of(hash_of(transaction(1)));
    compact.ids = {id, id, ids.of(hash_of(transaction(2)))};
    gossip::BlockAssembly assembly(compact, [](const auto& take) {
        for (const std::uint8_t i : std::array<std::uint8_t, 2>{1, 2}) take(hash_of(transaction(i)), transaction(i));
    });
    EXPECT_EQ(assembly.missing(), (std::vector<std::uint64_t>{0, 1}));
}

TEST(CompactBlock, a_few_ids_make_no_more_than_a_block_may_have) {
    const Bytes large(chain::types::kMaxBlockBytes / 2 + 1, 7);
    messages::CompactBlock compact;
    compact.prefilled.push_back({0, large});
    EXPECT_TRUE(gossip::BlockAssembly(compact, [](const auto&) {}).finish());
    const gossip::BlockIds ids(chain::types::hash_of(compact.header), compact.salt);
    compact.ids = {ids.of(hash_of(large))};
    gossip::BlockAssembly assembly(compact, [&](const auto& take) { take(hash_of(large), large); });
    EXPECT_TRUE(assembly.missing().empty());
    EXPECT_EQ(assembly.finish().error().name, "compact_block.too_large");
}

}  // namespace
}  // namespace quern::p2p
