// The mempool's file: transactions are appended as they arrive, each with its sender, so that a restart finds them
// again and recovers no signature twice. When most of the file is outdated it is put aside, what still waits is
// appended to a new one piece by piece, and the old one is deleted: no step takes longer than one piece. It is no
// promise: the newest entries may be lost with the machine's power, a torn or damaged end is cut off. Whoever can write
// the file can write the node's database, too: the checksum is against accidents. Belongs to one thread at a time.
//
//   file  = "QRNPOOL2" entry...
//   entry = length of transaction (4, big endian) || first 8 bytes of SHA-256(sender || transaction) || sender (20) ||
//           transaction
// PATH is the file, PATH.old the one put aside; the older one is read first.
#pragma once

#include <span>
#include <string>

#include "chain/types/transaction.h"

namespace quern::chain::mempool {

inline constexpr std::size_t kMaxJournalBytes = std::size_t{2} << 30;  // of one file

struct JournalEntry {
    types::Address sender;
    Bytes transaction;  // encoded
    bool operator==(const JournalEntry&) const = default;
};
struct JournalEntryView {
    types::Address sender;
    BytesView transaction;
};

class PoolJournal {
public:
    // Errors: mempool.journal_open_failed. An unreadable file is started anew.
    [[nodiscard]] static Expected<PoolJournal> open(const std::string& path, std::size_t max_bytes = kMaxJournalBytes);
    PoolJournal(PoolJournal&& other) noexcept;
    PoolJournal& operator=(PoolJournal&&) = delete;
    PoolJournal(const PoolJournal&) = delete;
    PoolJournal& operator=(const PoolJournal&) = delete;
    ~PoolJournal();

    // What the files held when they were opened; empty after the first call.
    [[nodiscard]] std::vector<JournalEntry> take_loaded();
    // All in one write. Error mempool.journal_write_failed: then none of them is in the file, for which they may have
    // been too much: while no block comes nothing is tidied.
    [[nodiscard]] Status append(std::span<const JournalEntryView> entries);
    // Puts the file aside and starts a new one. Error mempool.journal_write_failed.
    [[nodiscard]] Status put_aside();
    // Deletes what was put aside: all that still matters of it is in the new file. Error as above.
    [[nodiscard]] Status delete_old();
    [[nodiscard]] bool has_old() const { return has_old_; }
    // Of the newer file.
    [[nodiscard]] std::uint64_t size() const { return size_; }

private:
    PoolJournal(std::string path, std::size_t max_bytes) : path_(std::move(path)), max_bytes_(max_bytes) {}
    [[nodiscard]] std::string old_path() const { return path_ + ".old"; }
    [[nodiscard]] Status start(std::size_t keep);

    std::string path_;
    std::size_t max_bytes_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
    bool has_old_ = false;
    std::vector<JournalEntry> loaded_;
};

}  // namespace quern::chain::mempool
