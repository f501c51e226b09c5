// Trains small models and prints their state roots, for contrib/check-compilers.sh: whichever compiler made this
// program, and on each backend, the lines must be the same.
//
//     quern-training-roots [STEPS]     default: 1000
//
// One line for each model, "NAME STEPS ROOT"; the models and their data are made of constants alone.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/bytes.h"
#include "compute/program/arch_json.h"
#include "compute/program/builder.h"
#include "compute/program/initial_state.h"
#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/executor.h"

namespace {

using namespace quern;
using namespace quern::compute::program;
namespace tensor = quern::vm::tensor;

constexpr std::uint64_t kDefaultSteps = 1000;
constexpr std::uint64_t kInitialSeed = 7;

struct Model {
    const char* name;
    std::string_view architecture;
    std::vector<std::pair<std::size_t, std::uint32_t>> data;  // elements of each u8 data set, and their bound
};

const std::vector<Model>& models() {
    static const std::vector<Model> kModels{
        {"transformer",
         R"({"format": "quern-arch-1", "model": {"type": "char_transformer", "layers": 2, "d_model": 32, "heads": 4,
             "context": 16, "mlp_ratio": 4, "vocab": 50}, "data": {"dtype": "u8", "elements": 4000}, "batch": 4,
             "optimizer": {"type": "adamw", "lr": 1e-2, "weight_decay": 0.1, "grad_clip": 1.0, "warmup": 20}})",
         {{4000, 50}}},
        {"rotary",
         R"({"format": "quern-arch-1", "model": {"type": "char_transformer", "layers": 2, "d_model": 32, "heads": 4,
             "context": 16, "mlp_ratio": 3, "vocab": 50, "positions": "rotary", "norm": "rms", "activation": "swiglu",
             "kv_heads": 2, "dropout": 0.1}, "data": {"dtype": "u8", "elements": 4000}, "batch": 4,
             "optimizer": {"type": "adamw", "lr": 1e-2, "weight_decay": 0.1, "grad_clip": 1.0, "warmup": 20}})",
         {{4000, 50}}},
        {"experts",
         R"({"format": "quern-arch-1", "model": {"type": "char_transformer", "layers": 2, "d_model": 32, "heads": 4,
             "context": 40, "mlp_ratio": 2, "vocab": 50, "experts": {"count": 4, "top": 2, "capacity_factor": 0.75}},
             "data": {"dtype": "u8", "elements": 4000}, "batch": 4, "optimizer": {"type": "adamw", "lr": 1e-2}})",
         {{4000, 50}}},
        {"convolution",
         R"({"format": "quern-arch-1", "model": {"type": "layers",
             "input": {"height": 8, "width": 8, "channels": 3, "scale": 0.0078125, "shift": -1},
             "layers": [{"type": "conv2d", "channels": 8, "kernel": 3, "padding": 1}, {"type": "batch_norm"},
                        {"type": "silu"}, {"type": "max_pool2d", "kernel": 2},
                        {"type": "residual", "inner": [{"type": "conv2d", "channels": 8, "kernel": 3, "padding": 1}]},
                        {"type": "global_avg_pool2d"}, {"type": "dropout", "rate": 0.1},
                        {"type": "linear", "size": 10}],
             "outputs": 10}, "data": [{"dtype": "u8", "elements": 12288}, {"dtype": "u8", "elements": 64}], "batch": 4,
             "optimizer": {"type": "lion", "lr": 1e-3}})",
         {{12288, 256}, {64, 10}}},
        {"perceptron",
         R"({"format": "quern-arch-1", "model": {"type": "layers",
             "input": {"features": 40, "scale": 0.0078125, "shift": -1},
             "layers": [{"type": "linear", "size": 64}, {"type": "layer_norm"}, {"type": "gelu"},
                        {"type": "linear", "size": 48}, {"type": "tanh"}, {"type": "linear", "size": 32},
                        {"type": "sigmoid"}, {"type": "linear", "size": 3}],
             "outputs": 3, "loss": "mse"},
             "data": [{"dtype": "u8", "elements": 5120}, {"dtype": "u8", "elements": 384}],
             "batch": 16, "optimizer": {"type": "adam", "lr": 3e-3, "total_steps": 900, "schedule": "cosine"}})",
         {{5120, 256}, {384, 2}}},
    };
    return kModels;
}

Status train(const Model& model, std::uint64_t steps) {
    QUERN_TRY(const Architecture architecture, parse_architecture(model.architecture));
    QUERN_TRY(const BuiltProgram built, build_training_program(architecture));
    std::vector<Bytes> sets;
    tensor::arith::test::Words words(5);
    for (const auto& [elements, bound] : model.data) {
        Bytes set(elements);
        for (auto& each : set) each = static_cast<std::uint8_t>(words.below(bound));
        sets.push_back(std::move(set));
    }
    const tensor::MemoryData data(std::move(sets));
    const tensor::Tensor seed{tensor::DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};
    tensor::State state = initial_state(built, kInitialSeed);
    ThreadPool pool(1);
    tensor::Executor executor(built.program, tensor::arith::best_backend(), &pool);
    for (std::uint64_t step = 0; step < steps; ++step) executor.step(state, data, seed);
    std::printf("%s %llu %s\n", model.name, static_cast<unsigned long long>(steps),
                to_hex(tensor::state_root(state)).c_str());
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kDefaultSteps;
    for (const Model& model : models())
        if (const Status trained = train(model, steps); !trained) {
            std::fprintf(stderr, "quern-training-roots: %s: %s\n", model.name, trained.error().to_string().c_str());
            return 1;
        }
    return 0;
}
