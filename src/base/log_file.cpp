#include "base/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace quern {
inline namespace base {
namespace log {

Status LogFile::open() {
    const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor < 0) return fault("log.cannot_open", path_ + ": " + std::strerror(errno));
    struct stat status {};
    size_ = ::fstat(descriptor, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
    close();
    descriptor_ = descriptor;
    return {};
}

void LogFile::close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

void LogFile::write(std::string_view line) {
    if (rotation_.max_bytes != 0 && size_ != 0 && size_ + line.size() > rotation_.max_bytes) rotate();
    while (!line.empty()) {
        const ssize_t written = ::write(descriptor_, line.data(), line.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        size_ += static_cast<std::uint64_t>(written);
        line.remove_prefix(static_cast<std::size_t>(written));
    }
}

void LogFile::rotate() {
    const auto numbered = [this](unsigned number) { return path_ + "." + std::to_string(number); };
    if (rotation_.kept == 0) {
        (void)::unlink(path_.c_str());
    } else {
        for (unsigned number = rotation_.kept; number > 1; --number)
            (void)std::rename(numbered(number - 1).c_str(), numbered(number).c_str());
        (void)std::rename(path_.c_str(), numbered(1).c_str());
    }
    // When it cannot be opened the renamed file grows on, and the next try waits for as much again.
    if (!open()) size_ = 0;
}

}  // namespace log
}  // namespace base
}  // namespace quern
