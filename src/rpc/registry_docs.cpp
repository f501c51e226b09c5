// The documents that a registry generates from its declarations: help, OpenRPC, the reference page.
#include "rpc/registry.h"

namespace quern::rpc {
namespace {

std::string_view namespace_of(std::string_view name) {
    const std::size_t cut = name.find_first_of("_.");
    return cut == std::string_view::npos ? std::string_view("control") : name.substr(0, cut);
}

// "eth_getBalance address [block]"
std::string usage(const Method& method) {
    std::string text(method.name);
    for (const Parameter& parameter : method.parameters) {
        text += parameter.required ? " " : " [";
        text += parameter.name;
        if (!parameter.required) text += "]";
    }
    return text;
}

json::Value schema_of(Kind kind) {
    const auto pattern = [](const char* text) { return json::Value::object({{"type", "string"}, {"pattern", text}}); };
    switch (kind) {
        case Kind::quantity:
            return pattern("^0x(0|[1-9a-f][0-9a-f]{0,63})$");
        case Kind::number:
            return json::Value::object(
                {{"oneOf", json::Value::array({json::Value::object({{"type", "integer"}, {"minimum", 0}}),
                                               pattern("^0x(0|[1-9a-f][0-9a-f]{0,15})$")})}});
        case Kind::hash:
            return pattern("^0x[0-9a-fA-F]{64}$");
        case Kind::address:
            return pattern("^0x[0-9a-fA-F]{40}$");
        case Kind::data:
            return pattern("^0x([0-9a-fA-F]{2})*$");
        case Kind::block:
            return json::Value::object(
                {{"oneOf",
                  json::Value::array({pattern("^0x(0|[1-9a-f][0-9a-f]{0,15})$"), pattern("^0x[0-9a-fA-F]{64}$"),
                                      json::Value::object({{"type", "string"},
                                                           {"enum", json::Value::array({"latest", "safe", "finalized",
                                                                                        "pending", "earliest"})}}),
                                      json::Value::object({{"type", "object"}})})}});
        case Kind::boolean:
        case Kind::string:
        case Kind::object:
        case Kind::array:
            return json::Value::object({{"type", name_of(kind)}});
        case Kind::any:
            break;
    }
    return json::Value::object();
}

json::Value parsed(std::string_view text) { return json::parse(text).value_or(json::Value()); }

json::Value describe(const Method& method) {
    json::Array params;
    for (const Parameter& parameter : method.parameters)
        params.push_back(json::Value::object({{"name", parameter.name},
                                              {"description", parameter.description},
                                              {"required", parameter.required},
                                              {"schema", schema_of(parameter.kind)},
                                              {"x-kind", name_of(parameter.kind)}}));
    json::Value result = json::Value::object({{"name", method.result.type},
                                              {"description", method.result.description},
                                              {"schema", json::Value::object({{"title", method.result.type}})}});
    json::Value object =
        json::Value::object({{"name", method.name},
                             {"summary", method.summary},
                             {"tags", json::Value::array({json::Value::object({{"name", namespace_of(method.name)}})})},
                             {"params", std::move(params)},
                             {"result", std::move(result)}});
    if (!method.errors.empty()) {
        json::Array errors;
        for (const ErrorInfo& error : method.errors)
            errors.push_back(json::Value::object({{"code", error.code}, {"message", error.message}}));
        object.set("errors", std::move(errors));
    }
    if (!method.examples.empty()) {
        json::Array examples;
        for (const Example& example : method.examples) {
            json::Array arguments;
            const json::Value values = parsed(example.params);
            for (std::size_t i = 0; i < values.size() && i < method.parameters.size(); ++i)
                arguments.push_back(json::Value::object({{"name", method.parameters[i].name}, {"value", values[i]}}));
            examples.push_back(json::Value::object(
                {{"name", method.name},
                 {"params", std::move(arguments)},
                 {"result", json::Value::object({{"name", method.result.type}, {"value", parsed(example.result)}})}}));
        }
        object.set("examples", std::move(examples));
    }
    if (method.access == Access::cookie) object.set("x-access", "cookie");
    if (!method.aliases.empty()) {
        json::Array aliases;
        for (const std::string_view alias : method.aliases) aliases.push_back(alias);
        object.set("x-aliases", std::move(aliases));
    }
    return object;
}

std::string request_text(const Method& method, const Example& example) {
    return R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(method.name) + R"(","params":)" +
           std::string(example.params) + "}";
}

}  // namespace

