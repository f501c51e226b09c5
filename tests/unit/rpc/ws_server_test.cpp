#include "rpc/ws_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <list>
#include <mutex>

#include "base/websocket_client.h"
#include "rpc/auth.h"
#include "rpc/http_server.h"
#include "unit/rpc/fake_backend.h"
#include "unit/rpc/raw_websocket.h"

namespace quern::rpc {
namespace {

using testing::Frame;
using testing::RawSocket;

class Events final : public chain::api::EventSource {
public:
    void add(chain::api::EventListener& listener) override {
        const std::lock_guard lock(mutex_);
        listeners_.push_back(&listener);
    }
    void remove(chain::api::EventListener& listener) override {
        const std::lock_guard lock(mutex_);
        std::erase(listeners_, &listener);
    }
    void block(const chain::api::BlockEvent& event) {
        const std::lock_guard lock(mutex_);
        for (auto* listener : listeners_) listener->on_block(event);
    }
    void transaction(const chain::types::RecoveredTransaction& transaction) {
        const std::lock_guard lock(mutex_);
        for (auto* listener : listeners_) listener->on_transaction(transaction);
    }
    bool is_listened_to() {
        const std::lock_guard lock(mutex_);
        return std::any_of(listeners_.begin(), listeners_.end(), [](const auto* each) { return each->listens(); });
    }
    std::size_t listeners() {
        const std::lock_guard lock(mutex_);
        return listeners_.size();
    }

private:
    std::mutex mutex_;
    std::vector<chain::api::EventListener*> listeners_;
};

chain::api::BlockEvent event_of(const testing::FakeChain& chain, std::uint64_t number) {
    chain::api::BlockEvent event;
    event.view = chain.blocks[number];
    event.receipts = chain.receipts(number);
    return event;
}

// Of this process.
std::size_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    file >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

class WsServerTest : public ::testing::Test {
protected:
    void start(const std::function<void(WsOptions&)>& shape = {}) {
        WsOptions options;
        options.port = 0;
        GateRules rules;
        rules.cookie = "__cookie__:abc";
        options.gate = *Gate::make(rules);
        if (shape) shape(options);
        dispatcher = std::make_unique<Dispatcher>(*fixture.registry);
        auto started = WsServer::start(
            options,
            [this](std::string text, const CallContext& context) -> std::unique_ptr<Job> {
                if (text.starts_with("big") || text.starts_with("slow") || text.starts_with("endless") ||
                    text == "steps")
                    return std::make_unique<FakeJob>(*this, std::move(text), context);
                return dispatcher->begin(std::move(text), context);
            },
            events);
        ASSERT_TRUE(started) << started.error().to_string();
        server = std::move(*started);
    }
    std::unique_ptr<RawSocket> raw(const std::string& headers = {}, int receive_buffer = 0,
                                   std::uint32_t host = 1) const {
        auto socket = std::make_unique<RawSocket>(server->port(), receive_buffer, host);
        EXPECT_TRUE(socket->upgrade(headers).starts_with("HTTP/1.1 101 ")) << headers;
        return socket;
    }
    static std::string request(int id, const std::string& method, const std::string& params = "[]") {
        return R"({"jsonrpc":"2.0","id":)" + std::to_string(id) + R"(,"method":")" + method + R"(","params":)" +
               params + "}";
    }
    // The id of a subscription that is made now.
    static std::string subscribe(RawSocket& socket, const std::string& params, const std::string& group = "eth") {
        socket.send_text(request(1, group + "_subscribe", params));
        const auto answer = json::parse(socket.text());
        if (!answer || answer->find("result") == nullptr) return answer ? answer->dump() : "no JSON";
        return std::string(*answer->find("result")->as_string());
    }
    static json::Value result_of(const std::string& notification, const std::string& id) {
        const auto document = json::parse(notification);
        if (!document || document->find("params") == nullptr) return json::Value(notification);
        const json::Value& params = *document->find("params");
        EXPECT_EQ(params.get_string("subscription").value_or("?"), id);
        return *params.find("result");
    }
    template <class Condition>
    static bool eventually(Condition&& condition) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return true;
    }

    class FakeJob final : public Job {
    public:
        FakeJob(WsServerTest& test, std::string text, const CallContext& context)
            : test_(test), text_(std::move(text)), context_(context) {
            ++test_.begun;
        }
        bool run(std::chrono::milliseconds) override {
            if (text_.starts_with("slow"))
                while (!test_.release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (text_ == "steps") return take_step();
            if (!text_.starts_with("endless") || context_.is_cancelled()) return true;
            ++test_.slices;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return false;
        }
        std::optional<std::string> take_answer() override {
            if (text_.starts_with("endless")) ++test_.cancelled;
            return std::string(text_.starts_with("big") ? test_.big_answer : 5, 'x');
        }

        std::size_t held() const override { return test_.job_holds; }

    private:
        // Counts the slices that others had between its own.
        bool take_step() {
            if (steps_ == 0) slices_before_ = test_.slices;
            test_.slices_between = test_.slices - slices_before_;
            return ++steps_ == kSteps;
        }

        int steps_ = 0;
        int slices_before_ = 0;
        WsServerTest& test_;
        std::string text_;
        const CallContext context_;
    };

