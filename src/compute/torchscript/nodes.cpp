// Nodes of the network, constants, and sizes that depend on the batch.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compute/torchscript/interpreter.h"

namespace quern::compute::torchscript {

// --- Nodes
// ----------------------------------------------------------------------------------------------------------------

onnx::NodeProto& Interpreter::node(std::string_view op, const Names& inputs, int outputs) {
    if (graph_.node_size() >= kMaxNodes) {
        refuse("torchscript.too_large", "a network of more nodes than it may have");
        graph_.clear_node();
    }
    onnx::NodeProto& result = *graph_.add_node();
    result.set_op_type(std::string(op));
    if (node_ != nullptr) result.set_name(line_of(node_->sourceRange()));
    for (const std::string& each : inputs) result.add_input(each);
    for (int i = 0; i < outputs; ++i) result.add_output(std::string("/").append(std::to_string(++made_)));
    return result;
}

void Interpreter::set(onnx::NodeProto& node, std::string_view name, std::int64_t value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(std::string(name));
    attribute.set_type(onnx::AttributeProto_AttributeType_INT);
    attribute.set_i(value);
}
void Interpreter::set(onnx::NodeProto& node, std::string_view name, const Ints& values) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(std::string(name));
    attribute.set_type(onnx::AttributeProto_AttributeType_INTS);
    for (const std::int64_t each : values) attribute.add_ints(each);
}
void Interpreter::set_float(onnx::NodeProto& node, std::string_view name, double value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(std::string(name));
    attribute.set_type(onnx::AttributeProto_AttributeType_FLOAT);
    attribute.set_f(static_cast<float>(value));
}
void Interpreter::set_text(onnx::NodeProto& node, std::string_view name, std::string_view value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(std::string(name));
    attribute.set_type(onnx::AttributeProto_AttributeType_STRING);
    attribute.set_s(std::string(value));
}

TensorRef Interpreter::made(std::string name, Sizes sizes, Kind kind) {
    auto result = std::make_shared<Tensor>();
    result->name = std::move(name);
    result->sizes = std::move(sizes);
    result->kind = kind;
    return result;
}

TensorRef Interpreter::made(std::string_view op, const std::vector<TensorRef>& inputs, Sizes sizes, Kind kind) {
    Names names;
    for (const TensorRef& each : inputs) names.push_back(use(each));
    return made(node(op, names).output(0), std::move(sizes), kind);
}

std::string Interpreter::use(const TensorRef& tensor) {
    if (!tensor || failed()) return {};
    if (!tensor->name.empty()) return tensor->name;
    onnx::TensorProto words;
    const at::ScalarType type = tensor->kind == Kind::real    ? at::kFloat
                                : tensor->kind == Kind::whole ? at::kLong
                                                              : at::kBool;
    // Words that many names have, or that one has many times, are not taken for each: what is there is what is stored.
    if (!expect(tensor->words->numel() == 0 ||
                    static_cast<std::size_t>(tensor->words->numel()) * tensor->words->element_size() <=
                        tensor->words->storage().nbytes(),
                "a tensor that repeats its words"))
        return {};
    const at::Tensor plain = tensor->words->detach().to(type).contiguous();
    words.set_data_type(tensor->kind == Kind::real    ? onnx::TensorProto_DataType_FLOAT
                        : tensor->kind == Kind::whole ? onnx::TensorProto_DataType_INT64
                                                      : onnx::TensorProto_DataType_BOOL);
    for (const std::int64_t each : plain.sizes()) words.add_dims(each);
    words.set_raw_data(plain.data_ptr(), static_cast<std::size_t>(plain.numel()) * plain.element_size());
    if (tensor->path.empty()) {
        onnx::NodeProto& constant = node("Constant", {});
        onnx::AttributeProto& attribute = *constant.add_attribute();
        attribute.set_name("value");
        attribute.set_type(onnx::AttributeProto_AttributeType_TENSOR);
        *attribute.mutable_t() = std::move(words);
        return tensor->name = constant.output(0);
    }
    words.set_name(tensor->path);
    *graph_.add_initializer() = std::move(words);
    return tensor->name = tensor->path;
}

TensorRef Interpreter::constant(const at::Tensor& words) {
    if (!expect(words.defined() && words.layout() == at::kStrided && words.device().is_cpu() && !words.is_quantized() &&
                    is_known_type(words.scalar_type()),
                "a constant of another kind than plain numbers"))
        return made("/none", {});
    Sizes sizes;
    for (const std::int64_t each : words.sizes()) sizes.push_back({each, 0});
    TensorRef result = made("", std::move(sizes), kind_of(words.scalar_type()));
    result->words = words;
    return result;
}

TensorRef Interpreter::number(double value) {
    if (std::isnan(value)) return constant(at::scalar_tensor(value, at::kFloat));
    TensorRef& known = numbers_[value];
    if (!known) known = constant(at::scalar_tensor(value, at::kFloat));
    return known;
}

