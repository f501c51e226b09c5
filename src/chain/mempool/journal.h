// The mempool's file: transactions are appended as they arrive, so that a restart finds them again, and the file is
// written anew when most of it is outdated. It is no promise: the newest entries may be lost with the machine's power,
// a torn or damaged end is cut off. Belongs to one thread at a time.
//
//   file  = "QRNPOOL1" entry...
//   entry = length (4, big endian) || first 4 bytes of SHA-256(transaction) || transaction
#pragma once

#include <string>

#include "chain/types/transaction.h"

namespace quern::chain::mempool {

inline constexpr std::size_t kMaxJournalBytes = std::size_t{256} << 20;

class PoolJournal {
public:
    // Errors: mempool.journal_open_failed. An unreadable file is started anew.
    [[nodiscard]] static Expected<PoolJournal> open(const std::string& path);
    PoolJournal(PoolJournal&& other) noexcept;
    PoolJournal& operator=(PoolJournal&&) = delete;
    PoolJournal(const PoolJournal&) = delete;
    ~PoolJournal();

    // What the file held when it was opened, encoded; empty after the first call.
    [[nodiscard]] std::vector<Bytes> take_loaded();
    // Error mempool.journal_write_failed.
    [[nodiscard]] Status append(BytesView transaction);
    // Replaces the content, atomically. Error mempool.journal_write_failed.
    [[nodiscard]] Status rewrite(const std::vector<BytesView>& transactions);
    [[nodiscard]] std::uint64_t size() const { return size_; }

private:
    PoolJournal(std::string path) : path_(std::move(path)) {}
    [[nodiscard]] Status reopen();
    std::string path_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
    std::vector<Bytes> loaded_;
};

}  // namespace quern::chain::mempool
