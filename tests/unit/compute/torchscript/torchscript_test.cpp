// TorchScript archives that PyTorch wrote (tests/vectors/torchscript, made by make.py there): what they compute and
// their gradients against PyTorch's own numbers, and archives that no one should have written, in the program that
// reads them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/fs.h"
#include "compute/program/architecture.h"
#include "compute/program/model_file.h"
#include "compute/program/network_lowering.h"
#include "compute/program/onnx_file.h"
#include "compute/program/torchscript_file.h"
#include "support/converted_archive.h"
#include "unit/compute/program/network_cases.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::program {
namespace {

constexpr std::uint32_t kSeconds = 120;
const std::string kFolder = QUERN_TORCHSCRIPT_VECTORS;

Expected<Network> read(const std::string& name, const TorchscriptInput& input) {
    return read_torchscript(kFolder + "/" + name, input, QUERN_TORCHSCRIPT, kSeconds);
}

struct Case {
    NetworkCase network;
    TorchscriptInput input;
};
const std::array<Case, 6> kCases{{{{"resnet", 4, true, 2e-4}, {{3, 16, 16}, false}},
                                  {{"zoo", 3, true, 2e-4}, {{6, 9, 8}, false}},
                                  {{"gpt", 40, false, 2e-4}, {{16}, true}},
                                  {{"encoder", 3, false, 2e-4}, {{12}, false}},
                                  {{"lstm", 30, false, 2e-4}, {{10}, false}},
                                  {{"gru", 2, false, 2e-4}, {{30}, false}}}};

class TorchscriptFiles : public testing::TestWithParam<Case> {
protected:
    static Network network(const std::string& kind) {
        const Case& each = GetParam();
        auto network = read(std::string(each.network.name) + "-" + kind + ".pt", each.input);
        EXPECT_TRUE(network) << network.error().to_string();
        return network ? std::move(*network) : Network{};
    }
};

TEST_P(TorchscriptFiles, scripted_train_as_their_framework_says) {
    const Case& each = GetParam();
    const Network read = network("script");
    expect_trains_as_its_framework(read, each.network, numbers_of_case(kFolder, each.network));
}

TEST_P(TorchscriptFiles, traced_train_as_their_framework_says) {
    const Case& each = GetParam();
    const Network read = network("trace");
    expect_trains_as_its_framework(read, each.network, numbers_of_case(kFolder, each.network));
}

TEST_P(TorchscriptFiles, in_evaluation_mode_compute_the_same) {
    const Case& each = GetParam();
    const Network read = network("eval");
    for (const NetworkNode& node : read.nodes) EXPECT_NE(node.op, "Dropout");
    expect_evaluates_as_its_framework(read, each.network, numbers_of_case(kFolder, each.network));
}

TEST_P(TorchscriptFiles, keep_the_names_of_parameters) {
    const Case& each = GetParam();
    const Safetensors expected = numbers_of_case(kFolder, each.network);
    for (const char* kind : {"script", "trace", "eval"}) {
        const Network read = network(kind);
        for (const NamedTensor& tensor : expected.tensors) {
            if (!tensor.name.starts_with("gradient.")) continue;
            EXPECT_TRUE(read.initializers.contains(tensor.name.substr(9))) << tensor.name;
        }
        EXPECT_EQ(read.input_dims.size(), each.input.dims.size() + 1);
        EXPECT_EQ(read.input_dims[0], 0U) << "any batch";
    }
}

INSTANTIATE_TEST_SUITE_P(all, TorchscriptFiles, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.network.name); });

// --- What is trained
// ------------------------------------------------------------------------------------------------------

TEST(Torchscript, knows_parameters_from_buffers_and_from_what_is_frozen) {
    const auto network = read("small.pt", {{6}, false});
    ASSERT_TRUE(network) << network.error().to_string();
    std::set<std::string> names;
    for (const auto& [name, tensor] : network->initializers) names.insert(name);
    EXPECT_EQ(names,
              (std::set<std::string>{"first.weight", "first.bias", "second.weight", "out.weight", "out.bias", "scale"}))
        << "tied weights are one";
    EXPECT_EQ(network->frozen, (std::set<std::string>{"first.weight", "scale"}));
    Builder b;
    const auto input = b.slot("x", DType::f32, matrix_shape(2, 6), Initializer::zeros());
    LayersSlots slots;
    (void)apply_network(b, *network, {}, {input, 2, {}}, {false, {}}, slots);
    ASSERT_TRUE(b.status()) << b.status().error().to_string();
    std::set<std::string> trained;
    for (const Parameter& each : slots.parameters) trained.insert(each.name);
    EXPECT_EQ(trained,
              (std::set<std::string>{"model.first.bias", "model.second.weight", "model.out.weight", "model.out.bias"}));
}

