#include "base/log_control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace quern::log {
namespace {

namespace stdfs = std::filesystem;

class LogTest : public ::testing::Test {
protected:
    void SetUp() override {
        root_ = ::testing::TempDir() + "quern_log_" + std::to_string(::getpid());
        stdfs::remove_all(root_);
        stdfs::create_directories(root_);
        file_ = root_ + "/debug.log";
    }
    void TearDown() override {
        set_rotation({});
        (void)configure({});
        stdfs::remove_all(root_);
    }
    void start(const Rotation& rotation) {
        set_rotation(rotation);
        ASSERT_TRUE(configure({Level::info, {}, file_, false}));
    }
    static std::string text(const std::string& path) {
        std::ostringstream out;
        out << std::ifstream(path).rdbuf();
        return out.str();
    }
    std::string root_;
    std::string file_;
};

TEST_F(LogTest, a_file_that_has_grown_is_numbered_and_the_oldest_goes) {
    start({1'000, 2});
    for (int i = 0; i < 100; ++i) info(Category::test, "line number {} with some words to fill it", i);
    EXPECT_LE(stdfs::file_size(file_), 1'000U);
    EXPECT_LE(stdfs::file_size(file_ + ".1"), 1'000U);
    EXPECT_TRUE(stdfs::exists(file_ + ".2"));
    EXPECT_FALSE(stdfs::exists(file_ + ".3"));
    EXPECT_NE(text(file_).find("number 99 "), std::string::npos);
    EXPECT_EQ(text(file_).find("number 0 "), std::string::npos);
    EXPECT_NE(text(file_ + ".1").back(), ' ');
}

TEST_F(LogTest, a_renamed_file_is_written_on_until_it_is_opened_anew) {
    start({0, 0});
    info(Category::test, "first");
    stdfs::rename(file_, file_ + ".old");
    info(Category::test, "second");
    EXPECT_FALSE(stdfs::exists(file_));
    ASSERT_TRUE(reopen());
    info(Category::test, "third");
    EXPECT_NE(text(file_ + ".old").find("second"), std::string::npos);
    EXPECT_NE(text(file_).find("third"), std::string::npos);
    EXPECT_EQ(text(file_).find("second"), std::string::npos);
    // When the name cannot be opened the log goes on where it is.
    stdfs::rename(file_, file_ + ".older");
    stdfs::create_directory(file_);
    EXPECT_EQ(reopen().error().name, "log.cannot_open");
    info(Category::test, "fourth");
    EXPECT_NE(text(file_ + ".older").find("fourth"), std::string::npos);
}

TEST_F(LogTest, categories_are_switched_while_it_runs) {
    start({});
    debug(Category::p2p, "not shown");
    EXPECT_EQ(category_from_name("p2p").value_or(Category::test), Category::p2p);
    EXPECT_EQ(category_from_name("p2q").error().name, "log.unknown_category");
    EXPECT_NE(category_from_name("p2q").error().detail.find(", mempool, p2p,"), std::string::npos) << "what there is";
    set_debugged(Category::p2p, true);
    EXPECT_TRUE(is_debugged(Category::p2p));
    EXPECT_FALSE(is_debugged(Category::rpc));
    debug(Category::p2p, "shown");
    debug(Category::rpc, "hidden");
    set_debugged(Category::p2p, false);
    debug(Category::p2p, "gone");
    const std::string all = text(file_);
    EXPECT_NE(all.find("[p2p] shown"), std::string::npos);
    EXPECT_EQ(all.find("not shown"), std::string::npos);
    EXPECT_EQ(all.find("hidden"), std::string::npos);
    EXPECT_EQ(all.find("gone"), std::string::npos);
    EXPECT_EQ(categories().size(), static_cast<std::size_t>(Category::count_));
}

}  // namespace
}  // namespace quern::log
