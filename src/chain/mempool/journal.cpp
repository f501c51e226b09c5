#include "chain/mempool/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/big_endian.h"
#include "base/fs.h"
#include "crypto/hash.h"

namespace quern::chain::mempool {
namespace {

constexpr std::string_view kMagic = "QRNPOOL2";
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kEntryHeader = kLengthBytes + kChecksumBytes + Bytes20::kSize;

FixedBytes<kChecksumBytes> checksum(BytesView sender, BytesView transaction) {
    crypto::Sha256 hash;
    hash.update(sender);
    hash.update(transaction);
    return FixedBytes<kChecksumBytes>::copy_of(hash.finish().view().first(kChecksumBytes));
}

void append_entry(Bytes& out, const JournalEntryView& entry) {
    append_big_endian(out, entry.transaction.size(), kLengthBytes);
    append(out, checksum(entry.sender, entry.transaction));
    append(out, entry.sender);
    append(out, entry.transaction);
}

// Appends the whole entries from the file's start; gives the length of the valid part. Piece by piece: beside the
// entries there is never more than one of them in memory.
std::size_t read_entries(const std::string& path, std::size_t max_bytes, std::vector<JournalEntry>& entries) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
    if (!file) return 0;
    const auto read = [&](std::span<std::uint8_t> into) {
        return std::fread(into.data(), 1, into.size(), file.get()) == into.size();
    };
    std::array<std::uint8_t, kMagic.size()> magic{};
    if (!read(magic) || !equal(magic, as_bytes(kMagic))) return 0;
    std::size_t good = kMagic.size();
    std::array<std::uint8_t, kEntryHeader> buffer{};
    while (good < max_bytes && read(buffer)) {
        const BytesView header = buffer;
        const std::size_t length = from_big_endian(header.first(kLengthBytes));
        if (length > types::kMaxTransactionBytes) break;
        Bytes transaction(length);
        if (!read(transaction)) break;
        const BytesView sender = header.subspan(kLengthBytes + kChecksumBytes);
        if (!equal(checksum(sender, transaction), header.subspan(kLengthBytes, kChecksumBytes))) break;
        entries.push_back({types::Address::copy_of(sender), std::move(transaction)});
        good += kEntryHeader + length;
    }
    return good;
}

Status write_all(int descriptor, BytesView bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return fault("mempool.journal_write_failed", path + ": " + std::strerror(errno));
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

}  // namespace

PoolJournal::PoolJournal(PoolJournal&& other) noexcept
    : path_(std::move(other.path_)),
      max_bytes_(other.max_bytes_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      has_old_(other.has_old_),
      loaded_(std::move(other.loaded_)) {}

PoolJournal::~PoolJournal() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

// Opens the file with its first `keep` bytes.
Status PoolJournal::start(std::size_t keep) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(keep)) != 0)
        return fault("mempool.journal_open_failed", path_ + ": " + std::strerror(errno));
    size_ = keep;
    if (keep != 0) return {};
    QUERN_CHECK(write_all(descriptor_, as_bytes(kMagic), path_));
    size_ = kMagic.size();
    return {};
}

Expected<PoolJournal> PoolJournal::open(const std::string& path, std::size_t max_bytes) {
    PoolJournal journal(path, max_bytes);
    if (fs::exists(journal.old_path())) {
        (void)read_entries(journal.old_path(), max_bytes, journal.loaded_);
        journal.has_old_ = true;
    }
    const std::size_t good = read_entries(path, max_bytes, journal.loaded_);
    QUERN_CHECK(journal.start(good));
    return journal;
}

std::vector<JournalEntry> PoolJournal::take_loaded() { return std::exchange(loaded_, {}); }

Status PoolJournal::append(std::span<const JournalEntryView> entries) {
    Bytes bytes;
    std::size_t size = 0;
    for (const auto& entry : entries) size += kEntryHeader + entry.transaction.size();
    if (size_ + size > max_bytes_) return fault("mempool.journal_write_failed", path_ + " is full");
    bytes.reserve(size);
    for (const auto& entry : entries) append_entry(bytes, entry);
    if (const auto written = write_all(descriptor_, bytes, path_); !written) {
        // Half an entry would hide those that follow.
        if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) size_ += bytes.size();
        return written;
    }
    size_ += bytes.size();
    return {};
}

Status PoolJournal::put_aside() {
    if (has_old_) return fault("mempool.journal_write_failed", old_path() + " is there already");
    if (std::rename(path_.c_str(), old_path().c_str()) != 0)
        return fault("mempool.journal_write_failed", path_ + ": " + std::strerror(errno));
    has_old_ = true;
    return start(0);
}

Status PoolJournal::delete_old() {
    if (has_old_ && ::unlink(old_path().c_str()) != 0 && errno != ENOENT)
        return fault("mempool.journal_write_failed", old_path() + ": " + std::strerror(errno));
    has_old_ = false;
    return {};
}

}  // namespace quern::chain::mempool
