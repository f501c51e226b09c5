// The files of a tolerance task, and programs as files (doc/program-compiler.md, "Tolerance tasks"). Used by src/bin
// only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/fs.h"
#include "base/machine_memory.h"
#include "bin/limits_json.h"
#include "compute/core/plan_json.h"
#include "compute/program/architecture.h"
#include "compute/program/description.h"
#include "compute/program/state_file.h"
#include "compute/tolerance/judge/judge_program.h"

namespace quern {

struct JudgedOptions {
    bool on = false;
    std::uint64_t k = 0;  // steps of a segment
    std::uint64_t segments = 0;
    std::string judge;
    std::vector<std::string> loose;
    std::string limits;
};

// Of `program`, of `init`: the option that says that it is one.
inline CLI::Option* declare_judged_programs(CLI::App& app, JudgedOptions& o) {
    namespace core = compute::core;
    namespace tolerance = compute::tolerance;
    CLI::Option* steps = app.add_option("--tolerance", o.k, "a tolerance task (doc/tolerance.md): steps of a segment")
                             ->check(CLI::Range(std::uint64_t{1}, core::kMaxPlanCount));
    CLI::Option* judge = app.add_option("--judge", o.judge, "of a tolerance task: file of its judge, 1 in plans");
    CLI::Option* segments = app.add_option("--segments", o.segments, "of a tolerance task: how many")
                                ->check(CLI::Range(std::uint64_t{1}, tolerance::judge::kMaxRows));
    steps->needs(judge)->needs(segments);
    judge->needs(steps);
    segments->needs(steps);
    app.add_option("--loose", o.loose, "of a tolerance task: parameters that are not compared")->needs(steps);
    app.add_option("--limits", o.limits, "of a tolerance task: file of its limits, which is checked")->needs(steps);
    return steps;
}
inline CLI::Option* declare_judged_state(CLI::App& app, JudgedOptions& o) {
    CLI::Option* judged = app.add_flag("--tolerance", o.on, "of a tolerance task: as --tolerance of `program` has it");
    CLI::Option* stretch = app.add_option("--segments", o.segments, "of a tolerance task: as of `program`")
                               ->check(CLI::Range(std::uint64_t{1}, compute::tolerance::judge::kMaxRows))
                               ->needs(judged);
    app.add_option("--loose", o.loose, "of a tolerance task: as of `program`")->needs(judged);
    return judged->needs(stretch);
}

inline Expected<json::Value> write_program(const vm::tensor::Program& program, const std::string& path) {
    const Bytes bytes = vm::tensor::encode(program);
    if (bytes.size() > vm::tensor::kMaxProgramBytes) return fail("program.too_large", std::to_string(bytes.size()));
    QUERN_CHECK(fs::write_file_atomic(path, bytes));
    return compute::program::summarise(program, bytes.size());
}

// The limits as numbers, and the file's root as a data tensor.
inline Expected<json::Value> describe_limits(const std::string& path) {
    QUERN_TRY(const Bytes file, read_limits(path));
    auto limits = compute::tolerance::decode_limits(file);
    if (!limits) return detailed(limits.error(), path + ": " + limits.error().detail);
    return json_of(*limits);
}

inline Expected<compute::tolerance::judge::JudgedPrograms> judged_programs(
    const JudgedOptions& options, const compute::program::TrainingPrograms& built) {
    if (built.programs.size() != 1)
        return fail("compile.tolerance", "a tolerance task trains by one program: no accumulate and no held_out");
    return compute::tolerance::judge::build_judged_programs(built.programs.front().program, options.segments,
                                                            options.loose);
}

// Writes both programs, and says what a wallet and a solver have to know of them.
inline Expected<json::Value> make_judged_programs(const JudgedOptions& options,
                                                  const compute::program::TrainingPrograms& built,
                                                  const std::string& out) {
    QUERN_TRY(const auto judged, judged_programs(options, built));
    QUERN_TRY(const compute::core::TaskPrograms task, judged.task(options.k, options.segments));
    json::Value limits;
    if (!options.limits.empty()) {
        QUERN_TRY(limits, describe_limits(options.limits));
    }
    QUERN_TRY(json::Value result, write_program(judged.training, out));
    QUERN_TRY(json::Value judge, write_program(judged.judge, options.judge));
    result.set("judge", std::move(judge));
    result.set("mode", "tolerance");
    json::Value told = json::Value::object({{"k", options.k},
                                            {"rows", judged.rows},
                                            {"row_elements", judged.layout.row_elements},
                                            {"claimed_elements", judged.rows * judged.layout.row_elements},
                                            {"claimed_bytes", judged.claimed_bytes()},
                                            {"limits_data", judged.limits_data()},
                                            {"claimed_data", judged.claimed_data()},
                                            {"interval", options.k + 1}});
    if (!options.limits.empty()) told.set("limits", std::move(limits));
    result.set("tolerance", std::move(told));
    result.set("turn", compute::core::json_of(judged.body(options.k, 1)));
    result.set("plan", compute::core::json_of(task.plan.body()));
    return result;
}

// Makes of the training's first state that of the judged task, with the program that has its slots.
inline Status make_judged_state(const JudgedOptions& options, const compute::program::TrainingPrograms& built,
                                vm::tensor::Program& program, vm::tensor::State& state) {
    QUERN_TRY(auto judged, judged_programs(options, built));
    QUERN_CHECK(check_memory(compute::program::state_and_file_bytes(judged.training)));
    QUERN_TRY(state, compute::tolerance::judge::first_state(judged, state));
    program = std::move(judged.training);
    return {};
}

}  // namespace quern
