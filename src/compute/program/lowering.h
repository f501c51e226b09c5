// How network_lowering.h does it: the tensors of a network while it is laid into a program, and the operations. Used by
// the files lowering*.cpp alone. One object, one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/program/composite.h"
#include "compute/program/image.h"
#include "compute/program/layers.h"
#include "compute/program/network.h"
#include "compute/program/quantized.h"

namespace quern::compute::program {

// Whole numbers that are known when the program is built, of one tensor: shapes, axes, indices.
inline constexpr std::uint64_t kMaxKnownElements = 1U << 20;
inline constexpr std::uint64_t kMaxKnownInAll = 1U << 24;  // of all that nodes give

inline constexpr std::string_view kTooManyKnown = "whole numbers of more than 2^24 elements in all";

// What is known to fit.
constexpr std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

// A tensor of the network.
struct Item {
    Dims dims;
    // Its words row by row, in a shape that a node chose. With `places`, of [n, c, ...] with three dims at least, a row
    // for each place and a column for each channel, as image.h has it. Invalid: what follows, or `stored`, gives it.
    Value value{};
    bool places = false;
    std::optional<std::vector<std::int64_t>> known{};  // whole numbers and booleans
    std::optional<float> scalar{};                     // every element
    const NetworkTensor* stored = nullptr;             // numbers of the file
    std::string stored_name{};                         // of the initializer, or of the constant's node
    std::string name{};                                // in the network

    [[nodiscard]] std::uint64_t elements() const { return product(dims); }
};

// Of an operation: each of its inputs has a derivative.
inline constexpr std::uint32_t kAllInputs = ~0U;

class Lowering {
public:
    Lowering(Builder& b, const Network& network, const NetworkTraining& training, const LayersPass& pass,
             LayersSlots& slots)
        : b_(b),
          network_(network),
          training_(training),
          pass_(pass),
          slots_(slots),
          bytes_(pass.key, kUsesOfBytes),
          precisions_(training.layer_precision) {}

    Features run(const Features& x);

private:
    using Run = void (Lowering::*)();
    struct Operation {
        std::string_view name;
        Run run;
        std::size_t min_inputs;
        std::size_t max_inputs;
        std::uint32_t differentiable;  // a bit for each input; those beyond 32 as the last
    };
    static std::span<const Operation> operations();
    static const Operation* find_operation(std::string_view name);

    // --- lowering.cpp: errors, tensors, slots
    // ---------------------------------------------------------------------------
    void refuse(std::string_view name, std::string detail);
    bool expect(bool holds, std::string_view detail);  // onnx.bad_node unless it holds
    void find_trained();
    void find_weights();
    void refuse_unknown_layers();
    [[nodiscard]] std::optional<Item> input_item(const Features& x);
    [[nodiscard]] bool has(std::size_t input) const;
    Item& in(std::size_t input);
    // Of work on whole numbers, whether or not its result has a name; refused where there was too much.
    bool count_known(std::uint64_t elements);
    void give(Item item, std::size_t output = 0);
    void give(Value value, Dims dims) { give(Item{std::move(dims), value}); }
    [[nodiscard]] const NetworkAttribute* attribute(std::string_view name) const;
    std::int64_t integer(std::string_view name, std::int64_t otherwise);
    float number(std::string_view name, float otherwise);
    std::string text(std::string_view name, std::string_view otherwise);
    std::vector<std::int64_t> integers(std::string_view name);
    // Known whole numbers of an input, as a list; refused where they are not known.
    std::vector<std::int64_t> list(std::size_t input);
    // Of an attribute up to an operator set, of an input since; nothing where neither is there.
    std::optional<std::vector<std::int64_t>> list_or_attribute(std::string_view name, std::size_t input);
    // In [0, rank); refused otherwise.
    std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

    Value slot_of(const Item& item);
    Value constant_of(const NetworkTensor& tensor, const Shape& shape);
    Value pattern_of(const std::vector<std::uint32_t>& words, DType dtype, const Dims& dims);
    void materialise(Item& item);
    Value words(Item& item);                      // row by row, in any shape
    Value words(Item& item, const Shape& shape);  // in this one
    Value rows_of_places(Item& item);             // of [n, c, ...]: [1,1,n * places,c]
    Shape shape_of(const Dims& dims);             // of four dims: leading ones before, or the first ones joined
    bool is_whole(const Item& item) const;

