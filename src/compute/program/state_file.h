// States and models as safetensors files, and trained words in ONNX files. Used by quern-compile and the workers, which
// put them into the content store. Pure functions; thread-safe.
#pragma once

#include <string>

#include "base/machine_memory.h"
#include "compute/program/safetensors.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {

inline constexpr std::size_t kMaxStateFileBytes = std::size_t{64} << 30;  // that are read back from this machine's disk
inline constexpr std::size_t kMaxGivenStateBytes = std::size_t{8} << 30;  // that a command line names

// Every slot under its name, in slot order, four dims each; metadata {"format": "quern-state-1"}, and `more`.
[[nodiscard]] Expected<Bytes> write_state(const vm::tensor::Program& program, const vm::tensor::State& state,
                                          const Metadata& more = {});
[[nodiscard]] bool is_zero(const vm::tensor::Tensor& slot);  // everywhere
// The file of write_state() without slots that are zero everywhere: of a first state, most of which are moments and
// counters.
[[nodiscard]] Expected<Bytes> write_first_state(const vm::tensor::Program& program, const vm::tensor::State& state);
// Slots of the program with their dtypes and shapes; a slot that the file leaves out is zero. Errors:
// state_file.not_a_state, state_file.unknown_slot, state_file.wrong_type, safetensors.*, memory.too_little (slots that
// are left out may be far larger than the file: nothing is made for them then), and those of check_state().
[[nodiscard]] Expected<vm::tensor::State> read_state(const vm::tensor::Program& program, BytesView file,
                                                     std::uint64_t memory = machine_memory());
// The same, with what else the file says.
struct StateFile {
    vm::tensor::State state;
    Metadata metadata;

    [[nodiscard]] const std::string* find_metadata(std::string_view key) const {
        return program::find_metadata(metadata, key);
    }
};
[[nodiscard]] Expected<StateFile> read_state_file(const vm::tensor::Program& program, BytesView file,
                                                  std::uint64_t memory = machine_memory());
// What a state and its file take together.
[[nodiscard]] inline std::uint64_t state_and_file_bytes(const vm::tensor::Program& program) {
    return 2 * program.header.sizes.state_bytes;
}

// The slots with kSlotParameter without the prefix "model.", matrices with 2 dims and vectors with 1; metadata
// {"format": "pt"} as other software expects, and "quern_program": the program root in hexadecimal.
[[nodiscard]] Expected<Bytes> export_model(const vm::tensor::Program& program, const vm::tensor::State& state);

// Of a program of the network in an ONNX file, `given`: that file with the words of the same slots in the initializers
// of the same names. Errors: those of replace_initializers() and check_state().
[[nodiscard]] Expected<Bytes> export_onnx(const vm::tensor::Program& program, const vm::tensor::State& state,
                                          BytesView given);

}  // namespace quern::compute::program
