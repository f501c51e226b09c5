#include "compute/program/network_fit.h"

#include "base/json.h"
#include "compute/program/arch_json.h"
#include "compute/program/network_lowering.h"
#include "vm/tensor/data.h"

namespace quern::compute::program {
namespace {

using vm::tensor::DataType;

constexpr std::size_t kMaxDescription = 1U << 20;

struct Example {
    LayersSpec::Input input = LayersSpec::Input::row;
    std::uint64_t height = 1;
    std::uint64_t width = 1;
    std::uint64_t channels = 1;  // or features, or tokens

    [[nodiscard]] std::uint64_t size() const { return height * width * channels; }
};

// A size of an image that the network leaves open.
std::uint64_t described(const json::Value& description, std::string_view key) {
    const json::Value* const value = description.is_object() ? description.find(key) : nullptr;
    return value == nullptr ? 0 : value->as_u64().value_or(0);
}

Expected<Example> example_of(const Network& network, const json::Value& description) {
    const auto& dims = network.input_dims;
    Example example;
    if (network.input_is_whole) {
        example.input = LayersSpec::Input::tokens;
    } else if (dims.size() == 4) {
        example.input = LayersSpec::Input::image;
        example.channels = dims[1] != 0 ? dims[1] : described(description, "channels");
        example.height = dims[2] != 0 ? dims[2] : described(description, "height");
        example.width = dims[3] != 0 ? dims[3] : described(description, "width");
    }
    if (example.input != LayersSpec::Input::image)
        for (std::size_t i = 1; i < dims.size(); ++i)
            example.channels = dims[i] > kMaxFeatures ? 0 : example.channels * dims[i];
    if (example.height == 0 || example.height > kMaxImageSide || example.width == 0 || example.width > kMaxImageSide ||
        example.channels == 0 || example.channels > kMaxFeatures || dims.size() < 2)
        return fail("fit.unknown_dims",
                    network.input + ": the network leaves the size of an example open; export it fixed");
    return example;
}

// How wide the network's output is, and how many rows there are for an example.
struct Outputs {
    std::uint32_t columns = 0;
    std::uint64_t rows = 0;
};
Expected<Outputs> outputs_of(const Network& network, const NetworkTraining& training, const Example& example,
                             std::uint32_t batch) {
    Builder b;
    const auto u32 = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
    const bool tokens = example.input == LayersSpec::Input::tokens;
    const bool image = example.input == LayersSpec::Input::image;
    const Shape shape = image ? matrix_shape(batch * u32(example.height * example.width), u32(example.channels))
                              : matrix_shape(batch, u32(example.channels));
    const auto x = b.slot("x", tokens ? DType::i32 : DType::f32, shape, Initializer::zeros());
    LayersSlots slots;
    Features features{x, batch, {}};
    if (image) features.image = Extent2d{u32(example.height), u32(example.width)};
    const auto y = apply_network(b, network, training, features, LayersPass{false, {}}, slots).rows;
    QUERN_CHECK(b.status());
    return Outputs{b.shape(y).columns(), b.shape(y).rows() / batch};
}

Expected<DataType> type_in(const json::Value& description, DataType otherwise) {
    const json::Value* const value = description.is_object() ? description.find("dtype") : nullptr;
    if (value == nullptr) return otherwise;
    const auto name = value->as_string();
    const auto type = name ? vm::tensor::data_type_of(*name) : std::nullopt;
    if (!type) return fail("fit.bad_description", "dtype");
    return *type;
}

Expected<json::Value> parsed(const std::optional<std::string>& description) {
    if (!description) return json::Value();
    auto value = json::parse(*description, {kMaxDescription, 16});
    if (!value) return fail("fit.bad_description", value.error().to_string());
    return value;
}

// What the targets are, where it is said: beside the inputs, as `dataset` does, or beside themselves.
Expected<std::optional<DataType>> described_targets(const json::Value& inputs, const std::vector<DataFile>& data) {
    QUERN_TRY(const json::Value own, parsed(data.size() < 2 ? std::nullopt : data[1].description));
    const json::Value* told = own.is_object() ? &own : nullptr;
    for (const char* const key : {"labels", "targets"})
        if (const json::Value* const there = inputs.is_object() ? inputs.find(key) : nullptr) told = there;
    if (told == nullptr || !told->is_object() || told->find("dtype") == nullptr) return std::nullopt;
    QUERN_TRY(const DataType type, type_in(*told, DataType::u8));
    return type;
}

json::Value set_of(DataType type, std::uint64_t elements) {
    return json::Value::object({{"dtype", std::string(vm::tensor::name_of(type))}, {"elements", elements}});
}

// As many files as there are data tensors, of the same types.
Expected<json::Value> held_out_sets(const std::vector<DataFile>& files, const std::vector<DataType>& types) {
    if (files.size() != types.size())
        return fail("fit.no_data", std::to_string(files.size()) + " held-out files, the training has " +
                                       std::to_string(types.size()) + " data tensors");
    json::Value sets = json::Value::array();
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::uint64_t width = vm::tensor::element_bytes(types[i]);
        if (files[i].bytes % width != 0) return fail("fit.wrong_data", "held out: a part of an element");
        json::Value set = set_of(types[i], files[i].bytes / width);
        if (files.size() == 1) return set;
        sets.push(std::move(set));
    }
    return sets;
}

}  // namespace

