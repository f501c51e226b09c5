#include "compute/program/builder.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace quern::compute::program {

namespace {

constexpr std::uint32_t kOneBits = 0x3f800000;

DType dtype_of(vm::tensor::arith::WordType type) { return static_cast<DType>(type); }

bool is_full(const Node& node, std::uint32_t word) { return node.op == Op::full && node.immediate == word; }

// Whether arithmetic gave its words: then a NaN has but one (doc/arithmetic.md). Others come in, or are moved, as they
// are.
bool is_computed(Op op) {
    return vm::tensor::is_kind(op, vm::tensor::OpKind::elementwise) ||
           vm::tensor::is_kind(op, vm::tensor::OpKind::reduction);
}

}  // namespace

Builder::Builder(std::vector<vm::tensor::DataSet> data) : data_(std::move(data)) {}

bool Builder::NodeLess::operator()(const Node& a, const Node& b) const {
    const auto key = [](const Node& n) {
        return std::tie(n.op, n.element, n.dtype, n.shape.dims, n.inputs, n.immediate, n.attributes);
    };
    return key(a) < key(b);
}

Status Builder::status() const {
    if (error_) return fail(*error_);
    return {};
}

void Builder::set_error(std::string_view name, std::string detail) {
    if (!error_) error_ = Error{name, std::move(detail)};
}

void Builder::locate(const std::string& place) {
    if (!error_ || located_) return;
    located_ = true;
    error_->detail = error_->detail.empty() ? place : place + ": " + error_->detail;
}

OperandType Builder::type(Value value) const {
    if (value.id >= entries_.size()) return {};
    const Node& node = entries_[value.id].node;
    return {node.dtype, node.shape};
}

bool Builder::usable(std::initializer_list<Value> values) {
    if (error_) return false;
    for (const Value value : values)
        if (value.id >= entries_.size()) {
            set_error("builder.invalid_value", "a value of no node");
            return false;
        }
    return true;
}

Value Builder::insert(Node node) {
    if (error_) return {};
    if (auto status = node.shape.validate(); !status) {
        error_ = status.error();
        return {};
    }
    if (const auto found = known_.find(node); found != known_.end()) return {found->second};
    if (entries_.size() >= 4 * vm::tensor::kMaxNodes) {
        set_error("builder.too_many_nodes", std::to_string(entries_.size()));
        return {};
    }
    const auto id = static_cast<std::uint32_t>(entries_.size());
    known_.emplace(node, id);
    entries_.push_back({std::move(node), false, {}});
    return {id};
}

Value Builder::window(Value index, std::uint32_t set, std::uint32_t stride, std::uint32_t length) {
    if (!usable({index})) return {};
    if (set >= data_.size() || type(index).dtype != DType::i32 || shape(index).columns() != 1) {
        set_error("builder.bad_window", "data tensor " + std::to_string(set) + " by " + shape(index).to_string());
        return {};
    }
    Node node;
    node.op = Op::window;
    node.dtype = vm::tensor::word_type(data_[set].type);
    node.shape = shape(index);
    node.shape.dims[3] = length;
    node.inputs = {index.id};
    node.attributes = {set, stride};
    return insert(std::move(node));
}

Value Builder::seed() {
    Node node;
    node.op = Op::seed;
    node.dtype = DType::i32;
    node.shape = vector_shape(4);
    return insert(std::move(node));
}

Value Builder::slot(std::string name, DType dtype, const Shape& shape, Initializer initializer, std::uint32_t flags) {
    if (error_) return {};
    for (const SlotEntry& other : slots_) {
        if (other.name != name) continue;
        if (reuses_slots_ && other.dtype == dtype && other.shape == shape) return other.value;
        set_error(reuses_slots_ ? "builder.missing_slot" : "builder.duplicate_slot", std::move(name));
        return {};
    }
    if (reuses_slots_) {
        set_error("builder.missing_slot", std::move(name));
        return {};
    }
    if (initializer.kind == Initializer::Kind::given && initializer.words->size() != shape.elements()) {
        set_error("builder.bad_words",
                  name + ": " + std::to_string(initializer.words->size()) + " for " + shape.to_string());
        return {};
    }
    Node node;
    node.op = Op::slot;
    node.dtype = dtype;
    node.shape = shape;
    node.attributes = {static_cast<std::uint32_t>(slots_.size())};
    const Value value = insert(std::move(node));
    if (value.valid()) slots_.push_back({std::move(name), dtype, shape, flags, std::move(initializer), value, value});
    return value;
}

