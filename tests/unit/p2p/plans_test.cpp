#include <gtest/gtest.h>

#include "p2p/content_exchange/fetch_plan.h"
#include "p2p/gossip/compact_block.h"
#include "p2p/gossip/tx_relay.h"

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
const auto kAll = [](const messages::ShortId&) { return true; };

// --- Transactions
// -----------------------------------------------------------------------------------------------------

TEST(TxRelay, asks_one_peer_and_another_when_it_fails) {
    gossip::TxRelay relay;
    for (std::uint8_t i = 1; i <= 3; ++i) relay.add_peer(peer(i));
    EXPECT_EQ(relay.announced(peer(1), {id_of(7)}, kAll, 0).size(), 1U);
    EXPECT_TRUE(relay.announced(peer(2), {id_of(7)}, kAll, 0).empty());
    std::vector<Bytes20> late;
    EXPECT_TRUE(relay.expired(gossip::kTxRequestMs - 1, late).empty());
    const auto asks = relay.expired(gossip::kTxRequestMs, late);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].peer, peer(2));
    EXPECT_EQ(late, std::vector<Bytes20>{peer(1)});
    ASSERT_TRUE(relay.received(peer(2), {transaction(7)}));
    EXPECT_EQ(relay.in_flight(), 0U);
    relay.have(hash_of(transaction(7)), transaction(7));
    // To the one that never spoke of it, once.
    EXPECT_TRUE(relay.take_announcements(peer(1)).empty());
    EXPECT_EQ(relay.take_announcements(peer(3)), std::vector<messages::ShortId>{id_of(7)});
    EXPECT_TRUE(relay.take_announcements(peer(3)).empty());
    EXPECT_EQ(*relay.find(id_of(7)), transaction(7));
}

TEST(TxRelay, unsolicited_transactions_are_an_error) {
    gossip::TxRelay relay;
    relay.add_peer(peer(1));
    EXPECT_EQ(relay.received(peer(1), {transaction(1)}).error().name, "tx_relay.unsolicited");
}

TEST(TxRelay, a_peer_that_leaves_frees_its_requests) {
    gossip::TxRelay relay;
    relay.add_peer(peer(1));
    relay.add_peer(peer(2));
    ASSERT_EQ(relay.announced(peer(1), {id_of(1)}, kAll, 0).size(), 1U);
    (void)relay.announced(peer(2), {id_of(1)}, kAll, 0);
    relay.remove_peer(peer(1));
    std::vector<Bytes20> late;
    const auto asks = relay.expired(1, late);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].peer, peer(2));
    EXPECT_TRUE(late.empty());
}

TEST(TxRelay, bounds_what_one_peer_can_make_it_ask) {
    gossip::TxRelay relay;
    relay.add_peer(peer(1));
    std::size_t asked = 0;
    for (std::uint32_t i = 0; i < 3 * gossip::kMaxInFlightPerPeer; ++i) {
        messages::ShortId id;
        std::memcpy(id.data.data(), &i, 4);
        asked += relay.announced(peer(1), {id}, kAll, 0).size();
    }
    EXPECT_EQ(asked, gossip::kMaxInFlightPerPeer);
}

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

// --- Contents
// ---------------------------------------------------------------------------------------------------------

struct Content {
    Bytes bytes;
    content::Manifest manifest;
    Hash32 id;
    explicit Content(std::size_t size) : bytes(size) {
        SeededRng rng(size);
        rng.fill(bytes);
        crypto::ContentHasher hasher;
        hasher.update(bytes);
        id = hasher.finish();
        manifest = {size, hasher.leaves()};
    }
    [[nodiscard]] messages::Leaves answer(const content_exchange::FetchPlan::Ask& ask) const {
        messages::Leaves out{id, ask.request.first, {}};
        if (ask.hashes) {
            for (std::uint64_t i = 0; i < ask.request.count; ++i)
                append(out.bytes, manifest.leaves[ask.request.first + i]);
        } else {
            const std::size_t from = ask.request.first * crypto::kContentLeafBytes;
            const std::size_t size =
                std::min<std::size_t>(ask.request.count * crypto::kContentLeafBytes, bytes.size() - from);
            out.bytes = to_bytes(BytesView(bytes).subspan(from, size));
        }
        return out;
    }
};

