// What a machine's profile says that programs take, beside what they take: twelve programs that the profile was not
// measured with.
#include <limits>

#include "base/fs.h"
#include "bench/architectures.h"
#include "bench/cases.h"
#include "compute/cost/predict.h"
#include "compute/cost/self_benchmark.h"
#include "compute/program/arch_json.h"
#include "compute/program/initial_state.h"
#include "compute/program/network_fit.h"
#include "compute/program/onnx_file.h"
#include "support/training_game.h"
#include "vm/tensor/executor.h"

namespace quern::bench {
namespace {

using compute::program::Architecture;
using compute::program::LayersSpec;
using compute::program::TransformerSpec;

struct Predicted {
    std::string name;
    compute::program::BuiltProgram built;
    std::vector<Bytes> data;
    vm::tensor::State state;
};

Predicted predicted(std::string name, const Architecture& architecture) {
    test::Training training = test::train(architecture, 0);
    std::vector<Bytes> data;
    for (std::size_t set = 0; set < architecture.data.size(); ++set) {
        Bytes& bytes = data.emplace_back(vm::tensor::data_bytes(architecture.data[set]));
        if (architecture.data[set].type != vm::tensor::DataType::f32 && !training.data.read(set, 0, bytes))
            give_up("no data for " + name);
    }
    return {std::move(name), std::move(training.built), std::move(data), std::move(training.states[0])};
}

Architecture perceptron() {
    using namespace compute::program;
    constexpr std::uint32_t kRows = 1'024;
    Architecture architecture = test::demo_architecture(1);
    LayersSpec& model = architecture.model.emplace<LayersSpec>();
    model.channels = 784;
    model.scale = 1.0F / 256;
    model.outputs = 10;
    model.layers = {LinearLayer{256}, Activation::relu, LinearLayer{128}, Activation::tanh, LinearLayer{10}};
    architecture.data = {{vm::tensor::DataType::u8, kRows * 784}, {vm::tensor::DataType::u8, kRows}};
    architecture.batch = 64;
    return architecture;
}

Architecture convolution() { return image_network({32, 64}, true); }

// As PyTorch exported it (tests/vectors/onnx), with so many examples of `inputs` bytes.
Architecture network(const std::string& name, std::uint32_t batch, std::uint64_t inputs, bool has_targets = true) {
    constexpr std::uint64_t kExamples = 1'024;
    const Bytes file = must(fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/" + name + ".onnx", 1U << 24), "network");
    compute::program::Network read = must(compute::program::read_onnx(file), "network");
    compute::program::FitChoices choices;
    choices.batch = batch;
    // Of a model of the next token the inputs alone.
    std::vector<compute::program::DataFile> files{{kExamples * inputs, {}}};
    if (has_targets) files.push_back({kExamples, {}});
    const std::string text =
        must(compute::program::fit_architecture(read, name + ".onnx", files, choices), "architecture");
    Architecture architecture = must(compute::program::parse_architecture(text), "architecture");
    architecture.layers().network = std::make_shared<const compute::program::Network>(std::move(read));
    return architecture;
}

Predicted evaluation(const Architecture& architecture) {
    Predicted trained = predicted("evaluation of the convolutional network", architecture);
    trained.built = must(compute::program::build_evaluation_program(architecture), "evaluation program");
    trained.state = compute::program::initial_state(trained.built, 1);
    return trained;
}

std::vector<Predicted> programs() {
    TransformerSpec experts{2, 64, 4, 64, 4, 98};
    experts.experts = {4, 2, 1.25F, 0.01F};
    TransformerSpec bytes{2, 128, 4, 128, 4, 98};
    bytes.precision = bytes.head_precision = TransformerSpec::Precision::int8;
    TransformerSpec modern{2, 96, 6, 64, 3, 98};
    modern.positions = TransformerSpec::Positions::rotary;
    modern.norm = TransformerSpec::Norm::rms;
    modern.activation = TransformerSpec::Activation::swiglu;
    modern.kv_heads = 2;
    modern.dropout = 0.1F;
    std::vector<Predicted> all;
    all.push_back(predicted("the demo's transformer", test::demo_architecture(4'736)));
    all.push_back(predicted("reference transformer", reference_transformer()));
    all.push_back(predicted("transformer of bytes", transformer(bytes, 16)));
    all.push_back(predicted("mixture of experts", transformer(experts, 16)));
    all.push_back(predicted("rotary, SwiGLU, dropout", transformer(modern, 16)));
    all.push_back(predicted("perceptron", perceptron()));
    all.push_back(predicted("convolutional network", convolution()));
    all.push_back(predicted("LSTM (ONNX)", network("lstm", 64, 10, false)));
    all.push_back(predicted("GRU (ONNX)", network("gru", 128, 120)));
    all.push_back(predicted("encoder (ONNX)", network("encoder", 64, 12)));
    all.push_back(predicted("residual network (ONNX)", network("resnet", 32, 768)));
    all.push_back(evaluation(convolution()));
    return all;
}

constexpr int kRounds = 3;

// Shortest times in seconds, as the profile is made of.
struct Measured {
    double step = std::numeric_limits<double>::max();
    double tapped = std::numeric_limits<double>::max();
    double commit = std::numeric_limits<double>::max();
};

template <class Run>
void take_shortest(double& shortest, double min_seconds, const Run& run) {
    run();
    for (double spent = 0; spent < min_seconds;) {
        const double begin = steady_seconds();
        run();
        const double seconds = steady_seconds() - begin;
        shortest = std::min(shortest, seconds);
        spent += seconds;
    }
}

void measure(const Bench& bench, const Predicted& each, vm::tensor::arith::Backend backend, ThreadPool& pool,
             Measured& measured) {
    vm::tensor::Executor executor(each.built.program, backend, &pool);
    const vm::tensor::MemoryData data{std::vector<Bytes>(each.data)};
    const vm::tensor::Tensor seed = vm::tensor::seed_tensor(Hash32{});
    vm::tensor::State state = each.state;
    std::uint64_t words = 0;
    const vm::tensor::Tap tap = [&](const auto& node) { words += node.output.shape().elements(); };
    const double seconds = bench.settings().min_seconds;
    take_shortest(measured.step, seconds, [&] { (void)executor.step(state, data, seed); });
    take_shortest(measured.tapped, seconds, [&] { (void)executor.step_tapped(state, data, seed, tap); });
    take_shortest(measured.commit, seconds / 4, [&] { keep(vm::tensor::state_root(state, &pool)); });
}

// Passes of the self-benchmark and programs in turn, so that a machine that is slower for a while is so for both.
void compare_predictions(Bench& bench, std::size_t threads) {
    const std::vector<Predicted> all = programs();
    double worst = 0;
    std::string where;
    const std::string suffix = threads == 1 ? ", 1 thread" : ", 2 threads";
    const auto key = compute::cost::profile_key(vm::tensor::arith::best_backend(), threads, "bench");
    auto benchmark = must(compute::cost::SelfBenchmark::make(key), "self-benchmark");
    ThreadPool pool(threads);
    std::vector<Measured> measured(all.size());
    double spent = 0;
    for (int round = 0; round < kRounds; ++round) {
        const double begin = steady_seconds();
        must(benchmark.pass(), "self-benchmark");
        spent += steady_seconds() - begin;
        for (std::size_t i = 0; i < all.size(); ++i) measure(bench, all[i], key.setup.backend, pool, measured[i]);
    }
    const double begin = steady_seconds();
    const compute::cost::Profile profile = benchmark.profile();
    spent += steady_seconds() - begin;
    bench.add({"self-benchmark" + suffix, spent, "s", 0, 0, {}, 0, "error " + text_of("%.3f", profile.error)});
    const auto compare = [&](const std::string& name, double said, double seconds) {
        Row row{name + suffix + ", predicted", said * 1e6, "µs", 0, 0, {}, 0, {}};
        row.reference = Reference{"measured", seconds * 1e6};
        row.ratio = said / seconds;
        bench.add(std::move(row));
        const double off = std::max(said / seconds, seconds / said) - 1;
        if (off > worst) {
            worst = off;
            where = name + suffix;
        }
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
        const compute::cost::StepTime said = compute::cost::predict_step(all[i].built.program, profile);
        compare(all[i].name, said.step, measured[i].step);
        compare(all[i].name + ", tapped", said.tapped, measured[i].tapped);
        compare(all[i].name + ", commitment", said.commit, measured[i].commit);
    }
    bench.add({"largest deviation" + suffix, worst * 100, "%", 0, 0, {}, 0, where});
}

}  // namespace

void bench_prediction(Bench& bench) { compare_predictions(bench, 1); }
void bench_prediction_threads(Bench& bench) { compare_predictions(bench, 2); }

}  // namespace quern::bench
