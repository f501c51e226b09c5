#include "compute/program/arch_json.h"

#include <charconv>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "vm/tensor/data.h"

namespace quern::compute::program {

namespace {

constexpr unsigned kMaxDepth = 8 + 2 * kMaxLayerDepth;  // of the JSON: two for a residual layer's layers

// The decimals of each number as they stand in the text: json::Value holds doubles, and rounding twice is not rounding
// once. Values are visited in the order of the text.
class NumberTexts {
public:
    NumberTexts(std::string_view valid_json, const json::Value& root) {
        std::vector<std::string_view> tokens;
        for (std::size_t i = 0; i < valid_json.size();) {
            if (valid_json[i] == '"') {
                for (++i; valid_json[i] != '"'; ++i)
                    if (valid_json[i] == '\\') ++i;
                ++i;
            } else if (valid_json[i] == '-' || (valid_json[i] >= '0' && valid_json[i] <= '9')) {
                const std::size_t end = std::min(valid_json.find_first_not_of("+-.eE0123456789", i), valid_json.size());
                tokens.push_back(valid_json.substr(i, end - i));
                i = end;
            } else {
                ++i;
            }
        }
        std::size_t next = 0;
        assign(root, tokens, next);
    }
    [[nodiscard]] std::string_view of(const json::Value& number) const {
        const auto found = texts_.find(&number);
        return found == texts_.end() ? std::string_view{} : found->second;
    }

private:
    void assign(const json::Value& value, const std::vector<std::string_view>& tokens, std::size_t& next) {
        if (value.is_number() && next < tokens.size()) texts_[&value] = tokens[next++];
        if (const auto items = value.as_array())
            for (const json::Value& item : *items) assign(item, tokens, next);
        if (const auto members = value.as_object())
            for (const json::Member& member : *members) assign(member.value, tokens, next);
    }
    std::map<const json::Value*, std::string_view> texts_;
};

// What `name` is among `known`; `unknown` is the error of another, which tells them all.
template <class Kind, std::size_t n>
Expected<Kind> choose(std::string_view name, const std::pair<std::string_view, Kind> (&known)[n],
                      std::string_view unknown, const std::string& said) {
    std::string names;
    for (const auto& [each, kind] : known) {
        if (name == each) return kind;
        names.append(names.empty() ? "" : ", ").append(each);
    }
    return fail(unknown, said + "; known: " + names);
}

// Reads one object's fields and knows which were asked for.
class Fields {
public:
    Fields(const json::Value& object, std::string path, const NumberTexts& numbers)
        : object_(object), path_(std::move(path)), numbers_(numbers) {}

