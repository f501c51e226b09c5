// Running a log that is being written: which categories are shown at debug level, and the file's life (opened anew for
// a log rotator, cut off and numbered by size). Used by quernd's main and the RPC method `logging`. Thread-safe, but
// for set_rotation(), which belongs before configure().
#pragma once

#include "base/log.h"

namespace quern {
inline namespace base {
namespace log {

struct Rotation {
    std::uint64_t max_bytes = std::uint64_t{64} << 20;  // then FILE becomes FILE.1, that FILE.2 ...; 0: never
    unsigned kept = 4;                                  // numbered files; the oldest is deleted
};

// Of the file that configure() opens.
void set_rotation(const Rotation& rotation);
// Opens the file under its name again: it may have been renamed. Error log.cannot_open; then the old one is written on.
[[nodiscard]] Status reopen();

[[nodiscard]] std::vector<Category> categories();
// Error log.unknown_category.
[[nodiscard]] Expected<Category> category_from_name(std::string_view name);
// Whether the category is shown at debug level although the level says otherwise.
[[nodiscard]] bool is_debugged(Category category);
void set_debugged(Category category, bool shown);

}  // namespace log
}  // namespace base
}  // namespace quern
