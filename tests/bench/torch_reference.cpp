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

namespace {

std::unique_ptr<torch::optim::AdamW> adamw(const compute::program::OptimizerConfig& config,
                                           const std::vector<at::Tensor>& decayed,
                                           const std::vector<at::Tensor>& others) {
    const auto options = [&](double decay) {
        return torch::optim::AdamWOptions(config.learning_rate)
            .betas({config.beta1, config.beta2})
            .eps(config.epsilon)
            .weight_decay(decay);
    };
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(decayed, std::make_unique<torch::optim::AdamWOptions>(options(config.weight_decay)));
    groups.emplace_back(others, std::make_unique<torch::optim::AdamWOptions>(options(0)));
    return std::make_unique<torch::optim::AdamW>(groups, options(0));
}

// The examples of batch number `step`, as step programs choose them.
at::Tensor batch_examples(const compute::program::Architecture& architecture, std::uint32_t step,
                          const vm::tensor::Tensor& seed) {
    const std::uint32_t batch = architecture.batch;
    const auto count = static_cast<std::uint32_t>(compute::program::example_count(architecture));
    at::Tensor rows = torch::empty({batch}, torch::kInt64);
    for (std::uint32_t i = 0; i < batch; ++i)
        rows.data_ptr<std::int64_t>()[i] =
            vm::tensor::arith::permute_index(step * batch + i, seed.words[0], seed.words[1], count);
    return rows;
}

}  // namespace

struct TorchTransformer::Impl {
    compute::program::Architecture architecture;
    at::Tensor data;  // [windows, context + 1] int64
    vm::tensor::Tensor seed;
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
    impl.seed = training.seed;
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
    impl.optimizer = adamw(architecture.optimizer, decayed, others);
    const std::int64_t context = architecture.transformer().context;
    impl.mask = torch::ones({context, context}, torch::kBool).triu(1);
}
TorchTransformer::TorchTransformer(TorchTransformer&&) noexcept = default;
TorchTransformer::~TorchTransformer() = default;

double TorchTransformer::step() {
    Impl& impl = *impl_;
    const at::Tensor windows = impl.data.index_select(0, batch_examples(impl.architecture, impl.step++, impl.seed));
    const std::int64_t context = impl.architecture.transformer().context;
    impl.optimizer->zero_grad();
    const at::Tensor loss = impl.loss_of(windows.narrow(1, 0, context), windows.narrow(1, 1, context));
    loss.backward();
    impl.optimizer->step();
    return loss.item<double>();
}

struct TorchConvolution::Impl {
    compute::program::Architecture architecture;
    vm::tensor::Tensor seed;
    at::Tensor images;  // [examples, channels, height, width]
    at::Tensor labels;
    std::vector<std::pair<std::string, at::Tensor>> parameters;
    std::unique_ptr<torch::optim::AdamW> optimizer;
    std::uint32_t step = 0;

    [[nodiscard]] const at::Tensor& p(const std::string& name) const {
        for (const auto& [own, tensor] : parameters)
            if (own == "model." + name) return tensor;
        give_up("the model has no parameter " + name);
    }

    [[nodiscard]] at::Tensor convolved(const at::Tensor& x, const std::string& layer) const {
        return at::relu(at::conv2d(x, p(layer + ".weight"), p(layer + ".bias"), 1, 1));
    }

    [[nodiscard]] at::Tensor loss_of(const at::Tensor& x, const at::Tensor& targets) const {
        at::Tensor y = at::max_pool2d(convolved(x, "0"), 2);
        y = at::max_pool2d(convolved(y, "3"), 2);
        y = convolved(y, "6").mean({2, 3});
        return at::cross_entropy_loss(at::addmm(p("9.bias"), y, p("9.weight")), targets);
    }
};

TorchConvolution::TorchConvolution(const compute::program::Architecture& architecture, const test::Training& training)
    : impl_(std::make_unique<Impl>()) {
    Impl& impl = *impl_;
    impl.architecture = architecture;
    impl.seed = training.seed;
    const auto& program = training.program();
    const auto& data = training.data;
    const auto& model = architecture.layers();
    const auto count = static_cast<std::int64_t>(compute::program::example_count(architecture));
    const std::int64_t channels = model.channels;
    const auto tensor_of = [](const Bytes& bytes) {
        at::Tensor tensor = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
        std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
        return tensor;
    };
    impl.images = tensor_of(data.sets()[0])
                      .to(torch::kFloat32)
                      .mul(model.scale)
                      .view({count, model.image.height, model.image.width, channels})
                      .permute({0, 3, 1, 2})
                      .contiguous();
    impl.labels = tensor_of(data.sets()[1]).to(torch::kInt64);
    std::vector<at::Tensor> decayed;
    std::vector<at::Tensor> others;
    std::int64_t inputs = channels;
    for (std::size_t i = 0; i < program.slots.size(); ++i) {
        if ((program.slots[i].flags & vm::tensor::kSlotParameter) == 0) continue;
        const auto& slot = training.states[0][i];
        const std::int64_t columns = slot.shape.columns();
        at::Tensor tensor = torch::empty({static_cast<std::int64_t>(slot.shape.rows()), columns});
        std::memcpy(tensor.data_ptr(), slot.words.data(), slot.words.size() * 4);
        const std::string& name = program.slots[i].name;
        const bool is_vector = slot.shape.rows() == 1;
        if (is_vector) {
            tensor = tensor.view({columns});
        } else if (name != "model.9.weight") {  // [taps * inputs, outputs] with taps row by row
            tensor = tensor.view({3, 3, inputs, columns}).permute({3, 2, 0, 1}).contiguous();
            inputs = columns;
        }
        tensor.set_requires_grad(true);
        (is_vector ? others : decayed).push_back(tensor);
        impl.parameters.emplace_back(name, tensor);
    }
    impl.optimizer = adamw(architecture.optimizer, decayed, others);
}
TorchConvolution::TorchConvolution(TorchConvolution&&) noexcept = default;
TorchConvolution::~TorchConvolution() = default;

double TorchConvolution::step() {
    Impl& impl = *impl_;
    const at::Tensor rows = batch_examples(impl.architecture, impl.step++, impl.seed);
    impl.optimizer->zero_grad();
    const at::Tensor loss = impl.loss_of(impl.images.index_select(0, rows), impl.labels.index_select(0, rows));
    loss.backward();
    impl.optimizer->step();
    return loss.item<double>();
}

}  // namespace quern::bench
