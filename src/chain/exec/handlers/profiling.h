// Profiling of a task in tolerance mode: its profilers are drawn, seal what they measured, show it, and the task's
// limits follow; then it is open (doc/market.md, doc/tolerance.md). Functions as those of lifecycle.h. Used by one
// thread.
#pragma once

#include "chain/exec/handlers/context.h"

namespace quern::chain::exec::handlers {

// Of a task that was submitted so: waits for the beacon that draws its profilers.
void begin_profiling(Context& context, types::Task& task);
// By a tick, once what the task waits for is due: the draw, or a deadline at which those who have not
// committed are let go, or those slashed who have not revealed.
[[nodiscard]] Status move_profiling_on(Context& context, types::Task& task);

}  // namespace quern::chain::exec::handlers
