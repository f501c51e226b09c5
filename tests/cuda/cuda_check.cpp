// The kernels of vm/tensor/cuda against the processor, bit by bit, and how fast they are. Needs no library but the
// standard one and, for a card, CUDA's runtime: contrib/cuda.sh builds it on a machine that has nothing else.
//
//     quern-cuda-check [--emulated] [--cases N] [--scenarios N] [--seed S] [--threads T] [--only CASE] [--measure]
//
// cases      random calls of the array kernels (tests/arith) against the integer-only backend
// scenarios  random calls of the others against the same bodies on the processor
// --emulated runs the kernels' bodies on the processor, threads in three orders; else on the first card
// --measure  rates of products, hashes and what moves words, as rows for doc/benchmarks.md
// Case i of a seed is made of the seed and i alone. Ends with "N passed, N failed[, N skipped]".
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "arith/random_cases.h"
#include "cuda/adapted_kernels.h"
#include "cuda/kernel_scenarios.h"
#include "cuda/measure.h"
#include "support/emulated_device.h"
#include "vm/tensor/arith/backends.h"

namespace quern::test {
namespace {

namespace cuda = vm::tensor::cuda;
namespace cases = vm::tensor::arith::test;

constexpr std::uint64_t kSessionWords = 1U << 20;
constexpr std::uint64_t kShownFailures = 10;

struct Options {
    bool emulated = false;
    bool measure = false;
    std::uint64_t cases = 100'000;
    std::uint64_t scenarios = 10'000;
    std::uint64_t seed = 1;
    std::uint64_t threads = 1;
    std::uint64_t first = 0;
    bool only = false;
};

std::unique_ptr<cuda::Device> device_of(const Options& options, std::uint64_t number, std::string& why) {
    if (options.emulated) return std::make_unique<EmulatedDevice>(kThreadOrders[number % std::size(kThreadOrders)]);
    return cuda::open_device(why);
}

// check(device, i) for each i below `count`, on all threads; each has a device of its own. What check says is a
// failure.
template <class Check>
bool spread(const Options& options, const char* what, std::uint64_t count, const Check& check) {
    std::atomic<std::uint64_t> next{options.only ? options.first : 0};
    const std::uint64_t end = options.only ? options.first + 1 : count;
    std::atomic<std::uint64_t> failures{0};
    std::atomic<std::uint64_t> done{0};
    const auto work = [&](std::uint64_t thread) {
        std::string why;
        const auto device = device_of(options, thread, why);
        if (device == nullptr) {
            std::printf("FAIL %s: %s\n", what, why.c_str());
            ++failures;
            return;
        }
        check(*device, [&](const auto& each) {
            for (std::uint64_t number = next++; number < end; number = next++) {
                const std::string said = each(number);
                ++done;
                if (said.empty() || ++failures > kShownFailures) continue;
                std::printf("FAIL %s, seed %" PRIu64 " case %" PRIu64 ": %s\n", what, options.seed, number,
                            said.c_str());
            }
        });
    };
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < options.threads; ++t) threads.emplace_back(work, t);
    for (std::thread& thread : threads) thread.join();
    std::printf("%s: %" PRIu64 " of seed %" PRIu64 ", %" PRIu64 " differ\n", what, done.load(), options.seed,
                failures.load());
    return failures == 0 && done > 0;
}

bool check_cases(const Options& options) {
    const vm::tensor::arith::Kernels& judge = *vm::tensor::arith::soft_kernels();
    return spread(options, "array kernels", options.cases, [&](cuda::Device& device, const auto& run) {
        const AdaptedSession session(device, kSessionWords);
        run([&](std::uint64_t number) -> std::string {
            const cases::Case made = cases::case_of(options.seed, number);
            if (made.is_micro_step) return {};
            cases::Array expected = made.output;
            made.call(judge, expected);
            cases::Array found = made.output;
            made.call(adapted_kernels(), found);
            if (session.failure() != nullptr) return made.what + ": " + session.failure();
            const std::string said = cases::difference(made, expected, found);
            return said.empty() ? said : made.what + ": " + said;
        });
    });
}

bool check_scenarios(const Options& options) {
    return spread(options, "other kernels", options.scenarios, [&](cuda::Device& device, const auto& run) {
        EmulatedDevice judge(ThreadOrder::ascending);
        EmulatedDevice turned(ThreadOrder::descending);
        run([&](std::uint64_t number) -> std::string {
            const Scenario scenario = scenario_of(options.seed, number);
            std::string why;
            const auto expected = outcome(scenario, judge, why);
            for (cuda::Device* const other : {&device, static_cast<cuda::Device*>(&turned)}) {
                const auto found = outcome(scenario, *other, why);
                if (found.empty()) return scenario.what + ": " + why;
                for (std::size_t a = 0; a < expected.size(); ++a)
                    for (std::size_t i = 0; i < expected[a].size(); ++i)
                        if (found[a][i] != expected[a][i])
                            return scenario.what + cases::text(": %s, array %zu word %zu: %08x, expected %08x",
                                                               other->name().c_str(), a, i, found[a][i],
                                                               expected[a][i]);
            }
            return {};
        });
    });
}

int run(const Options& options) {
    std::string why;
    const auto device = device_of(options, 0, why);
    if (device == nullptr) {
        std::printf("skipped: %s\n0 passed, 0 failed, 1 skipped\n", why.c_str());
        return 0;
    }
    std::printf("device: %s\n", device->name().c_str());
    unsigned passed = 0;
    unsigned failed = 0;
    const auto count = [&](bool good) { (good ? passed : failed) += 1; };
    if (options.cases != 0) count(check_cases(options));
    if (options.scenarios != 0) count(check_scenarios(options));
    if (options.measure) measure(*device, passed, failed);
    std::printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quern::test

int main(int argc, char** argv) {
    quern::test::Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--emulated") {
            options.emulated = true;
            continue;
        }
        if (option == "--measure") {
            options.measure = true;
            continue;
        }
        std::uint64_t* const value = option == "--cases"       ? &options.cases
                                     : option == "--scenarios" ? &options.scenarios
                                     : option == "--seed"      ? &options.seed
                                     : option == "--threads"   ? &options.threads
                                     : option == "--only"      ? &options.first
                                                               : nullptr;
        if (value == nullptr || i + 1 == argc) {
            std::fprintf(stderr, "quern-cuda-check: %s: unknown, or without its value\n", argv[i]);
            return 2;
        }
        *value = std::strtoull(argv[++i], nullptr, 10);
        options.only = options.only || option == "--only";
    }
    if (options.threads == 0 || options.threads > 256) {
        std::fprintf(stderr, "quern-cuda-check: --threads: 1 to 256\n");
        return 2;
    }
    return quern::test::run(options);
}
