// The whole of quern-torchscript behind its options. Tests run it in processes of their own. Linux.
#pragma once

#include <string>

namespace quern::compute::torchscript {

inline constexpr int kChildFailed = 1;
inline constexpr unsigned kCpuSeconds = 120;

struct ChildOptions {
    std::string dims;  // of an example: "3x32x32"
    bool is_whole = false;
};

// Reads standard input, enters the sandbox, converts, writes standard output; else the error's name and detail as one
// line to standard error. 0, or kChildFailed.
[[nodiscard]] int run_child(const ChildOptions& options);

}  // namespace quern::compute::torchscript