    static constexpr int kSteps = 50;
    testing::Fixture fixture;
    std::atomic<int> slices_between{0};
    std::atomic<int> cancelled{0};
    std::atomic<int> begun{0};
    std::atomic<int> slices{0};
    std::atomic<std::size_t> job_holds{0};
    std::unique_ptr<Dispatcher> dispatcher;
    Events events;
    std::atomic<bool> release{false};
    std::size_t big_answer = 1U << 20;
    std::unique_ptr<WsServer> server;
};

TEST_F(WsServerTest, answers_the_methods_of_the_registry_in_order) {
    start();
    const auto socket = raw();
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(socket->send_text(request(i, "eth_chainId")));
    for (int i = 0; i < 50; ++i)
        EXPECT_EQ(socket->text(), R"({"jsonrpc":"2.0","id":)" + std::to_string(i) + R"(,"result":"0x1ec6"})");
    socket->send_text("[" + request(1, "eth_chainId") + "," + request(2, "eth_nothing") + "]");
    const auto batch = json::parse(socket->text());
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->size(), 2U);
    EXPECT_EQ((*batch)[1].find("error")->get_i64("code").value_or(0), kMethodNotFound);
    socket->send_text("{");
    EXPECT_NE(socket->text().find("-32700"), std::string::npos);
    // A notification has no answer: the next one is that of the call behind it.
    socket->send_text(R"({"jsonrpc":"2.0","method":"eth_chainId"})");
    socket->send_text(request(7, "eth_chainId"));
    EXPECT_NE(socket->text().find("\"id\":7"), std::string::npos);
}

TEST_F(WsServerTest, the_cookie_decides_who_administers) {
    start();
    const auto stranger = raw();
    stranger->send_text(request(1, "admin_stop"));
    EXPECT_NE(stranger->text().find("cookie"), std::string::npos);
    EXPECT_FALSE(fixture.stopped);
    RawSocket impostor(server->port());
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(impostor.upgrade("Authorization: " + basic_authorization("__cookie__:abd") + "\r\n").substr(0, 12),
              "HTTP/1.1 401");
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(kRefusedCredentialsMs - 10));
    const auto owner = raw("Authorization: " + basic_authorization("__cookie__:abc") + "\r\n");
    owner->send_text(request(1, "admin_stop"));
    EXPECT_NE(owner->text().find("true"), std::string::npos);
    EXPECT_TRUE(fixture.stopped);
}

TEST_F(WsServerTest, refuses_foreign_origins_and_what_is_no_upgrade) {
    start([](WsOptions& options) { options.origins = {"https://good.example"}; });
    const auto status = [this](const std::string& headers, const std::string& version = "13") {
        return RawSocket(server->port()).upgrade(headers, version).substr(0, 12);
    };
    EXPECT_EQ(status("Origin: https://good.example\r\n"), "HTTP/1.1 101");
    EXPECT_EQ(status("Origin: https://evil.example\r\n"), "HTTP/1.1 403");
    EXPECT_EQ(status("Origin: https://good.example.evil\r\n"), "HTTP/1.1 403");
    EXPECT_EQ(status("Origin: null\r\n"), "HTTP/1.1 403");
    EXPECT_EQ(status({}), "HTTP/1.1 101");
    EXPECT_NE(status({}, "12"), "HTTP/1.1 101");
    EXPECT_NE(status({}, "8"), "HTTP/1.1 101");
    RawSocket plain(server->port());
    plain.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(plain.read_header().substr(0, 12), "HTTP/1.1 426");
    RawSocket post(server->port());
    post.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n");
    EXPECT_NE(post.read_header().substr(0, 12), "HTTP/1.1 101");
    RawSocket noise(server->port());
    noise.send(std::string(3000, '\x16') + "\r\n\r\n");
    EXPECT_NE(noise.read_header().substr(0, 12), "HTTP/1.1 101");
    RawSocket endless(server->port());
    endless.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
    for (int i = 0; i < 64; ++i)
        if (!endless.send("X-Filler: " + std::string(1000, 'x') + "\r\n")) break;
    EXPECT_NE(endless.read_header().substr(0, 12), "HTTP/1.1 101");
}

