// Logging: one line per event, "time level [category] message key=value ...", to standard error and optionally a file.
// Nothing secret is ever logged. Debug output is chosen per category (-debug=rpc,exec). The sinks are spdlog's; only
// log.cpp includes it. Thread-safe; configure() runs once before threads start, defaults hold until then.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace quern {
inline namespace base {
namespace log {

// The registry of categories; a new one is a line here and a name in log.cpp.
enum class Category : std::uint8_t {
    node,
    store,
    state,
    exec,
    consensus,
    mempool,
    p2p,
    rpc,
    content,
    market,
    dispute,
    worker,
    solver,
    verifier,
    whistleblower,
    custodian,
    program,
    torch,
    wallet,
    test,
    count_
};

enum class Level : std::uint8_t { debug, info, warning, error, off };

struct Options {
    Level level = Level::info;            // least severe level that is shown
    std::vector<std::string> debug = {};  // categories shown at debug whatever `level` says; "all" for each
    std::string file = {};                // appended to; empty for none
    bool to_stderr = true;
};

[[nodiscard]] std::string_view name_of(Category category);
// Errors: log.unknown_category, log.unknown_level, log.cannot_open.
[[nodiscard]] Expected<Level> level_from_name(std::string_view name);
[[nodiscard]] Status configure(const Options& options);
void flush();

[[nodiscard]] bool enabled(Level level, Category category);
// Control characters in the text (it may hold outside input) are shown as \xNN, so that one event stays one line.
void write(Level level, Category category, std::string_view text);
void format_and_write(Level level, Category category, fmt::string_view format, fmt::format_args arguments);

template <class... Args>
void debug(Category category, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::debug, category))
        format_and_write(Level::debug, category, format, fmt::make_format_args(args...));
}
template <class... Args>
void info(Category category, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::info, category)) format_and_write(Level::info, category, format, fmt::make_format_args(args...));
}
template <class... Args>
void warning(Category category, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::warning, category))
        format_and_write(Level::warning, category, format, fmt::make_format_args(args...));
}
template <class... Args>
void error(Category category, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::error, category))
        format_and_write(Level::error, category, format, fmt::make_format_args(args...));
}

}  // namespace log
}  // namespace base
}  // namespace quern
