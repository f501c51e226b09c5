#include "base/ensure.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace quern {
namespace {

TEST(EnsureTest, what_holds_costs_nothing_and_what_does_not_says_so_and_ends_the_process) {
    ensure(true, "arithmetic");
    EXPECT_DEATH(ensure(1 + 1 == 3, "sums are right"), "broken invariant: sums are right .*ensure_test.cpp, line");
}

TEST(EnsureTest, more_cannot_be_given_back_than_was_taken) {
    std::size_t held = 5;
    deduct(held, 5U);
    EXPECT_EQ(held, 0U);
    EXPECT_DEATH(deduct(held, 1U), "broken invariant: no more is given back");
}

}  // namespace
}  // namespace quern
