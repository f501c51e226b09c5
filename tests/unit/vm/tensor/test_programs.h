// Programs and random tensors for the tests of the tensor machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "vm/tensor/executor.h"
#include "vm/tensor/graph.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor::test {

// A small deterministic generator (splitmix64).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(next() % limit); }

private:
    std::uint64_t state_;
};

// While it lives small programs are spread over threads, too.
class SpreadSmallWork {
public:
    SpreadSmallWork() = default;
    SpreadSmallWork(const SpreadSmallWork&) = delete;
    SpreadSmallWork& operator=(const SpreadSmallWork&) = delete;
    ~SpreadSmallWork() { worth_a_thread = before_; }

private:
    const std::size_t before_ = std::exchange(worth_a_thread, 1);
};

enum class Fill {
    moderate,  // f32: magnitudes about 2^-4 .. 2^4; i32: small and large
    special,   // f32: with infinities, NaN, subnormals, signed zeros; i32: with extremes
    index,     // i32: mostly 0..63, some out of range
};
Tensor random_tensor(Random& random, DType dtype, const Shape& shape, Fill fill);

// Appends nodes with inferred types. Shapes are given where they do not follow from the inputs.
class Graph {
public:
    Program program;

    std::uint32_t add(Node node);
    std::uint32_t add_slot(const std::string& name, DType dtype, const Shape& shape);  // and its input node
    std::uint32_t slot_input(std::size_t slot) const { return slot_inputs_[slot]; }
    void update(std::size_t slot, std::uint32_t node) { program.updates[slot] = node; }
    // Fills in the header; the last slot is the loss. Data tensor 0 is i32 and has the elements of this shape; behind
    // it come the others.
    void finish(const Shape& data_shape, const std::vector<DataSet>& others = {});

    // The first elements of data tensor 0, as a tensor of this shape.
    std::uint32_t data(const Shape& shape);
    std::uint32_t window(std::uint32_t index, std::uint32_t set, DType dtype, std::uint32_t stride,
                         std::uint32_t length);
    std::uint32_t seed() { return add({Op::seed, {}, DType::i32, {{1, 1, 1, 4}}, {}, 0, {}}); }
    std::uint32_t full(DType dtype, const Shape& shape, std::uint32_t word) {
        return add({Op::full, {}, dtype, shape, {}, word, {}});
    }
    std::uint32_t iota(const Shape& shape, std::uint32_t axis) {
        return add({Op::iota, {}, DType::i32, shape, {}, 0, {axis}});
    }
    std::uint32_t philox(std::uint32_t key, const Shape& shape) {
        return add({Op::philox, {}, DType::i32, shape, {key}, 0, {}});
    }
    std::uint32_t philox_words(std::uint32_t key, const Shape& shape) {
        return add({Op::philox_words, {}, DType::i32, shape, {key}, 0, {}});
    }
    std::uint32_t element(arith::ElementOp op, std::vector<std::uint32_t> inputs, std::uint32_t immediate = 0);
    std::uint32_t matmul(std::uint32_t a, std::uint32_t b, bool transpose_a = false, bool transpose_b = false);
    // Operands of an imatmul: bytes and their scales.
    struct Scaled {
        std::uint32_t bytes = 0;
        std::uint32_t scales = 0;
    };
    std::uint32_t imatmul(const Scaled& a, const Scaled& b, bool transpose_a = false, bool transpose_b = false);
    std::uint32_t reduce(Op op, std::uint32_t x);
    std::uint32_t reshape(std::uint32_t x, const Shape& shape) {
        return add({Op::reshape, {}, dtype(x), shape, {x}, 0, {}});
    }
    std::uint32_t permute(std::uint32_t x, std::vector<std::uint32_t> axes);
    std::uint32_t slice(std::uint32_t x, std::vector<std::uint32_t> starts, const Shape& shape) {
        return add({Op::slice, {}, dtype(x), shape, {x}, 0, std::move(starts)});
    }
    std::uint32_t concat(std::uint32_t a, std::uint32_t b, std::uint32_t axis);
    std::uint32_t kth(std::uint32_t x, std::uint32_t k);
    std::uint32_t gather(std::uint32_t table, std::uint32_t index);
    std::uint32_t scatter_add(std::uint32_t source, std::uint32_t index, std::uint32_t rows);

    DType dtype(std::uint32_t node) const { return program.nodes[node].dtype; }
    const Shape& shape(std::uint32_t node) const { return program.nodes[node].shape; }

private:
    std::vector<std::uint32_t> slot_inputs_;
};

// A program with every op and every element op, ragged shapes, views of views, shared and unchanged slots.
Program every_op_program();
// The same with those ops alone that there were when the first vectors of format 2 were published.
Program first_ops_program();
// A small two-layer classifier with gradient step: all of it goes through update nodes.
Program training_program(std::uint32_t batch, std::uint32_t width, std::uint32_t hidden);
// Products and elementwise nodes one after the other, each read by the next alone: all outputs together take many times
// what a run needs at once. `side` x `side` words each, one parameter, and a loss that follows from the last output.
Program deep_program(std::uint32_t layers, std::uint32_t side);
// Updates that read each other's slots, before and after, in place, across and by views.
Program tangled_program(std::uint64_t seed);
State random_state(const Program& program, std::uint64_t seed, Fill fill);
// Data of i32 as Fill::index has it, of the other types any bytes.
MemoryData random_data(const Program& program, std::uint64_t seed);
Bytes bytes_of(std::span<const std::uint32_t> words);  // little endian
Tensor test_seed();

// The program with every op, run on random inputs.
struct Execution {
    Program program;
    NodeOutputs outputs;
};
Execution run_every_op(Fill fill);

std::vector<OperandType> operand_types(const Program& program, const Node& node);
std::vector<const Tensor*> operands(const NodeOutputs& outputs, const Node& node);

}  // namespace quern::vm::tensor::test
