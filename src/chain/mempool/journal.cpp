#include "chain/mempool/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/fs.h"
#include "crypto/hash.h"

namespace quern::chain::mempool {
namespace {

constexpr std::string_view kMagic = "QRNPOOL1";
constexpr std::size_t kEntryHeader = 8;

void append_entry(Bytes& out, BytesView transaction) {
    const auto length = static_cast<std::uint32_t>(transaction.size());
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(length >> shift));
    append(out, crypto::sha256(transaction).view().first(4));
    append(out, transaction);
}

// The whole entries from the start; `good` gets the length of the valid part.
std::vector<Bytes> parse(BytesView file, std::size_t& good) {
    std::vector<Bytes> entries;
    good = 0;
    if (file.size() < kMagic.size() || !equal(file.first(kMagic.size()), as_bytes(kMagic))) return entries;
    good = kMagic.size();
    while (file.size() - good >= kEntryHeader) {
        const BytesView header = file.subspan(good, kEntryHeader);
        const std::size_t length =
            std::size_t{header[0]} << 24 | std::size_t{header[1]} << 16 | std::size_t{header[2]} << 8 | header[3];
        if (length > types::kMaxTransactionBytes || length > file.size() - good - kEntryHeader) break;
        const BytesView transaction = file.subspan(good + kEntryHeader, length);
        if (!equal(crypto::sha256(transaction).view().first(4), header.subspan(4))) break;
        entries.push_back(to_bytes(transaction));
        good += kEntryHeader + length;
    }
    return entries;
}

Status write_all(int descriptor, BytesView bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return fail("mempool.journal_write_failed", path + ": " + std::strerror(errno));
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

}  // namespace

PoolJournal::PoolJournal(PoolJournal&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(other.descriptor_),
      size_(other.size_),
      loaded_(std::move(other.loaded_)) {
    other.descriptor_ = -1;
}

PoolJournal::~PoolJournal() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Status PoolJournal::reopen() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) return fail("mempool.journal_open_failed", path_ + ": " + std::strerror(errno));
    return {};
}

Expected<PoolJournal> PoolJournal::open(const std::string& path) {
    PoolJournal journal(path);
    std::size_t good = 0;
    if (const auto file = fs::read_file(path, kMaxJournalBytes)) journal.loaded_ = parse(*file, good);
    QUERN_CHECK(journal.reopen());
    if (::ftruncate(journal.descriptor_, static_cast<off_t>(good)) != 0)
        return fail("mempool.journal_open_failed", path + ": " + std::strerror(errno));
    journal.size_ = good;
    if (good == 0) {
        QUERN_CHECK(write_all(journal.descriptor_, as_bytes(kMagic), path));
        journal.size_ = kMagic.size();
    }
    return journal;
}

std::vector<Bytes> PoolJournal::take_loaded() { return std::exchange(loaded_, {}); }

Status PoolJournal::append(BytesView transaction) {
    Bytes entry;
    append_entry(entry, transaction);
    if (const auto written = write_all(descriptor_, entry, path_); !written) {
        // Half an entry would hide those that follow.
        if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) size_ += entry.size();
        return written;
    }
    size_ += entry.size();
    return {};
}

Status PoolJournal::rewrite(const std::vector<BytesView>& transactions) {
    Bytes content = to_bytes(as_bytes(kMagic));
    for (const auto& transaction : transactions) append_entry(content, transaction);
    if (const auto written = fs::write_file_atomic(path_, content); !written)
        return fail("mempool.journal_write_failed", written.error().to_string());
    size_ = content.size();
    return reopen();
}

}  // namespace quern::chain::mempool
