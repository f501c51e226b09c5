// Builds step programs: value handles, shape inference, constants and common subexpressions shared, dead nodes
// dropped. Used by the model builders, autodiff and the optimizers of this folder, and by tests. A Builder is used by
// one thread.
//
// Errors are sticky: the first bad call (shapes that do not fit, a wrong dtype) is remembered, later calls return
// invalid values and do nothing, and finish() returns that error. So model code reads as mathematics.
//
// Nodes, and slots, are numbered in the order in which they are made, and the program's root covers that order. C++
// leaves open in which order the arguments of a call are evaluated: at most one of them makes nodes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/program/initializer.h"
#include "compute/program/recomputation.h"
#include "vm/tensor/graph.h"

namespace quern::compute::program {

using vm::tensor::DType;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::OperandType;
using vm::tensor::Program;
using vm::tensor::Shape;
using vm::tensor::arith::ElementOp;

// Output of a node in the builder. Valid only with the builder that made it.
struct Value {
    static constexpr std::uint32_t kInvalid = 0xffffffff;
    std::uint32_t id = kInvalid;

    constexpr bool operator==(const Value&) const = default;
    [[nodiscard]] constexpr bool valid() const { return id != kInvalid; }
};

// A finished program and how its slots start, in slot order.
struct BuiltProgram {
    Program program;
    std::vector<Initializer> initializers;
};

[[nodiscard]] constexpr Shape scalar_shape() { return Shape{}; }
[[nodiscard]] constexpr Shape vector_shape(std::uint32_t n) { return Shape{{1, 1, 1, n}}; }
[[nodiscard]] constexpr Shape matrix_shape(std::uint32_t rows, std::uint32_t columns) {
    return Shape{{1, 1, rows, columns}};
}

class Builder {
public:
    explicit Builder(std::vector<vm::tensor::DataSet> data = {});  // the data tensors that windows may read

    // --- Inputs -------------------------------------------------------------------------------------------------
    // [a,b,r,length], a window of data tensor `set` for each of the indices [a,b,r,1]: from element index * stride on.
    [[nodiscard]] Value window(Value index, std::uint32_t set, std::uint32_t stride, std::uint32_t length);
    [[nodiscard]] Value seed();  // i32 [1,1,1,4]
    // Declares a state slot; its value before the step. Slots keep the order of declaration.
    [[nodiscard]] Value slot(std::string name, DType dtype, const Shape& shape, Initializer initializer,
                             std::uint32_t flags = 0);
    // From now on slot() declares nothing: it gives the slot of this name that there is. The builder's error
    // builder.missing_slot, of none and of one of another type.
    void reuse_slots() { reuses_slots_ = true; }
    // The slot's value after the step; a slot without update keeps its value. dtype and shape must be the slot's.
    void update(Value slot, Value next);
    // All slots keep their values again: for a program that has the slots of another and leaves most as they are.
    void forget_updates();
    // Names the slot whose value after a step is the reported loss: f32 scalar.
    void set_loss_slot(Value slot);

    [[nodiscard]] Value full(DType dtype, const Shape& shape, std::uint32_t word);
    [[nodiscard]] Value constant(float value);                         // f32 scalar
    [[nodiscard]] Value constant_i32(std::int32_t value);              // i32 scalar
    [[nodiscard]] Value iota(const Shape& shape, std::uint32_t axis);  // i32
    // i32 words of Philox at the logical index of each element; key_counter: i32 [1,1,1,4] {k0, k1, c1, c2}.
    [[nodiscard]] Value philox(Value key_counter, const Shape& shape);

    // The same with all four words of a call, other ones than philox's.
    [[nodiscard]] Value philox_words(Value key_counter, const Shape& shape);

    // --- Elementwise; each dim of an operand is 1 or the result's ---------------------------------------------------
    [[nodiscard]] Value elementwise(ElementOp op, std::initializer_list<Value> inputs, std::uint32_t immediate = 0);
    [[nodiscard]] Value neg(Value x) { return elementwise(ElementOp::neg, {x}); }
    [[nodiscard]] Value sqrt(Value x) { return elementwise(ElementOp::sqrt, {x}); }
    [[nodiscard]] Value exp(Value x) { return elementwise(ElementOp::exp, {x}); }
    [[nodiscard]] Value log(Value x) { return elementwise(ElementOp::log, {x}); }
    [[nodiscard]] Value tanh(Value x) { return elementwise(ElementOp::tanh, {x}); }
    [[nodiscard]] Value sigmoid(Value x) { return elementwise(ElementOp::sigmoid, {x}); }
    [[nodiscard]] Value erf(Value x) { return elementwise(ElementOp::erf, {x}); }
    [[nodiscard]] Value add(Value a, Value b) { return elementwise(ElementOp::add, {a, b}); }
    [[nodiscard]] Value sub(Value a, Value b) { return elementwise(ElementOp::sub, {a, b}); }
    [[nodiscard]] Value mul(Value a, Value b) { return elementwise(ElementOp::mul, {a, b}); }
    [[nodiscard]] Value div(Value a, Value b) { return elementwise(ElementOp::div, {a, b}); }
    [[nodiscard]] Value min(Value a, Value b) { return elementwise(ElementOp::min, {a, b}); }
    [[nodiscard]] Value max(Value a, Value b) { return elementwise(ElementOp::max, {a, b}); }
    [[nodiscard]] Value fma(Value a, Value b, Value c) { return elementwise(ElementOp::fma, {a, b, c}); }  // a*b + c
    [[nodiscard]] Value lt(Value a, Value b) { return elementwise(ElementOp::lt, {a, b}); }
    [[nodiscard]] Value le(Value a, Value b) { return elementwise(ElementOp::le, {a, b}); }
    [[nodiscard]] Value eq(Value a, Value b) { return elementwise(ElementOp::eq, {a, b}); }
    [[nodiscard]] Value select(Value condition, Value a, Value b) {  // condition i32; f32: condition != 0 ? a : b
        return elementwise(ElementOp::select, {condition, a, b});
    }
    [[nodiscard]] Value iadd(Value a, Value b) { return elementwise(ElementOp::iadd, {a, b}); }
    [[nodiscard]] Value imul(Value a, Value b) { return elementwise(ElementOp::imul, {a, b}); }
    [[nodiscard]] Value ilt(Value a, Value b) { return elementwise(ElementOp::ilt, {a, b}); }
    [[nodiscard]] Value ieq(Value a, Value b) { return elementwise(ElementOp::ieq, {a, b}); }
    [[nodiscard]] Value to_f32(Value x) { return elementwise(ElementOp::i2f, {x}); }
    [[nodiscard]] Value bits(Value x) { return elementwise(ElementOp::bits, {x}); }  // f32: i32, the same words

