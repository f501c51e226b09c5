#include "compute/core/task_spec.h"

#include <algorithm>

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
    for (const auto& [name, seconds] : named_windows(spec.windows))
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

// Behind the data tensors whose contents a submission names.
std::vector<Hash32>::const_iterator named_data_end(const TaskSubmitPayload& spec) {
    const bool has_claimed = claims_data(spec) && !spec.data_roots.empty();
    return spec.data_roots.end() - (has_claimed ? 1 : 0);
}

Status check_contents(const TaskSubmitPayload& spec, const TaskPlan& plan) {
    const auto is_zero = [](const Hash32& hash) { return hash.is_zero(); };
    if (spec.init_root.is_zero() || spec.contents.init.is_zero() ||
        spec.data_roots.size() != plan.header().data.size() ||
        std::any_of(spec.data_roots.begin(), named_data_end(spec), is_zero) ||
        spec.contents.programs.size() != plan.programs().size() ||
        std::any_of(spec.contents.programs.begin(), spec.contents.programs.end(), is_zero))
        return fail("task.bad_root", "the initial state, the data and the contents must be named");
    if (claims_data(spec) && (spec.data_roots.empty() || !spec.data_roots.back().is_zero()))
        return fail("task.bad_root", "in tolerance mode claims bring the last data tensor: its root is zero");
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

chain::market::TaskBytes task_bytes(const TaskPlan& plan, std::uint64_t custodians) {
    const auto& header = plan.header();
    std::uint64_t data = 0;
    for (const vm::tensor::DataSet& each : header.data) data += vm::tensor::data_bytes(each);
    return {header.sizes.state_bytes, data, plan.programs().size(), custodians};
}

std::uint64_t task_state_bytes(const chain::types::Task& task) {
    return task.commit_work / vm::tensor::kTileHashWork * vm::tensor::kTileBytes;
}

std::array<std::pair<std::string_view, std::uint64_t>, 6> named_windows(const chain::types::TaskWindows& windows) {
    return {{{"bidS", windows.bid_s},
             {"startS", windows.start_s},
             {"heartbeatS", windows.heartbeat_s},
             {"proveS", windows.prove_s},
             {"verifyS", windows.verify_s},
             {"challengeS", windows.challenge_s}}};
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
    if (spec.money.price_cap.is_zero() || spec.money.price_cap.bit_length() > kMaxPriceBits)
        return fail("task.bad_price", "a price cap below 2^96 grains per work unit, not 0");
    if (spec.money.tax.bit_length() > kMaxPriceBits) return fail("task.bad_price", "a tax below 2^96 grains");
    QUERN_CHECK(check_contents(spec, plan));
    QUERN_CHECK(check_windows(spec));
    QUERN_CHECK(check_uris(spec));
    QUERN_CHECK(check_programs(spec, plan));
    QUERN_CHECK(open_imports(spec, plan.header().slot_count));
    QUERN_CHECK(chain::market::check_windows(
        spec, chain::market::task_work(spec, plan.planned(spec.work.interval, spec.work.stride, spec.work.tranche)),
        task_bytes(plan, custodians)));
    return plan;
}

}  // namespace quern::compute::core
