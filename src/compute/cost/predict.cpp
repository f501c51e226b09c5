#include "compute/cost/predict.h"

#include <algorithm>

namespace quern::compute::cost {

using vm::tensor::PlanMode;
using vm::tensor::Program;

namespace {

double between_threads(const Profile& profile) { return profile.key.setup.threads > 1 ? kBetweenThreads : 1; }

}  // namespace

double seconds_of(const Counts& counts, const Profile& profile) {
    double nanoseconds = 0;
    for (std::size_t i = 0; i < kCounted; ++i) nanoseconds += counts[i] * profile.nanoseconds[i];
    return nanoseconds * 1e-9;
}

StepTime predict_step(const Program& program, const Profile& profile) {
    const auto whole = [&](PlanMode mode) {
        double sum = 0;
        count_step(program, mode, profile.key.setup,
                   [&](std::uint32_t, const Counts& counts) { sum += seconds_of(counts, profile); });
        return sum * between_threads(profile);
    };
    return {whole(PlanMode::step), whole(PlanMode::tapped),
            seconds_of(count_commitment(program, profile.key.setup), profile)};
}

std::vector<double> predict_nodes(const Program& program, const Profile& profile) {
    std::vector<double> nodes(program.nodes.size(), 0);
    count_step(program, PlanMode::step, profile.key.setup, [&](std::uint32_t node, const Counts& counts) {
        nodes[node] += seconds_of(counts, profile) * between_threads(profile);
    });
    return nodes;
}

double training_seconds(const StepTime& time, std::uint64_t steps, std::uint64_t stride) {
    const auto count = static_cast<double>(steps);
    return count * time.step + count / static_cast<double>(std::max<std::uint64_t>(stride, 1)) * time.commit;
}

TaskTime::TaskTime(const core::TaskPrograms& programs, const Profile& profile) : programs_(programs) {
    for (const Program& program : programs.programs) times_.push_back(predict_step(program, profile));
}

double TaskTime::training(std::uint64_t first, std::uint64_t last, std::uint64_t stride) const {
    if (first == 0 || last < first) return 0;
    const std::uint64_t steps = last - first + 1;
    const std::uint64_t counted = times_.size() == 1 ? 1 : std::min(steps, kCountedSteps);
    double sum = 0;
    for (std::uint64_t i = 0; i < counted; ++i) sum += times_[programs_.plan.program_of(first + i)].step;
    return training_seconds({sum / static_cast<double>(counted), 0, times_.front().commit}, steps, stride);
}

double TaskTime::replay(std::uint64_t first, std::uint64_t last, std::uint64_t stride, std::uint64_t probed) const {
    double more = 0;
    for (const StepTime& time : times_) more = std::max(more, time.tapped - time.step);
    return training(first, last, stride) + more * static_cast<double>(probed);
}

}  // namespace quern::compute::cost
