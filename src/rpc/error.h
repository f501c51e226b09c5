// What a JSON-RPC call comes to: a value, or an error with EIP-1474's codes. Messages are those that wallets and
// libraries match on (geth's). Plain values.
#pragma once

#include <string>

#include "base/json.h"

namespace quern::rpc {

inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;
inline constexpr int kServerError = -32000;  // a refusal that the message explains
inline constexpr int kTimedOut = -32002;     // "request timed out": the call's deadline passed, or the node stops
inline constexpr int kLimitExceeded = -32005;
inline constexpr int kExecutionReverted = 3;  // data holds the revert data

struct RpcError {
    int code = kServerError;
    std::string message;
    json::Value data;  // null: none
};

using Result = tl::expected<json::Value, RpcError>;

[[nodiscard]] inline tl::unexpected<RpcError> rpc_fail(int code, std::string message, json::Value data = {}) {
    return tl::unexpected<RpcError>(RpcError{code, std::move(message), std::move(data)});
}
[[nodiscard]] inline tl::unexpected<RpcError> rpc_fail(const Error& error, int code = kServerError) {
    return rpc_fail(code, error.to_string());
}
[[nodiscard]] inline tl::unexpected<RpcError> timed_out() { return rpc_fail(kTimedOut, "request timed out"); }

}  // namespace quern::rpc

// As QUERN_TRY, in functions that return Result: an Error becomes a server error with its text.
#define QUERN_RPC_TRY(declaration, expression)                                         \
    auto QUERN_CONCAT(quern_rpc_try_, __LINE__) = (expression);                        \
    if (!QUERN_CONCAT(quern_rpc_try_, __LINE__))                                       \
        return ::quern::rpc::rpc_fail(QUERN_CONCAT(quern_rpc_try_, __LINE__).error()); \
    declaration = std::move(*QUERN_CONCAT(quern_rpc_try_, __LINE__))
