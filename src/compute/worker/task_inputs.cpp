#include "compute/worker/task_inputs.h"

#include "compute/program/state_file.h"

namespace quern::compute::worker {
namespace {

using vm::tensor::Program;
using vm::tensor::State;

constexpr std::size_t kKeptTasks = 8;
constexpr std::size_t kKeptManifests = 8;

}  // namespace

std::uint32_t loss_bits(const Program& program, const State& state) { return state[program.header.loss_slot].words[0]; }

Expected<std::shared_ptr<const TaskInputs>> InputStore::load(const chain::types::Task& task) {
    if (const auto known = inputs_.find(task.id); known != inputs_.end()) return known->second;
    auto inputs = std::make_shared<TaskInputs>();
    QUERN_TRY(const Bytes program_bytes, node_.get_content(task.spec.program_content, vm::tensor::kMaxProgramBytes));
    QUERN_TRY(inputs->program, vm::tensor::decode_program(program_bytes));
    if (vm::tensor::program_root(inputs->program) != task.spec.program_root) return fail("inputs.wrong_program_root");
    if (vm::tensor::encode(inputs->program.header) != task.spec.program_header) return fail("inputs.wrong_header");

    QUERN_TRY(const Bytes data_bytes, node_.get_content(task.spec.data_content, max_bytes_));
    QUERN_TRY(inputs->data, program::read_data_set(data_bytes));
    QUERN_CHECK(vm::tensor::check_data(inputs->program, inputs->data));
    if (vm::tensor::tensor_root(inputs->data) != task.spec.data_root) return fail("inputs.wrong_data_root");

    QUERN_TRY(const Bytes init_bytes, node_.get_content(task.spec.init_content, max_bytes_));
    QUERN_TRY(inputs->initial, program::read_state(inputs->program, init_bytes));
    if (vm::tensor::state_root(inputs->initial) != task.spec.init_root) return fail("inputs.wrong_init_root");

    if (inputs_.size() >= kKeptTasks) inputs_.erase(inputs_.begin());
    std::shared_ptr<const TaskInputs> result = std::move(inputs);
    inputs_[task.id] = result;
    return result;
}

Expected<std::shared_ptr<const core::HistoryManifest>> InputStore::manifest(const chain::types::Task& task) {
    if (const auto known = manifests_.find(task.history_content); known != manifests_.end()) return known->second;
    QUERN_TRY(const Bytes bytes, node_.get_content(task.history_content, core::kMaxManifestBytes));
    QUERN_TRY(core::HistoryManifest manifest, core::decode_manifest(bytes));
    if (manifest.steps() != task.spec.steps || manifest.interval != task.spec.interval ||
        core::history_root(manifest.state_roots) != task.history_root)
        return fail("inputs.wrong_history_root");
    if (manifests_.size() >= kKeptManifests) manifests_.erase(manifests_.begin());
    auto result = std::make_shared<const core::HistoryManifest>(std::move(manifest));
    manifests_[task.history_content] = result;
    return result;
}

Expected<State> InputStore::checkpoint(const Program& program, const Hash32& content, const Hash32& state_root) {
    QUERN_TRY(const Bytes bytes, node_.get_content(content, max_bytes_));
    QUERN_TRY(State state, program::read_state(program, bytes));
    if (vm::tensor::state_root(state) != state_root) return fail("inputs.wrong_state_root");
    return state;
}

}  // namespace quern::compute::worker