TEST(Torchscript, an_embedding_tells_that_the_input_is_tokens) {
    const auto network = read("gpt-script.pt", {{16}, false});
    ASSERT_TRUE(network) << network.error().to_string();
    EXPECT_TRUE(network->input_is_whole);
    EXPECT_EQ(network->input_dims, (std::vector<std::uint64_t>{0, 16}));
}

// --- As models
// --------------------------------------------------------------------------------------------------------------

class TorchscriptModels : public testing::Test {
protected:
    TorchscriptModels() {
        std::filesystem::create_directories(folder_);
        put("small.pt", vector_file(kFolder, "small.pt"));
        put("x.f32", Bytes(std::size_t{8} * 6 * 4));
        put("y.u8", Bytes(8));
    }
    TorchscriptModels(const TorchscriptModels&) = delete;
    TorchscriptModels& operator=(const TorchscriptModels&) = delete;
    ~TorchscriptModels() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
    void put(const std::string& name, BytesView bytes) const {
        EXPECT_TRUE(fs::write_file_atomic(path(name), bytes)) << name;
    }
    static std::string name_of(const Expected<Architecture>& model) {
        return model ? "none" : std::string(model.error().name);
    }
    [[nodiscard]] Expected<Architecture> model(const std::string& example) const {
        FitChoices choices;
        choices.batch = 4;
        choices.example = example;
        return read_model(path("small.pt"), {path("x.f32"), path("y.u8")}, choices);
    }

private:
    std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / ("quern-torchscript-models-" + std::to_string(::getpid()));
};

TEST_F(TorchscriptModels, are_fitted_to_their_data) {
    const auto fitted = model("6");
    ASSERT_TRUE(fitted) << fitted.error().to_string();
    EXPECT_EQ(fitted->layers().outputs, 3U);
    EXPECT_EQ(fitted->layers().channels, 6U);
    const auto built = build_training_programs(*fitted);
    EXPECT_TRUE(built) << built.error().to_string();
    EXPECT_EQ(name_of(model("")), "fit.unknown_dims");
    EXPECT_EQ(name_of(model("6x")), "fit.unknown_dims");
    EXPECT_EQ(name_of(model("7")), "torchscript.unsupported");
    put("x.f32.json", as_bytes(std::string_view(R"({"dtype": "f32", "elements": 48, "shape": [8, 6]})")));
    EXPECT_TRUE(model("")) << "what stands beside the data says it";
}

TEST_F(TorchscriptModels, are_named_by_architecture_files) {
    put("arch.json",
        as_bytes(std::string_view(R"({"format": "quern-arch-1", "model": {"type": "network", "file": "small.pt",
        "input": {"features": 6}, "outputs": 3, "loss": "cross_entropy", "frozen": ["out.bias"]},
        "data": [{"dtype": "f32", "elements": 48}, {"dtype": "u8", "elements": 8}], "batch": 4,
        "optimizer": {"type": "adamw", "lr": 1e-3, "total_steps": 2}})")));
    const auto read = read_architecture(path("arch.json"));
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->layers().network->frozen.size(), 2U);
    put("small.pt", as_bytes(std::string_view("no archive")));
    EXPECT_EQ(name_of(read_architecture(path("arch.json"))), "zip.not_zip");
}

// --- Archives that no one should have written
// -----------------------------------------------------------------------------

std::string error_of(const std::string& name, const TorchscriptInput& input = {{6}, false}) {
    const auto network = read(name, input);
    return network ? "none" : network.error().to_string();
}
std::string starts(const std::string& text, std::size_t size) { return text.substr(0, size); }

