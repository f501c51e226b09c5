// The journal's file: appends are synced before they return, a replacement goes through a renamed temporary file.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fs.h"
#include "chain/consensus/sdbft/journal.h"

namespace quern::chain::consensus::sdbft {
namespace {

auto write_failed(const std::string& path) { return fault("journal.write_failed", path + ": " + std::strerror(errno)); }

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

FileJournal::FileJournal(FileJournal&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(other.descriptor_),
      existed_(other.existed_),
      next_sequence_(other.next_sequence_),
      records_(std::move(other.records_)) {
    other.descriptor_ = -1;
}

FileJournal::~FileJournal() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Expected<FileJournal> FileJournal::open(std::string path) {
    FileJournal journal(std::move(path));
    const auto log = fs::read_file(journal.path_, kMaxJournalBytes);
    if (!log && log.error().name != "fs.not_found") return fault("journal.read_failed", log.error().to_string());
    std::size_t valid_bytes = 0;
    if (log) {
        auto recovered = recover(*log);
        if (!recovered) return fault("journal.corrupt", journal.path_ + ": " + recovered.error().detail);
        journal.existed_ = true;
        journal.records_ = std::move(recovered->records);
        journal.next_sequence_ = recovered->next_sequence;
        valid_bytes = recovered->valid_bytes;
    }
    QUERN_CHECK(journal.reopen());
    if (log && valid_bytes < log->size() &&
        (::ftruncate(journal.descriptor_, static_cast<off_t>(valid_bytes)) != 0 || ::fsync(journal.descriptor_) != 0))
        return write_failed(journal.path_);
    return journal;
}

Status FileJournal::reopen() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (descriptor_ < 0) return write_failed(path_);
    if (const auto synced = fs::sync_directory(folder_of(path_)); !synced)
        return fault("journal.write_failed", synced.error().to_string());
    return {};
}

Status FileJournal::append(const std::vector<Record>& records) {
    Bytes bytes;
    for (const auto& record : records) quern::append(bytes, encode_frame(next_sequence_++, record));
    std::size_t written = 0;
    while (written < bytes.size()) {
        const ssize_t count = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return write_failed(path_);
        written += static_cast<std::size_t>(count);
    }
    if (::fdatasync(descriptor_) != 0) return write_failed(path_);
    return {};
}

Status FileJournal::replace(const std::vector<Record>& records) {
    Bytes bytes;
    for (const auto& record : records) quern::append(bytes, encode_frame(next_sequence_++, record));
    if (const auto written = fs::write_file_atomic(path_, bytes, 0600); !written)
        return fault("journal.write_failed", written.error().to_string());
    return reopen();
}

Status FileJournal::erase() {
    if (auto removed = fs::remove_file(path_); !removed)
        return fault("journal.write_failed", removed.error().to_string());
    if (auto synced = fs::sync_directory(folder_of(path_)); !synced)
        return fault("journal.write_failed", synced.error().to_string());
    return {};
}

}  // namespace quern::chain::consensus::sdbft
