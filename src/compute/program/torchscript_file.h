// TorchScript archives, as torch.jit.script() or trace() and save() write them. Used by quern-compile and quern-train.
// The archive is read by quern-torchscript (compute/torchscript), a program beside the running one, in a sandbox; what
// it says is read as any ONNX file. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "compute/program/network.h"

namespace quern::compute::program {

inline constexpr std::uint32_t kTorchscriptSeconds = 180;  // by the wall clock

// Whether a file is one, by its name: *.pt, *.pth.
[[nodiscard]] bool is_torchscript_name(std::string_view path);

// What such a file does not say.
struct TorchscriptInput {
    std::vector<std::uint64_t> dims;  // of an example: channels, height, width; features; tokens
    bool is_whole = false;            // tokens; where it is false the network may still say so
};

// Errors, each with the operation's place in the source where there is one: torchscript.no_program (quern-torchscript
// is not there: a build without libtorch), torchscript.no_file, torchscript.bad_dims, torchscript.died (of a signal),
// torchscript.too_slow, torchscript.too_large, torchscript.too_long, torchscript.no_sandbox, torchscript.bad_archive,
// torchscript.runs_code, torchscript.inputs, torchscript.no_output, torchscript.unsupported, torchscript.raises,
// torchscript.failed (any other), zip.*, onnx.*.
[[nodiscard]] Expected<Network> read_torchscript(const std::string& path, const TorchscriptInput& input);
// By that program, in so many seconds.
[[nodiscard]] Expected<Network> read_torchscript(const std::string& path, const TorchscriptInput& input,
                                                 const std::string& program, std::uint32_t seconds);

}  // namespace quern::compute::program