TEST(Torchscript, says_what_it_cannot_take_and_where_it_stands) {
    EXPECT_EQ(starts(error_of("bad-unknown.pt"), 72), starts("torchscript.unsupported: aten::fft_fft at make.py:", 50) +
                                                          error_of("bad-unknown.pt").substr(50, 22));
    EXPECT_EQ(starts(error_of("bad-raises.pt"), 22), "torchscript.raises: pr") << error_of("bad-raises.pt");
    EXPECT_NE(error_of("bad-raises.pt").find("seven it must be"), std::string::npos);
    EXPECT_EQ(starts(error_of("bad-of-data.pt"), 24), "torchscript.unsupported:") << error_of("bad-of-data.pt");
    EXPECT_NE(error_of("bad-of-data.pt").find("depends on data"), std::string::npos);
    EXPECT_EQ(starts(error_of("small.pt", {{7}, false}), 24), "torchscript.unsupported:");
    EXPECT_EQ(starts(error_of("small.pt", {{0}, false}), 21), "torchscript.bad_dims:");
    EXPECT_EQ(starts(error_of("small.pt", {}), 21), "torchscript.bad_dims:");
    EXPECT_EQ(starts(error_of("nothing.pt"), 15), "child.no_input:");
    EXPECT_EQ(starts(error_of("make.py"), 11), "zip.not_zip");
}

TEST(Torchscript, runs_no_code_of_an_archive) {
    const std::string mark = "/tmp/quern-torchscript-ran";
    std::filesystem::remove(mark);
    EXPECT_EQ(starts(error_of("bad-setstate.pt"), 22), "torchscript.runs_code:") << error_of("bad-setstate.pt");
    EXPECT_EQ(starts(error_of("bad-default.pt"), 22), "torchscript.runs_code:") << error_of("bad-default.pt");
    EXPECT_EQ(starts(error_of("bad-command.pt"), 24), "torchscript.bad_archive:") << error_of("bad-command.pt");
    EXPECT_FALSE(std::filesystem::exists(mark));
    EXPECT_EQ(starts(error_of("bad-forever.pt"), 21), "torchscript.too_long:") << error_of("bad-forever.pt");
    const auto terabyte = read("bad-terabyte.pt", {{6}, false});
    ASSERT_TRUE(terabyte) << "a shape alone: " << terabyte.error().to_string();
    Builder b;
    const auto input = b.slot("x", DType::f32, matrix_shape(2, 6), Initializer::zeros());
    LayersSlots slots;
    (void)apply_network(b, *terabyte, {}, {input, 2, {}}, {false, {}}, slots);
    EXPECT_EQ(b.status() ? "none" : std::string(b.status().error().name), "onnx.too_large");
}

TEST(Torchscript, finds_code_however_its_record_is_called) {
    for (const char* name : {"setstate-case", "setstate-ending", "setstate-long", "model-json"}) {
        const auto network = read_torchscript(kFolder + "/bad-" + name + ".pt", {{6}, false}, QUERN_TORCHSCRIPT, 10);
        EXPECT_EQ(network ? "none" : network.error().name, "torchscript.runs_code") << name;
    }
}

TEST(Torchscript, hostile_archives_end_in_a_name) {
    EXPECT_EQ(starts(error_of("bad-bomb.pt"), 14), "zip.too_large:") << error_of("bad-bomb.pt");
    EXPECT_EQ(starts(error_of("bad-path.pt"), 13), "zip.bad_name:") << error_of("bad-path.pt");
    EXPECT_EQ(starts(error_of("bad-deep.pt"), 17), "torchscript.died:") << error_of("bad-deep.pt");
    EXPECT_EQ(starts(error_of("bad-wide-words.pt"), 24), "torchscript.bad_archive:") << error_of("bad-wide-words.pt");
    const std::string pickles = error_of("bad-pickle-of-pickles.pt");
    EXPECT_TRUE(pickles.starts_with("torchscript.died") || pickles.starts_with("torchscript.bad_archive")) << pickles;
}

