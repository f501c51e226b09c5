// quern-measure: trains a model on this machine, in the canonical arithmetic or on libtorch, and measures it on
// held-out data as it goes. The work is done in compute/program/measured_run.h and compute/torch; this file is the
// command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/fs.h"
#include "base/json.h"
#include "bin/device_option.h"
#include "bin/out_of_memory.h"
#include "bin/stop_signals.h"
#include "bin/terminal.h"
#include "compute/program/measured_run.h"
#include "compute/program/model_file.h"
#include "quern_version.h"
#ifdef QUERN_WITH_TORCH
#include "compute/torch/torch_executor.h"
#endif

namespace quern {
namespace {

using namespace compute::program;
namespace tensor = vm::tensor;

constexpr const char* kProgram = "quern-measure";
constexpr std::size_t kMaxDataBytes = std::size_t{8} << 30;
constexpr const char* kCanonical = "canonical";
constexpr const char* kTorch = "torch";
constexpr const char* kTorchBf16 = "torch-bf16";

struct Options {
    std::string arch;
    std::vector<std::string> data;
    std::vector<std::string> held_out;
    std::string backend = kCanonical;
    std::size_t threads = 1;
    std::string device = kDefaultDevice;
    MeasuredRun run;
};

void declare(CLI::App& app, Options& options) {
    app.set_version_flag("--version", std::string(kProgram) + " " + QUERN_VERSION);
    app.add_option("--arch", options.arch, "architecture JSON (doc/program-compiler.md)")->required();
    app.add_option("--data", options.data, "files of the model's data tensors, in its order")->required()->take_all();
    app.add_option("--held-out", options.held_out, "the same of what is measured on; of any sizes")
        ->required()
        ->take_all();
    app.add_option("--out", options.run.folder, "folder of the run: log.csv, state.safetensors, run.json")->required();
    app.add_option("--steps", options.run.steps, "updates of the optimizer, all together")->required();
    app.add_option("--interval", options.run.interval, "steps from one measure to the next; divides --steps")
        ->capture_default_str();
    app.add_option("--seed", options.run.seed, "of the initial state and of the data's order")->capture_default_str();
    app.add_option(
           "--backend", options.backend,
           "what does the steps: canonical; torch, where this program was built with it; torch-bf16, whose matrix "
           "products are of mixed precision")
        ->check(CLI::IsMember({kCanonical, kTorch, kTorchBf16}))
        ->capture_default_str();
    app.add_option("--threads", options.threads, "compute threads")->check(CLI::Range(1, 256))->capture_default_str();
    add_device_option(app, "--device", options.device);
}

Expected<std::vector<Bytes>> read_sets(const std::vector<std::string>& paths) {
    std::vector<Bytes> sets;
    for (const std::string& path : paths) {
        QUERN_TRY(Bytes set, fs::read_file(path, kMaxDataBytes));
        sets.push_back(std::move(set));
    }
    return sets;
}

#ifdef QUERN_WITH_TORCH
Status choose_torch(Options& options) {
    namespace torch = compute::torch_backend;
    QUERN_TRY(const torch::Device device, torch::find_device(options.device));
    torch::set_thread_count(static_cast<int>(options.threads));
    const bool on_processor = device == torch::Device::cpu;
    if (const Status blas = torch::check_blas(); on_processor && !blas) complain(kProgram, blas.error());
    const bool mixed = options.backend == kTorchBf16;
    if (mixed && !torch::has_bf16_products(device))
        complain(kProgram, Error{"measure.slow_bf16", "bf16 saves no time on this processor"});
    options.run.arithmetic = "libtorch " + torch::torch_version() +
                             (on_processor ? "" : " on " + std::string(torch::name_of(device))) +
                             (mixed ? ", bf16 products" : "");
    const torch::ExecutorOptions how{mixed ? torch::Products::bf16 : torch::Products::f32, device};
    options.run.stepper = [how](const tensor::Program& program, const tensor::DataSource& data,
                                const tensor::Tensor& seed) {
        const auto executor = std::make_shared<torch::TorchExecutor>(program, how);
        return [executor, &data, &seed](tensor::State& state) { return executor->step(state, data, seed); };
    };
    return {};
}
#else
Status choose_torch(Options&) { return fail("measure.no_torch", "this program was built without libtorch"); }
#endif

Status measure(Options& options) {
    ThreadPool pool(options.threads);
    options.run.arithmetic = kCanonical;
    options.run.stepper = canonical_stepper(&pool);
    if (options.backend == kCanonical && options.device != kDefaultDevice)
        return fail("measure.no_device", "--device is of --backend torch and torch-bf16");
    if (options.backend != kCanonical) QUERN_CHECK(choose_torch(options));
    QUERN_TRY(options.run.architecture, read_architecture(options.arch));
    QUERN_TRY(options.run.data, read_sets(options.data));
    QUERN_TRY(options.run.held_out, read_sets(options.held_out));
    return run_measured(options.run, &pool, stop_requested, [](const Measure& found) {
        json::Value line = json::Value::object(
            {{"step", found.step}, {"batch_loss", found.batch_loss}, {"held_out_loss", found.held_out.loss}});
        if (found.held_out.accuracy) line.set("held_out_accuracy", *found.held_out.accuracy);
        std::printf("%s\n", line.dump().c_str());
        std::fflush(stdout);
    });
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app{
        "quern-measure: trains a model on this machine and measures it on held-out data as it goes.\n\n"
        "  quern-measure --arch arch.json --data data.u8 --held-out other.u8 --steps 3000 --out run\n\n"
        "Prints one JSON object a line for each measure. Whatever ends it, the same command goes on where it was.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong options.\n"};
    declare(app, options);
    if (const auto code = parse_command_line(app, kProgram, argc, argv)) return *code;
    stop_on_interrupt();
    const Status status = measure(options);
    return status ? 0 : complain(kProgram, status.error());
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
    return quern::with_memory_named(quern::kProgram, [&] { return quern::run(argc, argv); });
}
