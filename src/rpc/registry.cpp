#include "rpc/registry.h"

#include <exception>

#include "base/log.h"

namespace quern::rpc {
namespace {

Status check_kind(Kind kind, const json::Value& value) {
    const auto discard = [](auto result) -> Status {
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
            return discard(read_data(value));
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

// Arguments in the order of the declaration; absent ones are null.
tl::expected<std::vector<json::Value>, RpcError> bind_arguments(const Method& method, const json::Value& params) {
    std::vector<json::Value> arguments(method.parameters.size());
    if (params.is_array()) {
        if (params.size() > arguments.size())
            return rpc_fail(kInvalidParams, "too many arguments, want at most " + std::to_string(arguments.size()));
        for (std::size_t i = 0; i < params.size(); ++i) arguments[i] = params[i];
    } else if (params.is_object()) {
        for (const json::Member& member : params.members()) {
            std::size_t i = 0;
            while (i < arguments.size() && method.parameters[i].name != member.key) ++i;
            if (i == arguments.size()) return rpc_fail(kInvalidParams, "unknown parameter \"" + member.key + "\"");
            arguments[i] = member.value;
        }
    } else if (!params.is_null()) {
        return rpc_fail(kInvalidParams, "params must be an array or an object");
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const Parameter& parameter = method.parameters[i];
        const std::string which = std::to_string(i) + " (" + std::string(parameter.name) + ")";
        if (arguments[i].is_null()) {
            if (parameter.required) return rpc_fail(kInvalidParams, "missing value for required argument " + which);
            continue;
        }
        if (const Status status = check_kind(parameter.kind, arguments[i]); !status)
            return rpc_fail(kInvalidParams, "invalid argument " + which + ": " + status.error().detail);
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
    for (const std::string_view alias : method.aliases) aliases_.emplace(alias, name);
    methods_.emplace(std::move(name), std::move(method));
    return {};
}

const Method* Registry::find(std::string_view name) const {
    if (const auto alias = aliases_.find(name); alias != aliases_.end()) name = alias->second;
    const auto found = methods_.find(name);
    return found == methods_.end() ? nullptr : &found->second;
}

std::vector<const Method*> Registry::list() const {
    std::vector<const Method*> all;
    all.reserve(methods_.size());
    for (const auto& [name, method] : methods_) all.push_back(&method);
    return all;
}

Result Registry::call(std::string_view name, const json::Value& params, const CallContext& context) const {
    constexpr std::size_t kShownName = 64;
    const Method* method = find(name);
    if (method == nullptr || (context.caller.methods != nullptr && !context.caller.methods->admits(method->name)))
        return rpc_fail(kMethodNotFound,
                        "the method " + std::string(name.substr(0, kShownName)) + " does not exist/is not available");
    if (method->access == Access::cookie && !context.caller.authenticated)
        return rpc_fail(kServerError, "the method " + std::string(method->name) + " needs the node's cookie");
    if (context.is_cancelled()) return timed_out();
    auto arguments = bind_arguments(*method, params);
    if (!arguments) return tl::unexpected<RpcError>(arguments.error());
    try {
        return method->handler(Call(std::move(*arguments), context));
    } catch (const std::exception& exception) {  // memory, or a library that throws: one call fails, not the node
        log::error(log::Category::rpc, "method failed name={} error={}", method->name, exception.what());
        return rpc_fail(kInternalError, "internal error");
    }
}

}  // namespace quern::rpc
