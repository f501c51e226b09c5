// What all operations need: the tensors, their slots, errors; and the run over the nodes.
#include "compute/program/lowering.h"

#include <algorithm>
#include <utility>

#include "compute/program/network_lowering.h"

namespace quern::compute::program {
namespace {

constexpr std::int64_t kMinWord = -0x80000000LL;
constexpr std::int64_t kMaxWord = 0x7fffffffLL;
constexpr std::size_t kMaxShownLayers = 32;  // of linear layers in an error

std::string text_of(const Dims& dims) {
    std::string result = "[";
    for (const std::uint64_t dim : dims) result.append(result.size() == 1 ? "" : ",").append(std::to_string(dim));
    return result + "]";
}

// The matrix of these elements in their order that takes the fewest tiles, of equal ones that with the longest columns.
Shape compact(const Dims& dims) {
    if (dims.size() < 2) return vector_shape(u32(product(dims)));
    Shape best;
    for (std::size_t split = 1; split < dims.size(); ++split) {
        const Shape shape =
            matrix_shape(u32(product(std::span(dims).first(split))), u32(product(std::span(dims).subspan(split))));
        if (split == 1 || shape.tiles() <= best.tiles()) best = shape;
    }
    return best;
}

bool is_infinite(std::uint32_t word) { return (word & 0x7fffffff) == 0x7f800000; }
bool is_nan(std::uint32_t word) { return (word & 0x7fffffff) > 0x7f800000; }

bool is_uniform(std::span<const std::uint32_t> words) {
    return std::all_of(words.begin(), words.end(), [&](std::uint32_t word) { return word == words[0]; });
}

// Below and on the diagonal of each matrix one word, above it another.
bool is_triangular(std::span<const std::uint32_t> words, std::uint64_t side) {
    if (side < 2 || words.size() % (side * side) != 0 || words[0] == words[1]) return false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::uint64_t row = i / side % side;
        if (words[i] != words[i % side <= row ? 0 : 1]) return false;
    }
    return true;
}

// 0, 1, 2, ... of every row, times a step, plus a start: whole numbers.
struct Progression {
    std::int32_t start = 0;
    std::int32_t step = 0;
};
std::optional<Progression> progression_of(std::span<const std::uint32_t> words, std::uint64_t columns) {
    if (columns < 2) return {};
    const auto whole = [&](std::size_t i) { return static_cast<std::int32_t>(words[i]); };
    const std::int64_t step = std::int64_t{whole(1)} - whole(0);
    if (step < kMinWord || step > kMaxWord) return {};
    for (std::size_t i = 0; i < words.size(); ++i)
        if (whole(i) != whole(0) + step * static_cast<std::int64_t>(i % columns)) return {};
    return Progression{whole(0), static_cast<std::int32_t>(step)};
}

}  // namespace

Features apply_network(Builder& b, const Network& network, const NetworkTraining& training, const Features& x,
                       const LayersPass& pass, LayersSlots& slots) {
    if (b.failed()) return {};
    return Lowering(b, network, training, pass, slots).run(x);
}

// --- Errors
// ---------------------------------------------------------------------------------------------------------------

void Lowering::refuse(std::string_view name, std::string detail) { b_.set_error(name, std::move(detail)); }

bool Lowering::expect(bool holds, std::string_view detail) {
    if (!holds) refuse("onnx.bad_node", std::string(detail));
    return holds && !b_.failed();
}

// --- The run
// ---------------------------------------------------------------------------------------------------------------

