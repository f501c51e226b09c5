#include "compute/worker/node_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/fs.h"
#include "chain/params/parameters.h"
#include "chain/types/abi.h"
#include "chain/types/native_kinds.h"
#include "chain/types/probe_event.h"
#include "content_parts.h"
#include "rpc/http_server.h"

namespace quern::compute::worker {
namespace {

using chain::types::Address;

// Answers each request with what the test says.
class LyingNode : public testing::Test {
public:
    class Lie final : public rpc::Job {
    public:
        explicit Lie(std::string text) : text_(std::move(text)) {}
        bool run(std::chrono::milliseconds) override { return true; }
        std::optional<std::string> take_answer() override { return std::move(text_); }
        std::size_t held() const override { return text_.size(); }

    private:
        std::string text_;
    };

protected:
    LyingNode() {
        rpc::HttpOptions options;
        options.port = 0;
        rpc::HttpHooks hooks;
        hooks.rpc = [this](std::string, const rpc::CallContext&) -> std::unique_ptr<rpc::Job> {
            const int number = ++asked_;
            return std::make_unique<Lie>(R"({"jsonrpc":"2.0","id":1,"result":)" + answer_(number) + "}");
        };
        auto started = rpc::HttpServer::start(options, hooks);
        EXPECT_TRUE(started);
        server_ = std::move(*started);
        client_ = std::make_unique<NodeClient>("127.0.0.1", server_->port());
    }
    std::atomic<int> asked_{0};
    std::function<std::string(int)> answer_;
    std::unique_ptr<rpc::HttpServer> server_;
    std::unique_ptr<NodeClient> client_;
};

TEST_F(LyingNode, cannot_keep_a_worker_reading_pages_for_ever) {
    answer_ = [](int) { return std::string(R"({"tasks":[],"next":1})"); };
    const auto same = client_->live_tasks();
    ASSERT_FALSE(same);
    EXPECT_EQ(same.error().name, "node.bad_answer");
    EXPECT_EQ(asked_, 1);
    answer_ = [](int) { return std::string(R"({"tasks":[],"next":null})"); };
    const auto none = client_->live_tasks();
    ASSERT_TRUE(none);
    EXPECT_TRUE(none->empty());
}

TEST_F(LyingNode, tells_the_parameters_of_the_market_or_is_busy) {
    chain::params::ChainParams params;
    params.market.dispute_cost = 77;
    params.market.solver_bond_gammas = 9;
    json::Value market = chain::params::to_json(params, "market");
    answer_ = [&](int) { return json::Value::object({{"chain_id", 1}, {"market", market}}).dump(); };
    const auto told = client_->market_params();
    ASSERT_TRUE(told) << told.error().to_string();
    EXPECT_EQ(told->dispute_cost, Uint256(77));
    EXPECT_EQ(told->solver_bond_gammas, 9U);
    market.erase("dispute_cost");
    const auto less = client_->market_params();
    ASSERT_FALSE(less);
    EXPECT_EQ(less.error().name, "node.bad_answer");
}

TEST_F(LyingNode, tells_what_whistleblowers_have_bonded_or_is_busy) {
    answer_ = [](int) { return std::string(R"({"watchBonds":"0x4d2"})"); };
    const auto told = client_->watch_bonds();
    ASSERT_TRUE(told) << told.error().to_string();
    EXPECT_EQ(*told, Uint256(1234));
    answer_ = [](int) { return std::string(R"({"watchBonds":1234})"); };
    const auto other = client_->watch_bonds();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().name, "node.bad_answer");
}

TEST_F(LyingNode, tells_the_probes_of_a_report_or_is_busy) {
    using chain::types::ProbesRevealed;
    chain::types::VerifierReport report;
    report.claim.task = 7;
    report.verifier.data[0] = 3;
    report.revealed_at = 18;
    report.result_root.data[0] = 4;
    const auto log_of = [](const ProbesRevealed& event) {
        const auto log =
            chain::types::abi::event_log(chain::types::group_address(chain::types::KindGroup::verification), event);
        json::Array topics;
        for (const Hash32& topic : log.topics) topics.push_back(to_hex0x(topic));
        return json::Value::object({{"address", to_hex0x(log.address)},
                                    {"topics", json::Value(std::move(topics))},
                                    {"data", to_hex0x(log.data)}});
    };
    const std::vector<Hash32> probes{Hash32{{1}}, Hash32{{2}}};
    ProbesRevealed other{7, Address{{9}}, 0, report.result_root, {}};
    ProbesRevealed earlier{7, report.verifier, 0, Hash32{{5}}, {}};
    answer_ = [&](int) {
        const ProbesRevealed mine{7, report.verifier, 0, report.result_root, probes};
        return json::Value::array({log_of(other), log_of(earlier), log_of(mine)}).dump();
    };
    const auto told = client_->revealed_probes(report);
    ASSERT_TRUE(told) << told.error().to_string();
    EXPECT_EQ(*told, probes);
    for (const char* answer : {"[]", "{}", R"([{"address":"0x"}])"}) {
        answer_ = [&](int) { return std::string(answer); };
        const auto none = client_->revealed_probes(report);
        ASSERT_FALSE(none);
        EXPECT_TRUE(none.error().is_busy()) << answer;
    }
}

TEST_F(LyingNode, cannot_fill_a_workers_memory_with_tasks) {
    const std::string junk(std::size_t{20} << 20, ' ');
    answer_ = [&](int number) { return R"({"tasks":[],"next":)" + std::to_string(16 * number + 1) + junk + "}"; };
    const auto tasks = client_->live_tasks();
    ASSERT_FALSE(tasks);
    EXPECT_EQ(tasks.error().name, "node.bad_answer");
    EXPECT_LT(asked_, 20);
}

TEST_F(LyingNode, cannot_keep_a_worker_reading_later_pages_for_ever) {
    answer_ = [](int number) { return R"({"tasks":[],"next":)" + std::to_string(number + 1) + "}"; };
    NodeClient client("127.0.0.1", server_->port(), {}, {.http = {}, .list_ms = 200});
    const auto tasks = client.live_tasks();
    ASSERT_FALSE(tasks);
    EXPECT_EQ(tasks.error().name, "node.too_slow");
    EXPECT_TRUE(tasks.error().is_busy());
    EXPECT_GT(asked_, 1);
}

TEST_F(LyingNode, answers_a_small_question_with_no_large_answer) {
    const std::string junk(kMaxAnswerBytes, ' ');
    answer_ = [&](int) { return "\"0x1\"" + junk; };
    const auto price = client_->gas_price();
    ASSERT_FALSE(price);
    EXPECT_EQ(price.error().name, "http.body_too_large");
}

TEST_F(LyingNode, says_in_so_many_words_what_stays_of_the_contents_that_it_is_to_drop) {
    const Hash32 held{{3}};
    answer_ = [&](int number) {
        return R"({"held":[)" + (number == 1 ? "\"" + to_hex0x(held) + "\"" : std::string()) + "]}";
    };
    EXPECT_EQ(client_->drop_contents({}).value(), std::vector<Hash32>());
    EXPECT_EQ(asked_, 0);
    const std::vector<Hash32> many(4'097);
    EXPECT_EQ(client_->drop_contents(many).value(), std::vector<Hash32>{held});
    EXPECT_EQ(asked_, 2) << "4096 at once";
    for (const char* text : {"null", R"({"held":7})", R"({"held":[7]})", R"({"held":["0x12"]})"}) {
        answer_ = [&](int) { return std::string(text); };
        const auto dropped = client_->drop_contents(many);
        ASSERT_FALSE(dropped) << text;
        EXPECT_TRUE(dropped.error().is_busy()) << text;
    }
}

TEST_F(LyingNode, is_busy_when_its_news_have_no_block_or_no_form) {
    const std::string hash = "\"0x" + std::string(64, 'a') + "\"";
    const std::string head = R"({"block":7,"marketMs":6500,"hash":)" + hash;
    for (const std::string& text :
         {std::string("\"0x1\""), std::string("null"),
          std::string(R"({"block":1,"hash":"0x12","marketMs":1,"changes":null})"),
          R"({"block":1,"marketMs":-1,"changes":null,"hash":)" + hash + "}", head + "}", head + R"(,"changes":{}})",
          head + R"(,"changes":{"tasks":[{"id":1,"task":7}],"ended":[],"disputes":[]}})",
          head + R"(,"changes":{"tasks":[{"task":{}}],"ended":[],"disputes":[]}})",
          head + R"(,"changes":{"tasks":[],"ended":[],"disputes":["x"]}})"}) {
        answer_ = [&](int) { return text; };
        const auto news = client_->market_news({});
        ASSERT_FALSE(news) << text;
        EXPECT_TRUE(news.error().is_busy()) << text;
        EXPECT_EQ(news.error().name, kBadAnswer) << text;
    }
    answer_ = [&](int) { return head + R"(,"changes":null})"; };
    auto news = client_->market_news({});
    ASSERT_TRUE(news) << news.error().to_string();
    EXPECT_EQ(news->head, (Head{7, *fixed_from_hex<32>(std::string(64, 'a')), 6500}));
    EXPECT_FALSE(news->complete);
    answer_ = [&](int) {
        return head + R"(,"changes":{"tasks":[{"id":3,"claim":null}],"ended":[4],"disputes":[5,6]}})";
    };
    news = client_->market_news(news->head);
    ASSERT_TRUE(news) << news.error().to_string();
    EXPECT_TRUE(news->complete);
    ASSERT_EQ(news->tasks.size(), 1U);
    EXPECT_EQ(news->tasks[0].id, 3U);
    EXPECT_EQ(news->ended, std::vector<std::uint64_t>{4});
    EXPECT_EQ(news->disputes, (std::vector<std::uint64_t>{5, 6}));
    EXPECT_GT(news->bytes, head.size());
}

// Sends a piece now and then, each in time by itself.
class TricklingNode : public testing::Test {
protected:
    static constexpr std::size_t kPieces = 24;
    static constexpr std::size_t kPieceBytes = 64U << 10;

    TricklingNode() {
        listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(listener_, 1), 0);
        socklen_t length = sizeof address;
        EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length), 0);
        port_ = ntohs(address.sin_port);
        trickle_ = std::thread([this] {
            const int client = ::accept(listener_, nullptr, nullptr);
            char request[4096];
            (void)::recv(client, request, sizeof request, 0);
            const std::string begin =
                "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kPieces * kPieceBytes) + "\r\n\r\n";
            (void)::send(client, begin.data(), begin.size(), MSG_NOSIGNAL);
            while (sent_ < kPieces) {
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                // Counted before it leaves: who has got the last one may look at once.
                const std::string piece(kPieceBytes, sent_++ == 0 ? '1' : ' ');
                if (::send(client, piece.data(), piece.size(), MSG_NOSIGNAL) <= 0) break;
            }
            ::close(client);
        });
    }
    ~TricklingNode() override {
        trickle_.join();
        ::close(listener_);
    }
    // Each wait has its time, a call so long and what its bytes take at this speed.
    [[nodiscard]] NodeClient client(std::uint64_t call_ms, std::uint64_t least_bytes_per_second) const {
        http::ClientOptions options;
        options.io_timeout_ms = 5'000;
        options.call_timeout_ms = call_ms;
        options.least_bytes_per_second = least_bytes_per_second;
        return NodeClient("127.0.0.1", port_, {}, {.http = options});
    }
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::atomic<std::size_t> sent_{0};
    std::thread trickle_;
};