void Builder::update(Value slot, Value next) {
    if (!usable({slot, next})) return;
    const Node& node = entries_[slot.id].node;
    if (node.op != Op::slot) return set_error("builder.not_a_slot", "node " + std::to_string(slot.id));
    SlotEntry& entry = slots_[node.attributes[0]];
    const OperandType given = type(next);
    if (given.dtype != entry.dtype || given.shape != entry.shape)
        return set_error("builder.bad_update",
                         entry.name + " is " + entry.shape.to_string() + ", got " + given.shape.to_string());
    entry.next = next;
}

void Builder::forget_updates() {
    for (SlotEntry& entry : slots_) entry.next = entry.value;
}

void Builder::set_loss_slot(Value slot) {
    if (!usable({slot})) return;
    const Node& node = entries_[slot.id].node;
    if (node.op != Op::slot || node.dtype != DType::f32 || node.shape != scalar_shape())
        return set_error("builder.bad_loss_slot", "the loss is an f32 scalar slot");
    loss_slot_ = node.attributes[0];
}

Value Builder::full(DType dtype, const Shape& shape, std::uint32_t word) {
    Node node;
    node.op = Op::full;
    node.dtype = dtype;
    node.shape = shape;
    node.immediate = word;
    return insert(std::move(node));
}

Value Builder::constant(float value) {
    return full(DType::f32, scalar_shape(), value != value ? 0x7fc00000 : __builtin_bit_cast(std::uint32_t, value));
}

Value Builder::constant_i32(std::int32_t value) {
    return full(DType::i32, scalar_shape(), static_cast<std::uint32_t>(value));
}

Value Builder::iota(const Shape& shape, std::uint32_t axis) {
    if (axis > 3) set_error("builder.bad_axis", std::to_string(axis));
    Node node;
    node.op = Op::iota;
    node.dtype = DType::i32;
    node.shape = shape;
    node.attributes = {axis};
    return insert(std::move(node));
}

Value Builder::philox(Value key_counter, const Shape& shape) { return random_words(Op::philox, key_counter, shape); }

Value Builder::philox_words(Value key_counter, const Shape& shape) {
    return random_words(Op::philox_words, key_counter, shape);
}

Value Builder::random_words(Op op, Value key_counter, const Shape& shape) {
    if (!usable({key_counter})) return {};
    if (type(key_counter).dtype != DType::i32 || this->shape(key_counter) != vector_shape(4)) {
        set_error("builder.bad_operand", "philox reads i32 [1,1,1,4]");
        return {};
    }
    Node node;
    node.op = op;
    node.dtype = DType::i32;
    node.shape = shape;
    node.inputs = {key_counter.id};
    return insert(std::move(node));
}

Value Builder::elementwise(ElementOp op, std::initializer_list<Value> inputs, std::uint32_t immediate) {
    if (!usable(inputs)) return {};
    const auto* info = vm::tensor::arith::find_element_op(op);
    if (info == nullptr || info->arity != inputs.size()) {
        set_error("builder.bad_element_op", std::to_string(static_cast<unsigned>(op)));
        return {};
    }
    Node node;
    node.op = Op::elementwise;
    node.element = op;
    node.dtype = dtype_of(info->output);
    node.immediate = immediate;
    std::size_t position = 0;
    for (const Value input : inputs) {
        const OperandType operand = type(input);
        if (operand.dtype != dtype_of(info->inputs[position++])) {
            set_error("builder.bad_dtype", std::string(info->name) + " operand " + std::to_string(position));
            return {};
        }
        for (std::size_t d = 0; d < 4; ++d) {
            const std::uint32_t dim = operand.shape.dims[d];
            if (node.shape.dims[d] != dim && node.shape.dims[d] != 1 && dim != 1) {
                set_error("builder.bad_shape", std::string(info->name) + ": " + node.shape.to_string() + " with " +
                                                   operand.shape.to_string());
                return {};
            }
            node.shape.dims[d] = std::max(node.shape.dims[d], dim);
        }
        node.inputs.push_back(input.id);
    }
    // x * 1 is x, but for a NaN of another payload than the one that a product has.
    if (op == ElementOp::mul)
        for (std::size_t i = 0; i < 2; ++i) {
            const Node& other = entries_[node.inputs[1 - i]].node;
            if (is_full(entries_[node.inputs[i]].node, kOneBits) && other.shape == node.shape && is_computed(other.op))
                return {node.inputs[1 - i]};
        }
    return insert(std::move(node));
}

