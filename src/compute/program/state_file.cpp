#include "compute/program/state_file.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "compute/program/onnx_file.h"

namespace quern::compute::program {

using vm::tensor::Program;
using vm::tensor::Slot;
using vm::tensor::State;
using vm::tensor::Tensor;

namespace {

constexpr std::string_view kStateFormat = "quern-state-1";
constexpr std::string_view kModelPrefix = "model.";

// What is exported with the model, by the names that it has there.
std::vector<TensorView> exported(const Program& program, const State& state) {
    std::vector<TensorView> views;
    for (std::size_t s = 0; s < state.size(); ++s) {
        std::string_view name = program.slots[s].name;
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) == 0) continue;
        if (name.starts_with(kModelPrefix) && name.size() > kModelPrefix.size())
            name.remove_prefix(kModelPrefix.size());
        views.push_back({name, &state[s], true});
    }
    return views;
}

}  // namespace

Expected<Bytes> write_state(const Program& program, const State& state, const Metadata& more) {
    QUERN_CHECK(vm::tensor::check_state(program, state));
    std::vector<TensorView> views;
    for (std::size_t s = 0; s < state.size(); ++s) views.push_back({program.slots[s].name, &state[s], false});
    Metadata metadata{{"format", std::string(kStateFormat)}};
    metadata.insert(metadata.end(), more.begin(), more.end());
    return write_safetensors(views, metadata);
}

bool is_zero(const Tensor& slot) {
    return std::all_of(slot.words.begin(), slot.words.end(), [](std::uint32_t word) { return word == 0; });
}

Expected<Bytes> write_first_state(const Program& program, const State& state) {
    QUERN_CHECK(vm::tensor::check_state(program, state));
    std::vector<TensorView> views;
    for (std::size_t s = 0; s < state.size(); ++s)
        if (!is_zero(state[s])) views.push_back({program.slots[s].name, &state[s], false});
    return write_safetensors(views, {{"format", std::string(kStateFormat)}});
}

Expected<State> read_state(const Program& program, BytesView file, std::uint64_t memory) {
    QUERN_TRY(StateFile read, read_state_file(program, file, memory));
    return std::move(read.state);
}

Expected<StateFile> read_state_file(const Program& program, BytesView file, std::uint64_t memory) {
    QUERN_TRY(Safetensors content, read_safetensors(file));
    const std::string* format = content.find_metadata("format");
    if (format == nullptr || *format != kStateFormat)
        return fail("state_file.not_a_state", "its format is " + (format == nullptr ? "not said" : *format) +
                                                  ", a state's is " + std::string(kStateFormat) +
                                                  "; an exported model has parameters alone");
    std::map<std::string_view, Tensor*> by_name;
    for (NamedTensor& entry : content.tensors) by_name[entry.name] = &entry.tensor;
    QUERN_CHECK(check_memory(file.size() + program.header.sizes.state_bytes, memory));
    State state;
    for (const Slot& slot : program.slots) {
        const auto found = by_name.find(slot.name);
        if (found == by_name.end()) {
            state.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements())});
            continue;
        }
        Tensor& tensor = *found->second;
        if (tensor.dtype != slot.dtype || tensor.shape != slot.shape)
            return fail("state_file.wrong_type",
                        slot.name + " is " + tensor.shape.to_string() + ", not " + slot.shape.to_string());
        state.push_back(std::move(tensor));
        by_name.erase(found);
    }
    if (!by_name.empty()) return fail("state_file.unknown_slot", std::string(by_name.begin()->first));
    QUERN_CHECK(vm::tensor::check_state(program, state));
    return StateFile{std::move(state), std::move(content.metadata)};
}

Expected<Bytes> export_model(const Program& program, const State& state) {
    QUERN_CHECK(vm::tensor::check_state(program, state));
    return write_safetensors(exported(program, state),
                             {{"format", "pt"}, {"quern_program", to_hex(vm::tensor::program_root(program))}});
}

Expected<Bytes> export_onnx(const Program& program, const State& state, BytesView given) {
    QUERN_CHECK(vm::tensor::check_state(program, state));
    std::vector<TrainedWords> trained;
    for (const TensorView& view : exported(program, state)) trained.push_back({view.name, view.tensor->words});
    return replace_initializers(given, trained);
}

}  // namespace quern::compute::program
