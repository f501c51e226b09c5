#include "compute/client/training.h"

#include <algorithm>
#include <filesystem>

#include "base/fs.h"
#include "compute/program/initial_state.h"
#include "compute/program/model_file.h"
#include "compute/program/state_file.h"
#include "vm/tensor/data.h"

namespace quern::compute::client {
namespace {

namespace tensor = vm::tensor;
using program::Architecture;

constexpr std::uint64_t kMaxSchedule = 1U << 24;  // updates over which a rate falls

// Before anything is read whole: what the model wants of each file.
Status check_data(const TrainOptions& options, const Architecture& model) {
    if (options.data.empty()) return fail("train.no_data", "--data names the files of the model's data tensors");
    const std::vector<tensor::DataSet> sets = model.all_data();
    if (options.data.size() != sets.size())
        return fail("task.wrong_data_size", std::to_string(options.data.size()) + " data files, " + options.model +
                                                " has " + std::to_string(sets.size()) + " data tensors");
    for (std::size_t i = 0; i < sets.size(); ++i) {
        QUERN_TRY(const std::uint64_t bytes, fs::file_size(options.data[i]));
        const std::uint64_t wanted = tensor::data_bytes(sets[i]);
        if (bytes != wanted)
            return fail("task.wrong_data_size", options.data[i] + " has " + std::to_string(bytes) + " bytes, " +
                                                    options.model + " wants " + std::to_string(wanted) + ": " +
                                                    std::to_string(sets[i].elements) + " elements of " +
                                                    std::string(tensor::name_of(sets[i].type)));
    }
    return {};
}

// Whoever numbers classes from 1, or trains on another network's labels, would pay for a training in which the
// examples of a class that the model does not have are only pushed away from all others.
Status check_classes(const TrainOptions& options, const Architecture& model, const tensor::DataSet& set,
                     const std::string& path) {
    QUERN_TRY(const Bytes targets, fs::read_file(path, tensor::data_bytes(set)));
    std::uint64_t number = 0;
    for (std::uint64_t tile = 0; tile < tensor::data_tiles(set); ++tile) {
        const std::size_t bytes = tensor::data_tile_bytes(set, tile);
        const auto words = tensor::pack_data_tile(BytesView(targets).subspan(tile * vm::tensor::kTileBytes, bytes));
        for (std::uint64_t at = 0; at < bytes / tensor::element_bytes(set.type); ++at, ++number) {
            const std::uint32_t word = tensor::data_word(set.type, words, at);
            if (word >= model.layers().outputs)
                return fail("train.unknown_class", path + ": target " + std::to_string(number) + " is class " +
                                                       std::to_string(static_cast<std::int32_t>(word)) + ", " +
                                                       options.model + " has classes 0 to " +
                                                       std::to_string(model.layers().outputs - 1));
        }
    }
    return {};
}
Status check_classes(const TrainOptions& options, const Architecture& model) {
    if (model.is_transformer() || model.layers().loss != program::LayersSpec::Loss::cross_entropy) return {};
    const std::vector<tensor::DataSet> sets = model.all_data();  // inputs and targets, of both
    for (std::size_t i = 1; i < sets.size(); i += 2)
        QUERN_CHECK(check_classes(options, model, sets[i], options.data[i]));
    return {};
}

// Of a training on this machine: the initial state, the one that steps change, and what steps take.
std::uint64_t local_bytes(const program::TrainingPrograms& built) {
    std::uint64_t bytes = program::state_and_file_bytes(built.programs.front().program);
    for (const program::BuiltProgram& each : built.programs) bytes += tensor::step_bytes(each.program);
    return bytes;
}

// Files that are written beside those of the job's folder, and take their places when all is well; else they go.
class Staged {
public:
    explicit Staged(std::string folder) : folder_(std::move(folder)) {}
    Staged(const Staged&) = delete;
    Staged& operator=(const Staged&) = delete;
    ~Staged() {
        for (const std::string& name : names_) (void)fs::remove_file(path(name));
    }
    // The path until accept(), of a file that is called `name` then.
    Expected<std::string> write(const std::string& name, BytesView bytes, bool passing = false) {
        QUERN_CHECK(fs::write_file_atomic(path(name), bytes));
        names_.push_back(name);
        if (passing) passing_.push_back(name);
        return path(name);
    }
    Status accept() {
        for (const std::string& name : names_) {
            if (std::find(passing_.begin(), passing_.end(), name) != passing_.end()) continue;
            std::error_code problem;
            std::filesystem::rename(path(name), folder_ + "/" + name, problem);
            if (problem) return fail("fs.io_error", path(name) + ": " + problem.message());
        }
        names_ = passing_;
        return fs::sync_directory(folder_);
    }

private:
    [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/new-" + name; }

    std::string folder_;
    std::vector<std::string> names_;
    std::vector<std::string> passing_;  // that take no place
};

constexpr const char* kInitial = "init.safetensors";
std::string program_name(std::size_t i) { return std::string("program-").append(std::to_string(i)).append(".bin"); }

// Makes of the training the two programs of a judged task, its first state and its terms. Limits that are to be
// profiled here, and those of a training of this machine, which nobody judges, are zeros so far.
Expected<Tolerant> make_tolerant(const TrainOptions& options, program::TrainingPrograms& built, std::uint64_t steps,
                                 tensor::State& initial, wallet::SpecOptions& files, Staged& staged,
                                 const std::string& folder, const Console* console, std::uint64_t memory) {
    if (built.programs.size() != 1)
        return fail("train.accumulates",
                    options.model + " accumulates or evaluates: in tolerance mode one program trains");
    QUERN_TRY(Tolerant made, plan_tolerance(options, built.programs.front().program, steps, folder, console));
    QUERN_CHECK(check_memory(program::state_and_file_bytes(made.programs.training), memory));
    QUERN_TRY(initial, tolerance::judge::first_state(made.programs, initial));
    built.programs = {{made.programs.training, {}}, {made.programs.judge, {}}};
    files.body = made.programs.body(made.k, made.segments);
    if (is_profiled_there(options)) {
        files.profiled_segments = static_cast<std::uint32_t>(options.tolerance.profiled);
        files.tolerance = options.tolerance.terms;
    } else {
        files.data.push_back(made.limits);
    }
    if (!made.is_profiled) {
        QUERN_TRY(files.data.back(), staged.write("limits.f32", tolerance::encode_limits({}), true));
    }
    chain::types::WorkTerms& work = files.defaults.work;
    work.mode = chain::types::TaskMode::tolerance;
    work.interval = work.stride = made.k + 1;
    if (work.tranche != 0) work.tranche = made.programs.rows * work.interval;
    return made;
}

// Asks, profiles, and puts the limits into the specification.
Status profile(const TrainOptions& options, Training& training, const Console* console, const std::atomic<bool>* stop,
               const Preparation& asks) {
    Tolerant& task = *training.tolerant;
    const auto before = [&]() -> Status { return asks.before_profiling ? asks.before_profiling(training) : Status(); };
    QUERN_CHECK(make_limits(options, task, tolerance::judge::training_state(task.programs, training.initial), console,
                            stop, before));
    training.files.data.back() = task.limits;
    QUERN_TRY(training.spec, wallet::build_spec(training.files));
    return {};
}

}  // namespace

std::uint64_t default_interval(std::uint64_t steps, std::uint64_t stride) {
    if (steps == 0 || stride == 0 || steps % stride != 0) return steps;
    const std::uint64_t strides = steps / stride;
    std::uint64_t segments = std::min(strides, kDefaultCheckpoints);
    while (strides % segments != 0) --segments;
    return steps / segments;
}

Expected<Training> prepare_training(const TrainOptions& options, const std::string& folder,
                                    const std::atomic<bool>* stop, std::uint64_t memory, const Console* console,
                                    const Preparation& asks) {
    const auto go_on = [&]() -> Status {
        return stop != nullptr && *stop ? fail(kStopped, "while the training was prepared; the same command goes on")
                                        : Status();
    };
    program::FitChoices fit = options.fit;
    fit.total_steps = options.updates <= kMaxSchedule ? static_cast<std::uint32_t>(options.updates) : 0;
    const auto held_out = options.data.end() - static_cast<std::ptrdiff_t>(options.held_out);
    QUERN_TRY(const Architecture model, program::read_model(options.model, {options.data.begin(), held_out}, fit,
                                                            {held_out, options.data.end()}));
    QUERN_CHECK(check_data(options, model));
    QUERN_CHECK(check_classes(options, model));
    QUERN_TRY(std::optional<GivenOnnx> onnx, given_onnx(options, model));
    const std::uint64_t updates = options.updates != 0 ? options.updates : model.optimizer.total_steps;
    if (updates == 0) return fail("train.no_steps", options.model + " has no total_steps: give --steps");
    QUERN_TRY(program::TrainingPrograms built, program::build_training_programs(model));

    QUERN_CHECK(check_memory(
        std::max(program::state_and_file_bytes(built.programs.front().program), options.local ? local_bytes(built) : 0),
        memory));
    QUERN_CHECK(go_on());

    wallet::SpecOptions files = options.terms;
    files.data = options.data;
    files.body = built.body(updates);
    Staged staged(folder);
    tensor::State initial = program::initial_state(built.programs.front(), options.seed, stop);
    QUERN_CHECK(go_on());
    std::optional<Tolerant> tolerant;
    if (options.tolerance.on) {
        QUERN_TRY(tolerant, make_tolerant(options, built, updates, initial, files, staged, folder, console, memory));
    }
    QUERN_TRY(const Bytes first, program::write_first_state(built.programs.front().program, initial));
    QUERN_CHECK(go_on());
    QUERN_TRY(files.init, staged.write(kInitial, first));
    QUERN_CHECK(go_on());
    std::vector<tensor::Program> programs;
    for (program::BuiltProgram& each : built.programs) {
        const Bytes bytes = tensor::encode(each.program);
        if (bytes.size() > tensor::kMaxProgramBytes) return fail("program.too_large", std::to_string(bytes.size()));
        QUERN_TRY(const std::string path, staged.write(program_name(programs.size()), bytes));
        files.programs.push_back(path);
        programs.push_back(std::move(each.program));
    }
    QUERN_TRY(core::TaskPrograms made, core::TaskPrograms::make(std::move(programs), files.body));
    auto& work = files.defaults.work;
    if (work.interval == 0) work.interval = default_interval(made.plan.steps(), work.stride);
    QUERN_TRY(chain::types::TaskSubmitPayload spec, wallet::build_spec(files));
    Training training{std::move(made), std::move(initial),  std::move(files),
                      std::move(spec), std::move(tolerant), std::move(onnx)};
    if (asks.check) QUERN_CHECK(asks.check(training.spec));
    if (training.tolerant && !training.tolerant->is_profiled && !options.local)
        QUERN_CHECK(profile(options, training, console, stop, asks));
    QUERN_CHECK(staged.accept());
    training.files.init = folder + "/" + kInitial;
    for (std::size_t i = 0; i < training.files.programs.size(); ++i)
        training.files.programs[i] = folder + "/" + program_name(i);
    return training;
}

Status write_result(const TrainOptions& options, const Training& training, const tensor::State& state,
                    const std::string& folder) {
    const tensor::Program& program = training.programs.any();
    {
        QUERN_TRY(const Bytes whole, program::write_state(program, state));
        QUERN_CHECK(fs::write_file_atomic(state_path(folder), whole));
    }
    QUERN_TRY(const std::vector<Export> exports, exports_of(options, program, training.onnx, state));
    for (const Export& each : exports) QUERN_CHECK(fs::write_file_atomic(each.path, each.content));
    return {};
}

}  // namespace quern::compute::client
