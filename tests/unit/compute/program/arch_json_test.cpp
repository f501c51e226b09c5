#include "compute/program/arch_json.h"

#include <gtest/gtest.h>

#include <string>

namespace quern::compute::program {
namespace {

const std::string kGood =
    R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":8,"heads":2,"context":6,)"
    R"("mlp_ratio":2,"vocab":11},"data":{"dtype":"u8","elements":121},"batch":3,"optimizer":{"type":"adamw","lr":3e-3,)"
    R"("betas":[0.9,0.95],"eps":1e-8,"weight_decay":0.1,"warmup":20,"total_steps":300,"grad_clip":1.0}})";

std::string replaced(const std::string& what, const std::string& with) {
    std::string text = kGood;
    const auto place = text.find(what);
    EXPECT_NE(place, std::string::npos) << what;
    return text.replace(place, what.size(), with);
}

std::string_view error_with(const std::string& what, const std::string& with) {
    const auto result = parse_architecture(replaced(what, with));
    return result ? "none" : result.error().name;
}

TEST(ArchJson, reads_every_field) {
    const auto arch = parse_architecture(kGood);
    ASSERT_TRUE(arch) << arch.error().to_string();
    EXPECT_EQ(arch->transformer(), (TransformerSpec{1, 8, 2, 6, 2, 11}));
    EXPECT_EQ(arch->data, (std::vector<vm::tensor::DataSet>{{vm::tensor::DataType::u8, 121}}));
    EXPECT_EQ(arch->batch, 3U);
    EXPECT_EQ(arch->optimizer.learning_rate, 3e-3F);
    EXPECT_EQ(arch->optimizer.beta1, 0.9F);
    EXPECT_EQ(arch->optimizer.beta2, 0.95F);
    EXPECT_EQ(arch->optimizer.epsilon, 1e-8F);
    EXPECT_EQ(arch->optimizer.weight_decay, 0.1F);
    EXPECT_EQ(arch->optimizer.clip_norm, 1.0F);
    EXPECT_EQ(arch->optimizer.warmup, 20U);
    EXPECT_EQ(arch->optimizer.total_steps, 300U);
    EXPECT_EQ(example_count(*arch), 20U);
}

TEST(ArchJson, reads_what_may_be_left_out) {
    const auto plain = parse_architecture(kGood);
    ASSERT_TRUE(plain);
    EXPECT_FALSE(plain->transformer().tied);
    EXPECT_EQ(plain->accumulate, 0U);
    const auto arch = parse_architecture(replaced("\"batch\":3", "\"batch\":3,\"accumulate\":4"));
    ASSERT_TRUE(arch) << arch.error().to_string();
    EXPECT_EQ(arch->accumulate, 4U);
    const auto tied = parse_architecture(replaced("\"layers\":1", "\"layers\":1,\"tie_embeddings\":true"));
    ASSERT_TRUE(tied) << tied.error().to_string();
    EXPECT_TRUE(tied->transformer().tied);
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1,\"tie_embeddings\":1"), "arch.wrong_type");
    const auto adapters =
        parse_architecture(replaced("\"layers\":1", "\"layers\":1,\"adapter_rank\":4,\"adapter_scale\":2.5"));
    ASSERT_TRUE(adapters) << adapters.error().to_string();
    EXPECT_EQ(adapters->transformer().adapter_rank, 4U);
    EXPECT_EQ(adapters->transformer().adapter_scale, 2.5F);
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1,\"adapter_rank\":257"), "arch.out_of_range");
    using Precision = TransformerSpec::Precision;
    const auto bytes = parse_architecture(replaced("\"layers\":1", "\"layers\":1,\"precision\":\"int8\""));
    ASSERT_TRUE(bytes) << bytes.error().to_string();
    EXPECT_EQ(bytes->transformer().precision, Precision::int8);
    EXPECT_EQ(bytes->transformer().head_precision, Precision::int8);
    EXPECT_EQ(bytes->transformer().attention_precision, Precision::f32);
    const auto mixed = parse_architecture(
        replaced("\"layers\":1",
                 "\"layers\":1,\"precision\":\"int8\",\"head_precision\":\"f32\",\"attention_precision\":\"int8\""));
    ASSERT_TRUE(mixed) << mixed.error().to_string();
    EXPECT_EQ(mixed->transformer().head_precision, Precision::f32);
    EXPECT_EQ(mixed->transformer().attention_precision, Precision::int8);
    EXPECT_FALSE(adapters->transformer().has_byte_products());
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1,\"precision\":\"int4\""), "arch.unknown_precision");
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1,\"head_precision\":8"), "arch.wrong_type");
    const auto each = parse_architecture(
        replaced("\"layers\":1", R"("layers":1,"layer_precision":{"h.0.mlp":"int8","h.0.mlp.w_out":"f32"})"));
    ASSERT_TRUE(each) << each.error().to_string();
    EXPECT_EQ(each->transformer().layer_precision,
              (LayerPrecision{{"h.0.mlp", Precision::int8}, {"h.0.mlp.w_out", Precision::f32}}));
    EXPECT_EQ(each->transformer().precision, Precision::f32);
    EXPECT_TRUE(each->transformer().has_byte_products());
    EXPECT_EQ(error_with("\"layers\":1", R"("layers":1,"layer_precision":["h.0"])"), "arch.wrong_type");
    EXPECT_EQ(error_with("\"layers\":1", R"("layers":1,"layer_precision":{"h.0":8})"), "arch.wrong_type");
    EXPECT_EQ(error_with("\"layers\":1", R"("layers":1,"layer_precision":{"h.0":"int4"})"), "arch.unknown_precision");
    EXPECT_EQ(error_with("\"layers\":1", R"("layers":1,"layer_precision":{"h.0":"f32","h.0":"int8"})"),
              "arch.not_json");
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1,\"adapter_scale\":-1"), "arch.out_of_range");
    EXPECT_EQ(error_with("\"batch\":3", "\"batch\":3,\"accumulate\":0"), "arch.out_of_range");
    EXPECT_EQ(error_with("\"batch\":3", "\"batch\":3,\"accumulate\":4097"), "arch.out_of_range");
    EXPECT_EQ(error_with("\"batch\":3", "\"batch\":3,\"accumulate\":true"), "arch.wrong_type");
}

