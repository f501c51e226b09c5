// Whether solvers can take a task in tolerance mode, asked of its files before anything is signed (doc/tolerance.md,
// "Judged tasks"): what they refuse would be paid into escrow and never trained. Used by src/bin only.
#pragma once

#include "base/fs.h"
#include "bin/limits_json.h"
#include "chain/market/work.h"
#include "compute/core/profiling.h"
#include "compute/core/task_spec.h"
#include "compute/program/state_file.h"
#include "compute/tolerance/judge/judge_program.h"
#include "wallet/amount.h"
#include "wallet/task.h"

namespace quern {

// Of the files that are named; `spec` was made of them. Errors: tolerance.not_a_judged_task,
// tolerance.bad_first_state, tolerance.bad_limits.
[[nodiscard]] inline Status check_tolerance_task(const wallet::SpecOptions& options,
                                                 const chain::types::TaskSubmitPayload& spec) {
    namespace core = compute::core;
    namespace judge = compute::tolerance::judge;
    if (!core::claims_data(spec)) return {};
    if (!options.data.empty() && !core::is_profiled(spec)) {
        const std::string& path = options.data.back();
        QUERN_TRY(const Bytes file, read_limits(path));
        QUERN_CHECK(wallet::named(path, compute::tolerance::decode_limits(file)));
    }
    if (options.programs.empty()) return {};
    std::vector<vm::tensor::Program> programs;
    for (const std::string& file : options.programs) {
        QUERN_TRY(const Bytes bytes, fs::read_file(file, vm::tensor::kMaxProgramBytes));
        QUERN_TRY(vm::tensor::Program program, wallet::named(file, vm::tensor::decode_program(bytes)));
        programs.push_back(std::move(program));
    }
    QUERN_TRY(const core::TaskPlan plan, core::TaskPlan::decode(spec.plan));
    QUERN_TRY(const core::TaskPrograms task, core::TaskPrograms::make(std::move(programs), plan.body()));
    QUERN_TRY(
        const judge::JudgedTask judged,
        judge::recognise(task, spec.work.stride, chain::market::tranche_steps(task.plan.steps(), spec.work.tranche)));
    if (options.init.empty()) return {};
    QUERN_TRY(const Bytes bytes, fs::read_file(options.init, compute::program::kMaxStateFileBytes));
    QUERN_TRY(const vm::tensor::State state,
              wallet::named(options.init, compute::program::read_state(task.any(), bytes)));
    return wallet::named(options.init, judge::check_first_state(judged.programs, state));
}

}  // namespace quern
