// quern-profile: the limits of a tolerance task, profiled on this machine: three backends of libtorch, or four, against
// the canonical replay of the first segments. The work is done in compute/tolerance; this file is the command line.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "base/fs.h"
#include "base/json.h"
#include "bin/device_option.h"
#include "bin/limits_json.h"
#include "bin/out_of_memory.h"
#include "bin/stop_signals.h"
#include "bin/terminal.h"
#include "bin/tolerance_options.h"
#include "bin/torch_module.h"
#include "compute/program/arch_json.h"
#include "compute/program/initial_state.h"
#include "compute/program/model_file.h"
#include "compute/tolerance/distance/distance_program.h"
#include "quern_version.h"

namespace quern {
namespace {

namespace tensor = vm::tensor;
namespace tolerance = compute::tolerance;

constexpr const char* kProgram = "quern-profile";

struct Options {
    std::string arch;
    std::vector<std::string> data;
    std::vector<std::string> loose;
    std::string limits;
    std::uint64_t k = 0;
    std::uint64_t segments = 1;
    std::uint64_t profiled = tolerance::kMinProfiled;
    std::uint64_t seed = 1;
    std::size_t threads = 0;
    std::string products = kTorchProductNames[0];
    std::string device = kDefaultDevice;
    tolerance::profile::TermNumbers terms;
};

void declare(CLI::App& app, Options& options) {
    app.set_version_flag("--version", std::string(kProgram) + " " + QUERN_VERSION);
    app.add_option("--arch", options.arch, "architecture JSON (doc/program-compiler.md)")->required();
    app.add_option("--data", options.data, "files of the model's data tensors, in its order")->required()->take_all();
    app.add_option("--tolerance", options.k, "steps of a segment")
        ->required()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
    app.add_option("--segments", options.segments, "how many the task has")
        ->required()
        ->check(CLI::Range(std::uint64_t{1}, tolerance::kMaxLimitedSegments));
    app.add_option("--limits", options.limits, "file of the limits to write")->required();
    app.add_option("--loose", options.loose, "parameters that are not compared");
    app.add_option("--profiled", options.profiled, "segments that each profiler measures")
        ->check(CLI::Range(tolerance::kMinProfiled, tolerance::kMaxProfiled))
        ->capture_default_str();
    app.add_option("--seed", options.seed, "of the initial state and of the data's order")->capture_default_str();
    app.add_option("--threads", options.threads, "compute threads; 0: one per CPU")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    add_products(app, options.products,
                 "matrix products of what is profiled: f32, or bf16, as solvers train with --products bf16");
    add_device_option(app, "--device", options.device);
    add_tolerance_terms(app, options.terms, nullptr);
}

Expected<std::vector<Bytes>> read_sets(const Options& options, const tensor::Program& program) {
    const auto& sets = program.header.data;
    if (options.data.size() != sets.size())
        return fail("compile.wrong_data", std::to_string(options.data.size()) + " files, the model has " +
                                              std::to_string(sets.size()) + " data tensors");
    std::vector<Bytes> read;
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const std::uint64_t wanted = tensor::data_bytes(sets[i]);
        QUERN_TRY(Bytes set, fs::read_file(options.data[i], wanted));
        if (set.size() != wanted)
            return fail("compile.wrong_data", options.data[i] + " has " + std::to_string(set.size()) +
                                                  " bytes, the model wants " + std::to_string(wanted));
        read.push_back(std::move(set));
    }
    return read;
}

// That the limits can be written, before hours of profiling.
Status check_writable(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code problem;
    if (std::filesystem::is_directory(path, problem))
        return fail("tolerance.no_limits_file", path + " is a folder, not a file to write");
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
        return fail("tolerance.no_limits_file", path + ": nothing can be written there");
    return {};
}

Status profile(const Options& options) {
    const tolerance::Terms terms = options.terms.of(options.segments);
    QUERN_CHECK(tolerance::check_terms(terms));
    QUERN_CHECK(check_writable(options.limits));
    QUERN_TRY(const compute::program::Architecture architecture, compute::program::read_architecture(options.arch));
    QUERN_TRY(const compute::program::BuiltProgram built, compute::program::build_training_program(architecture));
    QUERN_TRY(const tolerance::distance::SegmentPrograms segment,
              tolerance::distance::build_segment_programs(built.program, options.loose));
    QUERN_TRY(std::vector<Bytes> sets, read_sets(options, built.program));
    const tensor::MemoryData data(std::move(sets));
    const tensor::Tensor seed = tensor::seed_tensor(compute::program::beacon_of_seed(options.seed));
    ThreadPool pool(options.threads);
    QUERN_TRY(const auto profilers, backends_by_torch({torch_products(options.products), options.device})(
                                        built.program, data, seed, options.threads));
    const Cancellation stop([] { return stop_requested.load(); });
    tolerance::profile::Meter meter(built.program, segment, data, seed, &pool, &stop);
    const std::size_t backends = profilers.size();
    const auto measured_one = [&](const tolerance::profile::Profiler& profiler, const tolerance::Measured& measured,
                                  std::uint64_t done, std::uint64_t all) {
        json::Value line = json_of(measured);
        line.set("profiler", profiler.name);
        line.set("segment", (done - 1) / backends + 1);
        line.set("k", options.k);
        line.set("done", done);
        line.set("all", all);
        std::printf("%s\n", line.dump().c_str());
        std::fflush(stdout);
    };
    const auto profiles =
        tolerance::profile::profile_segments(meter, profilers, compute::program::initial_state(built, options.seed),
                                             options.k, options.profiled, measured_one);
    if (!profiles && stop.requested()) return fail("tolerance.stopped", "no limits were written");
    if (!profiles) return fail(profiles.error());
    QUERN_TRY(const tolerance::Limits limits, tolerance::derive_limits(*profiles, terms));
    QUERN_CHECK(fs::write_file_atomic(options.limits, tolerance::encode_limits(limits)));
    json::Value told = json_of(limits);
    told.set("limits", options.limits);
    std::printf("%s\n", told.dump().c_str());
    return {};
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app{
        "quern-profile: makes the limits of a tolerance task by profiling its first segments on this machine.\n\n"
        "  quern-profile --arch arch.json --data data.u8 --tolerance 8 --segments 100 --limits limits.f32\n\n"
        "Prints one JSON object a line: each segment of each profiler, then the limits.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong options.\n"};
    declare(app, options);
    if (const auto code = parse_command_line(app, kProgram, argc, argv)) return *code;
    stop_on_interrupt();
    const Status status = profile(options);
    return status ? 0 : complain(kProgram, status.error());
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
    return quern::with_memory_named(quern::kProgram, [&] { return quern::run(argc, argv); });
}