Value Builder::matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
    if (!usable({a, b})) return {};
    const Shape left = shape(a);
    const Shape right = shape(b);
    const std::uint32_t m = transpose_a ? left.columns() : left.rows();
    const std::uint32_t k = transpose_a ? left.rows() : left.columns();
    const std::uint32_t n = transpose_b ? right.rows() : right.columns();
    const std::uint32_t k2 = transpose_b ? right.columns() : right.rows();
    bool fits = k == k2 && type(a).dtype == DType::f32 && type(b).dtype == DType::f32;
    Node node;
    node.op = Op::matmul;
    node.shape = matrix_shape(m, n);
    for (std::size_t d = 0; d < 2; ++d) {
        fits = fits && (left.dims[d] == right.dims[d] || left.dims[d] == 1 || right.dims[d] == 1);
        node.shape.dims[d] = std::max(left.dims[d], right.dims[d]);
    }
    if (!fits) {
        set_error("builder.bad_shape", "matmul: " + left.to_string() + " with " + right.to_string());
        return {};
    }
    node.inputs = {a.id, b.id};
    node.attributes = {transpose_a ? 1U : 0U, transpose_b ? 1U : 0U};
    return insert(std::move(node));
}

Value Builder::imatmul(const Scaled& a, const Scaled& b, bool transpose_a, bool transpose_b) {
    if (!usable({a.bytes, a.scales, b.bytes, b.scales})) return {};
    const Shape left = shape(a.bytes);
    const Shape right = shape(b.bytes);
    Node node;
    node.op = Op::imatmul;
    node.shape = matrix_shape(transpose_a ? left.columns() : left.rows(), transpose_b ? right.rows() : right.columns());
    for (std::size_t d = 0; d < 2; ++d) node.shape.dims[d] = std::max(left.dims[d], right.dims[d]);
    node.inputs = {a.bytes.id, a.scales.id, b.bytes.id, b.scales.id};
    node.attributes = {transpose_a ? 1U : 0U, transpose_b ? 1U : 0U};
    const std::array<OperandType, 4> operands{type(a.bytes), type(a.scales), type(b.bytes), type(b.scales)};
    if (const Status fits = vm::tensor::check_operands(node, operands); !fits) {
        set_error("builder.bad_shape", "imatmul: " + fits.error().detail);
        return {};
    }
    return insert(std::move(node));
}

namespace {

Node reduction(Op op, Value x, const Shape& shape, std::size_t axis) {
    Node node;
    node.op = op;
    node.shape = shape;
    node.shape.dims[axis] = 1;
    node.inputs = {x.id};
    return node;
}

}  // namespace

Value Builder::sum_last(Value x) {
    if (!usable({x})) return {};
    if (type(x).dtype != DType::f32) set_error("builder.bad_dtype", "sum_last of i32");
    return insert(reduction(Op::sum_last, x, shape(x), 3));
}

Value Builder::kth_last(Value x, std::uint32_t k) {
    if (!usable({x})) return {};
    if (type(x).dtype != DType::i32 || k == 0 || k > shape(x).columns()) {
        set_error("builder.bad_shape", "word " + std::to_string(k) + " of " + shape(x).to_string());
        return {};
    }
    Node node = reduction(Op::kth_last, x, shape(x), 3);
    node.dtype = DType::i32;
    node.attributes = {k};
    return insert(std::move(node));
}

