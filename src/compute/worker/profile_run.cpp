#include "compute/worker/profile_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compute/worker/task_time.h"
#include "compute/worker/tolerant_steps.h"

namespace quern::compute::worker {
namespace {

// Steps of the training, twice, since it is trained otherwise than it is replayed, and of the distance; the state that
// a segment begins with, its replay, its claim, and all three together.
std::uint64_t bytes_of(const vm::tensor::Program& training, const tolerance::distance::SegmentPrograms& segment) {
    return 2 * vm::tensor::step_bytes(training) + vm::tensor::step_bytes(segment.distance) + 3 * state_bytes(training) +
           state_bytes(segment.distance);
}

// The canonical arithmetic is off from itself by nothing: of such words follow limits that nobody who trains fast can
// keep.
tl::unexpected<Error> nothing_fast() {
    return fail("worker.no_fast_steps",
                "limits are how far libtorch is off, and this worker has none for the task (--no-torch, or above why)");
}

}  // namespace

// While a task is profiled nobody runs its steps, replays or games: what the inputs count for them is there.
std::uint64_t profile_room(const TaskInputs& inputs, const vm::tensor::Program& training,
                           const tolerance::distance::SegmentPrograms& segment) {
    const std::uint64_t counted = inputs.memory_bytes - kept_data_bytes(inputs.programs.any().header);
    const std::uint64_t needed = bytes_of(training, segment);
    return needed - std::min(needed, counted);
}

Expected<std::unique_ptr<ProfileRun>> ProfileRun::begin(Context& context, const chain::types::Task& task,
                                                        const Cancellation& cancellation) {
    if (!context.options.fast_steps) return nothing_fast();
    Parts parts;
    QUERN_TRY(parts.inputs, context.inputs.load(*context.node, task, Duty::voluntary));
    QUERN_TRY(const auto judged, judged_task(parts.inputs->programs, task));
    if (context.profile != nullptr) QUERN_CHECK(check_profiling_time(parts.inputs->programs, task, *context.profile));
    parts.k = judged.k;
    QUERN_TRY(auto held, tolerance::judge::held_training(parts.inputs->programs.programs[0]));
    parts.training = std::move(held.training);
    QUERN_TRY(parts.segment, tolerance::distance::build_segment_programs(parts.training, held.loose));
    parts.room = context.inputs.hold(profile_room(*parts.inputs, parts.training, parts.segment), Duty::voluntary);
    if (parts.room == nullptr) return busy("inputs.busy", "other tasks hold the memory");
    QUERN_TRY(const auto start, InputStore::start_of(*context.node, task));
    QUERN_TRY(const auto first, context.inputs.checkpoint(*context.node, judged.programs.training, start,
                                                          context.pool.get(), &cancellation));
    QUERN_CHECK(tolerance::judge::check_first_state(judged.programs, first));
    parts.state = tolerance::judge::training_state(judged.programs, first);
    std::unique_ptr<ProfileRun> run(new ProfileRun(context, task, cancellation, std::move(parts)));
    if (run->fast_ == nullptr) return nothing_fast();
    return run;
}

ProfileRun::ProfileRun(Context& context, const chain::types::Task& task, const Cancellation& cancellation, Parts parts)
    : cancellation_(cancellation),
      parts_(std::move(parts)),
      segments_(task.spec.profiling.segments),
      seed_(vm::tensor::seed_tensor(task.profiling.beacon)),
      data_(parts_.inputs->data),
      fast_(context.options.fast_steps ? context.options.fast_steps(parts_.training) : nullptr),
      meter_(parts_.training, parts_.segment, data_, seed_, context.pool.get(), &cancellation,
             context.options.backend) {
    data_.bind(*context.node, &cancellation);
}

Status ProfileRun::step(vm::tensor::State& state) {
    if (cancellation_.requested()) return busy("worker.stopped");
    return fast_->step(state, data_, seed_);
}

Status ProfileRun::advance() {
    if (done()) return {};
    const std::array profilers{
        tolerance::profile::Profiler{"", [this](vm::tensor::State& state) { return step(state); }}};
    const auto measured = tolerance::profile::profile_segment(meter_, profilers, parts_.state, parts_.k);
    if (measured) {
        measured_.push_back(measured->front());
        return {};
    }
    auto missing = data_.take_missing();
    if (cancellation_.requested()) return busy("worker.stopped");
    if (missing) return fail(std::move(*missing));
    return fail(measured.error());
}

}  // namespace quern::compute::worker
