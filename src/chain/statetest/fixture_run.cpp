#include "chain/statetest/fixture_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <regex>

#include "base/fs.h"
#include "base/printable.h"
#include "base/thread_pool.h"

namespace quern::chain::statetest {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxDepth = 64;

struct Kind {
    const char* name;
    Runner run;
};

template <auto run_case>
std::optional<CaseResults> as_one_part(RunContext&, std::string_view file, const json::Value& test) {
    auto result = run_case(file, test);
    if (!result) return std::nullopt;
    return CaseResults{std::move(*result)};
}

// The first that knows a test's shape has it.
constexpr std::array<Kind, 9> kKinds = {{{"state", run_state_test},
                                         {"blockchain", run_blockchain_test},
                                         {"rlp", as_one_part<run_rlp_case>},
                                         {"transaction", as_one_part<run_transaction_case>},
                                         {"trie", as_one_part<run_trie_case>},
                                         {"keystore", as_one_part<run_keystore_case>},
                                         {"hex prefix", as_one_part<run_hex_prefix_case>},
                                         {"key address", as_one_part<run_key_address_case>},
                                         {"signed transaction", as_one_part<run_signed_transaction_case>}}};
constexpr const char* kUnreadable = "unreadable file";

struct TestReport {
    std::string name;
    const char* kind;
    CaseResults results;
};

struct FileReport {
    std::vector<TestReport> tests;
    bool is_of_other_format = false;
};

// One file after another, on one thread.
class FileRunner {
public:
    FileRunner(const RunOptions& options, const std::optional<std::regex>& names, evm::CodeCache& codes)
        : names_(names),
          only_blockchain_(options.only_blockchain),
          context_{machine_, codes, options.fork, options.verbose, options.trace} {}

    FileReport run(const std::filesystem::path& path) {
        FileReport report;
        const auto text = fs::read_text_file(path.string(), kMaxFileBytes);
        if (!text) return unreadable(text.error());
        const auto file = json::parse(*text, {.max_bytes = kMaxFileBytes, .max_depth = kMaxDepth});
        if (!file && file.error().name == "json.out_of_range") {  // balances as bare numbers: genesis cases
            report.is_of_other_format = true;
            return report;
        }
        if (!file) return unreadable(file.error());
        const std::string name = path.filename().string();
        bool is_known = false;
        for (const auto& member : file->members()) is_known |= run_test(name, member.key, member.value, report);
        for (std::size_t i = 0; i < file->items().size(); ++i)
            is_known |= run_test(name, std::to_string(i), file->items()[i], report);
        report.is_of_other_format = !is_known;
        return report;
    }

private:
    static FileReport unreadable(const Error& error) {
        FileReport report;
        report.tests.push_back({"", kUnreadable, {failed(error.to_string())}});
        return report;
    }

    // False: a test of no kind.
    bool run_test(std::string_view file, const std::string& name, const json::Value& test, FileReport& report) {
        if (names_ && !std::regex_search(name, *names_)) return true;
        for (const Kind& kind : kKinds) {
            if (only_blockchain_ && kind.run != run_blockchain_test) continue;
            auto results = kind.run(context_, file, test);
            if (!results) continue;
            report.tests.push_back({name, kind.name, std::move(*results)});
            return true;
        }
        return false;
    }

    const std::optional<std::regex>& names_;
    const bool only_blockchain_;
    vm::evm::Machine machine_;
    RunContext context_;
};

Status collect(const std::string& path, std::vector<std::filesystem::path>& files) {
    std::error_code error;
    const auto type = std::filesystem::status(path, error).type();
    if (type == std::filesystem::file_type::not_found) return fail("fs.not_found", path);
    if (type != std::filesystem::file_type::directory) {
        files.emplace_back(path);
        return {};
    }
    auto entry = std::filesystem::recursive_directory_iterator(path, error);
    for (; !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error))
        if (entry->path().extension() == ".json" && entry->is_regular_file(error)) files.push_back(entry->path());
    return error ? fault("fs.read_failed", path + ": " + error.message()) : Status();
}

Expected<std::optional<std::regex>> compile(const std::string& pattern) {
    if (pattern.empty()) return std::optional<std::regex>();
    try {
        return std::optional<std::regex>(std::regex(pattern, std::regex::ECMAScript | std::regex::optimize));
    } catch (const std::regex_error& error) {
        return fail("statetest.bad_pattern", pattern + ": " + error.what());
    }
}