TEST(ArchJson, reads_options_of_transformers) {
    const auto with = [](const std::string& fields) { return "\"layers\":1," + fields; };
    const auto plain = parse_architecture(kGood);
    ASSERT_TRUE(plain);
    const auto spelled = parse_architecture(replaced(
        "\"layers\":1", with(R"("positions":"learned","norm":"layer","activation":"gelu","kv_heads":2,"dropout":0)")));
    ASSERT_TRUE(spelled) << spelled.error().to_string();
    EXPECT_EQ(vm::tensor::program_root(build_training_program(*spelled)->program),
              vm::tensor::program_root(build_training_program(*plain)->program));
    const auto other = parse_architecture(
        replaced("\"layers\":1",
                 with(R"("positions":"rotary","norm":"rms","activation":"swiglu","kv_heads":1,"dropout":0.25)")));
    ASSERT_TRUE(other) << other.error().to_string();
    TransformerSpec wanted{1, 8, 2, 6, 2, 11};
    wanted.positions = TransformerSpec::Positions::rotary;
    wanted.norm = TransformerSpec::Norm::rms;
    wanted.activation = TransformerSpec::Activation::swiglu;
    wanted.kv_heads = 1;
    wanted.dropout = 0.25F;
    EXPECT_EQ(other->transformer(), wanted);
    for (const auto& [name, activation] :
         {std::pair("relu", TransformerSpec::Activation::relu), std::pair("silu", TransformerSpec::Activation::silu)}) {
        const auto found = parse_architecture(
            replaced("\"layers\":1", with(std::string(R"("positions":"none","activation":")") + name + "\"")));
        ASSERT_TRUE(found) << found.error().to_string();
        EXPECT_EQ(found->transformer().activation, activation);
        EXPECT_EQ(found->transformer().positions, TransformerSpec::Positions::none);
    }
    const auto error = [&](const std::string& fields) { return error_with("\"layers\":1", with(fields)); };
    EXPECT_EQ(error(R"("positions":"alibi")"), "arch.unknown_positions");
    EXPECT_EQ(error(R"("norm":"batch")"), "arch.unknown_norm");
    EXPECT_EQ(error(R"("activation":"geglu")"), "arch.unknown_activation");
    EXPECT_EQ(error(R"("norm":1)"), "arch.wrong_type");
    EXPECT_EQ(error(R"("kv_heads":0)"), "arch.out_of_range");
    EXPECT_EQ(error(R"("kv_heads":3)"), "arch.heads_do_not_divide");
    EXPECT_EQ(error(R"("kv_heads":null)"), "arch.wrong_type");
    EXPECT_EQ(error(R"("dropout":1)"), "arch.out_of_range");
    EXPECT_EQ(error(R"("dropout":-0.1)"), "arch.out_of_range");
    EXPECT_EQ(error(R"("dropout":"0.1")"), "arch.wrong_type");
    std::string odd = replaced("\"d_model\":8", R"("d_model":6,"positions":"rotary")");
    EXPECT_EQ(parse_architecture(odd).error().name, "arch.odd_head_size");
}

