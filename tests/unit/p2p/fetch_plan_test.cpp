#include "p2p/content_exchange/fetch_plan.h"

#include <gtest/gtest.h>

#include <ctime>
#include <set>

#include "p2p/content_exchange/check_shares.h"

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
        fetching.plan.set_manifest(std::make_shared<content::Manifest>(of.manifest));
        return fetching;
    }
    Fetching(const Fetching& other) : content(other.content), plan(other.content.id, rng) {
        if (other.plan.manifest()) plan.set_manifest(other.plan.manifest());
    }
    // Takes an answer and checks it at once.
    quern::Status take(const FetchPlan::Ask& ask, std::uint64_t now) { return take(ask, content.answer(ask), now); }
    quern::Status take(const FetchPlan::Ask& ask, const messages::Leaves& answer, std::uint64_t now) {
        if (ask.hashes) {
            QUERN_TRY(const auto manifest, plan.received_hashes(ask.peer, answer));
            if (!manifest) return {};
            const bool good = content::is_manifest_of(*manifest, content.id);
            plan.hashes_checked(ask.peer, manifest, good);
            return good ? quern::Status() : fail("content.id_mismatch");
        }
        QUERN_TRY(const auto chunk, plan.received_leaves(ask.peer, answer, now));
        if (!chunk.is_new) return {};
        const bool good = content::leaves_match(content.manifest, answer.first, answer.bytes);
        plan.checked(chunk.number, ask.peer, good);
        return good ? quern::Status() : fail("content.bad_leaf");
    }
    const Content& content;
    SeededRng rng{4};
    FetchPlan plan;
};

// Counts what is drawn from it.
struct CountingRng final : Rng {
    void fill(std::span<std::uint8_t> target) override {
        ++draws;
        seeded.fill(target);
    }
    SeededRng seeded{9};
    std::size_t draws = 0;
};

TEST(FetchPlan, what_happens_to_it_costs_the_system_no_randomness) {
    const Content content(40 << 20);
    CountingRng rng;
    FetchPlan plan(content.id, rng);
    EXPECT_EQ(rng.draws, 1U);
    plan.set_manifest(std::make_shared<content::Manifest>(content.manifest));
    for (std::uint8_t i = 1; i <= 20; ++i) ASSERT_TRUE(plan.add_source(peer(i), content.whole(), 0));
    std::set<Bytes20> first;
    for (std::uint64_t now = 0; !plan.is_done(); now += 10) {
        const auto asks = plan.next_asks(now);
        ASSERT_FALSE(asks.empty());
        first.insert(asks.front().peer);
        for (const auto& ask : asks)
            if (const auto chunk = plan.received_leaves(ask.peer, content.answer(ask), now); chunk && chunk->is_new)
                plan.checked(chunk->number, ask.peer, true);
        if (now == 0) plan.failed({peer(3), true, {}}, 0);
    }
    EXPECT_EQ(rng.draws, 1U);
    // Another plan begins with another source.
    for (int i = 0; i < 40; ++i) {
        FetchPlan other(content.id, rng);
        for (std::uint8_t each = 1; each <= 20; ++each) ASSERT_TRUE(other.add_source(peer(each), content.whole(), 0));
        first.insert(other.next_asks(0).front().peer);
    }
    EXPECT_GT(first.size(), 10U);
}

TEST(FetchPlan, who_has_nothing_yet_is_no_source) {
    const Content content(5 << 20);
    Fetching fetching(content);
    FetchPlan& plan = fetching.plan;
    const auto nothing = [&](Bytes chunks) {
        return messages::ContentHolding{content.id, content.bytes.size(), chunks};
    };
    EXPECT_EQ(plan.add_source(peer(1), nothing({0}), 0).error().name, "content.nothing_there");
    EXPECT_EQ(plan.add_source(peer(1), nothing({0xe0}), 0).error().name, "content.nothing_there") << "no such chunks";
    EXPECT_EQ(plan.sources(), 0U);
    EXPECT_TRUE(plan.next_asks(0).empty());
    ASSERT_TRUE(plan.add_source(peer(1), nothing({0x10}), 0));
    EXPECT_EQ(plan.next_asks(0).size(), 1U);
    // Nor any more who has lost all.
    EXPECT_TRUE(plan.add_source(peer(1), nothing({0}), 0).error().is_busy());
    EXPECT_EQ(plan.sources(), 0U);
}