Expected<std::string> fit_architecture(const Network& network, const std::string& file,
                                       const std::vector<DataFile>& data, const FitChoices& choices,
                                       const std::vector<DataFile>& held_out) {
    if (data.empty() || data.size() > 2) return fail("fit.no_data", "inputs and targets, or tokens");
    if (choices.batch == 0 || choices.batch > kMaxBatch)
        return fail("arch.out_of_range",
                    "batch is " + std::to_string(choices.batch) + ", may be 1 to " + std::to_string(kMaxBatch));
    QUERN_TRY(const json::Value description, parsed(data[0].description));
    QUERN_TRY(const std::optional<DataType> said, described_targets(description, data));
    QUERN_TRY(const Example example, example_of(network, description));
    const bool tokens = example.input == LayersSpec::Input::tokens;
    const bool image = example.input == LayersSpec::Input::image;
    NetworkTraining training;
    if (!choices.precision.empty()) {
        QUERN_TRY(training.precision, precision_named(choices.precision));
    }
    for (const std::string& each : choices.in_f32) training.layer_precision[each] = Precision::f32;
    QUERN_TRY(const Outputs outputs, outputs_of(network, training, example, choices.batch));
    std::string loss = choices.loss;
    if (!loss.empty()) {
        QUERN_CHECK(loss_named(loss));
    } else if (tokens && data.size() == 1 && outputs.rows == example.channels) {
        loss = "next_token";
    } else {
        loss = said == DataType::f32 ? "mse" : "cross_entropy";
    }

    QUERN_TRY(const DataType type, type_in(description, image || tokens ? DataType::u8 : DataType::f32));
    if (data[0].bytes % vm::tensor::element_bytes(type) != 0) return fail("fit.wrong_data", "a part of an element");
    const std::uint64_t elements = data[0].bytes / vm::tensor::element_bytes(type);
    json::Value sets = set_of(type, elements);
    std::vector<DataType> types{type};
    const std::string of_type =
        std::string(vm::tensor::name_of(type)) + (data[0].description ? "" : " (no description beside the file)");
    if (loss != "next_token") {
        const std::uint64_t count = elements / example.size();
        if (data.size() != 2) return fail("fit.no_data", "no file of targets");
        if (count == 0 || elements % example.size() != 0)
            return fail("fit.wrong_data", std::to_string(elements) + " elements of " + of_type + ", an example has " +
                                              std::to_string(example.size()));
        const bool classes = loss == "cross_entropy";
        if (classes && said == DataType::f32)
            return fail("fit.wrong_data", "classes are whole numbers, the targets are described as f32");
        const std::uint64_t targets = count * (classes ? 1 : outputs.columns);
        const std::uint64_t width = data[1].bytes / targets;
        const bool fits = said ? width == vm::tensor::element_bytes(*said) : width == 1 || width == 2 || width == 4;
        if (data[1].bytes % targets != 0 || !fits)
            return fail("fit.wrong_data", std::to_string(data[1].bytes) + " bytes of targets; " +
                                              std::to_string(count) + " examples of " + std::to_string(example.size()) +
                                              " elements of " + of_type + " have " + std::to_string(targets) +
                                              " targets of " +
                                              (said ? std::string(vm::tensor::name_of(*said)) : "1, 2 or 4 bytes"));
        const DataType target = said         ? *said
                                : width == 1 ? DataType::u8
                                : width == 2 ? DataType::u16
                                : classes    ? DataType::i32
                                             : DataType::f32;
        json::Value both = json::Value::array();
        both.push(std::move(sets));
        both.push(set_of(target, targets));
        types.push_back(target);
        sets = std::move(both);
    }

    json::Value input = json::Value::object();
    if (image) {
        input.set("height", example.height);
        input.set("width", example.width);
        input.set("channels", example.channels);
        if (type == DataType::u8) {
            input.set("scale", 0.0078125);
            input.set("shift", -1);
        }
    } else {
        input.set(tokens ? "tokens" : "features", example.channels);
    }
    json::Value model = json::Value::object({{"type", "network"}, {"file", file}});
    model.set("input", std::move(input));
    model.set("outputs", std::uint64_t{outputs.columns});
    model.set("loss", loss);
    if (!choices.precision.empty()) model.set("precision", choices.precision);
    if (!choices.in_f32.empty()) {
        json::Value layers = json::Value::object();
        for (const std::string& each : choices.in_f32) layers.set(each, "f32");
        model.set("layer_precision", std::move(layers));
    }
    auto rate = json::parse(choices.learning_rate, {64, 1});
    if (!rate || !rate->is_number())
        return fail("fit.bad_rate", "a learning rate is a number such as 0.001, not " + choices.learning_rate);
    json::Value optimizer = json::Value::object({{"type", "adamw"}});
    optimizer.set("lr", std::move(*rate));
    if (choices.total_steps != 0) optimizer.set("total_steps", std::uint64_t{choices.total_steps});
    json::Value result = json::Value::object({{"format", "quern-arch-1"}});
    result.set("model", std::move(model));
    result.set("data", std::move(sets));
    result.set("batch", std::uint64_t{choices.batch});
    if (!held_out.empty()) {
        QUERN_TRY(json::Value others, held_out_sets(held_out, types));
        json::Value told = json::Value::object({{"every", std::uint64_t{choices.evaluate_every}}});
        told.set("data", std::move(others));
        result.set("held_out", std::move(told));
    }
    if (choices.recompute != 0) result.set("recompute", std::uint64_t{choices.recompute});
    result.set("optimizer", std::move(optimizer));
    std::string text = result.dump_pretty() + "\n";
    QUERN_CHECK(parse_architecture(text));
    return text;
}

}  // namespace quern::compute::program
