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
    std::vector<JournalEntry> reload() const { return PoolJournal::open(path_)->take_loaded(); }
    template <class Journal>
    static Status append(Journal&& journal, const std::vector<JournalEntry>& entries) {
        std::vector<JournalEntryView> views;
        for (const auto& entry : entries) views.push_back({entry.sender, entry.transaction});
        return journal.append(views);
    }
    std::string folder_;
    std::string path_;
    const JournalEntry first_{types::Address{{7}}, {1, 2, 3}};
    const JournalEntry second_{types::Address{{8}}, Bytes(1000, 9)};
};

TEST_F(PoolJournalTest, gives_back_what_was_appended) {
    {
        auto journal = PoolJournal::open(path_);
        ASSERT_TRUE(journal);
        EXPECT_TRUE(journal->take_loaded().empty());
        ASSERT_TRUE(append(*journal, {first_, second_}));
        ASSERT_TRUE(append(*journal, {first_}));
        EXPECT_EQ(journal->size(), std::filesystem::file_size(path_));
    }
    EXPECT_EQ(reload(), (std::vector<JournalEntry>{first_, second_, first_}));
}

TEST_F(PoolJournalTest, what_is_put_aside_is_read_until_it_is_deleted) {
    {
        auto journal = PoolJournal::open(path_);
        ASSERT_TRUE(append(*journal, {first_, second_}));
        ASSERT_TRUE(journal->put_aside());
        EXPECT_TRUE(journal->has_old());
        EXPECT_FALSE(journal->put_aside()) << "or what was put aside before would be lost";
        ASSERT_TRUE(append(*journal, {first_}));
        EXPECT_EQ(journal->size(), std::filesystem::file_size(path_));
    }
    {
        auto journal = PoolJournal::open(path_);
        EXPECT_TRUE(journal->has_old());
        EXPECT_EQ(journal->take_loaded(), (std::vector<JournalEntry>{first_, second_, first_}));
        ASSERT_TRUE(journal->delete_old());
        ASSERT_TRUE(append(*journal, {second_}));
    }
    EXPECT_EQ(reload(), (std::vector<JournalEntry>{first_, second_}));
    EXPECT_TRUE(PoolJournal::open(path_)->put_aside());
}

// Without blocks nothing is tidied, and what replaces each other for ever would fill the disk.
TEST_F(PoolJournalTest, has_a_largest_size) {
    {
        auto journal = PoolJournal::open(path_, 1'100);
        ASSERT_TRUE(append(*journal, {second_}));
        const auto size = journal->size();
        const auto full = append(*journal, {second_});
        ASSERT_FALSE(full);
        EXPECT_EQ(full.error().name, "mempool.journal_write_failed");
        EXPECT_EQ(journal->size(), size);
        ASSERT_TRUE(append(*journal, {first_}));
        ASSERT_TRUE(journal->put_aside());
        ASSERT_TRUE(append(*journal, {second_}));
    }
    EXPECT_EQ(reload(), (std::vector<JournalEntry>{second_, first_, second_}));
    // A longer one, made by whomever, is read up to there.
    std::filesystem::remove(path_ + ".old");
    ASSERT_TRUE(append(*PoolJournal::open(path_), {second_, second_}));
    EXPECT_EQ(PoolJournal::open(path_, 1'100)->take_loaded(), (std::vector<JournalEntry>{second_, second_}));
}

TEST_F(PoolJournalTest, cuts_off_a_torn_end_and_appends_after_it) {
    ASSERT_TRUE(append(*PoolJournal::open(path_), {first_}));
    ASSERT_TRUE(append(*PoolJournal::open(path_), {second_}));
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 10);
    {
        auto journal = PoolJournal::open(path_);
        EXPECT_EQ(journal->take_loaded(), std::vector<JournalEntry>{first_});
        ASSERT_TRUE(append(*journal, {second_}));
    }
    EXPECT_EQ(reload(), (std::vector<JournalEntry>{first_, second_}));
}

TEST_F(PoolJournalTest, believes_no_sender_that_was_changed) {
    ASSERT_TRUE(append(*PoolJournal::open(path_), {first_, second_}));
    {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(8 + 12);  // the first entry's sender
        file.put('\x55');
    }
    EXPECT_TRUE(reload().empty());
}

TEST_F(PoolJournalTest, starts_anew_from_garbage) {
    std::ofstream(path_) << "something else entirely, and rather long at that";
    EXPECT_TRUE(reload().empty());
    {
        std::ofstream file(path_, std::ios::trunc);
        file << "QRNPOOL2" << std::string("\xff\xff\xff\xff", 4) << std::string(28, 'a') << "bcd";
    }
    EXPECT_TRUE(reload().empty());
    ASSERT_TRUE(append(*PoolJournal::open(path_), {first_}));
    EXPECT_EQ(reload(), std::vector<JournalEntry>{first_});
}

TEST_F(PoolJournalTest, names_an_unusable_path) {
    EXPECT_EQ(PoolJournal::open(folder_ + "/no/such").error().name, "mempool.journal_open_failed");
}

}  // namespace
}  // namespace quern::chain::mempool
