#include "p2p/content_exchange/fetch_plan.h"

#include <gtest/gtest.h>

#include <ctime>

namespace quern::p2p::content_exchange {
namespace {

Bytes20 peer(std::uint8_t last) {
    Bytes20 out;
    out.data[19] = last;
    return out;
}

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
    [[nodiscard]] messages::ContentHolding whole() const { return {id, bytes.size(), {}}; }
    [[nodiscard]] messages::Leaves answer(const FetchPlan::Ask& ask) const {
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

struct Fetching {
    explicit Fetching(const Content& of) : content(of), plan(of.id, rng) {}
    // A fetch that has its manifest already.
    static Fetching known(const Content& of) {
        Fetching fetching(of);
        EXPECT_TRUE(fetching.plan.set_manifest(of.manifest));
        return fetching;
    }
    Fetching(const Fetching& other) : content(other.content), plan(other.content.id, rng) {
        if (other.plan.manifest() != nullptr) (void)plan.set_manifest(*other.plan.manifest());
    }
    quern::Status take(const FetchPlan::Ask& ask, std::uint64_t now) {
        if (ask.hashes) return plan.received_hashes(ask.peer, content.answer(ask));
        const auto chunk = plan.received_leaves(ask.peer, content.answer(ask), now);
        if (!chunk) return fail(chunk.error());
        return {};
    }
    const Content& content;
    SeededRng rng{4};
    FetchPlan plan;
};

TEST(FetchPlan, takes_hashes_then_chunks_from_several_sources) {
    const Content content((5 << 20) + 12'345);
    Fetching fetching(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    ASSERT_TRUE(plan.add_source(peer(2), content.whole(), 0));
    auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 2U);  // both at once
    EXPECT_TRUE(asks[0].hashes && asks[1].hashes);
    ASSERT_TRUE(fetching.take(asks[1], 0));
    EXPECT_TRUE(fetching.take(asks[0], 0).error().is_busy());  // no longer needed
    Bytes got(content.bytes.size());
    std::set<Bytes20> sources;
    asks = plan.next_asks(0);
    EXPECT_EQ(asks.size(), 4U);
    while (!asks.empty()) {
        for (const auto& ask : asks) {
            sources.insert(ask.peer);
            const auto answer = content.answer(ask);
            const auto chunk = plan.received_leaves(ask.peer, answer, 1);
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

TEST(FetchPlan, two_silent_sybils_do_not_stall_a_fetch) {
    const Content content(6 << 20);
    for (std::uint8_t honest = 1; honest <= 3; ++honest) {  // whatever the order of addresses
        Fetching fetching(content);
        FetchPlan& plan = fetching.plan;
        std::uint64_t now = 0;
        for (; now < 20'000 && !plan.is_done(); now += 50) {
            if (now % 2'000 == 0)
                for (std::uint8_t i = 1; i <= 3; ++i)
                    if (plan.add_source(peer(i), content.whole(), now)) plan.set_round_trip(peer(i), 20);
            (void)plan.expired(now);
            for (const auto& ask : plan.next_asks(now)) {
                if (ask.peer == peer(honest)) {
                    ASSERT_TRUE(fetching.take(ask, now));
                }
            }
        }
        EXPECT_TRUE(plan.is_done()) << int{honest};
        EXPECT_LT(now, 10'000U);
    }
}

TEST(FetchPlan, what_somebody_refuses_for_now_others_are_asked_for_at_once) {
    const Content content(1 << 20);  // one chunk
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    std::uint64_t now = 0;
    for (int i = 0; i < 10; ++i, now += kBusyPauseMs) {
        const auto asks = plan.next_asks(now);
        ASSERT_EQ(asks.size(), 1U) << i;
        plan.refused_for_now(asks[0], now);
        EXPECT_TRUE(plan.next_asks(now + kBusyPauseMs - 1).empty());
    }
    now -= kBusyPauseMs;
    ASSERT_TRUE(plan.add_source(peer(2), content.whole(), now));
    const auto other = plan.next_asks(now);
    ASSERT_EQ(other.size(), 1U);
    EXPECT_EQ(other[0].peer, peer(2));
    ASSERT_TRUE(fetching.take(other[0], now));
    EXPECT_TRUE(plan.is_done());
}

TEST(FetchPlan, who_failed_waits_longer_each_time_and_liars_for_ever) {
    const Content content(3 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    std::uint64_t now = 0;
    std::uint64_t last_pause = 0;
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(plan.add_source(peer(1), content.whole(), now));
        const auto asks = plan.next_asks(now);
        ASSERT_FALSE(asks.empty());
        plan.failed(asks[0], now);
        EXPECT_EQ(plan.sources(), 0U);
        EXPECT_TRUE(plan.next_asks(now).empty());
        std::uint64_t pause = 0;
        while (!plan.add_source(peer(1), content.whole(), now + pause)) pause += 500;
        EXPECT_GT(pause, last_pause);
        last_pause = pause;
        now += pause;
        plan.remove_source(peer(1));
    }
    ASSERT_TRUE(plan.add_source(peer(2), content.whole(), now));
    auto answer = content.answer(plan.next_asks(now)[0]);
    answer.bytes[9] ^= 1;
    EXPECT_EQ(plan.received_leaves(peer(2), answer, now).error().name, "content.bad_leaf");
    EXPECT_TRUE(plan.add_source(peer(2), content.whole(), now + 1'000'000'000).error().is_busy());
}

TEST(FetchPlan, what_is_overdue_is_asked_of_another_and_the_slow_one_still_counts) {
    const Content content(1 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    const auto first = plan.next_asks(0);
    ASSERT_EQ(first.size(), 1U);
    ASSERT_TRUE(plan.add_source(peer(2), content.whole(), 0));
    std::vector<FetchPlan::Ask> second = plan.next_asks(0);  // the endgame
    ASSERT_EQ(second.size(), 1U);
    EXPECT_TRUE(plan.expired(kAnswerMs - 1).empty());
    ASSERT_TRUE(fetching.take(first[0], kAnswerMs - 1));
    EXPECT_TRUE(plan.is_done());
    EXPECT_FALSE(plan.received_leaves(peer(2), content.answer(second[0]), kAnswerMs - 1)->is_new);
}

TEST(FetchPlan, a_late_source_is_dropped_and_its_chunks_are_asked_of_others) {
    const Content content(1 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    const auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_TRUE(plan.expired(kAnswerMs - 1).empty());
    EXPECT_EQ(plan.expired(kAnswerMs), std::vector<Bytes20>{peer(1)});
    EXPECT_EQ(plan.sources(), 0U);
    EXPECT_TRUE(plan.next_asks(kAnswerMs).empty());
    EXPECT_TRUE(plan.add_source(peer(1), content.whole(), kAnswerMs).error().is_busy());
    EXPECT_TRUE(plan.received_leaves(peer(1), content.answer(asks[0]), kAnswerMs).error().is_busy());
    ASSERT_TRUE(plan.add_source(peer(2), content.whole(), kAnswerMs));
    const auto again = plan.next_asks(kAnswerMs);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].peer, peer(2));
    const Content empty(0);
    Fetching nothing(empty);
    ASSERT_TRUE(nothing.plan.add_source(peer(1), empty.whole(), 0));
    EXPECT_TRUE(nothing.plan.next_asks(0).empty());
    EXPECT_TRUE(nothing.plan.is_done());
}

TEST(FetchPlan, asks_for_the_rarest_chunk_first) {
    const Content content(4 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    ASSERT_TRUE(plan.add_source(peer(2), {content.id, content.bytes.size(), Bytes{0b0111}}, 0));
    for (const auto& ask : plan.next_asks(0))
        if (ask.peer == peer(1)) {
            EXPECT_EQ(ask.request.first, 3 * messages::kLeavesPerChunk);
            break;
        }
    // A part that is not among the rarest is found, too.
    const Content long_one(72 << 20);
    Fetching other = Fetching::known(long_one);
    Bytes last(9);
    last[8] = 0x80;
    ASSERT_TRUE(other.plan.add_source(peer(3), {long_one.id, long_one.bytes.size(), last}, 0));
    const auto asks = other.plan.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].request.first, 71 * messages::kLeavesPerChunk);
}

TEST(FetchPlan, hashes_that_do_not_make_the_id_cost_their_sender) {
    const Content content(100'000);
    Fetching fetching(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    auto asks = plan.next_asks(0);
    auto answer = content.answer(asks[0]);
    answer.bytes[40] ^= 1;
    EXPECT_EQ(plan.received_hashes(peer(1), answer).error().name, "content.id_mismatch");
    EXPECT_EQ(plan.sources(), 0U);
    // A source that lies about the size cannot finish either; an honest one beside it is not blamed.
    ASSERT_TRUE(plan.add_source(peer(2), {content.id, 50'000, {}}, 0));
    ASSERT_TRUE(plan.add_source(peer(3), content.whole(), 0));
    asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 2U);
    EXPECT_EQ(plan.received_hashes(peer(2), {content.id, 0, Bytes(32 * 4)}).error().name, "content.id_mismatch");
    for (const auto& ask : asks) {
        if (ask.peer == peer(3)) {
            ASSERT_TRUE(fetching.take(ask, 0));
        }
    }
    EXPECT_NE(plan.manifest(), nullptr);
}

// The choice of the next chunk must not cost more when there are more of them.
TEST(FetchPlan, an_arrival_costs_the_same_in_a_large_content) {
    const auto cost_of = [](std::uint64_t chunks) {
        content::Manifest manifest;
        manifest.size = chunks * messages::kChunkBytes;
        manifest.leaves.resize(chunks * messages::kLeavesPerChunk);
        const Hash32 id = crypto::content_id_of_leaves(manifest.leaves, manifest.size);
        SeededRng rng(1);
        FetchPlan plan(id, rng);
        EXPECT_TRUE(plan.set_manifest(manifest));
        const messages::ContentHolding whole{id, manifest.size, {}};
        EXPECT_TRUE(plan.add_source(peer(1), whole, 0));
        const std::clock_t start = std::clock();
        for (int i = 0; i < 2'000; ++i) {
            // As an arrival: something was under way, is no longer, and the next is chosen.
            for (const auto& ask : plan.next_asks(0)) plan.mark_present(ask.request.first / messages::kLeavesPerChunk);
            plan.remove_source(peer(1));
            EXPECT_TRUE(plan.add_source(peer(1), whole, 0));
            if (plan.is_done()) break;
        }
        return static_cast<double>(std::clock() - start) / static_cast<double>(plan.chunks_present());
    };
    (void)cost_of(64);
    const double small = cost_of(512);
    const double large = cost_of(16'000);
    RecordProperty("large_to_small", std::to_string(large / small));
    EXPECT_LT(large, 4 * small);
}

}  // namespace
}  // namespace quern::p2p::content_exchange
