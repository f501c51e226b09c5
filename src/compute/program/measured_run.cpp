#include "compute/program/measured_run.h"

#include <array>
#include <charconv>
#include <optional>

#include "base/fs.h"
#include "base/json.h"
#include "base/machine_memory.h"
#include "compute/program/initial_state.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::size_t kMaxLogBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxRunBytes = std::size_t{64} << 10;
constexpr std::string_view kMissing = "measure.missing_slot";

std::string text_of(double number) {
    std::array<char, 32> digits{};
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

// The step of a row of the log.
std::optional<std::uint64_t> step_of(std::string_view row) {
    std::uint64_t step = 0;
    const auto [end, problem] = std::from_chars(row.data(), row.data() + row.size(), step);
    if (problem != std::errc() || end == row.data() + row.size() || *end != ',') return std::nullopt;
    return step;
}

json::Value ids_of(const std::vector<Bytes>& sets) {
    json::Value ids = json::Value::array();
    for (const Bytes& set : sets) ids.push(to_hex0x(crypto::content_id_of(set)));
    return ids;
}

Status check_count(const Architecture& architecture, const std::vector<Bytes>& sets, std::string_view files) {
    if (sets.size() == architecture.data.size()) return {};
    return fail("measure.wrong_data", std::to_string(sets.size()) + " " + std::string(files) +
                                          ", the architecture has " + std::to_string(architecture.data.size()) +
                                          " data tensors");
}

// The architecture over these bytes, whatever sizes it names itself.
Expected<Architecture> over(Architecture architecture, const std::vector<Bytes>& sets) {
    QUERN_CHECK(check_count(architecture, sets, "held-out files"));
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const std::uint64_t width = vm::tensor::element_bytes(architecture.data[i].type);
        if (sets[i].size() % width != 0) return fail("measure.wrong_data", "held out: a part of an element");
        architecture.data[i].elements = sets[i].size() / width;
    }
    QUERN_CHECK(check_architecture(architecture));
    return architecture;
}

Status check_sizes(const Architecture& architecture, const std::vector<Bytes>& sets) {
    QUERN_CHECK(check_count(architecture, sets, "files"));
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const std::uint64_t wanted = vm::tensor::data_bytes(architecture.data[i]);
        if (sets[i].size() != wanted)
            return fail("measure.wrong_data", "data tensor " + std::to_string(i) + " has " +
                                                  std::to_string(sets[i].size()) + " bytes, the architecture wants " +
                                                  std::to_string(wanted));
    }
    return {};
}

class Runner {
public:
    Runner(const MeasuredRun& run, Architecture held_out, const BuiltProgram& built, ThreadPool* pool)
        : run_(run),
          held_out_(std::move(held_out)),
          built_(built),
          program_(built.program),
          pool_(pool),
          data_(run.data),
          held_out_data_(run.held_out),
          seed_(vm::tensor::seed_tensor(beacon_of_seed(run.seed))) {}

    Status begin() {
        QUERN_CHECK(fs::create_directories(run_.folder));
        QUERN_TRY(lock_, fs::LockFile::acquire(path("lock")));
        QUERN_TRY(step_slot_, slot_index(program_, "step", kMissing));
        QUERN_CHECK(check_memory(state_and_file_bytes(program_) + vm::tensor::step_bytes(program_)));
        QUERN_CHECK(check_identity());
        if (fs::exists(path("state.safetensors"))) {
            QUERN_TRY(const Bytes file, fs::read_file(path("state.safetensors"), kMaxStateFileBytes));
            QUERN_TRY(state_, read_state(program_, file));
        } else {
            state_ = initial_state(built_, run_.seed);
        }
        return read_log();
    }

    Status go_on(const std::atomic<bool>& stop, const std::function<void(const Measure&)>& tell) {
        QUERN_TRY(const StepFunction next, run_.stepper(program_, data_, seed_));
        while (step() < run_.steps) {
            if (stop) {
                QUERN_CHECK(save());
                return fail("measure.stopped", "at step " + std::to_string(step()) + " of " +
                                                   std::to_string(run_.steps) + "; the same command goes on");
            }
            QUERN_CHECK(next(state_));
            if (step() % run_.interval == 0) QUERN_CHECK(measure(tell));
        }
        return {};
    }

private:
    [[nodiscard]] std::string path(const char* name) const { return run_.folder + "/" + name; }
    [[nodiscard]] std::uint64_t step() const { return state_[step_slot_].words[0]; }