class Stand : public testing::Test {
protected:
    // A program in the place of quern-torchscript.
    static std::string error_with(const std::string& script, std::uint32_t seconds = 30) {
        const auto path = std::filesystem::temp_directory_path() / ("quern-torchscript-" + std::to_string(::getpid()));
        EXPECT_TRUE(fs::write_file_atomic(path.string(), as_bytes("#!/bin/sh\n" + script + "\n"), 0755));
        const auto network = read_torchscript(kFolder + "/small.pt", {{6}, false}, path.string(), seconds);
        std::filesystem::remove(path);
        return network ? "none" : network.error().to_string();
    }
};

TEST_F(Stand, what_the_child_says_is_not_believed) {
    EXPECT_EQ(error_with("kill -9 $$"), "torchscript.died: of signal 9");
    EXPECT_EQ(error_with("while true; do :; done", 1), "torchscript.too_slow: 1 seconds");
    EXPECT_EQ(error_with("exec 1>&- 2>&-; while true; do :; done", 1), "torchscript.too_slow: 1 seconds");
    EXPECT_EQ(error_with("echo no network"), "onnx.not_onnx: no message of the format");
    EXPECT_EQ(error_with("exit 0"), "onnx.not_onnx: no graph");
    EXPECT_EQ(error_with("echo zip.bad_name: ok >&2; exit 1"), "zip.bad_name: ok");
    EXPECT_EQ(starts(error_with("echo wallet.ruined: ok >&2; exit 1"), 19), "torchscript.failed:");
    EXPECT_EQ(starts(error_with("exit 1"), 19), "torchscript.failed:");
    EXPECT_EQ(error_with("test -z \"$HOME$QUERN_TEST\" && echo zip.too_many: $0 $* >&2; exit 1").find("--dims 6") !=
                  std::string::npos,
              true);
    const auto none = read_torchscript(kFolder + "/small.pt", {{6}, false}, "/nothing/quern-torchscript", 1);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().name, "torchscript.no_program");
}

// --- Damaged archives, in processes of their own without the time that a program takes to start
// --------------------------------------------------------------------------------------------------

test::Ending converted(const Bytes& archive, const torchscript::ChildOptions& options) {
    test::Ending ending = test::converted_archive(archive, options, 60'000);
    EXPECT_TRUE(ending.in_time);
    return ending;
}

TEST(DamagedTorchscript, ends_in_time_with_a_name_or_a_network_or_by_a_signal) {
    const Bytes file = vector_file(kFolder, "small.pt");
    const torchscript::ChildOptions options{"6", false};
    const test::Ending whole = converted(file, options);
    ASSERT_EQ(whole.code, 0) << whole.complaint;
    ASSERT_TRUE(read_onnx(as_bytes(whole.output)));
    std::map<std::string, int> endings;
    const auto look = [&](const Bytes& damaged) {
        const test::Ending ending = converted(damaged, options);
        EXPECT_LT(ending.seconds, 30);
        if (ending.code < 0) {
            ++endings["signal"];
        } else if (ending.code == 0) {
            const auto network = read_onnx(as_bytes(ending.output));
            ++endings[network ? "network" : std::string(network.error().name)];
        } else {
            ++endings[ending.complaint.substr(0, ending.complaint.find(':'))];
            EXPECT_TRUE(ending.complaint.starts_with("torchscript.") || ending.complaint.starts_with("zip."))
                << ending.complaint;
        }
    };
    for (std::size_t size = 0; size < file.size(); size += 173) {
        const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        const test::Ending ending = converted(cut, options);
        EXPECT_EQ(ending.code, torchscript::kChildFailed);
        EXPECT_TRUE(ending.complaint.starts_with("zip.not_zip")) << ending.complaint;
    }
    for (std::uint32_t i = 0; i < 400; ++i) {
        Bytes damaged = file;
        for (std::uint32_t k = 0; k <= i % 3; ++k) {
            const std::uint32_t word = vm::tensor::arith::philox_word(i, k, 2, 3, 4);
            damaged[word % damaged.size()] = static_cast<std::uint8_t>(word >> 24);
        }
        look(damaged);
    }
    std::string seen;
    for (const auto& [name, count] : endings) seen.append(name).append(" ").append(std::to_string(count)).append("; ");
    EXPECT_GT(endings["torchscript.bad_archive"], 20) << seen;
    EXPECT_GT(endings["network"], 20) << seen;
    RecordProperty("endings", seen);
}

}  // namespace
}  // namespace quern::compute::program
