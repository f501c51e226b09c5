// What a stranger's text may do to a terminal: nothing.
#include "base/printable.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Printable, shows_controls_as_numbers) {
    EXPECT_EQ(printable("\x1b]0;owned\x07\x1b[2J"), "\\x1b]0;owned\\x07\\x1b[2J");
    EXPECT_EQ(printable("a\nb\rc\td\x7f"), "a\\x0ab\\x0dc\\x09d\\x7f");
    EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
    EXPECT_EQ(printable(" ~\\"), " ~\\");
    EXPECT_EQ(printable("a\nb\tc\rd", kMaxShownBytes, Lines::many), "a\nb\tc\\x0dd");
}

TEST(Printable, knows_utf8) {
    for (const char* const text : {"Größe", "▁█", "𝛑", "\xc2\xa0", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"})
        EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable("\xc2\x9b\x32J"), "\\xc2\\x9b2J") << "the second set of controls, as one character";
    EXPECT_EQ(printable("\xc2\x80"), "\\xc2\\x80");
    EXPECT_EQ(printable("\x9b\x32J"), "\\x9b2J") << "and as one byte";
    EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae") << "from right to left";
    EXPECT_EQ(printable("\xe2\x81\xa9"), "\\xe2\\x81\\xa9");
    // Longer than need be, halves of a pair, beyond the last character, cut off, wrongly continued.
    EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");
    EXPECT_EQ(printable("\xc1\xbf"), "\\xc1\\xbf");
    EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");
    EXPECT_EQ(printable("\xf0\x80\x82\x9b"), "\\xf0\\x80\\x82\\x9b");
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
    EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
    EXPECT_EQ(printable("\xe2\x96"), "\\xe2\\x96");
    EXPECT_EQ(printable("\xc3"
                        "a"),
              "\\xc3"
              "a");
    EXPECT_EQ(printable("\xe2\x96\x1b"), "\\xe2\\x96\\x1b");
}

TEST(Printable, ends) {
    const std::string long_one(kMaxShownBytes + 7, 'A');
    EXPECT_EQ(printable(long_one), std::string(kMaxShownBytes, 'A') + "... (7 bytes more)");
    EXPECT_EQ(printable(long_one, kUnlimited), long_one);
    EXPECT_EQ(printable(std::string(kMaxShownBytes, 'A')), std::string(kMaxShownBytes, 'A'));
    EXPECT_EQ(printable("aä", 2), "a... (2 bytes more)") << "no half characters";
    EXPECT_EQ(printable("ab", 0), "... (2 bytes more)");
}

}  // namespace
}  // namespace quern
