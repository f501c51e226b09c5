// Writing to descriptors, with the errors of base/fs.h. Used by fs.cpp and atomic_file.cpp. Thread-safe: plain calls.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern {
inline namespace base {
namespace fs {

// The system refused to write: `name`, or fs.disk_full. `code` is an argument, so that it is read before anything else
// is called.
[[nodiscard]] tl::unexpected<Error> fail_write(int code, std::string_view name, const std::string& path);
// All of it, at the descriptor's place. Errors: fs.write_failed, fs.disk_full, with the path.
[[nodiscard]] Status write_all(int descriptor, BytesView content, const std::string& path);

}  // namespace fs
}  // namespace base
}  // namespace quern
