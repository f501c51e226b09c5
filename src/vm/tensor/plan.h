// How one step of a program is executed: which nodes are views of others, which are constants, which run together, and
// where their words lie. Made once per executor and mode. Internal to vm/tensor. Plain values; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "vm/tensor/graph.h"
#include "vm/tensor/node_kernels.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor {

inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t kGroupBlock = 2048;  // words of a group's intermediate values: a few of them fit the cache

// A buffer that holds one or more values.
struct Root {
    enum class Kind : std::uint8_t {
        slot,  // the state before the step; index = slot
        seed,
        constant,  // index into ExecutionPlan::constants
        arena,     // `offset` words into the arena
        next,      // where slot `index` lies, once the step has written over it
    };
    Kind kind = Kind::arena;
    std::size_t index = 0;
    std::size_t words = 0;
    std::size_t offset = 0;
    std::size_t first_step = kNone;  // that writes it
    std::size_t last_step = 0;       // that reads it
};

// A value: strided words of a root.
struct Value {
    std::size_t root = kNone;
    std::ptrdiff_t offset = 0;
    Shape shape;
    Strides strides{};
};

// One elementwise node of a group.
struct Member {
    struct Operand {
        std::size_t scratch = kNone;  // a value of the group: block buffer number, or kNone
        bool is_gathered = false;     // into that buffer, block by block, in the order of the member's elements
        Value value;                  // else (and where the group's value is written out) this
    };
    const Node* node = nullptr;
    LoopNest nest;
    std::array<Operand, kMaxOperands> operands;
    std::size_t scratch = kNone;  // where the output goes: a block buffer, or
    std::size_t root = kNone;     // a root
};

struct Step {
    enum class Kind : std::uint8_t {
        copy,
        commit,  // a copy over a slot, whose value before the step nobody reads any more
        node,
        group
    };
    Kind kind = Kind::node;
    const Node* node = nullptr;
    std::vector<Value> inputs;
    std::size_t output = kNone;   // root
    std::vector<Member> members;  // of a group, all with the same shape
    std::size_t words = 0;        // of each member's output
    std::size_t work = 0;         // per word, as ElementOpInfo::work counts
};

enum class PlanMode : std::uint8_t {
    step,    // only what the state after the step needs, elementwise nodes in groups
    tapped,  // every node in order, each output whole once it and its operands can be read; slots are written by
             // commits alone
    owned,   // as tapped, and each output in a buffer of its own: changing it changes nothing before it
};
inline constexpr std::size_t kPlanModes = 3;

// When a node's output can be read, and where. Its operands' outputs can be read then too.
struct TapPoint {
    std::size_t steps = 0;  // after so many of them and before the next
    Value value;
};

struct ExecutionPlan {
    std::vector<Root> roots;
    std::vector<Step> steps;
    std::vector<Tensor> constants;
    std::vector<TapPoint> taps;  // by node, unless the mode is `step`
    std::size_t arena_words = 0;
    std::size_t scratch_blocks = 0;  // of kGroupBlock words, per thread
    // Where the arena would have holes that the header's peak bytes have no room for: its buffers one by one, by step
    // those that begin with it and those that end with it. Empty otherwise; then arena_words are those alive at once.
    std::vector<std::vector<std::size_t>> begins;
    std::vector<std::vector<std::size_t>> ends;

    // Arena and constants; not the blocks of scratch, nor constants of one word, which are the plan's own.
    [[nodiscard]] std::uint64_t bytes() const;
};

// `kernels` compute the constants; without them (null) the plan is for its sizes alone: its constants have no words.
// A plan of the mode `step` keeps within the header's peak bytes, the state counted with it, as far as ops read their
// operands where they are (run_node's layouts).
[[nodiscard]] ExecutionPlan make_plan(const Program& program, const arith::Kernels* kernels, PlanMode mode);

// The parts of it that arena.cpp does: gives each root of the kind `arena` its offset; makes buffers one by one of
// them.
void place_arena(ExecutionPlan& plan);
void part_arena(ExecutionPlan& plan);

}  // namespace quern::vm::tensor
