#include "compute/torch/torch_executor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <link.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>

#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/scalar.h"
#include "vm/tensor/structural_ops.h"

namespace quern::compute::torch_backend {

namespace {

using vm::tensor::DType;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::OpKind;
using vm::tensor::Program;
using vm::tensor::Shape;
using vm::tensor::State;
using vm::tensor::Tensor;
using vm::tensor::arith::ElementOp;

std::vector<std::int64_t> sizes_of(const Shape& shape) { return {shape.dims.begin(), shape.dims.end()}; }

at::ScalarType type_of(DType dtype) { return dtype == DType::f32 ? at::kFloat : at::kInt; }

// A view of the tensor's words; torch only reads it.
at::Tensor view_of(const Tensor& tensor) {
    return at::from_blob(const_cast<std::uint32_t*>(tensor.words.data()), sizes_of(tensor.shape),
                         at::TensorOptions().dtype(type_of(tensor.dtype)));
}

Tensor words_of(const at::Tensor& value, DType dtype, const Shape& shape) {
    const at::Tensor contiguous = value.detach().contiguous();
    Tensor result{dtype, shape, {}};
    result.words.resize(shape.elements());
    std::memcpy(result.words.data(), contiguous.data_ptr(), result.words.size() * 4);
    if (dtype == DType::f32)
        for (std::uint32_t& word : result.words)
            if ((word & 0x7fffffffU) > 0x7f800000U) word = 0x7fc00000;
    return result;
}

std::uint32_t word_at(const at::Tensor& contiguous, std::int64_t i) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(contiguous.data_ptr()) + i * 4, 4);
    return word;
}

// By definition, element by element: integer ops that torch lacks or leaves undefined (division by zero, shifts).
at::Tensor by_definition(const Node& node, const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> whole;
    for (const at::Tensor& input : inputs) whole.push_back(input.detach().expand(sizes_of(node.shape)).contiguous());
    at::Tensor result = at::empty(sizes_of(node.shape), at::TensorOptions().dtype(type_of(node.dtype)));
    auto* out = static_cast<char*>(result.data_ptr());
    for (std::int64_t i = 0; i < result.numel(); ++i) {
        const auto word = [&](std::size_t k) { return k < whole.size() ? word_at(whole[k], i) : 0; };
        const std::uint32_t value =
            vm::tensor::arith::evaluate_scalar(node.element, word(0), word(1), word(2), node.immediate);
        std::memcpy(out + i * 4, &value, 4);
    }
    return result;
}

// Whether a single number, a counter like the powers of Adam's betas: these decay to subnormal numbers, which the
// definition flushes, and are compared bit by bit where the training is otherwise near.
bool is_counted(const Node& node, const std::vector<at::Tensor>& in) {
    return node.shape.elements() == 1 && vm::tensor::arith::flushes(node.element) &&
           std::none_of(in.begin(), in.end(), [](const at::Tensor& each) { return each.requires_grad(); });
}

at::Tensor elementwise(const Node& node, const std::vector<at::Tensor>& in) {
    if (is_counted(node, in)) return by_definition(node, in);
    const auto truth = [](const at::Tensor& x) { return x.to(at::kInt); };
    switch (node.element) {
        case ElementOp::neg:
            return at::neg(in[0]);
        case ElementOp::abs:
            return at::abs(in[0]);
        case ElementOp::sqrt:
            return at::sqrt(in[0]);
        case ElementOp::exp:
            return at::exp(in[0]);
        case ElementOp::log:
            return at::log(in[0]);
        case ElementOp::tanh:
            return at::tanh(in[0]);
        case ElementOp::sigmoid:
            return at::sigmoid(in[0]);
        case ElementOp::erf:
            return at::erf(in[0]);
        case ElementOp::add:
            return at::add(in[0], in[1]);
        case ElementOp::sub:
            return at::sub(in[0], in[1]);
        case ElementOp::mul:
            return at::mul(in[0], in[1]);
        case ElementOp::div:
            return at::div(in[0], in[1]);
        case ElementOp::min:
            return at::minimum(in[0], in[1]);
        case ElementOp::max:
            return at::maximum(in[0], in[1]);
        case ElementOp::fma:
            return at::addcmul(in[2], in[0], in[1]);
        case ElementOp::lt:
        case ElementOp::ilt:
            return truth(at::lt(in[0], in[1]));
        case ElementOp::le:
            return truth(at::le(in[0], in[1]));
        case ElementOp::eq:
        case ElementOp::ieq:
            return truth(at::eq(in[0], in[1]));
        case ElementOp::select:
        case ElementOp::iselect:
            return at::where(at::ne(in[0], 0), in[1], in[2]);
        case ElementOp::iadd:
            return at::add(in[0], in[1]);
        case ElementOp::isub:
            return at::sub(in[0], in[1]);
        case ElementOp::imul:
            return at::mul(in[0], in[1]);
        case ElementOp::i2f:
            return in[0].to(at::kFloat);
        default:
            return by_definition(node, in);
    }
}