TEST(FetchPlan, takes_hashes_then_chunks_from_several_sources) {
    const Content content((5 << 20) + 12'345);
    content_exchange::FetchPlan plan(content.id);
    ASSERT_TRUE(plan.add_source(peer(1), {content.id, content.bytes.size(), {}}));
    ASSERT_TRUE(plan.add_source(peer(2), {content.id, content.bytes.size(), {}}));
    auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    ASSERT_TRUE(asks[0].hashes);
    ASSERT_TRUE(plan.received_hashes(asks[0].peer, content.answer(asks[0])));
    Bytes got(content.bytes.size());
    std::set<Bytes20> sources;
    asks = plan.next_asks(0);
    EXPECT_EQ(asks.size(), 6U);
    // Nothing is left to ask for, and each source has a slot free: the endgame asks a second one.
    const auto again = plan.next_asks(0);
    EXPECT_EQ(again.size(), 2U);
    asks.insert(asks.end(), again.begin(), again.end());
    while (!asks.empty()) {
        for (const auto& ask : asks) {
            sources.insert(ask.peer);
            const auto answer = content.answer(ask);
            const auto chunk = plan.received_leaves(ask.peer, answer);
            ASSERT_TRUE(chunk) << chunk.error().to_string();
            std::copy(answer.bytes.begin(), answer.bytes.end(),
                      got.begin() + static_cast<std::ptrdiff_t>(chunk->offset));
        }
        asks = plan.next_asks(0);
    }
    EXPECT_TRUE(plan.is_done());
    EXPECT_EQ(got, content.bytes);
    EXPECT_EQ(sources.size(), 2U);
}

TEST(FetchPlan, asks_for_the_rarest_chunk_first) {
    const Content content(4 << 20);
    content_exchange::FetchPlan plan(content.id);
    ASSERT_TRUE(plan.set_manifest(content.manifest));
    ASSERT_TRUE(plan.add_source(peer(1), {content.id, content.bytes.size(), {}}));
    ASSERT_TRUE(plan.add_source(peer(2), {content.id, content.bytes.size(), Bytes{0b0111}}));
    const auto asks = plan.next_asks(0);
    ASSERT_FALSE(asks.empty());
    EXPECT_EQ(asks[0].request.first, 3 * messages::kLeavesPerChunk);
    EXPECT_EQ(asks[0].peer, peer(1));
}

TEST(FetchPlan, a_bad_leaf_costs_its_source_not_the_transfer) {
    const Content content(2 << 20);
    content_exchange::FetchPlan plan(content.id);
    ASSERT_TRUE(plan.set_manifest(content.manifest));
    ASSERT_TRUE(plan.add_source(peer(1), {content.id, content.bytes.size(), {}}));
    auto asks = plan.next_asks(0);
    auto answer = content.answer(asks[0]);
    answer.bytes[70'000] ^= 1;
    EXPECT_EQ(plan.received_leaves(peer(1), answer).error().name, "content.bad_leaf");
    EXPECT_EQ(plan.sources(), 0U);
    EXPECT_EQ(plan.received_leaves(peer(1), content.answer(asks[1])).error().name, "content.unasked");
    ASSERT_TRUE(plan.add_source(peer(2), {content.id, content.bytes.size(), {}}));
    for (const auto& ask : plan.next_asks(0)) {
        const auto chunk = plan.received_leaves(ask.peer, content.answer(ask));
        EXPECT_TRUE(chunk || chunk.error().name == "content.unasked");
    }
    EXPECT_TRUE(plan.is_done());
}

TEST(FetchPlan, hashes_that_do_not_make_the_id_cost_their_sender) {
    const Content content(100'000);
    content_exchange::FetchPlan plan(content.id);
    ASSERT_TRUE(plan.add_source(peer(1), {content.id, content.bytes.size(), {}}));
    auto asks = plan.next_asks(0);
    auto answer = content.answer(asks[0]);
    answer.bytes[40] ^= 1;
    EXPECT_EQ(plan.received_hashes(peer(1), answer).error().name, "content.id_mismatch");
    EXPECT_EQ(plan.sources(), 0U);
    // A source that lies about the size cannot finish either.
    ASSERT_TRUE(plan.add_source(peer(2), {content.id, 50'000, {}}));
    asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(plan.received_hashes(peer(2), {content.id, 0, Bytes(32 * 4)}).error().name, "content.id_mismatch");
    ASSERT_TRUE(plan.add_source(peer(3), {content.id, content.bytes.size(), {}}));
    asks = plan.next_asks(0);
    ASSERT_TRUE(plan.received_hashes(peer(3), content.answer(asks[0])));
    EXPECT_NE(plan.manifest(), nullptr);
}

TEST(FetchPlan, late_sources_are_dropped_and_empty_contents_need_none) {
    const Content content(1 << 20);
    content_exchange::FetchPlan plan(content.id);
    ASSERT_TRUE(plan.set_manifest(content.manifest));
    ASSERT_TRUE(plan.add_source(peer(1), {content.id, content.bytes.size(), {}}));
    ASSERT_EQ(plan.next_asks(0).size(), 1U);
    EXPECT_EQ(plan.expired(content_exchange::kChunkMs), std::vector<Bytes20>{peer(1)});
    const Content empty(0);
    content_exchange::FetchPlan nothing(empty.id);
    ASSERT_TRUE(nothing.add_source(peer(1), {empty.id, 0, {}}));
    EXPECT_TRUE(nothing.next_asks(0).empty());
    EXPECT_TRUE(nothing.is_done());
}

}  // namespace
}  // namespace quern::p2p
