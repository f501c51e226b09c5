#include "bench/torch_reference.h"

#include <torch/torch.h>

#include <cstring>

#include "bench/harness.h"
#include "vm/tensor/arith/random.h"

namespace quern::bench {

struct TorchMatmul::Impl {
    at::Tensor a, b, c;
};

TorchMatmul::TorchMatmul(std::size_t m, std::size_t n, std::size_t k) : impl_(std::make_unique<Impl>()) {
    const auto size = [](std::size_t x) { return static_cast<std::int64_t>(x); };
    impl_->a = torch::rand({size(m), size(k)}) - 0.5;
    impl_->b = torch::rand({size(k), size(n)}) - 0.5;
    impl_->c = torch::empty({size(m), size(n)});
}
TorchMatmul::~TorchMatmul() = default;
void TorchMatmul::run() {
    const torch::NoGradGuard no_gradients;
    at::matmul_out(impl_->c, impl_->a, impl_->b);
}

struct TorchElementwise::Impl {
    Chain chain;
    at::Tensor x, y, out;
};

TorchElementwise::TorchElementwise(Chain chain, std::size_t rows, std::size_t columns)
    : impl_(std::make_unique<Impl>()) {
    impl_->chain = chain;
    impl_->x = torch::rand({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}) * 4 - 2;
    impl_->y = torch::rand_like(impl_->x);
    impl_->out = torch::empty_like(impl_->x);
}
TorchElementwise::~TorchElementwise() = default;
void TorchElementwise::run() {
    const torch::NoGradGuard no_gradients;
    auto& [chain, x, y, out] = *impl_;
    switch (chain) {
        case Chain::exp:
            at::exp_out(out, x);
            break;
        case Chain::tanh:
            at::tanh_out(out, x);
            break;
        case Chain::sigmoid:
            at::sigmoid_out(out, x);
            break;
        case Chain::add:
            at::add_out(out, x, y);
            break;
        case Chain::softmax:
            at::_softmax_out(out, x, -1, false);
            break;
    }
}

struct TorchTransformer::Impl {
    compute::program::Architecture architecture;
    at::Tensor data;  // [windows, context + 1] int64
    std::array<std::uint32_t, 2> key{};
    std::vector<std::pair<std::string, at::Tensor>> parameters;
    std::unique_ptr<torch::optim::AdamW> optimizer;
    at::Tensor mask;  // true above the diagonal
    std::uint32_t step = 0;

    [[nodiscard]] const at::Tensor& p(const std::string& name) const {
        for (const auto& [own, tensor] : parameters)
            if (own == "model." + name) return tensor;
        give_up("the model has no parameter " + name);
    }

    [[nodiscard]] at::Tensor norm(const std::string& name, const at::Tensor& x) const {
        return at::layer_norm(x, {architecture.transformer().width}, p(name + ".gain"), p(name + ".bias"), 1e-5);
    }

    [[nodiscard]] at::Tensor attention(const std::string& h, const at::Tensor& x, std::int64_t batch) const {
        const std::int64_t heads = architecture.transformer().heads;
        const std::int64_t width = architecture.transformer().width;
        const std::int64_t context = architecture.transformer().context;
        const at::Tensor no_bias = torch::zeros({width});
        const at::Tensor bias = at::cat({p(h + "attn.b_q"), no_bias, p(h + "attn.b_v")});
        const at::Tensor qkv = at::addmm(bias, x, p(h + "attn.w_qkv")).view({batch, context, 3, heads, width / heads});
        const auto parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);
        const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
        const at::Tensor scores = at::matmul(parts[0] * scale, parts[1].transpose(-2, -1)).masked_fill(mask, -1e9);
        const at::Tensor mixed = at::matmul(at::softmax(scores, -1), parts[2]).transpose(1, 2).reshape({-1, width});
        return at::addmm(p(h + "attn.b_o"), mixed, p(h + "attn.w_o"));
    }

