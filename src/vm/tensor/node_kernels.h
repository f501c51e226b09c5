// Runs single ops of the step program on strided views, spread over a pool. Internal to vm/tensor: the executor plans
// buffers and calls this. Bits do not depend on the pool. Thread-safe as far as outputs are distinct.
#pragma once

#include <span>

#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/graph.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor {

// What run_node demands of the strides of operand `operand`; the executor copies operands that do not meet it.
// unit_line: the words of each row or of each column lie side by side. A product reads others a cache line a word.
enum class Layout : std::uint8_t { any, unit_columns, unit_line, dense };
[[nodiscard]] Layout required_layout(Op op, std::size_t operand);
[[nodiscard]] bool has_layout(const View& view, Layout layout);

// Whether rows of the nest can be given to the elementwise kernels: operands step by 0 or 1.
[[nodiscard]] bool is_runnable(const LoopNest& nest, std::size_t operands);
// Elements [begin, end) of an elementwise node's dense output; out[0] receives element `begin`. An operand's data[0] is
// the word at distance `origin` from its first one: a block of an operand is enough where only a block is computed.
struct ElementwiseOperand {
    const std::uint32_t* data = nullptr;
    std::ptrdiff_t origin = 0;
};
void run_elementwise(const arith::Kernels& kernels, const Node& node, const LoopNest& nest,
                     const std::array<ElementwiseOperand, kMaxOperands>& operands, std::size_t begin, std::size_t end,
                     std::uint32_t* out);

// The dense output of a node other than slot, seed and window, whatever the strides of its operands.
[[nodiscard]] Tensor run_node_checked(const arith::Kernels& kernels, const Node& node, std::span<const View> inputs,
                                      ThreadPool* pool);
// Writes the dense output of a node other than slot, seed and window. The operands have the required layouts, and for
// elementwise a runnable nest.
void run_node(const arith::Kernels& kernels, const Node& node, std::span<const View> inputs, std::uint32_t* out,
              ThreadPool* pool);

// The same of a structural node, word by word, whatever the strides: what its definition says, and what ops without a
// way of their own use.
void copy_words(const Node& node, std::span<const View> inputs, std::uint32_t* out, ThreadPool* pool);

}  // namespace quern::vm::tensor
