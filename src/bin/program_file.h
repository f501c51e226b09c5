// Program and state files as the command line names them. Used by src/bin only.
#pragma once

#include <string>

#include "base/expected.h"
#include "base/fs.h"
#include "compute/program/state_file.h"
#include "vm/tensor/graph.h"

namespace quern {

// Errors: fs.*, and what decoding gives, with the file's name.
[[nodiscard]] inline Expected<vm::tensor::Program> read_program(const std::string& path) {
    QUERN_TRY(const Bytes bytes, fs::read_file(path, vm::tensor::kMaxProgramBytes));
    auto program = vm::tensor::decode_program(bytes);
    if (!program) return detailed(program.error(), path + " is no program of quern-compile: " + program.error().detail);
    return program;
}

// Of that program. Errors: fs.*, and those of read_state(), with the file's name.
[[nodiscard]] inline Expected<vm::tensor::State> read_state_of(const vm::tensor::Program& program,
                                                               const std::string& path) {
    QUERN_TRY(const Bytes file, fs::read_file(path, compute::program::kMaxGivenStateBytes));
    auto state = compute::program::read_state(program, file);
    if (!state) return detailed(state.error(), path + ": " + state.error().detail);
    return state;
}

}  // namespace quern
