// A JSON-RPC method as data: declared once with name, parameters, result, errors and examples. Argument checks, `help`,
// the OpenRPC document and the reference page (doc/rpc.md) all come from this declaration. Methods must be callable
// from several threads at once.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "rpc/call_deadline.h"
#include "rpc/error.h"
#include "rpc/gate.h"
#include "rpc/values.h"

namespace quern::rpc {

// What an argument must look like; checked before the handler runs.
enum class Kind : std::uint8_t {
    quantity,  // "0x" number
    number,    // JSON integer or "0x" number: Quern's own ids and limits
    hash,
    address,
    data,   // "0x" bytes
    block,  // number, tag, hash or EIP-1898 object
    boolean,
    string,
    object,
    array,
    any,
};
[[nodiscard]] std::string_view name_of(Kind kind);

struct Parameter {
    std::string_view name;
    Kind kind = Kind::any;
    bool required = true;
    std::string_view description;
};
struct ResultInfo {
    std::string_view type;  // "quantity", "object or null"
    std::string_view description;
};
struct ErrorInfo {
    int code = kServerError;
    std::string_view message;
};
struct Example {
    std::string_view params;  // JSON array
    std::string_view result;  // JSON value
};

// cookie: only with the node's .cookie or as a user of -rpcauth.
enum class Access : std::uint8_t { open, cookie };

class SubscriptionHost;

// All pointers may be null and outlive the call.
struct CallContext {
    Caller caller;                              // who asks, and what they may call
    SubscriptionHost* subscriptions = nullptr;  // null where the connection cannot be told things (HTTP)
    const CallDeadline* deadline = nullptr;     // null: never
    [[nodiscard]] bool is_cancelled() const { return deadline != nullptr && deadline->is_cancelled(); }
};

inline constexpr std::size_t kMaxParameters = 8;

// The checked arguments of one call, which live in its request. An accessor may be used for an argument of the fitting
// kind that is present (required, or has() it); it then cannot fail.
class Call {
public:
    using Arguments = std::array<const json::Value*, kMaxParameters>;  // null: absent
    Call(const Arguments& arguments, const CallContext& context) : arguments_(arguments), context_(context) {}

    [[nodiscard]] bool has(std::size_t i) const { return !value(i).is_null(); }
    [[nodiscard]] const json::Value& value(std::size_t i) const {
        static const json::Value kAbsent;
        return i < kMaxParameters && arguments_[i] != nullptr ? *arguments_[i] : kAbsent;
    }
    [[nodiscard]] Uint256 quantity(std::size_t i) const { return read_quantity(value(i)).value_or(Uint256()); }
    [[nodiscard]] std::uint64_t number(std::size_t i) const { return read_number(value(i)).value_or(0); }
    [[nodiscard]] std::uint64_t number_or(std::size_t i, std::uint64_t otherwise) const {
        return has(i) ? number(i) : otherwise;
    }
    [[nodiscard]] Hash32 hash(std::size_t i) const { return read_hash(value(i)).value_or(Hash32()); }
    [[nodiscard]] chain::types::Address address(std::size_t i) const {
        return read_address(value(i)).value_or(chain::types::Address());
    }
    [[nodiscard]] Bytes data(std::size_t i) const { return read_data(value(i)).value_or(Bytes()); }
    // `latest` when absent.
    [[nodiscard]] chain::api::BlockSelector block(std::size_t i) const {
        return has(i) ? read_block(value(i)).value_or(chain::api::BlockSelector()) : chain::api::BlockSelector();
    }
    [[nodiscard]] bool boolean_or(std::size_t i, bool otherwise) const {
        return has(i) ? value(i).as_bool().value_or(otherwise) : otherwise;
    }
    [[nodiscard]] std::string_view text(std::size_t i) const { return value(i).as_string().value_or(""); }
    [[nodiscard]] const CallContext& context() const { return context_; }
    // To be asked between two steps of long work; then the handler gives timed_out() back.
    [[nodiscard]] bool is_cancelled() const { return context_.is_cancelled(); }

private:
    const Arguments& arguments_;
    const CallContext& context_;
};

using Handler = std::function<Result(const Call&)>;
// Calls that follow each other in one batch, at the cost of one; the results in their order.
using BatchHandler = std::function<std::vector<Result>(std::span<const Call>)>;

struct Method {
    std::string_view name;
    std::string_view summary;
    std::vector<Parameter> parameters;
    ResultInfo result;
    std::vector<ErrorInfo> errors;
    std::vector<Example> examples;
    Handler handler;
    Access access = Access::open;
    std::vector<std::string_view> aliases = {};  // other names of the same method
    BatchHandler batch = {};                     // where many at once cost less than one by one
};

}  // namespace quern::rpc
