// Fuzz targets: each feeds outside bytes to one decoder (or to one thing that acts on what it decoded) and checks the
// properties that must hold whatever the bytes are. Run by libFuzzer (quern-fuzz, fuzz preset) and, in
// every build, by test_fuzz_corpus over the committed corpora. One thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace quern::fuzz {

struct Seed {
    std::string name;
    Bytes bytes;
};

struct Target {
    std::string_view name;  // also the corpus folder's
    // True when the decoder took the input: a corpus of which nothing is taken is out of date.
    bool (*run)(BytesView input) = nullptr;
    std::vector<Seed> (*seeds)() = nullptr;  // real objects, encoded
    std::size_t max_bytes = 4096;            // of mutated inputs
    // Where one input takes long, of a network that is driven or a process that is started: mutations by so many fewer.
    std::size_t cost = 1;
};

[[nodiscard]] std::span<const Target> all_targets();
[[nodiscard]] const Target* find_target(std::string_view name);

// A property that does not hold. libFuzzer's program ends with it; the replay counts it.
struct Violation {
    std::string what;
};
[[noreturn]] void violated(std::string_view property, const char* file, int line, const std::string& detail = {});

// --- The targets -----------------------------------------------------------------------------------------------------
[[nodiscard]] std::span<const Target> codec_targets();
[[nodiscard]] std::span<const Target> native_targets();
[[nodiscard]] std::span<const Target> text_targets();
[[nodiscard]] std::span<const Target> program_targets();
[[nodiscard]] std::span<const Target> reader_targets();
[[nodiscard]] std::span<const Target> game_targets();
[[nodiscard]] std::span<const Target> consensus_targets();
[[nodiscard]] std::span<const Target> network_targets();
[[nodiscard]] std::span<const Target> transport_targets();
[[nodiscard]] std::span<const Target> session_targets();
[[nodiscard]] std::span<const Target> peer_targets();

}  // namespace quern::fuzz

#define QUERN_PROPERTY(condition)                                                  \
    do {                                                                           \
        if (!(condition)) ::quern::fuzz::violated(#condition, __FILE__, __LINE__); \
    } while (false)
// The Expected must hold a value; its error is shown otherwise.
#define QUERN_ACCEPTED(expected)                                                                                 \
    do {                                                                                                         \
        if (!(expected)) ::quern::fuzz::violated(#expected, __FILE__, __LINE__, (expected).error().to_string()); \
    } while (false)