Features Lowering::run(const Features& x) {
    for (const std::string& name : training_.frozen)
        if (!network_.initializers.contains(name)) refuse("onnx.unknown_frozen", name);
    find_trained();
    find_weights();
    for (const auto& [name, tensor] : network_.initializers) {
        Item item{tensor.dims};
        item.name = name;
        item.stored_name = name;
        if (tensor.is_float)
            item.stored = &tensor;
        else
            item.known = tensor.whole;
        items_.emplace(name, std::move(item));
    }
    auto input = input_item(x);
    if (!input) return {};
    items_.insert_or_assign(network_.input, std::move(*input));
    for (number_ = 0; number_ < network_.nodes.size() && !b_.failed(); ++number_) {
        b_.cut();
        node_ = &network_.nodes[number_];
        const Operation* const operation = find_operation(node_->op);
        if (operation == nullptr) {
            std::string known;
            for (const Operation& each : operations()) known.append(known.empty() ? "" : ", ").append(each.name);
            refuse("onnx.unsupported_op", "known: " + known);
        } else if (node_->inputs.size() < operation->min_inputs || node_->inputs.size() > operation->max_inputs ||
                   node_->outputs.empty()) {
            refuse("onnx.bad_node", std::to_string(node_->inputs.size()) + " inputs, " +
                                        std::to_string(node_->outputs.size()) + " outputs");
        } else {
            (this->*operation->run)();
        }
        if (b_.failed())
            b_.locate("node " + std::to_string(number_) + " (" + node_->op +
                      (node_->name.empty() ? "" : " " + node_->name) + ")");
    }
    b_.cut();
    if (!b_.failed()) refuse_unknown_layers();
    if (b_.failed()) return {};
    const auto found = items_.find(network_.output);
    if (found == items_.end() || is_whole(found->second)) {
        refuse("onnx.unsupported", "the output " + network_.output + " is none that is computed in numbers");
        return {};
    }
    Item& output = found->second;
    const std::uint64_t columns = output.dims.size() < 2 ? 1 : output.dims.back();
    const Value result = words(output);
    return {b_.reshape(result, matrix_shape(u32(output.elements() / columns), u32(columns))), x.count, {}};
}

void Lowering::find_trained() {
    std::set<std::string_view> needed{network_.output};
    for (std::size_t i = network_.nodes.size(); i-- > 0;) {
        const NetworkNode& node = network_.nodes[i];
        const Operation* const operation = find_operation(node.op);
        if (operation == nullptr || std::none_of(node.outputs.begin(), node.outputs.end(),
                                                 [&](const std::string& each) { return needed.contains(each); }))
            continue;
        for (std::size_t k = 0; k < node.inputs.size(); ++k)
            if (((operation->differentiable >> std::min<std::size_t>(k, 31)) & 1) != 0) needed.insert(node.inputs[k]);
    }
    for (const auto& [name, tensor] : network_.initializers) {
        // Exporters give folded constants such names, and a number alone that is one is a constant. So is what holds
        // infinities: a mask.
        const bool is_folded = tensor.elements() == 1 && (name.find("::") != std::string::npos || name[0] == '/');
        const bool is_constant =
            is_folded || (tensor.is_float && std::any_of(tensor.floats->begin(), tensor.floats->end(), is_infinite));
        if (tensor.is_float && needed.contains(name) && !training_.frozen.contains(name) &&
            !network_.frozen.contains(name) && !is_constant)
            trained_.insert(name);
    }
}

// Exporters turn a linear layer's weight in a node of its own, or write it turned already.
void Lowering::find_weights() {
    constexpr std::string_view kMoves[] = {"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"};
    for (const auto& [name, tensor] : network_.initializers)
        if (tensor.is_float) weights_.insert(name);
    for (const NetworkNode& node : network_.nodes)
        if (std::find(std::begin(kMoves), std::end(kMoves), node.op) != std::end(kMoves) && !node.inputs.empty() &&
            !node.outputs.empty() && weights_.contains(node.inputs[0]))
            weights_.insert(node.outputs[0]);
}

void Lowering::refuse_unknown_layers() {
    const std::string* const unused = precisions_.unused();
    if (unused == nullptr) return;
    std::string known;
    for (std::size_t i = 0; i < std::min(linear_.size(), kMaxShownLayers); ++i)
        known.append(known.empty() ? "" : ", ").append(linear_[i]);
    refuse("onnx.unknown_layer", "\"" + *unused + "\" has a precision and no linear layer of its own; linear layers: " +
                                     (known.empty() ? "none" : known) +
                                     (linear_.size() > kMaxShownLayers ? ", ..." : ""));
}

