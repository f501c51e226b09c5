// The C library's allocator, told what a node is: a process that needs again and again as much memory as it just gave
// back. Called once at the start of a program, before threads.
#pragma once

#include <cstddef>

namespace quern {
inline namespace base {

// Freed memory stays in the process up to kKeptBytes, and single allocations of up to kLargeBytes are served from it.
// Otherwise what one block needs is fetched from the kernel page by page and given back, for each block: a third of the
// time of executing it. False where the library has no such setting.
inline constexpr std::size_t kKeptBytes = std::size_t{256} << 20;
inline constexpr std::size_t kLargeBytes = std::size_t{32} << 20;  // glibc takes no more
bool keep_freed_memory();

}  // namespace base
}  // namespace quern
