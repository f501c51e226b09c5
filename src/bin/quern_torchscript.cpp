// quern-torchscript: a TorchScript archive on standard input, a network of the ONNX standard on standard output.
// Started by quern-compile and quern-train, in a sandbox (compute/torchscript/sandbox.h) before it looks at the
// archive.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bin/terminal.h"
#include "compute/torchscript/child.h"
#include "quern_version.h"

int main(int argc, char** argv) {
    using namespace quern;
    namespace torchscript = compute::torchscript;
    torchscript::ChildOptions options;
    CLI::App app{
        "quern-torchscript: a TorchScript archive (torch.jit.script or trace, then save) on standard input, a network "
        "of "
        "the\nONNX standard on standard output. quern-compile and quern-train start it for *.pt files; by hand:\n\n"
        "  quern-torchscript --dims 3x32x32 < net.pt | cat > net.onnx\n\n"
        "It reads the archive in a sandbox: no files, no sockets, no processes, bounded memory and time. Exit codes: 0 "
        "done,\n1 failed, with NAME: DETAIL on standard error, 2 wrong options.\n"};
    app.set_version_flag("--version", std::string("quern-torchscript ") + QUERN_VERSION);
    app.add_option("--dims", options.dims, "dims of an example, without the batch's: 3x32x32")->required();
    app.add_flag("--whole", options.is_whole, "the input is whole numbers (else an embedding tells)");
    if (const auto code = parse_command_line(app, "quern-torchscript", argc, argv)) return *code;
    return torchscript::run_child(options);
}
