// Trained words back in the ONNX files that a network came in.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "compute/program/arch_json.h"
#include "compute/program/half_float.h"
#include "compute/program/initial_state.h"
#include "compute/program/model_file.h"
#include "compute/program/onnx_file.h"
#include "compute/program/safetensors.h"
#include "compute/program/state_file.h"
#include "unit/compute/program/network_cases.h"

namespace quern::compute::program {
namespace {

using Words = std::vector<std::uint32_t>;

std::uint32_t bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

onnx::ModelProto message_of(const Bytes& file) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromArray(file.data(), static_cast<int>(file.size())));
    return model;
}
Bytes bytes_of(const onnx::ModelProto& model) {
    const std::string text = model.SerializeAsString();
    return {text.begin(), text.end()};
}

// One initializer "w" of these dims, y = x + w.
onnx::ModelProto one(onnx::TensorProto_DataType type, std::vector<std::int64_t> dims) {
    onnx::ModelProto model;
    model.set_ir_version(7);
    model.add_opset_import()->set_version(13);
    onnx::GraphProto& graph = *model.mutable_graph();
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(type);
    for (const std::int64_t dim : dims) tensor.add_dims(dim);
    return model;
}
onnx::TensorProto& first(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_initializer(0); }

Expected<Bytes> replaced(const onnx::ModelProto& model, const Words& words, std::string_view name = "w") {
    const TrainedWords trained{name, words};
    return replace_initializers(bytes_of(model), std::span(&trained, 1));
}
std::string error_of(const onnx::ModelProto& model, const Words& words, std::string_view name = "w") {
    const auto result = replaced(model, words, name);
    return std::string(result ? "none" : result.error().name);
}
std::string raw_of(const Expected<Bytes>& file) {
    EXPECT_TRUE(file) << file.error().to_string();
    return file ? message_of(*file).graph().initializer(0).raw_data() : "";
}

TEST(OnnxExport, of_a_network_has_its_graph_and_the_words_of_the_state) {
    for (const char* name : {"resnet", "gpt", "encoder", "lstm", "gru-eval", "zoo"}) {
        SCOPED_TRACE(name);
        const Bytes given = vector_file(QUERN_ONNX_VECTORS, std::string(name) + ".onnx");
        const auto before = read_onnx(given);
        ASSERT_TRUE(before);
        std::map<std::string, Words, std::less<>> changed;
        std::vector<TrainedWords> trained;
        for (const auto& [key, tensor] : before->initializers) {
            if (!tensor.is_float) continue;
            Words words = *tensor.floats;
            for (std::uint32_t& word : words) word ^= 0x00400001;
            trained.push_back({key, changed.emplace(key, std::move(words)).first->second});
        }
        ASSERT_FALSE(trained.empty());
        const auto copy = replace_initializers(given, trained);
        ASSERT_TRUE(copy) << copy.error().to_string();
        EXPECT_EQ(*replace_initializers(given, trained), *copy);
        const auto after = read_onnx(*copy);
        ASSERT_TRUE(after) << after.error().to_string();
        ASSERT_EQ(after->initializers.size(), before->initializers.size());
        for (const auto& [key, tensor] : after->initializers) {
            EXPECT_EQ(tensor.dims, before->initializers.at(key).dims);
            if (!tensor.is_float) continue;
            EXPECT_EQ(*tensor.floats, changed.at(key)) << key;
        }
        // Nothing but words is another.
        onnx::ModelProto was = message_of(given);
        onnx::ModelProto is = message_of(*copy);
        for (onnx::ModelProto* model : {&was, &is})
            for (onnx::TensorProto& tensor : *model->mutable_graph()->mutable_initializer()) {
                if (tensor.data_type() != onnx::TensorProto_DataType_FLOAT) continue;
                tensor.clear_raw_data();
                tensor.clear_float_data();
            }
        EXPECT_EQ(was.SerializeAsString(), is.SerializeAsString());
    }
}

