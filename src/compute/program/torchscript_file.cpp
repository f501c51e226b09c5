#include "compute/program/torchscript_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/child_process.h"
#include "compute/program/onnx_file.h"

namespace quern::compute::program {
namespace {

constexpr const char* kProgram = "quern-torchscript";
constexpr std::size_t kMaxDetail = 1024;

// What the child may say; it is believed about nothing else.
constexpr std::array<std::string_view, 18> kErrors{
    "torchscript.bad_dims",  "torchscript.no_file",  "torchscript.no_sandbox", "torchscript.bad_archive",
    "torchscript.runs_code", "torchscript.inputs",   "torchscript.no_output",  "torchscript.unsupported",
    "torchscript.raises",    "torchscript.too_long", "torchscript.too_large",  "torchscript.not_written",
    "zip.not_zip",           "zip.too_many",         "zip.too_large",          "zip.bad_name",
    "zip.unsupported",       "torchscript.died"};

tl::unexpected<Error> said(const std::string& complaint) {
    const std::string_view line = std::string_view(complaint).substr(0, complaint.find('\n'));
    const std::size_t colon = line.find(": ");
    const std::string_view name = line.substr(0, colon);
    std::string detail(colon == std::string_view::npos ? std::string_view() : line.substr(colon + 2, kMaxDetail));
    for (char& c : detail)
        if (c < 0x20 || c > 0x7e) c = '?';
    const auto* const known = std::find(kErrors.begin(), kErrors.end(), name);
    if (known != kErrors.end()) return fail(*known, std::move(detail));
    return fail("torchscript.failed", std::string(kProgram) + " ended without a word that is known");
}

}  // namespace

bool is_torchscript_name(std::string_view path) { return path.ends_with(".pt") || path.ends_with(".pth"); }

Expected<Network> read_torchscript(const std::string& path, const TorchscriptInput& input, const std::string& program,
                                   std::uint32_t seconds) {
    if (::access(program.c_str(), X_OK) != 0)
        return fail("torchscript.no_program", program + " is not there: it is built where libtorch is");
    if (input.dims.empty()) return fail("torchscript.bad_dims", "an example without dims");
    std::string dims;
    for (const std::uint64_t each : input.dims) dims.append(dims.empty() ? "" : "x").append(std::to_string(each));
    ChildCommand command;
    command.program = program;
    command.arguments = {"--dims", dims};
    if (input.is_whole) command.arguments.emplace_back("--whole");
    command.environment = {"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "LC_ALL=C"};
    command.input = path;
    command.seconds = seconds;
    command.max_output = kMaxOnnxBytes;
    auto result = run_child_process(command);
    if (!result) return detailed(result.error(), path + ": " + result.error().detail);
    if (result->timed_out) return fail("torchscript.too_slow", std::to_string(seconds) + " seconds");
    if (result->said_too_much) return fail("torchscript.too_large", "what it becomes");
    if (result->signal != 0) return fail("torchscript.died", "of signal " + std::to_string(result->signal));
    if (result->exit_code != 0) return said(result->complaint);
    return read_onnx(result->output);
}

Expected<Network> read_torchscript(const std::string& path, const TorchscriptInput& input) {
    const std::string folder = own_folder();
    return read_torchscript(path, input, folder.empty() ? kProgram : folder + "/" + kProgram, kTorchscriptSeconds);
}

}  // namespace quern::compute::program