at::Tensor matmul(const Node& node, const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor left = node.attributes[0] != 0 ? a.transpose(2, 3) : a;
    const at::Tensor right = node.attributes[1] != 0 ? b.transpose(2, 3) : b;
    if (node.shape.leading() != 1) return at::matmul(left, right);
    return at::mm(left[0][0], right[0][0]).unsqueeze(0).unsqueeze(0);
}

at::Tensor matmul(const Node& node, const at::Tensor& a, const at::Tensor& b, Products products) {
    const auto half = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
    const auto whole = [](const at::Tensor& x) { return x.to(at::kFloat); };
    if (products == Products::bf16 && has_bf16_products()) return whole(matmul(node, half(a), half(b)));
    if (products == Products::bf16) return whole(half(matmul(node, whole(half(a)), whole(half(b)))));
    if (products == Products::f64) return matmul(node, a.to(at::kDouble), b.to(at::kDouble)).to(at::kFloat);
    return matmul(node, a, b);
}

// Values of an imatmul's operand, A [a,b,m,k] or B [a,b,k,n], times its scales. Of 8 bits and a power of two, so exact.
at::Tensor scaled(const at::Tensor& bytes, const at::Tensor& scales, std::int64_t inner_axis) {
    const at::Tensor low = at::bitwise_and(bytes, static_cast<std::int64_t>(0xff));
    const at::Tensor values = at::sub(at::bitwise_xor(low, static_cast<std::int64_t>(0x80)), 0x80).to(at::kFloat);
    // The exponent field, clamped; NaN where it is full.
    const at::Tensor words = scales.contiguous().view(at::kInt);
    const at::Tensor field = at::bitwise_and(at::__rshift__(words, 23), static_cast<std::int64_t>(0xff));
    const at::Tensor finite = at::__lshift__(at::clamp(field, 67, 179), 23);
    const at::Tensor nothing = at::full_like(finite, static_cast<std::int64_t>(0x7fc00000));
    const at::Tensor powers = at::where(at::eq(field, 0xff), nothing, finite).contiguous().view(at::kFloat);
    const at::Tensor strips = at::arange(bytes.size(inner_axis), at::TensorOptions().dtype(at::kLong));
    const at::Tensor strip = at::div(strips, static_cast<std::int64_t>(vm::tensor::kStrip), "floor");
    return at::mul(values, at::index_select(powers, inner_axis, strip));
}

at::Tensor imatmul(const Node& node, const std::vector<at::Tensor>& in) {
    const at::Tensor a = scaled(in[0], in[1], node.attributes[0] != 0 ? 2 : 3);
    const at::Tensor b = scaled(in[2], in[3], node.attributes[1] != 0 ? 3 : 2);
    return matmul(node, a, b);
}

at::Tensor philox(const Node& node, const at::Tensor& key_counter) {
    const auto word_of = node.op == Op::philox ? vm::tensor::arith::philox_word : vm::tensor::arith::philox_four_word;
    const at::Tensor key = key_counter.contiguous();
    at::Tensor result = at::empty(sizes_of(node.shape), at::TensorOptions().dtype(at::kInt));
    auto* out = static_cast<char*>(result.data_ptr());
    for (std::int64_t i = 0; i < result.numel(); ++i) {
        const std::uint32_t word =
            word_of(static_cast<std::uint32_t>(i), word_at(key, 2), word_at(key, 3), word_at(key, 0), word_at(key, 1));
        std::memcpy(out + i * 4, &word, 4);
    }
    return result;
}

