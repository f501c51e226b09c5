// A validator's journal (chain/consensus/sdbft/journal.h) in a file: appends are synced before they return, a
// replacement goes through a renamed temporary file. Belongs to one thread.
#pragma once

#include <string>

#include "chain/consensus/sdbft/journal.h"

namespace quern::node {

class FileJournal final : public chain::consensus::sdbft::Journal {
public:
    // Opens or makes the file, of any size; what is read is durable, an unfinished tail is cut off. Errors:
    // journal.corrupt, journal.read_failed, journal.write_failed.
    [[nodiscard]] static Expected<FileJournal> open(std::string path);
    FileJournal(FileJournal&& other) noexcept;
    FileJournal& operator=(FileJournal&&) = delete;
    FileJournal(const FileJournal&) = delete;
    FileJournal& operator=(const FileJournal&) = delete;
    ~FileJournal() override;

    [[nodiscard]] bool existed() const { return existed_; }
    [[nodiscard]] const std::vector<chain::consensus::sdbft::Record>& records() const { return records_; }
    // Lets go of what open() read.
    [[nodiscard]] std::vector<chain::consensus::sdbft::Record> take_records() { return std::move(records_); }
    // Error of all three: journal.write_failed.
    [[nodiscard]] Status append(const std::vector<chain::consensus::sdbft::Record>& records) override;
    [[nodiscard]] Status replace(const std::vector<chain::consensus::sdbft::Record>& records) override;
    [[nodiscard]] Status erase() override;

private:
    explicit FileJournal(std::string path) : path_(std::move(path)) {}
    [[nodiscard]] Status reopen();

    std::string path_;
    int descriptor_ = -1;
    bool existed_ = false;
    std::uint64_t next_sequence_ = 0;
    std::vector<chain::consensus::sdbft::Record> records_;
};

}  // namespace quern::node
