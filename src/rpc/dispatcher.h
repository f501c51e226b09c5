// JSON-RPC 2.0 (https://www.jsonrpc.org/specification) from text to text: parsing, batches, notifications, ids, errors.
// Knows no transport. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rpc/registry.h"

namespace quern::rpc {

struct DispatcherLimits {
    std::size_t max_request_bytes = std::size_t{8} << 20;
    std::size_t max_depth = 32;
    std::size_t max_batch = 1000;                                  // calls
    std::size_t max_batch_response_bytes = std::size_t{32} << 20;  // later calls of the batch get an error
};

class Dispatcher {
public:
    explicit Dispatcher(const Registry& registry, DispatcherLimits limits = {})
        : registry_(registry), limits_(limits) {}

    // The response's text; nullopt when there is nothing to answer (notifications only).
    [[nodiscard]] std::optional<std::string> handle(std::string_view request, const CallContext& context) const;

private:
    [[nodiscard]] std::optional<json::Value> handle_one(const json::Value& request, const CallContext& context) const;

    const Registry& registry_;
    DispatcherLimits limits_;
};

}  // namespace quern::rpc
