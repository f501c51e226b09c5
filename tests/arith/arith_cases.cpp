// Random cases of every array kernel: all backends that run here must give the words of the integer-only one, and write
// nothing else. Needs no library, so that it is built for other processors as it is (contrib/check-neon.sh); there the
// digest of all expected words must be the same.
//
//     test_arith_cases [--cases N] [--seed S] [--only CASE]
//
// Case i of a seed is made of the seed and i alone: --only i runs what a failure named. Ends with "digest D" and
// "N passed, N failed", one for each backend beside the integer-only one.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "arith/random_cases.h"
#include "vm/tensor/arith/kernels.h"

namespace quern::vm::tensor::arith {
namespace {

using test::Array;
using test::Case;

constexpr std::uint64_t kDefaultCases = 100'000;
constexpr std::size_t kShownFailures = 10;  // of each backend

struct Compared {
    Backend backend{};
    std::uint64_t failures = 0;
};

int run(std::uint64_t first, std::uint64_t end, std::uint64_t seed) {
    if (const Status fit = check_floating_point_environment(); !fit) {
        std::printf("FAIL %s\n0 passed, 1 failed\n", fit.error().to_string().c_str());
        return 1;
    }
    std::vector<Compared> compared;
    for (const Backend backend : kBackends)
        if (backend != Backend::soft && available(backend)) compared.push_back({backend});
    std::uint64_t digest = seed;
    for (std::uint64_t number = first; number < end; ++number) {
        const Case made = test::case_of(seed, number);
        Array expected = made.output;
        made.call(kernels(Backend::soft), expected);
        for (const std::uint32_t word : expected) digest = test::mix(digest ^ word);
        for (Compared& each : compared) {
            Array found = made.output;
            made.call(kernels(each.backend), found);
            const std::string said = test::difference(made, expected, found);
            if (said.empty() || ++each.failures > kShownFailures) continue;
            std::printf("FAIL seed %" PRIu64 " case %" PRIu64 ", %s: %s: %s\n", seed, number,
                        std::string(name(each.backend)).c_str(), made.what.c_str(), said.c_str());
        }
    }
    std::size_t failed = 0;
    for (const Compared& each : compared) {
        failed += each.failures > 0 ? 1 : 0;
        std::printf("%s: %" PRIu64 " cases of seed %" PRIu64 ", %" PRIu64 " differ\n",
                    std::string(name(each.backend)).c_str(), end - first, seed, each.failures);
    }
    std::printf("digest %016" PRIx64 "\n%zu passed, %zu failed\n", digest, compared.size() - failed, failed);
    return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quern::vm::tensor::arith

int main(int argc, char** argv) {
    std::uint64_t cases = quern::vm::tensor::arith::kDefaultCases;
    std::uint64_t seed = 1;
    std::uint64_t first = 0;
    bool only = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view option = argv[i];
        const std::uint64_t number = std::strtoull(argv[i + 1], nullptr, 10);
        if (option == "--cases") {
            cases = number;
        } else if (option == "--seed") {
            seed = number;
        } else if (option == "--only") {
            first = number, only = true;
        } else {
            std::fprintf(stderr, "test_arith_cases: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    if (argc % 2 == 0) {
        std::fprintf(stderr, "test_arith_cases: %s needs a value\n", argv[argc - 1]);
        return 2;
    }
    return quern::vm::tensor::arith::run(first, only ? first + 1 : cases, seed);
}