struct RowIndex {
    at::Tensor rows;   // int64, in range
    at::Tensor valid;  // bool column: false where the index was out of range
};
RowIndex row_index(const at::Tensor& index, std::uint32_t table_rows) {
    const at::Tensor wide = index.reshape({-1}).to(at::kLong);
    const at::Tensor valid = at::logical_and(at::ge(wide, 0), at::lt(wide, static_cast<std::int64_t>(table_rows)));
    return {at::where(valid, wide, at::zeros_like(wide)), valid.unsqueeze(1)};
}

at::Tensor gather(const Node& node, const at::Tensor& table, const at::Tensor& index) {
    const RowIndex which = row_index(index, static_cast<std::uint32_t>(table.size(2)));
    const at::Tensor rows = at::index_select(table[0][0], 0, which.rows);
    return at::where(which.valid, rows, at::zeros_like(rows)).reshape(sizes_of(node.shape));
}

at::Tensor scatter(const Node& node, const at::Tensor& source, const at::Tensor& index) {
    const RowIndex which = row_index(index, node.shape.rows());
    const at::Tensor rows = at::where(which.valid, source[0][0], at::zeros_like(source[0][0]));
    const at::Tensor table =
        at::zeros({node.shape.rows(), node.shape.columns()}, source.options().requires_grad(false));
    return at::index_add(table, 0, which.rows, rows).reshape(sizes_of(node.shape));
}

at::Tensor iota(const Node& node) {
    std::vector<std::int64_t> line{1, 1, 1, 1};
    const std::size_t axis = node.attributes[0];
    line[axis] = node.shape.dims[axis];
    return at::arange(line[axis], at::TensorOptions().dtype(at::kInt)).reshape(line).expand(sizes_of(node.shape));
}

at::Tensor full(const Node& node) {
    at::Tensor one = at::empty({1, 1, 1, 1}, at::TensorOptions().dtype(type_of(node.dtype)));
    std::memcpy(one.data_ptr(), &node.immediate, 4);
    return one.expand(sizes_of(node.shape));
}

at::Tensor slice(const Node& node, at::Tensor x) {
    for (std::size_t d = 0; d < 4; ++d)
        if (node.shape.dims[d] != x.size(static_cast<std::int64_t>(d)))
            x = x.narrow(static_cast<std::int64_t>(d), node.attributes[d], node.shape.dims[d]);
    return x;
}

// Word by word, by the definition of the op: for structural ops without a way of their own.
at::Tensor copied(const Node& node, const std::vector<at::Tensor>& in) {
    std::vector<vm::tensor::OperandType> types;
    std::vector<at::Tensor> flat;
    std::vector<std::int64_t> first;
    std::int64_t words = 0;
    for (const at::Tensor& input : in) {
        Shape shape;
        for (std::size_t d = 0; d < 4; ++d)
            shape.dims[d] = static_cast<std::uint32_t>(input.size(static_cast<std::int64_t>(d)));
        types.push_back({node.dtype, shape});
        flat.push_back(input.reshape({-1}));
        first.push_back(words);
        words += input.numel();
    }
    std::vector<std::int64_t> index(node.shape.elements());
    for (std::size_t i = 0; i < index.size(); ++i) {
        const auto source = vm::tensor::copy_source(node, types, vm::tensor::coordinates_of(node.shape, i));
        const std::uint64_t at = vm::tensor::logical_index(types[source.operand].shape, source.at);
        index[i] = first[source.operand] + static_cast<std::int64_t>(at);
    }
    const at::Tensor places =
        at::from_blob(index.data(), {static_cast<std::int64_t>(index.size())}, at::TensorOptions().dtype(at::kLong));
    return at::index_select(at::cat(flat), 0, places).reshape(sizes_of(node.shape));
}

at::Tensor structural(const Node& node, const std::vector<at::Tensor>& in) {
    if (node.op == Op::reshape) return in[0].reshape(sizes_of(node.shape));
    if (node.op == Op::permute)
        return in[0].permute(std::vector<std::int64_t>(node.attributes.begin(), node.attributes.end()));
    if (node.op == Op::slice) return slice(node, in[0]);
    if (node.op == Op::concat) return at::cat({in[0], in[1]}, node.attributes[0]);
    return copied(node, in);
}

at::Tensor generated(const Node& node, const std::vector<at::Tensor>& in) {
    if (node.op == Op::full) return full(node);
    if (node.op == Op::iota) return iota(node);
    if (node.op == Op::philox || node.op == Op::philox_words) return philox(node, in[0]);
    return {};
}