TEST(ArchJson, reads_experts) {
    const auto with = [](const std::string& fields) { return "\"layers\":1,\"experts\":" + fields; };
    const auto plain = parse_architecture(replaced("\"layers\":1", with(R"({"count":4})")));
    ASSERT_TRUE(plain) << plain.error().to_string();
    EXPECT_EQ(plain->transformer().experts, (ExpertsSpec{4, 1, 1.25F, 0.01F}));
    const auto all = parse_architecture(
        replaced("\"layers\":1", with(R"({"count":256,"top":2,"capacity_factor":0.5,"balance":0})")));
    ASSERT_TRUE(all) << all.error().to_string();
    EXPECT_EQ(all->transformer().experts, (ExpertsSpec{256, 2, 0.5F, 0.0F}));
    const auto error = [&](const std::string& fields) { return error_with("\"layers\":1", with(fields)); };
    EXPECT_EQ(error("{}"), "arch.missing_field");
    EXPECT_EQ(error("4"), "arch.wrong_type");
    EXPECT_EQ(error("null"), "arch.wrong_type");
    EXPECT_EQ(error(R"({"count":0})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":257})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":-1})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4294967296})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4.0})"), "arch.wrong_type");
    EXPECT_EQ(error(R"({"count":4,"top":0})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4,"top":3})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":1,"top":2})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4,"capacity_factor":0})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4,"capacity_factor":256})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4,"capacity_factor":"1"})"), "arch.wrong_type");
    EXPECT_EQ(error(R"({"count":4,"balance":-1})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4,"balance":1000})"), "arch.out_of_range");
    EXPECT_EQ(error(R"({"count":4,"jitter":0})"), "arch.unknown_field");
    EXPECT_EQ(error(R"({"count":4},"adapter_rank":2)"), "arch.adapters_of_experts");
    EXPECT_EQ(error(R"({"count":4},"adapter_rank":0)"), "none");
    std::string large = replaced("\"d_model\":8", R"("d_model":8192,"experts":{"count":256})");
    EXPECT_EQ(parse_architecture(large).error().name, "arch.too_large") << "matrices";
    large = replaced("\"context\":6", R"("context":4096,"experts":{"count":256,"capacity_factor":255})");
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"batch\":3", "\"batch\":64"},
                                   std::pair<std::string, std::string>{"\"d_model\":8", "\"d_model\":32"},
                                   std::pair<std::string, std::string>{"\"elements\":121", "\"elements\":9000"}})
        large.replace(large.find(from), from.size(), to);
    const auto refused = parse_architecture(large);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().to_string(),
              "arch.too_large: the experts' activations, of 4080 places a window and expert");
}

TEST(ArchJson, rounds_decimals_to_binary32_once) {
    // Just above the middle between 1 and the next float: rounding to double first would land on the middle and then
    // go to even, which is 1.
    const auto arch =
        parse_architecture(replaced("\"weight_decay\":0.1", "\"weight_decay\":1.000000059604644775390626"));
    ASSERT_TRUE(arch) << arch.error().to_string();
    EXPECT_EQ(arch->optimizer.weight_decay, 0x1.000002p0F);
}

