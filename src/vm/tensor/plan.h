// How one step of a program is executed: which nodes are views of others, which are constants, which run together, and
// where their words lie. Made once per executor. Internal to vm/tensor. Plain values; thread-safe.
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
        data,
        seed,
        constant,  // index into ExecutionPlan::constants
        arena,     // `offset` words into the arena
        next,      // the state after the step; index = slot
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
        Value value;                  // else (and where the group's value is written out) this
    };
    const Node* node = nullptr;
    LoopNest nest;
    std::array<Operand, kMaxOperands> operands;
    std::size_t scratch = kNone;  // where the output goes: a block buffer, or
    std::size_t root = kNone;     // a root
};

struct Step {
    enum class Kind : std::uint8_t { copy, node, group };
    Kind kind = Kind::node;
    const Node* node = nullptr;
    std::vector<Value> inputs;
    std::size_t output = kNone;   // root
    std::vector<Member> members;  // of a group, all with the same shape
    std::size_t words = 0;        // of each member's output
    std::size_t work = 0;         // per word, as ElementOpInfo::work counts
};

// What becomes of a slot at the end of the step.
struct SlotUpdate {
    enum class Kind : std::uint8_t { unchanged, swap, copy };
    Kind kind = Kind::unchanged;
    Value value;  // for copy
};

struct ExecutionPlan {
    std::vector<Root> roots;
    std::vector<Step> steps;
    std::vector<Tensor> constants;
    std::vector<SlotUpdate> updates;
    std::size_t arena_words = 0;
    std::size_t scratch_blocks = 0;  // of kGroupBlock words, per thread
};

[[nodiscard]] ExecutionPlan make_plan(const Program& program, const arith::Kernels& kernels);

}  // namespace quern::vm::tensor
