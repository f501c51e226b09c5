// Layers over a store must read as the store would after their batches.
#include "chain/store/layered_reader.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "chain/store/memory_kv.h"

namespace quern::chain::store {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Bytes text(std::string_view value) { return to_bytes(as_bytes(value)); }

Pairs pairs_of(const Reader& reader, std::string_view prefix = {}, std::string_view start = {},
               std::size_t limit = 1000) {
    Pairs pairs;
    EXPECT_TRUE(reader.for_each(as_bytes(prefix), as_bytes(start), [&](BytesView key, BytesView value) {
        pairs.emplace_back(as_text(key), as_text(value));
        return pairs.size() < limit;
    }));
    return pairs;
}

class LayeredReaderTest : public testing::Test {
protected:
    LayeredReaderTest() {
        WriteBatch batch;
        for (const char* key : {"a", "b1", "b3", "b5", "c"}) batch.put(text(key), as_bytes("store"));
        EXPECT_TRUE(store_.write(batch, true));
    }
    [[nodiscard]] static std::optional<std::string> get(const Reader& reader, std::string_view key) {
        const auto value = reader.get(as_bytes(key));
        EXPECT_TRUE(value);
        if (!*value) return std::nullopt;
        return std::string(as_text(**value));
    }
    MemoryStore store_;
    WriteBatch batch_;
};

TEST_F(LayeredReaderTest, own_values_hide_those_below) {
    batch_.put(text("b3"), as_bytes("new"));
    batch_.put(text("d"), as_bytes(""));
    batch_.erase(text("c"));
    const LayeredReader layer(store_, batch_);
    EXPECT_EQ(get(layer, "a"), "store");
    EXPECT_EQ(get(layer, "b3"), "new");
    EXPECT_EQ(get(layer, "d"), "");
    EXPECT_EQ(get(layer, "c"), std::nullopt);
    EXPECT_EQ(get(layer, "e"), std::nullopt);
    EXPECT_EQ(get(store_, "b3"), "store");
}

TEST_F(LayeredReaderTest, the_last_of_several_operations_on_a_key_wins) {
    batch_.put(text("a"), as_bytes("1"));
    batch_.erase(text("a"));
    batch_.put(text("x"), as_bytes("1"));
    batch_.erase(text("x"));
    batch_.put(text("x"), as_bytes("2"));
    const LayeredReader layer(store_, batch_);
    EXPECT_EQ(get(layer, "a"), std::nullopt);
    EXPECT_EQ(get(layer, "x"), "2");
    EXPECT_EQ(pairs_of(layer, "x"), (Pairs{{"x", "2"}}));
}

TEST_F(LayeredReaderTest, visits_both_in_order) {
    batch_.put(text("b0"), as_bytes("new"));
    batch_.put(text("b2"), as_bytes("new"));
    batch_.put(text("b3"), as_bytes("new"));
    batch_.put(text("b6"), as_bytes("new"));
    batch_.erase(text("b5"));
    batch_.erase(text("b9"));  // was never there
    const LayeredReader layer(store_, batch_);
    EXPECT_EQ(pairs_of(layer, "b"),
              (Pairs{{"b0", "new"}, {"b1", "store"}, {"b2", "new"}, {"b3", "new"}, {"b6", "new"}}));
    EXPECT_EQ(pairs_of(layer, "b", "b2"), (Pairs{{"b2", "new"}, {"b3", "new"}, {"b6", "new"}}));
    EXPECT_EQ(pairs_of(layer, "b", "b4"), (Pairs{{"b6", "new"}}));
    EXPECT_EQ(pairs_of(layer, "b", "a").size(), 5U);  // a start before the prefix is no limit
    EXPECT_TRUE(pairs_of(layer, "b", "b7").empty());
    EXPECT_TRUE(pairs_of(layer, "z").empty());
    EXPECT_EQ(pairs_of(layer).size(), 7U);
}

TEST_F(LayeredReaderTest, stops_when_told) {
    batch_.put(text("b0"), as_bytes("new"));
    batch_.put(text("b9"), as_bytes("new"));
    const LayeredReader layer(store_, batch_);
    for (std::size_t limit = 1; limit <= 7; ++limit) EXPECT_EQ(pairs_of(layer, {}, {}, limit).size(), limit);
    for (std::size_t limit = 1; limit <= 5; ++limit) EXPECT_EQ(pairs_of(layer, "b", {}, limit).size(), limit);
}

TEST_F(LayeredReaderTest, an_empty_layer_changes_nothing) {
    const LayeredReader layer(store_, batch_);
    EXPECT_EQ(pairs_of(layer), pairs_of(store_));
    EXPECT_EQ(get(layer, "a"), "store");
}

TEST_F(LayeredReaderTest, a_rebased_layer_reads_as_before) {
    batch_.put(text("b2"), as_bytes("first"));
    batch_.erase(text("a"));
    WriteBatch above;
    above.put(text("a"), as_bytes("second"));
    const LayeredReader first(store_, batch_);
    LayeredReader second(first, above);
    const auto before = pairs_of(second);
    batch_.put(text("later"), as_bytes("with the block"));  // not seen by the layer
    EXPECT_EQ(pairs_of(second), before);
    ASSERT_TRUE(store_.write(batch_, true));
    second.rebase(store_);
    auto with_later = before;
    with_later.emplace_back("later", "with the block");
    EXPECT_EQ(pairs_of(second), with_later);
}

// Random batches over each other, against a store into which they were written.
TEST(LayeredReaderProperty, reads_as_a_store_that_holds_all_batches) {
    SeededRng rng(7);
    const auto key_of = [&] {
        std::string key;
        for (std::uint64_t length = rng.below(4); length > 0; --length)
            key.push_back(static_cast<char>('a' + rng.below(3)));
        return key;
    };
    for (int round = 0; round < 60; ++round) {
        MemoryStore store;
        MemoryStore expected;
        std::vector<WriteBatch> batches(1 + rng.below(5));
        std::vector<std::unique_ptr<LayeredReader>> layers;
        const Reader* top = &store;
        for (std::size_t i = 0; i < batches.size(); ++i) {
            for (std::uint64_t n = rng.below(25); n > 0; --n) {
                if (rng.below(3) == 0)
                    batches[i].erase(text(key_of()));
                else
                    batches[i].put(text(key_of()), text(std::to_string(rng.below(1000))));
            }
            ASSERT_TRUE(expected.write(batches[i], true));
            if (i == 0) {
                ASSERT_TRUE(store.write(batches[i], true));
                continue;
            }
            layers.push_back(std::make_unique<LayeredReader>(*top, batches[i]));
            top = layers.back().get();
        }
        EXPECT_EQ(pairs_of(*top), pairs_of(expected));
        for (int probe = 0; probe < 30; ++probe) {
            const std::string key = key_of();
            const std::string start = key_of();
            const std::size_t limit = 1 + rng.below(8);
            EXPECT_EQ(*top->get(as_bytes(key)), *expected.get(as_bytes(key))) << round;
            EXPECT_EQ(pairs_of(*top, key, start, limit), pairs_of(expected, key, start, limit)) << round;
        }
    }
}

class FailingReader final : public Reader {
public:
    Expected<std::optional<Bytes>> get(BytesView) const override { return fail("store.io", "test"); }
    Status for_each(BytesView, BytesView, const Visitor&) const override { return fail("store.io", "test"); }
};

TEST(LayeredReaderFaults, pass_through) {
    const FailingReader below;
    WriteBatch batch;
    batch.put(text("a"), as_bytes("1"));
    const LayeredReader layer(below, batch);
    EXPECT_TRUE(layer.get(as_bytes("a")));
    EXPECT_EQ(layer.get(as_bytes("b")).error().name, "store.io");
    EXPECT_EQ(layer.for_each({}, {}, [](BytesView, BytesView) { return true; }).error().name, "store.io");
}

}  // namespace
}  // namespace quern::chain::store
