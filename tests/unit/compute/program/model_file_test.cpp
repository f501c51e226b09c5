// Architectures of networks in files beside them (tests/vectors/onnx).
#include "compute/program/model_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/fs.h"
#include "compute/program/arch_json.h"
#include "compute/program/initial_state.h"
#include "compute/program/start_program.h"

namespace quern::compute::program {
namespace {

class ModelFiles : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "quern-models-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }

private:
    std::string folder_;
};

constexpr const char* kNetwork = R"({"format":"quern-arch-1","model":{"type":"network","file":"gpt.onnx",
  "input":{"tokens":16},"outputs":40,"loss":"next_token","frozen":["wpe.weight"]},
  "data":{"dtype":"u8","elements":1000},"batch":4,"optimizer":{"type":"sgd","lr":0.1}})";
std::string network_with(const std::string& what, const std::string& with) {
    std::string text = kNetwork;
    const auto place = text.find(what);
    EXPECT_NE(place, std::string::npos) << what;
    return text.replace(place, what.size(), with);
}

TEST_F(ModelFiles, are_read_from_beside_their_architecture) {
    const auto parsed = parse_architecture(kNetwork);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(parsed->layers().network_file, "gpt.onnx");
    EXPECT_EQ(parsed->layers().training.frozen, (std::set<std::string>{"wpe.weight"}));
    EXPECT_EQ(parsed->layers().training.precision, Precision::f32);
    const auto in_bytes = parse_architecture(
        network_with(R"("frozen")", R"("precision":"int8","layer_precision":{"/lm_head/MatMul":"f32"},"frozen")"));
    ASSERT_TRUE(in_bytes) << in_bytes.error().to_string();
    EXPECT_EQ(in_bytes->layers().training.precision, Precision::int8);
    EXPECT_EQ(in_bytes->layers().training.layer_precision, (LayerPrecision{{"/lm_head/MatMul", Precision::f32}}));
    EXPECT_EQ(check_architecture(*parsed).error().to_string(), "arch.no_network: gpt.onnx");

    const auto read = [&](const std::string& text) {
        EXPECT_TRUE(fs::write_file_atomic(file("arch.json"), as_bytes(text)));
        const auto result = read_architecture(file("arch.json"));
        return result ? "none" : std::string(result.error().name);
    };
    const auto copied = fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/gpt.onnx", 1U << 20);
    ASSERT_TRUE(copied);
    EXPECT_EQ(read(kNetwork), "fs.not_found");
    EXPECT_TRUE(fs::write_file_atomic(file("gpt.onnx"), *copied));
    EXPECT_EQ(read(kNetwork), "none");
    const auto whole = read_architecture(file("arch.json"));
    ASSERT_TRUE(whole);
    EXPECT_EQ(example_count(*whole), 62U) << "windows of 16 tokens and one";
    const auto built = build_training_program(*whole);
    ASSERT_TRUE(built) << built.error().to_string();
    EXPECT_EQ(build_training_program(*read_architecture(file("arch.json")))->program.header, built->program.header);

    EXPECT_EQ(read(network_with("gpt.onnx", "../gpt.onnx")), "arch.outside");
    EXPECT_EQ(read(network_with("gpt.onnx", "/gpt.onnx")), "arch.outside");
    EXPECT_EQ(read(network_with("gpt.onnx", "pipe.onnx")), "fs.not_found");
    ASSERT_EQ(::mkfifo(file("pipe.onnx").c_str(), 0600), 0);
    EXPECT_EQ(read(network_with("gpt.onnx", "pipe.onnx")), "arch.no_file") << "and is not waited for";
    EXPECT_EQ(read(network_with("gpt.onnx", "")), "arch.out_of_range");
    EXPECT_EQ(read(network_with("gpt.onnx", "arch.json")), "onnx.not_onnx");
    EXPECT_EQ(read(network_with("\"tokens\":16", "\"features\":16")), "arch.wrong_loss");
    EXPECT_EQ(read(network_with("\"tokens\":16", "\"tokens\":16,\"scale\":2")), "arch.unknown_field");
    EXPECT_EQ(read(network_with("\"u8\"", "\"f32\"")), "arch.unknown_dtype");
    EXPECT_EQ(read(network_with("[\"wpe.weight\"]", "[1]")), "arch.wrong_type");
    EXPECT_EQ(read(network_with("[\"wpe.weight\"]", "7")), "arch.wrong_type");
    const auto error = [&](const std::string& what, const std::string& with) {
        EXPECT_EQ(read(network_with(what, with)), "none");
        const auto program = build_training_program(*read_architecture(file("arch.json")));
        return program ? "none" : std::string(program.error().name);
    };
    EXPECT_EQ(error("\"tokens\":16", "\"tokens\":15"), "onnx.bad_input");
    EXPECT_EQ(error("\"outputs\":40", "\"outputs\":41"), "arch.wrong_output");
    EXPECT_EQ(error("wpe.weight", "wpe"), "onnx.unknown_frozen");
}

// A state of a network begins with the file's words, which no program makes.
TEST_F(ModelFiles, give_the_words_that_a_state_begins_with) {
    ASSERT_TRUE(fs::write_file_atomic(file("arch.json"), as_bytes(std::string_view(kNetwork))));
    const auto model = fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/gpt.onnx", 1U << 20);
    ASSERT_TRUE(model && fs::write_file_atomic(file("gpt.onnx"), *model));
    const auto architecture = read_architecture(file("arch.json"));
    ASSERT_TRUE(architecture);
    const auto built = build_training_program(*architecture);
    ASSERT_TRUE(built);
    const auto state = initial_state(*built, 1);
    const auto slot = slot_index(built->program, "model.wte.weight", "missing");
    ASSERT_TRUE(slot);
    EXPECT_EQ(state[*slot].words, *architecture->layers().network->initializers.at("wte.weight").floats);
    EXPECT_FALSE(slot_index(built->program, "model.h.0.attn.mask", "missing"));
    EXPECT_EQ(build_start_program(*built, {}).error().name, "start.given_words");
}

}  // namespace
}  // namespace quern::compute::program
