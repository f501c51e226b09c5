#include "rpc/dispatcher.h"

namespace quern::rpc {
namespace {

json::Value error_response(json::Value id, const RpcError& error) {
    json::Value body = json::Value::object({{"code", error.code}, {"message", error.message}});
    if (!error.data.is_null()) body.set("data", error.data);
    return json::Value::object({{"jsonrpc", "2.0"}, {"id", std::move(id)}, {"error", std::move(body)}});
}

}  // namespace

std::optional<json::Value> Dispatcher::handle_one(const json::Value& request, const CallContext& context) const {
    const auto invalid = [](json::Value id, std::string message) {
        return error_response(std::move(id), RpcError{kInvalidRequest, std::move(message), {}});
    };
    if (!request.is_object()) return invalid(nullptr, "invalid request: not an object");
    const json::Value* id = request.find("id");
    if (id != nullptr && !id->is_null() && !id->is_string() && !id->is_number())
        return invalid(nullptr, "invalid request: the id must be a string, a number or null");
    const json::Value answer_id = id != nullptr ? *id : json::Value();
    const json::Value* version = request.find("jsonrpc");
    if (version == nullptr || !(*version == json::Value("2.0")))
        return invalid(answer_id, "invalid request: jsonrpc must be \"2.0\"");
    const auto method = request.get_string("method");
    if (!method) return invalid(answer_id, "invalid request: the method must be a string");
    const json::Value* params = request.find("params");
    const json::Value none;
    Result result = registry_.call(*method, params != nullptr ? *params : none, context);
    if (id == nullptr) return std::nullopt;
    if (!result) return error_response(answer_id, result.error());
    return json::Value::object({{"jsonrpc", "2.0"}, {"id", answer_id}, {"result", std::move(*result)}});
}

std::optional<std::string> Dispatcher::handle(std::string_view request, const CallContext& context) const {
    const auto parsed = json::parse(request, {limits_.max_request_bytes, limits_.max_depth});
    if (!parsed)
        return error_response(nullptr, RpcError{kParseError, "parse error: " + parsed.error().to_string(), {}}).dump();
    if (!parsed->is_array()) {
        const auto response = handle_one(*parsed, context);
        if (!response) return std::nullopt;
        return response->dump();
    }
    if (parsed->size() == 0) return error_response(nullptr, RpcError{kInvalidRequest, "empty batch", {}}).dump();
    if (parsed->size() > limits_.max_batch)
        return error_response(nullptr, RpcError{kInvalidRequest,
                                                "batch too large: " + std::to_string(parsed->size()) +
                                                    " calls, limit " + std::to_string(limits_.max_batch),
                                                {}})
            .dump();
    std::string responses;
    for (const json::Value& item : parsed->items()) {
        std::optional<json::Value> response;
        if (responses.size() > limits_.max_batch_response_bytes) {
            const json::Value* id = item.find("id");
            if (id == nullptr) continue;
            response = error_response(*id, RpcError{kLimitExceeded, "response too large", {}});
        } else {
            response = handle_one(item, context);
        }
        if (!response) continue;
        responses += responses.empty() ? '[' : ',';
        responses += response->dump();
    }
    if (responses.empty()) return std::nullopt;
    responses += ']';
    return responses;
}

}  // namespace quern::rpc