TEST(ArchJson, is_not_confused_by_numbers_in_strings) {
    const auto arch = parse_architecture(replaced("\"format\"", R"("f\u006frmat")"));
    ASSERT_TRUE(arch) << arch.error().to_string();
    EXPECT_EQ(error_with("\"batch\"", R"("1\"2":0.5,"batch")"), "arch.unknown_field");
}

TEST(ArchJson, names_what_is_wrong) {
    EXPECT_EQ(parse_architecture("").error().name, "arch.not_json");
    EXPECT_EQ(parse_architecture("{").error().name, "arch.not_json");
    EXPECT_EQ(parse_architecture("[]").error().name, "arch.wrong_type");
    EXPECT_EQ(parse_architecture(kGood + "x").error().name, "arch.not_json");
    EXPECT_EQ(parse_architecture(std::string(kMaxArchitectureBytes + 1, ' ')).error().name, "arch.too_long");
    EXPECT_EQ(parse_architecture(std::string(1000, '[')).error().name, "arch.not_json");
    EXPECT_EQ(error_with("quern-arch-1", "quern-arch-2"), "arch.unknown_format");
    EXPECT_EQ(error_with("char_transformer", "perceptron"), "arch.unknown_model");
    EXPECT_EQ(error_with("adamw", "nadam"), "arch.unknown_optimizer");
    EXPECT_EQ(error_with("\"layers\":1,", ""), "arch.missing_field");
    EXPECT_EQ(error_with("\"batch\":3,", ""), "arch.missing_field");
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1,\"layers\":1"), "arch.not_json");
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1,\"rope\":0"), "arch.unknown_field");
    EXPECT_EQ(error_with("\"batch\":3", "\"batch\":3,\"epochs\":1"), "arch.unknown_field");
    EXPECT_EQ(error_with("\"elements\":121", "\"elements\":121,\"x\":null"), "arch.unknown_field");
    EXPECT_EQ(error_with("\"type\":\"adamw\"", "\"type\":\"sgd\""), "arch.unknown_field");  // betas are Adam's
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":\"1\""), "arch.wrong_type");
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":1.0"), "arch.wrong_type");
    EXPECT_EQ(error_with("3e-3", "\"3e-3\""), "arch.wrong_type");
    EXPECT_EQ(error_with("[0.9,0.95]", "[0.9]"), "arch.wrong_type");
    EXPECT_EQ(error_with("[0.9,0.95]", "[0.9,true]"), "arch.wrong_type");
    EXPECT_EQ(error_with("{\"dtype\":\"u8\",\"elements\":121}", "20"), "arch.wrong_type");
}

TEST(ArchJson, refuses_sizes_and_numbers_out_of_range) {
    for (const char* layers : {"0", "65", "-1", "4294967297", "99999999999999999999"})
        EXPECT_NE(error_with("\"layers\":1", std::string("\"layers\":") + layers), "none") << layers;
    EXPECT_EQ(error_with("\"layers\":1", "\"layers\":65"), "arch.out_of_range");
    EXPECT_EQ(error_with("\"heads\":2", "\"heads\":3"), "arch.heads_do_not_divide");
    EXPECT_EQ(error_with("\"elements\":121", "\"elements\":0"), "arch.out_of_range");
    EXPECT_EQ(error_with("\"elements\":121", "\"elements\":6"), "arch.out_of_range") << "no window of 7";
    EXPECT_EQ(error_with("\"elements\":121", "\"elements\":281474976710657"), "arch.out_of_range");
    EXPECT_EQ(error_with("\"u8\"", "\"u9\""), "arch.unknown_dtype");
    EXPECT_EQ(error_with("\"u8\"", "\"f32\""), "arch.unknown_dtype");
    EXPECT_EQ(error_with("\"batch\":3", "\"batch\":20000"), "arch.out_of_range");
    EXPECT_EQ(error_with("3e-3", "-3e-3"), "arch.out_of_range");
    EXPECT_EQ(error_with("3e-3", "1e39"), "arch.out_of_range");
    EXPECT_EQ(error_with("[0.9,0.95]", "[0.9,1.0]"), "arch.out_of_range");
    EXPECT_EQ(error_with("1e-8", "0"), "arch.out_of_range");
    EXPECT_EQ(error_with("\"total_steps\":300", "\"total_steps\":20"), "arch.out_of_range");
    std::string large = replaced("\"context\":6", "\"context\":8192");
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"batch\":3", "\"batch\":16384"},
                                   std::pair<std::string, std::string>{"\"elements\":121", "\"elements\":9000"}})
        large.replace(large.find(from), from.size(), to);
    EXPECT_EQ(parse_architecture(large).error().name, "arch.too_large");
}

