// How much memory a test program has taken with operator new and not given back, and the most since a mark: for tests
// of what a run holds. A program that links this has its operator new counted. Thread-safe.
#pragma once

#include <cstddef>

namespace quern::test {

[[nodiscard]] std::size_t counted_memory();
void mark_counted_memory();  // the peak is what is held now
[[nodiscard]] std::size_t peak_of_counted_memory();

}  // namespace quern::test
