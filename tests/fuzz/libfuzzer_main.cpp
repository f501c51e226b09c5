// Entry point of one libFuzzer program; QUERN_FUZZ_TARGET names the target.
#include <cstdio>
#include <cstdlib>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const quern::fuzz::Target* const target = [] {
        const auto* found = quern::fuzz::find_target(QUERN_FUZZ_TARGET);
        if (found == nullptr) {
            std::fprintf(stderr, "no fuzz target %s\n", QUERN_FUZZ_TARGET);
            std::exit(2);
        }
        return found;
    }();
    try {
        (void)target->run({data, size});
    } catch (const quern::fuzz::Violation&) {
        std::abort();
    }
    return 0;
}
