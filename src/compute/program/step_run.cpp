#include "compute/program/step_run.h"

#include <charconv>
#include <utility>

#include "base/clock.h"
#include "base/ensure.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/machine_memory.h"
#include "compute/program/replay.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"
#include "crypto/hash.h"
#include "vm/tensor/data.h"

namespace quern::compute::program {
namespace {

namespace tensor = vm::tensor;

constexpr std::uint64_t kTellPauseMs = 250;
constexpr std::string_view kRunKey = "quern_run";
constexpr std::string_view kStepKey = "quern_run_step";

std::string identity_of(const StepRun& run, ThreadPool* pool) {
    json::Value programs = json::Value::array();
    for (const tensor::Program& program : run.programs.programs) programs.push(to_hex(tensor::program_root(program)));
    json::Value data = json::Value::array();
    for (const Bytes& set : run.data) data.push(to_hex(crypto::content_id_of(set)));
    json::Value identity = json::Value::object({{"accumulate", std::uint64_t{run.accumulate}},
                                                {"first", to_hex(tensor::state_root(run.first, pool))},
                                                {"beacon", to_hex(run.beacon)},
                                                {"arithmetic", run.arithmetic}});
    identity.set("programs", std::move(programs));
    identity.set("data", std::move(data));
    return to_hex(crypto::sha256(as_bytes(identity.dump())));
}

std::optional<std::uint64_t> number_in(const std::string* text) {
    if (text == nullptr) return std::nullopt;
    std::uint64_t number = 0;
    const char* const end = text->data() + text->size();
    const auto read = std::from_chars(text->data(), end, number);
    return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

class Runner {
public:
    Runner(StepRun run, ThreadPool* pool, Progress& progress, const std::function<void(const Event&)>& tell)
        : run_(std::move(run)),
          program_(run_.programs.any()),
          pool_(pool),
          progress_(progress),
          tell_(tell),
          steps_(run_.steps),
          identity_(identity_of(run_, pool)),
          data_(std::move(run_.data)),
          seed_(tensor::seed_tensor(run_.beacon)),
          state_(std::move(run_.first)) {}

    // Takes the state that an earlier call has left, where there is one.
    Status begin() {
        saved_ms_ = clock_.monotonic_ms();
        if (!fs::exists(run_.out)) return {};
        const auto other = [&](const std::string& why) {
            return fail("run.other_run",
                        run_.out + " is no state of this run (" + why + "): remove it, or choose another --out");
        };
        QUERN_TRY(const Bytes bytes, fs::read_file(run_.out, kMaxStateFileBytes));
        auto file = read_state_file(program_, bytes);
        if (!file) return other(file.error().to_string());
        const std::string* const identity = file->find_metadata(kRunKey);
        const auto step = number_in(file->find_metadata(kStepKey));
        if (identity == nullptr || *identity != identity_ || !step)
            return other("other programs, first state, data, beacon or backend");
        if (*step > steps_)
            return fail("run.beyond",
                        run_.out + " is of step " + std::to_string(*step) + ", asked are " + std::to_string(steps_));
        state_ = std::move(file->state);
        step_ = saved_step_ = *step;
        is_saved_ = true;
        tell_({"resumed", json::Value::object({{"step", step_}}), "goes on from step " + std::to_string(step_)});
        return {};
    }

    Status go_on(const std::atomic<bool>& stop) {
        std::vector<StepFunction> next;
        for (const tensor::Program& program : run_.programs.programs) {
            QUERN_TRY(StepFunction made, run_.stepper(program, data_, seed_));
            next.push_back(std::move(made));
        }
        QUERN_CHECK(save());  // a place that cannot be written is known before hours are spent
        while (step_ < steps_) {
            if (stop) {
                QUERN_CHECK(save());
                return fail(kRunStopped, "at step " + std::to_string(step_) + " of " + std::to_string(steps_) +
                                             "; the same command goes on");
            }
            QUERN_CHECK(next[run_.programs.plan.program_of(step_ + 1)](state_));
            ++step_;
            const std::uint64_t now = clock_.monotonic_ms();
            progress_.take(step_, state_[program_.header.loss_slot].words[0], now);
            if (step_ == steps_ || now >= told_ms_ + kTellPauseMs) {
                told_ms_ = now;
                tell_({"progress", progress_.describe(), progress_.line(), true});
            }
            if (now >= saved_ms_ + run_.save_pause_ms) QUERN_CHECK(save());
        }
        QUERN_CHECK(save());
        const std::string root = to_hex0x(tensor::state_root(state_, pool_));
        tell_({"result", json::Value::object({{"out", run_.out}, {"step", step_}, {"stateRoot", root}}),
               run_.out + " is the state after step " + std::to_string(step_) + "; state root " + root});
        return {};
    }

private:
    Status save() {
        if (is_saved_ && saved_step_ == step_) return {};
        QUERN_TRY(const Bytes bytes,
                  write_state(program_, state_,
                              {{std::string(kRunKey), identity_}, {std::string(kStepKey), std::to_string(step_)}}));
        QUERN_CHECK(fs::write_file_atomic(run_.out, bytes));
        saved_ms_ = clock_.monotonic_ms();
        saved_step_ = step_;
        is_saved_ = true;
        return {};
    }

    StepRun run_;
    const tensor::Program& program_;
    ThreadPool* pool_;
    Progress& progress_;
    const std::function<void(const Event&)>& tell_;
    const std::uint64_t steps_;
    const std::string identity_;
    const tensor::MemoryData data_;
    const tensor::Tensor seed_;
    tensor::State state_;
    SystemClock clock_;
    std::uint64_t step_ = 0;
    std::uint64_t saved_step_ = 0;
    bool is_saved_ = false;
    std::uint64_t saved_ms_ = 0;
    std::uint64_t told_ms_ = 0;
};

}  // namespace

Status run_steps(StepRun run, ThreadPool* pool, Progress& progress, const std::atomic<bool>& stop,
                 const std::function<void(const Event&)>& tell) {
    ensure(run.steps <= run.programs.plan.steps(), "the plan has the steps that are asked for");
    QUERN_CHECK(tensor::check_state(run.programs.any(), run.first));
    QUERN_CHECK(check_memory(replay_bytes(run.programs)));
    Runner runner(std::move(run), pool, progress, tell);
    QUERN_CHECK(runner.begin());
    return runner.go_on(stop);
}

}  // namespace quern::compute::program
