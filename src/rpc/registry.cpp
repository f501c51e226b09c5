#include "rpc/registry.h"

#include <exception>

#include "base/log.h"

namespace quern::rpc {
namespace {

Status check_kind(Kind kind, const json::Value& value) {
    const auto discard = [](const auto& result) -> Status {
        if (!result) return fail(result.error());
        return {};
    };
    const auto expect = [&](bool good, const char* what) -> Status {
        if (good) return {};
        return fail("value.wrong_type", std::string("expected ") + what + ", got " + std::string(value.type_name()));
    };
    switch (kind) {
        case Kind::quantity:
            return discard(read_quantity(value));
        case Kind::number:
            return discard(read_number(value));
        case Kind::hash:
            return discard(read_hash(value));
        case Kind::address:
            return discard(read_address(value));
        case Kind::data:
            return check_data(value);
        case Kind::block:
            return discard(read_block(value));
        case Kind::boolean:
            return expect(value.is_bool(), "a boolean");
        case Kind::string:
            return expect(value.is_string(), "a string");
        case Kind::object:
            return expect(value.is_object(), "an object");
        case Kind::array:
            return expect(value.is_array(), "an array");
        case Kind::any:
            break;
    }
    return {};
}

tl::unexpected<RpcError> bad_argument(const Method& method, std::size_t i, std::string_view before,
                                      const std::string& after) {
    return rpc_fail(kInvalidParams, std::string(before) + std::to_string(i) + " (" +
                                        std::string(method.parameters[i].name) + ")" + after);
}

// Arguments in the order of the declaration; absent ones are null.
tl::expected<Call::Arguments, RpcError> bind_arguments(const Method& method, const json::Value& params) {
    Call::Arguments arguments{};
    const std::size_t count = method.parameters.size();
    if (params.is_array()) {
        const auto items = params.items();
        if (items.size() > count)
            return rpc_fail(kInvalidParams, "too many arguments, want at most " + std::to_string(count));
        for (std::size_t i = 0; i < items.size(); ++i) arguments[i] = &items[i];
    } else if (params.is_object()) {
        for (const json::Member& member : params.members()) {
            std::size_t i = 0;
            while (i < count && method.parameters[i].name != member.key) ++i;
            if (i == count) return rpc_fail(kInvalidParams, "unknown parameter \"" + member.key + "\"");
            arguments[i] = &member.value;
        }
    } else if (!params.is_null()) {
        return rpc_fail(kInvalidParams, "params must be an array or an object");
    }
    for (std::size_t i = 0; i < count; ++i) {
        const Parameter& parameter = method.parameters[i];
        if (arguments[i] == nullptr || arguments[i]->is_null()) {
            if (parameter.required) return bad_argument(method, i, "missing value for required argument ", {});
            continue;
        }
        if (const Status status = check_kind(parameter.kind, *arguments[i]); !status)
            return bad_argument(method, i, "invalid argument ", ": " + status.error().detail);
    }
    return arguments;
}

}  // namespace

std::string_view name_of(Kind kind) {
    switch (kind) {
        case Kind::quantity:
            return "quantity";
        case Kind::number:
            return "number";
        case Kind::hash:
            return "hash";
        case Kind::address:
            return "address";
        case Kind::data:
            return "data";
        case Kind::block:
            return "block";
        case Kind::boolean:
            return "boolean";
        case Kind::string:
            return "string";
        case Kind::object:
            return "object";
        case Kind::array:
            return "array";
        case Kind::any:
            break;
    }
    return "any";
}

Status Registry::add(Method method) {
    if (method.name.empty() || !method.handler || method.summary.empty())
        return fail("rpc.bad_declaration", std::string(method.name) + ": name, summary and handler are needed");
    if (method.parameters.size() > kMaxParameters)
        return fail("rpc.bad_declaration", std::string(method.name) + ": too many parameters");
    bool optional_before = false;
    for (const Parameter& parameter : method.parameters) {
        if (parameter.required && optional_before)
            return fail("rpc.bad_declaration", std::string(method.name) + ": required after optional parameter");
        optional_before = !parameter.required;
    }
    for (const Example& example : method.examples) {
        const auto params = json::parse(example.params);
        if (!params || !params->is_array() || !json::parse(example.result))
            return fail("rpc.bad_declaration", std::string(method.name) + ": example is not JSON");
    }
    if (find(method.name) != nullptr) return fail("rpc.duplicate_method", std::string(method.name));
    for (const std::string_view alias : method.aliases)
        if (find(alias) != nullptr) return fail("rpc.duplicate_method", std::string(alias));
    std::string name(method.name);
    const Method& added = methods_.emplace(std::move(name), std::move(method)).first->second;
    by_name_.emplace(added.name, &added);
    for (const std::string_view alias : added.aliases) by_name_.emplace(alias, &added);
    return {};
}

const Method* Registry::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
}

std::vector<const Method*> Registry::list() const {
    std::vector<const Method*> all;
    all.reserve(methods_.size());
    for (const auto& [name, method] : methods_) all.push_back(&method);
    return all;
}

std::optional<RpcError> Registry::refusal(const Method* method, std::string_view name, const CallContext& context) {
    constexpr std::size_t kShownName = 64;
    if (method == nullptr || (context.caller.methods != nullptr && !context.caller.methods->admits(method->name)))
        return RpcError{kMethodNotFound,
                        "the method " + std::string(name.substr(0, kShownName)) + " does not exist/is not available",
                        {}};
    if (method->access == Access::cookie && !context.caller.authenticated)
        return RpcError{kServerError, "the method " + std::string(method->name) + " needs the node's cookie", {}};
    if (context.is_cancelled()) return timed_out().value();
    return std::nullopt;
}

Result Registry::call(std::string_view name, const json::Value& params, const CallContext& context) const {
    const Method* const method = find(name);
    if (auto refused = refusal(method, name, context)) return tl::unexpected<RpcError>(std::move(*refused));
    auto arguments = bind_arguments(*method, params);
    if (!arguments) return tl::unexpected<RpcError>(arguments.error());
    try {
        return method->handler(Call(*arguments, context));
    } catch (const std::exception& exception) {  // memory, or a library that throws: one call fails, not the node
        log::error(log::Category::rpc, "method failed name={} error={}", method->name, exception.what());
        return rpc_fail(kInternalError, "internal error");
    }
}

std::vector<Result> Registry::call_many(const Method& method, std::span<const json::Value* const> params,
                                        const CallContext& context) const {
    std::vector<Result> results(params.size());
    std::vector<Call::Arguments> arguments;  // which the calls refer to
    std::vector<std::size_t> places;
    arguments.reserve(params.size());
    const auto refused = refusal(&method, method.name, context);
    for (std::size_t i = 0; i < params.size(); ++i) {
        auto bound = refused ? tl::expected<Call::Arguments, RpcError>(tl::unexpect, *refused)
                             : bind_arguments(method, *params[i]);
        if (!bound) {
            results[i] = tl::unexpected<RpcError>(std::move(bound).error());
            continue;
        }
        arguments.push_back(*bound);
        places.push_back(i);
    }
    std::vector<Call> calls;
    calls.reserve(arguments.size());
    for (const auto& each : arguments) calls.emplace_back(each, context);
    if (calls.empty()) return results;
    try {
        auto answers = method.batch(calls);
        for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = std::move(answers[i]);
    } catch (const std::exception& exception) {
        log::error(log::Category::rpc, "method failed name={} error={}", method.name, exception.what());
        for (const std::size_t place : places) results[place] = rpc_fail(kInternalError, "internal error");
    }
    return results;
}

}  // namespace quern::rpc
