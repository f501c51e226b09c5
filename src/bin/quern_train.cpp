// quern-train: from a model and data to a trained model that the chain has verified, in one command; or the same
// training on this machine. The work is done in src/compute/client; this file is the command line and the terminal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "base/http_client.h"
#include "base/log.h"
#include "bin/device_option.h"
#include "bin/out_of_memory.h"
#include "bin/screen.h"
#include "bin/stop_signals.h"
#include "bin/task_options.h"
#include "bin/terminal.h"
#include "bin/tolerance_options.h"
#include "bin/torch_module.h"
#include "bin/transfer_options.h"
#include "compute/client/train.h"
#include "compute/core/verification_report.h"
#include "compute/program/model_file.h"
#include "quern_version.h"

namespace quern {
namespace {

namespace client = compute::client;

constexpr const char* kProgram = "quern-train";
constexpr int kNoNodeAnswers = 3;

struct Options {
    client::TrainOptions train;
    wallet::KeySource key;
    TransferTexts transfer;
    std::string node = "http://127.0.0.1:8545";
    std::string products = kTorchProductNames[0];  // of what is profiled on libtorch
    std::string device = kDefaultDevice;
    bool as_json = false;
    std::vector<std::string> held_out;
};

void declare(CLI::App& app, Options& options) {
    client::TrainOptions& train = options.train;
    app.set_version_flag("--version", std::string("quern-train ") + QUERN_VERSION);
    app.add_option("--model", train.model,
                   "architecture JSON (doc/program-compiler.md), an ONNX file: *.onnx, or a TorchScript archive: *.pt")
        ->required();
    app.add_option("--data", train.data, "files of the model's data tensors, in its order")->required()->take_all();
    app.add_option("--out", train.out, "the trained model to write; OUT.job.json and OUT.job/ keep how far it is")
        ->default_str("model.safetensors");
    train.out = "model.safetensors";
    app.add_option("--export", train.export_onnx,
                   "of a model that came as ONNX: a copy of that file to write, with the trained words in its "
                   "initializers");
    app.add_option("--steps", train.updates, "updates of the optimizer (default: the model's total_steps)");
    app.add_option(
        "--loss", train.fit.loss,
        "of such a file: cross_entropy, mse, binary_cross_entropy or next_token (default: by what it gives)");
    app.add_option("--batch", train.fit.batch, "of such a file: examples in a step")->capture_default_str();
    app.add_option("--lr", train.fit.learning_rate, "of such a file: learning rate of AdamW")->capture_default_str();
    CLI::Option* held_out =
        app.add_option("--held-out", options.held_out,
                       "files as of --data, on which the training evaluates the model: the metric is proved with it");
    held_out->take_all();
    app.add_option("--evaluate-every", train.fit.evaluate_every,
                   "of such a file: updates between evaluations; 0: one, at the end")
        ->needs(held_out)
        ->capture_default_str();
    app.add_option(
        "--recompute", train.fit.recompute,
        "of such a file: parts of which only the ends are kept for the backward pass: less memory, more work");
    app.add_option("--precision", train.fit.precision, "of such a file: linear layers in f32 or int8 (default: f32)");
    app.add_option(
           "--in-f32", train.fit.in_f32,
           "of such a file: nodes whose linear layers are of f32 all the same, or the beginnings of their names "
           "up to a . or /")
        ->take_all();
    app.add_option("--example", train.fit.example,
                   "of TorchScript: dims of an example, 3x32x32, or 64 of tokens (default: by what `quern-compile "
                   "dataset` wrote beside the data)");
    app.add_option("--seed", train.seed, "of the initial state; with --local of the data's order, too")
        ->capture_default_str();
    CLI::Option* budget = app.add_option(
        "--budget", train.budget, "the most that the task may cost, fees included: 5qrn, 0.5 qrn, 20gwei, or grains");
    CLI::Option* local = app.add_flag("--local", train.local, "train on this machine, without chain, key and money");
    local->excludes(budget);
    app.add_option("--beacon", train.beacon, "with --local: the data's order of a task, its seedBeacon")->needs(local);
    app.add_option("--threads", train.threads, "compute threads; 0: one per CPU")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    CLI::Option* tolerance = app.add_flag("--tolerance", train.tolerance.on,
                                          "a task in tolerance mode (doc/tolerance.md): solvers train on what is fast; "
                                          "limits are profiled here first, or "
                                          "by --profilers");
    app.add_option("--loose", train.tolerance.loose, "parameters that are not compared")->needs(tolerance);
    CLI::Option* profilers =
        app.add_option(
               "--profilers", train.terms.profilers,
               "so many verifiers of the network, 3 to 16, find the limits, for a fee each (default: this machine "
               "does)")
            ->needs(tolerance)
            ->excludes(local);
    app.add_option("--profile-window", train.terms.profile_window_s, "seconds that they have for it")
        ->capture_default_str()
        ->needs(profilers);
    app.add_option("--profiled", train.tolerance.profiled,
                   "segments that each backend of this machine, or each of the profilers, 64 at most, is profiled on")
        ->check(CLI::Range(compute::tolerance::kMinProfiled, compute::tolerance::kMaxProfiled))
        ->capture_default_str()
        ->needs(tolerance);
    add_tolerance_terms(app, train.tolerance.terms, tolerance);
    add_products(
        app, options.products,
        "matrix products of what is profiled here: f32, or bf16, as solvers train with --products bf16; with --local "
        "of the training, too")
        ->needs(tolerance)
        ->excludes(profilers);
    add_device_option(app, "--device", options.device)->needs(tolerance);
    app.add_flag("--yes", train.yes, "submit without asking");
    app.add_flag("--json", options.as_json, "print one JSON object a line for each event");
    app.add_option("--node", options.node, "URL of the node's JSON-RPC port")->capture_default_str();
    app.add_option("--rpc-cookie", train.credentials_file,
                   "file with USER:PASSWORD for the node (its <datadir>/.cookie, or of -rpcauth): without it the node "
                   "fetches no contents from others");
    app.add_option("--chain-id", train.chain_id, "submit on this chain alone (default: the node's)");
    app.add_option("--poll-ms", train.poll_ms, "how often it looks at the task")->capture_default_str();
    add_key_options(app, options.key, "--keystore,--key", "--key-seed");
    app.add_option("--price-cap", train.terms.price_cap,
                   "grains per work unit (default: the most for which the budget suffices)");
    app.add_option("--output", train.outputs,
                   "https:// or s3://bucket/key to which the trained model is delivered as well; behind a / at the end "
                   "follows its name; several may be given");
    add_transfer_options(app, train.transfer, options.transfer);
    CLI::Option* uri = app.add_option("--uri", train.terms.uris, kUriHelp);
    app.add_flag("--data-elsewhere", train.data_elsewhere,
                 "upload no data: workers that may find it at --uri (quern-worker --uris)")
        ->needs(uri);
    add_term_options(app, train.terms);
    train.terms.defaults.work.interval = 0;
    for (const char* const name : {"--chain-id", "--price-cap", "--tax", "--stride", "--tranche", "--verifiers",
                                   "--samples", "--largest", "--memory-mib", "--speed", "--bandwidth", "--bid-s",
                                   "--start-s", "--heartbeat-s", "--prove-s", "--verify-s", "--challenge-s"})
        app.get_option(name)->excludes(local);  // they would say nothing
    app.get_option("--largest")
        ->description("segments that move most, which each verifier replays besides (default: 4)")
        ->needs(tolerance);
    app.get_option("--stride")->excludes(tolerance);  // it ends where segments do
    app.get_option("--interval")->description("a checkpoint each so many steps (default: 20 of equal length at most)");
}

Expected<bool> ask(const std::string& question) {
    if (::isatty(STDIN_FILENO) == 0)
        return fail("train.cannot_ask", "standard input is no terminal: --yes submits without asking");
    std::fprintf(stderr, "%s", question.c_str());
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app{
        "quern-train: trains a model on the compute market and brings back the verified result.\n\n"
        "  quern-train --model arch.json --data data.u8 --budget 5qrn --keystore key.json --out model.safetensors\n"
        "  quern-train --model net.onnx --data images.u8 labels.u8 --steps 500 --local --out model.safetensors\n\n"
        "Whatever ends it, the same command goes on where it was and pays nothing twice. Exit codes: 0 done, 1 "
        "failed,\n"
        "2 wrong options, 3 no node answers.\n"};
    declare(app, options);
    if (const auto code = parse_command_line(app, kProgram, argc, argv)) return *code;
    if (options.train.tolerance.on && app.get_option("--largest")->count() == 0)
        options.train.terms.defaults.work.largest = compute::core::kUsualLargest;
    for (const char* name :
         {"--loss", "--batch", "--lr", "--evaluate-every", "--recompute", "--precision", "--in-f32", "--example"})
        if (app.get_option(name)->count() != 0 && !compute::program::is_network_name(options.train.model))
            return complain(kProgram,
                            Error{"train.not_onnx", std::string(name) + ": an architecture file says it itself", {}},
                            kExitUsage);
    options.train.held_out = options.held_out.size();
    options.train.data.insert(options.train.data.end(), options.held_out.begin(), options.held_out.end());
    options.train.tolerance.backends = backends_by_torch({torch_products(options.products), options.device});
    const auto url = http::parse_url(options.node);
    if (!url) return complain(kProgram, url.error(), kExitUsage);
    if (const Status done = take_transfer_options(options.train.transfer, options.transfer); !done)
        return complain(kProgram, done.error(), kExitUsage);
    options.train.node_host = url->host;
    options.train.node_port = url->port;
    log::Options quiet;
    quiet.to_stderr = false;
    if (const Status done = log::configure(quiet); !done) return complain(kProgram, done.error(), kExitUsage);

    stop_on_interrupt();

    Screen screen(options.as_json);
    const client::Console console{[&](const client::Event& event) { screen.tell(event); }, ask};
    const Status status = client::train(
        options.train, [&] { return wallet::open_key(options.key, ask_password); }, console, stop_requested);
    screen.close();
    if (status) return 0;
    const Error& error = status.error();
    screen.tell(error);
    return complain(kProgram, error, error.name == client::kNoNode ? kNoNodeAnswers : kExitFailed);
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
    return quern::with_memory_named(quern::kProgram, [&] { return quern::run(argc, argv); });
}