Value Builder::max_last(Value x) {
    if (!usable({x})) return {};
    if (type(x).dtype != DType::f32) set_error("builder.bad_dtype", "max_last of i32");
    return insert(reduction(Op::max_last, x, shape(x), 3));
}

Value Builder::sum_rows(Value x) {
    if (!usable({x})) return {};
    if (type(x).dtype != DType::f32) set_error("builder.bad_dtype", "sum_rows of i32");
    return insert(reduction(Op::sum_rows, x, shape(x), 2));
}

Value Builder::reshape(Value x, const Shape& shape) {
    if (!usable({x})) return {};
    if (!shape.validate() || shape.elements() != this->shape(x).elements()) {
        set_error("builder.bad_shape", "reshape: " + this->shape(x).to_string() + " to " + shape.to_string());
        return {};
    }
    // Only the outermost shape of a chain of reshapes matters.
    while (entries_[x.id].node.op == Op::reshape && !entries_[x.id].barrier) x = {entries_[x.id].node.inputs[0]};
    if (this->shape(x) == shape) return x;
    Node node;
    node.op = Op::reshape;
    node.dtype = type(x).dtype;
    node.shape = shape;
    node.inputs = {x.id};
    return insert(std::move(node));
}

Value Builder::permute(Value x, const std::array<std::uint32_t, 4>& axes) {
    if (!usable({x})) return {};
    auto sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != std::array<std::uint32_t, 4>{0, 1, 2, 3}) {
        set_error("builder.bad_axis", "permute needs each axis once");
        return {};
    }
    if (axes == sorted) return x;
    Node node;
    node.op = Op::permute;
    node.dtype = type(x).dtype;
    for (std::size_t d = 0; d < 4; ++d) node.shape.dims[d] = shape(x).dims[axes[d]];
    node.inputs = {x.id};
    node.attributes.assign(axes.begin(), axes.end());
    return insert(std::move(node));
}

Value Builder::slice(Value x, const std::array<std::uint32_t, 4>& start, const Shape& shape) {
    if (!usable({x})) return {};
    const Shape whole = this->shape(x);
    for (std::size_t d = 0; d < 4; ++d)
        if (shape.dims[d] == 0 || start[d] > whole.dims[d] || shape.dims[d] > whole.dims[d] - start[d]) {
            set_error("builder.bad_shape", "slice " + shape.to_string() + " of " + whole.to_string());
            return {};
        }
    if (shape == whole) return x;
    Node node;
    node.op = Op::slice;
    node.dtype = type(x).dtype;
    node.shape = shape;
    node.inputs = {x.id};
    node.attributes.assign(start.begin(), start.end());
    return insert(std::move(node));
}

Value Builder::concat(Value a, Value b, std::uint32_t axis) {
    if (!usable({a, b})) return {};
    Shape left = shape(a);
    Shape right = shape(b);
    if (axis > 3 || type(a).dtype != type(b).dtype) {
        set_error("builder.bad_axis", "concat along " + std::to_string(axis));
        return {};
    }
    Node node;
    node.op = Op::concat;
    node.dtype = type(a).dtype;
    node.shape = left;
    node.inputs = {a.id, b.id};
    node.attributes = {axis};
    const std::uint64_t joined = std::uint64_t{left.dims[axis]} + right.dims[axis];
    left.dims[axis] = right.dims[axis] = 1;
    if (left != right || joined > vm::tensor::kMaxTensorElements) {
        set_error("builder.bad_shape", "concat: " + shape(a).to_string() + " with " + shape(b).to_string());
        return {};
    }
    node.shape.dims[axis] = static_cast<std::uint32_t>(joined);
    return insert(std::move(node));
}

Value Builder::gather_rows(Value table, Value index) {
    if (!usable({table, index})) return {};
    const Shape rows = shape(table);
    const Shape which = shape(index);
    if (rows.leading() != 1 || type(index).dtype != DType::i32 || (which.rows() != 1 && which.columns() != 1)) {
        set_error("builder.bad_shape", "gather_rows: " + rows.to_string() + " by " + which.to_string());
        return {};
    }
    Node node;
    node.op = Op::gather_rows;
    node.dtype = type(table).dtype;
    node.shape = Shape{{which.dims[0], which.dims[1], std::max(which.rows(), which.columns()), rows.columns()}};
    node.inputs = {table.id, index.id};
    return insert(std::move(node));
}

