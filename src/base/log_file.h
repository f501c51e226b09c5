// The log's file: appended to, renamed when it has grown, opened anew when somebody else renamed it. Private to
// base/log.cpp. Not thread-safe: its sink has a lock.
#pragma once

#include <string>

#include "base/log_control.h"

namespace quern {
inline namespace base {
namespace log {

class LogFile {
public:
    explicit LogFile(std::string path) : path_(std::move(path)) {}
    ~LogFile() { close(); }
    LogFile(const LogFile&) = delete;
    LogFile& operator=(const LogFile&) = delete;

    // Error log.cannot_open; then the file that was open stays so.
    [[nodiscard]] Status open();
    // A line that cannot be written is lost: there is nobody to tell.
    void write(std::string_view line);
    void set_rotation(const Rotation& rotation) { rotation_ = rotation; }

private:
    void rotate();
    void close();

    const std::string path_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
    Rotation rotation_;
};

}  // namespace log
}  // namespace base
}  // namespace quern