TEST(OnnxExport, of_a_trained_state_is_what_the_model_file_says) {
    const std::string path = std::string(QUERN_ONNX_VECTORS) + "/resnet.onnx";
    const Bytes given = vector_file(QUERN_ONNX_VECTORS, "resnet.onnx");
    const auto network = read_onnx(given);
    ASSERT_TRUE(network);
    const auto text =
        fit_architecture(*network, "resnet.onnx", std::vector<DataFile>{{10 * 3 * 16 * 16, {}}, {10, {}}}, {});
    ASSERT_TRUE(text) << text.error().to_string();
    auto architecture = parse_architecture(*text);
    ASSERT_TRUE(architecture) << architecture.error().to_string();
    EXPECT_EQ(onnx_file_of("/models/arch.json", *architecture), "/models/resnet.onnx");
    EXPECT_EQ(onnx_file_of("/models/net.onnx", *architecture), "/models/net.onnx");
    EXPECT_EQ(onnx_file_of("/models/net.pt", *architecture), "");
    architecture->layers().network = std::make_shared<const Network>(*network);
    const auto built = build_training_program(*architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    vm::tensor::State state = initial_state(*built, 1);
    for (vm::tensor::Tensor& slot : state)
        if (slot.dtype == DType::f32)
            for (std::uint32_t& word : slot.words) word ^= 0x00400001;
    const auto onnx = export_onnx(built->program, state, given);
    ASSERT_TRUE(onnx) << onnx.error().to_string();
    const auto after = read_onnx(*onnx);
    ASSERT_TRUE(after);
    const auto model = read_safetensors(*export_model(built->program, state));
    ASSERT_TRUE(model);
    EXPECT_NE(model->find("layer1.bn1.running_mean"), nullptr);
    for (const NamedTensor& each : model->tensors)
        EXPECT_EQ(*after->initializers.at(each.name).floats, each.tensor.words) << each.name;
    // Another network's file has other initializers.
    EXPECT_EQ(export_onnx(built->program, state, vector_file(QUERN_ONNX_VECTORS, "gru.onnx")).error().name,
              "onnx.unknown_initializer");
    EXPECT_EQ(onnx_file_of("arch.json", Architecture{}), "");
    architecture->layers().network_file = "net.pth";
    EXPECT_EQ(onnx_file_of("arch.json", *architecture), "");
}

TEST(OnnxExport, keeps_the_type_that_a_tensor_has) {
    const Words words{bits(1.5F), bits(-2.0F)};
    const std::string f32 = std::string("\0\0\xc0\x3f\0\0\0\xc0", 8);
    auto model = one(onnx::TensorProto_DataType_FLOAT, {2});
    for (const float each : {0.0F, 0.0F}) first(model).add_float_data(each);
    const auto copy = replaced(model, words);
    EXPECT_EQ(raw_of(copy), f32);
    EXPECT_EQ(message_of(*copy).graph().initializer(0).float_data_size(), 0) << "in one place alone";

    model = one(onnx::TensorProto_DataType_DOUBLE, {1, 2});
    for (const double each : {0.0, 0.0}) first(model).add_double_data(each);
    EXPECT_EQ(raw_of(replaced(model, words)), std::string("\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\0\xc0", 16));

    model = one(onnx::TensorProto_DataType_FLOAT16, {2, 1});
    for (const int each : {0, 0}) first(model).add_int32_data(each);
    EXPECT_EQ(raw_of(replaced(model, words)), std::string("\0\x3e\0\xc0", 4));
    EXPECT_EQ(error_of(model, {bits(65'520.0F), 0}), "onnx.out_of_range");

    model = one(onnx::TensorProto_DataType_BFLOAT16, {2});
    first(model).set_raw_data(std::string(4, '\0'));
    EXPECT_EQ(raw_of(replaced(model, words)), std::string("\xc0\x3f\0\xc0", 4));
    EXPECT_EQ(error_of(model, {0x7f7fffff, 0}), "onnx.out_of_range");
}

TEST(OnnxExport, refuses_what_does_not_fit) {
    auto model = one(onnx::TensorProto_DataType_FLOAT, {2});
    first(model).set_raw_data(std::string(8, '\0'));
    EXPECT_EQ(error_of(model, {1, 2}), "none");
    EXPECT_EQ(error_of(model, {1, 2}, "v"), "onnx.unknown_initializer");
    EXPECT_EQ(error_of(model, {1}), "onnx.bad_tensor");
    EXPECT_EQ(error_of(model, {1, 2, 3}), "onnx.bad_tensor");
    auto lying = model;
    first(lying).set_dims(0, 3);
    EXPECT_EQ(error_of(lying, {1, 2, 3}), "onnx.bad_tensor");
    EXPECT_EQ(error_of(lying, {1, 2}), "onnx.bad_tensor");
    first(lying).set_dims(0, -2);
    EXPECT_EQ(error_of(lying, {1, 2}), "onnx.bad_tensor");
    auto whole = model;
    first(whole).set_data_type(onnx::TensorProto_DataType_INT32);
    EXPECT_EQ(error_of(whole, {1, 2}), "onnx.bad_tensor");
    auto elsewhere = model;
    first(elsewhere).set_data_location(onnx::TensorProto_DataLocation_EXTERNAL);
    EXPECT_EQ(error_of(elsewhere, {1, 2}), "onnx.external_data");
    auto twice = model;
    *twice.mutable_graph()->add_initializer() = first(twice);
    EXPECT_EQ(error_of(twice, {1, 2}), "onnx.duplicate");
    EXPECT_EQ(replace_initializers(Bytes{1, 2, 3}, {}).error().name, "onnx.not_onnx");
}

TEST(HalfFloats, come_back_from_binary32) {
    for (std::uint32_t half = 0; half < 0x10000; ++half) {
        ASSERT_EQ(narrowed_half(widened_half(half)), half);
        ASSERT_EQ(narrowed_bfloat16(widened_bfloat16(half)), half);
    }
}

TEST(HalfFloats, are_rounded_to_the_nearest_and_half_ways_to_even) {
    for (std::uint32_t half = 0; half < 0x7bff; ++half) {
        const double low = static_cast<double>(__builtin_bit_cast(float, widened_half(half)));
        const double high = static_cast<double>(__builtin_bit_cast(float, widened_half(half + 1)));
        const auto middle = static_cast<float>((low + high) / 2);  // exact
        const std::uint32_t even = half % 2 == 0 ? half : half + 1;
        ASSERT_EQ(narrowed_half(bits(middle)), even);
        ASSERT_EQ(narrowed_half(bits(-middle)), even | 0x8000);
        ASSERT_EQ(narrowed_half(bits(std::nextafter(middle, 0.0F))), half);
        ASSERT_EQ(narrowed_half(bits(std::nextafter(middle, 1e9F))), half + 1);
    }
    EXPECT_EQ(narrowed_half(bits(std::nextafter(65'520.0F, 0.0F))), 0x7bff);
    EXPECT_EQ(narrowed_half(bits(-65'520.0F)), std::nullopt);
    EXPECT_EQ(narrowed_half(0x7f800001), 0x7e00) << "a NaN stays one";
    for (const std::uint32_t upper : {0x0000U, 0x3f80U, 0x3f81U, 0x8001U, 0x7f7eU}) {
        const std::uint32_t even = upper % 2 == 0 ? upper : upper + 1;
        EXPECT_EQ(narrowed_bfloat16(upper << 16 | 0x8000), even);
        EXPECT_EQ(narrowed_bfloat16(upper << 16 | 0x7fff), upper);
        EXPECT_EQ(narrowed_bfloat16(upper << 16 | 0x8001), upper + 1);
    }
    EXPECT_EQ(narrowed_bfloat16(0x7f7f8000), std::nullopt);
    EXPECT_EQ(narrowed_bfloat16(0xff800001), 0xffc0) << "a NaN stays one";
}

}  // namespace
}  // namespace quern::compute::program
