// The subcommands of quern-compile that do a program's steps: `run` does them and keeps the state, `verify` does them
// over again and compares.
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
#include "bin/screen.h"
#include "bin/stop_signals.h"
#include "bin/torch_module.h"
#include "compute/core/plan_json.h"
#include "compute/program/architecture.h"
#include "compute/program/replay.h"
#include "compute/program/step_run.h"
#include "vm/tensor/data.h"

namespace quern {

// What both are told of the training.
struct StepOptions {
    std::vector<std::string> programs;  // of a plan, in order
    std::uint32_t accumulate = 0;
    std::string plan;
    std::string state;
    std::vector<std::string> data;
    std::string beacon;
};
struct RunOptions {
    StepOptions training;
    std::uint64_t steps = 0;
    std::uint64_t seed = 1;
    std::string out;
    std::string backend = "canonical";
    std::size_t threads = 0;
    bool as_json = false;
};
struct VerifyOptions {
    StepOptions training;
    std::uint64_t first_step = 1;
    std::uint64_t last_step = 0;
    std::string root;
    std::string after;
};

inline constexpr std::size_t kMaxPlanText = std::size_t{1} << 16;
inline constexpr const char* kCanonicalBackend = "canonical";
inline constexpr const char* kTorchBackend = "torch";

inline CLI::Option* declare_training(CLI::App* sub, StepOptions& options, const char* beacon) {
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
    sub->add_option("--data", options.data, "files of the program's data tensors, in order")->take_all();
    return sub->add_option("--beacon", options.beacon, beacon);
}

inline void declare_run(CLI::App* sub, RunOptions& options) {
    CLI::Option* beacon =
        declare_training(sub, options.training,
                         "32 bytes in hexadecimal: the data's order of a task, its seedBeacon (default: by --seed)");
    sub->add_option("--steps", options.steps,
                    "steps, all together; of an accumulating training each batch is one, and each update")
        ->required()
        ->check(CLI::PositiveNumber);
    sub->add_option("--seed", options.seed, "of the data's order, as of quern-train --local")
        ->capture_default_str()
        ->excludes(beacon);
    sub->add_option("--out", options.out, "state file to write; it also says how far the run is")->required();
    sub->add_option("--backend", options.backend,
                    "what does the steps: canonical, or torch, where quern-torch-steps.so lies beside this program")
        ->check(CLI::IsMember({kCanonicalBackend, kTorchBackend}))
        ->capture_default_str();
    sub->add_option("--threads", options.threads, "compute threads; 0: one per CPU")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    sub->add_flag("--json", options.as_json, "print one JSON object a line for each event");
}

inline void declare_verify(CLI::App* sub, VerifyOptions& options) {
    declare_training(sub, options.training, "32 bytes in hexadecimal: the task's seedBeacon")->required();
    sub->add_option("--first", options.first_step, "the first step, from 1 on")->capture_default_str();
    sub->add_option("--last", options.last_step, "the last step")->required();
    CLI::Option* root = sub->add_option("--root", options.root, "state root that the last step should give");
    sub->add_option("--after", options.after, "state file that it should give")->excludes(root);
}

// The programs of a task by the plan that `quern-compile program` prints as "turn", for so many steps.
[[nodiscard]] inline Expected<compute::core::TaskPrograms> planned_programs(const StepOptions& options,
                                                                            std::uint64_t steps) {
    namespace core = compute::core;
    std::vector<vm::tensor::Program> programs;
    for (const std::string& path : options.programs) {
        QUERN_TRY(vm::tensor::Program program, read_program(path));
        programs.push_back(std::move(program));
    }
    if (!options.plan.empty()) {
        auto body = json::parse(options.plan, {kMaxPlanText, 2 * core::kMaxPlanDepth});
        if (!body) return detailed(body.error(), "--plan: " + body.error().detail);
        QUERN_TRY(std::vector<core::PlanItem> items, core::body_of(*body));
        return core::TaskPrograms::make(std::move(programs), std::move(items));
    }
    const bool accumulates = programs.size() == 2;
    if (accumulates == (options.accumulate == 0) || programs.size() > 2)
        return fail("compile.accumulate", "one program, two and --accumulate, or --plan with any");
    if (!accumulates) return core::TaskPrograms::make(std::move(programs), core::plain_body(steps));
    std::vector<core::PlanItem> turn = core::plain_body(options.accumulate);
    turn.push_back(core::plan_step(1));
    const std::uint64_t turns = (steps - 1) / (std::uint64_t{options.accumulate} + 1) + 1;
    if (turns > 1) turn = {core::plan_repeat(turns, std::move(turn))};
    return core::TaskPrograms::make(std::move(programs), std::move(turn));
}

[[nodiscard]] inline Expected<std::vector<Bytes>> read_sets(const std::vector<std::string>& paths,
                                                            const vm::tensor::Program& program) {
    if (paths.size() != program.header.data.size())
        return fail("compile.wrong_data", std::to_string(paths.size()) + " files, the program has " +
                                              std::to_string(program.header.data.size()) + " data tensors");
    std::vector<Bytes> sets;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        QUERN_TRY(const std::uint64_t bytes, fs::file_size(paths[i]));
        const std::uint64_t wanted = vm::tensor::data_bytes(program.header.data[i]);
        if (bytes != wanted)
            return fail("compile.wrong_data", paths[i] + " has " + std::to_string(bytes) +
                                                  " bytes, the program wants " + std::to_string(wanted));
        QUERN_TRY(Bytes set, fs::read_file(paths[i], wanted));
        sets.push_back(std::move(set));
    }
    return sets;
}

