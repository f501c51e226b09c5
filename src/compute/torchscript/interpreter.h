// How converter.h does it: the graph of a module's forward() is gone through once, node by node, with whole numbers,
// lists, flags and attributes known and with tensors known by their sizes alone, and each operation on tensors becomes
// nodes of the ONNX standard. Nothing is computed by libtorch but a few constants of bounded size. Used by the files of
// this folder alone. One object, one thread.
#pragma once

#include <ATen/ATen.h>
#include <onnx/onnx_pb.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/expected.h"

namespace quern::compute::torchscript {

inline constexpr std::uint64_t kMaxSteps = 1U << 20;   // nodes that are gone through, loops unrolled
inline constexpr std::size_t kMaxDepth = 200;          // of blocks in blocks, modules in modules, lists in lists
inline constexpr std::size_t kMaxItems = 1U << 16;     // of a list
inline constexpr int kMaxNodes = 1 << 16;              // of the network
inline constexpr std::int64_t kMaxFolded = 1LL << 20;  // elements of a constant that is worked out here
inline constexpr std::int64_t kMaxFoldedInAll = 1LL << 24;

// A whole number as it depends on the batch: fixed + batches * batch. The batch is taken to be two or more.
struct Size {
    std::int64_t fixed = 0;
    std::int64_t batches = 0;

    [[nodiscard]] bool is_fixed() const { return batches == 0; }
    bool operator==(const Size&) const = default;
};
using Sizes = std::vector<Size>;

enum class Kind : std::uint8_t { real, whole, boolean };

struct Tensor {
    Sizes sizes;
    Kind kind = Kind::real;
    std::string name{};                 // in the network; empty: not there yet
    std::optional<at::Tensor> words{};  // an attribute's or a constant's
    std::string path{};                 // of an attribute: "h.0.attn.bias"
    bool zeros = false;
    // Of all views of one tensor one count of the changes in place; a view of an older one is not used any more.
    std::shared_ptr<std::uint64_t> changes = std::make_shared<std::uint64_t>(0);
    std::uint64_t seen = 0;

    [[nodiscard]] std::size_t rank() const { return sizes.size(); }
};
using TensorRef = std::shared_ptr<Tensor>;

struct Value {
    enum class Type : std::uint8_t { none, integer, real, boolean, text, tensor, list, object, unknown };
    Type type = Type::none;
    Size integer{};
    double real = 0;
    bool boolean = false;
    std::string text{};
    TensorRef tensor{};
    std::shared_ptr<std::vector<Value>> items{};  // of a list or a tuple
    c10::IValue object{};                         // a module
    std::string path{};                           // its name

    [[nodiscard]] bool is(Type which) const { return type == which; }
    [[nodiscard]] bool is_number() const {
        return type == Type::integer || type == Type::real || type == Type::boolean;
    }
};

class Interpreter {
public:
    // `input`: the sizes of what a batch has, the first of them the batch's. `records`: how many bytes records of the
    // archive have: a tensor's words are all of one.
    Interpreter(onnx::ModelProto& model, Sizes input, bool input_is_whole, std::set<std::uint64_t> records);

    [[nodiscard]] Status run(const torch::jit::Module& module);

private:
    using Run = void (Interpreter::*)();
    struct Operation {
        std::string_view name;
        Run run;
    };
    using Ints = std::vector<std::int64_t>;
    using Names = std::vector<std::string>;

    // --- interpreter.cpp: the run, errors, arguments; nodes.cpp: from node() on
    // ------------------------------------------------------------
    void refuse(std::string_view name, std::string detail);
    bool expect(bool holds, std::string_view detail);  // torchscript.unsupported unless it holds
    [[nodiscard]] bool failed() const { return !status_.has_value(); }
    static std::string line_of(const torch::jit::SourceRange& range);  // "net.py:53"
    static Kind kind_of(at::ScalarType type);
    static bool is_known_type(at::ScalarType type);
    [[nodiscard]] std::string place() const;
    void run_block(const torch::jit::Block& block);
    void run_node(const torch::jit::Node& node);
    static Run find_operation(std::string_view name);
    void change_in_place();
    bool has_its_words(const at::Tensor& tensor);
    void name_attributes(const c10::IValue& object, const std::string& path, std::size_t depth);
    Value from(const c10::IValue& value, const std::string& path, std::size_t depth = 0);
    TensorRef attribute(const at::Tensor& tensor, const std::string& path);
    void finish(const Value& result);
    void drop_unused();

