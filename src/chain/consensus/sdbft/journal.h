// What a validator must find again after a crash (rule 7): its own votes and proposals, the blocks it voted for, the
// certificates that moved it. An append-only log; what is not wholly there at the end was never acted upon and is cut
// off. The codec is pure; a FileJournal belongs to one thread.
//
//   log    = frame...
//   frame  = "QJR1" || length (4) || sequence (8) || kind (1) || payload (length) || checksum (8)
//   checksum = first 8 bytes of SHA-256 of all before; numbers are big endian; sequences rise by 1 from frame to frame
//   payload of 1 own vote     = rlp([type, epoch, view, hash, signature])
//              2 own proposal = the PROPOSE message (messages.h)
//              3 block        = the block's encoding
//              4 certificate  = the certificate's encoding
#pragma once

#include <string>

#include "chain/consensus/sdbft/messages.h"

namespace quern::chain::consensus::sdbft {

enum class RecordKind : std::uint8_t { own_vote = 1, own_proposal = 2, block = 3, certificate = 4 };

struct Record {
    RecordKind kind = RecordKind::own_vote;
    Bytes payload;
    bool operator==(const Record&) const = default;
};

struct OwnVote {
    Vote vote;
    Signature signature;
    bool operator==(const OwnVote&) const = default;
};
[[nodiscard]] Record record_of(const OwnVote& vote);
// Errors: journal.bad_record, rlp.*.
[[nodiscard]] Expected<OwnVote> decode_own_vote(BytesView payload);

[[nodiscard]] Bytes encode_frame(std::uint64_t sequence, const Record& record);

struct Recovered {
    std::vector<Record> records;
    std::uint64_t next_sequence = 0;  // of the next frame
    std::size_t valid_bytes = 0;      // what follows is an unfinished write
};
// An unfinished frame at the end is no error: nothing that depends on it has left the process. A damaged frame with
// whole ones after it is one, because what was lost had been synced. Error: journal.corrupt.
[[nodiscard]] Expected<Recovered> recover(BytesView log);

inline constexpr std::size_t kMaxJournalBytes = std::size_t{1} << 30;

class FileJournal {
public:
    // Opens or makes the file, cuts off an unfinished tail. Errors: journal.corrupt, journal.read_failed,
    // journal.write_failed.
    [[nodiscard]] static Expected<FileJournal> open(std::string path);
    FileJournal(FileJournal&& other) noexcept;
    FileJournal& operator=(FileJournal&&) = delete;
    FileJournal(const FileJournal&) = delete;
    FileJournal& operator=(const FileJournal&) = delete;
    ~FileJournal();

    [[nodiscard]] bool existed() const { return existed_; }
    [[nodiscard]] const std::vector<Record>& records() const { return records_; }
    // Lets go of what open() read.
    [[nodiscard]] std::vector<Record> take_records() { return std::move(records_); }
    // Durable when it returns. Error: journal.write_failed, after which nothing more may be signed.
    [[nodiscard]] Status append(const std::vector<Record>& records);
    // The whole content, replaced atomically and durably. Error: journal.write_failed.
    [[nodiscard]] Status replace(const std::vector<Record>& records);
    // Erases the file, durably: this key's history turned out to be elsewhere. Nothing may follow.
    // Error: journal.write_failed.
    [[nodiscard]] Status erase();

private:
    explicit FileJournal(std::string path) : path_(std::move(path)) {}
    [[nodiscard]] Status reopen();

    std::string path_;
    int descriptor_ = -1;
    bool existed_ = false;
    std::uint64_t next_sequence_ = 0;
    std::vector<Record> records_;
};

}  // namespace quern::chain::consensus::sdbft