std::optional<Item> Lowering::input_item(const Features& x) {
    Item item;
    item.name = network_.input;
    item.value = x.rows;
    const Shape shape = b_.shape(x.rows);
    item.dims.push_back(x.count);
    if (x.image) {
        for (const std::uint64_t dim : {shape.columns(), x.image->height, x.image->width}) item.dims.push_back(dim);
        item.places = true;
    } else {
        const std::uint64_t size = shape.elements() / x.count;
        // [n, ...] as the network has it, where that is as much.
        std::vector<std::uint64_t> wanted = network_.input_dims;
        if (wanted.size() > 2 && product(std::span(wanted).subspan(1)) == size)
            item.dims.insert(item.dims.end(), wanted.begin() + 1, wanted.end());
        else
            item.dims.push_back(size);
    }
    const std::vector<std::uint64_t>& dims = network_.input_dims;
    bool fits = dims.empty() || dims.size() == item.dims.size();
    for (std::size_t i = 0; i < dims.size() && fits; ++i) fits = dims[i] == 0 || dims[i] == item.dims[i];
    if (!fits) {
        refuse("onnx.bad_input",
               network_.input + " is " + text_of(dims) + " (0: any), a batch is " + text_of(item.dims) +
                   (dims.empty() || dims[0] == 0 || dims[0] == item.dims[0] ? ""
                                                                            : "; export the batch as a dynamic axis"));
        return {};
    }
    return item;
}

// --- Inputs, outputs, attributes
// -----------------------------------------------------------------------------------------

bool Lowering::has(std::size_t input) const { return input < node_->inputs.size() && !node_->inputs[input].empty(); }

Item& Lowering::in(std::size_t input) {
    none_ = Item{};
    if (!has(input)) {
        refuse("onnx.bad_node", "input " + std::to_string(input) + " is left out");
        return none_;
    }
    const auto found = items_.find(node_->inputs[input]);
    if (found == items_.end()) {
        refuse("onnx.unsupported", node_->inputs[input] + ", an output that is not computed");
        return none_;
    }
    return found->second;
}

bool Lowering::count_known(std::uint64_t elements) {
    known_ += elements;
    if (known_ > kMaxKnownInAll) refuse("onnx.too_large", std::string(kTooManyKnown));
    return !b_.failed();
}

void Lowering::give(Item item, std::size_t output) {
    if (b_.failed()) return;
    if (item.known) {
        if (!count_known(item.known->size())) return;
        // Dims beside one of 0 are bounded too: sums and products of them go on.
        Dims extent = item.dims;
        for (std::uint64_t& dim : extent) dim = std::max<std::uint64_t>(dim, 1);
        if (product(extent) > kMaxKnownInAll) return refuse("onnx.too_large", text_of(item.dims));
    }
    if (output >= node_->outputs.size() || node_->outputs[output].empty()) return;
    item.name = node_->outputs[output];
    if (item.stored_name.empty()) item.stored_name = item.name;
    items_.insert_or_assign(node_->outputs[output], std::move(item));
}

const NetworkAttribute* Lowering::attribute(std::string_view name) const {
    const auto found = node_->attributes.find(std::string(name));
    return found == node_->attributes.end() ? nullptr : &found->second;
}

namespace {
template <class T>
std::optional<T> as(const NetworkAttribute* attribute) {
    const T* const value = attribute == nullptr ? nullptr : std::get_if<T>(attribute);
    return value == nullptr ? std::nullopt : std::optional<T>(*value);
}
}  // namespace

std::int64_t Lowering::integer(std::string_view name, std::int64_t otherwise) {
    const NetworkAttribute* const given = attribute(name);
    if (given != nullptr && !std::holds_alternative<std::int64_t>(*given)) expect(false, name);
    return as<std::int64_t>(given).value_or(otherwise);
}
float Lowering::number(std::string_view name, float otherwise) {
    const NetworkAttribute* const given = attribute(name);
    if (given != nullptr && !std::holds_alternative<float>(*given)) expect(false, name);
    return as<float>(given).value_or(otherwise);
}
std::string Lowering::text(std::string_view name, std::string_view otherwise) {
    const NetworkAttribute* const given = attribute(name);
    if (given != nullptr && !std::holds_alternative<std::string>(*given)) expect(false, name);
    return as<std::string>(given).value_or(std::string(otherwise));
}
std::vector<std::int64_t> Lowering::integers(std::string_view name) {
    const NetworkAttribute* const given = attribute(name);
    if (given != nullptr && !std::holds_alternative<std::vector<std::int64_t>>(*given)) expect(false, name);
    return as<std::vector<std::int64_t>>(given).value_or(std::vector<std::int64_t>{});
}

