// A program's root covers the order of its nodes and slots: here is what model code makes them in, on each compiler.
#include <gtest/gtest.h>

#include "base/fs.h"
#include "compute/program/arch_json.h"
#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "compute/program/onnx_file.h"
#include "compute/program/optimizer.h"
#include "compute/program/transformer.h"
#include "crypto/hash.h"

namespace quern::compute::program {
namespace {

// Of slots and nodes.
std::string order_of(const Expected<BuiltProgram>& built) {
    if (!built) return built.error().to_string();
    Bytes all;
    for (const auto& slot : built->program.slots) append(all, vm::tensor::encode(slot));
    for (const Node& node : built->program.nodes) append(all, vm::tensor::encode(node));
    return to_hex(crypto::sha256(all)).substr(0, 16);
}

TransformerSpec spec_of(bool tied, std::uint32_t adapter_rank) {
    TransformerSpec spec{1, 8, 2, 4, 2, 5};
    spec.tied = tied;
    spec.adapter_rank = adapter_rank;
    return spec;
}

// A step that trains on tokens of its state.
Expected<BuiltProgram> training(const TransformerSpec& spec, OptimizerConfig::Type type) {
    Builder b;
    const auto step = b.slot("step", DType::i32, scalar_shape(), Initializer::zeros());
    const auto reported = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    const auto tokens = b.slot("tokens", DType::i32, vector_shape(spec.context), Initializer::zeros());
    const auto targets = b.slot("targets", DType::i32, matrix_shape(spec.context, 1), Initializer::zeros());
    b.set_loss_slot(reported);
    std::vector<Parameter> parameters;
    const auto logits = transformer(b, spec, 1, tokens, LayersPass{}, parameters).logits;
    const auto loss = cross_entropy(b, logits, targets);
    const auto trained = parameter_gradients(b, loss, parameters);
    OptimizerConfig config;
    config.type = type;
    config.weight_decay = 0.1F;
    config.clip_norm = 1.0F;
    config.warmup = 5;
    config.total_steps = 100;
    b.update(reported, loss);
    append_optimizer(b, config, trained, step);
    return b.finish();
}

TEST(NodeOrder, of_models_is_that_of_their_code) {
    EXPECT_EQ(order_of(build_forward_program(spec_of(false, 0))), "ca125c9735b81c3a");
    EXPECT_EQ(order_of(build_forward_program(spec_of(true, 0))), "8771affbd1f3d499");
    EXPECT_EQ(order_of(build_forward_program(spec_of(false, 2))), "4bc8be89b3a7e518");
}

// A model as Llama's, whose options are not those of the first.
TransformerSpec other_spec() {
    TransformerSpec spec{1, 8, 2, 4, 2, 5};
    spec.positions = TransformerSpec::Positions::rotary;
    spec.norm = TransformerSpec::Norm::rms;
    spec.activation = TransformerSpec::Activation::swiglu;
    spec.kv_heads = 1;
    return spec;
}

TEST(NodeOrder, of_models_with_options_is_that_of_their_code) {
    EXPECT_EQ(order_of(build_forward_program(other_spec())), "34bfbeb944062061");
    EXPECT_EQ(order_of(training(other_spec(), OptimizerConfig::Type::adamw)), "e3da26751b358570");
}

TEST(NodeOrder, of_training_is_that_of_its_code) {
    EXPECT_EQ(order_of(training(spec_of(false, 0), OptimizerConfig::Type::adamw)), "c5611ed5c5a6dce7");
    EXPECT_EQ(order_of(training(spec_of(true, 2), OptimizerConfig::Type::momentum)), "6cf5e1212d4c3772");
    EXPECT_EQ(order_of(training(spec_of(false, 2), OptimizerConfig::Type::sgd)), "b9cdf4823558ec93");
}

// The root of what quern-compile makes of an architecture; networks lie in tests/vectors/onnx.
std::string root_of(const std::string& model, const std::string& data) {
    auto architecture =
        parse_architecture(R"({"format":"quern-arch-1","model":)" + model + R"(,"data":)" + data +
                           R"(,"batch":8,"optimizer":{"type":"adamw","lr":0.001,"grad_clip":1.0,"weight_decay":0.1}})");
    if (!architecture) return architecture.error().to_string();
    if (!architecture->is_transformer() && !architecture->layers().network_file.empty()) {
        const auto file =
            fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/" + architecture->layers().network_file, 1U << 20);
        auto network = file ? read_onnx(*file) : Expected<Network>(fail(file.error()));
        if (!network) return network.error().to_string();
        architecture->layers().network = std::make_shared<const Network>(std::move(*network));
    }
    const auto built = build_training_program(*architecture);
    return built ? to_hex(vm::tensor::program_root(built->program)).substr(0, 16) : built.error().to_string();
}

// As they were before linear layers had a precision of their own.
TEST(NodeOrder, of_whole_programs_is_that_of_their_code) {
    const std::string tokens = R"({"dtype":"u8","elements":1601})";
    const auto transformer = [&](const std::string& options) {
        return root_of(R"({"type":"char_transformer","layers":2,"d_model":32,"heads":4,"context":16,"mlp_ratio":2,)"
                       R"("vocab":40)" +
                           options + "}",
                       tokens);
    };
    EXPECT_EQ(transformer(""), "476dc8217103116a");
    EXPECT_EQ(transformer(R"(,"experts":{"count":4,"top":2})"), "b2c802e9549b5866");
    EXPECT_EQ(transformer(R"(,"precision":"int8","attention_precision":"int8","dropout":0.1)"), "4a1f0cb86d5e77fe");
    EXPECT_EQ(transformer(R"(,"precision":"int8","tie_embeddings":true,"adapter_rank":2)"), "72381a58f878c1df");
    EXPECT_EQ(transformer(R"(,"precision":"int8","head_precision":"f32","activation":"swiglu","norm":"rms")"),
              "00f6bbf404d85303");
    EXPECT_EQ(root_of(R"({"type":"layers","input":{"height":8,"width":8,"channels":3},"layers":[)"
                      R"({"type":"conv2d","channels":8,"kernel":3,"padding":1},{"type":"batch_norm"},{"type":"relu"},)"
                      R"({"type":"residual","inner":[{"type":"conv2d","channels":8,"kernel":1}]},{"type":"flatten"},)"
                      R"({"type":"linear","size":16},{"type":"dropout","rate":0.1},{"type":"linear","size":3}],)"
                      R"("outputs":3})",
                      R"([{"dtype":"u8","elements":12288},{"dtype":"u8","elements":64}])"),
              "aa60c5f5ae7e8215");
    EXPECT_EQ(root_of(R"({"type":"network","file":"gpt.onnx","input":{"tokens":16},"outputs":40,"loss":"next_token"})",
                      R"({"dtype":"u8","elements":1025})"),
              "f9d55294a4fc3ef7");
    EXPECT_EQ(root_of(R"({"type":"network","file":"encoder.onnx","input":{"tokens":12},"outputs":3})",
                      R"([{"dtype":"u8","elements":768},{"dtype":"u8","elements":64}])"),
              "f788a00834e3c438");
    EXPECT_EQ(root_of(R"({"type":"network","file":"gru.onnx","input":{"features":30},"outputs":2})",
                      R"([{"dtype":"u8","elements":1920},{"dtype":"u8","elements":64}])"),
              "58c71877652c8a82");
}

TEST(NodeOrder, of_derivatives_is_that_of_their_code) {
    const auto built = [](ElementOp op) {
        Builder b;
        const auto x = b.slot("x", DType::f32, matrix_shape(2, 3), Initializer::zeros());
        const auto loss = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
        b.set_loss_slot(loss);
        const auto sum = sum_all(b, b.elementwise(op, {x}));
        const auto derivative = gradients(b, sum, std::vector{x});
        b.update(loss, sum);
        b.update(x, derivative[0]);
        return b.finish();
    };
    EXPECT_EQ(order_of(built(ElementOp::abs)), "6e3572c2544bf292");
    EXPECT_EQ(order_of(built(ElementOp::tanh)), "2246454254e5630b");
    EXPECT_EQ(order_of(built(ElementOp::erf)), "83e0429a63372c7b");
}

}  // namespace
}  // namespace quern::compute::program
