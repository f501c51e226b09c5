// The nodes that measure how far a claim is from a replay, and the slots that programs have beside the training's: what
// the distance program and the judge of tasks share, so that both measure the same. Pure; thread-safe.
#pragma once

#include <array>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/program/builder.h"
#include "compute/tolerance/distance/distance_program.h"
#include "compute/tolerance/measures.h"

namespace quern::compute::tolerance::distance {

inline constexpr std::string_view kPrevious = "previous.";
[[nodiscard]] inline std::string named(std::string_view prefix, std::string_view name) {
    return std::string(prefix).append(name);
}

using Names = std::set<std::string, std::less<>>;
[[nodiscard]] Names parameter_names(const vm::tensor::Program& training, std::span<const Class> classes);
// "adamw.m" of "adamw.m.model.h.0.mlp.w_in", where the rest is a parameter's name; empty: there is no such rest.
[[nodiscard]] std::string prefix_of(const std::string& name, const Names& parameters);

// A slot of the training three times: the claim, the replay, what both began with (of an exact slot it is not needed).
struct Compared {
    program::Value claimed;
    program::Value replayed;
    program::Value previous;
};
// By measure; invalid of a class that has no slots. `slots`: one for each slot of the training, in order; one without a
// claim is not compared. The program's nodes are made in the order of these.
using Measures = std::array<program::Value, kMeasures>;
[[nodiscard]] Measures build_measures(program::Builder& b, const vm::tensor::Program& training,
                                      std::span<const Class> classes, std::span<const Compared> slots);

// The measure `movement` alone, of the parameters: `replayed` and `previous` of each, in the order of their slots.
[[nodiscard]] program::Value build_movement(program::Builder& b, std::span<const Compared> parameters);

// The training over more slots, of which its own are the first, and over more data: its nodes, and behind them one for
// each new slot, which keeps it. Errors: program.*.
[[nodiscard]] Expected<vm::tensor::Program> with_slots(const vm::tensor::Program& training,
                                                       std::vector<vm::tensor::Slot> slots,
                                                       std::vector<vm::tensor::DataSet> data);

}  // namespace quern::compute::tolerance::distance
