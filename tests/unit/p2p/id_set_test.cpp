#include "p2p/gossip/id_set.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "base/rng.h"

namespace quern::p2p::gossip {
namespace {

ShortId id_of(std::uint64_t n) {
    ShortId id;
    std::memcpy(id.data.data(), &n, sizeof n);
    return id;
}

TEST(IdSet, is_a_set_whatever_is_inserted_and_erased) {
    SeededRng rng(5);
    IdSet set;
    std::set<ShortId> model;
    EXPECT_FALSE(set.erase(id_of(0)));
    EXPECT_FALSE(set.contains(id_of(0)));
    for (int i = 0; i < 200'000; ++i) {
        // Few ids, so that runs are long and gaps are closed within them; the range breathes.
        const ShortId id = id_of(rng.below(i % 20'000 < 10'000 ? 700 : 90));
        if (rng.below(2) == 0)
            ASSERT_EQ(set.insert(id), model.insert(id).second);
        else
            ASSERT_EQ(set.erase(id), model.erase(id) == 1);
        ASSERT_EQ(set.size(), model.size());
        const ShortId other = id_of(rng.below(700));
        ASSERT_EQ(set.contains(other), model.contains(other));
    }
    const auto all = set.all();
    EXPECT_EQ(std::set<ShortId>(all.begin(), all.end()), model);
    EXPECT_EQ(all.size(), model.size());
}

TEST(BoundedIds, forget_the_oldest_and_no_other) {
    BoundedIds ids(100);
    for (std::uint64_t n = 0; n < 1'000; ++n) {
        ASSERT_TRUE(ids.insert(id_of(n)));
        ASSERT_FALSE(ids.insert(id_of(n)));
        ASSERT_EQ(ids.size(), std::min<std::uint64_t>(n + 1, 100));
        ASSERT_TRUE(ids.contains(id_of(n < 100 ? 0 : n - 99)));
        if (n >= 100) {
            ASSERT_FALSE(ids.contains(id_of(n - 100)));
        }
    }
}

}  // namespace
}  // namespace quern::p2p::gossip
