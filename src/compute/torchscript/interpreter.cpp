// The run, errors, attributes and arguments.
#include "compute/torchscript/interpreter.h"

#include <malloc.h>
#include <torch/csrc/jit/ir/scope.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace quern::compute::torchscript {
namespace {

constexpr const char* kInput = "/input";  // no attribute's name
constexpr std::size_t kMaxPlace = 200;

}  // namespace

Interpreter::Interpreter(onnx::ModelProto& model, Sizes input, bool input_is_whole, std::set<std::uint64_t> records)
    : model_(model), graph_(*model.mutable_graph()), records_(std::move(records)) {
    input_ = made(kInput, std::move(input), input_is_whole ? Kind::whole : Kind::real);
}

// --- Errors
// ---------------------------------------------------------------------------------------------------------------

std::string Interpreter::line_of(const torch::jit::SourceRange& range) {
    std::string result;
    try {
        const auto original = range.findSourceRangeThatGenerated();
        const auto line = (original ? *original : range).file_line_col();
        if (!line) return result;
        std::string file = std::get<0>(*line);
        if (file.empty()) return result;
        if (const std::size_t slash = file.rfind('/'); slash != std::string::npos) file.erase(0, slash + 1);
        for (const char c : file) result.push_back(c > 0x20 && c < 0x7f ? c : '?');
        result.append(":").append(std::to_string(std::get<1>(*line)));
    } catch (const std::exception&) {
        return {};
    }
    return result.substr(0, kMaxPlace);
}

Kind Interpreter::kind_of(at::ScalarType type) {
    if (type == at::kBool) return Kind::boolean;
    return at::isFloatingType(type) ? Kind::real : Kind::whole;
}

bool Interpreter::is_known_type(at::ScalarType type) {
    return type == at::kBool || at::isFloatingType(type) || at::isIntegralType(type, false);
}

std::string Interpreter::place() const {
    if (node_ == nullptr) return {};
    std::string result = std::string(node_->kind().toQualString());
    const std::string line = line_of(node_->sourceRange());
    if (!line.empty()) result.append(" at ").append(line);
    if (const auto stack = node_->callstack(); stack.has_value()) {
        const auto calls = (*stack)->vec();
        const std::string from = calls.empty() ? std::string() : line_of(std::get<1>(calls.front()));
        if (!from.empty() && from != line) result.append(", called at ").append(from);
    }
    if (const std::string scope = node_->scopeName(); !scope.empty())
        result.append(", in ").append(scope.substr(0, kMaxPlace));
    return result;
}

void Interpreter::refuse(std::string_view name, std::string detail) {
    if (failed()) return;
    const std::string where = place();
    status_ = fail(name, where.empty() ? std::move(detail) : where + ": " + detail);
}

bool Interpreter::expect(bool holds, std::string_view detail) {
    if (!holds) refuse("torchscript.unsupported", std::string(detail));
    return !failed();
}

// --- The run
// --------------------------------------------------------------------------------------------------------------

Status Interpreter::run(const torch::jit::Module& module) {
    name_attributes(module._ivalue(), "", 0);
    if (failed()) return status_;
    const auto graph = module.get_method("forward").graph();
    const auto inputs = graph->inputs();
    if (inputs.size() < 2) return fail("torchscript.inputs", "forward() takes no tensor");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        Value value;
        if (i == 0) {
            value = from(module._ivalue(), "");
        } else if (i == 1) {
            if (inputs[i]->type()->kind() != c10::TypeKind::TensorType)
                return fail("torchscript.inputs", "forward() takes " + inputs[i]->type()->str() + ", not a tensor");
            value.type = Value::Type::tensor;
            value.tensor = input_;
        } else {
            const auto& argument = module.get_method("forward").function().getSchema().arguments().at(i);
            if (!argument.default_value())
                return fail("torchscript.inputs", "forward() takes more than one input: " + argument.name());
            value = from(*argument.default_value(), "");
        }
        values_[inputs[i]] = std::move(value);
    }
    run_block(*graph->block());
    node_ = nullptr;
    if (failed()) return status_;
    if (graph->outputs().empty()) return fail("torchscript.no_output", "forward() gives nothing");
    finish(value_of(graph->outputs()[0]));
    return status_;
}

