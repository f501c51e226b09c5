#include "compute/client/local.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "compute/client/progress.h"
#include "compute/client/result.h"
#include "compute/program/measured_run.h"
#include "compute/program/state_file.h"
#include "compute/worker/step_runner.h"
#include "compute/worker/task_inputs.h"
#include "crypto/hash.h"
#include "vm/tensor/data.h"
#include "wallet/amount.h"

namespace quern::compute::client {
namespace {

namespace tensor = vm::tensor;

constexpr std::uint64_t kSavePauseMs = 1'000;
constexpr std::uint64_t kTellPauseMs = 250;
constexpr std::string_view kSaved = "state-";  // then the step, then kSavedEnd
constexpr std::string_view kSavedEnd = ".safetensors";

bool is_checkpoint(std::string_view name) {
    if (!name.starts_with(kSaved) || !name.ends_with(kSavedEnd) || name.size() <= kSaved.size() + kSavedEnd.size())
        return false;
    name.remove_prefix(kSaved.size());
    name.remove_suffix(kSavedEnd.size());
    return name.find_first_not_of("0123456789") == std::string_view::npos;
}

Hash32 local_id(const chain::types::TaskSubmitPayload& spec, const Hash32& beacon) {
    const Hash32 own = training_id(spec);
    return crypto::sha256({as_bytes("quern-train local"), own.view(), beacon.view()});
}

class LocalTraining {
public:
    LocalTraining(const TrainOptions& options, const Training& training, JobFile& file, const Console& console)
        : options_(options),
          training_(training),
          program_(training.programs.any()),
          file_(file),
          console_(console),
          pool_(options.threads),
          progress_(training.programs.plan.steps()) {}

    Status run(const std::atomic<bool>& stop) {
        QUERN_TRY(const Hash32 beacon, local_beacon(options_));
        QUERN_CHECK(check_local_job(options_, training_.spec, file_));
        id_ = local_id(training_.spec, beacon);
        QUERN_CHECK(begin());
        if (done_) return {};
        QUERN_TRY(const tensor::MemoryData data, read_data(options_, program_));
        const tensor::Tensor seed = tensor::seed_tensor(beacon);
        QUERN_TRY(const Runner run, runner_of(data, seed));
        const std::uint64_t steps = training_.programs.plan.steps();
        const std::uint64_t interval = training_.spec.work.interval;
        for (std::uint64_t step = step_; step < steps;) {
            if (stop) {
                QUERN_CHECK(save());
                return fail(kStopped, "at step " + std::to_string(step_) + " of " + std::to_string(steps) +
                                          "; the same command goes on");
            }
            QUERN_CHECK(run(state_, ++step));
            step_ = step;
            const std::uint64_t now = clock_.monotonic_ms();
            const bool checkpoint = step % interval == 0;
            progress_.take(step, worker::loss_bits(program_, state_), now);
            if (step == steps || checkpoint || now >= told_ms_ + kTellPauseMs) tell(now);
            if (checkpoint && step < steps && now >= saved_ms_ + kSavePauseMs) QUERN_CHECK(save());
        }
        return finish();
    }

private:
    // state := the state after the step.
    using Runner = std::function<Status(tensor::State& state, std::uint64_t step)>;

    Expected<Runner> runner_of(const tensor::DataSource& data, const tensor::Tensor& seed) {
        if (training_.tolerant) return tolerant_runner(data, seed);
        const auto runner = std::make_shared<worker::StepRunner>(training_.programs, data, seed, worker::FaultPlan{},
                                                                 tensor::arith::best_backend(), &pool_, nullptr);
        return [runner](tensor::State& state, std::uint64_t step) -> Status {
            return runner->run(state, step) ? Status() : fault("train.step_failed", std::to_string(step));
        };
    }

    // As a solver whose claims are all accepted: steps by the fastest backend, and a judging step that takes what it
    // came to. Nobody replays it.
    Expected<Runner> tolerant_runner(const tensor::DataSource& data, const tensor::Tensor& seed) {
        const auto& judged = training_.tolerant->programs;
        QUERN_TRY(const auto backends, backends_of(options_, training_.tolerant->training, data, seed));
        const std::uint64_t interval = training_.spec.work.interval;
        return [&judged, interval, fast = backends.front().step](tensor::State& state, std::uint64_t step) -> Status {
            if (step % interval == 0) {
                const tensor::State own = tolerance::judge::training_state(judged, state);
                QUERN_TRY(state, tolerance::judge::state_after(judged, own, step / interval));
                return {};
            }
            const auto end = state.begin() + static_cast<std::ptrdiff_t>(judged.training_slots);
            tensor::State own(std::make_move_iterator(state.begin()), std::make_move_iterator(end));
            const Status done = fast(own);
            std::move(own.begin(), own.end(), state.begin());
            return done;
        };
    }

