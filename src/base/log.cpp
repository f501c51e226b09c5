#include "base/log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <memory>

#include "base/log_control.h"
#include "base/log_file.h"
#include "base/mutex.h"
#include "base/printable.h"

namespace quern {
inline namespace base {
namespace log {
namespace {

constexpr std::size_t kCount = static_cast<std::size_t>(Category::count_);
constexpr std::array<std::string_view, kCount> kNames = {
    "node",    "store",  "state",  "exec",     "consensus",     "mempool",   "p2p",     "rpc",   "content", "market",
    "dispute", "worker", "solver", "verifier", "whistleblower", "custodian", "program", "torch", "wallet",  "test"};
constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warning", "error", "off"};

std::atomic<Level>& threshold() {
    static std::atomic<Level> value{Level::info};
    return value;
}

std::array<std::atomic<bool>, kCount>& debug_flags() {
    static std::array<std::atomic<bool>, kCount> flags{};
    return flags;
}

Rotation& rotation() {
    static Rotation chosen;
    return chosen;
}

// Writes through, so that flushing has nothing to do. The lock is its own: the formatter, too, is used only under it.
class FileSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
public:
    explicit FileSink(std::string path) : file_(std::move(path)) {}
    Status open() {
        const MutexLock lock(file_mutex_);
        return file_.open();
    }
    void set_rotation(const Rotation& chosen) {
        const MutexLock lock(file_mutex_);
        file_.set_rotation(chosen);
    }

protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        const MutexLock lock(file_mutex_);
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        file_.write({line.data(), line.size()});
    }
    void flush_() override {}

private:
    Mutex file_mutex_;
    LogFile file_ QUERN_GUARDED_BY(file_mutex_);
};

// Null: no file.
std::shared_ptr<FileSink>& file_sink() {
    static std::shared_ptr<FileSink> shared;
    return shared;
}

std::shared_ptr<spdlog::logger> make_logger(const Options& options, const std::shared_ptr<FileSink>& file) {
    std::vector<spdlog::sink_ptr> sinks;
    if (options.to_stderr) sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    if (file) sinks.push_back(file);
    auto made = std::make_shared<spdlog::logger>("quern", sinks.begin(), sinks.end());
    made->set_level(spdlog::level::trace);  // enabled() has decided already
    made->set_formatter(
        std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
    made->flush_on(spdlog::level::info);
    return made;
}

std::shared_ptr<spdlog::logger>& logger() {
    static std::shared_ptr<spdlog::logger> shared = make_logger({}, nullptr);
    return shared;
}

spdlog::level::level_enum to_spdlog(Level level) {
    switch (level) {
        case Level::debug:
            return spdlog::level::debug;
        case Level::info:
            return spdlog::level::info;
        case Level::warning:
            return spdlog::level::warn;
        case Level::error:
            return spdlog::level::err;
        case Level::off:
            break;
    }
    return spdlog::level::off;
}

}  // namespace

std::string_view name_of(Category category) {
    const auto index = static_cast<std::size_t>(category);
    return index < kCount ? kNames[index] : "unknown";
}

Expected<Level> level_from_name(std::string_view name) {
    for (std::size_t i = 0; i < kLevelNames.size(); ++i)
        if (kLevelNames[i] == name) return static_cast<Level>(i);
    return fail("log.unknown_level", std::string(name));
}

Status configure(const Options& options) {
    std::array<bool, kCount> chosen{};
    for (const auto& name : options.debug) {
        if (name == "all" || name == "1") {
            chosen.fill(true);
            continue;
        }
        QUERN_TRY(const Category category, category_from_name(name));
        chosen[static_cast<std::size_t>(category)] = true;
    }
    std::shared_ptr<FileSink> file;
    if (!options.file.empty()) {
        file = std::make_shared<FileSink>(options.file);
        file->set_rotation(rotation());
        QUERN_CHECK(file->open());
    }
    file_sink() = file;
    logger() = make_logger(options, file);
    threshold() = options.level;
    for (std::size_t i = 0; i < kCount; ++i) debug_flags()[i] = chosen[i];
    return {};
}

void set_rotation(const Rotation& chosen) { rotation() = chosen; }

Status reopen() {
    const auto& file = file_sink();
    return file ? file->open() : Status();
}

std::vector<Category> categories() {
    std::vector<Category> all;
    for (std::size_t i = 0; i < kCount; ++i) all.push_back(static_cast<Category>(i));
    return all;
}

Expected<Category> category_from_name(std::string_view name) {
    for (std::size_t i = 0; i < kCount; ++i)
        if (kNames[i] == name) return static_cast<Category>(i);
    std::string known = "all";
    for (const auto each : kNames) known.append(", ").append(each);
    return fail("log.unknown_category", std::string(name) + ": it is one of " + known);
}

bool is_debugged(Category category) {
    const auto index = static_cast<std::size_t>(category);
    return index < kCount && debug_flags()[index].load(std::memory_order_relaxed);
}

void set_debugged(Category category, bool shown) {
    const auto index = static_cast<std::size_t>(category);
    if (index < kCount) debug_flags()[index].store(shown, std::memory_order_relaxed);
}

void flush() { logger()->flush(); }

bool enabled(Level level, Category category) {
    if (level >= threshold().load(std::memory_order_relaxed)) return true;
    const auto index = static_cast<std::size_t>(category);
    return index < kCount && debug_flags()[index].load(std::memory_order_relaxed);
}

void write(Level level, Category category, std::string_view text) {
    if (!enabled(level, category)) return;
    std::string line = "[";
    line += name_of(category);
    line += "] ";
    line += printable(text, kUnlimited);
    logger()->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

void format_and_write(Level level, Category category, fmt::string_view format, fmt::format_args arguments) {
    write(level, category, fmt::vformat(format, arguments));
}

}  // namespace log
}  // namespace base
}  // namespace quern
