#include "chain/mempool/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace quern::chain::mempool {
namespace {

class PoolJournalTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "quern-pool-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        path_ = folder_ + "/mempool.journal";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::vector<Bytes> reload() const { return PoolJournal::open(path_)->take_loaded(); }
    std::string folder_;
    std::string path_;
};

const Bytes kFirst{1, 2, 3};
const Bytes kSecond(1000, 9);

TEST_F(PoolJournalTest, gives_back_what_was_appended) {
    {
        auto journal = PoolJournal::open(path_);
        ASSERT_TRUE(journal);
        EXPECT_TRUE(journal->take_loaded().empty());
        ASSERT_TRUE(journal->append(kFirst));
        ASSERT_TRUE(journal->append(kSecond));
    }
    EXPECT_EQ(reload(), (std::vector<Bytes>{kFirst, kSecond}));
}

TEST_F(PoolJournalTest, rewriting_replaces_and_appending_goes_on) {
    auto journal = PoolJournal::open(path_);
    ASSERT_TRUE(journal->append(kFirst));
    ASSERT_TRUE(journal->rewrite({kSecond}));
    ASSERT_TRUE(journal->append(kFirst));
    EXPECT_EQ(journal->size(), std::filesystem::file_size(path_));
    EXPECT_EQ(reload(), (std::vector<Bytes>{kSecond, kFirst}));
}

TEST_F(PoolJournalTest, cuts_off_a_torn_end_and_appends_after_it) {
    ASSERT_TRUE(PoolJournal::open(path_)->append(kFirst));
    ASSERT_TRUE(PoolJournal::open(path_)->append(kSecond));
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 10);
    {
        auto journal = PoolJournal::open(path_);
        EXPECT_EQ(journal->take_loaded(), std::vector<Bytes>{kFirst});
        ASSERT_TRUE(journal->append(kSecond));
    }
    EXPECT_EQ(reload(), (std::vector<Bytes>{kFirst, kSecond}));
}

TEST_F(PoolJournalTest, starts_anew_from_garbage) {
    std::ofstream(path_) << "something else entirely, and rather long at that";
    EXPECT_TRUE(reload().empty());
    {
        std::ofstream file(path_, std::ios::trunc);
        file << "QRNPOOL1" << std::string("\xff\xff\xff\xff", 4) << "abcd";
    }
    EXPECT_TRUE(reload().empty());
    ASSERT_TRUE(PoolJournal::open(path_)->append(kFirst));
    EXPECT_EQ(reload(), std::vector<Bytes>{kFirst});
}

TEST_F(PoolJournalTest, names_an_unusable_path) {
    EXPECT_EQ(PoolJournal::open(folder_ + "/no/such").error().name, "mempool.journal_open_failed");
}

}  // namespace
}  // namespace quern::chain::mempool
