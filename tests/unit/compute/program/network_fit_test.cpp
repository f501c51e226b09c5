// Architectures that are worked out for networks in files (tests/vectors/onnx) and their data.
#include "compute/program/network_fit.h"

#include <gtest/gtest.h>

#include <string>

#include "base/fs.h"
#include "compute/program/arch_json.h"
#include "compute/program/onnx_file.h"

namespace quern::compute::program {
namespace {

using vm::tensor::DataType;

Network network_of(const std::string& name) {
    const auto file = fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/" + name + ".onnx", 1U << 20);
    EXPECT_TRUE(file) << name;
    auto network = read_onnx(*file);
    EXPECT_TRUE(network) << network.error().to_string();
    return std::move(*network);
}

Expected<Architecture> fitted(const std::string& name, const std::vector<DataFile>& data,
                              const FitChoices& choices = {}) {
    QUERN_TRY(const std::string text, fit_architecture(network_of(name), name + ".onnx", data, choices));
    return parse_architecture(text);
}
std::string error_of(const Expected<Architecture>& result) {
    return result ? "none" : std::string(result.error().name);
}

TEST(NetworkFit, of_images_and_classes) {
    const auto bytes = fitted("resnet", {{10 * 3 * 16 * 16, {}}, {10, {}}});
    ASSERT_TRUE(bytes) << bytes.error().to_string();
    const LayersSpec& model = bytes->layers();
    EXPECT_EQ(model.network_file, "resnet.onnx");
    EXPECT_EQ(model.input, LayersSpec::Input::image);
    EXPECT_EQ(model.input_size(), 3U * 16 * 16);
    EXPECT_EQ(model.scale, 0.0078125F);
    EXPECT_EQ(model.outputs, 4U);
    EXPECT_EQ(model.loss, LayersSpec::Loss::cross_entropy);
    EXPECT_EQ(bytes->data[1].type, DataType::u8);
    EXPECT_EQ(bytes->batch, 32U);
    const auto wide = fitted("resnet", {{4 * 10 * 3 * 16 * 16, R"({"dtype":"f32"})"}, {20, {}}}, {"", 8, "0.25", 700});
    ASSERT_TRUE(wide) << wide.error().to_string();
    EXPECT_EQ(wide->layers().scale, 1.0F);
    EXPECT_EQ(wide->data[0].elements, 10U * 3 * 16 * 16);
    EXPECT_EQ(wide->data[1].type, DataType::u16);
    EXPECT_EQ(wide->batch, 8U);
    EXPECT_EQ(wide->optimizer.learning_rate, 0.25F);
    EXPECT_EQ(wide->optimizer.total_steps, 700U);
}

TEST(NetworkFit, of_rows_and_targets) {
    const auto rows = fitted("gru", {{4 * 30 * 7, {}}, {4 * 2 * 7, {}}}, {"mse", 32, "0.001", 0});
    ASSERT_TRUE(rows) << rows.error().to_string();
    EXPECT_EQ(rows->layers().channels, 30U);
    EXPECT_EQ(rows->data[0].type, DataType::f32);
    EXPECT_EQ(rows->data[1].type, DataType::f32);
    EXPECT_EQ(rows->data[1].elements, 14U);
    EXPECT_EQ(rows->layers().loss, LayersSpec::Loss::mean_squared_error);
}

TEST(NetworkFit, of_targets_that_are_described) {
    const std::uint64_t inputs = 4 * 30 * 7;
    const auto arrays = [&](const char* described, std::uint64_t bytes, const std::string& loss) {
        return fitted("gru", {{inputs, described}, {bytes, {}}}, {loss, 32, "0.001", 0});
    };
    const char* const wholes = R"({"dtype":"f32","targets":{"dtype":"i32","elements":14}})";
    const auto whole = arrays(wholes, 4 * 2 * 7, "mse");
    ASSERT_TRUE(whole) << whole.error().to_string();
    EXPECT_EQ(whole->data[1].type, DataType::i32) << "numbers of a table that are all whole";
    EXPECT_EQ(error_of(arrays(wholes, 2 * 2 * 7, "mse")), "fit.wrong_data");
    const char* const numbers = R"({"dtype":"f32","targets":{"dtype":"f32","elements":14}})";
    const auto regression = arrays(numbers, 4 * 2 * 7, "");
    ASSERT_TRUE(regression) << regression.error().to_string();
    EXPECT_EQ(regression->layers().loss, LayersSpec::Loss::mean_squared_error);
    EXPECT_EQ(error_of(arrays(numbers, 4 * 7, "cross_entropy")), "fit.wrong_data") << "numbers are no classes";
    const auto labels = arrays(R"({"dtype":"f32","labels":{"dtype":"u16"}})", 2 * 7, "");
    ASSERT_TRUE(labels) << labels.error().to_string();
    EXPECT_EQ(labels->layers().loss, LayersSpec::Loss::cross_entropy);
    EXPECT_EQ(labels->data[1].type, DataType::u16);
    const auto beside = fitted("gru", {{inputs, {}}, {4 * 2 * 7, R"({"dtype":"f32"})"}});
    ASSERT_TRUE(beside) << beside.error().to_string();
    EXPECT_EQ(beside->layers().loss, LayersSpec::Loss::mean_squared_error);
    EXPECT_EQ(error_of(arrays(R"({"targets":{"dtype":"f64"}})", 4 * 7, "")), "fit.bad_description");
}

TEST(NetworkFit, of_tokens) {
    const auto next = fitted("gpt", {{1000, {}}});
    ASSERT_TRUE(next) << next.error().to_string();
    EXPECT_EQ(next->layers().loss, LayersSpec::Loss::next_token);
    EXPECT_EQ(next->layers().channels, 16U);
    EXPECT_EQ(next->layers().outputs, 40U);
    EXPECT_EQ(next->data[0].type, DataType::u8);
    const auto pairs = fitted("gpt", {{1000, R"({"dtype":"u16"})"}});
    ASSERT_TRUE(pairs);
    EXPECT_EQ(pairs->data[0].elements, 500U);
    const auto classes = fitted("encoder", {{12 * 9, {}}, {9, {}}});
    ASSERT_TRUE(classes) << classes.error().to_string();
    EXPECT_EQ(classes->layers().loss, LayersSpec::Loss::cross_entropy);
    EXPECT_EQ(classes->layers().outputs, 3U);
}

TEST(NetworkFit, of_held_out_files_takes_the_types_of_the_data) {
    FitChoices choices;
    choices.evaluate_every = 50;
    const auto fit = [&](const std::vector<DataFile>& held_out) -> Expected<Architecture> {
        const std::vector<DataFile> data{{10 * 768, {}}, {20, {}}};
        QUERN_TRY(const std::string text,
                  fit_architecture(network_of("resnet"), "resnet.onnx", data, choices, held_out));
        return parse_architecture(text);
    };
    const auto some = fit({{3 * 768, {}}, {6, {}}});
    ASSERT_TRUE(some) << some.error().to_string();
    ASSERT_TRUE(some->held_out);
    EXPECT_EQ(some->held_out->every, 50U);
    ASSERT_EQ(some->held_out->data.size(), 2U);
    EXPECT_EQ(some->held_out->data[0].elements, 3U * 768);
    EXPECT_EQ(some->held_out->data[1].type, DataType::u16);
    EXPECT_EQ(some->held_out->data[1].elements, 3U);
    EXPECT_EQ(error_of(fit({{3 * 768, {}}})), "fit.no_data");
    EXPECT_EQ(error_of(fit({{3 * 768, {}}, {5, {}}})), "fit.wrong_data");
    EXPECT_FALSE(fit({})->held_out);
}

std::size_t products_in_bytes(const Expected<Architecture>& fitted, const std::string& name) {
    EXPECT_TRUE(fitted) << fitted.error().to_string();
    if (!fitted) return 0;
    Architecture architecture = *fitted;
    architecture.layers().network = std::make_shared<const Network>(network_of(name));
    const auto built = build_training_program(architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    std::size_t count = 0;
    for (const Node& node : built->program.nodes) count += node.op == Op::imatmul ? 1 : 0;
    return count;
}

// PyTorch's own files: layers of GPT-2, and an encoder with its attention, whose products are none.
TEST(NetworkFit, in_the_precision_that_is_chosen) {
    const auto gpt = [](const std::string& precision, std::vector<std::string> in_f32) {
        return fitted("gpt", {{1'000, {}}}, {"", 2, "0.001", 0, "", precision, std::move(in_f32)});
    };
    EXPECT_EQ(products_in_bytes(gpt("", {}), "gpt"), 0U);
    const std::size_t all = products_in_bytes(gpt("int8", {}), "gpt");
    EXPECT_EQ(all, 3U * (2 * 4 + 1)) << "four layers a block, and the tied output layer";
    EXPECT_EQ(products_in_bytes(gpt("int8", {"/h.0/mlp"}), "gpt"), all - 3U * 2);
    EXPECT_EQ(error_of(gpt("int4", {})), "arch.unknown_precision");
    EXPECT_EQ(error_of(gpt("int8", {"/h.9"})), "onnx.unknown_layer");
    const auto encoder = [](const std::string& precision) {
        return fitted("encoder", {{60 * 12, {}}, {60, {}}}, {"cross_entropy", 2, "0.001", 0, "", precision});
    };
    EXPECT_EQ(products_in_bytes(encoder("int8"), "encoder"), 3U * 4);
}

TEST(NetworkFit, refuses_what_does_not_fit) {
    EXPECT_EQ(error_of(fitted("resnet", {})), "fit.no_data");
    EXPECT_EQ(error_of(fitted("resnet", {{768, {}}})), "fit.no_data");
    EXPECT_EQ(error_of(fitted("resnet", {{768, {}}, {1, {}}, {1, {}}})), "fit.no_data");
    EXPECT_EQ(error_of(fitted("resnet", {{767, {}}, {1, {}}})), "fit.wrong_data");
    EXPECT_EQ(error_of(fitted("resnet", {{0, {}}, {0, {}}})), "fit.wrong_data");
    EXPECT_EQ(error_of(fitted("resnet", {{768, {}}, {3, {}}})), "fit.wrong_data");
    EXPECT_EQ(error_of(fitted("gru", {{4 * 30 + 1, {}}, {1, {}}})), "fit.wrong_data") << "a part of an element";
    EXPECT_EQ(error_of(fitted("resnet", {{768, "no json"}, {1, {}}})), "fit.bad_description");
    EXPECT_EQ(error_of(fitted("resnet", {{768, R"({"dtype":"f64"})"}, {1, {}}})), "fit.bad_description");
    EXPECT_EQ(error_of(fitted("resnet", {{768, {}}, {1, {}}}, {"", 0, "1", 0})), "arch.out_of_range");
    EXPECT_EQ(error_of(fitted("resnet", {{768, {}}, {4, {}}}, {"hinge", 1, "1", 0})), "arch.unknown_loss");
    EXPECT_EQ(error_of(fitted("resnet", {{768, {}}, {9, {}}}, {"hinge", 1, "1", 0})), "arch.unknown_loss")
        << "the loss that there is not, before the targets that do not fit it";
    for (const char* const rate : {"0,1", "fast", "\"1\"", ""})
        EXPECT_EQ(error_of(fitted("resnet", {{768, {}}, {1, {}}}, {"", 1, rate, 0})), "fit.bad_rate") << rate;
    EXPECT_EQ(error_of(fitted("resnet", {{768, {}}, {1, {}}}, {"", 1, "-1", 0})), "arch.out_of_range");
    Network open = network_of("resnet");
    open.input_dims[2] = open.input_dims[3] = 0;
    const auto fit = [&](const std::vector<DataFile>& data) {
        const auto text = fit_architecture(open, "x.onnx", data, {});
        return text ? "none" : std::string(text.error().name);
    };
    EXPECT_EQ(fit({{768, {}}, {1, {}}}), "fit.unknown_dims");
    EXPECT_EQ(fit({{768, R"({"dtype":"u8","height":16,"width":16,"channels":3})"}, {1, {}}}), "none");
    EXPECT_EQ(fit({{768, R"({"height":1e18,"width":16})"}, {1, {}}}), "fit.unknown_dims");
}

TEST(NetworkFit, says_what_the_files_were_taken_for) {
    const auto bytes = fitted("resnet", {{4 * 768, {}}, {1, {}}});
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().to_string(),
              "fit.wrong_data: 1 bytes of targets; 4 examples of 768 elements of u8 (no description beside the file) "
              "have 4 targets of 1, 2 or 4 bytes");
    const auto described = fitted("resnet", {{4 * 100, R"({"dtype":"f32"})"}, {1, {}}});
    ASSERT_FALSE(described);
    EXPECT_EQ(described.error().to_string(), "fit.wrong_data: 100 elements of f32, an example has 768");
}

}  // namespace
}  // namespace quern::compute::program
