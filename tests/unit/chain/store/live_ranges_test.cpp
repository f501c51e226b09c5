#include "chain/store/live_ranges.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "chain/store/layered_reader.h"
#include "chain/store/memory_kv.h"

namespace quern::chain::store {
namespace {

Bytes text(std::string_view value) { return to_bytes(as_bytes(value)); }
Bytes numbered(int number) { return text(std::string("b").append(std::to_string(number))); }

class LiveRangesTest : public ::testing::Test {
protected:
    void write(const WriteBatch& batch) {
        ASSERT_TRUE(store_.write(batch, true));
        ranges_->apply(batch, ++height_);
    }
    static std::vector<std::pair<Bytes, Bytes>> walk(const Reader& reader, BytesView prefix, BytesView start,
                                                     std::size_t limit) {
        std::vector<std::pair<Bytes, Bytes>> found;
        EXPECT_TRUE(reader.for_each(prefix, start, [&](BytesView key, BytesView value) {
            found.emplace_back(to_bytes(key), to_bytes(value));
            return found.size() < limit;
        }));
        return found;
    }
    // Says of each walk whether it went to what it lies over.
    class Counting final : public Reader {
    public:
        explicit Counting(const Reader& below) : below_(below) {}
        [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override { return below_.get(key); }
        [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override {
            ++walks;
            return below_.for_each(prefix, start, visit);
        }
        mutable int walks = 0;

    private:
        const Reader& below_;
    };

    MemoryStore store_;
    std::shared_ptr<LiveRanges> ranges_ = std::make_shared<LiveRanges>(std::vector<Bytes>{text("b"), text("dd")});
    std::uint64_t height_ = 0;
};

TEST_F(LiveRangesTest, holds_what_the_database_had_and_follows_it) {
    WriteBatch first;
    for (const auto* key : {"a1", "b1", "b2", "c1", "d1", "dd1", "e"}) first.put(text(key), text("1"));
    ASSERT_TRUE(store_.write(first, true));
    ASSERT_TRUE(ranges_->load(store_, 7));
    height_ = 7;
    EXPECT_EQ(ranges_->size(), 3U);
    WriteBatch second;
    second.erase(text("b1"));
    second.put(text("b3"), text("2"));
    second.put(text("c2"), text("2"));
    second.put(text("dd1"), text("3"));
    write(second);
    const Counting below(store_);
    const LiveRangesReader reader(below, ranges_);
    EXPECT_EQ(walk(reader, text("b"), {}, 10), walk(store_, text("b"), {}, 10));
    EXPECT_EQ(walk(reader, text("dd"), {}, 10), walk(store_, text("dd"), {}, 10));
    EXPECT_EQ(walk(reader, text("b"), text("b3"), 10), walk(store_, text("b"), text("b3"), 10));
    EXPECT_EQ(below.walks, 0);
    EXPECT_EQ(walk(reader, text("d"), {}, 10).size(), 2U) << "more than it holds: asked below";
    EXPECT_EQ(walk(reader, text("c"), {}, 10).size(), 2U);
    EXPECT_EQ(below.walks, 2);
    EXPECT_EQ(reader.get(text("b3")).value(), text("2"));
}

TEST_F(LiveRangesTest, a_snapshot_keeps_its_state_when_blocks_follow) {
    WriteBatch first;
    for (int i = 100; i < 400; ++i) first.put(numbered(i), text("1"));
    write(first);
    const LiveRangesReader snapshot(store_.snapshot(), ranges_, height_);
    const auto all = walk(snapshot, text("b"), {}, 1'000);
    EXPECT_EQ(all.size(), 300U);
    // One in the middle of a walk, too.
    std::size_t seen = 0;
    EXPECT_TRUE(snapshot.for_each(text("b"), {}, [&](BytesView key, BytesView) {
        EXPECT_EQ(all[seen].first, to_bytes(key));
        if (seen == 70) {
            WriteBatch second;
            for (int i = 150; i < 390; ++i) second.erase(numbered(i));
            write(second);
        }
        return ++seen < 1'000;
    }));
    EXPECT_EQ(seen, 300U);
    EXPECT_EQ(walk(snapshot, text("b"), {}, 1'000), all);
    EXPECT_EQ(walk(LiveRangesReader(store_, ranges_), text("b"), {}, 1'000).size(), 60U);
}

TEST_F(LiveRangesTest, walks_as_the_database_does_whatever_was_written) {
    SeededRng rng(5);
    const auto key = [&] {
        return text(std::string(1, static_cast<char>('a' + rng.below(5))) + (rng.below(2) == 0 ? "d" : "") +
                    std::to_string(rng.below(300)));
    };
    const LiveRangesReader newest(store_, ranges_);
    for (int round = 0; round < 300; ++round) {
        WriteBatch batch;
        for (std::uint64_t i = rng.below(40); i > 0; --i)
            if (rng.below(3) == 0)
                batch.erase(key());
            else
                batch.put(key(), text(std::to_string(rng.below(1'000))));
        write(batch);
        WriteBatch above;
        for (std::uint64_t i = rng.below(40); i > 0; --i) above.erase(key());
        const LayeredReader layer(newest, above);
        const LayeredReader plain(store_, above);
        const Bytes prefix = text(rng.below(2) == 0 ? "b" : "dd");
        const Bytes start = rng.below(2) == 0 ? Bytes{} : key();
        const std::size_t limit = 1 + rng.below(200);
        ASSERT_EQ(walk(newest, prefix, start, limit), walk(store_, prefix, start, limit));
        ASSERT_EQ(walk(layer, prefix, start, limit), walk(plain, prefix, start, limit));
    }
}

}  // namespace
}  // namespace quern::chain::store