TEST(ArchJson, survives_every_truncation_and_single_byte_change) {
    for (std::size_t size = 0; size < kGood.size(); ++size) {
        const auto result = parse_architecture(std::string_view(kGood).substr(0, size));
        ASSERT_FALSE(result);
        ASSERT_TRUE(result.error().name.starts_with("arch.")) << (result ? "" : result.error().name);
    }
    for (std::size_t i = 0; i < kGood.size(); ++i)
        for (const char c : {'\0', '"', '{', '9', '-', ','}) {
            std::string text = kGood;
            text[i] = c;
            const auto result = parse_architecture(text);
            ASSERT_TRUE(result || result.error().name.starts_with("arch.")) << (result ? "" : result.error().name);
        }
}

TEST(ArchJson, reads_optimizers_and_schedules) {
    const std::string adamw = "\"adamw\",\"lr\":3e-3,\"betas\":[0.9,0.95],\"eps\":1e-8";
    const auto lion = parse_architecture(replaced(adamw, R"("lion","lr":1e-4,"schedule":"cosine")"));
    ASSERT_TRUE(lion) << lion.error().to_string();
    EXPECT_EQ(lion->optimizer.type, OptimizerConfig::Type::lion);
    EXPECT_EQ(lion->optimizer.beta2, 0.99F);
    EXPECT_EQ(lion->optimizer.schedule, OptimizerConfig::Schedule::cosine);
    const auto adam = parse_architecture(replaced("\"adamw\"", "\"adam\""));
    ASSERT_TRUE(adam) << adam.error().to_string();
    EXPECT_EQ(adam->optimizer.type, OptimizerConfig::Type::adam);
    EXPECT_EQ(adam->optimizer.schedule, OptimizerConfig::Schedule::linear);
    EXPECT_EQ(error_with(adamw, R"("lion","lr":1e-4,"eps":1e-8)"), "arch.unknown_field");
    EXPECT_EQ(error_with("\"lr\":3e-3", R"("lr":3e-3,"schedule":"steps")"), "arch.unknown_schedule");
    EXPECT_EQ(error_with("\"adamw\"", "\"adagrad\""), "arch.unknown_optimizer");
}

const std::string kLayers =
    R"({"format":"quern-arch-1","model":{"type":"layers","input":{"height":8,"width":6,"channels":3,"scale":0.5,)"
    R"("shift":-1},"layers":[{"type":"conv2d","channels":8,"kernel":[3,1],"stride":2,"padding":[1,0],"dilation":1,)"
    R"("groups":1,"bias":false},{"type":"batch_norm"},{"type":"relu"},{"type":"max_pool2d","kernel":2,"stride":1},)"
    R"({"type":"residual","inner":[{"type":"conv2d","channels":8,"kernel":1},{"type":"group_norm","groups":2}]},)"
    R"({"type":"avg_pool2d","kernel":2,"padding":1},{"type":"dropout","rate":0.25},{"type":"flatten"},)"
    R"({"type":"linear","size":4}],"outputs":4},"data":[{"dtype":"u8","elements":1440},{"dtype":"u16",)"
    R"("elements":10}],"batch":2,"optimizer":{"type":"sgd","lr":0.1}})";

std::string layers_with(const std::string& what, const std::string& with) {
    std::string text = kLayers;
    const auto place = text.find(what);
    EXPECT_NE(place, std::string::npos) << what;
    return text.replace(place, what.size(), with);
}
std::string layers_error(const std::string& what, const std::string& with) {
    const auto result = parse_architecture(layers_with(what, with));
    return result ? "none" : result.error().to_string();
}