    [[nodiscard]] const json::Value* find(std::string_view key) {
        asked_.insert(std::string(key));
        return object_.find(key);
    }
    [[nodiscard]] std::string name(std::string_view key) const {
        return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
    }
    [[nodiscard]] std::vector<std::string> keys() const {
        std::vector<std::string> result;
        if (const auto members = object_.as_object())
            for (const json::Member& member : *members) result.push_back(member.key);
        return result;
    }
    Expected<const json::Value*> require(std::string_view key) {
        const json::Value* value = find(key);
        if (value == nullptr) return fail("arch.missing_field", name(key));
        return value;
    }
    Expected<Fields> object(std::string_view key) {
        QUERN_TRY(const json::Value* value, require(key));
        if (!value->is_object()) return wrong_type(key, *value, "an object");
        return Fields(*value, name(key), numbers_);
    }
    // An array of objects.
    Expected<std::vector<Fields>> objects(std::string_view key) {
        QUERN_TRY(const json::Value* value, require(key));
        if (!value->is_array()) return wrong_type(key, *value, "an array");
        std::vector<Fields> items;
        for (const json::Value& item : value->items()) {
            const std::string place = name(key) + "[" + std::to_string(items.size()) + "]";
            if (!item.is_object())
                return fail("arch.wrong_type", place + " must be an object, is " + std::string(item.type_name()));
            items.push_back(Fields(item, place, numbers_));
        }
        return items;
    }
    // n, or [height, width].
    Status extent(std::string_view key, Extent2d& result) {
        QUERN_TRY(const json::Value* value, require(key));
        const bool both = value->is_array() && value->size() == 2;
        if (!value->is_integer() && !(both && (*value)[0].is_integer() && (*value)[1].is_integer()))
            return wrong_type(key, *value, "a whole number or two of them");
        for (const auto& [side, target] :
             {std::pair(std::size_t{0}, &result.height), std::pair(std::size_t{1}, &result.width)}) {
            const auto number = (both ? (*value)[side] : *value).as_u64();
            if (!number || *number > kMaxImageSide)
                return fail("arch.out_of_range", name(key) + ": 0 to " + std::to_string(kMaxImageSide));
            *target = static_cast<std::uint32_t>(*number);
        }
        return {};
    }
    Status optional_extent(std::string_view key, Extent2d& result) {
        return find(key) == nullptr ? Status{} : extent(key, result);
    }
    Expected<std::string> text(std::string_view key) {
        QUERN_TRY(const json::Value* value, require(key));
        const auto string = value->as_string();
        if (!string) return wrong_type(key, *value, "a string");
        return std::string(*string);
    }
    // One of `known` names, where the field is there; `unknown` is the error of another.
    template <class Kind, std::size_t n>
    Status optional_choice(std::string_view key, const std::pair<std::string_view, Kind> (&known)[n], Kind& result,
                           std::string_view unknown) {
        if (find(key) == nullptr) return {};
        QUERN_TRY(const std::string name, text(key));
        QUERN_TRY(result, choose(name, known, unknown, this->name(key) + " is " + name));
        return {};
    }
    Status size(std::string_view key, std::uint32_t& result) {
        QUERN_TRY(const json::Value* value, require(key));
        if (!value->is_integer()) return wrong_type(key, *value, "an integer");
        const auto number = value->as_u64();
        if (!number || *number > 0xffffffff) return fail("arch.out_of_range", name(key) + ": 0 to 2^32 - 1");
        result = static_cast<std::uint32_t>(*number);
        return {};
    }
    Status count(std::string_view key, std::uint64_t& result) {
        QUERN_TRY(const json::Value* value, require(key));
        if (!value->is_integer()) return wrong_type(key, *value, "an integer");
        const auto number = value->as_u64();
        if (!number) return fail("arch.out_of_range", name(key) + ": 0 to 2^64 - 1");
        result = *number;
        return {};
    }
    Status optional_size(std::string_view key, std::uint32_t& result) {
        return find(key) == nullptr ? Status{} : size(key, result);
    }
    Status optional_boolean(std::string_view key, bool& result) {
        const json::Value* value = find(key);
        if (value == nullptr) return {};
        const auto given = value->as_bool();
        if (!given) return wrong_type(key, *value, "true or false");
        result = *given;
        return {};
    }
    // A number in [low, high).
    Status number(std::string_view key, float& result, float low, float high) {
        QUERN_TRY(const json::Value* value, require(key));
        return number(*value, name(key), result, low, high);
    }
    Status optional_number(std::string_view key, float& result, float low, float high) {
        return find(key) == nullptr ? Status{} : number(key, result, low, high);
    }
    Status number(const json::Value& value, const std::string& what, float& result, float low, float high) {
        if (!value.is_number()) return fail("arch.wrong_type", what + " must be a number");
        const std::string_view text = numbers_.of(value);
        float parsed = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
        if (error != std::errc{} || end != text.data() + text.size() || !(parsed >= low) || !(parsed < high))
            return fail("arch.out_of_range", what + " is " + std::string(text));
        result = parsed;
        return {};
    }
    Status finish() const {
        const auto members = object_.as_object();
        if (!members) return fail("arch.wrong_type", path_);
        for (const json::Member& member : *members)
            if (!asked_.contains(member.key)) return fail("arch.unknown_field", name(member.key));
        return {};
    }

private:
    tl::unexpected<Error> wrong_type(std::string_view key, const json::Value& value, std::string_view wanted) const {
        return fail("arch.wrong_type",
                    name(key) + " must be " + std::string(wanted) + ", is " + std::string(value.type_name()));
    }
    const json::Value& object_;
    std::string path_;
    const NumberTexts& numbers_;
    std::set<std::string> asked_;
};

constexpr std::pair<std::string_view, Precision> kPrecisions[] = {{"f32", Precision::f32}, {"int8", Precision::int8}};

Status read_precision(Fields& fields, std::string_view key, Precision& precision) {
    return fields.optional_choice(key, kPrecisions, precision, "arch.unknown_precision");
}
Status read_layer_precision(Fields& fields, LayerPrecision& result) {
    constexpr std::string_view kKey = "layer_precision";
    if (fields.find(kKey) == nullptr) return {};
    QUERN_TRY(Fields layers, fields.object(kKey));
    for (const std::string& layer : layers.keys()) QUERN_CHECK(read_precision(layers, layer, result[layer]));
    return {};
}
constexpr std::pair<std::string_view, TransformerSpec::Positions> kPositions[] = {
    {"learned", TransformerSpec::Positions::learned},
    {"rotary", TransformerSpec::Positions::rotary},
    {"none", TransformerSpec::Positions::none},
};
constexpr std::pair<std::string_view, TransformerSpec::Norm> kNorms[] = {
    {"layer", TransformerSpec::Norm::layer},
    {"rms", TransformerSpec::Norm::rms},
};
constexpr std::pair<std::string_view, TransformerSpec::Activation> kActivations[] = {
    {"gelu", TransformerSpec::Activation::gelu},
    {"relu", TransformerSpec::Activation::relu},
    {"silu", TransformerSpec::Activation::silu},
    {"swiglu", TransformerSpec::Activation::swiglu},
};

Status read_experts(Fields fields, ExpertsSpec& experts) {
    QUERN_CHECK(fields.size("count", experts.count));
    if (experts.count == 0) return fail("arch.out_of_range", fields.name("count") + " is 0");
    QUERN_CHECK(fields.optional_size("top", experts.top));
    QUERN_CHECK(
        fields.optional_number("capacity_factor", experts.capacity_factor, kMinCapacityFactor, kMaxCapacityFactor));
    QUERN_CHECK(fields.optional_number("balance", experts.balance, 0.0F, kMaxBalance));
    return fields.finish();
}

Status read_model(Fields fields, TransformerSpec& model) {
    QUERN_CHECK(fields.size("layers", model.layers));
    QUERN_CHECK(fields.size("d_model", model.width));
    QUERN_CHECK(fields.size("heads", model.heads));
    QUERN_CHECK(fields.size("context", model.context));
    QUERN_CHECK(fields.size("mlp_ratio", model.mlp_ratio));
    QUERN_CHECK(fields.size("vocab", model.vocabulary));
    QUERN_CHECK(fields.optional_boolean("tie_embeddings", model.tied));
    QUERN_CHECK(fields.optional_size("adapter_rank", model.adapter_rank));
    QUERN_CHECK(fields.optional_number("adapter_scale", model.adapter_scale, 0.0F, 1e3F));
    QUERN_CHECK(read_precision(fields, "precision", model.precision));
    QUERN_CHECK(read_layer_precision(fields, model.layer_precision));
    model.head_precision = model.precision;
    QUERN_CHECK(read_precision(fields, "head_precision", model.head_precision));
    QUERN_CHECK(read_precision(fields, "attention_precision", model.attention_precision));
    QUERN_CHECK(fields.optional_choice("positions", kPositions, model.positions, "arch.unknown_positions"));
    QUERN_CHECK(fields.optional_choice("norm", kNorms, model.norm, "arch.unknown_norm"));
    QUERN_CHECK(fields.optional_choice("activation", kActivations, model.activation, "arch.unknown_activation"));
    if (fields.find("kv_heads") != nullptr) {
        QUERN_CHECK(fields.size("kv_heads", model.kv_heads));
        if (model.kv_heads == 0) return fail("arch.out_of_range", fields.name("kv_heads") + " is 0");
    }
    QUERN_CHECK(fields.optional_number("dropout", model.dropout, 0.0F, 1.0F));
    if (fields.find("experts") != nullptr) {
        QUERN_TRY(Fields experts, fields.object("experts"));
        QUERN_CHECK(read_experts(std::move(experts), model.experts));
    }
    return fields.finish();
}

Expected<Window2d> read_window(Fields& fields, bool dilates) {
    Window2d window;
    QUERN_CHECK(fields.extent("kernel", window.kernel));
    QUERN_CHECK(fields.optional_extent("stride", window.stride));
    QUERN_CHECK(fields.optional_extent("padding", window.padding));
    if (dilates) QUERN_CHECK(fields.optional_extent("dilation", window.dilation));
    return window;
}

// Where a layer stands.
struct Place {
    std::size_t depth = 0;                 // how many residual layers it is in
    Precision precision = Precision::f32;  // of layers that say none
};
Expected<std::vector<Layer>> read_layers(Fields& fields, std::string_view key, const Place& place);

template <Activation activation>
Expected<Layer> read_activation(Fields&, const Place&) {
    return Layer(activation);
}
template <class Plain>
Expected<Layer> read_plain(Fields&, const Place&) {
    return Layer(Plain{});
}

Expected<Layer> read_conv(Fields& fields, const Place&) {
    ConvLayer layer;
    QUERN_CHECK(fields.size("channels", layer.channels));
    QUERN_TRY(layer.window, read_window(fields, true));
    QUERN_CHECK(fields.optional_size("groups", layer.groups));
    QUERN_CHECK(fields.optional_boolean("bias", layer.bias));
    return Layer(layer);
}

Expected<Layer> read_linear(Fields& fields, const Place& place) {
    LinearLayer layer;
    QUERN_CHECK(fields.size("size", layer.size));
    QUERN_CHECK(fields.optional_boolean("bias", layer.bias));
    layer.precision = place.precision;
    QUERN_CHECK(read_precision(fields, "precision", layer.precision));
    return Layer(layer);
}

Expected<Layer> read_group_norm(Fields& fields, const Place&) {
    GroupNormLayer layer;
    QUERN_CHECK(fields.size("groups", layer.groups));
    return Layer(layer);
}

template <PoolLayer::Kind kind>
Expected<Layer> read_pool(Fields& fields, const Place&) {
    PoolLayer layer;
    layer.kind = kind;
    QUERN_TRY(layer.window, read_window(fields, false));
    if (fields.find("stride") == nullptr) layer.window.stride = layer.window.kernel;  // as frameworks have it
    return Layer(layer);
}

Expected<Layer> read_dropout(Fields& fields, const Place&) {
    DropoutLayer layer;
    QUERN_CHECK(fields.number("rate", layer.rate, 0.0F, 1.0F));
    return Layer(layer);
}

Expected<Layer> read_residual(Fields& fields, const Place& place) {
    if (place.depth >= kMaxLayerDepth) return fail("layers.too_deep", fields.name("type"));
    ResidualLayer layer;
    const Place inside{place.depth + 1, place.precision};
    QUERN_TRY(layer.inner, read_layers(fields, "inner", inside));
    if (fields.find("shortcut") != nullptr) {
        QUERN_TRY(layer.shortcut, read_layers(fields, "shortcut", inside));
    }
    return Layer(std::move(layer));
}

// What a layer's "type" may say, and who reads its other fields.
using ReadLayer = Expected<Layer> (*)(Fields&, const Place&);
constexpr std::pair<std::string_view, ReadLayer> kLayers[] = {
    {"conv2d", read_conv},
    {"max_pool2d", read_pool<PoolLayer::Kind::max>},
    {"avg_pool2d", read_pool<PoolLayer::Kind::average>},
    {"global_avg_pool2d", read_plain<GlobalPoolLayer>},
    {"batch_norm", read_plain<BatchNormLayer>},
    {"group_norm", read_group_norm},
    {"layer_norm", read_plain<LayerNormLayer>},
    {"relu", read_activation<Activation::relu>},
    {"gelu", read_activation<Activation::gelu>},
    {"silu", read_activation<Activation::silu>},
    {"tanh", read_activation<Activation::tanh>},
    {"sigmoid", read_activation<Activation::sigmoid>},
    {"softplus", read_activation<Activation::softplus>},
    {"linear", read_linear},
    {"flatten", read_plain<FlattenLayer>},
    {"dropout", read_dropout},
    {"residual", read_residual},
};

Expected<Layer> read_layer(Fields& fields, const Place& place) {
    QUERN_TRY(const std::string type, fields.text("type"));
    QUERN_TRY(const ReadLayer read, choose(type, kLayers, "arch.unknown_layer", fields.name("type") + " is " + type));
    return read(fields, place);
}

Expected<std::vector<Layer>> read_layers(Fields& fields, std::string_view key, const Place& place) {
    QUERN_TRY(auto items, fields.objects(key));
    std::vector<Layer> layers;
    for (Fields& item : items) {
        QUERN_TRY(Layer layer, read_layer(item, place));
        QUERN_CHECK(item.finish());
        layers.push_back(std::move(layer));
    }
    return layers;
}

Status read_input(Fields fields, LayersSpec& model) {
    using Input = LayersSpec::Input;
    if (fields.find("tokens") != nullptr) {
        model.input = Input::tokens;
        QUERN_CHECK(fields.size("tokens", model.channels));
        return fields.finish();
    }
    model.input = fields.find("features") == nullptr ? Input::image : Input::row;
    if (model.input == Input::image) {
        QUERN_CHECK(fields.size("height", model.image.height));
        QUERN_CHECK(fields.size("width", model.image.width));
        QUERN_CHECK(fields.size("channels", model.channels));
    } else {
        QUERN_CHECK(fields.size("features", model.channels));
    }
    QUERN_CHECK(fields.optional_number("scale", model.scale, -1e6F, 1e6F));
    QUERN_CHECK(fields.optional_number("shift", model.shift, -1e6F, 1e6F));
    return fields.finish();
}

constexpr std::pair<std::string_view, LayersSpec::Loss> kLosses[] = {
    {"cross_entropy", LayersSpec::Loss::cross_entropy},
    {"mse", LayersSpec::Loss::mean_squared_error},
    {"binary_cross_entropy", LayersSpec::Loss::binary_cross_entropy},
    {"next_token", LayersSpec::Loss::next_token},
};

Status read_network(Fields& fields, LayersSpec& model) {
    QUERN_TRY(model.network_file, fields.text("file"));
    if (model.network_file.empty()) return fail("arch.out_of_range", fields.name("file") + " is empty");
    QUERN_CHECK(read_precision(fields, "precision", model.training.precision));
    QUERN_CHECK(read_layer_precision(fields, model.training.layer_precision));
    const json::Value* const frozen = fields.find("frozen");
    if (frozen == nullptr) return {};
    const auto names = frozen->as_array();
    if (!names) return fail("arch.wrong_type", fields.name("frozen") + " must be an array of names");
    for (const json::Value& each : *names) {
        const auto name = each.as_string();
        if (!name) return fail("arch.wrong_type", fields.name("frozen") + " must be an array of names");
        model.training.frozen.emplace(*name);
    }
    return {};
}

Status read_model(Fields fields, bool is_network, LayersSpec& model) {
    QUERN_TRY(Fields input, fields.object("input"));
    QUERN_CHECK(read_input(std::move(input), model));
    if (is_network) {
        QUERN_CHECK(read_network(fields, model));
    } else {
        if (model.input == LayersSpec::Input::tokens)
            return fail("arch.unknown_field", fields.name("input.tokens") + ": layers take numbers");
        Place place;
        QUERN_CHECK(read_precision(fields, "precision", place.precision));
        QUERN_TRY(model.layers, read_layers(fields, "layers", place));
    }
    QUERN_CHECK(fields.size("outputs", model.outputs));
    QUERN_CHECK(fields.optional_choice("loss", kLosses, model.loss, "arch.unknown_loss"));
    return fields.finish();
}

Status read_model(Fields fields, Architecture& architecture) {
    QUERN_TRY(const std::string type, fields.text("type"));
    if (type == "layers" || type == "network")
        return read_model(std::move(fields), type == "network", architecture.model.emplace<LayersSpec>());
    if (type == "char_transformer") return read_model(std::move(fields), architecture.model.emplace<TransformerSpec>());
    return fail("arch.unknown_model", type + "; known: char_transformer, layers, network");
}

Status read_data(Fields fields, vm::tensor::DataSet& data) {
    QUERN_TRY(const std::string name, fields.text("dtype"));
    const auto type = vm::tensor::data_type_of(name);
    if (!type)
        return fail("arch.unknown_dtype", fields.name("dtype") + " is " + name + "; known: u8, u16, i8, i32, f32");
    data.type = *type;
    QUERN_CHECK(fields.count("elements", data.elements));
    return fields.finish();
}

Status read_betas(Fields& fields, OptimizerConfig& config) {
    const json::Value* betas = fields.find("betas");
    if (betas == nullptr) return {};
    if (!betas->is_array() || betas->size() != 2)
        return fail("arch.wrong_type", fields.name("betas") + " must be two numbers");
    QUERN_CHECK(fields.number((*betas)[0], fields.name("betas[0]"), config.beta1, 0.0F, 1.0F));
    return fields.number((*betas)[1], fields.name("betas[1]"), config.beta2, 0.0F, 1.0F);
}

constexpr std::pair<std::string_view, OptimizerConfig::Schedule> kSchedules[] = {
    {"linear", OptimizerConfig::Schedule::linear},
    {"cosine", OptimizerConfig::Schedule::cosine},
};

Status read_optimizer(Fields fields, OptimizerConfig& config) {
    QUERN_TRY(const std::string type, fields.text("type"));
    if (type == "adamw" || type == "adam") {
        config.type = type == "adam" ? OptimizerConfig::Type::adam : OptimizerConfig::Type::adamw;
        QUERN_CHECK(read_betas(fields, config));
        QUERN_CHECK(fields.optional_number("eps", config.epsilon, 1e-20F, 1.0F));
    } else if (type == "lion") {
        config.type = OptimizerConfig::Type::lion;
        config.beta2 = 0.99F;
        QUERN_CHECK(read_betas(fields, config));
    } else if (type == "momentum") {
        config.type = OptimizerConfig::Type::momentum;
        QUERN_CHECK(fields.optional_number("momentum", config.momentum, 0.0F, 1.0F));
    } else if (type == "sgd") {
        config.type = OptimizerConfig::Type::sgd;
    } else {
        return fail("arch.unknown_optimizer", type + "; known: adamw, adam, lion, momentum, sgd");
    }
    QUERN_CHECK(fields.number("lr", config.learning_rate, 0.0F, 1e3F));
    QUERN_CHECK(fields.optional_number("weight_decay", config.weight_decay, 0.0F, 1e3F));
    QUERN_CHECK(fields.optional_number("grad_clip", config.clip_norm, 0.0F, 1e6F));
    QUERN_CHECK(fields.optional_number("final_lr", config.final_rate, 0.0F, 1.0001F));
    QUERN_CHECK(fields.optional_choice("schedule", kSchedules, config.schedule, "arch.unknown_schedule"));
    QUERN_CHECK(fields.optional_size("warmup", config.warmup));
    QUERN_CHECK(fields.optional_size("total_steps", config.total_steps));
    for (const std::uint32_t steps : {config.warmup, config.total_steps})
        if (steps > 1U << 24) return fail("arch.out_of_range", "optimizer.warmup and total_steps: at most 2^24");
    if (config.total_steps != 0 && config.total_steps <= config.warmup)
        return fail("arch.out_of_range", "optimizer.total_steps must exceed warmup");
    return fields.finish();
}

// "data": of tokens one, else inputs and targets.
Expected<std::vector<vm::tensor::DataSet>> read_sets(Fields& fields, bool is_one) {
    std::vector<vm::tensor::DataSet> result;
    if (is_one) {
        QUERN_TRY(Fields data, fields.object("data"));
        QUERN_CHECK(read_data(std::move(data), result.emplace_back()));
        return result;
    }
    QUERN_TRY(auto sets, fields.objects("data"));
    for (Fields& set : sets) QUERN_CHECK(read_data(std::move(set), result.emplace_back()));
    return result;
}

Status read_held_out(Fields fields, Architecture& result) {
    HeldOut held_out;
    QUERN_TRY(held_out.data, read_sets(fields, takes_windows(result)));
    QUERN_CHECK(fields.optional_size("examples", held_out.examples));
    QUERN_CHECK(fields.optional_size("every", held_out.every));
    result.held_out = std::move(held_out);
    return fields.finish();
}

}  // namespace

Expected<LayersSpec::Loss> loss_named(std::string_view name) {
    return choose(name, kLosses, "arch.unknown_loss", std::string(name));
}

Expected<Precision> precision_named(std::string_view name) {
    return choose(name, kPrecisions, "arch.unknown_precision", std::string(name));
}

Expected<Architecture> parse_architecture(std::string_view text) {
    if (text.size() > kMaxArchitectureBytes) return fail("arch.too_long", std::to_string(text.size()) + " bytes");
    const auto root = json::parse(text, {kMaxArchitectureBytes, kMaxDepth});
    if (!root) return fail("arch.not_json", root.error().to_string());
    if (!root->is_object()) return fail("arch.wrong_type", "the document must be an object");
    const NumberTexts numbers(text, *root);
    Fields fields(*root, "", numbers);
    QUERN_TRY(const std::string format, fields.text("format"));
    if (format != "quern-arch-1") return fail("arch.unknown_format", format);

    Architecture result;
    QUERN_TRY(Fields model, fields.object("model"));
    QUERN_CHECK(read_model(std::move(model), result));
    QUERN_TRY(result.data, read_sets(fields, takes_windows(result)));
    QUERN_CHECK(fields.size("batch", result.batch));
    if (fields.find("accumulate") != nullptr) {
        QUERN_CHECK(fields.size("accumulate", result.accumulate));
        if (result.accumulate == 0) return fail("arch.out_of_range", "accumulate is 0, may be 1 to 4096");
    }
    QUERN_CHECK(fields.optional_size("recompute", result.recompute));
    QUERN_TRY(Fields optimizer, fields.object("optimizer"));
    QUERN_CHECK(read_optimizer(std::move(optimizer), result.optimizer));
    if (fields.find("held_out") != nullptr) {
        QUERN_TRY(Fields held_out, fields.object("held_out"));
        QUERN_CHECK(read_held_out(std::move(held_out), result));
    }
    QUERN_CHECK(fields.finish());
    // What a file gives is checked by who reads it.
    if (result.is_transformer() || result.layers().network_file.empty()) QUERN_CHECK(check_architecture(result));
    return result;
}

}  // namespace quern::compute::program