    // Of a folder that has none the identity is written; of another run nothing is.
    Status check_identity() {
        json::Value identity = json::Value::object({{"format", "quern-run-1"},
                                                    {"program", to_hex0x(vm::tensor::program_root(program_))},
                                                    {"arithmetic", run_.arithmetic},
                                                    {"seed", run_.seed},
                                                    {"interval", run_.interval}});
        identity.set("data", ids_of(run_.data));
        identity.set("held_out", ids_of(run_.held_out));
        const std::string text = identity.dump_pretty() + "\n";
        if (!fs::exists(path("run.json"))) return fs::write_file_atomic(path("run.json"), as_bytes(text));
        QUERN_TRY(const std::string there, fs::read_text_file(path("run.json"), kMaxRunBytes));
        if (there == text) return {};
        return fail("measure.other_run",
                    path("run.json") + " is about another run: remove " + run_.folder + ", or choose another --out");
    }

    // The rows up to the state's step: the log is written before the state, so it may have one more.
    Status read_log() {
        log_ = std::string(kMeasureHeader) + "\n";
        const std::uint64_t wanted = step() / run_.interval;
        std::uint64_t rows = 0;
        if (fs::exists(path("log.csv"))) {
            QUERN_TRY(const std::string text, fs::read_text_file(path("log.csv"), kMaxLogBytes));
            if (!text.starts_with(log_)) return fail("measure.bad_log", path("log.csv") + " has another header");
            for (std::size_t at = log_.size(); at < text.size() && rows < wanted;) {
                const std::size_t end = text.find('\n', at);
                const std::string row = text.substr(at, end == std::string::npos ? end : end - at);
                if (end == std::string::npos || step_of(row) != (rows + 1) * run_.interval)
                    return fail("measure.bad_log", path("log.csv") + ": " + row);
                log_ += row + "\n";
                ++rows;
                at = end + 1;
            }
        }
        if (rows == wanted) return {};
        return fail("measure.bad_log", path("log.csv") + " has " + std::to_string(rows) +
                                           " rows, the state is of step " + std::to_string(step()));
    }

    Status measure(const std::function<void(const Measure&)>& tell) {
        Measure found;
        found.step = step();
        found.batch_loss = static_cast<double>(__builtin_bit_cast(float, state_[program_.header.loss_slot].words[0]));
        QUERN_TRY(found.held_out, evaluate(held_out_, program_, state_, held_out_data_, pool_));
        log_ += std::to_string(found.step) + "," + text_of(found.batch_loss) + "," + text_of(found.held_out.loss) +
                "," + (found.held_out.accuracy ? text_of(*found.held_out.accuracy) : std::string()) + "\n";
        QUERN_CHECK(fs::write_file_atomic(path("log.csv"), as_bytes(log_)));
        QUERN_CHECK(save());
        tell(found);
        return {};
    }

    Status save() {
        QUERN_TRY(const Bytes file, write_state(program_, state_));
        return fs::write_file_atomic(path("state.safetensors"), file);
    }

    const MeasuredRun& run_;
    const Architecture held_out_;
    const BuiltProgram& built_;
    const Program& program_;
    ThreadPool* pool_;
    const vm::tensor::MemoryData data_;
    const vm::tensor::MemoryData held_out_data_;
    const Tensor seed_;
    std::optional<fs::LockFile> lock_;
    std::size_t step_slot_ = 0;
    State state_;
    std::string log_;
};

}  // namespace

Status run_measured(const MeasuredRun& run, ThreadPool* pool, const std::atomic<bool>& stop,
                    const std::function<void(const Measure&)>& tell) {
    if (run.architecture.accumulate != 0)
        return fail("measure.accumulates", "the architecture gathers gradients of several batches for an update");
    if (run.interval == 0 || run.steps == 0 || run.steps % run.interval != 0)
        return fail("measure.uneven",
                    std::to_string(run.steps) + " steps, measured each " + std::to_string(run.interval));
    QUERN_CHECK(check_sizes(run.architecture, run.data));
    QUERN_TRY(Architecture held_out, over(run.architecture, run.held_out));
    QUERN_TRY(const BuiltProgram built, build_training_program(run.architecture));
    Runner runner(run, std::move(held_out), built, pool);
    QUERN_CHECK(runner.begin());
    return runner.go_on(stop, tell);
}

}  // namespace quern::compute::program
