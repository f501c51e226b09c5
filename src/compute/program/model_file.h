// Architecture files and what they name: the network of another tool beside them. Used by quern-compile.
#pragma once

#include <string>

#include "compute/program/architecture.h"

namespace quern::compute::program {

// What `path` describes, with its network read, whose file's name is relative to the architecture's folder. Errors,
// each with the file's name: fs.*, arch.*, arch.outside (a network's file that is not in the folder or below it),
// onnx.*.
[[nodiscard]] Expected<Architecture> read_architecture(const std::string& path);

}  // namespace quern::compute::program