    [[nodiscard]] std::string saved_path(std::uint64_t step) const {
        return std::string(file_.folder()).append("/").append(kSaved).append(std::to_string(step)).append(kSavedEnd);
    }

    // From the initial state, or from where the job file says.
    Status begin() {
        saved_ms_ = clock_.monotonic_ms();
        state_ = training_.initial;
        if (!file_.job()) return {};
        const Job& job = *file_.job();
        step_ = job.step;
        if (job.stage == stage::kDone) return tell_done(job);
        const std::string path = saved_path(step_);
        QUERN_TRY(const Bytes bytes, fs::read_file(path, program::kMaxStateFileBytes));
        QUERN_TRY(state_, program::read_state(program_, bytes));
        if (tensor::state_root(state_, &pool_) != job.state_root || step_ > training_.programs.plan.steps())
            return fail("train.bad_job", path + " is not the state that was saved");
        console_.tell(
            {"resumed", json::Value::object({{"step", step_}}), "goes on from step " + std::to_string(step_)});
        return {};
    }

    Status tell_done(const Job& job) {
        QUERN_TRY(const Kept kept, keep_result(options_, training_, job.state_root, file_.folder(), &pool_));
        if (kept == Kept::nothing)
            return fail("train.bad_job", state_path(file_.folder()) +
                                             " is not the state that was trained: to train anew remove " +
                                             file_.path());
        done_ = true;
        tell_result(job.state_root);
        return {};
    }

    // The new file, then the job that names it, then the old one's end: whatever interrupts, the job names a whole
    // file.
    Status save() {
        const std::uint64_t before = file_.job() ? file_.job()->step : 0;
        if (file_.job() && before == step_) return {};
        QUERN_TRY(const Bytes bytes, program::write_state(program_, state_));
        QUERN_CHECK(fs::write_file_atomic(saved_path(step_), bytes));
        QUERN_CHECK(file_.save(job_at(stage::kLocal)));
        saved_ms_ = clock_.monotonic_ms();
        return before == 0 ? Status() : fs::remove_file(saved_path(before));
    }

    // Checkpoints that no job file names: of a run that was killed before it could.
    Status remove_strays() {
        std::error_code problem;
        for (const auto& entry : std::filesystem::directory_iterator(file_.folder(), problem)) {
            const std::string name = entry.path().filename().string();
            if (is_checkpoint(name)) QUERN_CHECK(fs::remove_file(entry.path().string()));
        }
        return {};
    }

    [[nodiscard]] Job job_at(std::string_view stage) {
        Job job;
        job.stage = stage;
        job.training = id_;
        job.step = step_;
        job.state_root = tensor::state_root(state_, &pool_);
        return job;
    }

    Status finish() {
        QUERN_CHECK(write_result(options_, training_, state_, file_.folder()));
        const Job job = job_at(stage::kDone);
        QUERN_CHECK(file_.save(job));
        QUERN_CHECK(remove_strays());
        tell_result(job.state_root);
        return {};
    }

    void tell(std::uint64_t now) {
        told_ms_ = now;
        Event event{"progress", progress_.describe(), progress_.line(), true};
        tell_metrics(program_, state_, event);
        console_.tell(event);
    }
    void tell_result(const Hash32& root) {
        json::Value told = json::Value::object({{"out", options_.out}, {"stateRoot", to_hex0x(root)}, {"local", true}});
        if (training_.onnx) told.set("onnx", options_.export_onnx);
        Event event{"result", std::move(told), options_.out + " is trained; state root " + to_hex0x(root)};
        if (tensor::check_state(program_, state_)) tell_metrics(program_, state_, event);
        console_.tell(event);
    }

    const TrainOptions& options_;
    const Training& training_;
    const tensor::Program& program_;
    JobFile& file_;
    const Console& console_;
    ThreadPool pool_;
    SystemClock clock_;
    Progress progress_;
    Hash32 id_;
    tensor::State state_;
    std::uint64_t step_ = 0;
    std::uint64_t saved_ms_ = 0;
    std::uint64_t told_ms_ = 0;
    bool done_ = false;
};

}  // namespace

Expected<Hash32> local_beacon(const TrainOptions& options) {
    if (!options.beacon.empty()) return wallet::named("--beacon", fixed_from_hex<Hash32::kSize>(options.beacon));
    return program::beacon_of_seed(options.seed);
}

Status check_local_job(const TrainOptions& options, const chain::types::TaskSubmitPayload& spec, const JobFile& file) {
    QUERN_TRY(const Hash32 beacon, local_beacon(options));
    if (!file.job() || file.job()->training == local_id(spec, beacon)) return {};
    return fail("train.other_job", file.path() + " is about another training: remove it, or choose another --out");
}

Status train_here(const TrainOptions& options, const Training& training, JobFile& file, const Console& console,
                  const std::atomic<bool>& stop) {
    return LocalTraining(options, training, file, console).run(stop);
}

}  // namespace quern::compute::client