TEST(ArchJson, reads_layers) {
    const auto arch = parse_architecture(kLayers);
    ASSERT_TRUE(arch) << arch.error().to_string();
    ASSERT_FALSE(arch->is_transformer());
    const LayersSpec& model = arch->layers();
    EXPECT_EQ(model.input, LayersSpec::Input::image);
    EXPECT_EQ(model.input_size(), 8U * 6 * 3);
    EXPECT_EQ(model.scale, 0.5F);
    EXPECT_EQ(model.shift, -1.0F);
    EXPECT_EQ(example_count(*arch), 10U);
    ASSERT_EQ(model.layers.size(), 9U);
    const auto& conv = std::get<ConvLayer>(model.layers[0]);
    EXPECT_EQ(conv.channels, 8U);
    EXPECT_EQ(conv.window.kernel.height, 3U);
    EXPECT_EQ(conv.window.kernel.width, 1U);
    EXPECT_EQ(conv.window.stride.width, 2U);
    EXPECT_EQ(conv.window.padding.height, 1U);
    EXPECT_EQ(conv.window.padding.width, 0U);
    EXPECT_FALSE(conv.bias);
    EXPECT_EQ(std::get<PoolLayer>(model.layers[3]).window.stride.height, 1U);
    const auto& residual = std::get<ResidualLayer>(model.layers[4]);
    EXPECT_EQ(residual.inner.size(), 2U);
    EXPECT_TRUE(residual.shortcut.empty());
    const auto& average = std::get<PoolLayer>(model.layers[5]);
    EXPECT_EQ(average.kind, PoolLayer::Kind::average);
    EXPECT_EQ(average.window.stride.height, 2U) << "the kernel's, unless it is given";
    EXPECT_EQ(std::get<DropoutLayer>(model.layers[6]).rate, 0.25F);
    EXPECT_TRUE(build_training_program(*arch)) << build_training_program(*arch).error().to_string();

    const auto rows = parse_architecture(layers_with(R"({"height":8,"width":6,"channels":3,)", R"({"features":144,)"));
    ASSERT_TRUE(rows) << rows.error().to_string();
    EXPECT_EQ(rows->layers().input, LayersSpec::Input::row);
    EXPECT_EQ(build_training_program(*rows).error().name, "layers.bad_input") << "a convolution of rows";
}

TEST(ArchJson, reads_the_precision_of_layers) {
    const auto with = [](const std::string& what, const std::string& to) {
        const auto arch = parse_architecture(layers_with(what, to));
        EXPECT_TRUE(arch) << arch.error().to_string();
        return arch ? std::get<LinearLayer>(arch->layers().layers.back()).precision : Precision::f32;
    };
    EXPECT_EQ(with("\"size\":4}", "\"size\":4}"), Precision::f32);
    EXPECT_EQ(with("\"size\":4}", "\"size\":4,\"precision\":\"int8\"}"), Precision::int8);
    EXPECT_EQ(with("\"outputs\":4", "\"outputs\":4,\"precision\":\"int8\""), Precision::int8);
    EXPECT_EQ(
        with("\"size\":4}],\"outputs\":4", "\"size\":4,\"precision\":\"f32\"}],\"outputs\":4,\"precision\":\"int8\""),
        Precision::f32)
        << "its own before the model's";
    EXPECT_EQ(layers_error("\"size\":4}", "\"size\":4,\"precision\":\"f16\"}"),
              "arch.unknown_precision: model.layers[8].precision is f16; known: f32, int8");
    EXPECT_EQ(layers_error("\"bias\":false", "\"precision\":\"int8\"").substr(0, 18), "arch.unknown_field")
        << "of a convolution";
    EXPECT_EQ(layers_error("\"outputs\":4", "\"outputs\":4,\"layer_precision\":{}").substr(0, 18),
              "arch.unknown_field");

    const auto nested = parse_architecture(layers_with(
        "{\"type\":\"flatten\"},",
        R"({"type":"flatten"},{"type":"residual","inner":[{"type":"linear","size":72}]},)"
        R"({"type":"linear","size":4,"precision":"f32"},{"type":"residual","precision":"int8","inner":[]},)"));
    EXPECT_EQ(nested.error().name, "arch.unknown_field") << "of what holds layers";
    const auto inside = parse_architecture(layers_with(
        R"({"type":"flatten"},{"type":"linear","size":4}],)",
        R"({"type":"flatten"},{"type":"residual","inner":[{"type":"linear","size":32}]}],"precision":"int8",)"));
    ASSERT_TRUE(inside) << inside.error().to_string();
    const auto& residual = std::get<ResidualLayer>(inside->layers().layers.back());
    EXPECT_EQ(std::get<LinearLayer>(residual.inner[0]).precision, Precision::int8);
}