std::vector<std::int64_t> Lowering::list(std::size_t input) {
    Item& item = in(input);
    if (b_.failed()) return {};
    if (!item.known || item.dims.size() > 1 || item.known->size() > kMaxNodeEdges) {
        refuse("onnx.unsupported", "input " + std::to_string(input) + " is no list that is known beforehand");
        return {};
    }
    return *item.known;
}

std::optional<std::vector<std::int64_t>> Lowering::list_or_attribute(std::string_view name, std::size_t input) {
    if (has(input)) return list(input);
    if (attribute(name) != nullptr) return integers(name);
    return {};
}

std::optional<std::size_t> Lowering::axis_of(std::int64_t axis, std::size_t rank) {
    const auto dims = static_cast<std::int64_t>(rank);
    if (!expect(axis >= -dims && axis < dims, "axis " + std::to_string(axis) + " of " + std::to_string(rank) + " dims"))
        return {};
    return static_cast<std::size_t>(axis < 0 ? axis + dims : axis);
}

// --- Words
// --------------------------------------------------------------------------------------------------------------------

bool Lowering::is_whole(const Item& item) const {
    if (item.known) return true;
    return item.value.valid() && b_.type(item.value).dtype == DType::i32;
}

Shape Lowering::shape_of(const Dims& dims) {
    Shape shape;
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : dims) {
        if (dim == 0 || dim > vm::tensor::kMaxTensorElements / elements) {
            refuse("onnx.too_large", text_of(dims));
            return {};
        }
        elements *= dim;
    }
    const std::size_t joined = dims.size() > 4 ? dims.size() - 3 : 0;
    if (joined != 0) shape.dims[0] = u32(product(std::span(dims).first(joined)));
    for (std::size_t i = joined; i < dims.size(); ++i) shape.dims[4 - dims.size() + i] = u32(dims[i]);
    return shape;
}

Value Lowering::pattern_of(const std::vector<std::uint32_t>& words, DType dtype, const Dims& dims) {
    const Shape shape = shape_of(dims);
    if (b_.failed() || words.empty()) return {};
    if (is_uniform(words)) return b_.full(dtype, shape, words[0]);
    if (dims.size() >= 2 && dims[dims.size() - 2] == dims.back() && is_triangular(words, dims.back())) {
        const auto column = b_.iota(vector_shape(shape.columns()), 3);
        const auto above = b_.ilt(b_.iota(matrix_shape(shape.rows(), 1), 2), column);
        const auto low = b_.full(dtype, scalar_shape(), words[0]);
        const auto high = b_.full(dtype, scalar_shape(), words[1]);
        const auto matrix =
            b_.elementwise(dtype == DType::f32 ? ElementOp::select : ElementOp::iselect, {above, high, low});
        return broadcast_to(b_, matrix, shape);
    }
    const auto progression = progression_of(words, dims.empty() ? 1 : dims.back());
    if (dtype != DType::i32 || !progression) return {};
    const auto column = b_.iota(shape, 3);
    const auto steps = b_.imul(column, b_.constant_i32(progression->step));
    return b_.iadd(steps, b_.constant_i32(progression->start));
}

Value Lowering::slot_of(const Item& item) {
    const NetworkTensor& tensor = *item.stored;
    const bool trained = trained_.contains(item.stored_name);
    if (!trained) {
        if (const Value pattern = pattern_of(*tensor.floats, DType::f32, tensor.dims); pattern.valid()) return pattern;
    }
    if (b_.failed()) return {};
    (void)shape_of(tensor.dims);  // refuses what is too large
    if (trained && std::any_of(tensor.floats->begin(), tensor.floats->end(), is_nan)) {
        refuse("onnx.not_a_number", item.stored_name + " is to be trained");
        return {};
    }
    const std::string name = (trained ? "model." : "constant.") + item.stored_name;
    const Value slot = b_.slot(name, DType::f32, compact(tensor.dims), Initializer::given(tensor.floats),
                               trained ? vm::tensor::kSlotParameter : 0);
    if (trained) slots_.parameters.push_back({name, slot, tensor.dims.size() > 1});
    return slot;
}

