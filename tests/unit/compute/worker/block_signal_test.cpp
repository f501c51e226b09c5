#include "compute/worker/block_signal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "rpc/dispatcher.h"
#include "rpc/methods/backend.h"
#include "rpc/ws_server.h"

namespace quern::compute::worker {
namespace {

class Events final : public chain::api::EventSource {
public:
    void add(chain::api::EventListener& listener) override {
        const std::lock_guard lock(mutex_);
        listener_ = &listener;
    }
    void remove(chain::api::EventListener&) override {
        const std::lock_guard lock(mutex_);
        listener_ = nullptr;
    }
    void block() {
        auto view = std::make_shared<chain::api::BlockView>();
        view->block.header.number = 1;
        const std::lock_guard lock(mutex_);
        if (listener_ != nullptr) listener_->on_block({view, {}, {}, {}});
    }

private:
    std::mutex mutex_;
    chain::api::EventListener* listener_ = nullptr;
};

// A node's WebSocket server with the real methods; those that would read a chain are not called.
class BlockSignalTest : public ::testing::Test {
protected:
    void serve(std::uint16_t port = 0) {
        rpc::WsOptions options;
        options.port = port;
        options.close_ms = 200;
        auto started = rpc::WsServer::start(
            options,
            [this](std::string text, const rpc::CallContext& context) {
                return dispatcher_.begin(std::move(text), context);
            },
            events_);
        ASSERT_TRUE(started) << started.error().to_string();
        server_ = std::move(*started);
    }
    BlockSignal::Options options() const {
        BlockSignal::Options options;
        options.url = http::Url{"127.0.0.1", server_->port(), "/"};
        options.first_retry_ms = 20;
        options.last_retry_ms = 50;
        return options;
    }
    template <class Condition>
    static bool eventually(Condition&& condition) {
        for (int i = 0; i < 2'000; ++i) {
            if (condition()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }

    std::unique_ptr<rpc::Registry> registry_ = std::move(*rpc::methods::make_registry({}));
    rpc::Dispatcher dispatcher_{*registry_};
    Events events_;
    std::unique_ptr<rpc::WsServer> server_;
    Bell bell_;
    std::atomic<bool> stop_{false};
};

TEST_F(BlockSignalTest, a_block_ends_the_wait) {
    serve();
    BlockSignal signal(options(), bell_);
    ASSERT_TRUE(eventually([&] { return signal.connected(); }));
    EXPECT_TRUE(bell_.wait(20'000, stop_)) << "what happened before the subscription";
    EXPECT_FALSE(bell_.wait(50, stop_));
    std::thread teller([this] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        events_.block();
    });
    const auto before = std::chrono::steady_clock::now();
    EXPECT_TRUE(bell_.wait(20'000, stop_));
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(15));
    teller.join();
}

TEST_F(BlockSignalTest, it_connects_again_after_the_node_was_away) {
    serve();
    const auto port = server_->port();
    BlockSignal signal(options(), bell_);
    ASSERT_TRUE(eventually([&] { return signal.connected(); }));
    server_.reset();
    ASSERT_TRUE(eventually([&] { return !signal.connected(); }));
    EXPECT_TRUE(bell_.wait(20'000, stop_)) << "the loss is news: the worker polls from now on";
    serve(port);
    ASSERT_TRUE(eventually([&] { return signal.connected(); }));
    while (bell_.wait(50, stop_)) {
    }
    events_.block();
    EXPECT_TRUE(bell_.wait(20'000, stop_));
}

TEST_F(BlockSignalTest, without_a_node_a_wait_is_a_wait_and_a_stop_ends_it) {
    serve();
    auto unreachable = options();
    server_.reset();
    BlockSignal signal(unreachable, bell_);
    EXPECT_FALSE(bell_.wait(60, stop_));
    EXPECT_FALSE(signal.connected());
    stop_ = true;
    const auto before = std::chrono::steady_clock::now();
    EXPECT_FALSE(bell_.wait(20'000, stop_));
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(15));
}

}  // namespace
}  // namespace quern::compute::worker
