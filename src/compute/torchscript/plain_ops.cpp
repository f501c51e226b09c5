// Numbers, lists, flags, branches and attributes: what is known while the graph is gone through.
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "compute/torchscript/interpreter.h"

namespace quern::compute::torchscript {
namespace {

// A constant of one number is that number: traces have sizes as tensors.
Value number_of(const Value& value) {
    const bool is_constant =
        value.is(Value::Type::tensor) && value.tensor->words && value.tensor->path.empty() && value.tensor->rank() == 0;
    if (!is_constant) return value;
    Value result;
    const at::Scalar number = value.tensor->words->item();
    if (value.tensor->kind == Kind::real) {
        result.type = Value::Type::real;
        result.real = number.toDouble();
    } else {
        result.type = Value::Type::integer;
        result.integer = {number.toLong(), 0};
    }
    return result;
}

}  // namespace

std::span<const Interpreter::Operation> Interpreter::plain_operations() {
    using I = Interpreter;
    static constexpr Operation kOperations[] = {
        {"prim::Constant", &I::constant_node},
        {"prim::GetAttr", &I::get_attribute},
        {"prim::SetAttr", &I::set_attribute},
        {"prim::If", &I::branch},
        {"prim::Loop", &I::loop},
        {"prim::ListConstruct", &I::list},
        {"prim::TupleConstruct", &I::list},
        {"prim::ListUnpack", &I::unpack},
        {"prim::TupleUnpack", &I::unpack},
        {"prim::TupleIndex", &I::tuple_index},
        {"prim::RaiseException", &I::raise},
        {"prim::Uninitialized", &I::uninitialized},
        {"prim::NumToTensor", &I::forward_argument},
        {"prim::unchecked_cast", &I::forward_argument},
        {"prim::data", &I::forward_argument},
        {"prim::Print", &I::ignore},
        {"prim::dtype", &I::dtype},
        {"prim::device", &I::device},
        {"prim::layout", &I::device},
        {"prim::requires_grad", &I::says_true},
        {"prim::is_cuda", &I::says_false},
        {"prim::is_nested", &I::says_false},
        {"prim::is_sparse", &I::says_false},
        {"prim::is_quantized", &I::says_false},
        {"prim::max", &I::extreme},
        {"prim::min", &I::extreme},
        {"aten::Int", &I::to_integer},
        {"aten::IntImplicit", &I::to_integer},
        {"aten::ScalarImplicit", &I::forward_argument},
        {"aten::item", &I::forward_argument},
        {"aten::Float", &I::to_real},
        {"aten::FloatImplicit", &I::to_real},
        {"aten::Bool", &I::to_boolean},
        {"aten::len", &I::length},
        {"aten::__getitem__", &I::item},
        {"aten::append", &I::append},
        {"aten::__contains__", &I::contains},
        {"aten::find", &I::contains},
        {"aten::list", &I::copy_list},
        {"aten::__is__", &I::identical},
        {"aten::__isnot__", &I::not_identical},
        {"aten::__not__", &I::negate_flag},
        {"aten::__and__", &I::flag_and_or},
        {"aten::__or__", &I::flag_and_or},
        {"aten::floordiv", &I::floor_division},
        {"aten::floor_divide", &I::floor_division},
        {"aten::remainder", &I::remainder},
        {"aten::any", &I::any_or_all},
        {"aten::all", &I::any_or_all},
        {"aten::format", &I::message},
        {"aten::str", &I::message},
        {"aten::warn", &I::ignore},
        {"aten::is_grad_enabled", &I::says_true},
        {"aten::is_contiguous", &I::says_true},
        {"aten::is_autocast_enabled", &I::says_false},
        {"aten::is_floating_point", &I::is_floating_point},
        {"aten::size", &I::size},
        {"aten::dim", &I::dimensions},
        {"aten::numel", &I::count},
    };
    return kOperations;
}

// --- Where it goes
// ------------------------------------------------------------------------------------------------------------

void Interpreter::constant_node() {
    const auto value = torch::jit::toIValue(node_->output());
    if (value) return give(from(*value, ""));
    if (node_->output()->type()->kind() == c10::TypeKind::NoneType || !node_->hasAttribute(c10::attr::value))
        return give(Value{});
    expect(false, "a constant of another kind");
}

void Interpreter::get_attribute() {
    const Value& owner = arg(0);
    const std::string& name = node_->s(c10::attr::name);
    if (!expect(owner.is(Value::Type::object), "an attribute of what is no module")) return;
    const auto object = owner.object.toObject();
    if (!expect(object->type()->hasAttribute(name), "no attribute " + name)) return;
    give(from(object->getAttr(name), owner.path.empty() ? name : owner.path + "." + name));
}

// Counts of batches alone, which nothing depends on.
void Interpreter::set_attribute() {
    const Value& value = arg(1);
    expect(value.is(Value::Type::tensor) && value.tensor->kind == Kind::whole && value.tensor->rank() == 0,
           "a module that changes its attributes");
}

void Interpreter::branch() {
    const torch::jit::Node& node = *node_;
    const bool taken = boolean_of(arg(0));
    if (failed()) return;
    const torch::jit::Block& block = *node.blocks()[taken ? 0 : 1];
    run_block(block);
    node_ = &node;
    outputs_.clear();
    for (const torch::jit::Value* const each : block.outputs()) outputs_.push_back(value_of(each));
}

void Interpreter::loop() {
    const torch::jit::Node& node = *node_;
    const std::int64_t count = fixed_of(arg(0));
    bool goes_on = boolean_of(arg(1));
    std::vector<Value> carried;
    for (std::size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(arg(i));
    const torch::jit::Block& body = *node.blocks()[0];
    for (std::int64_t i = 0; i < count && goes_on && !failed(); ++i) {
        if (++steps_ > kMaxSteps)
            return refuse("torchscript.too_long", "a loop that does not end within so many steps");
        Value number;
        number.type = Value::Type::integer;
        number.integer = {i, 0};
        values_[body.inputs()[0]] = std::move(number);
        for (std::size_t k = 0; k < carried.size(); ++k) values_[body.inputs()[k + 1]] = carried[k];
        run_block(body);
        node_ = &node;
        if (failed()) return;
        goes_on = boolean_of(value_of(body.outputs()[0]));
        for (std::size_t k = 0; k < carried.size(); ++k) carried[k] = value_of(body.outputs()[k + 1]);
    }
    outputs_ = std::move(carried);
}

void Interpreter::raise() { refuse("torchscript.raises", arg(0).is(Value::Type::text) ? arg(0).text : "an exception"); }
void Interpreter::ignore() { give(Value{}); }
void Interpreter::uninitialized() {}
void Interpreter::says_true() { give_boolean(true); }
void Interpreter::says_false() { give_boolean(false); }

// --- Lists
// ----------------------------------------------------------------------------------------------------------------

void Interpreter::list() {
    std::vector<Value> items;
    for (std::size_t i = 0; i < node_->inputs().size(); ++i) items.push_back(arg(i));
    give_list(std::move(items));
}

void Interpreter::unpack() {
    const Value all = arg(0);
    if (!expect(all.is(Value::Type::list) && all.items->size() == outputs_.size(), "a list of another length")) return;
    for (std::size_t i = 0; i < outputs_.size(); ++i) give((*all.items)[i], i);
}

void Interpreter::tuple_index() { item(); }

void Interpreter::item() {
    const Value& all = arg(0);
    std::int64_t index = fixed_of(arg(1));
    if (!expect(all.is(Value::Type::list), "an item of what is no list")) return;
    const auto size = static_cast<std::int64_t>(all.items->size());
    if (index < 0) index += size;
    if (expect(index >= 0 && index < size, "an item that is not there"))
        give(Value((*all.items)[static_cast<std::size_t>(index)]));
}

void Interpreter::length() {
    const Value& all = arg(0);
    if (all.is(Value::Type::list)) return give(Size{static_cast<std::int64_t>(all.items->size()), 0});
    if (all.is(Value::Type::tensor) && expect(all.tensor->rank() > 0, "the length of a number"))
        return give(all.tensor->sizes[0]);
    if (all.is(Value::Type::text)) return give(Size{static_cast<std::int64_t>(all.text.size()), 0});
    expect(false, "the length of what is no list");
}

void Interpreter::append() {
    const Value all = arg(0);
    if (!expect(all.is(Value::Type::list) && all.items->size() < kMaxItems, "a list, not too long")) return;
    all.items->push_back(arg(1));
    give(Value(all));
}

void Interpreter::copy_list() {
    const Value& all = arg(0);
    if (expect(all.is(Value::Type::list), "a list")) give_list(std::vector<Value>(*all.items));
}

void Interpreter::contains() {
    const Value& all = arg(0);
    if (op_ == "aten::find") {
        const Value& part = arg(1);
        if (!expect(all.is(Value::Type::text) && part.is(Value::Type::text), "texts")) return;
        const std::size_t place = all.text.find(part.text, static_cast<std::size_t>(whole("start", 0)));
        return give(Size{place == std::string::npos ? -1 : static_cast<std::int64_t>(place), 0});
    }
    if (!expect(all.is(Value::Type::list), "a list")) return;
    bool found = false;
    for (const Value& each : *all.items) found = found || are_equal(each, arg(1));
    give_boolean(found);
}

void Interpreter::any_or_all() {
    const Value& all = arg(0);
    if (!expect(all.is(Value::Type::list), "a condition that depends on data")) return;
    const bool any = op_ == "aten::any";
    bool result = !any;
    for (const Value& each : *all.items) result = any ? result || boolean_of(each) : result && boolean_of(each);
    give_boolean(result);
}

// --- Numbers
// --------------------------------------------------------------------------------------------------------------

bool Interpreter::are_equal(const Value& a, const Value& b, std::size_t depth) {
    if (!expect(depth < kMaxDepth, "lists in lists") || ++steps_ > kMaxSteps) return false;
    if (a.is(Value::Type::text) || b.is(Value::Type::text)) return a.type == b.type && a.text == b.text;
    if (a.is(Value::Type::list) && b.is(Value::Type::list)) {
        bool equal = a.items->size() == b.items->size();
        for (std::size_t i = 0; equal && i < a.items->size(); ++i)
            equal = are_equal((*a.items)[i], (*b.items)[i], depth + 1);
        return equal;
    }
    if (a.is(Value::Type::none) || b.is(Value::Type::none)) return a.type == b.type;
    if (a.is(Value::Type::tensor) && b.is(Value::Type::tensor)) return a.tensor == b.tensor;
    if (!expect(a.is_number() && b.is_number(), "a comparison of other things than numbers, texts and lists"))
        return false;
    // Sizes that depend on the batch are equal where they are for every batch.
    if (a.is(Value::Type::integer) && b.is(Value::Type::integer)) return a.integer == b.integer;
    return real_of(a) == real_of(b);
}

bool Interpreter::compare_plain(std::string_view op) {
    const Value a = number_of(arg(0));
    const Value b = number_of(arg(1));
    if (a.is(Value::Type::tensor) || b.is(Value::Type::tensor)) return false;
    if (op == "eq" || op == "ne") {
        give_boolean(are_equal(a, b) == (op == "eq"));
        return true;
    }
    std::optional<int> order;
    if (a.is(Value::Type::integer) && b.is(Value::Type::integer)) {
        order = compared(a.integer, b.integer);
    } else {
        const double first = real_of(a);
        const double second = real_of(b);
        order = first < second ? -1 : first > second ? 1 : 0;
    }
    if (!expect(order.has_value(), "a comparison whose result depends on how large a batch is")) return true;
    give_boolean(op == "lt" ? *order < 0 : op == "le" ? *order <= 0 : op == "gt" ? *order > 0 : *order >= 0);
    return true;
}

// An operation on numbers or lists; false where a tensor is in it.
bool Interpreter::plain(std::string_view op) {
    const bool is_swapped = op == "rsub";
    if (is_swapped) op = "sub";
    const Value a = number_of(arg(is_swapped ? 1 : 0));
    const Value b = number_of(arg(is_swapped ? 0 : 1));
    if (op == "sub" && real("alpha", 1) != 1) return false;
    if (op == "add" && named("alpha") != nullptr && real("alpha", 1) != 1) return false;
    if (a.is(Value::Type::tensor) || b.is(Value::Type::tensor)) return false;
    if (a.is(Value::Type::list) && b.is(Value::Type::list) && op == "add") {
        std::vector<Value> both = *a.items;
        if (!expect(both.size() + b.items->size() <= kMaxItems, "a list of so many")) return true;
        both.insert(both.end(), b.items->begin(), b.items->end());
        give_list(std::move(both));
        return true;
    }
    if (a.is(Value::Type::list) && b.is(Value::Type::integer) && op == "mul") {
        std::vector<Value> all;
        const std::int64_t count = fixed_of(b);
        for (std::int64_t i = 0; i < count && all.size() <= kMaxItems; ++i)
            all.insert(all.end(), a.items->begin(), a.items->end());
        if (!a.items->empty()) give_list(std::move(all));
        return true;
    }
    if (!expect(a.is_number() && b.is_number(), "an operation on other things than numbers")) return true;
    if (a.is(Value::Type::integer) && b.is(Value::Type::integer)) {
        if (op == "add" || op == "sub") {
            give(combined(a.integer, b.integer, op == "add" ? 1 : -1));
            return true;
        }
        if (op == "mul") {
            give(times(a.integer, b.integer));
            return true;
        }
        if (op == "min" || op == "max") {
            const auto order = compared(a.integer, b.integer);
            if (expect(order.has_value(), "it depends on how large a batch is"))
                give((*order < 0) == (op == "min") ? a.integer : b.integer);
            return true;
        }
    }
    const double first = real_of(a);
    const double second = real_of(b);
    if (failed()) return true;
    give_real(op == "add"   ? first + second
              : op == "sub" ? first - second
              : op == "mul" ? first * second
              : op == "div" ? first / second
              : op == "min" ? std::min(first, second)
              : op == "max" ? std::max(first, second)
                            : std::pow(first, second));
    return true;
}

void Interpreter::forward_argument() {
    const Value& value = arg(0);
    if (op_ == "aten::ScalarImplicit" || op_ == "aten::item") {
        if (value.is(Value::Type::tensor)) {
            const double number = real_of(value);
            return value.tensor->kind == Kind::real ? give_real(number)
                                                    : give(Size{static_cast<std::int64_t>(number), 0});
        }
    }
    give(Value(value));
}

void Interpreter::to_integer() {
    const Value value = number_of(arg(0));
    if (value.is(Value::Type::integer)) return give(value.integer);
    const double number = real_of(value);
    if (expect(number > -0x1p62 && number < 0x1p62, "a number that is no whole one of 64 bits"))
        give(Size{static_cast<std::int64_t>(number), 0});
}
void Interpreter::to_real() { give_real(real_of(arg(0))); }
void Interpreter::to_boolean() { give_boolean(boolean_of(arg(0))); }
void Interpreter::negate_flag() { give_boolean(!boolean_of(arg(0))); }

void Interpreter::floor_division() {
    const Value a = number_of(arg(0));
    const Value b = number_of(arg(1));
    if (!expect(a.is_number() && b.is_number(), "a division of tensors with rounding")) return;
    if (a.is(Value::Type::integer) && b.is(Value::Type::integer)) return give(divided(a.integer, b.integer));
    give_real(std::floor(real_of(a) / real_of(b)));
}

void Interpreter::remainder() {
    const Value a = number_of(arg(0));
    const Value b = number_of(arg(1));
    if (!expect(a.is(Value::Type::integer) && b.is(Value::Type::integer), "a remainder of what is no whole number"))
        return;
    const Size quotient = divided(a.integer, b.integer);
    give(combined(a.integer, times(quotient, b.integer), -1));
}

void Interpreter::flag_and_or() {
    const Value& a = arg(0);
    const Value& b = arg(1);
    if (a.is(Value::Type::tensor) || b.is(Value::Type::tensor)) return logical();
    const bool first = boolean_of(a);
    const bool second = boolean_of(b);
    give_boolean(op_ == "aten::__and__" ? first && second : first || second);
}

// Objects, of which only tensors, lists and modules have an identity here.
void Interpreter::identical() {
    const Value& a = arg(0);
    const Value& b = arg(1);
    if (a.is(Value::Type::tensor) && b.is(Value::Type::tensor)) return give_boolean(a.tensor == b.tensor);
    if (a.is(Value::Type::list) && b.is(Value::Type::list)) return give_boolean(a.items == b.items);
    give_boolean(a.type == b.type && (a.is(Value::Type::none) || are_equal(a, b)));
}
void Interpreter::not_identical() {
    identical();
    if (!failed() && outputs_[0].is(Value::Type::boolean)) outputs_[0].boolean = !outputs_[0].boolean;
}

void Interpreter::message() {
    Value value;
    value.type = Value::Type::text;
    if (arg(0).is(Value::Type::text)) value.text = arg(0).text;
    give(std::move(value));
}

// --- What a tensor is
// -----------------------------------------------------------------------------------------------------

void Interpreter::dtype() {
    const Kind kind = tensor(0)->kind;
    const at::ScalarType type = kind == Kind::real ? at::kFloat : kind == Kind::whole ? at::kLong : at::kBool;
    give(Size{static_cast<std::int64_t>(type), 0});
}
void Interpreter::device() {
    Value value;
    value.type = Value::Type::text;
    value.text = "cpu";
    give(std::move(value));
}
void Interpreter::is_floating_point() { give_boolean(tensor(0)->kind == Kind::real); }
void Interpreter::dimensions() { give(Size{static_cast<std::int64_t>(tensor(0)->rank()), 0}); }
void Interpreter::count() { give(product(tensor(0)->sizes)); }

void Interpreter::size() {
    const TensorRef x = tensor(0);
    if (named("dim") != nullptr) {
        const std::size_t axis = axis_of(whole("dim", 0), x->rank());
        return failed() ? void() : give(x->sizes[axis]);
    }
    std::vector<Value> items;
    for (const Size& each : x->sizes) {
        items.emplace_back();
        items.back().type = Value::Type::integer;
        items.back().integer = each;
    }
    give_list(std::move(items));
}

}  // namespace quern::compute::torchscript
