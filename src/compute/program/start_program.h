// The program that makes a training's first state: a plan runs it once, before all others (doc/plans.md). Used by
// quern-compile. Pure; thread-safe.
#pragma once

#include <span>
#include <string>

#include "compute/program/builder.h"

namespace quern::compute::program {

// Over the slots and the data of `training`, which it does not read: a slot of `kept` keeps its value, each other one
// takes what initial_state() gives it, bit for bit, with the task's seed words 0 and 1 as the low and the high half of
// the 64-bit seed. Errors: start.given_words (of a network's file: no program makes them), those of Builder::finish().
[[nodiscard]] Expected<BuiltProgram> build_start_program(const BuiltProgram& training,
                                                         std::span<const std::string> kept);

}  // namespace quern::compute::program
