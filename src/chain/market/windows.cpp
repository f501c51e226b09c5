#include "chain/market/windows.h"

#include <algorithm>

#include "chain/market/custody.h"

namespace quern::chain::market {
namespace {

constexpr std::uint64_t kMargin = 2;                                // of every window over what it is for
constexpr std::uint64_t kProgramBytes = 1U << 23;                   // at most, of each; vm/tensor
constexpr std::uint64_t kSqrtOfTwo = 6'521'908'912'666'391'106ULL;  // floor(sqrt(2) * 2^62)
constexpr unsigned kSqrtBits = 62;

Uint256 seconds(const Uint256& amount, std::uint32_t rate_class) {
    if (rate_class == 0) return 1;
    const Uint256 rate = rate_of_class(rate_class);
    return std::max<Uint256>(1, (Uint256(kMargin) * amount + rate - Uint256(1)) / rate);
}

Status check(const char* name, std::uint64_t given, const Uint256& least) {
    if (Uint256(given) >= least) return {};
    return fail("task.window_too_short", std::string(name) + " of " + std::to_string(given) + " seconds, needs " +
                                             least.to_decimal() + " for the task's classes");
}

}  // namespace

std::uint32_t class_of_rate(std::uint64_t rate) {
    if (rate == 0) return 0;
    const Uint256 square = Uint256(rate) * Uint256(rate);  // 2 log2 x = log2 x^2
    return std::min(square.bit_length() - 1, kMaxClass);
}

std::uint64_t rate_of_class(std::uint32_t rate_class) {
    const std::uint32_t half = rate_class / 2;
    return rate_class % 2 == 0 ? std::uint64_t{1} << half : kSqrtOfTwo >> (kSqrtBits - half);
}

bool has_time_for(std::uint32_t rate_class, const Uint256& work, std::uint64_t seconds) {
    return rate_class == 0 || Uint256(kMargin) * work <= Uint256(rate_of_class(rate_class)) * Uint256(seconds);
}

LeastWindows least_windows(const types::TaskSubmitPayload& spec, const TaskWork& work, const TaskBytes& bytes) {
    const PlannedWork& plan = work.plan;
    const Uint256 fetched = Uint256(sampled_segments(work) + kStatesBeside) * Uint256(bytes.state) +
                            Uint256(bytes.data) + Uint256(bytes.programs) * Uint256(kProgramBytes) +
                            Uint256(kHashBytes) * history_hashes(plan);
    const Uint256 fragments = Uint256(bytes.custodians) * fragment_bytes(bytes.custodians, bytes.state, plan);
    const Uint256 custody =
        seconds(Uint256(1 + std::uint64_t{work.verifiers}) * fetched + fragments, spec.classes.bandwidth);
    const Uint256 commit = seconds(sampled_work(work), spec.classes.speed);
    const Uint256 inputs =
        Uint256(bytes.state) + Uint256(bytes.data - bytes.claimed) + Uint256(bytes.programs) * Uint256(kProgramBytes);
    const Uint256 profile = seconds(Uint256(work.profilers) * inputs, spec.classes.bandwidth) +
                            seconds(profiled_work(work), spec.classes.speed);
    return {std::max(custody, commit), seconds(plan.segment, spec.classes.speed), profile};
}

Status check_windows(const types::TaskSubmitPayload& spec, const TaskWork& work, const TaskBytes& bytes) {
    if (std::max(spec.classes.speed, spec.classes.bandwidth) > kMaxClass)
        return fail("task.bad_class", "at most " + std::to_string(kMaxClass));
    const LeastWindows least = least_windows(spec, work, bytes);
    QUERN_CHECK(check("verify_s", spec.windows.verify_s, least.verify_s));
    if (work.profilers != 0) QUERN_CHECK(check("profiling.window_s", spec.profiling.window_s, least.profile_s));
    return check("heartbeat_s", spec.windows.heartbeat_s, least.heartbeat_s);
}

}  // namespace quern::chain::market