void Interpreter::run_block(const torch::jit::Block& block) {
    if (++depth_ > kMaxDepth) return refuse("torchscript.too_large", "blocks in blocks");
    for (const torch::jit::Node* const each : block.nodes()) {
        if (failed()) break;
        run_node(*each);
    }
    --depth_;
}

void Interpreter::run_node(const torch::jit::Node& node) {
    node_ = &node;
    if (++steps_ > kMaxSteps) return refuse("torchscript.too_long", "it does not end within so many steps");
    const std::string kind = node.kind().toQualString();
    const auto* const schema = node.maybeSchema();
    const bool changes = schema != nullptr && schema->is_mutable() && kind.size() > 7 && kind.back() == '_' &&
                         kind[kind.size() - 2] != '_';
    op_ = changes ? kind.substr(0, kind.size() - 1) : kind;
    const Run operation = find_operation(op_);
    if (operation == nullptr) return refuse("torchscript.unsupported", "an operation that is not known");
    outputs_.assign(node.outputs().size(), Value{});
    for (Value& each : outputs_) each.type = Value::Type::unknown;
    (this->*operation)();
    node_ = &node;
    if (failed()) return;
    if (changes) change_in_place();
    for (std::size_t i = 0; i < outputs_.size(); ++i) values_[node.outputs()[i]] = std::move(outputs_[i]);
}

Interpreter::Run Interpreter::find_operation(std::string_view name) {
    static const std::map<std::string_view, Run> table = [] {
        std::map<std::string_view, Run> all;
        for (const auto& part : {plain_operations(), shape_operations(), math_operations(), layer_operations()})
            for (const Operation& each : part) all.emplace(each.name, each.run);
        return all;
    }();
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

// What the operation without "_" gives takes the place of its first argument, for all who have it.
void Interpreter::change_in_place() {
    const Value& changed = arg(0);
    if (!changed.is(Value::Type::tensor)) return;
    Tensor& target = *changed.tensor;
    if (!expect(outputs_.size() == 1 && outputs_[0].is(Value::Type::tensor), "a change in place of no tensor")) return;
    // Counts of batches, which nothing depends on.
    if (!target.path.empty() && target.kind == Kind::whole) return;
    if (!expect(target.path.empty(), "a parameter that changes in place") ||
        !expect(changed.tensor != input_, "the input changes in place"))
        return;
    const TensorRef result = outputs_[0].tensor;
    const auto changes = target.changes;
    Tensor next = *result;
    next.changes = changes;
    next.seen = ++*changes;
    target = std::move(next);
    outputs_[0].tensor = changed.tensor;
}

// --- Attributes
// -----------------------------------------------------------------------------------------------------------

// Words under the first name that is found for them: what is shared is one.
void Interpreter::name_attributes(const c10::IValue& object, const std::string& path, std::size_t depth) {
    if (depth > kMaxDepth) return refuse("torchscript.too_large", "modules in modules");
    const auto instance = object.toObject();
    const auto type = instance->type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
        const c10::IValue value = instance->getSlot(i);
        const std::string name = path.empty() ? type->getAttributeName(i) : path + "." + type->getAttributeName(i);
        if (++steps_ > kMaxSteps) return refuse("torchscript.too_large", "attributes");
        if (value.isTensor() && value.toTensor().defined()) {
            const at::Tensor tensor = value.toTensor();
            names_.emplace(tensor.unsafeGetTensorImpl(), name);
            if (type->is_parameter(i) && tensor.requires_grad()) trained_.insert(name);
        } else if (value.isObject() && type->getAttribute(i)->is_module()) {
            name_attributes(value, name, depth + 1);
        }
        if (failed()) return;
    }
}

// A pickle says how many words a tensor has and of which type, a record has them, and libtorch does not compare the
// two.
bool Interpreter::has_its_words(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.layout() != at::kStrided || !tensor.device().is_cpu() || tensor.numel() == 0)
        return true;
    const std::uint64_t bytes = tensor.storage().nbytes();
    if (records_.contains(bytes) && ::malloc_usable_size(tensor.storage().data()) >= bytes) return true;
    refuse("torchscript.bad_archive", "a tensor of another size than its record");
    return false;
}

