#include "compute/cost/self_benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"
#include "compute/cost/trials.h"

namespace quern::compute::cost {
namespace {

using vm::tensor::arith::Backend;

constexpr double kSampleNs = 600'000;  // of runs one after the other
constexpr std::size_t kPasses = 3;
constexpr std::size_t kSamples = 3;  // of a pass

double now_ns() {
    return static_cast<double>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

template <class Run>
double shortest(const Run& run) {
    run();  // plans, and fills the caches
    double begin = now_ns();
    run();
    const double one = std::max(1.0, now_ns() - begin);
    const auto runs = static_cast<std::size_t>(std::clamp(std::ceil(kSampleNs / one), 1.0, 1e4));
    double shortest = std::numeric_limits<double>::max();
    for (std::size_t sample = 0; sample < kSamples; ++sample) {
        begin = now_ns();
        for (std::size_t i = 0; i < runs; ++i) run();
        shortest = std::min(shortest, (now_ns() - begin) / static_cast<double>(runs));
    }
    return shortest;
}

Counts counts_of(const Trial& trial, const Setup& setup) {
    using vm::tensor::PlanMode;
    if (trial.kind == TrialKind::commit) return count_commitment(trial.program, setup);
    Counts sum{};
    count_step(trial.program, trial.kind == TrialKind::tapped ? PlanMode::tapped : PlanMode::step, setup,
               [&](std::uint32_t, const Counts& counts) {
                   for (std::size_t i = 0; i < kCounted; ++i) sum[i] += counts[i];
               });
    return sum;
}

Expected<double> shortest(const Trial& trial, const Setup& setup, ThreadPool& pool) {
    vm::tensor::State state = trial_state(trial.program);
    if (trial.kind == TrialKind::commit) {
        Hash32 root;
        return shortest([&] { root = vm::tensor::state_root(state, &pool); });
    }
    vm::tensor::Executor executor(trial.program, setup.backend, &pool);
    const vm::tensor::MemoryData data{std::vector<Bytes>(trial.data)};
    const vm::tensor::Tensor seed = vm::tensor::seed_tensor(Hash32{});
    if (trial.kind == TrialKind::step) {
        const double found = shortest([&] { (void)executor.step(state, data, seed); });
        if (executor.device_failure() != nullptr) return tl::unexpected<Error>(*executor.device_failure());
        return found;
    }
    std::uint64_t words = 0;
    const vm::tensor::Tap tap = [&](const vm::tensor::TappedNode& node) { words += node.output.shape().elements(); };
    return shortest([&] { (void)executor.step_tapped(state, data, seed, tap); });
}

}  // namespace

struct SelfBenchmark::Impl {
    explicit Impl(ProfileKey key_in) : key(std::move(key_in)), pool(key.setup.threads) {}

    ProfileKey key;
    ThreadPool pool;
    std::vector<Trial> trials;
    std::vector<double> shortest;
};

SelfBenchmark::SelfBenchmark() = default;
SelfBenchmark::SelfBenchmark(SelfBenchmark&&) noexcept = default;
SelfBenchmark::~SelfBenchmark() = default;

Expected<SelfBenchmark> SelfBenchmark::make(ProfileKey key) {
    SelfBenchmark benchmark;
    benchmark.impl_ = std::make_unique<Impl>(std::move(key));
    QUERN_TRY(benchmark.impl_->trials, make_trials());
    benchmark.impl_->shortest.assign(benchmark.impl_->trials.size(), std::numeric_limits<double>::max());
    return benchmark;
}

Status SelfBenchmark::pass(const Cancellation* cancellation) {
    for (std::size_t i = 0; i < impl_->trials.size(); ++i) {
        if (is_requested(cancellation)) return fail("profile.cancelled", "the measuring was ended");
        QUERN_TRY(const double found, shortest(impl_->trials[i], impl_->key.setup, impl_->pool));
        impl_->shortest[i] = std::min(impl_->shortest[i], found);
    }
    return {};
}

Profile SelfBenchmark::profile() const {
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < impl_->trials.size(); ++i)
        samples.push_back({counts_of(impl_->trials[i], impl_->key.setup), impl_->shortest[i]});
    return fit_profile(impl_->key, samples);
}

Expected<Profile> measure_profile(ProfileKey key, const Cancellation* cancellation) {
    QUERN_TRY(SelfBenchmark benchmark, SelfBenchmark::make(std::move(key)));
    for (std::size_t pass = 0; pass < kPasses; ++pass) QUERN_CHECK(benchmark.pass(cancellation));
    return benchmark.profile();
}

Expected<Profile> load_or_measure(const std::string& path, const ProfileKey& key, const Cancellation* cancellation) {
    QUERN_TRY(std::optional<Profile> saved, load_profile(path, key));
    if (saved) return std::move(*saved);
    auto profile = measure_profile(key, cancellation);
    if (!profile && key.setup.backend == Backend::cuda && profile.error().name.starts_with("cuda.")) {
        log::warning(log::Category::worker, "the card is not measured, but the processor reason={}",
                     profile.error().to_string());
        const ProfileKey processors = profile_key(vm::tensor::arith::best_backend(), key.setup.threads, key.version);
        return load_or_measure(path, processors, cancellation);
    }
    if (profile) (void)save_profile(path, *profile);
    return profile;
}

}  // namespace quern::compute::cost