    const Value& value_of(const torch::jit::Value* value);
    const Value& arg(std::size_t index);
    const Value* named(std::string_view name);  // nothing where there is none, or None
    TensorRef tensor(std::size_t index);
    TensorRef tensor_named(std::string_view name);  // the same
    TensorRef tensor_of(const Value& value);
    std::int64_t whole(std::string_view name, std::int64_t otherwise);
    double real(std::string_view name, double otherwise);
    bool flag(std::string_view name, bool otherwise);
    std::string text(std::string_view name);
    std::int64_t fixed_of(const Value& value);
    double real_of(const Value& value);
    bool boolean_of(const Value& value);
    Sizes sizes_of(const Value& value);
    Ints ints_of(const Value& value);
    Ints ints(std::string_view name);
    std::size_t axis_of(std::int64_t axis, std::size_t rank);  // in [0, rank); refused otherwise

    void give(Value value, std::size_t output = 0);
    void give(TensorRef tensor, std::size_t output = 0);
    void give(Size integer);
    void give_real(double number);
    void give_boolean(bool holds);
    void give_list(std::vector<Value> items, std::size_t output = 0);
    void give_list(const std::vector<TensorRef>& tensors);

    onnx::NodeProto& node(std::string_view op, const Names& inputs, int outputs = 1);
    static void set(onnx::NodeProto& node, std::string_view name, std::int64_t value);
    static void set(onnx::NodeProto& node, std::string_view name, const Ints& values);
    static void set_float(onnx::NodeProto& node, std::string_view name, double value);
    static void set_text(onnx::NodeProto& node, std::string_view name, std::string_view value);
    std::string use(const TensorRef& tensor);  // its name in the network, where it is from then on
    static TensorRef made(std::string name, Sizes sizes, Kind kind = Kind::real);
    TensorRef made(std::string_view op, const std::vector<TensorRef>& inputs, Sizes sizes, Kind kind = Kind::real);
    TensorRef constant(const at::Tensor& words);
    TensorRef number(double value);
    TensorRef filled(double value, const Sizes& sizes, Kind kind);
    std::string whole_list(const Ints& values);
    std::string shape_list(const Sizes& sizes);
    std::string batch();  // as a list of one

    Size combined(Size a, Size b, std::int64_t factor);  // a + factor * b
    Size times(Size a, Size b);
    Size divided(Size a, Size b);  // rounded down
    std::optional<int> compared(Size a, Size b);
    Size product(const Sizes& sizes);

    // --- plain_ops.cpp: what is no tensor
    // ------------------------------------------------------------------------------
    static std::span<const Operation> plain_operations();
    bool plain(std::string_view op);
    bool compare_plain(std::string_view op);
    bool are_equal(const Value& a, const Value& b, std::size_t depth = 0);
    void constant_node();
    void get_attribute();
    void set_attribute();
    void branch();
    void loop();
    void list();
    void unpack();
    void tuple_index();
    void raise();
    void forward_argument();
    void to_integer();
    void to_real();
    void to_boolean();
    void length();
    void item();
    void append();
    void contains();
    void copy_list();
    void identical();
    void not_identical();
    void negate_flag();
    void floor_division();
    void remainder();
    void any_or_all();
    void flag_and_or();
    void message();
    void ignore();
    void uninitialized();
    void dtype();
    void device();
    void says_true();
    void says_false();
    void is_floating_point();
    void size();
    void dimensions();
    void count();

