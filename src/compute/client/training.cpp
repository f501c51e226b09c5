#include "compute/client/training.h"

#include <algorithm>

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
    if (options.data.size() != model.data.size())
        return fail("task.wrong_data_size", std::to_string(options.data.size()) + " data files, " + options.model +
                                                " has " + std::to_string(model.data.size()) + " data tensors");
    for (std::size_t i = 0; i < model.data.size(); ++i) {
        QUERN_TRY(const std::uint64_t bytes, fs::file_size(options.data[i]));
        const std::uint64_t wanted = tensor::data_bytes(model.data[i]);
        if (bytes != wanted)
            return fail("task.wrong_data_size", options.data[i] + " has " + std::to_string(bytes) + " bytes, " +
                                                    options.model + " wants " + std::to_string(wanted) + ": " +
                                                    std::to_string(model.data[i].elements) + " elements of " +
                                                    std::string(tensor::name_of(model.data[i].type)));
    }
    return {};
}

// Whoever numbers classes from 1, or trains on another network's labels, would pay for a training in which the
// examples of a class that the model does not have are only pushed away from all others.
Status check_classes(const TrainOptions& options, const Architecture& model) {
    if (model.is_transformer() || model.layers().loss != program::LayersSpec::Loss::cross_entropy) return {};
    const tensor::DataSet& set = model.data.back();
    const std::string& path = options.data.back();
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

// Of a training on this machine: the initial state, the one that steps change, and what steps take.
std::uint64_t local_bytes(const program::TrainingPrograms& built) {
    std::uint64_t bytes = program::state_and_file_bytes(built.programs.front().program);
    for (const program::BuiltProgram& each : built.programs) bytes += tensor::step_bytes(each.program);
    return bytes;
}

// Makes of the training the two programs of a judged task, its first state and its terms.
Expected<Tolerant> make_tolerant(const TrainOptions& options, program::TrainingPrograms& built, std::uint64_t steps,
                                 tensor::State& initial, wallet::SpecOptions& files, const std::string& folder,
                                 const Console* console, const std::atomic<bool>* stop, std::uint64_t memory) {
    if (built.programs.size() != 1)
        return fail("train.accumulates", options.model + " accumulates: in tolerance mode one program trains");
    program::BuiltProgram& training = built.programs.front();
    QUERN_TRY(Tolerant made, prepare_tolerance(options, training, initial, steps, folder, console, stop));
    QUERN_CHECK(check_memory(program::state_and_file_bytes(made.programs.training), memory));
    QUERN_TRY(initial, tolerance::judge::first_state(made.programs, initial));
    built.programs = {{made.programs.training, {}}, {made.programs.judge, {}}};
    files.body = made.programs.body(made.k, made.segments);
    files.data.push_back(made.limits);
    chain::types::WorkTerms& work = files.defaults.work;
    work.mode = chain::types::TaskMode::tolerance;
    work.interval = work.stride = made.k + 1;
    if (work.tranche != 0) work.tranche = made.programs.rows * work.interval;
    return made;
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
                                    const std::atomic<bool>* stop, std::uint64_t memory, const Console* console) {
    const auto go_on = [&]() -> Status {
        return stop != nullptr && *stop ? fail(kStopped, "while the training was prepared; the same command goes on")
                                        : Status();
    };
    program::FitChoices fit = options.fit;
    fit.total_steps = options.updates <= kMaxSchedule ? static_cast<std::uint32_t>(options.updates) : 0;
    QUERN_TRY(const Architecture model, program::read_model(options.model, options.data, fit));
    QUERN_CHECK(check_data(options, model));
    QUERN_CHECK(check_classes(options, model));
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
    files.init = folder + "/init.safetensors";
    tensor::State initial = program::initial_state(built.programs.front(), options.seed, stop);
    QUERN_CHECK(go_on());
    std::optional<Tolerant> tolerant;
    if (options.tolerance.on) {
        QUERN_TRY(tolerant, make_tolerant(options, built, updates, initial, files, folder, console, stop, memory));
    }
    QUERN_TRY(const Bytes first, program::write_first_state(built.programs.front().program, initial));
    QUERN_CHECK(go_on());
    QUERN_CHECK(fs::write_file_atomic(files.init, first));
    QUERN_CHECK(go_on());
    std::vector<tensor::Program> programs;
    for (program::BuiltProgram& each : built.programs) {
        const Bytes bytes = tensor::encode(each.program);
        if (bytes.size() > tensor::kMaxProgramBytes) return fail("program.too_large", std::to_string(bytes.size()));
        files.programs.push_back(folder + "/program-" + std::to_string(programs.size()) + ".bin");
        QUERN_CHECK(fs::write_file_atomic(files.programs.back(), bytes));
        programs.push_back(std::move(each.program));
    }
    QUERN_TRY(core::TaskPrograms made, core::TaskPrograms::make(std::move(programs), files.body));
    auto& work = files.defaults.work;
    if (work.interval == 0) work.interval = default_interval(made.plan.steps(), work.stride);
    QUERN_TRY(chain::types::TaskSubmitPayload spec, wallet::build_spec(files));
    return Training{std::move(made), std::move(initial), std::move(files), std::move(spec), std::move(tolerant)};
}

Status write_result(const TrainOptions& options, const tensor::Program& program, const tensor::State& state,
                    const std::string& folder) {
    QUERN_TRY(const Bytes whole, program::write_state(program, state));
    QUERN_CHECK(fs::write_file_atomic(state_path(folder), whole));
    QUERN_TRY(const Bytes model, program::export_model(program, state));
    return fs::write_file_atomic(options.out, model);
}

}  // namespace quern::compute::client
