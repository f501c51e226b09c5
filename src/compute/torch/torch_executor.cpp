#include "compute/torch/torch_executor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <link.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>

#include "compute/torch/node_ops.h"

namespace quern::compute::torch_backend {

namespace {

using vm::tensor::DType;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::OpKind;
using vm::tensor::Program;
using vm::tensor::State;
using vm::tensor::Tensor;

tl::unexpected<Error> torch_error(const std::exception& error) {
    const std::string text = error.what();
    return fail("torch.failed", text.substr(0, text.find('\n')));
}

}  // namespace

// Which nodes the processor computes and which the device. Where the device is the processor it is all of them.
//
// Elsewhere the processor has what is of a few words and follows from the state's counters, from the seed and from
// constants, as betas' powers and learning rates do, and whatever windows' indices follow from: data are read on the
// processor. So counters are the definitions' to the bit, and nothing waits for the device in the middle of a step: the
// state, and what of all this nodes of the device read, goes there before it begins.
struct TorchExecutor::Plan {
    static constexpr std::uint64_t kFewWords = 64;

    const Program& program;
    Status usable;  // check_device()
    Place place;
    ProductKind products;
    std::vector<bool> on_processor;
    std::vector<bool> crosses;  // computed on the processor, read on the device
    // By side (the processor's, the device's) the node after which an output is not needed there; its own index if
    // never used.
    std::array<std::vector<std::uint32_t>, 2> last_use;

    enum Side : std::size_t { here, there };
    [[nodiscard]] Side side_of(std::uint32_t node) const { return on_processor[node] ? here : there; }

    Plan(const Program& p, const ExecutorOptions& chosen)
        : program(p),
          usable(check_device(chosen.device)),
          place(place_of(chosen.device)),
          products{chosen.products, chosen.products == Products::bf16 && has_bf16_products(chosen.device)},
          on_processor(p.nodes.size(), chosen.device == Device::cpu),
          crosses(p.nodes.size(), false) {
        if (chosen.device != Device::cpu) divide();
        // Somebody's TORCH_ALLOW_TF32_CUBLAS_OVERRIDE: its 10 bits of mantissa are no f32.
        if (chosen.device == Device::cuda && at::globalContext().allowTF32CuBLAS())
            at::globalContext().setAllowTF32CuBLAS(false);
        for (auto& uses : last_use) {
            uses.resize(p.nodes.size());
            std::iota(uses.begin(), uses.end(), 0U);
        }
        for (std::uint32_t i = 0; i < p.nodes.size(); ++i)
            for (const std::uint32_t input : p.nodes[i].inputs) last_use[side_of(i)][input] = i;
    }

    void divide() {
        const auto& nodes = program.nodes;
        std::vector<bool> leads_to_window(nodes.size(), false);
        for (std::size_t i = nodes.size(); i-- > 0;)
            if (leads_to_window[i] || nodes[i].op == Op::window)
                for (const std::uint32_t input : nodes[i].inputs) leads_to_window[input] = true;
        for (std::uint32_t i = 0; i < nodes.size(); ++i) {
            const Node& node = nodes[i];
            const auto& inputs = node.inputs;
            const bool all_here =
                std::all_of(inputs.begin(), inputs.end(), [this](std::uint32_t input) { return on_processor[input]; });
            const std::uint64_t few = node.op == Op::slot ? 1 : kFewWords;
            on_processor[i] = all_here && is_light(node) && (node.shape.elements() <= few || leads_to_window[i]);
            // A window with its index on the processor is read there, before the device begins.
            if (node.op == Op::window) on_processor[i] = all_here;
            if (on_processor[i]) continue;
            for (const std::uint32_t input : inputs)
                if (on_processor[input]) crosses[input] = true;
        }
    }

    static bool is_light(const Node& node) {
        switch (vm::tensor::find_op(node.op)->kind) {  // the program was validated
            case OpKind::input:
            case OpKind::generated:
            case OpKind::elementwise:
            case OpKind::structural:
                return true;
            case OpKind::window:
            case OpKind::reduction:
            case OpKind::gather:
                return false;
        }
        return false;
    }

    // By side and node; what is not needed any more is undefined.
    struct Outputs {
        std::array<std::vector<at::Tensor>, 2> of;
    };

    // Outputs of the nodes in `wanted` (by node), each on its side, up to the last of them. `slots` are the inputs of
    // Op::slot, on the processor.
    Outputs run(const std::vector<at::Tensor>& slots, const vm::tensor::DataSource& data, const Tensor& seed,
                const std::vector<bool>& wanted) const {
        Outputs outputs;
        for (auto& of_side : outputs.of) of_side.resize(program.nodes.size());
        std::uint32_t end = 0;
        for (std::uint32_t i = 0; i < wanted.size(); ++i)
            if (wanted[i]) end = i + 1;
        for (std::uint32_t i = 0; i < end; ++i)
            if (const Node& node = program.nodes[i]; node.op == Op::slot)
                outputs.of[side_of(i)][i] =
                    on_processor[i] ? slots[node.attributes[0]] : to_place(slots[node.attributes[0]], place);
        for (const Side side : {here, there}) run_side(side, end, data, seed, wanted, outputs);
        return outputs;
    }

