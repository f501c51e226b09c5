#include "compute/client/tolerance.h"

#include <array>
#include <cstdio>

#include "base/fs.h"
#include "base/thread_pool.h"
#include "compute/client/training.h"
#include "compute/program/measured_run.h"
#include "crypto/content_file.h"
#include "crypto/hash.h"

namespace quern::compute::client {
namespace {

namespace tensor = vm::tensor;

double number(std::uint32_t word) { return static_cast<double>(__builtin_bit_cast(float, word)); }

std::string short_number(std::uint32_t word) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2g", number(word));
    return text.data();
}

// What limits are of: another training has other ones.
Expected<std::string> limits_path(const TrainOptions& options, const tensor::Program& training, const Tolerant& task,
                                  const std::string& folder) {
    const tolerance::Terms& terms = task.terms;
    std::string about = to_hex0x(tensor::program_root(training));
    const auto add = [&](const std::string& part) { about.append("\n").append(part); };
    for (const std::string& path : options.data) {
        QUERN_TRY(const crypto::ContentShards content, crypto::content_shards_of_file(path));
        add(to_hex0x(content.id()));
    }
    for (const std::string& name : options.tolerance.loose) add(name);
    for (const std::uint64_t each :
         {task.k, task.segments, options.seed, options.tolerance.profiled, std::uint64_t{terms.cap},
          std::uint64_t{terms.history_cap}, std::uint64_t{terms.range}, std::uint64_t{terms.allowance.l2},
          std::uint64_t{terms.allowance.linf}, std::uint64_t{terms.allowance.moments},
          std::uint64_t{terms.allowance.rest}})
        add(std::to_string(each));
    const std::string name = to_hex0x(crypto::sha256(as_bytes(about))).substr(2, 16);
    return folder + "/limits-" + name + ".f32";
}

}  // namespace

Expected<tensor::MemoryData> read_data(const TrainOptions& options, const tensor::Program& program) {
    std::vector<Bytes> sets;
    for (std::size_t i = 0; i < options.data.size(); ++i) {
        QUERN_TRY(Bytes set, fs::read_file(options.data[i], tensor::data_bytes(program.header.data[i])));
        sets.push_back(std::move(set));
    }
    return tensor::MemoryData(std::move(sets));
}

Expected<std::vector<tolerance::profile::Profiler>> backends_of(const TrainOptions& options,
                                                                const tensor::Program& program,
                                                                const tensor::DataSource& data,
                                                                const tensor::Tensor& seed) {
    std::vector<tolerance::profile::Profiler> made;
    if (options.tolerance.backends) {
        QUERN_TRY(made, options.tolerance.backends(program, data, seed, options.threads));
    }
    if (made.empty()) return fail("train.no_backends", "this program has no backend but the canonical one");
    return made;
}

Expected<Tolerant> plan_tolerance(const TrainOptions& options, const tensor::Program& training, std::uint64_t steps,
                                  const std::string& folder, const Console* console) {
    const chain::types::WorkTerms& work = options.terms.defaults.work;
    Tolerant task;
    task.training = training;
    task.k = work.interval != 0 ? work.interval : default_interval(steps, 1);
    if (task.k == 0 || steps % task.k != 0 || work.tranche % task.k != 0)
        return fail("train.uneven", std::to_string(steps) + " steps" +
                                        (work.tranche == 0 ? "" : ", tranches of " + std::to_string(work.tranche)) +
                                        ": not of whole segments of " + std::to_string(task.k));
    task.segments = steps / task.k;
    if (task.segments == 1 && work.interval == 0 && !options.local && console != nullptr)
        console->tell(
            {"oneSegment", json::Value::object({{"steps", steps}}),
             std::to_string(steps) +
                 " steps have no divisor for segments of a good length: one segment of all, "
                 "which each verifier replays whole and for which a solver has one --heartbeat-s; other --steps, "
                 "or --interval, make more"});
    const std::uint64_t rows = work.tranche != 0 ? work.tranche / task.k : task.segments;
    QUERN_TRY(task.programs, tolerance::judge::build_judged_programs(training, rows, options.tolerance.loose));
    if (options.local) return task;
    task.terms = options.tolerance.terms.of(task.segments);
    QUERN_CHECK(tolerance::check_terms(task.terms));
    if (is_profiled_there(options)) {
        task.is_profiled = true;
        return task;
    }
    QUERN_TRY(task.limits, limits_path(options, training, task, folder));
    if (fs::exists(task.limits)) {
        QUERN_TRY(const Bytes kept, fs::read_file(task.limits, tolerance::kLimitBytes));
        task.is_profiled = tolerance::decode_limits(kept).has_value();
    }
    return task;
}

Status make_limits(const TrainOptions& options, Tolerant& task, const tensor::State& initial, const Console* console,
                   const std::atomic<bool>* stop, const std::function<Status()>& before) {
    QUERN_TRY(const tensor::MemoryData data, read_data(options, task.training));
    const tensor::Tensor seed = tensor::seed_tensor(program::beacon_of_seed(options.seed));
    QUERN_TRY(const auto segment, tolerance::distance::build_segment_programs(task.training, options.tolerance.loose));
    ThreadPool pool(options.threads);
    QUERN_TRY(const auto profilers, backends_of(options, task.training, data, seed));
    if (before) QUERN_CHECK(before());
    const Cancellation stopping([stop] { return stop != nullptr && stop->load(); });
    tolerance::profile::Meter meter(task.training, segment, data, seed, &pool, &stopping);
    const auto told = [&](const tolerance::profile::Profiler& profiler, const tolerance::Measured& measured,
                          std::uint64_t done, std::uint64_t all) {
        if (console == nullptr) return;
        console->tell({"profiling", json::Value::object({{"profiler", profiler.name}, {"done", done}, {"all", all}}),
                       "profiling " + std::to_string(done) + " of " + std::to_string(all) + ": " + profiler.name +
                           " is off by " + short_number(measured[tolerance::Measure::l2]),
                       true});
    };
    const auto profiles =
        tolerance::profile::profile_segments(meter, profilers, initial, task.k, options.tolerance.profiled, told);
    if (!profiles && stopping.requested())
        return fail(kStopped, "while the training was profiled; the same command begins with that again");
    if (!profiles) return fail(profiles.error());
    QUERN_TRY(const tolerance::Limits limits, tolerance::derive_limits(*profiles, task.terms));
    QUERN_CHECK(fs::write_file_atomic(task.limits, tolerance::encode_limits(limits)));
    if (console != nullptr)
        console->tell({"limits",
                       json::Value::object({{"file", task.limits},
                                            {"l2", number(limits.l2)},
                                            {"leastMovement", number(limits.least_movement)},
                                            {"mostMovement", number(limits.most_movement)}}),
                       "a segment of " + std::to_string(task.k) + " steps may be off by " + short_number(limits.l2) +
                           " of its movement"});
    task.is_profiled = true;
    return {};
}

}  // namespace quern::compute::client
