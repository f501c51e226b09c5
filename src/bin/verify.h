// The subcommand `verify` of quern-compile: steps of a task done over again, against what somebody says is their
// result.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/fs.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "bin/program_file.h"
#include "compute/core/plan_json.h"
#include "compute/program/architecture.h"
#include "compute/program/replay.h"
#include "compute/program/state_file.h"
#include "vm/tensor/data.h"

namespace quern {

inline constexpr std::size_t kMaxStateBytes = std::size_t{8} << 30;
inline constexpr std::size_t kMaxPlanText = std::size_t{1} << 16;

struct VerifyOptions {
    std::vector<std::string> programs;  // of a plan, in order
    std::uint32_t accumulate = 0;
    std::string plan;
    std::string state;
    std::vector<std::string> sets;  // data tensors, in order
    std::string beacon;
    std::uint64_t first_step = 1;
    std::uint64_t last_step = 0;
    std::string root;
    std::string after;
};

inline void declare_verify(CLI::App* sub, VerifyOptions& options) {
    sub->add_option("--program", options.programs, "program file; of a plan with several all of them, in its order")
        ->required()
        ->expected(1, static_cast<int>(compute::core::kMaxPlanPrograms))
        ->take_all();
    CLI::Option* accumulate =
        sub->add_option("--accumulate", options.accumulate, "of an accumulating training: batches of an update")
            ->check(CLI::Range(std::uint32_t{1}, compute::program::kMaxAccumulate));
    sub->add_option("--plan", options.plan, "the task's plan, as quern-wallet takes it: [[100,[[4,[0]],1]]]")
        ->excludes(accumulate);
    sub->add_option("--state", options.state, "state file before the first of the steps")->required();
    sub->add_option("--data", options.sets, "files of the program's data tensors, in order")->required()->take_all();
    sub->add_option("--beacon", options.beacon, "32 bytes in hexadecimal: the task's seedBeacon")->required();
    sub->add_option("--first", options.first_step, "the first step, from 1 on")->capture_default_str();
    sub->add_option("--last", options.last_step, "the last step")->required();
    CLI::Option* root = sub->add_option("--root", options.root, "state root that the last step should give");
    sub->add_option("--after", options.after, "state file that it should give")->excludes(root);
}

// Errors: fs.*, those of reading a state, with the file's name.
[[nodiscard]] inline Expected<vm::tensor::State> read_state_of(const vm::tensor::Program& program,
                                                               const std::string& path) {
    QUERN_TRY(const Bytes file, fs::read_file(path, kMaxStateBytes));
    auto state = compute::program::read_state(program, file);
    if (!state) return detailed(state.error(), path + ": " + state.error().detail);
    return state;
}

// The programs of a task by the plan that `program` prints as "turn", for steps up to the last that is replayed.
[[nodiscard]] inline Expected<compute::core::TaskPrograms> planned_programs(const VerifyOptions& options) {
    namespace core = compute::core;
    std::vector<vm::tensor::Program> programs;
    for (const std::string& path : options.programs) {
        QUERN_TRY(vm::tensor::Program program, read_program(path));
        programs.push_back(std::move(program));
    }
    if (options.last_step == 0) return fail("replay.bad_range", "--last is 0: steps count from 1");
    if (!options.plan.empty()) {
        auto body = json::parse(options.plan, {kMaxPlanText, 2 * core::kMaxPlanDepth});
        if (!body) return detailed(body.error(), "--plan: " + body.error().detail);
        QUERN_TRY(std::vector<core::PlanItem> items, core::body_of(*body));
        return core::TaskPrograms::make(std::move(programs), std::move(items));
    }
    const bool accumulates = programs.size() == 2;
    if (accumulates == (options.accumulate == 0) || programs.size() > 2)
        return fail("compile.accumulate", "one program, two and --accumulate, or --plan with any");
    if (!accumulates) return core::TaskPrograms::make(std::move(programs), core::plain_body(options.last_step));
    std::vector<core::PlanItem> turn = core::plain_body(options.accumulate);
    turn.push_back(core::plan_step(1));
    const std::uint64_t turns = (options.last_step - 1) / (std::uint64_t{options.accumulate} + 1) + 1;
    if (turns > 1) turn = {core::plan_repeat(turns, std::move(turn))};
    return core::TaskPrograms::make(std::move(programs), std::move(turn));
}

[[nodiscard]] inline Expected<std::vector<Bytes>> read_sets(const VerifyOptions& options,
                                                            const vm::tensor::Program& program) {
    if (options.sets.size() != program.header.data.size())
        return fail("compile.wrong_data", std::to_string(options.sets.size()) + " files, the program has " +
                                              std::to_string(program.header.data.size()) + " data tensors");
    std::vector<Bytes> sets;
    for (std::size_t i = 0; i < options.sets.size(); ++i) {
        QUERN_TRY(const std::uint64_t bytes, fs::file_size(options.sets[i]));
        const std::uint64_t wanted = vm::tensor::data_bytes(program.header.data[i]);
        if (bytes != wanted)
            return fail("compile.wrong_data", options.sets[i] + " has " + std::to_string(bytes) +
                                                  " bytes, the program wants " + std::to_string(wanted));
        QUERN_TRY(Bytes set, fs::read_file(options.sets[i], wanted));
        sets.push_back(std::move(set));
    }
    return sets;
}

// Steps done over again, against a root or a state that somebody says is their result.
[[nodiscard]] inline Status verify_steps(const VerifyOptions& options) {
    if (options.root.empty() == options.after.empty())
        return fail("compile.nothing_to_compare", "--root or --after, one of them, says what it should be");
    QUERN_TRY(const compute::core::TaskPrograms programs, planned_programs(options));
    const vm::tensor::Program& program = programs.any();
    const auto beacon = fixed_from_hex<Hash32::kSize>(options.beacon);
    if (!beacon) return detailed(beacon.error(), "--beacon: " + beacon.error().detail);
    QUERN_TRY(vm::tensor::State state, read_state_of(program, options.state));
    QUERN_TRY(std::vector<Bytes> sets, read_sets(options, program));
    ThreadPool pool(std::max(1U, std::thread::hardware_concurrency()));
    QUERN_CHECK(compute::program::replay(programs, state, vm::tensor::MemoryData(std::move(sets)),
                                         vm::tensor::seed_tensor(*beacon), options.first_step, options.last_step,
                                         &pool));
    const Hash32 root = vm::tensor::state_root(state, &pool);
    json::Value result = json::Value::object({{"first", options.first_step}, {"last", options.last_step}});
    result.set("state_root", to_hex0x(root));
    if (!options.root.empty()) {
        const auto wanted = fixed_from_hex<Hash32::kSize>(options.root);
        if (!wanted) return detailed(wanted.error(), "--root: " + wanted.error().detail);
        result.set("equal", root == *wanted);
        std::printf("%s\n", result.dump_pretty().c_str());
        return root == *wanted ? Status() : fail("verify.differs", "the root is another one");
    }
    QUERN_TRY(const vm::tensor::State said, read_state_of(program, options.after));
    const auto found = compute::program::difference(program, state, said);
    result.set("equal", !found);
    if (found) {
        json::Value told = json::Value::object({{"slot", found->slot}, {"elements", found->elements}});
        if (found->largest) told.set("largest", *found->largest);
        told.set("slots", found->slots);
        result.set("difference", std::move(told));
    }
    std::printf("%s\n", result.dump_pretty().c_str());
    if (!found) return {};
    return fail("verify.differs", found->slot + ", in " + std::to_string(found->elements) + " elements");
}

}  // namespace quern