TEST_F(WsServerTest, bad_frames_close_the_connection_with_their_code) {
    start([](WsOptions& options) { options.max_message_bytes = 10'000; });
    const auto code = [this](const std::string& bytes) {
        const auto socket = raw();
        socket->send(bytes);
        return socket->close_code();
    };
    EXPECT_EQ(code(RawSocket::frame(testing::kText, "{}", true, false)), 1002U) << "unmasked";
    EXPECT_EQ(code(RawSocket::frame(3, "{}")), 1002U) << "reserved opcode";
    EXPECT_EQ(code(RawSocket::frame(testing::kPing, std::string(126, 'x'))), 1002U) << "large control frame";
    EXPECT_EQ(code(RawSocket::frame(testing::kPing, "x", false)), 1002U) << "fragmented control frame";
    EXPECT_EQ(code(RawSocket::frame(0, "x")), 1002U) << "continuation of nothing";
    EXPECT_EQ(code(RawSocket::frame(testing::kText, "\xc3\x28")), 1007U) << "no UTF-8";
    EXPECT_EQ(code(RawSocket::frame(testing::kBinary, "{}")), 1003U) << "binary";
    EXPECT_EQ(code(RawSocket::frame(testing::kText, std::string(10'001, ' '))), 1009U) << "too large";
    EXPECT_EQ(code(RawSocket::frame(testing::kText, std::string(9'000, ' '), false) +
                   RawSocket::frame(0, std::string(2'000, ' '))),
              1009U)
        << "too large in fragments";
    // Only the announced length: nothing of it may be believed.
    EXPECT_EQ(code(std::string("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x11\x22\x33\x44", 14)), 1009U) << "huge";
    EXPECT_EQ(code(RawSocket::frame(testing::kText, "x").replace(0, 1, "\xc1")), 1002U) << "reserved bit";
    // And one that does everything right.
    const auto socket = raw();
    socket->send(RawSocket::frame(testing::kText, request(1, "eth_chainId").substr(0, 10), false) +
                 RawSocket::frame(testing::kPing, "hello") + RawSocket::frame(0, request(1, "eth_chainId").substr(10)));
    const auto pong = socket->read();
    ASSERT_TRUE(pong);
    EXPECT_EQ(pong->opcode, testing::kPong);
    EXPECT_EQ(pong->payload, "hello");
    EXPECT_NE(socket->text().find("0x1ec6"), std::string::npos);
    socket->send(RawSocket::frame(testing::kClose, std::string("\x03\xe8", 2)));
    EXPECT_EQ(socket->close_code(), 1000U);
    EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
}

TEST_F(WsServerTest, a_flood_of_pings_costs_no_memory) {
    start([](WsOptions& options) {
        options.ping_ms = 200;
        options.pong_ms = 600;
        options.close_ms = 300;
    });
    const auto flooder = raw({}, 4096);  // never reads a pong
    const auto honest = raw();
    const std::string pings = [] {
        std::string many;
        for (int i = 0; i < 500; ++i) many += RawSocket::frame(testing::kPing, std::string(125, 'p'));
        return many;
    }();
    const std::size_t before = resident_bytes();
    std::atomic<bool> gone{false};
    std::thread flood([&] {
        while (flooder->send(pings)) {
        }
        gone = true;
    });
    for (int i = 0; i < 50 && !gone; ++i) {
        honest->send_text(request(i, "eth_chainId"));
        EXPECT_NE(honest->text_answering_pings().find("0x1ec6"), std::string::npos);
        EXPECT_LT(resident_bytes(), before + (std::size_t{32} << 20));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    // It reads nothing, no ping of ours either: it is dropped.
    EXPECT_TRUE(eventually([&] { return gone.load(); }));
    flood.join();
    EXPECT_TRUE(eventually([&] { return server->connections() == 1; }));
}

TEST_F(WsServerTest, memory_of_all_clients_is_bounded) {
    start([](WsOptions& options) { options.max_held_bytes = 20 << 20; });
    fixture.chain.add_block({});
    const auto honest = raw();
    const std::string id = subscribe(*honest, R"(["newHeads"])");
    std::list<std::unique_ptr<RawSocket>> deaf;
    for (int i = 0; i < 30; ++i) {
        deaf.push_back(raw({}, 4096));
        for (int j = 0; j < 4; ++j) deaf.back()->send_text("big");
    }
    EXPECT_TRUE(eventually([&] { return server->connections() < 28; })) << server->connections();
    EXPECT_TRUE(eventually([&] { return server->held_bytes() <= (20U << 20); })) << server->held_bytes();
    events.block(event_of(fixture.chain, 1));
    EXPECT_EQ(result_of(honest->text(), id).get_string("number").value_or("?"), "0x1");
    deaf.clear();
    honest->send(RawSocket::frame(testing::kClose, std::string("\x03\xe8", 2)));
    EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
    EXPECT_TRUE(eventually([&] { return server->held_bytes() == 0; }));
}

TEST_F(WsServerTest, many_small_messages_of_one_host_close_nobody_elses_large_one) {
    constexpr std::size_t kPart = 100'000;
    constexpr std::size_t kStrangers = 40;
    constexpr std::size_t kLarge = 1'000'000;
    big_answer = 5;
    start([](WsOptions& options) { options.max_held_bytes = 5'000'000; });
    std::list<std::unique_ptr<RawSocket>> strangers;
    for (std::size_t i = 0; i < kStrangers && server->held_bytes() < 4'500'000; ++i) {
        strangers.push_back(raw({}, 0, 2));
        const std::size_t before = server->held_bytes();
        strangers.back()->send(RawSocket::frame(testing::kText, std::string(kPart, ' '), false));
        EXPECT_TRUE(eventually([&] { return server->held_bytes() >= before + kPart; })) << i;
    }
    const auto honest = raw({}, 0, 3);
    honest->send_text("big" + std::string(kLarge, ' '));
    EXPECT_EQ(honest->text(), "xxxxx");
    EXPECT_LT(server->connections(), 1 + strangers.size());
}

TEST_F(WsServerTest, large_requests_are_answered_a_few_at_a_time) {
    start([](WsOptions& options) {
        options.call_ms = 600'000;
        options.max_large_jobs = 3;  // one of them is other hosts'
    });
    std::list<std::unique_ptr<RawSocket>> clients;
    for (int i = 0; i < 6; ++i) {
        clients.push_back(raw());
        clients.back()->send_text("endless" + std::string(kSmallRequest, ' '));
        EXPECT_TRUE(eventually([&] { return begun == std::min(i + 1, 2); }));  // the first of them are the first ones
    }
    EXPECT_TRUE(eventually([&] { return slices > 50; }));
    EXPECT_EQ(begun, 2);
    // Small ones do not wait for them.
    const auto other = raw();
    other->send_text("a small one: slow");
    EXPECT_EQ(json::parse(other->text())->find("error")->get_i64("code").value_or(0), kParseError);
    // Who has gone takes no place, whether its turn had come or not.
    clients.pop_front();
    EXPECT_TRUE(eventually([&] { return begun == 3; }));
    clients.resize(2);
    EXPECT_TRUE(eventually([&] { return server->connections() == 3; }));  // or one of them has its turn meanwhile
    clients.pop_back();
    EXPECT_TRUE(eventually([&] { return cancelled == 2; })) << cancelled;
    EXPECT_TRUE(eventually([&] { return server->connections() == 2; }));
    const int before = begun;
    clients.push_back(raw());
    clients.back()->send_text("endless" + std::string(kSmallRequest, ' '));
    EXPECT_TRUE(eventually([&] { return begun == before + 1; }));
}

TEST_F(WsServerTest, large_requests_that_wait_are_dropped_with_their_connections) {
    start([](WsOptions& options) { options.call_ms = 600'000, options.max_large_jobs = 1; });
    const std::string padding(kSmallRequest, ' ');
    auto holder = raw();
    holder->send_text("endless" + padding);
    EXPECT_TRUE(eventually([&] { return slices > 0; }));
    {
        std::list<std::unique_ptr<RawSocket>> waiting;
        for (int i = 0; i < 5; ++i) {
            waiting.push_back(raw());
            waiting.back()->send_text("slow" + padding);
        }
        EXPECT_TRUE(eventually([&] { return server->held_bytes() > 6 * kSmallRequest; })) << server->held_bytes();
    }
    EXPECT_TRUE(eventually([&] { return server->connections() == 1; }));
    release = true;
    const auto honest = raw();
    holder.reset();
    honest->send_text("big" + padding);
    EXPECT_EQ(honest->text().size(), big_answer);
    EXPECT_EQ(begun, 2) << "those of the connections that are gone came to nothing";
}

TEST_F(WsServerTest, hosts_take_turns_at_the_threads) {
    constexpr int kStrangers = 100;
    start([](WsOptions& options) { options.threads = 1, options.call_ms = 600'000; });
    std::list<std::unique_ptr<RawSocket>> strangers;
    for (int i = 0; i < kStrangers; ++i) {
        strangers.push_back(raw({}, 0, 2));
        strangers.back()->send_text("endless");
    }
    EXPECT_TRUE(eventually([&] { return slices > 5 * kStrangers; }));
    const auto honest = raw({}, 0, 3);
    honest->send_text("steps");
    EXPECT_EQ(honest->text(), "xxxxx");
    EXPECT_LT(slices_between, kSteps * kStrangers / 2);
    EXPECT_EQ(cancelled, 0);
}

TEST_F(WsServerTest, answers_count_while_they_grow) {
    start([](WsOptions& options) {
        options.call_ms = 600'000;
        options.max_held_bytes = 20 << 20;
    });
    const auto socket = raw();
    job_holds = 5 << 20;
    socket->send_text("endless");
    EXPECT_TRUE(eventually([&] { return server->held_bytes() >= (5U << 20); })) << server->held_bytes();
    EXPECT_EQ(cancelled, 0);
    job_holds = 21 << 20;
    EXPECT_TRUE(eventually([&] { return cancelled == 1; }));
    EXPECT_TRUE(eventually([&] { return server->held_bytes() == 0; })) << server->held_bytes();
}

TEST_F(WsServerTest, a_message_counts_with_the_memory_that_it_takes) {
    start();
    const auto socket = raw();
    const std::string piece(64U << 10, ' ');
    std::size_t sent = 0;
    double most = 0;
    for (int i = 0; i < 60; ++i) {
        socket->send(RawSocket::frame(i == 0 ? testing::kText : 0U, piece, false));
        sent += piece.size();
        ASSERT_TRUE(eventually([&] { return server->held_bytes() >= sent; })) << i;
        if (i >= 8) most = std::max(most, static_cast<double>(server->held_bytes()) / static_cast<double>(sent));
    }
    EXPECT_GT(most, 1.25) << "its buffer doubles";
    EXPECT_LT(most, 2.5);
    socket->send(RawSocket::frame(0, "", true));
    EXPECT_NE(socket->text().find("-32700"), std::string::npos);
    EXPECT_TRUE(eventually([&] { return server->held_bytes() <= piece.size(); })) << server->held_bytes();
}

TEST_F(WsServerTest, filters_of_subscriptions_are_bounded) {
    start([](WsOptions& options) { options.max_subscription_bytes = 100'000; });
    const auto socket = raw();
    std::string topics;
    for (int i = 0; i < 1'000; ++i) {
        Hash32 topic;
        topic.data[0] = static_cast<std::uint8_t>(i);
        topic.data[1] = static_cast<std::uint8_t>(i >> 8);
        topics += (i == 0 ? "\"" : ",\"") + hex(topic) + "\"";
    }
    const std::string filter = R"(["logs",{"topics":[[)" + topics + R"(],[)" + topics + "]]}]";
    EXPECT_TRUE(subscribe(*socket, filter).starts_with("0x"));
    EXPECT_NE(subscribe(*socket, filter).find("subscription.too_large"), std::string::npos);
    EXPECT_GT(server->held_bytes(), 64'000U);
    EXPECT_LT(server->held_bytes(), 200'000U);
}

TEST_F(WsServerTest, a_message_that_never_ends_is_given_up) {
    start([](WsOptions& options) { options.message_ms = 200; });
    const auto socket = raw();
    socket->send(RawSocket::frame(testing::kText, std::string(1000, ' '), false));
    EXPECT_EQ(socket->close_code(), 1008U);
}

TEST_F(WsServerTest, a_call_ends_when_its_client_has_gone) {
    start([](WsOptions& options) { options.call_ms = 600'000; });
    auto socket = raw();
    socket->send_text("endless");
    EXPECT_TRUE(eventually([&] { return slices > 5; }));
    EXPECT_EQ(cancelled, 0);
    socket.reset();
    EXPECT_TRUE(eventually([&] { return cancelled == 1; }));
    const auto second = raw();
    slices = 0;
    second->send_text("endless");
    EXPECT_TRUE(eventually([&] { return slices > 5; }));
    const auto begin = std::chrono::steady_clock::now();
    server->stop();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
    EXPECT_EQ(cancelled, 2);
}

TEST_F(WsServerTest, the_http_port_upgrades_too) {
    start();
    HttpOptions options;
    options.port = 0;
    HttpHooks hooks;
    hooks.upgrade = [this](int socket, std::string received) { server->adopt(socket, std::move(received)); };
    auto http = HttpServer::start(options, std::move(hooks));
    ASSERT_TRUE(http);
    RawSocket socket((*http)->port());
    EXPECT_TRUE(socket.upgrade().starts_with("HTTP/1.1 101 "));
    socket.send_text(request(1, "eth_chainId"));
    EXPECT_NE(socket.text().find("0x1ec6"), std::string::npos);
    EXPECT_TRUE(subscribe(socket, R"(["newHeads"])").starts_with("0x"));
    EXPECT_TRUE(eventually([&] { return (*http)->connections() == 0; }));
    EXPECT_EQ(server->connections(), 1U);
    // The rules are the same.
    RawSocket foreign((*http)->port());
    EXPECT_TRUE(foreign.upgrade("Origin: https://evil.example\r\n").starts_with("HTTP/1.1 403"));
    RawSocket rebound((*http)->port());
    rebound.send(
        "GET / HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    EXPECT_TRUE(rebound.read_header().starts_with("HTTP/1.1 403"));
    for (const char* body : {"Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n"}) {
        RawSocket with_body((*http)->port());
        EXPECT_TRUE(with_body.upgrade(body).starts_with("HTTP/1.1 400")) << body;
    }
    RawSocket without((*http)->port());
    EXPECT_TRUE(without.upgrade("Content-Length: 0\r\n").starts_with("HTTP/1.1 101"));
}

// To a socket of IPv6 an IPv4 client comes as ::ffff:127.0.0.1, to the HTTP port here as 127.0.0.1.
TEST_F(WsServerTest, a_host_has_one_share_whatever_its_addresses) {
    if (!testing::has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
    start([](WsOptions& options) {
        options.bind = "::";
        options.call_ms = 600'000;
        options.max_large_jobs = 3;
    });
    HttpOptions options;
    options.port = 0;
    HttpHooks hooks;
    hooks.upgrade = [this](int socket, std::string received) { server->adopt(socket, std::move(received)); };
    auto http = HttpServer::start(options, std::move(hooks));
    ASSERT_TRUE(http);
    const std::string padding(kSmallRequest, ' ');
    std::list<RawSocket> sockets;
    for (int i = 0; i < 3; ++i) {
        sockets.emplace_back(i < 2 ? server->port() : (*http)->port());
        EXPECT_TRUE(sockets.back().upgrade().starts_with("HTTP/1.1 101 "));
        const std::size_t before = server->held_bytes();
        sockets.back().send_text("endless" + padding);
        EXPECT_TRUE(eventually([&] { return server->held_bytes() > before + kSmallRequest; }));
    }
    EXPECT_TRUE(eventually([&] { return begun >= 2; }));
    const auto honest = raw({}, 0, 2);
    honest->send_text("big" + padding);
    EXPECT_EQ(honest->text().size(), big_answer);
    EXPECT_EQ(begun, 3);
    EXPECT_EQ(cancelled, 0);
}

TEST_F(WsServerTest, a_name_that_is_not_allowed_is_refused) {
    start();
    RawSocket rebound(server->port());
    rebound.send(
        "GET / HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    EXPECT_TRUE(rebound.read_header().starts_with("HTTP/1.1 403"));
    RawSocket two(server->port());
    EXPECT_TRUE(two.upgrade("Host: evil.example\r\n").starts_with("HTTP/1.1 400"));
}

TEST_F(WsServerTest, tells_new_heads_logs_and_transactions) {
    start();
    const auto transaction = testing::signed_transaction();
    chain::types::Address source;
    source.data[19] = 0x42;
    Hash32 topic;
    topic.data[0] = 7;
    fixture.chain.add_block({transaction, testing::signed_transaction([](auto& tx) { tx.nonce = 1; })},
                            [&](std::size_t i, chain::types::Receipt& receipt) {
                                if (i == 1) receipt.logs.push_back({source, {topic}, {}});
                            });
    const auto socket = raw();
    const std::string heads = subscribe(*socket, R"(["newHeads"])");
    EXPECT_TRUE(heads.starts_with("0x")) << heads;
    events.block(event_of(fixture.chain, 1));
    const auto head = result_of(socket->text(), heads);
    EXPECT_EQ(head.get_string("number").value_or("?"), "0x1");
    EXPECT_EQ(head.get_string("hash").value_or("?"), hex(fixture.chain.blocks[1]->hash));
    EXPECT_EQ(head.find("transactions"), nullptr);

    const auto other = raw();
    const std::string matching =
        subscribe(*other, R"(["logs",{"address":")" + hex(source) + R"(","topics":[[")" + hex(topic) + R"("]]}])");
    const std::string nothing = subscribe(*other, R"(["logs",{"topics":[null,")" + hex(topic) + R"("]}])");
    const std::string later = subscribe(*other, R"(["logs",{"fromBlock":"0x2"}])");
    const std::string hashes = subscribe(*other, R"(["newPendingTransactions"])");
    const std::string full = subscribe(*other, R"(["newPendingTransactions",true])");
    EXPECT_TRUE(nothing.starts_with("0x") && later.starts_with("0x"));
    events.block(event_of(fixture.chain, 1));
    const auto log = result_of(other->text(), matching);
    EXPECT_EQ(log.get_string("address").value_or("?"), hex(source));
    EXPECT_EQ(log.get_string("transactionIndex").value_or("?"), "0x1");
    EXPECT_EQ(log.get_bool("removed").value_or(true), false);
    const auto recovered = chain::types::recover(chain::types::encode(transaction));
    ASSERT_TRUE(recovered);
    events.transaction(*recovered);
    std::map<std::string, json::Value> told;
    for (int i = 0; i < 2; ++i) {
        const auto message = json::parse(other->text());
        ASSERT_TRUE(message);
        const json::Value& params = *message->find("params");
        told[std::string(*params.get_string("subscription"))] = *params.find("result");
    }
    EXPECT_EQ(told[hashes], json::Value(hex(recovered->hash)));
    EXPECT_EQ(told[full].get_string("hash").value_or("?"), hex(recovered->hash));
    EXPECT_TRUE(told[full].find("blockHash")->is_null());
}

TEST_F(WsServerTest, tells_the_market_and_finality) {
    start();
    fixture.chain.add_block({});
    auto event = event_of(fixture.chain, 1);
    using Topic = chain::api::MarketChange::Topic;
    using chain::types::TaskState;
    event.changes.push_back({Topic::task, "submitted", 7, {}, TaskState::open, {}, json::Value::object({{"x", 1}})});
    event.changes.push_back({Topic::task, "state", 8, {}, TaskState::settled, {}, {}});
    event.changes.push_back({Topic::dispute, "closed", 8, 3, TaskState::settled, {}, {}});
    event.finality = {3, Uint256(30), Uint256(40), 12};
    const auto socket = raw();
    const std::string settled = subscribe(*socket, R"(["tasks",{"states":["final"]}])", "quern");
    events.block(event);
    auto change = result_of(socket->text(), settled);
    EXPECT_EQ(change.get_u64("taskId").value_or(0), 8U);
    EXPECT_EQ(change.get_string("state").value_or("?"), "settled");
    EXPECT_EQ(change.get_string("kind").value_or("?"), "state");
    const auto other = raw();
    const std::string seventh = subscribe(*other, R"(["tasks",{"task":7}])", "quern");
    events.block(event);
    EXPECT_EQ(result_of(other->text(), seventh).get_u64("x").value_or(0), 1U);
    const auto third = raw();
    const std::string dispute = subscribe(*third, R"(["disputes",{"dispute":3,"task":8}])", "quern");
    events.block(event);
    EXPECT_EQ(result_of(third->text(), dispute).get_u64("disputeId").value_or(0), 3U);
    const auto fourth = raw();
    const std::string finality = subscribe(*fourth, R"(["finality"])", "quern");
    events.block(event);
    const auto report = result_of(fourth->text(), finality);
    EXPECT_EQ(report.get_u64("signers").value_or(0), 3U);
    EXPECT_EQ(report.get_string("weight").value_or("?"), "0x1e");
    EXPECT_EQ(report.get_u64("finalityMs").value_or(0), 12U);
}

TEST_F(WsServerTest, bad_subscriptions_are_refused_by_name) {
    start([](WsOptions& options) { options.max_subscriptions = 3; });
    const auto socket = raw();
    const auto error = [&](const std::string& method, const std::string& params) {
        socket->send_text(request(1, method, params));
        const std::string answer = socket->text();
        EXPECT_NE(answer.find("\"error\""), std::string::npos) << answer;
        return answer;
    };
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    EXPECT_TRUE(has(error("eth_subscribe", R"(["nothing"])"), "no \\\"nothing\\\" subscription in eth namespace"));
    EXPECT_TRUE(has(error("eth_subscribe", R"([])"), "missing value"));
    EXPECT_TRUE(has(error("eth_subscribe", R"(["logs",{"topics":[1]}])"), "-32602"));
    EXPECT_TRUE(has(error("eth_subscribe", R"(["logs",{"topics":[null,null,null,null,null]}])"), "-32602"));
    EXPECT_TRUE(has(error("eth_subscribe", R"(["logs",{"fromBlock":"0x5","toBlock":"0x4"}])"), "block range"));
    EXPECT_TRUE(has(error("eth_subscribe", R"(["logs",{"blockHash":")" + hex(Hash32()) + R"("}])"), "blockHash"));
    EXPECT_TRUE(has(error("eth_subscribe", R"(["newPendingTransactions","yes"])"), "-32602"));
    EXPECT_TRUE(has(error("quern_subscribe", R"(["tasks",{"stats":[]}])"), "unknown member"));
    EXPECT_TRUE(has(error("quern_subscribe", R"(["tasks",{"states":["lost"]}])"), "unknown state"));
    EXPECT_TRUE(has(error("quern_subscribe", R"(["newHeads"])"), "quern namespace"));
    EXPECT_TRUE(has(error("eth_unsubscribe", R"(["0x1"])"), "subscription not found"));
    EXPECT_EQ(server->subscriptions(), 0U);
    EXPECT_FALSE(events.is_listened_to());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(subscribe(*socket, R"(["newHeads"])").starts_with("0x"));
    EXPECT_TRUE(has(error("eth_subscribe", R"(["newHeads"])"), "subscription.too_many"));
    EXPECT_EQ(server->subscriptions(), 3U);
    EXPECT_TRUE(events.is_listened_to());
    // Over HTTP, where there is no connection to tell anything:
    const auto refused = fixture.call("eth_subscribe", R"(["newHeads"])");
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().message.starts_with("notifications not supported"));
    EXPECT_FALSE(fixture.call("quern_unsubscribe", R"(["0x1"])"));
}

TEST_F(WsServerTest, nothing_follows_the_answer_of_an_unsubscription) {
    start();
    fixture.chain.add_block({});
    const auto event = event_of(fixture.chain, 1);
    std::atomic<bool> stop{false};
    std::thread teller([&] {
        while (!stop) events.block(event);
    });
    for (int round = 0; round < 20; ++round) {
        const auto socket = raw();
        socket->send_text(request(1, "eth_subscribe", R"(["newHeads"])"));
        // The first message is the answer, however fast blocks come.
        const auto answer = json::parse(socket->text());
        ASSERT_TRUE(answer && answer->find("result") != nullptr) << (answer ? answer->dump() : "");
        const std::string id(*answer->find("result")->as_string());
        socket->send_text(request(2, "quern_unsubscribe", "[\"" + id + "\"]"));  // another group's
        socket->send_text(request(3, "eth_unsubscribe", "[\"" + id + "\"]"));
        bool gone = false;
        bool refused = false;
        while (!gone) {
            const std::string text = socket->text();
            ASSERT_FALSE(text.starts_with("closed") || text == "gone") << text;
            refused = refused || text.find("\"id\":2,\"error\"") != std::string::npos;
            gone = text.find("\"id\":3") != std::string::npos;
        }
        EXPECT_TRUE(refused);
        socket->send_text(request(4, "eth_chainId"));
        EXPECT_NE(socket->text().find("\"id\":4"), std::string::npos);
    }
    stop = true;
    teller.join();
}

TEST_F(WsServerTest, every_block_comes_once_and_in_order) {
    start();
    constexpr std::uint64_t kBlocks = 300;
    for (std::uint64_t i = 0; i < kBlocks; ++i) fixture.chain.add_block({});
    std::list<std::unique_ptr<RawSocket>> sockets;
    std::vector<std::string> ids;
    for (int i = 0; i < 8; ++i) {
        sockets.push_back(raw());
        ids.push_back(subscribe(*sockets.back(), R"(["newHeads"])"));
    }
    std::thread teller([&] {
        for (std::uint64_t i = 1; i <= kBlocks; ++i) events.block(event_of(fixture.chain, i));
    });
    std::size_t which = 0;
    for (const auto& socket : sockets) {
        for (std::uint64_t i = 1; i <= kBlocks; ++i)
            ASSERT_EQ(result_of(socket->text(), ids[which]).get_string("number").value_or("?"), quantity(i));
        ++which;
    }
    teller.join();
}

TEST_F(WsServerTest, a_slow_reader_is_closed_and_others_are_not_held_up) {
    start([](WsOptions& options) {
        options.max_outgoing_bytes = 256 << 10;
        options.close_ms = 500;
    });
    fixture.chain.add_block({});
    const auto event = event_of(fixture.chain, 1);
    const auto slow = raw({}, 4096);
    const auto quick = raw();
    EXPECT_TRUE(subscribe(*slow, R"(["newHeads"])").starts_with("0x"));
    const std::string id = subscribe(*quick, R"(["newHeads"])");
    std::size_t told = 0;
    while (server->connections() == 2 && told < 20'000) {
        events.block(event);
        ++told;
        ASSERT_EQ(result_of(quick->text(), id).get_string("number").value_or("?"), "0x1");
    }
    // It is told to close, and dropped when it does not.
    for (int i = 0; i < 5'000 && server->connections() == 2; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(server->connections(), 1U) << "after " << told;
    // Its subscription goes after its place, on another thread.
    EXPECT_TRUE(eventually([&] { return server->subscriptions() == 1; }));
    quick->send_text(request(5, "eth_chainId"));
    EXPECT_NE(quick->text().find("\"id\":5"), std::string::npos);
}

TEST_F(WsServerTest, a_slow_reader_that_reads_on_learns_why) {
    start([](WsOptions& options) {
        options.max_outgoing_bytes = 64 << 10;
        options.close_ms = 5'000;
    });
    fixture.chain.add_block({});
    const auto event = event_of(fixture.chain, 1);
    const auto slow = raw({}, 4096);
    EXPECT_TRUE(subscribe(*slow, R"(["newHeads"])").starts_with("0x"));
    for (int i = 0; i < 4'000; ++i) events.block(event);
    EXPECT_EQ(slow->close_code(), 1008U);
}

TEST_F(WsServerTest, answers_wait_for_the_reader_instead_of_filling_memory) {
    start([](WsOptions& options) { options.max_outgoing_bytes = 2 << 20; });
    const auto socket = raw({}, 65536);
    constexpr int kCalls = 40;
    for (int i = 0; i < kCalls; ++i) socket->send_text("big");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    for (int i = 0; i < kCalls; ++i) ASSERT_EQ(socket->text().size(), big_answer) << i;
}

TEST_F(WsServerTest, too_many_waiting_requests_close_the_connection) {
    start([](WsOptions& options) { options.max_waiting_requests = 10; });
    const auto socket = raw();
    socket->send_text("slow");
    for (int i = 0; i < 20; ++i) socket->send_text(request(i, "eth_chainId"));
    EXPECT_EQ(socket->close_code(), 1013U);
    release = true;
    const auto other = raw();
    other->send_text(request(1, "eth_chainId"));
    EXPECT_NE(other->text().find("0x1ec6"), std::string::npos);
}

TEST_F(WsServerTest, a_flood_of_half_open_connections_is_bounded_and_passes) {
    start([](WsOptions& options) {
        options.max_connections = 20;
        options.handshake_ms = 400;
    });
    std::list<RawSocket> idle;
    for (int i = 0; i < 200; ++i) {
        idle.emplace_back(server->port());
        if (i % 2 == 0) idle.back().send("GET / HTTP/1.1\r\nHost: x\r\nUpgr");
    }
    EXPECT_TRUE(eventually([&] { return server->connections() == 20; }));
    EXPECT_TRUE(idle.back().closed_within(2'000));
    EXPECT_LE(server->connections(), 20U);
    EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
    raw()->send_text(request(1, "eth_chainId"));
}

TEST_F(WsServerTest, silence_is_pinged_and_then_closed) {
    start([](WsOptions& options) {
        options.ping_ms = 100;
        options.pong_ms = 300;
        options.close_ms = 200;
    });
    const auto dead = raw();
    const auto alive = raw();
    for (int i = 0; i < 8; ++i) {
        const auto ping = alive->read();
        ASSERT_TRUE(ping);
        ASSERT_EQ(ping->opcode, testing::kPing) << ping->payload;
        alive->send(RawSocket::frame(testing::kPong, ping->payload));
    }
    EXPECT_EQ(dead->close_code(), 1008U);
    EXPECT_TRUE(eventually([&] { return server->connections() == 1; }));
}

TEST_F(WsServerTest, stopping_says_so_and_ends_running_calls) {
    start();
    const auto first = raw();
    const auto second = raw();
    EXPECT_TRUE(subscribe(*second, R"(["newHeads"])").starts_with("0x"));
    first->send_text("slow");
    std::thread stopper([this] { server->stop(); });
    EXPECT_EQ(second->close_code(), 1001U);
    second->send(RawSocket::frame(testing::kClose, std::string("\x03\xe9", 2)));
    EXPECT_EQ(first->close_code(), 1001U);
    release = true;
    stopper.join();
    EXPECT_EQ(events.listeners(), 0U);
    EXPECT_FALSE(RawSocket(server->port()).connected());
}

TEST_F(WsServerTest, the_client_of_the_workers_understands_it) {
    start();
    fixture.chain.add_block({});
    http::Url url{"127.0.0.1", server->port(), "/"};
    auto client = websocket::Client::connect(url);
    ASSERT_TRUE(client) << client.error().to_string();
    ASSERT_TRUE((*client)->send(request(1, "eth_subscribe", R"(["newHeads"])")));
    auto answer = (*client)->receive(5'000);
    ASSERT_TRUE(answer && *answer);
    EXPECT_NE((**answer).find("result"), std::string::npos);
    auto none = (*client)->receive(20);
    ASSERT_TRUE(none);
    EXPECT_FALSE(*none);
    events.block(event_of(fixture.chain, 1));
    auto told = (*client)->receive(5'000);
    ASSERT_TRUE(told && *told);
    EXPECT_NE((**told).find("eth_subscription"), std::string::npos);
    server->stop();
    auto closed = (*client)->receive(5'000);
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().name, "websocket.closed");
    EXPECT_NE(closed.error().detail.find("1001"), std::string::npos) << closed.error().detail;
    EXPECT_EQ(websocket::Client::connect(url).error().name, "websocket.connect_failed");
    EXPECT_EQ(websocket::parse_url("http://x").error().name, "http.unsupported_scheme");
    EXPECT_EQ(websocket::parse_url("ws://x:8546")->port, 8546);
}

}  // namespace
}  // namespace quern::rpc