TEST(FetchPlan, what_was_lost_from_the_disk_is_asked_for_again) {
    const Content content(3 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    while (!plan.is_done())
        for (const auto& ask : plan.next_asks(0)) ASSERT_TRUE(fetching.take(ask, 0));
    plan.lost(1);
    plan.lost(1);
    plan.lost(3);  // there is none
    EXPECT_FALSE(plan.is_done());
    EXPECT_EQ(plan.chunks_present(), 2U);
    EXPECT_EQ(plan.present(), Bytes{5});
    const auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].request.first, messages::kLeavesPerChunk);
    ASSERT_TRUE(fetching.take(asks[0], 0));
    EXPECT_TRUE(plan.is_done());
}

TEST(CheckShares, a_quick_fetch_leaves_the_others_their_share) {
    CheckShares shares(12);
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(shares.may_ask(1));
        shares.begin(1);
    }
    EXPECT_FALSE(shares.may_ask(1)) << "a third of all";
    EXPECT_TRUE(shares.may_ask(2)) << "and another is not held up by it";
    while (shares.may_take(1)) shares.begin(1);
    EXPECT_EQ(shares.waiting(), 12U) << "nobody else wanted any";
    EXPECT_FALSE(shares.may_take(2)) << "memory is memory";
    shares.end(1);
    ASSERT_TRUE(shares.may_take(2));
    shares.begin(2);
    shares.end(1);
    EXPECT_FALSE(shares.may_take(1)) << "it has more than half";
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(shares.may_take(2));
        shares.begin(2);
        shares.end(1);
    }
    EXPECT_FALSE(shares.may_take(2));
    EXPECT_TRUE(shares.may_ask(3)) << "one at least";
    while (shares.waiting() > 5) shares.end(2);
    EXPECT_TRUE(shares.may_take(1));
}

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
            ASSERT_TRUE(fetching.take(ask, answer, 1));
            std::copy(answer.bytes.begin(), answer.bytes.end(),
                      got.begin() + static_cast<std::ptrdiff_t>(ask.request.first * crypto::kContentLeafBytes));
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

// How long until an honest source that joins at `joins_ms` has given the leaf hashes. Each of the liars, who were there
// before, claims 16 GiB, and answers just within its time.
std::uint64_t until_manifest(const Content& content, std::uint8_t liars, std::uint64_t joins_ms) {
    constexpr std::uint64_t kLiesTakeMs = 3'000;
    const Bytes20 honest = peer(200);
    Fetching fetching(content);
    for (std::uint8_t i = 1; i <= liars; ++i)
        EXPECT_TRUE(fetching.plan.add_source(peer(i), {content.id, messages::kMaxContentBytes, {}}, 0));
    std::vector<std::pair<std::uint64_t, FetchPlan::Ask>> asked;
    std::uint64_t now = 0;
    for (; !fetching.plan.manifest() && now < 600'000; now += 500) {
        if (now == joins_ms) {
            EXPECT_TRUE(fetching.plan.add_source(honest, content.whole(), now));
        }
        for (const auto& [since_ms, ask] : asked) {
            if (ask.peer == honest) {
                EXPECT_TRUE(fetching.take(ask, now));
            } else if (now == since_ms + kLiesTakeMs) {
                (void)fetching.take(ask, {content.id, ask.request.first, Bytes(32 * ask.request.count)}, now);
            }
        }
        for (const auto& late : fetching.plan.expired(now)) EXPECT_NE(late, honest);
        for (const auto& ask : fetching.plan.next_asks(now)) asked.emplace_back(now, ask);
    }
    return now;
}

