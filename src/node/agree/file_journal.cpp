#include "node/agree/file_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fs.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;

namespace {

auto write_failed(const std::string& path) { return fault("journal.write_failed", path + ": " + std::strerror(errno)); }
auto read_failed(const std::string& path) { return fault("journal.read_failed", path + ": " + std::strerror(errno)); }

Expected<Bytes> read_at(int descriptor, const std::string& path, std::uint64_t offset, std::size_t count) {
    Bytes bytes(count);
    std::size_t done = 0;
    while (done < count) {
        const ssize_t read = ::pread(descriptor, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
        if (read < 0 && errno == EINTR) continue;
        if (read < 0) return read_failed(path);
        if (read == 0) return fault("journal.read_failed", path + ": it became shorter");
        done += static_cast<std::size_t>(read);
    }
    return bytes;
}

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
    journal.existed_ = fs::exists(journal.path_);
    QUERN_CHECK(journal.reopen());
    if (!journal.existed_) return journal;
    struct stat about {};
    if (::fstat(journal.descriptor_, &about) != 0) return read_failed(journal.path_);
    // What is read may be in the page cache alone, from a process that died before its sync. It is acted upon from here
    // on, so it is made durable first.
    if (::fsync(journal.descriptor_) != 0) return write_failed(journal.path_);
    const auto size = static_cast<std::uint64_t>(about.st_size);
    auto recovered = sdbft::recover(size, [&journal](std::uint64_t offset, std::size_t count) {
        return read_at(journal.descriptor_, journal.path_, offset, count);
    });
    if (!recovered) return detailed(recovered.error(), journal.path_ + ": " + recovered.error().detail);
    journal.records_ = std::move(recovered->records);
    journal.next_sequence_ = recovered->next_sequence;
    if (recovered->valid_bytes < size &&
        (::ftruncate(journal.descriptor_, static_cast<off_t>(recovered->valid_bytes)) != 0 ||
         ::fsync(journal.descriptor_) != 0))
        return write_failed(journal.path_);
    return journal;
}

Status FileJournal::reopen() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (descriptor_ < 0) return write_failed(path_);
    if (const auto synced = fs::sync_directory(folder_of(path_)); !synced)
        return fault("journal.write_failed", synced.error().to_string());
    return {};
}

Status FileJournal::append(const std::vector<sdbft::Record>& records) {
    Bytes bytes;
    for (const auto& record : records) quern::append(bytes, sdbft::encode_frame(next_sequence_++, record));
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

Status FileJournal::replace(const std::vector<sdbft::Record>& records) {
    Bytes bytes;
    for (const auto& record : records) quern::append(bytes, sdbft::encode_frame(next_sequence_++, record));
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

}  // namespace quern::node
