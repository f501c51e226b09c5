#include "compute/tolerance/profile/profile.h"

namespace quern::compute::tolerance::profile {

using vm::tensor::State;

Meter::Meter(const vm::tensor::Program& training, const distance::SegmentPrograms& segment,
             const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed, ThreadPool* pool,
             const Cancellation* cancellation, vm::tensor::arith::Backend backend)
    : segment_(segment),
      data_(data),
      seed_(seed),
      replayer_(training, backend, pool, cancellation),
      measurer_(segment.distance, backend, pool, cancellation) {}

Status Meter::replay(State& state, std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step)
        if (!replayer_.step(state, data_, seed_)) return fail("tolerance.no_replay", "a step");
    return {};
}

Expected<Measured> Meter::measure(const State& previous, const State& replayed, const State& claimed) {
    QUERN_TRY(State state, distance::segment_state(segment_, previous, claimed));
    if (replayed.size() != previous.size())
        return fail("executor.bad_state", "a replay has another number of slots than the training");
    for (std::size_t s = 0; s < replayed.size(); ++s) state[s] = replayed[s];
    QUERN_CHECK(vm::tensor::check_state(segment_.distance, state));
    if (!measurer_.step(state, data_, seed_)) return fail("tolerance.no_replay", "a distance");
    return distance::read_measured(segment_, state);
}

Expected<std::vector<Measured>> profile_segment(Meter& meter, std::span<const Profiler> profilers, State& state,
                                                std::uint64_t k,
                                                const std::function<void(const Profiler&, const Measured&)>& told) {
    State replayed = state;
    QUERN_CHECK(meter.replay(replayed, k));
    std::vector<Measured> all;
    for (const Profiler& profiler : profilers) {
        State claimed = state;
        for (std::uint64_t step = 0; step < k; ++step) QUERN_CHECK(profiler.step(claimed));
        QUERN_TRY(const Measured measured, meter.measure(state, replayed, claimed));
        all.push_back(measured);
        if (told) told(profiler, measured);
    }
    state = std::move(replayed);
    return all;
}

Expected<std::vector<Profile>> profile_segments(Meter& meter, std::span<const Profiler> profilers, State state,
                                                std::uint64_t k, std::uint64_t segments, const Told& told) {
    std::vector<Profile> profiles(profilers.size());
    const std::uint64_t all = segments * profilers.size();
    std::uint64_t done = 0;
    const auto tell = [&](const Profiler& profiler, const Measured& measured) {
        if (told) told(profiler, measured, ++done, all);
    };
    for (std::uint64_t segment = 0; segment < segments; ++segment) {
        QUERN_TRY(const auto measured, profile_segment(meter, profilers, state, k, tell));
        for (std::size_t p = 0; p < profilers.size(); ++p) profiles[p].push_back(measured[p]);
    }
    return profiles;
}

Terms TermNumbers::of(std::uint64_t segments) const {
    const auto word = [](float x) { return __builtin_bit_cast(std::uint32_t, x); };
    const float all = history_cap > 0 ? history_cap : cap * static_cast<float>(segments);
    return {word(cap), word(all), segments, word(range), {word(l2), word(linf), word(moments), word(rest)}};
}

}  // namespace quern::compute::tolerance::profile
