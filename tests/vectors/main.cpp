// test_vectors [folder or file...]: runs official vectors and prints, per kind, how many passed. Exit code 0 when none
// failed and some ran, 77 when there is nothing to run on.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/fs.h"
#include "vectors/cases.h"

namespace quern::vectors {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

struct Kind {
    const char* name;
    Runner run;
};
constexpr std::array<Kind, 7> kKinds = {{{"rlp", run_rlp_case},
                                         {"transaction", run_transaction_case},
                                         {"trie", run_trie_case},
                                         {"keystore", run_keystore_case},
                                         {"hex prefix", run_hex_prefix_case},
                                         {"key address", run_key_address_case},
                                         {"signed transaction", run_signed_transaction_case}}};

struct Counts {
    std::size_t passed = 0;
    std::size_t failed = 0;
    std::size_t skipped = 0;
};

class Session {
public:
    void run_file(const std::filesystem::path& path) {
        const auto text = fs::read_text_file(path.string(), kMaxFileBytes);
        if (!text) return fail_file(path, text.error());
        const auto file = json::parse(*text, {.max_bytes = kMaxFileBytes, .max_depth = 64});
        if (!file && file.error().name == "json.out_of_range") {  // balances as bare numbers: genesis cases
            ++files_of_other_formats_;
            return;
        }
        if (!file) return fail_file(path, file.error());
        std::size_t recognised = 0;
        for (const auto& member : file->members()) recognised += run_case(path, member.key, member.value);
        for (std::size_t i = 0; i < file->items().size(); ++i)
            recognised += run_case(path, std::to_string(i), file->items()[i]);
        if (recognised == 0) ++files_of_other_formats_;
    }

    int report() const {
        std::size_t passed = 0;
        std::size_t failed = 0;
        for (const auto& [name, counts] : counts_) {
            fmt::print("{:<20} {:>5} passed {:>5} failed {:>5} skipped\n", name, counts.passed, counts.failed,
                       counts.skipped);
            passed += counts.passed;
            failed += counts.failed;
        }
        if (files_of_other_formats_ != 0)
            fmt::print("{} files hold cases of formats that are not run here\n", files_of_other_formats_);
        fmt::print("{} passed, {} failed\n", passed, failed);
        return failed == 0 && passed != 0 ? 0 : 1;
    }

private:
    void fail_file(const std::filesystem::path& path, const Error& error) {
        fmt::print("FAIL {}: {}\n", path.string(), error.to_string());
        ++counts_["unreadable file"].failed;
    }

    std::size_t run_case(const std::filesystem::path& path, const std::string& name, const json::Value& test) {
        for (const auto& kind : kKinds) {
            const Result result = kind.run(path.filename().string(), test);
            if (result.outcome == Outcome::not_mine) continue;
            Counts& counts = counts_[kind.name];
            if (result.outcome == Outcome::passed) ++counts.passed;
            if (result.outcome == Outcome::skipped) ++counts.skipped;
            if (result.outcome == Outcome::failed) {
                ++counts.failed;
                fmt::print("FAIL {} {}: {}\n", path.string(), name, result.why);
            }
            return 1;
        }
        return 0;
    }

    std::map<std::string, Counts> counts_;
    std::size_t files_of_other_formats_ = 0;
};

int run(const std::vector<std::string>& arguments) {
    std::vector<std::filesystem::path> files;
    for (const auto& argument : arguments) {
        if (!std::filesystem::exists(argument)) {
            fmt::print("test_vectors: {} does not exist\n", argument);
            return 1;
        }
        if (!std::filesystem::is_directory(argument)) {
            files.emplace_back(argument);
            continue;
        }
        for (const auto& entry : std::filesystem::recursive_directory_iterator(argument))
            if (entry.is_regular_file() && entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    Session session;
    for (const auto& file : files) session.run_file(file);
    return session.report();
}

}  // namespace
}  // namespace quern::vectors

int main(int argc, char** argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.empty()) {
        const char* folder = std::getenv("QUERN_VECTORS");
        if (folder == nullptr || *folder == '\0') {
            fmt::print("test_vectors: skipped, no folder given and QUERN_VECTORS is not set\n");
            return 77;
        }
        arguments.emplace_back(folder);
    }
    return quern::vectors::run(arguments);
}
