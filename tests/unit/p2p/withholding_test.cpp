// Peers that promise and do not deliver, over real sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "raw_peer.h"
#include "test_node.h"

namespace quern::p2p {
namespace {

using namespace testing;
const Hash32 kGenesis{{1, 2, 3}};

// Dials the node, says hello, and lets `react` see each message of one record until it is destroyed.
class Sybil {
public:
    using React = std::function<void(RawPeer&, const RawPeer::Record&)>;
    Sybil(const TestNode& node, std::uint64_t seed, React react) : raw_(node.network->port()) {
        ready_ = raw_.shake_hands(key_of(seed), 7878, kGenesis) && raw_.say_hello();
        if (ready_)
            thread_ = std::thread([this, react = std::move(react)] {
                while (auto record = raw_.next_record()) {
                    if (record->type == 1) raw_.send_record(2, record->payload, false, 0);  // pong
                    react(raw_, *record);
                }
            });
    }
    Sybil(const Sybil&) = delete;
    Sybil& operator=(const Sybil&) = delete;
    ~Sybil() {
        raw_.shut_down();
        if (thread_.joinable()) thread_.join();
    }
    [[nodiscard]] bool ready() const { return ready_; }
    RawPeer& raw() { return raw_; }

private:
    RawPeer raw_;
    bool ready_ = false;
    std::thread thread_;
};

TEST(Withholding, two_silent_sybils_beside_one_honest_holder_do_not_stall_a_fetch) {
    const std::string root = ::testing::TempDir() + "quern_p2p_withholding_" + std::to_string(::getpid());
    const auto store_at = [&](const std::string& name) {
        return std::move(*content::Store::open({root + "/" + name, 1ULL << 30, 1ULL << 28}));
    };
    const auto store_a = store_at("a");
    const auto store_b = store_at("b");
    Bytes data(5U << 20);
    SeededRng rng(3);
    rng.fill(data);
    const Hash32 id = *store_a->put(data);
    // Each order of the three addresses, as far as it matters: the honest one is the highest.
    std::vector<std::uint64_t> seeds;
    for (std::uint64_t seed = 300; seeds.size() < 2; ++seed)
        if (address_of(seed) < address_of(1)) seeds.push_back(seed);
    TestNode a(1, {}, [&](NetworkOptions& options) { options.contents = store_a.get(); });
    TestNode b(2, {a.as_peer()}, [&](NetworkOptions& options) { options.contents = store_b.get(); });
    const auto promise = [&](RawPeer& raw, const RawPeer::Record& record) {
        if (record.type == static_cast<std::uint8_t>(messages::Type::find_content))
            raw.say(messages::Type::content_info, encode(messages::ContentInfo{{{id, data.size(), {}}}}),
                    record.stream);
    };
    Sybil one(b, seeds[0], promise);
    Sybil two(b, seeds[1], promise);
    ASSERT_TRUE(one.ready() && two.ready());
    ASSERT_TRUE(eventually([&] { return b.has_peers(3); }));
    std::atomic<bool> done{false};
    std::string result;
    b.network->fetch_content(id, [&](Status status) {
        result = status ? "ok" : status.error().to_string();
        done = true;
    });
    EXPECT_TRUE(eventually([&] { return done.load(); }, std::chrono::seconds(30)));
    EXPECT_EQ(result, "ok");
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
}

TEST(Withholding, an_answer_about_a_content_that_is_no_longer_wanted_changes_nothing) {
    const std::string root = ::testing::TempDir() + "quern_p2p_unwanted_" + std::to_string(::getpid());
    const auto store = std::move(*content::Store::open({root + "/store", 1ULL << 30, 1ULL << 28}));
    TestNode node(1, {}, [&](NetworkOptions& options) { options.contents = store.get(); });
    RawPeer raw(node.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(8), 7878, kGenesis) && raw.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    const Hash32 id{{7}};
    std::atomic<bool> done{false};
    node.network->fetch_content(id, [&](Status) { done = true; });
    const auto asked = raw.next_message(messages::Type::find_content);
    ASSERT_TRUE(asked);
    // Of what it looks for itself, and of what it never heard of, it has nothing to give.
    for (const Hash32& unknown : {id, Hash32{{8}}}) {
        raw.say(messages::Type::get_leaves, encode(messages::GetLeaves{unknown, 0, 1}), 7);
        EXPECT_TRUE(raw.next_message(messages::Type::refusal));
    }
    node.network->cancel_fetch(id);
    ASSERT_TRUE(eventually([&] { return done.load(); }));
    raw.say(messages::Type::content_info, encode(messages::ContentInfo{{{id, 5U << 20, {}}}}), asked->stream);
    // Its next answer shows that it has come past the last one.
    raw.say(messages::Type::get_peers, encode(messages::GetPeers{1}), 9);
    EXPECT_TRUE(raw.next_message(messages::Type::peers));
    EXPECT_TRUE(node.network->status().fetches.empty());
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
}

// A node that looks for a content that nobody has.
class Searching : public ::testing::Test {
protected:
    Searching() {
        node_.network->fetch_content(id_, [](Status) {});
    }
    ~Searching() override {
        node_.network.reset();
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    const std::string root_ = ::testing::TempDir() + "quern_p2p_searching_" + std::to_string(::getpid());
    const std::unique_ptr<content::Store> store_ = std::move(*content::Store::open({root_, 1ULL << 30, 1ULL << 28}));
    const Hash32 id_{{7}};
    TestNode node_{1, {}, [this](NetworkOptions& options) { options.contents = store_.get(); }};
};

TEST_F(Searching, takes_one_answer_about_the_one_content_it_asked_for) {
    for (const auto& holdings : {std::vector<messages::ContentHolding>{{id_, 5U << 20, {}}, {id_, 5U << 20, Bytes{1}}},
                                 std::vector<messages::ContentHolding>{{Hash32{{8}}, 5U << 20, {}}}}) {
        RawPeer raw(node_.network->port());
        ASSERT_TRUE(raw.shake_hands(key_of(30 + holdings.size()), 7878, kGenesis) && raw.say_hello());
        const auto asked = raw.next_message(messages::Type::find_content);
        ASSERT_TRUE(asked);
        raw.say(messages::Type::content_info, encode(messages::ContentInfo{holdings}), asked->stream);
        EXPECT_TRUE(eventually([&] {
            const auto peers = node_.network->status().peers;
            return peers.size() == 1 && peers[0].score >= 40;
        }));
        raw.shut_down();
        ASSERT_TRUE(eventually([&] { return node_.has_peers(0); }));
    }
}

TEST_F(Searching, asks_those_who_are_there_no_more_often_because_others_come) {
    RawPeer raw(node_.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(8), 7878, kGenesis) && raw.say_hello());
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < 8; ++i) {
        RawPeer other(node_.network->port());
        ASSERT_TRUE(other.shake_hands(key_of(40 + i), 7878, kGenesis) && other.say_hello());
        EXPECT_TRUE(other.next_message(messages::Type::find_content)) << "who comes is asked";
    }
    raw.say(messages::Type::get_peers, encode(messages::GetPeers{1}), 9);
    std::size_t asked = 0;
    while (const auto record = raw.next_record()) {
        asked += record->type == static_cast<std::uint8_t>(messages::Type::find_content) ? 1 : 0;
        if (record->type == static_cast<std::uint8_t>(messages::Type::peers)) break;
    }
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begun).count();
    EXPECT_LE(asked, 2U + static_cast<std::size_t>(seconds));
}

TEST(Withholding, eight_sybils_do_not_suppress_a_transaction) {
    TestNode node(1);
    const Bytes transaction(120, 5);
    const Hash32 hash = chain::types::transaction_hash(transaction);
    std::vector<std::unique_ptr<Sybil>> sybils;
    for (std::uint64_t i = 0; i < 8; ++i) {
        sybils.push_back(std::make_unique<Sybil>(node, 400 + i, [](RawPeer&, const RawPeer::Record&) {}));
        ASSERT_TRUE(sybils.back()->ready());
    }
    ASSERT_TRUE(eventually([&] { return node.has_peers(8); }));
    for (const auto& sybil : sybils)
        sybil->raw().say(messages::Type::tx_announce, encode(messages::ShortIds{{messages::short_id(hash)}}));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    TestNode honest(2, {node.as_peer()});
    ASSERT_TRUE(eventually([&] { return honest.has_peers(1) && node.has_peers(9); }));
    honest.handler.transactions({}, {transaction});
    EXPECT_TRUE(eventually([&] { return node.handler.pool_size() == 1; }, std::chrono::seconds(10)));
}

}  // namespace
}  // namespace quern::p2p
