// Rings a worker's bell when the chain has a new block: a thread that keeps a WebSocket subscription to the node's
// newHeads. While the port cannot be reached the worker polls as before, and the thread tries again with growing
// pauses. What a notification says is not used, only that it came: the worker looks at the chain itself. Thread-safe.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "base/http_client.h"
#include "compute/worker/bell.h"

namespace quern::compute::worker {

class BlockSignal {
public:
    struct Options {
        std::string node_host;  // its JSON-RPC is asked for the WebSocket port when `url` is empty
        std::uint16_t node_port = 0;
        std::optional<http::Url> url;
        std::uint64_t first_retry_ms = 500;
        std::uint64_t last_retry_ms = 30'000;
    };
    // `bell` outlives this; rung with each block, and when notifications stop coming.
    BlockSignal(Options options, Bell& bell);
    ~BlockSignal();
    BlockSignal(const BlockSignal&) = delete;
    BlockSignal& operator=(const BlockSignal&) = delete;

    // Whether notifications come: then a wait may be long.
    [[nodiscard]] bool connected() const { return connected_; }

private:
    void run();
    [[nodiscard]] Status listen();
    [[nodiscard]] Expected<http::Url> find_url() const;
    void pause(std::uint64_t milliseconds);

    const Options options_;
    std::atomic<bool> connected_{false};
    std::atomic<bool> stopping_{false};
    Bell& bell_;
    std::thread thread_;
};

}  // namespace quern::compute::worker