TensorRef Interpreter::attribute(const at::Tensor& tensor, const std::string& path) {
    if (!expect(tensor.defined() && tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
                    !tensor.is_quantized() && is_known_type(tensor.scalar_type()),
                "a tensor of another kind than plain numbers"))
        return {};
    // One object of libtorch each time that an attribute is read, but another for each name: what has the same words in
    // the same order is the same.
    TensorRef& known = attributes_[tensor.unsafeGetTensorImpl()];
    if (known) return known;
    for (const auto& [object, other] : attributes_)
        if (other && other->words && other->words->is_alias_of(tensor) && other->words->sizes() == tensor.sizes() &&
            other->words->strides() == tensor.strides() && other->words->storage_offset() == tensor.storage_offset() &&
            other->words->scalar_type() == tensor.scalar_type())
        // Trained under one name: trained.
        {
            const auto name = names_.find(tensor.unsafeGetTensorImpl());
            if (name != names_.end() && trained_.contains(name->second)) trained_.insert(other->path);
            return known = other;
        }
    Sizes sizes;
    for (const std::int64_t each : tensor.sizes()) sizes.push_back({each, 0});
    known = made("", std::move(sizes), kind_of(tensor.scalar_type()));
    known->words = tensor;
    const auto name = names_.find(tensor.unsafeGetTensorImpl());
    known->path = name == names_.end() ? path : name->second;
    return known;
}

Value Interpreter::from(const c10::IValue& value, const std::string& path, std::size_t depth) {
    Value result;
    if (depth > kMaxDepth) {
        refuse("torchscript.too_large", "lists in lists");
        return result;
    }
    if (value.isTensor()) {
        result.type = Value::Type::tensor;
        if (!has_its_words(value.toTensor())) {
            result.tensor = number(0);
            return result;
        }
        result.tensor = path.empty() ? constant(value.toTensor()) : attribute(value.toTensor(), path);
    } else if (value.isBool()) {
        result.type = Value::Type::boolean;
        result.boolean = value.toBool();
    } else if (value.isInt()) {
        result.type = Value::Type::integer;
        result.integer = {value.toInt(), 0};
    } else if (value.isDouble()) {
        result.type = Value::Type::real;
        result.real = value.toDouble();
    } else if (value.isString()) {
        result.type = Value::Type::text;
        result.text = value.toStringRef();
    } else if (value.isDevice()) {
        result.type = Value::Type::text;
        result.text = "cpu";
    } else if (value.isList() || value.isTuple()) {
        result.type = Value::Type::list;
        result.items = std::make_shared<std::vector<Value>>();
        std::vector<c10::IValue> elements;
        if (value.isTuple())
            elements = value.toTupleRef().elements().vec();
        else
            elements = value.toListRef().vec();
        if (!expect(elements.size() <= kMaxItems, "a list of so many")) return result;
        for (std::size_t i = 0; i < elements.size() && !failed(); ++i)
            result.items->push_back(from(elements[i], path.empty() ? path : path + "." + std::to_string(i), depth + 1));
    } else if (value.isObject()) {
        result.type = Value::Type::object;
        result.object = value;
        result.path = path;
    } else if (!value.isNone()) {
        result.type = Value::Type::unknown;
    }
    return result;
}

// --- The end
// --------------------------------------------------------------------------------------------------------------

void Interpreter::finish(const Value& result) {
    const Value* first = &result;
    for (std::size_t depth = 0; first->is(Value::Type::list) && !first->items->empty() && depth < kMaxDepth; ++depth)
        first = &first->items->front();
    if (!first->is(Value::Type::tensor)) {
        status_ = fail("torchscript.no_output", "forward() gives no tensor");
        return;
    }
    const std::string name = use(first->tensor);
    if (failed()) return;
    graph_.set_name("forward");
    graph_.add_output()->set_name(name);
    onnx::ValueInfoProto* const input = graph_.add_input();
    input->set_name(input_->name);
    auto* const type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(input_->kind == Kind::real ? onnx::TensorProto_DataType_FLOAT
                                                   : onnx::TensorProto_DataType_INT64);
    for (const Size& each : input_->sizes) {
        auto* const dim = type->mutable_shape()->add_dim();
        if (each.is_fixed())
            dim->set_dim_value(each.fixed);
        else
            dim->set_dim_param("batch");
    }
    drop_unused();
}

