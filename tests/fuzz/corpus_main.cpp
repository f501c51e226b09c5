// test_fuzz_corpus: every target over its committed corpus and deterministic mutations of it, in any build.
//   test_fuzz_corpus [--mutations N] [--corpus DIR] [TARGET...]     prints "N passed, N failed"; one test per target
//   test_fuzz_corpus --generate DIR                                 writes the corpora anew
//   test_fuzz_corpus --list
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/fs.h"
#include "base/rng.h"
#include "fuzz/target.h"

namespace {

using namespace quern;
using fuzz::Seed;
using fuzz::Target;

constexpr std::size_t kDefaultMutations = 2'000;
constexpr std::size_t kMaxShownViolations = 5;

std::uint64_t text_seed(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
    return hash;
}

// One to four changes of the kinds that break decoders: bits, lengths, pieces lost, doubled or from elsewhere.
Bytes mutated(const Seed& seed, const std::vector<Seed>& corpus, Rng& rng, std::size_t max_bytes) {
    static constexpr std::uint8_t kInteresting[] = {0x00, 0x01, 0x7f, 0x80, 0x81, 0xb7, 0xb8, 0xbf,
                                                    0xc0, 0xc1, 0xf7, 0xf8, 0xff, '"',  '{',  '0'};
    Bytes bytes = seed.bytes;
    const std::uint64_t changes = 1 + rng.below(4);
    for (std::uint64_t change = 0; change < changes; ++change) {
        const std::size_t at = rng.below(bytes.size() + 1);
        const std::size_t length = std::min<std::size_t>(1 + rng.below(rng.below(4) == 0 ? 64 : 4), bytes.size() - at);
        const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        switch (rng.below(8)) {
            case 0:
                if (at < bytes.size()) bytes[at] ^= static_cast<std::uint8_t>(1U << rng.below(8));
                break;
            case 1:
                if (at < bytes.size()) bytes[at] = static_cast<std::uint8_t>(rng.u64());
                break;
            case 2:
                if (at < bytes.size()) bytes[at] = kInteresting[rng.below(std::size(kInteresting))];
                break;
            case 3:
                bytes.insert(here, kInteresting[rng.below(std::size(kInteresting))]);
                break;
            case 4:
                bytes.erase(here, here + static_cast<std::ptrdiff_t>(length));
                break;
            case 5: {
                const Bytes piece(here, here + static_cast<std::ptrdiff_t>(length));
                bytes.insert(here, piece.begin(), piece.end());
                break;
            }
            case 6:
                bytes.resize(at);
                break;
            default: {
                const Bytes& other = corpus[rng.below(corpus.size())].bytes;
                const std::size_t from = rng.below(other.size() + 1);
                const std::size_t count = std::min<std::size_t>(other.size() - from, 1 + rng.below(64));
                for (std::size_t i = 0; i < count && at + i < bytes.size(); ++i) bytes[at + i] = other[from + i];
                break;
            }
        }
    }
    if (bytes.size() > max_bytes) bytes.resize(max_bytes);
    return bytes;
}

std::vector<Seed> load_corpus(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    std::vector<Seed> corpus;
    for (const std::string& name : names)
        if (auto bytes = fs::read_file(folder + "/" + name, 1U << 20)) corpus.push_back({name, std::move(*bytes)});
    return corpus;
}

// A violation shows how to get the input again.
bool run_one(const Target& target, BytesView input, const std::string& what, std::size_t& violations) {
    try {
        return target.run(input);
    } catch (const fuzz::Violation&) {
        if (++violations <= kMaxShownViolations)
            std::fprintf(stderr, "%s, %s: %s\n", std::string(target.name).c_str(), what.c_str(),
                         to_hex(input.first(std::min<std::size_t>(input.size(), 2'000))).c_str());
        return false;
    }
}

// Names of the seeds that the target takes as its code makes them now.
std::set<std::string> taken_seeds(const Target& target) {
    std::set<std::string> names;
    for (const Seed& seed : target.seeds())
        if (target.run(seed.bytes)) names.insert(seed.name);
    return names;
}

bool replay(const Target& target, const std::string& folder, std::size_t mutations) {
    mutations /= target.cost;
    const std::string name(target.name);
    const auto corpus = load_corpus(folder + "/" + name);
    std::printf("%s: ", name.c_str());
    std::fflush(stdout);  // names the target where a crash ends the program
    std::size_t taken = 0;
    std::set<std::string> outdated = taken_seeds(target);
    std::size_t runs = 0;
    std::size_t violations = 0;
    for (const Seed& seed : corpus) {
        if (run_one(target, seed.bytes, seed.name, violations)) {
            ++taken;
            outdated.erase(seed.name);
        }
        SeededRng rng(text_seed(name + "/" + seed.name));
        for (std::size_t i = 0; i < mutations; ++i, ++runs)
            (void)run_one(target, mutated(seed, corpus, rng, target.max_bytes),
                          "mutation " + std::to_string(i) + " of " + seed.name, violations);
    }
    std::printf("%zu files, %zu taken, %zu mutations, %zu violations%s\n", corpus.size(), taken, runs, violations,
                corpus.empty() ? ": no corpus" : "");
    for (const std::string& name : outdated) std::printf("  %s is out of date or missing: --generate\n", name.c_str());
    return violations == 0 && taken != 0 && outdated.empty();
}

bool generate(const std::string& folder) {
    for (const Target& target : fuzz::all_targets()) {
        const std::string target_folder = folder + "/" + std::string(target.name);
        if (auto status = fs::create_directories(target_folder); !status) {
            std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
            return false;
        }
        for (const Seed& seed : target.seeds()) {
            if (!target.run(seed.bytes))
                std::printf("%s/%s is not taken\n", std::string(target.name).c_str(), seed.name.c_str());
            if (auto status = fs::write_file_atomic(target_folder + "/" + seed.name, seed.bytes); !status) {
                std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
                return false;
            }
        }
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::string folder = QUERN_FUZZ_CORPUS;
    std::size_t mutations = kDefaultMutations;
    std::vector<std::string> names;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const bool has_value = i + 1 < argc;
        if (argument == "--list") {
            for (const Target& target : fuzz::all_targets()) std::printf("%s\n", std::string(target.name).c_str());
            return 0;
        }
        if (argument == "--generate" && has_value) return generate(argv[i + 1]) ? 0 : 1;
        if (argument == "--mutations" && has_value) {
            mutations = std::strtoul(argv[++i], nullptr, 10);
        } else if (argument == "--corpus" && has_value) {
            folder = argv[++i];
        } else if (fuzz::find_target(argument) != nullptr) {
            names.push_back(argument);
        } else {
            std::fprintf(stderr,
                         "usage: test_fuzz_corpus [--mutations N] [--corpus DIR] [--generate DIR] [--list] "
                         "[TARGET...]\n");
            return 2;
        }
    }
    int passed = 0;
    int failed = 0;
    for (const Target& target : fuzz::all_targets()) {
        if (!names.empty() && std::find(names.begin(), names.end(), target.name) == names.end()) continue;
        ++(replay(target, folder, mutations) ? passed : failed);
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
