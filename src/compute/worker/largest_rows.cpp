#include "compute/worker/largest_rows.h"

#include "compute/core/task_spec.h"
#include "compute/tolerance/judge/largest.h"
#include "compute/worker/tolerant_steps.h"

namespace quern::compute::worker {
namespace {

using tolerance::judge::JudgedTask;
using tolerance::judge::RowWalk;

std::string listed(std::span<const std::uint64_t> segments) {
    std::string text;
    for (const std::uint64_t segment : segments) text.append(text.empty() ? "" : ",").append(std::to_string(segment));
    return text;
}

// Of a stretch that begins with `start`, by the claim's data. `roots`: of its history, against which each checkpoint's
// row is held; none: nothing is.
Expected<std::vector<std::uint64_t>> largest_of(const chain::types::TaskClaim& live, const JudgedTask& judged,
                                                vm::tensor::State start, const vm::tensor::DataSource& data,
                                                std::span<const Hash32> roots, const RowsRun& run) {
    const auto& work = live.task.spec.work;
    const std::uint64_t each = work.interval / (judged.k + 1);  // segments of the training in one of the history
    const vm::tensor::Tensor seed = vm::tensor::seed_tensor(live.claim.seed_beacon);
    QUERN_TRY(const auto walk,
              RowWalk::make({judged.programs, judged.k, data, seed, run.backend, run.pool, run.cancellation},
                            std::move(start)));
    std::vector<std::uint32_t> movements(core::segment_count(chain::market::stretch_of(live).steps, work.interval));
    for (std::size_t segment = 0; segment < movements.size(); ++segment) {
        QUERN_TRY(movements[segment], walk->advance(each));
        if (!roots.empty()) QUERN_CHECK(walk->check(roots[(segment + 1) * (work.interval / work.stride)]));
    }
    return tolerance::judge::largest_segments(movements, work.largest);
}

// What could not be read says more than that it could not.
Error why(DataReader& data, const Error& error) {
    if (auto missing = data.take_missing()) return std::move(*missing);
    return error;
}

}  // namespace

Expected<std::vector<std::uint64_t>> own_largest_rows(NodeView& node, InputStore& inputs,
                                                      const chain::types::TaskClaim& live, const StateRef& first,
                                                      const ClaimedRows& rows, const RowsRun& run) {
    QUERN_TRY(const auto loaded, inputs.load(node, live.task));
    QUERN_TRY(const auto judged, judged_task(loaded->programs, live.task));
    QUERN_TRY(auto start, inputs.checkpoint(node, loaded->programs.any(), first, run.pool, run.cancellation));
    DataReader others(loaded->data);
    others.bind(node, run.cancellation);
    const DataWithRows data(others, rows, judged.programs.claimed_data());
    auto largest = largest_of(live, judged, std::move(start), data, {}, run);
    if (!largest) return fail(why(others, largest.error()));
    return largest;
}

Status check_largest_rows(NodeView& node, InputStore& inputs, const chain::types::TaskClaim& live, const RowsRun& run) {
    const auto& [task, claim, reports, custody] = live;
    if (!core::claims_data(task.spec) || task.spec.work.largest == 0) return {};
    QUERN_TRY(const auto loaded, inputs.load(node, task));
    const auto judged = judged_task(loaded->programs, task);
    if (!judged) return {};  // what its rows are only its programs know
    QUERN_TRY(const bool checked, tolerance::judge::is_checked(judged->programs));
    if (!checked) return {};
    QUERN_TRY(const auto manifest, inputs.manifest(node, live));
    const auto& program = loaded->programs.any();
    const StateRef first{manifest->checkpoint_contents.front(), manifest->state_roots.front(), custody_of(live)};
    auto start = inputs.checkpoint(node, program, first, run.pool, run.cancellation);
    if (!start && is_withheld(start.error()))
        start = inputs.first_state(node, live, program, std::move(start), run.pool, run.cancellation);
    if (!start) return fail(start.error());
    QUERN_TRY(auto claimed, inputs.data_of(node, live, *loaded));
    DataReader data(std::move(claimed));
    data.bind(node, run.cancellation);
    const auto largest = largest_of(live, *judged, std::move(*start), data, manifest->state_roots, run);
    if (!largest) return fail(why(data, largest.error()));
    if (*largest != claim.largest)
        return fail("tolerance.wrong_largest", listed(*largest) + " move most, named are " + listed(claim.largest));
    return {};
}

}  // namespace quern::compute::worker
