#include "base/fs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_write.h"

namespace quern {
inline namespace base {
namespace fs {
namespace {

// Closes on destruction.
class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    [[nodiscard]] int get() const { return value_; }
    [[nodiscard]] int release() {
        const int value = value_;
        value_ = -1;
        return value;
    }

private:
    int value_;
};

// The system refused: full disk, missing rights, not there. `code` is an argument, so that it is read before anything
// else is called.
tl::unexpected<Error> fail_code(int code, std::string_view name, const std::string& path) {
    return fault(name, path + ": " + std::generic_category().message(code));
}
tl::unexpected<Error> fail_errno(std::string_view name, const std::string& path) {
    return fail_code(errno, name, path);
}
template <class Container>
Expected<Container> read_into(const std::string& path, std::size_t max_bytes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno(errno == ENOENT ? "fs.not_found" : "fs.cannot_open", path);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return fail_errno("fs.read_failed", path);
    if (S_ISDIR(info.st_mode)) return fault("fs.cannot_open", path + ": is a directory");
    Container content;
    if (info.st_size > 0) {
        if (static_cast<std::uint64_t>(info.st_size) > max_bytes)
            return fail("fs.too_large", path + ": " + std::to_string(info.st_size) + " bytes");
        content.reserve(static_cast<std::size_t>(info.st_size));
    }
    // The file may grow or be a pipe, so the size that was reported is only a hint.
    std::uint8_t buffer[65536];
    for (;;) {
        const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
        if (got < 0) {
            if (errno == EINTR) continue;
            return fail_errno("fs.read_failed", path);
        }
        if (got == 0) return content;
        if (content.size() + static_cast<std::size_t>(got) > max_bytes) return fail("fs.too_large", path);
        content.insert(content.end(), buffer, buffer + got);
    }
}

Status check_own(const std::string& path, mode_t kind) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT ? Status() : fail_errno("fs.read_failed", path);
    const auto foreign = [&](const char* why) { return fail("fs.foreign", path + why); };
    if ((info.st_mode & S_IFMT) == S_IFLNK) return foreign(" is a link");
    if ((info.st_mode & S_IFMT) != kind) return foreign(kind == S_IFDIR ? " is no directory" : " is no plain file");
    if (info.st_uid != ::geteuid()) return foreign(" is another user's");
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return foreign(" may be written to by other users");
    return {};
}

}  // namespace

tl::unexpected<Error> fail_write(int code, std::string_view name, const std::string& path) {
    return fail_code(code, is_disk_full(code) ? kDiskFull : name, path);
}

Status write_all(int descriptor, BytesView content, const std::string& path) {
    while (!content.empty()) {
        const ssize_t written = ::write(descriptor, content.data(), content.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            return fail_write(errno, "fs.write_failed", path);
        }
        content = content.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

bool is_disk_full(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

Expected<Bytes> read_file(const std::string& path, std::size_t max_bytes) { return read_into<Bytes>(path, max_bytes); }

Expected<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
    return read_into<std::string>(path, max_bytes);
}

Status write_file_atomic(const std::string& path, BytesView content, unsigned mode) {
    QUERN_TRY(AtomicFile file, AtomicFile::create(path, mode));
    QUERN_CHECK(file.write(content));
    return file.commit();
}

Status write_secret_file(const std::string& path, BytesView content) { return write_file_atomic(path, content, 0600); }

bool exists(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0;
}

Expected<std::uint64_t> file_size(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return fail_errno(errno == ENOENT ? "fs.not_found" : "fs.read_failed", path);
    return static_cast<std::uint64_t>(info.st_size);
}

Status create_directories(const std::string& path, unsigned mode) {
    if (path.empty()) return fault("fs.create_directory_failed", "empty path");
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST)
            return fail_write(errno, "fs.create_directory_failed", part);
        if (end == std::string::npos) break;
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return fail_errno("fs.create_directory_failed", path);
    if (!S_ISDIR(info.st_mode)) return fault("fs.create_directory_failed", path + ": not a directory");
    return {};
}

Status check_own_file(const std::string& path) { return check_own(path, S_IFREG); }
Status check_own_directory(const std::string& path) { return check_own(path, S_IFDIR); }

Status sync_directory(const std::string& path) {
    const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0 || ::fsync(directory.get()) != 0) return fail_errno("fs.sync_failed", path);
    return {};
}

Status remove_file(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("fs.remove_failed", path);
    return {};
}

Expected<LockFile> LockFile::acquire(const std::string& path) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (file.get() < 0) return fail_errno("fs.cannot_open", path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return fail_errno("fs.cannot_open", path);
        char owner[32] = {};
        const ssize_t got = ::pread(file.get(), owner, sizeof(owner) - 1, 0);
        std::string who;
        for (ssize_t i = 0; i < got && owner[i] >= '0' && owner[i] <= '9'; ++i) who += owner[i];
        return fault(kLocked, path + " is held by process " + (who.empty() ? "unknown" : who));
    }
    const std::string own = std::to_string(::getpid()) + "\n";
    if (::ftruncate(file.get(), 0) != 0) return fail_errno("fs.cannot_open", path);
    QUERN_CHECK(write_all(file.get(), as_bytes(own), path));
    return LockFile(file.release());
}

Expected<LockFile> LockFile::acquire_within(const std::string& path, std::uint64_t part) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (file.get() < 0) return fail_errno("fs.cannot_open", path);
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(part & static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()));
    range.l_len = range.l_start == std::numeric_limits<off_t>::max() ? 0 : 1;  // 0: up to the end
    if (::fcntl(file.get(), F_OFD_SETLK, &range) != 0) {
        if (errno != EAGAIN && errno != EACCES) return fail_errno("fs.cannot_open", path);
        return fault(kLocked, path);
    }
    return LockFile(file.release());
}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

LockFile::~LockFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace fs
}  // namespace base
}  // namespace quern