    // --- shape_ops.cpp
    // -------------------------------------------------------------------------------------------------
    static std::span<const Operation> shape_operations();
    TensorRef share(const TensorRef& tensor, Sizes sizes);
    TensorRef view_of(const TensorRef& of, TensorRef result);
    TensorRef reshaped(const TensorRef& x, const Sizes& sizes);
    TensorRef permuted(const TensorRef& x, const std::vector<std::size_t>& axes);
    TensorRef swapped(const TensorRef& x, std::size_t a, std::size_t b);
    TensorRef sliced(const TensorRef& x, std::size_t axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1);
    TensorRef selected(const TensorRef& x, std::size_t axis, std::int64_t index);
    TensorRef unsqueezed(const TensorRef& x, std::size_t axis);
    TensorRef squeezed(const TensorRef& x, const std::vector<std::size_t>& axes);
    TensorRef joined(std::vector<TensorRef> parts, std::size_t axis);
    TensorRef expanded(const TensorRef& x, const Sizes& sizes);
    void split_into(const TensorRef& x, std::size_t axis, const Ints& sizes);
    void view();
    void view_as();
    void flatten();
    void unflatten();
    void transpose();
    void transpose_matrix();
    void permute();
    void unsqueeze();
    void squeeze();
    void expand();
    void expand_as();
    void cat();
    void stack();
    void chunk();
    void split();
    void unbind();
    void slice();
    void select();
    void narrow();
    void pad();
    void same();
    void copy();
    void to();
    void full();
    void arange();
    void tensor_literal();
    void triangle();

    // --- math_ops.cpp
    // --------------------------------------------------------------------------------------------------
    static std::span<const Operation> math_operations();
    std::optional<Sizes> broadcast(const Sizes& a, const Sizes& b);
    TensorRef cast(const TensorRef& x, Kind kind);
    TensorRef real_tensor(const TensorRef& x) { return cast(x, Kind::real); }
    TensorRef both(std::string_view op, TensorRef a, TensorRef b);  // of one kind, broadcast
    TensorRef times(const TensorRef& x, double factor);
    TensorRef map(std::string_view op, const TensorRef& x);
    TensorRef product_of(const TensorRef& a, const TensorRef& b);
    TensorRef reduced(std::string_view op, const TensorRef& x, std::vector<std::size_t> axes, bool keeps);
    std::vector<std::size_t> axes_of(const TensorRef& x);
    TensorRef softmaxed(std::string_view op, const TensorRef& x, std::size_t axis);
    TensorRef chosen(const TensorRef& condition, const TensorRef& yes, const TensorRef& no);
    TensorRef masked(const TensorRef& scores, const TensorRef& mask);
    TensorRef linear_of(const TensorRef& x, const TensorRef& weight, const TensorRef& bias);
    void add();
    void sub();
    void rsub();
    void mul();
    void div();
    void pow();
    void square();
    void negate();
    void rsqrt();
    void unary();
    void relu6();
    void gelu();
    void silu();
    void mish();
    void hardswish();
    void hardsigmoid();
    void leaky_relu();
    void elu();
    void prelu();
    void softplus();
    void clamp();
    void extreme();
    void softmax();
    void mean();
    void sum();
    void largest();
    void variance();
    void matmul();
    void addmm();
    void linear();
    void compare();
    void logical();
    void logical_not();
    void where();
    void masked_fill();
    void attention();

    // --- layer_ops.cpp
    // -------------------------------------------------------------------------------------------------
    static std::span<const Operation> layer_operations();
    void windowed(onnx::NodeProto& node, const TensorRef& x, Ints kernel, Ints stride, Ints padding, Ints dilation,
                  bool ceil, Size channels);
    TensorRef dropped(const TensorRef& x, double rate, bool training);
    void convolution();
    void max_pool();
    void average_pool();
    void adaptive_pool();
    void batch_norm();
    void layer_norm();
    void group_norm();
    void embedding();
    void dropout();
    void recurrent();

    onnx::ModelProto& model_;
    onnx::GraphProto& graph_;
    TensorRef input_;
    std::set<std::uint64_t> records_;
    Status status_;
    const torch::jit::Node* node_ = nullptr;
    std::string op_;  // its name, without the last "_" of what changes in place
    std::vector<Value> outputs_;
    std::unordered_map<const torch::jit::Value*, Value> values_;
    std::map<const void*, TensorRef> attributes_;  // by libtorch's object
    std::map<const void*, std::string> names_;     // of words: that under which they were first found
    std::set<std::string> trained_;                // attributes that are parameters and want gradients
    std::map<Ints, std::string> lists_;
    std::map<double, TensorRef> numbers_;
    std::string batch_;
    std::uint64_t steps_ = 0;
    std::int64_t folded_ = 0;
    std::size_t depth_ = 0;
    std::uint64_t made_ = 0;
};

}  // namespace quern::compute::torchscript
