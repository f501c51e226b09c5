#include "compute/core/task_spec.h"

#include <algorithm>

#include "compute/core/profiling.h"
#include "compute/core/program_opening.h"
#include "compute/core/task_imports.h"
#include "compute/core/verification_report.h"

namespace quern::compute::core {

using chain::types::TaskMode;
using chain::types::TaskPrivacy;
using chain::types::TaskSubmitPayload;

namespace {

Status check_supported(const TaskSubmitPayload& spec) {
    if (spec.work.mode != TaskMode::exact && spec.work.mode != TaskMode::tolerance)
        return fail("task.mode_not_supported", "0 exact, 1 tolerance");
    if (spec.work.privacy != TaskPrivacy::open)
        return fail("task.privacy_not_supported", "this version runs open tasks only");
    if (spec.work.solvers != 1) return fail("task.solvers_not_supported", "this version assigns one solver");
    return {};
}

Status check_windows(const TaskSubmitPayload& spec) {
    for (const auto& [name, seconds] : named_windows(spec))
        if (seconds == 0 || seconds > kMaxWindowSeconds)
            return fail("task.bad_window", std::string(name) + " is " + std::to_string(seconds) +
                                               "; each waiting state lasts 1 to 2^20 seconds");
    return {};
}

Status check_uris(const TaskSubmitPayload& spec) {
    if (spec.contents.uris.size() > kMaxTaskUris) return fail("task.bad_uris", "at most 8");
    for (const std::string& uri : spec.contents.uris) {
        if (uri.empty() || uri.size() > kMaxTaskUriBytes) return fail("task.bad_uris", "1 to 512 bytes each");
        if (std::any_of(uri.begin(), uri.end(), [](char c) { return c <= ' ' || c > '~'; }))
            return fail("task.bad_uris", "printable ASCII without spaces");
    }
    return {};
}

Status check_contents(const TaskSubmitPayload& spec, const TaskPlan& plan) {
    const auto is_zero = [](const Hash32& hash) { return hash.is_zero(); };
    const std::size_t unnamed = unnamed_data(spec);
    if (spec.data_roots.size() < unnamed)
        return fail("task.bad_root", "in tolerance mode the last data tensors are the limits and what claims bring");
    const auto named_end = spec.data_roots.end() - static_cast<std::ptrdiff_t>(unnamed);
    if (spec.init_root.is_zero() || spec.contents.init.is_zero() ||
        spec.data_roots.size() != plan.header().data.size() ||
        std::any_of(spec.data_roots.begin(), named_end, is_zero) ||
        spec.contents.programs.size() != plan.programs().size() ||
        std::any_of(spec.contents.programs.begin(), spec.contents.programs.end(), is_zero))
        return fail("task.bad_root", "the initial state, the data and the contents must be named");
    if (!std::all_of(named_end, spec.data_roots.end(), is_zero))
        return fail("task.bad_root", "roots of the limits that profilers find, and of what claims bring, are zero");
    if (unnamed == 2 &&
        vm::tensor::data_bytes(plan.header().data[spec.data_roots.size() - 2]) != tolerance::kLimitBytes)
        return fail("task.bad_profiling", "the data tensor before the last is not that of seven limits");
    return {};
}

// A step that costs nothing is hashed for nothing: what it leads to is the state before it.
Status check_programs(const TaskSubmitPayload& spec, const TaskPlan& plan) {
    const std::vector<PlanProgram>& programs = plan.programs();
    if (spec.header_paths.size() != programs.size())
        return fail("task.bad_header_path", "one for each program of the plan");
    for (std::size_t i = 0; i < programs.size(); ++i) {
        QUERN_CHECK(check_header_path(programs[i].root, programs[i].header, spec.header_paths[i]));
        if (programs[i].header.work_units == 0) return fail("task.no_work", "a program's steps cost nothing");
    }
    return {};
}

}  // namespace

std::vector<Hash32> data_roots_of(const TaskSubmitPayload& spec, const chain::types::Claim& claim) {
    std::vector<Hash32> roots = spec.data_roots;
    if (claims_data(spec) && !roots.empty()) roots.back() = claim.claimed_content;
    return roots;
}

std::size_t unnamed_data(const TaskSubmitPayload& spec) {
    if (!claims_data(spec)) return 0;
    return is_profiled(spec) ? 2 : 1;
}

chain::market::TaskBytes task_bytes(const TaskPlan& plan, chain::types::TaskMode mode, std::uint64_t custodians) {
    const auto& header = plan.header();
    std::uint64_t data = 0;
    for (const vm::tensor::DataSet& each : header.data) data += vm::tensor::data_bytes(each);
    const bool claims = mode == chain::types::TaskMode::tolerance && !header.data.empty();
    return {header.sizes.state_bytes, data, plan.programs().size(), custodians,
            claims ? vm::tensor::data_bytes(header.data.back()) : 0};
}

std::uint64_t task_state_bytes(const chain::types::Task& task) {
    return task.commit_work / vm::tensor::kTileHashWork * vm::tensor::kTileBytes;
}

std::vector<std::pair<std::string_view, std::uint64_t>> named_windows(const TaskSubmitPayload& spec) {
    const auto& windows = spec.windows;
    std::vector<std::pair<std::string_view, std::uint64_t>> named{
        {"bidS", windows.bid_s},     {"startS", windows.start_s},   {"heartbeatS", windows.heartbeat_s},
        {"proveS", windows.prove_s}, {"verifyS", windows.verify_s}, {"challengeS", windows.challenge_s}};
    if (is_profiled(spec)) named.emplace_back("profiling.windowS", spec.profiling.window_s);
    return named;
}

Expected<TaskPlan> check_task_spec(const TaskSubmitPayload& spec, std::uint64_t custodians) {
    QUERN_CHECK(check_supported(spec));
    QUERN_TRY(TaskPlan plan, TaskPlan::decode(spec.plan));
    if (segment_count(plan.steps(), spec.work.interval) == 0)
        return fail("task.bad_interval", "the steps must be a multiple of the interval");
    if (spec.work.stride > kMaxStride || stride_count(spec.work.interval, spec.work.stride) == 0)
        return fail("task.bad_stride", "the interval must be a multiple of the stride, of 1 to 2^20 steps");
    if (spec.work.tranche > plan.steps() || spec.work.tranche % spec.work.interval != 0)
        return fail("task.bad_tranche", "a multiple of the interval, at most all steps; 0: all");
    if (chain::market::stretch_count(plan.steps(), spec.work.tranche) > kMaxStretches)
        return fail("task.bad_tranche", "at most 2^20 of them");
    if (stride_count(chain::market::tranche_steps(plan.steps(), spec.work.tranche), spec.work.stride) > kMaxStrides)
        return fail("task.bad_steps", "1 to 2^20 strides of steps, in all or in a tranche");
    if (spec.work.verifiers == 0 || spec.work.verifiers > kMaxVerifiers)
        return fail("task.bad_verifiers", "1 to 16 verifiers");
    if (spec.work.samples == 0 || spec.work.samples > kMaxSamples)
        return fail("task.bad_samples", "1 to 1,024 segments each");
    if (spec.work.largest > (claims_data(spec) ? std::min(kMaxLargest, kMaxSamples - spec.work.samples) : 0))
        return fail("task.bad_largest", "in tolerance mode 16 segments at most, with the samples 1,024; else none");
    if (spec.money.price_cap.is_zero() || spec.money.price_cap.bit_length() > kMaxPriceBits)
        return fail("task.bad_price", "a price cap below 2^96 grains per work unit, not 0");
    if (spec.money.tax.bit_length() > kMaxPriceBits) return fail("task.bad_price", "a tax below 2^96 grains");
    QUERN_CHECK(check_contents(spec, plan));
    QUERN_CHECK(check_windows(spec));
    QUERN_CHECK(check_uris(spec));
    QUERN_CHECK(check_programs(spec, plan));
    QUERN_CHECK(open_imports(spec, plan.header().slot_count));
    const auto planned = plan.planned(spec.work.interval, spec.work.stride, spec.work.tranche);
    QUERN_CHECK(check_profiling(spec, planned));
    QUERN_CHECK(chain::market::check_windows(spec, chain::market::task_work(spec, planned),
                                             task_bytes(plan, spec.work.mode, custodians)));
    return plan;
}

}  // namespace quern::compute::core
