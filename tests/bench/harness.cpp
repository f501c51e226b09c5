#include "bench/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "quern_version.h"
#include "vm/tensor/arith/kernels.h"

namespace quern::bench {
namespace {

double timed(const std::function<void()>& function, std::size_t calls) {
    const double start = steady_seconds();
    for (std::size_t i = 0; i < calls; ++i) function();
    return (steady_seconds() - start) / static_cast<double>(calls);
}

// Unit and factor in which `seconds` reads well.
std::pair<const char*, double> unit_of(double seconds) {
    if (seconds < 1e-6) return {"ns", 1e9};
    if (seconds < 1e-3) return {"µs", 1e6};
    if (seconds < 1) return {"ms", 1e3};
    return {"s", 1};
}

std::string number(double value) {
    const double size = std::fabs(value);
    if (value == std::floor(value) && size < 1e15) return text_of("%.0f", value);
    return text_of(size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.2f", value);
}

std::string first_line_with(const char* path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key)) {
            const std::size_t colon = line.find(':');
            if (colon == std::string::npos) return line;
            const std::size_t start = line.find_first_not_of(" \t", colon + 1);
            return start == std::string::npos ? std::string() : line.substr(start);
        }
    return {};
}

// Columns that a UTF-8 text takes in a terminal (no wide characters are used here).
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::vector<Timing> Bench::time(const std::vector<std::function<void()>>& functions) const {
    std::vector<std::size_t> calls(functions.size(), 1);
    for (std::size_t i = 0; i < functions.size(); ++i) {
        for (double taken = 0; taken < settings_.min_seconds / 2;) {  // warms up, and finds the number of calls
            taken = timed(functions[i], calls[i]) * static_cast<double>(calls[i]);
            if (taken >= settings_.min_seconds) break;
            const double factor = taken > 0 ? settings_.min_seconds / taken : 16;
            calls[i] =
                static_cast<std::size_t>(std::ceil(static_cast<double>(calls[i]) * std::clamp(factor, 1.0, 16.0)));
        }
    }
    std::vector<std::vector<double>> samples(functions.size());
    for (int repetition = 0; repetition < settings_.repetitions; ++repetition)
        for (std::size_t i = 0; i < functions.size(); ++i) samples[i].push_back(timed(functions[i], calls[i]));
    std::vector<Timing> timings;
    for (auto& sample : samples) timings.push_back(summarize(std::move(sample)));
    return timings;
}

Timing summarize(std::vector<double> seconds) {
    if (seconds.empty()) return {};
    std::sort(seconds.begin(), seconds.end());
    const std::size_t last = seconds.size() - 1;
    return {seconds[last / 2], seconds[last / 4], seconds[last - last / 4]};
}

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string text_of(const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

void Bench::add(Row row) {
    if (row.reference && row.reference->value > 0) row.ratio = row.value / row.reference->value;
    std::string times;
    if (row.ratio > 0) times.append(", ").append(number(row.ratio)).append(" times ").append(row.reference->name);
    std::fprintf(stderr, "  %s: %s %s%s\n", row.name.c_str(), number(row.value).c_str(), row.unit.c_str(),
                 times.c_str());
    rows_.push_back(std::move(row));
}

void Bench::add_time(std::string name, const Timing& timing, double per_call, const std::string& reference_name,
                     const Timing* reference, double reference_per_call, std::string note) {
    const auto [unit, factor] = unit_of(timing.median / per_call);
    const double scale = factor / per_call;
    Row row{std::move(name), timing.median * scale, unit, timing.low * scale, timing.high * scale, {}, 0,
            std::move(note)};
    if (reference != nullptr) row.reference = {reference_name, reference->median * factor / reference_per_call};
    add(std::move(row));
}

void Bench::add_count(std::string name, double value, std::string unit, std::string note) {
    add({std::move(name), value, std::move(unit), 0, 0, {}, 0, std::move(note)});
}

json::Value machine_description() {
#if defined(__clang__)
    const std::string compiler = "clang " __clang_version__;
#else
    const std::string compiler = "GCC " __VERSION__;
#endif
#ifdef QUERN_TEST_FAULTS
    const bool test_faults = true;
#else
    const bool test_faults = false;
#endif
    return json::Value::object({{"processor", first_line_with("/proc/cpuinfo", "model name")},
                                {"hardware_threads", std::thread::hardware_concurrency()},
                                {"memory", first_line_with("/proc/meminfo", "MemTotal")},
                                {"load_average", first_line_with("/proc/loadavg", "")},
                                {"compiler", compiler},
                                {"build_type", QUERN_BUILD_TYPE},
                                {"test_faults", test_faults},
                                {"kernels", std::string(vm::tensor::arith::name(vm::tensor::arith::best_backend()))},
                                {"version", QUERN_VERSION}});
}

json::Value to_json(const Row& row) {
    json::Value value = json::Value::object({{"name", row.name}, {"value", row.value}, {"unit", row.unit}});
    if (row.high > 0) value.set("quartiles", json::Value::array({row.low, row.high}));
    if (row.reference)
        value.set("reference", json::Value::object({{"name", row.reference->name}, {"value", row.reference->value}}));
    if (row.ratio > 0) value.set("ratio", row.ratio);
    if (!row.note.empty()) value.set("note", row.note);
    return value;
}

std::string format_table(const std::vector<Row>& rows) {
    std::vector<std::array<std::string, 6>> lines{{"case", "median", "quartiles", "reference", "its median", "ratio"}};
    for (const Row& row : rows) {
        std::array<std::string, 6> line{row.name, number(row.value) + " " + row.unit, "", "", "", ""};
        if (row.high > 0) line[2] = number(row.low) + " – " + number(row.high);
        if (row.reference) {
            line[3] = row.reference->name;
            line[4] = number(row.reference->value) + " " + row.unit;
        }
        if (row.ratio > 0) line[5] = number(row.ratio);
        if (!row.note.empty()) line[0] += " (" + row.note + ")";
        lines.push_back(std::move(line));
    }
    std::array<std::size_t, 6> widths{};
    for (const auto& line : lines)
        for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
    std::string text;
    for (std::size_t n = 0; n < lines.size(); ++n) {
        for (std::size_t i = 0; i < lines[n].size(); ++i) {
            const std::string padding(widths[i] - width_of(lines[n][i]), ' ');
            const bool right = i == 1 || i == 4 || i == 5;
            text.append("| ").append(right ? padding + lines[n][i] : lines[n][i] + padding).append(" ");
        }
        text += "|\n";
        if (n != 0) continue;
        for (std::size_t i = 0; i < widths.size(); ++i)
            text.append("|").append(widths[i] + 1, '-').append(i == 1 || i == 4 || i == 5 ? ":" : "-");
        text += "|\n";
    }
    return text;
}

void give_up(const std::string& what) {
    std::fprintf(stderr, "quern-bench: %s\n", what.c_str());
    std::exit(1);
}

}  // namespace quern::bench
