#include "compute/transfer/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/file_write.h"
#include "base/fs.h"

namespace quern::compute::transfer {

Expected<PartFile> PartFile::open(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) {
        const int code = errno;
        return fault("fs.cannot_open", path + ": " + std::generic_category().message(code));
    }
    PartFile part(path, descriptor);
    struct stat info {};
    if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return fault("fs.read_failed", path);
    part.size_ = static_cast<std::uint64_t>(info.st_size);
    return part;
}

PartFile::PartFile(PartFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

PartFile::~PartFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Status PartFile::append(BytesView bytes) {
    QUERN_CHECK(fs::write_all(descriptor_, bytes, path_));
    size_ += bytes.size();
    return {};
}

Status PartFile::clear() {
    if (::ftruncate(descriptor_, 0) != 0) return fs::fail_write(errno, "fs.write_failed", path_);
    size_ = 0;
    return {};
}

Status PartFile::finish(const std::string& path) {
    if (::fsync(descriptor_) != 0) return fs::fail_write(errno, "fs.sync_failed", path_);
    if (std::rename(path_.c_str(), path.c_str()) != 0) return fs::fail_write(errno, "fs.write_failed", path);
    return fs::sync_directory(std::filesystem::path(path).parent_path().string());
}

}  // namespace quern::compute::transfer