TEST_F(TricklingNode, does_not_hold_a_worker_longer_than_its_bytes_are_worth) {
    auto impatient = client(300, 100U << 20);
    const auto answer = impatient.gas_price();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().name, "http.timeout");
    EXPECT_TRUE(answer.error().is_busy());
    EXPECT_LT(sent_, kPieces);
}

TEST_F(TricklingNode, is_waited_for_while_its_bytes_come_fast_enough) {
    auto patient = client(2'000, 16U << 10);  // 2.4 s of sleeping alone
    const auto content = patient.get_content(Hash32{{1}}, 100U << 20);
    EXPECT_EQ(content.error().name, "content.id_mismatch");  // it came, but it is nothing
    EXPECT_EQ(sent_, kPieces);
}

TEST(NodeClientTest, drops_contents_with_its_credentials_and_asks_what_is_there_without) {
    const std::string file = testing::TempDir() + "/quern-node-client-cookie";
    ASSERT_TRUE(fs::write_secret_file(file, as_bytes("worker:secret")));
    rpc::GateRules rules;
    rules.cookie = "worker:secret";
    rpc::HttpOptions options;
    options.port = 0;
    options.gate = *rpc::Gate::make(rules);
    std::atomic<int> owners{0};
    std::atomic<int> others{0};
    rpc::HttpHooks hooks;
    hooks.rpc = [&](std::string, const rpc::CallContext& context) -> std::unique_ptr<rpc::Job> {
        ++(context.caller.authenticated ? owners : others);
        return std::make_unique<LyingNode::Lie>(R"({"jsonrpc":"2.0","id":1,"result":{"held":[]}})");
    };
    const auto server = *rpc::HttpServer::start(options, hooks);
    NodeClient client("127.0.0.1", server->port(), file);
    EXPECT_FALSE(client.has_content(Hash32{{1}}).value()) << "a node without contents";
    EXPECT_TRUE(client.drop_contents(std::vector{Hash32{{1}}}));
    EXPECT_EQ(owners, 1);
    EXPECT_EQ(others, 0);
    EXPECT_FALSE(client.gas_price());
    EXPECT_EQ(others, 1);
    ASSERT_TRUE(fs::remove_file(file));
}

// A node with one content, which it may tell of otherwise than it is.
class PartsOfAContent : public testing::Test, public chain::api::ContentGateway {
protected:
    PartsOfAContent() {
        rpc::HttpOptions options;
        options.port = 0;
        rpc::HttpHooks hooks;
        hooks.content = this;
        auto started = rpc::HttpServer::start(options, hooks);
        EXPECT_TRUE(started);
        server_ = std::move(*started);
        client_ = std::make_unique<NodeClient>("127.0.0.1", server_->port());
        append(leaves_, Bytes{0, 0, 0, 0, 0, 0, 0x9c, 0x48});  // 40,008
        for (const Hash32& leaf : test::leaves_of(content_).leaves) append(leaves_, leaf);
    }
    ~PartsOfAContent() override { server_.reset(); }
    Expected<std::uint64_t> size(const Hash32& id) const override {
        if (id != id_) return fail("content.not_found");
        return std::uint64_t{content_.size()};
    }
    Expected<Bytes> read(const Hash32&, std::uint64_t offset, std::uint64_t length) const override {
        return to_bytes(BytesView(content_).subspan(offset, length));
    }
    Expected<Bytes> read_leaves(const Hash32&, std::uint64_t offset, std::uint64_t length) const override {
        return to_bytes(BytesView(leaves_).subspan(offset, length));
    }
    Expected<Bytes> shards(const Hash32& id) const override {
        if (id != sharded_) return fail("content.not_found");
        return list_;
    }
    Expected<std::unique_ptr<Upload>> begin_upload(const Hash32&, std::uint64_t) override { return fail("content.no"); }
    Expected<std::set<Hash32>> let_go(const std::set<Hash32>&) override { return fail("content.no"); }
    std::vector<Hash32> want(std::span<const Hash32>, std::uint64_t) override { return {}; }

    // Of which the content is the second shard.
    static constexpr unsigned kLevel = 4;
    Bytes list_;
    Hash32 sharded_;
    Bytes content_ = Bytes(40'008, 7);
    Hash32 id_ = crypto::content_id_of(content_);
    Bytes leaves_;
    std::unique_ptr<rpc::HttpServer> server_;
    std::unique_ptr<NodeClient> client_;
};

TEST_F(PartsOfAContent, are_its_leaves_which_make_the_id_and_bytes_of_it) {
    const auto leaves = client_->content_leaves(id_, content_.size());
    ASSERT_TRUE(leaves) << leaves.error().to_string();
    EXPECT_EQ(leaves->size, content_.size());
    EXPECT_EQ(leaves->leaves, test::leaves_of(content_).leaves);
    EXPECT_EQ(*client_->read_content(id_, 16'384, 16'384), Bytes(16'384, 7));
    EXPECT_EQ(*client_->read_content(id_, 40'007, 1), Bytes{7});
    EXPECT_EQ(*client_->read_content(id_, 0, 40'008), content_);
}

TEST_F(PartsOfAContent, are_refused_when_they_are_not_what_was_asked_for) {
    EXPECT_EQ(client_->content_leaves(id_, 32'768).error().name, "content.too_large");
    for (const std::size_t at : {7U, 40U}) {
        leaves_[at] ^= 1;
        const auto lie = client_->content_leaves(id_, content_.size());
        EXPECT_EQ(lie.error().name, "content.id_mismatch") << at;
        EXPECT_TRUE(lie.error().is_busy());
        leaves_[at] ^= 1;
    }
    const auto beyond = client_->read_content(id_, 40'000, 9);
    EXPECT_EQ(beyond.error().name, kBadAnswer);
    EXPECT_TRUE(beyond.error().is_busy());
    EXPECT_EQ(client_->read_content(Hash32{{1}}, 0, 1).error().name, kContentNotFound);
    EXPECT_EQ(client_->content_leaves(Hash32{{1}}, 100).error().name, kContentNotFound);
}

TEST_F(PartsOfAContent, are_of_a_shard_of_a_larger_one) {
    Bytes whole(crypto::content_shard_bytes(kLevel), 9);
    append(whole, content_);
    crypto::ShardHasher hasher(kLevel);
    hasher.update(whole);
    const crypto::ContentShards made = hasher.finish();
    list_ = encode(made);
    sharded_ = made.id();
    ASSERT_EQ(made.id_of(1), id_);
    const auto list = client_->content_shards(sharded_, kLevel);
    ASSERT_TRUE(list) << list.error().to_string();
    EXPECT_EQ(*list, made);
    EXPECT_EQ(client_->content_leaves(list->id_of(1), list->bytes_of(1))->leaves, test::leaves_of(content_).leaves);
    EXPECT_EQ(client_->content_shards(id_, kLevel).error().name, kContentNotFound);
    for (const std::size_t at : {6U, 7U, 40U}) {
        list_[at] ^= 1;
        const auto lie = client_->content_shards(sharded_, kLevel);
        EXPECT_EQ(lie.error().name, "content.id_mismatch") << at;
        EXPECT_TRUE(lie.error().is_busy());
        list_[at] ^= 1;
    }
    EXPECT_EQ(client_->content_shards(sharded_, kLevel + 1).error().name, "content.id_mismatch") << "of other shards";
}

TEST_F(PartsOfAContent, make_a_whole_that_is_there_by_shard) {
    append(content_, Bytes(crypto::content_shard_bytes(kLevel) - content_.size(), 7));  // two shards are the same
    id_ = crypto::content_id_of(content_);
    const Bytes whole(2 * content_.size(), 7);
    crypto::ShardHasher hasher(kLevel);
    hasher.update(whole);
    const crypto::ContentShards made = hasher.finish();
    list_ = encode(made);
    sharded_ = made.id();
    NodeClient::Options options;
    options.shard_level = kLevel;
    NodeClient client("127.0.0.1", server_->port(), {}, options);
    const auto got = client.get_content(sharded_, whole.size());
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(*got, whole);
    EXPECT_EQ(client.get_content(sharded_, whole.size() - 1).error().name, "content.too_large");
    EXPECT_EQ(client.get_content(sharded_, content_.size()).error().name, kContentNotFound) << "no more than a shard";
}

TEST(NodeClientTest, takes_a_content_to_be_on_its_way_when_the_node_says_so) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener, 8), 0);
    socklen_t length = sizeof address;
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
    const auto error_after = [&](const std::string& body) {
        std::thread node([&] {
            const int client = ::accept(listener, nullptr, nullptr);
            char request[4096];
            (void)::recv(client, request, sizeof request, 0);
            const std::string answer = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: " +
                                       std::to_string(body.size()) + "\r\n\r\n" + body;
            (void)::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
            ::close(client);
        });
        NodeClient client("127.0.0.1", ntohs(address.sin_port));
        const auto content = client.get_content(Hash32{{1}}, 100);
        node.join();
        EXPECT_TRUE(content.error().is_busy());
        return content.error().name;
    };
    EXPECT_EQ(error_after(R"({"error":"content.on_its_way","message":""})"), "content.on_its_way");
    EXPECT_EQ(error_after(R"({"error":"http.busy","message":""})"), "content.busy");
    EXPECT_EQ(error_after(R"({"error":7})"), "content.busy");
    EXPECT_EQ(error_after("Service Unavailable"), "content.busy");
    ::close(listener);
}

TEST(NodeClientTest, reads_no_endless_words_beside_a_chunk) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener, 1), 0);
    socklen_t length = sizeof address;
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
    std::atomic<std::size_t> pieces{0};
    std::thread liar([&] {
        const int client = ::accept(listener, nullptr, nullptr);
        char request[4096];
        (void)::recv(client, request, sizeof request, 0);
        const std::string begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;";
        (void)::send(client, begin.data(), begin.size(), MSG_NOSIGNAL);
        const std::string piece(1U << 20, 'a');
        while (pieces < 64 && ::send(client, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) ++pieces;
        ::close(client);
    });
    NodeClient client("127.0.0.1", ntohs(address.sin_port));
    EXPECT_FALSE(client.gas_price());
    liar.join();
    ::close(listener);
    EXPECT_LT(pieces, 64U);
}

}  // namespace
}  // namespace quern::compute::worker