// Nodes and initializers that the output does not depend on; then which initializers are none to be trained.
void Interpreter::drop_unused() {
    std::set<std::string> needed{graph_.output(0).name()};
    std::set<std::string> frozen;
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (int i = graph_.node_size() - 1; i >= 0; --i) {
        onnx::NodeProto& each = *graph_.mutable_node(i);
        if (std::none_of(each.output().begin(), each.output().end(),
                         [&](const std::string& output) { return needed.contains(output); }))
            continue;
        needed.insert(each.input().begin(), each.input().end());
        *nodes.Add() = std::move(each);
    }
    std::reverse(nodes.begin(), nodes.end());
    graph_.mutable_node()->Swap(&nodes);
    auto& initializers = *graph_.mutable_initializer();
    for (int i = initializers.size() - 1; i >= 0; --i)
        if (!needed.contains(initializers[i].name())) initializers.DeleteSubrange(i, 1);
    for (const auto& [object, each] : attributes_) {
        if (!each || !needed.contains(each->path) || each->kind != Kind::real) continue;
        if (!trained_.contains(each->path) && frozen.insert(each->path).second) {
            onnx::StringStringEntryProto& entry = *model_.add_metadata_props();
            entry.set_key("quern.frozen");
            entry.set_value(each->path);
        }
    }
}

// --- Arguments
// ------------------------------------------------------------------------------------------------------------

const Value& Interpreter::value_of(const torch::jit::Value* value) {
    static const Value kNone{Value::Type::unknown};
    const auto found = values_.find(value);
    if (found != values_.end() && !found->second.is(Value::Type::unknown)) return found->second;
    return kNone;
}

const Value& Interpreter::arg(std::size_t index) {
    static const Value kNone{};
    return index < node_->inputs().size() ? value_of(node_->inputs()[index]) : kNone;
}

const Value* Interpreter::named(std::string_view name) {
    const auto* const schema = node_->maybeSchema();
    if (schema == nullptr) return nullptr;
    const auto& arguments = schema->arguments();
    for (std::size_t i = 0; i < arguments.size() && i < node_->inputs().size(); ++i)
        if (arguments[i].name() == name) {
            const Value& value = value_of(node_->inputs()[i]);
            return value.is(Value::Type::none) ? nullptr : &value;
        }
    return nullptr;
}

TensorRef Interpreter::tensor_of(const Value& value) {
    if (value.is(Value::Type::tensor) && value.tensor) {
        expect(value.tensor->seen == *value.tensor->changes, "a view of what has changed in place");
        return value.tensor;
    }
    if (value.is(Value::Type::real)) return number(value.real);
    if (value.is(Value::Type::boolean)) return constant(at::scalar_tensor(value.boolean, at::kBool));
    if (value.is(Value::Type::integer)) {
        if (value.integer.is_fixed()) return constant(at::scalar_tensor(value.integer.fixed, at::kLong));
        const Size each = value.integer;
        auto name = batch();
        name = node("Squeeze",
                    {node("Add", {node("Mul", {name, whole_list({each.batches})}).output(0), whole_list({each.fixed})})
                         .output(0),
                     whole_list({0})})
                   .output(0);
        return made(name, {}, Kind::whole);
    }
    refuse("torchscript.unsupported", "an argument that is no tensor");
    return number(0);
}

TensorRef Interpreter::tensor(std::size_t index) { return tensor_of(arg(index)); }

TensorRef Interpreter::tensor_named(std::string_view name) {
    const Value* const value = named(name);
    return value == nullptr ? TensorRef{} : tensor_of(*value);
}

std::int64_t Interpreter::fixed_of(const Value& value) {
    if (value.is(Value::Type::boolean)) return value.boolean ? 1 : 0;
    expect(value.is(Value::Type::integer) && value.integer.is_fixed(),
           "a whole number that is not known beforehand for every batch");
    return value.integer.fixed;
}

