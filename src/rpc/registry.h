// The table of methods: look-up, argument checks, calls, and the documents generated from the declarations. Filled once
// before a server starts; then read from any thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "rpc/method.h"

namespace quern::rpc {

class Registry {
public:
    Registry() = default;
    Registry(Registry&&) noexcept = default;  // by_name_ points into methods_, whose places stay
    Registry& operator=(Registry&&) noexcept = default;
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    // Errors: rpc.duplicate_method, rpc.bad_declaration (no name, no handler, a required parameter after an optional
    // one, an example that is not JSON).
    [[nodiscard]] Status add(Method method);

    // By name or alias; nullptr when unknown.
    [[nodiscard]] const Method* find(std::string_view name) const;
    // All methods by name, without aliases.
    [[nodiscard]] std::vector<const Method*> list() const;

    // Checks the arguments (`params`: array, object by name, or null for none) and runs the method. Never throws.
    [[nodiscard]] Result call(std::string_view name, const json::Value& params, const CallContext& context) const;

    // The same for calls of one method with a batch handler, which runs once for those whose arguments are right.
    [[nodiscard]] std::vector<Result> call_many(const Method& method, std::span<const json::Value* const> params,
                                                const CallContext& context) const;

    // Text for people: all methods by namespace, or one in detail. Error: rpc.unknown_method.
    [[nodiscard]] std::string help() const;
    [[nodiscard]] Expected<std::string> help(std::string_view name) const;
    // OpenRPC 1.3.
    [[nodiscard]] json::Value openrpc(std::string_view version) const;
    // The reference page.
    [[nodiscard]] std::string markdown() const;

private:
    // Whether this caller may have this method now.
    [[nodiscard]] static std::optional<RpcError> refusal(const Method* method, std::string_view name,
                                                         const CallContext& context);
    std::map<std::string, Method, std::less<>> methods_;
    std::unordered_map<std::string_view, const Method*> by_name_;  // and by alias
};

}  // namespace quern::rpc