TensorRef Interpreter::filled(double value, const Sizes& sizes, Kind kind) {
    const at::ScalarType type = kind == Kind::real ? at::kFloat : kind == Kind::whole ? at::kLong : at::kBool;
    const Size elements = product(sizes);
    if (failed()) return number(0);
    for (const Size& each : sizes)
        if (!expect(!each.is_fixed() || each.fixed >= 0, "a size below zero")) return number(0);
    TensorRef result;
    if (elements.is_fixed() && elements.fixed <= kMaxFolded &&
        std::all_of(sizes.begin(), sizes.end(), [](const Size& each) { return each.is_fixed(); })) {
        folded_ += elements.fixed;
        if (folded_ > kMaxFoldedInAll) refuse("torchscript.too_large", "constants of so many elements");
        if (failed()) return number(0);
        Ints plain;
        for (const Size& each : sizes) plain.push_back(each.fixed);
        result = constant(at::full(plain, value, type));
    } else {
        onnx::NodeProto& made_here = node("ConstantOfShape", {shape_list(sizes)});
        onnx::AttributeProto& attribute = *made_here.add_attribute();
        attribute.set_name("value");
        attribute.set_type(onnx::AttributeProto_AttributeType_TENSOR);
        onnx::TensorProto& one = *attribute.mutable_t();
        const at::Tensor word = at::full({1}, value, type);
        one.set_data_type(kind == Kind::real    ? onnx::TensorProto_DataType_FLOAT
                          : kind == Kind::whole ? onnx::TensorProto_DataType_INT64
                                                : onnx::TensorProto_DataType_BOOL);
        one.add_dims(1);
        one.set_raw_data(word.data_ptr(), word.element_size());
        result = made(made_here.output(0), sizes, kind);
    }
    result->zeros = value == 0;
    return result;
}

std::string Interpreter::whole_list(const Ints& values) {
    std::string& known = lists_[values];
    if (known.empty()) known = use(constant(at::tensor(values, at::kLong)));
    return known;
}

std::string Interpreter::batch() {
    if (batch_.empty()) {
        const std::string zero = whole_list({0});
        const std::string one = whole_list({1});
        const std::string shape = node("Shape", {input_->name}).output(0);
        batch_ = node("Slice", {shape, zero, one, zero}).output(0);
    }
    return batch_;
}

std::string Interpreter::shape_list(const Sizes& sizes) {
    if (std::all_of(sizes.begin(), sizes.end(), [](const Size& each) { return each.is_fixed(); })) {
        Ints plain;
        for (const Size& each : sizes) plain.push_back(each.fixed);
        return whole_list(plain);
    }
    Names parts;
    for (const Size& each : sizes) {
        std::string part = whole_list({each.fixed});
        if (!each.is_fixed()) {
            const std::string factor = whole_list({each.batches});
            const std::string some = node("Mul", {batch(), factor}).output(0);
            part = node("Add", {some, part}).output(0);
        }
        parts.push_back(part);
    }
    onnx::NodeProto& all = node("Concat", parts);
    set(all, "axis", 0);
    return all.output(0);
}

// --- Sizes
// ----------------------------------------------------------------------------------------------------------------

Size Interpreter::combined(Size a, Size b, std::int64_t factor) {
    Size result;
    std::int64_t fixed = 0;
    std::int64_t batches = 0;
    expect(!__builtin_mul_overflow(b.fixed, factor, &fixed) && !__builtin_add_overflow(a.fixed, fixed, &result.fixed) &&
               !__builtin_mul_overflow(b.batches, factor, &batches) &&
               !__builtin_add_overflow(a.batches, batches, &result.batches),
           "a whole number of more than 64 bits");
    return result;
}

Size Interpreter::times(Size a, Size b) {
    if (!a.is_fixed()) std::swap(a, b);
    if (!expect(a.is_fixed(), "the batch's size times itself")) return {};
    return combined({0, 0}, b, a.fixed);
}

Size Interpreter::divided(Size a, Size b) {
    const auto divides = [](std::int64_t whole, std::int64_t part) {
        return part != 0 && part != -1 && whole % part == 0;
    };
    if (b.is_fixed()) {
        if (!expect(b.fixed != 0 && b.fixed != -1, "a division by " + std::to_string(b.fixed))) return {};
        if (a.is_fixed()) {
            std::int64_t quotient = a.fixed / b.fixed;
            if (a.fixed % b.fixed != 0 && (a.fixed < 0) != (b.fixed < 0)) --quotient;
            return {quotient, 0};
        }
        if (divides(a.fixed, b.fixed) && divides(a.batches, b.fixed)) return {a.fixed / b.fixed, a.batches / b.fixed};
    } else if (divides(a.batches, b.batches)) {
        const std::int64_t quotient = a.batches / b.batches;
        std::int64_t fixed = 0;
        if (!__builtin_mul_overflow(b.fixed, quotient, &fixed) && fixed == a.fixed) return {quotient, 0};
    }
    expect(false, "a division whose result depends on how large a batch is");
    return {};
}

// Below 0, 0 or above it; nothing where it depends on the batch, which is two or more.
std::optional<int> Interpreter::compared(Size a, Size b) {
    const Size difference = combined(a, b, -1);
    if (failed()) return {};
    const auto sign = [](std::int64_t number) { return number < 0 ? -1 : number > 0 ? 1 : 0; };
    if (difference.is_fixed()) return sign(difference.fixed);
    std::int64_t twice = 0;
    std::int64_t least = 0;
    if (__builtin_mul_overflow(difference.batches, 2, &twice) ||
        __builtin_add_overflow(twice, difference.fixed, &least) || sign(least) != sign(difference.batches))
        return {};
    return sign(least);
}

Size Interpreter::product(const Sizes& sizes) {
    Size result{1, 0};
    for (const Size& each : sizes) result = times(result, each);
    return result;
}

}  // namespace quern::compute::torchscript
