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
    Expected<std::string> text(std::string_view key) {
        QUERN_TRY(const json::Value* value, require(key));
        const auto string = value->as_string();
        if (!string) return wrong_type(key, *value, "a string");
        return std::string(*string);
    }
    Status size(std::string_view key, std::uint32_t& result) {
        QUERN_TRY(const json::Value* value, require(key));
        if (!value->is_integer()) return wrong_type(key, *value, "an integer");
        const auto number = value->as_u64();
        if (!number || *number > 0xffffffff) return fail("arch.out_of_range", name(key));
        result = static_cast<std::uint32_t>(*number);
        return {};
    }
    Status count(std::string_view key, std::uint64_t& result) {
        QUERN_TRY(const json::Value* value, require(key));
        if (!value->is_integer()) return wrong_type(key, *value, "an integer");
        const auto number = value->as_u64();
        if (!number) return fail("arch.out_of_range", name(key));
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

Status read_model(Fields fields, TransformerSpec& model) {
    QUERN_TRY(const std::string type, fields.text("type"));
    if (type != "char_transformer") return fail("arch.unknown_model", type);
    QUERN_CHECK(fields.size("layers", model.layers));
    QUERN_CHECK(fields.size("d_model", model.width));
    QUERN_CHECK(fields.size("heads", model.heads));
    QUERN_CHECK(fields.size("context", model.context));
    QUERN_CHECK(fields.size("mlp_ratio", model.mlp_ratio));
    QUERN_CHECK(fields.size("vocab", model.vocabulary));
    QUERN_CHECK(fields.optional_boolean("tie_embeddings", model.tied));
    QUERN_CHECK(fields.optional_size("adapter_rank", model.adapter_rank));
    QUERN_CHECK(fields.optional_number("adapter_scale", model.adapter_scale, 0.0F, 1e3F));
    return fields.finish();
}

Status read_data(Fields fields, vm::tensor::DataSet& data) {
    QUERN_TRY(const std::string name, fields.text("dtype"));
    const auto type = vm::tensor::data_type_of(name);
    if (!type) return fail("arch.unknown_dtype", name);
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

Status read_optimizer(Fields fields, OptimizerConfig& config) {
    QUERN_TRY(const std::string type, fields.text("type"));
    if (type == "adamw") {
        config.type = OptimizerConfig::Type::adamw;
        QUERN_CHECK(read_betas(fields, config));
        QUERN_CHECK(fields.optional_number("eps", config.epsilon, 1e-20F, 1.0F));
    } else if (type == "momentum") {
        config.type = OptimizerConfig::Type::momentum;
        QUERN_CHECK(fields.optional_number("momentum", config.momentum, 0.0F, 1.0F));
    } else if (type == "sgd") {
        config.type = OptimizerConfig::Type::sgd;
    } else {
        return fail("arch.unknown_optimizer", type);
    }
    QUERN_CHECK(fields.number("lr", config.learning_rate, 0.0F, 1e3F));
    QUERN_CHECK(fields.optional_number("weight_decay", config.weight_decay, 0.0F, 1e3F));
    QUERN_CHECK(fields.optional_number("grad_clip", config.clip_norm, 0.0F, 1e6F));
    QUERN_CHECK(fields.optional_number("final_lr", config.final_rate, 0.0F, 1.0001F));
    QUERN_CHECK(fields.optional_size("warmup", config.warmup));
    QUERN_CHECK(fields.optional_size("total_steps", config.total_steps));
    for (const std::uint32_t steps : {config.warmup, config.total_steps})
        if (steps > 1U << 24) return fail("arch.out_of_range", "optimizer.warmup and total_steps: at most 2^24");
    if (config.total_steps != 0 && config.total_steps <= config.warmup)
        return fail("arch.out_of_range", "optimizer.total_steps must exceed warmup");
    return fields.finish();
}

}  // namespace

Expected<Architecture> parse_architecture(std::string_view text) {
    if (text.size() > kMaxArchitectureBytes) return fail("arch.too_long", std::to_string(text.size()) + " bytes");
    const auto root = json::parse(text, {kMaxArchitectureBytes, 8});
    if (!root) return fail("arch.not_json", root.error().to_string());
    if (!root->is_object()) return fail("arch.wrong_type", "the document must be an object");
    const NumberTexts numbers(text, *root);
    Fields fields(*root, "", numbers);
    QUERN_TRY(const std::string format, fields.text("format"));
    if (format != "quern-arch-1") return fail("arch.unknown_format", format);

    Architecture result;
    QUERN_TRY(Fields model, fields.object("model"));
    QUERN_CHECK(read_model(std::move(model), result.model));
    QUERN_TRY(Fields data, fields.object("data"));
    QUERN_CHECK(read_data(std::move(data), result.data));
    QUERN_CHECK(fields.size("batch", result.batch));
    if (fields.find("accumulate") != nullptr) {
        QUERN_CHECK(fields.size("accumulate", result.accumulate));
        if (result.accumulate == 0) return fail("arch.out_of_range", "accumulate is 0, may be 1 to 4096");
    }
    QUERN_TRY(Fields optimizer, fields.object("optimizer"));
    QUERN_CHECK(read_optimizer(std::move(optimizer), result.optimizer));
    QUERN_CHECK(fields.finish());
    QUERN_CHECK(check_architecture(result));
    return result;
}

}  // namespace quern::compute::program