std::string Registry::help() const {
    std::string text;
    std::string_view section;
    for (const Method* method : list()) {
        if (namespace_of(method->name) != section) {
            if (!text.empty()) text += '\n';
            section = namespace_of(method->name);
            text += "== " + std::string(section) + " ==\n";
        }
        text += usage(*method) + '\n';
    }
    return text;
}

Expected<std::string> Registry::help(std::string_view name) const {
    const Method* method = find(name);
    if (method == nullptr) return fail("rpc.unknown_method", std::string(name));
    std::string text = usage(*method) + "\n\n" + std::string(method->summary) + "\n";
    if (method->access == Access::cookie) text += "Needs the node's cookie.\n";
    if (!method->parameters.empty()) {
        text += "\nArguments:\n";
        std::size_t position = 1;
        for (const Parameter& parameter : method->parameters)
            text += std::to_string(position++) + ". " + std::string(parameter.name) + "  (" +
                    std::string(name_of(parameter.kind)) + ", " + (parameter.required ? "required" : "optional") +
                    ")  " + std::string(parameter.description) + "\n";
    }
    text += "\nResult:\n(" + std::string(method->result.type) + ")  " + std::string(method->result.description) + "\n";
    if (!method->errors.empty()) {
        text += "\nErrors:\n";
        for (const ErrorInfo& error : method->errors)
            text += std::to_string(error.code) + "  " + std::string(error.message) + "\n";
    }
    if (!method->examples.empty()) {
        text += "\nExamples:\n";
        for (const Example& example : method->examples)
            text += "> " + request_text(*method, example) + "\n< " + std::string(example.result) + "\n";
    }
    return text;
}

json::Value Registry::openrpc(std::string_view version) const {
    json::Array methods;
    for (const Method* method : list()) methods.push_back(describe(*method));
    return json::Value::object(
        {{"openrpc", "1.3.2"},
         {"info", json::Value::object({{"title", "Quern JSON-RPC"},
                                       {"description",
                                        "The interface of a Quern node: Ethereum's methods for wallets "
                                        "and libraries, and the compute market's own."},
                                       {"version", version}})},
         {"methods", std::move(methods)}});
}

std::string Registry::markdown() const {
    std::string text =
        "# JSON-RPC reference\n\n"
        "Generated from the methods' declarations by `quern-rpcdoc`; do not edit. JSON-RPC 2.0 by `POST /` on the RPC "
        "port (8545), single calls and batches, arguments by position or by name. `rpc_discover` gives the same as an "
        "OpenRPC document, `help` as text.\n\n"
        "Values: *quantity* is a `0x` number without leading zeros; *number* is a JSON integer or a quantity; *data*, "
        "*hash* and *address* are `0x` bytes; *block* is a quantity, a hash, an EIP-1898 object, or one of `latest`, "
        "`safe`, `finalized`, `pending`, `earliest`.\n\n"
        "Errors of every method: -32700 parse error, -32600 invalid request, -32601 unknown method, -32602 invalid "
        "arguments, -32603 internal error.\n";
    std::string_view section;
    for (const Method* method : list()) {
        if (namespace_of(method->name) != section) {
            section = namespace_of(method->name);
            text += "\n## " + std::string(section) + "\n";
        }
        text += "\n### " + std::string(method->name) + "\n" + std::string(method->summary) + "\n";
        if (!method->aliases.empty()) {
            text += "\nAlso called:";
            for (const std::string_view alias : method->aliases) text += " `" + std::string(alias) + "`";
            text += "\n";
        }
        if (method->access == Access::cookie) text += "\nNeeds the node's cookie (local administration).\n";
        if (!method->parameters.empty()) {
            text += "\n| argument | type | | meaning |\n|---|---|---|---|\n";
            for (const Parameter& parameter : method->parameters)
                text += "| " + std::string(parameter.name) + " | " + std::string(name_of(parameter.kind)) + " | " +
                        (parameter.required ? "required" : "optional") + " | " + std::string(parameter.description) +
                        " |\n";
        }
        text +=
            "\nResult (" + std::string(method->result.type) + "): " + std::string(method->result.description) + "\n";
        for (const ErrorInfo& error : method->errors)
            text += "\nError " + std::to_string(error.code) + ": " + std::string(error.message) + "\n";
        for (const Example& example : method->examples)
            text += "\n```\n> " + request_text(*method, example) + "\n< " + std::string(example.result) + "\n```\n";
    }
    return text;
}

}  // namespace quern::rpc