    [[nodiscard]] at::Tensor loss_of(const at::Tensor& tokens, const at::Tensor& targets) const {
        const std::int64_t batch = tokens.size(0);
        at::Tensor x = at::embedding(p("wte"), tokens) + p("wpe");
        x = x.view({-1, architecture.transformer().width});
        for (std::uint32_t layer = 0; layer < architecture.transformer().layers; ++layer) {
            const std::string h = "h." + std::to_string(layer) + ".";
            x = x + attention(h, norm(h + "ln_1", x), batch);
            const at::Tensor hidden =
                at::gelu(at::addmm(p(h + "mlp.b_in"), norm(h + "ln_2", x), p(h + "mlp.w_in")), "tanh");
            x = x + at::addmm(p(h + "mlp.b_out"), hidden, p(h + "mlp.w_out"));
        }
        return at::cross_entropy_loss(at::mm(norm("ln_f", x), p("head")), targets.reshape({-1}));
    }
};

TorchTransformer::TorchTransformer(const compute::program::Architecture& architecture, const test::Training& training)
    : impl_(std::make_unique<Impl>()) {
    Impl& impl = *impl_;
    impl.architecture = architecture;
    const Bytes& tokens = training.data.sets().front();
    const std::int64_t length = architecture.transformer().context;
    const auto windows = static_cast<std::int64_t>(compute::program::example_count(architecture));
    impl.data = torch::empty({windows, length + 1}, torch::kInt64);
    for (std::int64_t window = 0; window < windows; ++window)
        std::copy_n(tokens.begin() + window * length, length + 1,
                    impl.data.data_ptr<std::int64_t>() + window * (length + 1));
    impl.key = {training.seed.words[0], training.seed.words[1]};
    const auto& program = training.program();
    std::vector<at::Tensor> decayed;
    std::vector<at::Tensor> others;
    for (std::size_t i = 0; i < program.slots.size(); ++i) {
        if ((program.slots[i].flags & vm::tensor::kSlotParameter) == 0) continue;
        const auto& slot = training.states[0][i];
        std::vector<std::int64_t> sizes{slot.shape.dims[3]};
        if (slot.shape.dims[2] != 1) sizes.insert(sizes.begin(), slot.shape.dims[2]);
        at::Tensor tensor = torch::empty(sizes);
        std::memcpy(tensor.data_ptr(), slot.words.data(), slot.words.size() * 4);
        tensor.set_requires_grad(true);
        (sizes.size() == 2 ? decayed : others).push_back(tensor);
        impl.parameters.emplace_back(program.slots[i].name, tensor);
    }
    const auto& config = architecture.optimizer;
    const auto options = [&](double decay) {
        return torch::optim::AdamWOptions(config.learning_rate)
            .betas({config.beta1, config.beta2})
            .eps(config.epsilon)
            .weight_decay(decay);
    };
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(decayed, std::make_unique<torch::optim::AdamWOptions>(options(config.weight_decay)));
    groups.emplace_back(others, std::make_unique<torch::optim::AdamWOptions>(options(0)));
    impl.optimizer = std::make_unique<torch::optim::AdamW>(groups, options(0));
    const std::int64_t context = architecture.transformer().context;
    impl.mask = torch::ones({context, context}, torch::kBool).triu(1);
}
TorchTransformer::~TorchTransformer() = default;

double TorchTransformer::step() {
    Impl& impl = *impl_;
    const std::uint32_t batch = impl.architecture.batch;
    const auto window_count = static_cast<std::uint32_t>(compute::program::example_count(impl.architecture));
    at::Tensor rows = torch::empty({batch}, torch::kInt64);
    for (std::uint32_t i = 0; i < batch; ++i)
        rows.data_ptr<std::int64_t>()[i] =
            vm::tensor::arith::permute_index(impl.step * batch + i, impl.key[0], impl.key[1], window_count);
    ++impl.step;
    const at::Tensor windows = impl.data.index_select(0, rows);
    const std::int64_t context = impl.architecture.transformer().context;
    impl.optimizer->zero_grad();
    const at::Tensor loss = impl.loss_of(windows.narrow(1, 0, context), windows.narrow(1, 1, context));
    loss.backward();
    impl.optimizer->step();
    return loss.item<double>();
}

}  // namespace quern::bench
