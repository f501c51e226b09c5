// The subcommand `inspect` of quern-compile: what a program is, and how long this machine takes for it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>

#include "base/fs.h"
#include "bin/program_file.h"
#include "compute/cost/describe.h"
#include "compute/cost/self_benchmark.h"
#include "compute/program/description.h"
#include "quern_version.h"

namespace quern {

struct InspectOptions {
    std::string file;
    bool as_text = false;
    bool dot = false;
    bool benchmark = false;
    std::string profile;
    std::size_t threads = 0;
    compute::cost::Length length;
};

inline void declare_inspect(CLI::App* sub, InspectOptions& options) {
    sub->add_option("FILE", options.file, "program file")->required();
    CLI::Option* text = sub->add_flag("--text", options.as_text, "as a table to be read, not as JSON");
    CLI::Option* dot = sub->add_flag("--dot", options.dot, "the graph in the DOT language, for Graphviz");
    dot->excludes(text);
    sub->add_flag("--benchmark", options.benchmark,
                  "also how long this machine takes for a step: measured now, some seconds, where --profile has it not")
        ->excludes(dot);
    sub->add_option("--profile", options.profile,
                    "file of what was measured, as in a worker's --datadir; --benchmark writes it")
        ->excludes(dot);
    sub->add_option("--threads", options.threads, "of the step; 0: one per CPU")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    sub->add_option("--steps", options.length.steps, "also how long so many steps take, with their commitments");
    sub->add_option("--stride", options.length.stride, "steps of each commitment")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
}

// Of this machine: what the file says, or what is measured now. None where nobody asks for times.
[[nodiscard]] inline Expected<std::optional<compute::cost::Profile>> machine_profile(const InspectOptions& options) {
    namespace cost = compute::cost;
    std::optional<cost::Profile> profile;
    if (!options.benchmark && options.profile.empty()) return profile;
    const cost::ProfileKey key = cost::profile_key(vm::tensor::arith::best_backend(), options.threads, QUERN_VERSION);
    if (options.profile.empty()) {
        QUERN_TRY(profile, cost::measure_profile(key));
    } else if (options.benchmark) {
        QUERN_TRY(profile, cost::load_or_measure(options.profile, key));
    } else {
        QUERN_TRY(profile, cost::load_profile(options.profile, key));
        if (!profile)
            return fail("compile.no_profile",
                        options.profile +
                            " is none of this machine, version and number of threads: --benchmark "
                            "measures one");
    }
    return profile;
}

[[nodiscard]] inline Status inspect_program(const InspectOptions& options) {
    QUERN_TRY(const vm::tensor::Program program, read_program(options.file));
    QUERN_TRY(const std::uint64_t bytes, fs::file_size(options.file));
    if (options.dot) {
        std::printf("%s", compute::program::draw_as_dot(program).c_str());
        return {};
    }
    QUERN_TRY(const std::optional<compute::cost::Profile> profile, machine_profile(options));
    if (options.as_text) {
        std::printf("%s", compute::program::describe_as_text(program, bytes).c_str());
        if (profile) std::printf("%s", describe_time_as_text(program, *profile, options.length).c_str());
        return {};
    }
    json::Value described = compute::program::describe(program, bytes);
    if (profile) described.set("time", describe_time(program, *profile, options.length));
    std::printf("%s\n", described.dump_pretty().c_str());
    return {};
}

}  // namespace quern