    // --- Linear algebra, reductions, layout (rules as in vm/tensor/graph.h) ----------------------------------------
    [[nodiscard]] Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
    // Bytes and their scales; transposes as of matmul. Of signed bytes, exact in each strip of 256 of the inner dim
    // (doc/arithmetic.md, "Products of bytes"). gradients() does not pass.
    struct Scaled {
        Value bytes;   // i32
        Value scales;  // f32, one for each strip along the inner dim
    };
    [[nodiscard]] Value imatmul(const Scaled& a, const Scaled& b, bool transpose_a = false, bool transpose_b = false);
    [[nodiscard]] Value sum_last(Value x);
    [[nodiscard]] Value max_last(Value x);
    [[nodiscard]] Value sum_rows(Value x);
    [[nodiscard]] Value kth_last(Value x, std::uint32_t k);  // i32 [a,b,r,c] -> [a,b,r,1], unsigned
    [[nodiscard]] Value reshape(Value x, const Shape& shape);
    [[nodiscard]] Value permute(Value x, const std::array<std::uint32_t, 4>& axes);
    [[nodiscard]] Value slice(Value x, const std::array<std::uint32_t, 4>& start, const Shape& shape);
    [[nodiscard]] Value concat(Value a, Value b, std::uint32_t axis);
    [[nodiscard]] Value gather_rows(Value table, Value index);
    [[nodiscard]] Value scatter_add_rows(Value source, Value index, std::uint32_t table_rows);

    // x, through which gradients() does not pass. Costs no node in the finished program.
    [[nodiscard]] Value stop_gradient(Value x);

    // x, whose gradient is not its node's: gradients() gives it, in x's shape, to the rule, which makes of it those of
    // `inputs`, each in its shape; an invalid one is none. Costs no node in the finished program.
    using GradientRule = std::function<std::vector<Value>(Builder&, Value gradient)>;
    struct CustomGradient {
        std::vector<Value> inputs;
        GradientRule rule;
    };
    [[nodiscard]] Value with_gradient(Value x, std::vector<Value> inputs, GradientRule rule);

    // --- Activation checkpointing (recomputation.h) -----------------------------------------------------------------
    // A place between two blocks of a model, where the forward pass may be cut. Without recompute() it changes nothing.
    void cut();
    // What is made up to here is the forward pass, in so many parts; what a part computed the nodes from here on are
    // given by copies of its nodes. Before gradients(); once.
    void recompute(std::uint32_t parts);

    // --- Looking at what is built -----------------------------------------------------------------------------------
    [[nodiscard]] bool failed() const { return error_.has_value(); }
    [[nodiscard]] Status status() const;
    void set_error(std::string_view name, std::string detail);  // the first one stays
    void locate(const std::string& place);                      // puts it before the error's detail, once
    [[nodiscard]] const Node& node(Value value) const { return entries_[value.id].node; }
    [[nodiscard]] OperandType type(Value value) const;  // of an invalid value: f32 scalar
    [[nodiscard]] Shape shape(Value value) const { return type(value).shape; }
    [[nodiscard]] bool is_barrier(Value value) const { return entries_[value.id].barrier; }
    [[nodiscard]] const CustomGradient* custom_gradient(Value value) const { return entries_[value.id].custom.get(); }
    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }

    // The valid program of all slots and the nodes that their updates need. The builder may be used further.
    // Errors: builder.* of the first bad call, program.* where validate() refuses.
    [[nodiscard]] Expected<BuiltProgram> finish() const;

private:
    struct Entry {
        Node node;
        bool barrier = false;  // stop_gradient, with_gradient: stands for its only input
        std::shared_ptr<const CustomGradient> custom;
    };
    struct SlotEntry {
        std::string name;
        DType dtype;
        Shape shape;
        std::uint32_t flags;
        Initializer initializer;
        Value value;
        Value next;
    };
    struct NodeLess {
        bool operator()(const Node& a, const Node& b) const;
    };

    Value insert_barrier(Value x, std::shared_ptr<const CustomGradient> custom);
    [[nodiscard]] Value random_words(Op op, Value key_counter, const Shape& shape);
    Value insert(Node node);  // dtype and shape are set; checked, shared
    bool usable(std::initializer_list<Value> values);

    std::vector<vm::tensor::DataSet> data_;
    std::vector<Entry> entries_;
    std::vector<SlotEntry> slots_;
    std::optional<std::uint32_t> loss_slot_;
    Recomputation recomputation_;  // by entry
    std::map<Node, std::uint32_t, NodeLess> known_;
    std::optional<Error> error_;
    bool located_ = false;
    bool reuses_slots_ = false;
};

}  // namespace quern::compute::program