// Unsigned: with the sign bit turned over words are in the order of their numbers.
at::Tensor kth(const Node& node, const at::Tensor& x) {
    const at::Tensor flipped = at::bitwise_xor(x, static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::min()));
    const auto rank = x.size(3) - static_cast<std::int64_t>(node.attributes[0]) + 1;  // from the smallest, from 1
    const at::Tensor found = std::get<0>(at::kthvalue(flipped, rank, 3, true));
    return at::bitwise_xor(found, static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::min()));
}

at::Tensor reduction(const Node& node, const std::vector<at::Tensor>& in, Products products) {
    if (node.op == Op::matmul) return matmul(node, in[0], in[1], products);
    if (node.op == Op::imatmul) return imatmul(node, in);
    if (node.op == Op::sum_last) return at::sum(in[0], {3}, true);
    if (node.op == Op::max_last) return at::amax(in[0], {3}, true);
    if (node.op == Op::sum_rows) return at::sum(in[0], {2}, true);
    if (node.op == Op::kth_last) return kth(node, in[0]);
    if (node.op == Op::scatter_add_rows) return scatter(node, in[0], in[1]);
    return {};
}

at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in, Products products) {
    switch (vm::tensor::find_op(node.op)->kind) {  // the program was validated
        case OpKind::input:
        case OpKind::window:
            return {};  // given by the caller
        case OpKind::generated:
            return generated(node, in);
        case OpKind::elementwise:
            return elementwise(node, in);
        case OpKind::reduction:
            return reduction(node, in, products);
        case OpKind::structural:
            return structural(node, in);
        case OpKind::gather:
            return gather(node, in[0], in[1]);
    }
    return {};
}

tl::unexpected<Error> torch_error(const std::exception& error) {
    const std::string text = error.what();
    return fail("torch.failed", text.substr(0, text.find('\n')));
}

}  // namespace

struct TorchExecutor::Plan {
    const Program& program;
    std::vector<std::uint32_t> last_use;  // the node after which an output is not needed; its own index if never used

    Products products;

    Plan(const Program& p, Products precision) : program(p), last_use(p.nodes.size()), products(precision) {
        for (std::uint32_t i = 0; i < p.nodes.size(); ++i) {
            last_use[i] = i;
            for (const std::uint32_t input : p.nodes[i].inputs) last_use[input] = i;
        }
    }

    // Outputs of the nodes in `wanted` (by node), up to the last of them. `slots` are the inputs of Op::slot.
    std::vector<at::Tensor> run(const std::vector<at::Tensor>& slots, const vm::tensor::DataSource& data,
                                const Tensor& seed, const std::vector<bool>& wanted) const {
        std::vector<at::Tensor> outputs(program.nodes.size());
        std::uint32_t end = 0;
        for (std::uint32_t i = 0; i < wanted.size(); ++i)
            if (wanted[i]) end = i + 1;
        std::vector<at::Tensor> inputs;
        for (std::uint32_t i = 0; i < end; ++i) {
            const Node& node = program.nodes[i];
            inputs.clear();
            for (const std::uint32_t input : node.inputs) inputs.push_back(outputs[input]);
            if (node.op == Op::slot)
                outputs[i] = slots[node.attributes[0]];
            else if (node.op == Op::window)
                outputs[i] = windows_of(node, inputs[0], data);
            else if (node.op == Op::seed)
                outputs[i] = view_of(seed);
            else
                outputs[i] = evaluate(node, inputs, products);
            for (const std::uint32_t input : node.inputs)
                if (last_use[input] == i && !wanted[input]) outputs[input].reset();
        }
        return outputs;
    }

    [[nodiscard]] at::Tensor windows_of(const Node& node, const at::Tensor& index,
                                        const vm::tensor::DataSource& data) const {
        const Tensor at =
            words_of(index, DType::i32, {{node.shape.dims[0], node.shape.dims[1], node.shape.dims[2], 1}});
        Tensor words{node.dtype, node.shape, std::vector<std::uint32_t>(node.shape.elements())};
        TORCH_CHECK(vm::tensor::read_windows(program.header, node, at.words.data(), data, words.words.data(), nullptr),
                    "data are missing");
        return view_of(words).clone();
    }

