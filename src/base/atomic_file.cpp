#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/file_write.h"
#include "base/fs.h"

namespace quern {
inline namespace base {
namespace fs {
namespace {

constexpr std::string_view kFailed = "fs.write_failed";

std::string parent_of(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Expected<AtomicFile> AtomicFile::create(const std::string& path, unsigned mode) {
    static std::atomic<unsigned> counter{0};
    std::string temporary = path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (descriptor < 0) return fail_write(errno, kFailed, temporary);
    AtomicFile file(path, std::move(temporary), descriptor);
    // The process's umask must not widen or narrow what was asked for.
    if (::fchmod(descriptor, mode) != 0) return fail_write(errno, kFailed, file.temporary_);
    return file;
}

Status AtomicFile::write(BytesView content) { return write_all(descriptor_, content, temporary_); }

Status AtomicFile::commit() {
    if (::fsync(descriptor_) != 0) return fail_write(errno, kFailed, temporary_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail_write(errno, kFailed, path_);
    temporary_.clear();
    return sync_directory(parent_of(path_));
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), descriptor_(other.descriptor_) {
    other.temporary_.clear();
    other.descriptor_ = -1;
}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(temporary_, other.temporary_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

AtomicFile::~AtomicFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

}  // namespace fs
}  // namespace base
}  // namespace quern
