#include "tolerance/lab.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/rng.h"
#include "compute/program/initial_state.h"
#include "support/training_game.h"

namespace quern::tolerance_lab {

using compute::tolerance::distance::Class;

void give_up(const std::string& what) {
    std::fprintf(stderr, "quern-tolerance: %s\n", what.c_str());
    std::exit(1);
}

namespace {

float as_float(std::uint32_t word) { return __builtin_bit_cast(float, word); }

}  // namespace

compute::program::Architecture transformer_of(bool reference, std::size_t text_bytes) {
    const std::uint32_t context = reference ? 128 : 64;
    const auto windows = static_cast<std::uint32_t>((text_bytes - 1) / context);
    compute::program::Architecture architecture = test::demo_architecture(windows);
    architecture.data[0].elements = std::uint64_t{windows} * context + 1;
    if (reference) {
        architecture.model = compute::program::TransformerSpec{4, 128, 4, 128, 4, 98};
        architecture.batch = 32;
    }
    return architecture;
}

Bytes tokens_of(const Bytes& text) {
    Bytes tokens;
    for (const std::uint8_t c : text)
        tokens.push_back(c >= 32 && c < 127 ? static_cast<std::uint8_t>(c - 32) : c == '\n' ? 95 : 96);
    return tokens;
}

compute::program::Architecture convolution() {
    using namespace compute::program;
    const Window2d three{{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    const PoolLayer halved{PoolLayer::Kind::max, {{2, 2}, {2, 2}, {0, 0}, {1, 1}}};
    Architecture architecture = test::image_architecture({16, 16}, 2, 512);
    auto& model = std::get<LayersSpec>(architecture.model);
    model.layers = {ConvLayer{16, three}, BatchNormLayer{}, Activation::relu,  halved,        ConvLayer{32, three},
                    BatchNormLayer{},     Activation::relu, GlobalPoolLayer{}, LinearLayer{2}};
    architecture.optimizer.weight_decay = 0;
    return architecture;
}

std::vector<Bytes> random_images(const compute::program::Architecture& architecture) {
    SeededRng rng(5);
    std::vector<Bytes> sets;
    for (std::size_t i = 0; i < architecture.data.size(); ++i) {
        Bytes& set = sets.emplace_back(architecture.data[i].elements);
        for (std::uint8_t& element : set) element = static_cast<std::uint8_t>(rng.below(i == 0 ? 256 : 2));
    }
    return sets;
}

Lab::Lab(const compute::program::Architecture& architecture, std::vector<Bytes> data,
         const std::vector<std::string>& loose)
    : built_(must(compute::program::build_training_program(architecture), "training program")),
      segment_(must(compute::tolerance::distance::build_segment_programs(built_.program, loose), "distance program")) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i].resize(architecture.data[i].elements);
    data_ = vm::tensor::MemoryData(std::move(data));
    seed_ = {vm::tensor::DType::i32, compute::program::vector_shape(4), {0x51a7e11e, 0x0badcafe, 3, 4}};
    meter_ = std::make_unique<compute::tolerance::profile::Meter>(built_.program, segment_, data_, seed_, &pool_);
}

State Lab::initial(std::uint64_t seed) const { return compute::program::initial_state(built_, seed); }

std::size_t Lab::slot(const std::string& name) const {
    return must(compute::program::slot_index(program(), name, "lab.no_slot"), "slot");
}

void Lab::train(State& state, std::uint64_t steps, const Run& run) const {
    compute::torch_backend::set_thread_count(run.backend.threads);
    compute::torch_backend::TorchExecutor executor(run.program != nullptr ? *run.program : program(),
                                                   {run.backend.products, run.backend.device});
    for (std::uint64_t step = 0; step < steps; ++step)
        must(executor.step(state, run.data != nullptr ? *run.data : data_, run.seed != nullptr ? *run.seed : seed_),
             "step on libtorch");
}

compute::tolerance::profile::Profiler Lab::profiler(const char* name, const Backend& backend) const {
    const auto executor = std::make_shared<compute::torch_backend::TorchExecutor>(
        program(), compute::torch_backend::ExecutorOptions{backend.products, backend.device});
    return {name, [this, executor, threads = backend.threads](State& state) {
                compute::torch_backend::set_thread_count(threads);
                return executor->step(state, data_, seed_);
            }};
}

void Lab::replay(State& state, std::uint64_t steps) { must(meter_->replay(state, steps), "replay"); }

Measured Lab::measure(const State& previous, const State& replayed, const State& claimed) {
    return must(meter_->measure(previous, replayed, claimed), "distance");
}

Lab::Worst Lab::worst_slot(const State& previous, const State& replayed, const State& claimed) const {
    Worst worst;
    double all = 0;
    double worst_error = 0;
    for (std::size_t s = 0; s < previous.size(); ++s) {
        if (classes()[s] != Class::parameter) continue;
        double error = 0;
        double way = 0;
        for (std::size_t i = 0; i < previous[s].words.size(); ++i) {
            const auto r = static_cast<double>(as_float(replayed[s].words[i]));
            const double e = static_cast<double>(as_float(claimed[s].words[i])) - r;
            const double w = r - static_cast<double>(as_float(previous[s].words[i]));
            error += e * e;
            way += w * w;
        }
        all += error;
        const double l2 = std::sqrt(error / way);
        if (!(l2 > worst.l2)) continue;
        worst = {program().slots[s].name, l2, 0};
        worst_error = error;
    }
    worst.share = all > 0 ? worst_error / all : 0;
    return worst;
}

State between(const Lab& lab, const State& a, const State& b, float share, const State& exact) {
    State result = exact;
    for (std::size_t s = 0; s < result.size(); ++s) {
        if (lab.classes()[s] == Class::exact) continue;
        for (std::size_t i = 0; i < result[s].words.size(); ++i) {
            const float from = as_float(a[s].words[i]);
            const float to = as_float(b[s].words[i]);
            result[s].words[i] = __builtin_bit_cast(std::uint32_t, from + (to - from) * share);
        }
    }
    return result;
}

void take_exact(const Lab& lab, State& state, const State& from) {
    for (std::size_t s = 0; s < state.size(); ++s)
        if (lab.classes()[s] == Class::exact) state[s] = from[s];
}

}  // namespace quern::tolerance_lab