[[nodiscard]] inline Expected<Hash32> hash_option(const char* name, const std::string& text) {
    auto hash = fixed_from_hex<Hash32::kSize>(text);
    if (!hash) return detailed(hash.error(), std::string(name) + ": " + hash.error().detail);
    return Hash32(*hash);
}

[[nodiscard]] inline Status do_steps(const RunOptions& options, Screen& screen) {
    namespace program = compute::program;
    QUERN_TRY(const compute::core::TaskPrograms programs, planned_programs(options.training, options.steps));
    Hash32 beacon = program::beacon_of_seed(options.seed);
    if (!options.training.beacon.empty()) {
        QUERN_TRY(beacon, hash_option("--beacon", options.training.beacon));
    }
    QUERN_TRY(vm::tensor::State first, read_state_of(programs.any(), options.training.state));
    QUERN_TRY(std::vector<Bytes> data, read_sets(options.training.data, programs.any()));
    stop_on_interrupt();
    ThreadPool pool(options.threads);
    program::Stepper stepper =
        options.backend == kTorchBackend ? torch_stepper(options.threads) : program::canonical_stepper(&pool);
    program::Progress progress(options.steps);
    const auto tell = [&](const program::Event& event) {
        if (event.name == "result") screen.draw(progress.plot());
        screen.tell(event);
    };
    const Status done = program::run_steps({programs, options.steps, options.training.accumulate, std::move(first),
                                            std::move(data), beacon, options.backend, std::move(stepper), options.out},
                                           &pool, progress, stop_requested, tell);
    if (!done && done.error().name == program::kRunStopped) screen.draw(progress.plot());
    return done;
}

// From the first state, or from where an earlier call was ended; the state is kept in --out.
[[nodiscard]] inline Status run_program(const RunOptions& options) {
    Screen screen(options.as_json);
    const Status done = do_steps(options, screen);
    screen.close();
    if (!done) screen.tell(done.error());
    return done;
}

// Steps done over again, against a root or a state that somebody says is their result.
[[nodiscard]] inline Status verify_steps(const VerifyOptions& options) {
    namespace program = compute::program;
    namespace tensor = vm::tensor;
    if (options.root.empty() == options.after.empty())
        return fail("compile.nothing_to_compare", "--root or --after, one of them, says what it should be");
    if (options.last_step == 0) return fail("replay.bad_range", "--last is 0: steps count from 1");
    QUERN_TRY(const compute::core::TaskPrograms programs, planned_programs(options.training, options.last_step));
    QUERN_TRY(const Hash32 beacon, hash_option("--beacon", options.training.beacon));
    QUERN_TRY(tensor::State state, read_state_of(programs.any(), options.training.state));
    QUERN_TRY(std::vector<Bytes> sets, read_sets(options.training.data, programs.any()));
    ThreadPool pool(std::max(1U, std::thread::hardware_concurrency()));
    QUERN_CHECK(program::replay(programs, state, tensor::MemoryData(std::move(sets)), tensor::seed_tensor(beacon),
                                options.first_step, options.last_step, &pool));
    const Hash32 root = tensor::state_root(state, &pool);
    json::Value result = json::Value::object({{"first", options.first_step}, {"last", options.last_step}});
    result.set("state_root", to_hex0x(root));
    const auto print = [&result] { std::printf("%s\n", result.dump_pretty().c_str()); };
    if (!options.root.empty()) {
        QUERN_TRY(const Hash32 wanted, hash_option("--root", options.root));
        result.set("equal", root == wanted);
        print();
        return root == wanted ? Status() : fail("verify.differs", "the root is another one");
    }
    QUERN_TRY(const tensor::State said, read_state_of(programs.any(), options.after));
    const auto found = program::difference(programs.any(), state, said);
    result.set("equal", !found);
    if (found) {
        json::Value told = json::Value::object({{"slot", found->slot}, {"elements", found->elements}});
        if (found->largest) told.set("largest", *found->largest);
        told.set("slots", found->slots);
        result.set("difference", std::move(told));
    }
    print();
    if (!found) return {};
    return fail("verify.differs", found->slot + ", in " + std::to_string(found->elements) + " elements");
}

}  // namespace quern
