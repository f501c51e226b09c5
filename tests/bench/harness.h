// quern-bench's measuring: medians of repeated timings, each beside a reference measured in turn with it, so that a
// noisy machine disturbs both alike. Rows go to a table and to JSON. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quern::bench {

// Median and spread (lower and upper quartile) of seconds a call.
struct Timing {
    double median = 0;
    double low = 0;
    double high = 0;
};

struct Reference {
    std::string name;
    double value = 0;
};

struct Row {
    std::string name;  // "matmul 256x256x256, 1 thread"
    double value = 0;  // in `unit`
    std::string unit;  // "µs", "ms", "1/s", "bytes", "moves"
    double low = 0;    // quartiles; 0 where there is nothing to spread
    double high = 0;
    std::optional<Reference> reference;  // in the same unit
    double ratio = 0;                    // value / reference; 0: none
    std::string note;
};

struct Settings {
    int repetitions = 21;
    double min_seconds = 0.02;  // of one repetition
    std::string scratch;        // an empty directory for cases that write
};

class Bench {
public:
    explicit Bench(Settings settings) : settings_(std::move(settings)) {}

    [[nodiscard]] const Settings& settings() const { return settings_; }
    // Times of all functions, measured in turn: a, b, c, a, b, c, ... Each repetition calls a function as often as
    // min_seconds needs; the first round warms up and is not counted.
    [[nodiscard]] std::vector<Timing> time(const std::vector<std::function<void()>>& functions) const;

    void add(Row row);
    // A timed row. `per_call`: how many units of work one call did (the row is about one of them).
    void add_time(std::string name, const Timing& timing, double per_call, const std::string& reference_name = {},
                  const Timing* reference = nullptr, double reference_per_call = 1, std::string note = {});
    void add_count(std::string name, double value, std::string unit, std::string note = {});
    [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

private:
    Settings settings_;
    std::vector<Row> rows_;
};

// Median and quartiles of seconds.
[[nodiscard]] Timing summarize(std::vector<double> seconds);
[[nodiscard]] double steady_seconds();
// `format` is one of printf's for a double.
[[nodiscard]] std::string text_of(const char* format, double value);

struct Case {
    std::string_view name;
    std::string_view about;
    void (*run)(Bench& bench);
};
[[nodiscard]] std::vector<Case> all_cases();

// Keeps a result from being optimised away.
template <class T>
void keep(const T& value) {
    asm volatile("" : : "m"(value) : "memory");
}

[[nodiscard]] json::Value machine_description();
[[nodiscard]] json::Value to_json(const Row& row);
[[nodiscard]] std::string format_table(const std::vector<Row>& rows);

// Ends the program with a message: a benchmark whose setup fails has no result.
[[noreturn]] void give_up(const std::string& what);
template <class T>
[[nodiscard]] T must(Expected<T> value, const char* what) {
    if (!value) give_up(std::string(what) + ": " + value.error().to_string());
    return std::move(*value);
}
inline void must(const Status& status, const char* what) {
    if (!status) give_up(std::string(what) + ": " + status.error().to_string());
}

}  // namespace quern::bench
