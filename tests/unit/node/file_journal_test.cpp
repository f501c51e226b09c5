#include "node/agree/file_journal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "base/fs.h"

namespace {
std::size_t synced_files = 0;  // not folders
}  // namespace

// The C library's, with a count.
extern "C" int fsync(int descriptor) {
    struct stat about {};
    if (::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode)) ++synced_files;
    return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;
using sdbft::Record;
using sdbft::RecordKind;

class FileJournalTest : public testing::Test {
protected:
    FileJournalTest() {
        char folder[] = "/tmp/quern-journal-XXXXXX";
        folder_ = ::mkdtemp(folder);
        path_ = folder_ + "/sdbft.journal";
    }
    ~FileJournalTest() override {
        (void)fs::remove_file(path_);
        ::rmdir(folder_.c_str());
    }
    static Record record(std::uint8_t mark) { return {RecordKind::certificate, Bytes(50, mark)}; }

    std::string folder_;
    std::string path_;
};

TEST_F(FileJournalTest, keeps_appends_and_replacements_and_cuts_a_torn_tail) {
    {
        auto journal = FileJournal::open(path_);
        ASSERT_TRUE(journal);
        EXPECT_FALSE(journal->existed());
        ASSERT_TRUE(journal->append({record(1), record(2), record(3)}));
    }
    {
        auto journal = FileJournal::open(path_);
        ASSERT_TRUE(journal);
        EXPECT_TRUE(journal->existed());
        EXPECT_EQ(journal->records(), (std::vector<Record>{record(1), record(2), record(3)}));
        ASSERT_TRUE(journal->replace({record(1), record(2)}));
        ASSERT_TRUE(journal->append({record(4)}));
        ASSERT_TRUE(journal->append({record(5), record(6)}));
    }
    {
        const auto journal = FileJournal::open(path_);
        ASSERT_TRUE(journal);  // the sequence goes on through replacements and appends
        EXPECT_EQ(journal->records(), (std::vector<Record>{record(1), record(2), record(4), record(5), record(6)}));
    }
    {
        Bytes bytes = *fs::read_file(path_, 1U << 20);
        bytes.resize(bytes.size() - 1);
        ASSERT_TRUE(fs::write_file_atomic(path_, bytes));
        auto journal = FileJournal::open(path_);
        ASSERT_TRUE(journal);
        EXPECT_EQ(journal->records().size(), 4U);
        ASSERT_TRUE(journal->append({record(7)}));
    }
    EXPECT_EQ(FileJournal::open(path_)->records().back(), record(7));
}

TEST_F(FileJournalTest, what_is_erased_was_never_there) {
    {
        auto journal = FileJournal::open(path_);
        ASSERT_TRUE(journal->append({record(1)}));
        ASSERT_TRUE(journal->erase());
    }
    EXPECT_FALSE(fs::exists(path_));
    auto journal = FileJournal::open(path_);
    ASSERT_TRUE(journal);
    EXPECT_FALSE(journal->existed());
    EXPECT_TRUE(journal->records().empty());
}

TEST_F(FileJournalTest, syncs_what_it_reads_back_before_anybody_acts_upon_it) {
    // As of a process that died between its write and its sync.
    ASSERT_TRUE(fs::write_file_atomic(path_, sdbft::encode_frame(0, record(1))));
    synced_files = 0;
    const auto journal = FileJournal::open(path_);
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->records(), std::vector<Record>{record(1)});
    EXPECT_EQ(synced_files, 1U);
}

TEST_F(FileJournalTest, opens_a_log_above_a_gibibyte) {
    // A hole: what is read of it is no frame, so all of it is the unfinished tail of a log of one record.
    ASSERT_TRUE(fs::write_file_atomic(path_, sdbft::encode_frame(0, record(1))));
    ASSERT_EQ(::truncate(path_.c_str(), (off_t{1} << 30) + (off_t{1} << 20)), 0);
    const auto journal = FileJournal::open(path_);
    ASSERT_TRUE(journal) << journal.error().to_string();
    EXPECT_EQ(journal->records(), std::vector<Record>{record(1)});
    EXPECT_EQ(*fs::file_size(path_), sdbft::encode_frame(0, record(1)).size());
}

TEST_F(FileJournalTest, damage_before_whole_records_is_the_disks_fault) {
    Bytes log = sdbft::encode_frame(0, record(1));
    append(log, sdbft::encode_frame(1, record(2)));
    log[30] ^= 1;
    ASSERT_TRUE(fs::write_file_atomic(path_, log));
    const auto journal = FileJournal::open(path_);
    ASSERT_FALSE(journal);
    EXPECT_EQ(journal.error().name, "journal.corrupt");
    EXPECT_TRUE(journal.error().is_local_fault());
}

}  // namespace
}  // namespace quern::node
