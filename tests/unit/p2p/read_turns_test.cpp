#include "p2p/content_exchange/read_turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern::p2p::content_exchange {
namespace {

class ReadTurnsTest : public ::testing::Test {
protected:
    void add(const std::string& host, int number) {
        turns_.add(host, [this, host, number] { read_.push_back(host + std::to_string(number)); });
    }
    void read(int count) {
        for (int i = 0; i < count; ++i) {
            const auto next = turns_.next();
            ASSERT_TRUE(next);
            (*next)();
        }
    }
    ReadTurns turns_;
    std::vector<std::string> read_;
};

TEST_F(ReadTurnsTest, who_asks_for_one_does_not_wait_for_who_asks_for_thousands) {
    for (int i = 0; i < 4'000; ++i) add("b", i);
    read(1);
    add("a", 0);
    add("c", 0);
    read(4);
    EXPECT_EQ(read_, (std::vector<std::string>{"b0", "c0", "a0", "b1", "b2"}));
    EXPECT_EQ(turns_.size(), 3'997U);
    add("a", 1);
    read(1);
    EXPECT_EQ(read_.back(), "a1") << "next in the circle, with b the only other one";
}

TEST_F(ReadTurnsTest, each_hosts_reads_keep_their_order) {
    for (int i = 0; i < 3; ++i)
        for (const auto* host : {"x", "y"}) add(host, i);
    read(6);
    EXPECT_EQ(read_, (std::vector<std::string>{"x0", "y0", "x1", "y1", "x2", "y2"}));
    EXPECT_FALSE(turns_.next());
    EXPECT_EQ(turns_.size(), 0U);
}

}  // namespace
}  // namespace quern::p2p::content_exchange