TEST(ArchJson, names_what_is_wrong_with_layers) {
    EXPECT_EQ(layers_error("\"outputs\":4}", "\"outputs\":4,\"loss\":\"mse\"}").substr(0, 15), "arch.wrong_data");
    EXPECT_EQ(layers_error("\"outputs\":4}", "\"outputs\":4,\"loss\":\"hinge\"}").substr(0, 17), "arch.unknown_loss");
    EXPECT_EQ(
        layers_error("{\"type\":\"relu\"}", "{\"type\":\"swish\"}"),
        "arch.unknown_layer: model.layers[2].type is swish; known: conv2d, max_pool2d, avg_pool2d, "
        "global_avg_pool2d, batch_norm, group_norm, layer_norm, relu, gelu, silu, tanh, sigmoid, softplus, linear, "
        "flatten, dropout, residual");
    EXPECT_EQ(layers_error("{\"type\":\"relu\"}", "{\"type\":\"relu\",\"slope\":1}"),
              "arch.unknown_field: model.layers[2].slope");
    EXPECT_EQ(layers_error("{\"height\":8,\"width\":6,\"channels\":3,", "{\"tokens\":3},\"_\":{").substr(0, 18),
              "arch.unknown_field");
    EXPECT_EQ(layers_error("{\"type\":\"relu\"}", "[]"),
              "arch.wrong_type: model.layers[2] must be an object, is array");
    EXPECT_EQ(layers_error("\"kernel\":[3,1]", "\"kernel\":[3,1,1]").substr(0, 15), "arch.wrong_type");
    EXPECT_EQ(layers_error("\"kernel\":[3,1]", "\"kernel\":5000"),
              "arch.out_of_range: model.layers[0].kernel: 0 to 4096");
    EXPECT_EQ(layers_error("\"rate\":0.25", "\"rate\":1").substr(0, 17), "arch.out_of_range");
    EXPECT_EQ(layers_error("\"groups\":2}]", "\"groups\":2},{\"type\":\"lstm\"}]").substr(0, 64),
              "arch.unknown_layer: model.layers[4].inner[2].type is lstm; known");
    EXPECT_EQ(layers_error("\"elements\":1440", "\"elements\":1441").substr(0, 15), "arch.wrong_data");
    EXPECT_EQ(layers_error("\"elements\":1440", "\"elements\":1296").substr(0, 15), "arch.wrong_data");
    EXPECT_EQ(layers_error("\"elements\":10}", "\"elements\":10},{\"dtype\":\"u8\",\"elements\":10}").substr(0, 15),
              "arch.wrong_data");
    EXPECT_EQ(layers_error("\"u16\"", "\"f32\"").substr(0, 18), "arch.unknown_dtype");
    const std::string deep = [] {
        std::string inner = R"({"type":"relu"})";
        for (std::size_t i = 0; i <= kMaxLayerDepth; ++i) inner = R"({"type":"residual","inner":[)" + inner + "]}";
        return inner;
    }();
    EXPECT_EQ(layers_error("{\"type\":\"relu\"}", deep).substr(0, 15), "layers.too_deep");
    const auto wrong = parse_architecture(layers_with("\"size\":4", "\"size\":5"));
    ASSERT_TRUE(wrong);
    EXPECT_EQ(build_training_program(*wrong).error().to_string(),
              "arch.wrong_output: the last layer gives [1,1,2,5], model.outputs wants [1,1,2,4]");
}

}  // namespace
}  // namespace quern::compute::program