class Printer {
public:
    Printer(const RunOptions& options, std::ostream& out) : options_(options), out_(out) {}

    void print(const std::filesystem::path& path, const FileReport& file) {
        if (file.is_of_other_format) ++files_of_other_formats_;
        for (const TestReport& test : file.tests)
            for (const CaseResult& result : test.results) {
                RunCounts& counts = counts_[test.kind];
                ++(result.outcome == Outcome::passed   ? counts.passed
                   : result.outcome == Outcome::failed ? counts.failed
                                                       : counts.skipped);
                if (options_.as_json)
                    print_json(test, result);
                else if (options_.verbose || result.outcome == Outcome::failed)
                    print_line(path, test, result);
            }
    }

    RunCounts finish() {
        RunCounts sum;
        for (const auto& [kind, counts] : counts_) {
            sum.passed += counts.passed;
            sum.failed += counts.failed;
            sum.skipped += counts.skipped;
            if (!options_.as_json)
                out_ << fmt::format("{:<20} {:>6} passed {:>6} failed {:>6} skipped\n", kind, counts.passed,
                                    counts.failed, counts.skipped);
        }
        if (options_.as_json)
            out_ << (is_first_ ? "[]\n" : "\n]\n");
        else if (files_of_other_formats_ != 0)
            out_ << fmt::format("{} files hold cases of formats that are not run here\n", files_of_other_formats_);
        return sum;
    }

private:
    void print_line(const std::filesystem::path& path, const TestReport& test, const CaseResult& result) {
        std::string line = result.outcome == Outcome::passed   ? "PASS"
                           : result.outcome == Outcome::failed ? "FAIL"
                                                               : "SKIP";
        line.append(" ").append(path.string());
        for (const std::string* part : {&test.name, &result.fork, &result.indexes})
            if (!part->empty()) line.append(" ").append(*part);
        if (!result.why.empty()) line.append(": ").append(result.why);
        // Names and values are a file's; the line breaks are ours.
        std::string shown;
        for (std::size_t begin = 0; begin <= line.size();) {
            const std::size_t end = std::min(line.find('\n', begin), line.size());
            shown += printable(std::string_view(line).substr(begin, end - begin)) + "\n";
            begin = end + 1;
        }
        out_ << shown;
    }

    void print_json(const TestReport& test, const CaseResult& result) {
        auto object = json::Value::object({{"name", test.name}, {"pass", result.outcome == Outcome::passed}});
        if (result.state_root) object.set("stateRoot", to_hex0x(*result.state_root));
        if (!result.fork.empty()) object.set("fork", result.fork);
        if (!result.indexes.empty()) object.set("indexes", result.indexes);
        if (result.outcome == Outcome::skipped) object.set("skipped", true);
        if (!result.why.empty()) object.set("error", result.why);
        out_ << (is_first_ ? "[\n  " : ",\n  ") << object.dump();
        is_first_ = false;
    }

    const RunOptions& options_;
    std::ostream& out_;
    std::map<std::string, RunCounts> counts_;
    std::size_t files_of_other_formats_ = 0;
    bool is_first_ = true;
};

}  // namespace

Expected<RunCounts> run_fixtures(std::span<const std::string> paths, const RunOptions& options, std::ostream& out) {
    QUERN_TRY(const auto names, compile(options.name_pattern));
    std::vector<std::filesystem::path> files;
    for (const std::string& path : paths) QUERN_CHECK(collect(path, files));
    if (files.empty()) return fail("statetest.no_fixtures", "no file ends in .json there");
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());

    evm::CodeCache codes;
    ThreadPool pool(options.trace != nullptr ? 1 : options.jobs);
    std::vector<FileReport> reports(files.size());
    // Files differ a thousandfold: each thread takes the next one when it is done.
    std::atomic<std::size_t> next = 0;
    pool.parallel_for(pool.size(), [&](std::size_t) {
        FileRunner runner(options, names, codes);
        for (std::size_t i = next++; i < files.size(); i = next++) reports[i] = runner.run(files[i]);
    });
    Printer printer(options, out);
    for (std::size_t i = 0; i < files.size(); ++i) printer.print(files[i], reports[i]);
    return printer.finish();
}

}  // namespace quern::chain::statetest