Value Builder::scatter_add_rows(Value source, Value index, std::uint32_t table_rows) {
    if (!usable({source, index})) return {};
    const Shape rows = shape(source);
    const Shape which = shape(index);
    if (rows.leading() != 1 || which.leading() != 1 || which.elements() != rows.rows() ||
        type(source).dtype != DType::f32 || type(index).dtype != DType::i32) {
        set_error("builder.bad_shape", "scatter_add_rows: " + rows.to_string() + " by " + which.to_string());
        return {};
    }
    Node node;
    node.op = Op::scatter_add_rows;
    node.shape = matrix_shape(table_rows, rows.columns());
    node.inputs = {source.id, index.id};
    return insert(std::move(node));
}

Value Builder::stop_gradient(Value x) { return insert_barrier(x, {}); }

Value Builder::with_gradient(Value x, std::vector<Value> inputs, GradientRule rule) {
    for (const Value input : inputs)
        if (!usable({input})) return {};
    return insert_barrier(x,
                          std::make_shared<const CustomGradient>(CustomGradient{std::move(inputs), std::move(rule)}));
}

Value Builder::insert_barrier(Value x, std::shared_ptr<const CustomGradient> custom) {
    if (!usable({x})) return {};
    const auto id = static_cast<std::uint32_t>(entries_.size());
    Node node;
    node.op = Op::reshape;
    node.dtype = type(x).dtype;
    node.shape = shape(x);
    node.inputs = {x.id};
    entries_.push_back(
        {std::move(node), true, std::move(custom)});  // not in known_: nothing else may become this barrier
    return {id};
}

void Builder::cut() { recomputation_.places.push_back(size()); }

void Builder::recompute(std::uint32_t parts) {
    recomputation_.forward_end = size();
    recomputation_.parts = parts;
}

Expected<BuiltProgram> Builder::finish() const {
    QUERN_CHECK(status());
    if (!loss_slot_) return fail("builder.no_loss_slot");

    std::vector<bool> live(entries_.size(), false);
    for (const SlotEntry& slot : slots_) live[slot.next.id] = true;
    for (std::size_t id = entries_.size(); id-- > 0;)
        if (live[id])
            for (const std::uint32_t input : entries_[id].node.inputs) live[input] = true;

    BuiltProgram result;
    Program& program = result.program;
    std::map<Node, std::uint32_t, NodeLess> known;  // again: barriers kept equal nodes apart
    std::vector<std::uint32_t> renumbered(entries_.size(), 0);
    Recomputation recomputation{{}, 0, recomputation_.parts};  // by node
    auto place = recomputation_.places.begin();
    for (std::size_t id = 0; id < entries_.size(); ++id) {
        const auto next = static_cast<std::uint32_t>(program.nodes.size());
        for (; place != recomputation_.places.end() && *place == id; ++place) recomputation.places.push_back(next);
        if (id == recomputation_.forward_end) recomputation.forward_end = next;
        if (!live[id]) continue;
        if (entries_[id].barrier) {
            renumbered[id] = renumbered[entries_[id].node.inputs[0]];
            continue;
        }
        Node node = entries_[id].node;
        for (std::uint32_t& input : node.inputs) input = renumbered[input];
        const auto [found, inserted] = known.emplace(node, next);
        renumbered[id] = found->second;
        if (inserted) program.nodes.push_back(std::move(node));
    }
    for (const SlotEntry& slot : slots_) {
        program.slots.push_back({slot.name, slot.dtype, slot.shape, slot.flags});
        program.updates.push_back(renumbered[slot.next.id]);
        result.initializers.push_back(slot.initializer);
    }
    if (recomputation.parts != 0) program::recompute(program.nodes, program.updates, recomputation);
    program.header.data = data_;
    program.header.loss_slot = *loss_slot_;
    vm::tensor::complete_header(program);
    QUERN_CHECK(vm::tensor::validate(program));
    return result;
}

}  // namespace quern::compute::program