    // The slots are there.
    void run_side(Side side, std::uint32_t end, const vm::tensor::DataSource& data, const Tensor& seed,
                  const std::vector<bool>& wanted, Outputs& outputs) const {
        const Place& where = side == here ? kProcessor : place;
        std::vector<at::Tensor>& of_side = outputs.of[side];
        std::vector<at::Tensor> inputs;
        for (std::uint32_t i = 0; i < end; ++i) {
            if (side_of(i) != side) continue;
            const Node& node = program.nodes[i];
            inputs.clear();
            for (const std::uint32_t input : node.inputs) inputs.push_back(of_side[input]);
            if (node.op == Op::window)
                of_side[i] = to_place(view_of(windows_of(node, inputs[0], data)), where);
            else if (node.op == Op::seed)
                of_side[i] = view_of(seed);
            else if (node.op != Op::slot)
                of_side[i] = evaluate(node, inputs, where, products);
            TORCH_CHECK(of_side[i].device().type() == where.device.type(), "a node's output lies on another device");
            if (crosses[i]) outputs.of[there][i] = crossed(node, of_side[i]);
            for (const std::uint32_t input : node.inputs)
                if (last_use[side][input] == i && !wanted[input]) of_side[input].reset();
        }
    }

    // On the device. Constants are made there once more.
    [[nodiscard]] at::Tensor crossed(const Node& node, const at::Tensor& output) const {
        return node.inputs.empty() && vm::tensor::find_op(node.op)->kind == OpKind::generated
                   ? evaluate(node, {}, place, products)
                   : to_place(output, place);
    }

    // A row for each index, on the processor.
    [[nodiscard]] Tensor windows_of(const Node& node, const at::Tensor& index,
                                    const vm::tensor::DataSource& data) const {
        const Tensor at =
            words_of(index, DType::i32, {{node.shape.dims[0], node.shape.dims[1], node.shape.dims[2], 1}});
        Tensor words{node.dtype, node.shape, std::vector<std::uint32_t>(node.shape.elements())};
        TORCH_CHECK(vm::tensor::read_windows(program.header, node, at.words.data(), data, words.words.data(), nullptr),
                    "data are missing");
        return words;
    }

    static std::vector<at::Tensor> views(const State& state) {
        std::vector<at::Tensor> slots;
        for (const Tensor& tensor : state) slots.push_back(view_of(tensor));
        return slots;
    }
};

TorchExecutor::TorchExecutor(const Program& program, const ExecutorOptions& options)
    : plan_(std::make_unique<Plan>(program, options)) {}
TorchExecutor::~TorchExecutor() = default;
TorchExecutor::TorchExecutor(TorchExecutor&&) noexcept = default;

Status TorchExecutor::step(State& state, const vm::tensor::DataSource& data, const Tensor& seed) {
    QUERN_TRY(std::vector<Tensor> next, run_nodes(state, data, seed, plan_->program.updates));
    state = std::move(next);
    return {};
}

Expected<std::vector<Tensor>> TorchExecutor::run_nodes(const State& state, const vm::tensor::DataSource& data,
                                                       const Tensor& seed, std::span<const std::uint32_t> nodes) {
    QUERN_CHECK(plan_->usable);
    try {
        const c10::NoGradGuard no_grad;
        std::vector<bool> wanted(plan_->program.nodes.size(), false);
        for (const std::uint32_t node : nodes) wanted[node] = true;
        const auto outputs = plan_->run(Plan::views(state), data, seed, wanted);
        std::vector<Tensor> result;
        for (const std::uint32_t node : nodes)
            result.push_back(words_of(outputs.of[plan_->side_of(node)][node], plan_->program.nodes[node].dtype,
                                      plan_->program.nodes[node].shape));
        return result;
    } catch (const std::exception& error) {
        return torch_error(error);
    }
}

Expected<std::vector<Tensor>> TorchExecutor::autograd(const State& state, const vm::tensor::DataSource& data,
                                                      const Tensor& seed, std::uint32_t loss_node,
                                                      std::span<const std::uint32_t> slots) {
    QUERN_CHECK(plan_->usable);
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
        const auto derivatives = torch::autograd::grad({outputs.of[plan_->side_of(loss_node)][loss_node]}, leaves, {},
                                                       {}, /*create_graph=*/false, /*allow_unused=*/true);
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

}  // namespace quern::compute::torch_backend