double Interpreter::real_of(const Value& value) {
    if (value.is(Value::Type::real)) return value.real;
    if (value.is(Value::Type::tensor) && value.tensor->words && value.tensor->path.empty() &&
        value.tensor->words->numel() == 1)
        return value.tensor->words->item().toDouble();
    return static_cast<double>(fixed_of(value));
}

bool Interpreter::boolean_of(const Value& value) {
    if (value.is(Value::Type::boolean)) return value.boolean;
    if (value.is(Value::Type::integer) && value.integer.is_fixed()) return value.integer.fixed != 0;
    if (value.is(Value::Type::real)) return value.real != 0;
    if (value.is(Value::Type::tensor) && value.tensor->words && value.tensor->path.empty() &&
        value.tensor->words->numel() == 1)
        return value.tensor->words->item().toDouble() != 0;
    expect(false, "a condition that depends on data, or on how large a batch is");
    return false;
}

std::int64_t Interpreter::whole(std::string_view name, std::int64_t otherwise) {
    const Value* const value = named(name);
    return value == nullptr ? otherwise : fixed_of(*value);
}
double Interpreter::real(std::string_view name, double otherwise) {
    const Value* const value = named(name);
    return value == nullptr ? otherwise : real_of(*value);
}
bool Interpreter::flag(std::string_view name, bool otherwise) {
    const Value* const value = named(name);
    return value == nullptr ? otherwise : boolean_of(*value);
}
std::string Interpreter::text(std::string_view name) {
    const Value* const value = named(name);
    return value != nullptr && value->is(Value::Type::text) ? value->text : std::string();
}

Sizes Interpreter::sizes_of(const Value& value) {
    if (value.is(Value::Type::integer)) return {value.integer};
    if (!expect(value.is(Value::Type::list), "a list of whole numbers")) return {};
    Sizes result;
    for (const Value& each : *value.items) {
        if (!expect(each.is(Value::Type::integer), "whole numbers")) return {};
        result.push_back(each.integer);
    }
    return result;
}
Interpreter::Ints Interpreter::ints_of(const Value& value) {
    Ints result;
    for (const Size& each : sizes_of(value)) {
        if (!expect(each.is_fixed(), "whole numbers that depend on how large a batch is")) return {};
        result.push_back(each.fixed);
    }
    return result;
}
Interpreter::Ints Interpreter::ints(std::string_view name) {
    const Value* const value = named(name);
    return value == nullptr ? Ints{} : ints_of(*value);
}

std::size_t Interpreter::axis_of(std::int64_t axis, std::size_t rank) {
    const auto size = static_cast<std::int64_t>(rank);
    if (!expect(axis >= -size && axis < size, "axis " + std::to_string(axis) + " of " + std::to_string(rank))) return 0;
    return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

// --- Results
// --------------------------------------------------------------------------------------------------------------

void Interpreter::give(Value value, std::size_t output) {
    if (!failed() && output < outputs_.size()) outputs_[output] = std::move(value);
}
void Interpreter::give(TensorRef tensor, std::size_t output) {
    Value value;
    value.type = Value::Type::tensor;
    value.tensor = std::move(tensor);
    give(std::move(value), output);
}
void Interpreter::give(Size integer) {
    Value value;
    value.type = Value::Type::integer;
    value.integer = integer;
    give(std::move(value));
}
void Interpreter::give_real(double number) {
    Value value;
    value.type = Value::Type::real;
    value.real = number;
    give(std::move(value));
}
void Interpreter::give_boolean(bool holds) {
    Value value;
    value.type = Value::Type::boolean;
    value.boolean = holds;
    give(std::move(value));
}
void Interpreter::give_list(std::vector<Value> items, std::size_t output) {
    if (!expect(items.size() <= kMaxItems, "a list of so many")) return;
    Value value;
    value.type = Value::Type::list;
    value.items = std::make_shared<std::vector<Value>>(std::move(items));
    give(std::move(value), output);
}
void Interpreter::give_list(const std::vector<TensorRef>& tensors) {
    std::vector<Value> items;
    for (const TensorRef& each : tensors) {
        items.emplace_back();
        items.back().type = Value::Type::tensor;
        items.back().tensor = each;
    }
    give_list(std::move(items));
}

}  // namespace quern::compute::torchscript