    // --- lowering_shape.cpp
    // ------------------------------------------------------------------------------------------------
    Value transpose(Value x, const Dims& dims, const std::vector<std::size_t>& axes);
    Value slice_axis(Value x, const Dims& dims, std::size_t axis, std::uint64_t begin, std::uint64_t count);
    Value join(const std::vector<Value>& parts, const std::vector<std::uint64_t>& sizes, const Dims& dims,
               std::size_t axis);
    bool fits_known(const Dims& dims);  // asked before it is filled
    void give_known(std::vector<std::int64_t> known, Dims dims);
    void give_slice(Item& item, std::size_t axis, std::uint64_t begin, std::uint64_t count, std::size_t output);
    void give_reshaped(Item& item, Dims dims);
    void constant();
    void constant_of_shape();
    void shape();
    void range();
    void identity();
    void cast();
    void reshape();
    void flatten();
    void squeeze();
    void unsqueeze();
    void transpose();
    void gather();
    void slice();
    void split();
    void concat();
    void expand();
    void pad();

    // --- lowering_math.cpp
    // --------------------------------------------------------------------------------------------------
    std::optional<Dims> broadcast(const std::vector<Dims>& all);
    bool align(const std::vector<Item*>& items, const Dims& dims, std::vector<Value>& values, Shape& shape);
    bool align_places(const std::vector<Item*>& items, const Dims& dims, std::vector<Value>& values);
    template <class Make>
    void combine(const std::vector<Item*>& items, Make make);
    template <class Make>
    void map(Make make);
    using Fold = std::int64_t (*)(std::int64_t, std::int64_t);
    bool fold(Fold fold);
    void binary(ElementOp floats, ElementOp whole, Fold known);
    std::optional<std::size_t> softmax_axis();
    template <class Make>
    void along_axis(Make make);
    std::optional<float> known_number(std::size_t input);
    void compare(bool swapped, bool or_equal);
    void reduce(bool largest, bool mean);
    void add();
    void sub();
    void mul();
    void div();
    void min();
    void max();
    void pow();
    void less();
    void less_or_equal();
    void greater();
    void greater_or_equal();
    void equal();
    void logical_and();
    void logical_or();
    void logical_not();
    void where();
    void neg();
    void abs();
    void sqrt();
    void exp();
    void log();
    void erf();
    void reciprocal();
    void relu();
    void leaky_relu();
    void elu();
    void selu();
    void prelu();
    void sigmoid();
    void tanh();
    void softplus();
    void hard_sigmoid();
    void hard_swish();
    void clip();
    void softmax();
    void log_softmax();
    void reduce_sum();
    void reduce_mean();
    void reduce_max();
    Value product_of(Value left, Value right, bool transpose_left = false, bool transpose_right = false);
    void matmul();
    void gemm();

    // --- lowering_layers.cpp
    // ------------------------------------------------------------------------------------------------
    struct Spatial;
    std::optional<Spatial> spatial(const Item& item, const Dims& kernel, bool dilates);
    void give_places(const Images& images, const Item& like, std::uint64_t channels);
    void pool(bool largest);
    void conv();
    void max_pool();
    void average_pool();
    void global_average_pool();
    void global_max_pool();
    void batch_norm();
    void instance_norm();
    void layer_norm();
    void dropout();
    struct Sequence;
    std::optional<Sequence> sequence(std::size_t gates);
    template <class Begin, class Step>
    std::vector<std::vector<Value>> unroll(const Sequence& sequence, std::uint32_t gates, Begin begin, Step step);
    void give_sequence(const Sequence& sequence, const std::vector<std::vector<Value>>& steps);
    void lstm();
    void gru();

    Builder& b_;
    const Network& network_;
    const NetworkTraining& training_;
    const LayersPass& pass_;
    LayersSlots& slots_;
    ByteProducts bytes_;
    PrecisionOfLayers precisions_;
    std::map<std::string, Item, std::less<>> items_;
    Item none_;                                        // what in() gives when it has refused
    std::set<std::string, std::less<>> trained_;       // initializers
    std::set<std::string, std::less<>> weights_;       // tensors that are words of the file, moved at most
    std::vector<std::string> linear_;                  // names of linear layers
    std::map<const NetworkTensor*, Value> materials_;  // what tensors of the file became
    const NetworkNode* node_ = nullptr;                // that is laid
    std::size_t number_ = 0;                           // its number
    std::uint32_t drops_ = 0;
    std::uint64_t known_ = 0;  // elements of whole numbers that nodes gave, at most kMaxKnownInAll
};

// What is done to each word, in whatever shape they lie.
template <class Make>
void Lowering::map(Make make) {
    Item& item = in(0);
    if (b_.failed() || !expect(!is_whole(item), "numbers, not whole ones")) return;
    materialise(item);
    Item result{item.dims, make(item.value)};
    result.places = item.places;
    give(std::move(result));
}

}  // namespace quern::compute::program