void Lowering::materialise(Item& item) {
    if (item.value.valid() || b_.failed()) return;
    if (item.stored != nullptr) {
        Value& known = materials_[item.stored];
        if (!known.valid()) known = slot_of(item);
        item.value = known;
        return;
    }
    if (item.scalar) {
        const Shape shape = shape_of(item.dims);
        item.value = b_.full(DType::f32, shape, __builtin_bit_cast(std::uint32_t, *item.scalar));
        return;
    }
    if (!expect(item.known.has_value(), "a tensor without words")) return;
    std::vector<std::uint32_t> words;
    for (const std::int64_t each : *item.known) {
        // Ends of slices and the like, "as far as it goes", are past what a word holds; none of them is computed with.
        if (each < kMinWord || each > kMaxWord)
            return refuse("onnx.unsupported", item.name + " holds " + std::to_string(each) + ", not of 32 bits");
        words.push_back(u32(static_cast<std::uint64_t>(each)));
    }
    item.value = pattern_of(words, DType::i32, item.dims);
    if (item.value.valid() || b_.failed()) return;
    item.value = b_.slot("constant." + item.name, DType::i32, compact(item.dims),
                         Initializer::given(std::make_shared<const std::vector<std::uint32_t>>(std::move(words))));
}

Value Lowering::words(Item& item) {
    materialise(item);
    if (b_.failed() || !item.places) return item.value;
    const std::uint64_t places = item.elements() / item.dims[0] / item.dims[1];
    if (places == 1) return item.value;
    const auto rows = b_.reshape(item.value, Shape{{1, u32(item.dims[0]), u32(places), u32(item.dims[1])}});
    return b_.permute(rows, {0, 1, 3, 2});
}

Value Lowering::words(Item& item, const Shape& shape) {
    const Value plain = words(item);
    return b_.failed() || b_.shape(plain) == shape ? plain : b_.reshape(plain, shape);
}

Value Lowering::rows_of_places(Item& item) {
    materialise(item);
    if (b_.failed() || item.places) return item.value;
    if (!expect(item.dims.size() >= 2, "channels are the second of at least two dims")) return {};
    const std::uint32_t count = u32(item.dims[0]);
    const std::uint32_t channels = u32(item.dims[1]);
    const std::uint32_t places = u32(item.elements() / count / channels);
    const Shape rows = matrix_shape(count * places, channels);
    if (places == 1) return b_.reshape(item.value, rows);
    const auto matrices = b_.reshape(item.value, Shape{{1, count, channels, places}});
    return b_.reshape(b_.permute(matrices, {0, 1, 3, 2}), rows);
}

// --- The table
// ----------------------------------------------------------------------------------------------------------------