TEST(FetchPlan, slow_lies_about_a_size_keep_nobody_else_from_being_asked) {
    const Content content(3 << 20);
    EXPECT_LE(until_manifest(content, 2, 500), kHashRunMs + 2'000);
    // All places are taken when the honest one comes.
    const std::uint64_t late = 4 * kHashRunMs;
    EXPECT_LE(until_manifest(content, kMaxHashRuns, late), late + 2'000);
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
    const auto asks = plan.next_asks(now);
    auto answer = content.answer(asks[0]);
    answer.bytes[9] ^= 1;
    EXPECT_EQ(fetching.take(asks[0], answer, now).error().name, "content.bad_leaf");
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
    EXPECT_EQ(fetching.take(asks[0], answer, 0).error().name, "content.id_mismatch");
    EXPECT_EQ(plan.sources(), 0U);
    // A source that lies about the size cannot finish either; an honest one beside it is not blamed.
    ASSERT_TRUE(plan.add_source(peer(2), {content.id, 50'000, {}}, 0));
    ASSERT_TRUE(plan.add_source(peer(3), content.whole(), 0));
    asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 2U);
    for (const auto& ask : asks) {
        if (ask.peer == peer(2)) {
            EXPECT_EQ(fetching.take(ask, {content.id, 0, Bytes(32 * 4)}, 0).error().name, "content.id_mismatch");
        }
    }
    EXPECT_EQ(plan.sources(), 1U);
    for (const auto& ask : asks) {
        if (ask.peer == peer(3)) {
            ASSERT_TRUE(fetching.take(ask, 0));
        }
    }
    EXPECT_NE(plan.manifest(), nullptr);
}

TEST(FetchPlan, an_absurd_size_is_not_taken_and_takes_no_memory) {
    const Content content(100'000);
    SeededRng rng(1);
    FetchPlan plan(content.id, rng, 1 << 20);
    EXPECT_EQ(plan.add_source(peer(1), {content.id, (1 << 20) + 1, {}}, 0).error().name, "content.too_large");
    EXPECT_EQ(plan.sources(), 0U);
    EXPECT_TRUE(plan.next_asks(0).empty());
    EXPECT_TRUE(plan.add_source(peer(1), {content.id, 1 << 20, {}}, 0));
}

TEST(FetchPlan, a_chunk_that_is_being_checked_is_asked_of_nobody_and_a_bad_one_again) {
    const Content content(1 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    const auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    const auto chunk = plan.received_leaves(peer(1), content.answer(asks[0]), 1);
    ASSERT_TRUE(chunk && chunk->is_new);
    ASSERT_TRUE(plan.add_source(peer(2), content.whole(), 1));
    EXPECT_TRUE(plan.next_asks(1).empty());
    EXPECT_FALSE(plan.is_done());
    plan.checked(chunk->number, peer(1), false);
    EXPECT_EQ(plan.sources(), 1U);
    const auto again = plan.next_asks(1);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].peer, peer(2));
    const auto second = plan.received_leaves(peer(2), content.answer(again[0]), 2);
    ASSERT_TRUE(second);
    plan.not_checked(second->number);  // nobody is to blame
    EXPECT_EQ(plan.sources(), 1U);
    ASSERT_EQ(plan.next_asks(2).size(), 1U);
    plan.checked(0, peer(2), true);
    EXPECT_TRUE(plan.is_done());
    EXPECT_EQ(plan.present(), Bytes{1});
}

TEST(FetchPlan, a_liar_is_not_forgiven_for_a_good_chunk_that_was_checked_after_the_bad_one) {
    const Content content(3 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    const auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 2U);
    const auto bad = plan.received_leaves(peer(1), content.answer(asks[0]), 1);
    const auto good = plan.received_leaves(peer(1), content.answer(asks[1]), 1);
    ASSERT_TRUE(bad && good);
    plan.checked(bad->number, peer(1), false);
    plan.checked(good->number, peer(1), true);
    EXPECT_TRUE(plan.add_source(peer(1), content.whole(), 1'000'000'000).error().is_busy());
}

TEST(FetchPlan, what_an_earlier_run_left_is_not_asked_for_unless_it_is_bad) {
    const Content content(3 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    plan.begin_check(0);
    plan.begin_check(1);
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    const auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].request.first, 2 * messages::kLeavesPerChunk);
    plan.checked(0, std::nullopt, true);
    plan.checked(1, std::nullopt, false);
    const auto more = plan.next_asks(0);
    ASSERT_EQ(more.size(), 1U);
    EXPECT_EQ(more[0].request.first, messages::kLeavesPerChunk);
    EXPECT_EQ(plan.chunks_present(), 1U);
}

TEST(FetchPlan, the_only_source_is_asked_again_for_what_it_refused_for_now_while_all_else_is_there) {
    const Content content(2 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    plan.set_round_trip(peer(1), 10);
    const auto asks = plan.next_asks(0);
    ASSERT_EQ(asks.size(), 2U);
    std::uint64_t now = 15'000;  // both are overdue
    (void)plan.expired(now);
    ASSERT_TRUE(fetching.take(asks[0], now));
    EXPECT_TRUE(plan.next_asks(now).empty());  // it has been asked for the other
    plan.refused_for_now(asks[1], now);
    now += kBusyPauseMs;
    const auto again = plan.next_asks(now);
    ASSERT_EQ(again.size(), 1U);
    ASSERT_TRUE(fetching.take(again[0], now));
    EXPECT_TRUE(plan.is_done());
}

TEST(FetchPlan, a_source_that_has_more_than_before_is_asked_for_it_and_copies_count_exactly) {
    const Content content(6 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    const auto part = [&](std::uint8_t bits) { return messages::ContentHolding{content.id, 6 << 20, Bytes{bits}}; };
    for (const std::uint64_t chunk : {2, 1}) {
        ASSERT_TRUE(plan.add_source(peer(1), part(chunk == 2 ? 0b100 : 0b110), 0));
        const auto asks = plan.next_asks(0);
        ASSERT_EQ(asks.size(), 1U);
        EXPECT_EQ(asks[0].request.first, chunk * messages::kLeavesPerChunk);
    }
    // Who has all is asked first for what the others have no longer.
    Fetching fresh = Fetching::known(content);
    for (const auto bits : {std::uint8_t{0b111111}, std::uint8_t{0b011111}})
        for (std::uint8_t i = 2; i <= 5; ++i) ASSERT_TRUE(fresh.plan.add_source(peer(i), part(bits), 0));
    ASSERT_TRUE(fresh.plan.add_source(peer(1), content.whole(), 0));
    for (const auto& ask : fresh.plan.next_asks(0)) {
        if (ask.peer != peer(1)) continue;
        EXPECT_EQ(ask.request.first, 5 * messages::kLeavesPerChunk);
        break;
    }
}

TEST(FetchPlan, who_answers_well_is_asked_for_more_at_once) {
    const Content content(12 << 20);
    Fetching fetching = Fetching::known(content);
    FetchPlan& plan = fetching.plan;
    ASSERT_TRUE(plan.add_source(peer(1), content.whole(), 0));
    auto open = plan.next_asks(0);
    EXPECT_EQ(open.size(), 2U);
    for (const std::size_t most : {3U, 4U, 4U}) {
        ASSERT_TRUE(fetching.take(open.front(), 1));
        open.erase(open.begin());
        for (const auto& ask : plan.next_asks(1)) open.push_back(ask);
        EXPECT_EQ(open.size(), most);
    }
}

// What an arrival costs must not grow with the content: its own bookkeeping and the choice of the next chunk.
double arrival_cost(std::uint64_t chunks, bool with_parts) {
    auto manifest = std::make_shared<content::Manifest>();
    manifest->size = chunks * messages::kChunkBytes;
    manifest->leaves.resize(chunks * messages::kLeavesPerChunk);
    SeededRng rng(1);
    FetchPlan plan(Hash32{}, rng, manifest->size);
    plan.set_manifest(manifest);
    Bytes beginning(chunks / 8);
    beginning[0] = 0xff;  // what these have is soon there
    for (std::uint8_t i = 1; i <= 8; ++i)
        EXPECT_TRUE(plan.add_source(peer(i), {{}, manifest->size, with_parts && i > 4 ? beginning : Bytes()}, 0));
    std::vector<FetchPlan::Ask> open = plan.next_asks(0);
    messages::Leaves answer{{}, 0, Bytes(messages::kChunkBytes)};
    const std::clock_t start = std::clock();
    std::uint64_t arrivals = 0;
    for (; arrivals < std::min<std::uint64_t>(chunks - 64, 4'000); ++arrivals) {
        const auto ask = open.front();
        open.erase(open.begin());
        answer.first = ask.request.first;
        const auto chunk = plan.received_leaves(ask.peer, answer, 1);
        if (chunk && chunk->is_new) plan.checked(chunk->number, ask.peer, true);
        for (const auto& next : plan.next_asks(1)) open.push_back(next);
    }
    return static_cast<double>(std::clock() - start) / static_cast<double>(arrivals);
}

TEST(FetchPlan, an_arrival_costs_the_same_in_a_large_content) {
    (void)arrival_cost(128, false);
    const double small = arrival_cost(1'024, false);
    const double large = arrival_cost(80 << 10, false);  // 80 GiB
    RecordProperty("large_to_small", std::to_string(large / small));
    EXPECT_LT(large, 4 * small);
}

TEST(FetchPlan, sources_of_parts_that_are_here_already_cost_no_search_for_each_arrival) {
    (void)arrival_cost(128, true);
    const double small = arrival_cost(1'024, true);
    const double large = arrival_cost(80 << 10, true);
    RecordProperty("large_to_small", std::to_string(large / small));
    EXPECT_LT(large, 4 * small);
}

}  // namespace
}  // namespace quern::p2p::content_exchange
