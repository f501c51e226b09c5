#include "compute/worker/block_signal.h"

#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "base/log.h"
#include "base/websocket_client.h"
#include "compute/worker/node_client.h"

namespace quern::compute::worker {
namespace {

using log::Category;
using std::chrono::milliseconds;

constexpr std::uint64_t kSliceMs = 100;        // at most so long until a stop is seen
constexpr std::uint64_t kAnswerMs = 5'000;     // for the answer to the subscription
constexpr std::size_t kMaxMessage = 1U << 20;  // a header is some kilobytes

}  // namespace

BlockSignal::BlockSignal(Options options, Bell& bell)
    : options_(std::move(options)), bell_(bell), thread_([this] { run(); }) {}

BlockSignal::~BlockSignal() {
    stopping_ = true;
    thread_.join();
}

void BlockSignal::pause(std::uint64_t time_ms) {
    const auto deadline = std::chrono::steady_clock::now() + milliseconds(time_ms);
    while (!stopping_ && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(milliseconds(std::min(time_ms, kSliceMs)));
}

void BlockSignal::run() {
    std::uint64_t retry = options_.first_retry_ms;
    bool told = false;
    while (!stopping_) {
        const Status ended = listen();
        const bool was_connected = connected_.exchange(false);
        if (stopping_) return;
        if (was_connected || !told)
            log::info(Category::worker, "no notifications, polling instead reason={}", ended.error().to_string());
        told = true;
        if (was_connected) {
            retry = options_.first_retry_ms;
            bell_.ring();  // from now on it polls: at once, and not after the long wait
        }
        pause(retry);
        retry = std::min(retry * 2, options_.last_retry_ms);
    }
}

Expected<http::Url> BlockSignal::find_url() const {
    if (options_.url) return *options_.url;
    NodeClient node(options_.node_host, options_.node_port);
    QUERN_TRY(const json::Value info, node.call("quern_nodeInfo", json::Value::array()));
    const json::Value* port = info.find("webSocketPort");
    if (port == nullptr || port->is_null()) return fail("worker.no_websocket", "the node has no WebSocket port");
    QUERN_TRY(const std::uint64_t number, port->as_u64());
    if (number == 0 || number > 65535) return fail("node.bad_answer", "port out of range");
    return http::Url{options_.node_host, static_cast<std::uint16_t>(number), "/"};
}

Status BlockSignal::listen() {
    QUERN_TRY(const http::Url url, find_url());
    websocket::ClientOptions client_options;
    client_options.max_message_bytes = kMaxMessage;
    QUERN_TRY(const auto client, websocket::Client::connect(url, client_options));
    QUERN_CHECK(client->send(R"({"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]})"));
    QUERN_TRY(const auto answer, client->receive(kAnswerMs));
    if (!answer) return fail("websocket.timeout", "no answer to the subscription");
    QUERN_TRY(const json::Value document, json::parse(*answer));
    const json::Value* id = document.find("result");
    if (id == nullptr || !id->is_string()) return fail("node.bad_answer", "the node refuses the subscription");
    connected_ = true;
    log::info(Category::worker, "notifications from {}:{}", url.host, url.port);
    bell_.ring();  // what happened before the subscription
    while (!stopping_) {
        QUERN_TRY(const auto message, client->receive(kSliceMs));
        if (message) bell_.ring();
    }
    return fail("worker.stopped");
}

}  // namespace quern::compute::worker