std::span<const Lowering::Operation> Lowering::operations() {
    constexpr std::uint32_t kFirst = 1;
    constexpr std::uint32_t kNone = 0;
    constexpr std::size_t kMany = kMaxNodeEdges;
    using L = Lowering;
    static constexpr Operation kOperations[] = {
        {"Abs", &L::abs, 1, 1, kFirst},
        {"Add", &L::add, 2, 2, kAllInputs},
        {"And", &L::logical_and, 2, 2, kNone},
        {"AveragePool", &L::average_pool, 1, 1, kFirst},
        {"BatchNormalization", &L::batch_norm, 5, 5, 7},
        {"Cast", &L::cast, 1, 1, kFirst},
        {"Clip", &L::clip, 1, 3, kFirst},
        {"Concat", &L::concat, 1, kMany, kAllInputs},
        {"Constant", &L::constant, 0, 0, kNone},
        {"ConstantOfShape", &L::constant_of_shape, 1, 1, kNone},
        {"Conv", &L::conv, 2, 3, kAllInputs},
        {"Div", &L::div, 2, 2, kAllInputs},
        {"Dropout", &L::dropout, 1, 3, kFirst},
        {"Elu", &L::elu, 1, 1, kFirst},
        {"Equal", &L::equal, 2, 2, kNone},
        {"Erf", &L::erf, 1, 1, kFirst},
        {"Exp", &L::exp, 1, 1, kFirst},
        {"Expand", &L::expand, 2, 2, kFirst},
        {"Flatten", &L::flatten, 1, 1, kFirst},
        {"GRU", &L::gru, 3, 6, 47},
        {"Gather", &L::gather, 2, 2, kFirst},
        {"Gemm", &L::gemm, 2, 3, kAllInputs},
        {"GlobalAveragePool", &L::global_average_pool, 1, 1, kFirst},
        {"GlobalMaxPool", &L::global_max_pool, 1, 1, kFirst},
        {"Greater", &L::greater, 2, 2, kNone},
        {"GreaterOrEqual", &L::greater_or_equal, 2, 2, kNone},
        {"HardSigmoid", &L::hard_sigmoid, 1, 1, kFirst},
        {"HardSwish", &L::hard_swish, 1, 1, kFirst},
        {"Identity", &L::identity, 1, 1, kFirst},
        {"InstanceNormalization", &L::instance_norm, 3, 3, kAllInputs},
        {"LSTM", &L::lstm, 3, 7, 111},
        {"LayerNormalization", &L::layer_norm, 2, 3, kAllInputs},
        {"LeakyRelu", &L::leaky_relu, 1, 1, kFirst},
        {"Less", &L::less, 2, 2, kNone},
        {"LessOrEqual", &L::less_or_equal, 2, 2, kNone},
        {"Log", &L::log, 1, 1, kFirst},
        {"LogSoftmax", &L::log_softmax, 1, 1, kFirst},
        {"MatMul", &L::matmul, 2, 2, kAllInputs},
        {"Max", &L::max, 1, kMany, kAllInputs},
        {"MaxPool", &L::max_pool, 1, 1, kFirst},
        {"Min", &L::min, 1, kMany, kAllInputs},
        {"Mul", &L::mul, 2, 2, kAllInputs},
        {"Neg", &L::neg, 1, 1, kFirst},
        {"Not", &L::logical_not, 1, 1, kNone},
        {"Or", &L::logical_or, 2, 2, kNone},
        {"PRelu", &L::prelu, 2, 2, kAllInputs},
        {"Pad", &L::pad, 1, 3, kFirst},
        {"Pow", &L::pow, 2, 2, kFirst},
        {"Range", &L::range, 3, 3, kNone},
        {"Reciprocal", &L::reciprocal, 1, 1, kFirst},
        {"ReduceMax", &L::reduce_max, 1, 1, kFirst},
        {"ReduceMean", &L::reduce_mean, 1, 1, kFirst},
        {"ReduceSum", &L::reduce_sum, 1, 2, kFirst},
        {"Relu", &L::relu, 1, 1, kFirst},
        {"Reshape", &L::reshape, 2, 2, kFirst},
        {"Selu", &L::selu, 1, 1, kFirst},
        {"Shape", &L::shape, 1, 1, kNone},
        {"Sigmoid", &L::sigmoid, 1, 1, kFirst},
        {"Slice", &L::slice, 1, 5, kFirst},
        {"Softmax", &L::softmax, 1, 1, kFirst},
        {"Softplus", &L::softplus, 1, 1, kFirst},
        {"Split", &L::split, 1, 2, kFirst},
        {"Sqrt", &L::sqrt, 1, 1, kFirst},
        {"Squeeze", &L::squeeze, 1, 2, kFirst},
        {"Sub", &L::sub, 2, 2, kAllInputs},
        {"Sum", &L::add, 1, kMany, kAllInputs},
        {"Tanh", &L::tanh, 1, 1, kFirst},
        {"Transpose", &L::transpose, 1, 1, kFirst},
        {"Unsqueeze", &L::unsqueeze, 1, 2, kFirst},
        {"Where", &L::where, 3, 3, 6},
    };
    return kOperations;
}

const Lowering::Operation* Lowering::find_operation(std::string_view name) {
    const auto all = operations();
    const auto found = std::lower_bound(all.begin(), all.end(), name,
                                        [](const Operation& each, std::string_view key) { return each.name < key; });
    return found == all.end() || found->name != name ? nullptr : &*found;
}

}  // namespace quern::compute::program
