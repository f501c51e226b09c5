#include "base/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern {
namespace {

class TurnsTest : public ::testing::Test {
protected:
    void add(const std::string& host, int number) { turns_.add(host, host + std::to_string(number)); }
    void take(int count) {
        for (int i = 0; i < count; ++i) {
            const auto next = turns_.next();
            ASSERT_TRUE(next);
            taken_.push_back(*next);
        }
    }
    Turns<std::string> turns_;
    std::vector<std::string> taken_;
};

TEST_F(TurnsTest, who_asks_for_one_does_not_wait_for_who_asks_for_thousands) {
    for (int i = 0; i < 4'000; ++i) add("b", i);
    take(1);
    add("a", 0);
    add("c", 0);
    take(4);
    EXPECT_EQ(taken_, (std::vector<std::string>{"b0", "c0", "a0", "b1", "b2"}));
    EXPECT_EQ(turns_.size(), 3'997U);
    add("a", 1);
    take(1);
    EXPECT_EQ(taken_.back(), "a1") << "next in the circle, with b the only other one";
}

TEST_F(TurnsTest, each_hosts_work_keeps_its_order) {
    for (int i = 0; i < 3; ++i)
        for (const auto* host : {"x", "y"}) add(host, i);
    take(6);
    EXPECT_EQ(taken_, (std::vector<std::string>{"x0", "y0", "x1", "y1", "x2", "y2"}));
    EXPECT_FALSE(turns_.next());
    EXPECT_TRUE(turns_.empty());
}

}  // namespace
}  // namespace quern
