// JSON-RPC 2.0 (https://www.jsonrpc.org/specification) from text to text: parsing, batches, notifications, ids, errors.
// Knows no transport. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
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
    std::size_t max_values = 100'000;                              // of a request
};

// One request on its way to its answer, in slices, so that a long batch does not keep a thread from others. Used by one
// thread at a time.
class Job {
public:
    virtual ~Job() = default;
    // Works for about this time, one call at least; true when all is done.
    [[nodiscard]] virtual bool run(std::chrono::milliseconds slice) = 0;
    // The response's text, once run() said true; nullopt when there is nothing to answer (notifications only).
    [[nodiscard]] virtual std::optional<std::string> take_answer() = 0;
    // Bytes of the answer so far. Between slices.
    [[nodiscard]] virtual std::size_t held() const = 0;
};
// Begins a job for a request. What the context points to outlives the job.
using BeginJob = std::function<std::unique_ptr<Job>(std::string request, const CallContext& context)>;

// Larger ones are parsed and answered a few at a time: what comes of them may be many times as large.
inline constexpr std::size_t kSmallRequest = 16U << 10;
inline constexpr std::chrono::milliseconds kJobSlice{20};  // then others that wait have their turn

class Dispatcher {
public:
    explicit Dispatcher(const Registry& registry, DispatcherLimits limits = {})
        : registry_(registry), limits_(limits) {}

    // The dispatcher outlives the job.
    [[nodiscard]] std::unique_ptr<Job> begin(std::string request, const CallContext& context) const;
    // The whole job at once.
    [[nodiscard]] std::optional<std::string> handle(std::string_view request, const CallContext& context) const;

private:
    class Run;
    // Nothing for a notification.
    void append_answer(std::string& out, const json::Value& request, const CallContext& context) const;

    const Registry& registry_;
    DispatcherLimits limits_;
};

}  // namespace quern::rpc