    static std::vector<at::Tensor> views(const State& state) {
        std::vector<at::Tensor> slots;
        for (const Tensor& tensor : state) slots.push_back(view_of(tensor));
        return slots;
    }
};

TorchExecutor::TorchExecutor(const Program& program, Products products)
    : plan_(std::make_unique<Plan>(program, products)) {}
TorchExecutor::~TorchExecutor() = default;
TorchExecutor::TorchExecutor(TorchExecutor&&) noexcept = default;

Status TorchExecutor::step(State& state, const vm::tensor::DataSource& data, const Tensor& seed) {
    QUERN_TRY(std::vector<Tensor> next, run_nodes(state, data, seed, plan_->program.updates));
    state = std::move(next);
    return {};
}

Expected<std::vector<Tensor>> TorchExecutor::run_nodes(const State& state, const vm::tensor::DataSource& data,
                                                       const Tensor& seed, std::span<const std::uint32_t> nodes) {
    try {
        const c10::NoGradGuard no_grad;
        std::vector<bool> wanted(plan_->program.nodes.size(), false);
        for (const std::uint32_t node : nodes) wanted[node] = true;
        const auto outputs = plan_->run(Plan::views(state), data, seed, wanted);
        std::vector<Tensor> result;
        for (const std::uint32_t node : nodes)
            result.push_back(
                words_of(outputs[node], plan_->program.nodes[node].dtype, plan_->program.nodes[node].shape));
        return result;
    } catch (const std::exception& error) {
        return torch_error(error);
    }
}

Expected<std::vector<Tensor>> TorchExecutor::autograd(const State& state, const vm::tensor::DataSource& data,
                                                      const Tensor& seed, std::uint32_t loss_node,
                                                      std::span<const std::uint32_t> slots) {
    try {
        std::vector<at::Tensor> inputs = Plan::views(state);
        std::vector<at::Tensor> leaves;
        for (const std::uint32_t slot : slots) {
            inputs[slot] = inputs[slot].clone().set_requires_grad(true);
            leaves.push_back(inputs[slot]);
        }
        std::vector<bool> wanted(plan_->program.nodes.size(), false);
        wanted[loss_node] = true;
        const auto outputs = plan_->run(inputs, data, seed, wanted);
        const auto derivatives =
            torch::autograd::grad({outputs[loss_node]}, leaves, {}, {}, /*create_graph=*/false, /*allow_unused=*/true);
        std::vector<Tensor> result;
        for (std::size_t i = 0; i < slots.size(); ++i) {
            const vm::tensor::Slot& slot = plan_->program.slots[slots[i]];
            const at::Tensor value = derivatives[i].defined() ? derivatives[i] : at::zeros_like(leaves[i]);
            result.push_back(words_of(value, slot.dtype, slot.shape));
        }
        return result;
    } catch (const std::exception& error) {
        return torch_error(error);
    }
}

void set_thread_count(int threads) {
    threads = std::max(threads, 1);
    at::set_num_threads(threads);
    // Not in torch's interface, and absent where the BLAS is another one.
    using Setter = void (*)(int);
    if (auto* symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"); symbol != nullptr)
        reinterpret_cast<Setter>(symbol)(threads);
}

Status check_blas() {
    std::vector<std::string> libraries;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* list) {
            if (info->dlpi_name != nullptr && std::strstr(info->dlpi_name, "blas") != nullptr)
                if (char* path = ::realpath(info->dlpi_name, nullptr); path != nullptr) {
                    static_cast<std::vector<std::string>*>(list)->emplace_back(path);
                    std::free(path);
                }
            return 0;
        },
        &libraries);
    std::string names;
    for (const std::string& library : libraries) {
        if (library.find("openblas-openmp") != std::string::npos) return {};
        names += (names.empty() ? "" : ", ") + library;
    }
    return fail("torch.slow_blas", (names.empty() ? std::string("no BLAS library is loaded") : names + " is in use") +
                                       "; install libopenblas0-openmp and select it with update-alternatives");
}

std::string torch_version() { return TORCH_VERSION; }

bool has_bf16_products() {
#ifdef __x86_64__
    return at::hasMKLDNN() && __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0;  // what oneDNN asks for
#else
    return false;
#endif
}

}  // namespace quern::compute::torch_backend
