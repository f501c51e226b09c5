// The parts between consensus, the mempool and the network, one by one.
#include "chain/store/certificate_store.h"
#include "chain_fixture.h"
#include "node/agree/consensus_link.h"
#include "node/agree/message_queue.h"
#include "node/net/block_server.h"
#include "node/net/peer_table.h"
#include "node/net/transaction_inbox.h"

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;
using p2p::messages::short_id;

const Bytes kSmall(100, 1);
const Bytes kLarge(kSmallMessageBytes + 1, 2);

TEST(MessageQueue, a_flood_of_one_peer_does_not_delay_the_others) {
    MessageQueue queue;
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(queue.push(1, kSmall));
    ASSERT_TRUE(queue.push(2, kSmall));
    ASSERT_TRUE(queue.push(3, kSmall));
    std::set<sdbft::PeerId> first_three;
    for (int i = 0; i < 3; ++i) first_three.insert(queue.pop()->peer);
    EXPECT_EQ(first_three, (std::set<sdbft::PeerId>{1, 2, 3}));
}

TEST(MessageQueue, votes_pass_blocks_and_blocks_get_their_turn) {
    MessageQueue queue;
    ASSERT_TRUE(queue.push(1, kLarge));
    for (std::uint64_t i = 0; i < kSmallPerLarge + 5; ++i) ASSERT_TRUE(queue.push(2, kSmall));
    std::uint64_t before = 0;
    while (queue.pop()->message.size() == kSmall.size()) ++before;
    EXPECT_EQ(before, kSmallPerLarge);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(queue.pop()->peer, 2U);
    EXPECT_FALSE(queue.pop());
    EXPECT_EQ(queue.bytes(), 0U);
}

TEST(MessageQueue, keeps_to_its_limits_and_forgets_who_left) {
    MessageQueue queue;
    for (std::size_t i = 0; i < kMaxPeerQueueMessages; ++i) ASSERT_TRUE(queue.push(1, {}));
    EXPECT_FALSE(queue.push(1, {}));
    EXPECT_TRUE(queue.push(2, Bytes(kMaxPeerQueueBytes)));
    EXPECT_FALSE(queue.push(2, kSmall));
    EXPECT_FALSE(queue.push(3, Bytes(kMaxPeerQueueBytes + 1)));
    std::uint64_t others = 10;
    while (queue.push(others, Bytes(kMaxPeerQueueBytes))) ++others;
    EXPECT_LE(queue.bytes(), kMaxQueueBytes);
    EXPECT_GT(queue.bytes(), kMaxQueueBytes - kMaxPeerQueueBytes);
    for (std::uint64_t peer = 1; peer < others; ++peer) queue.forget(peer);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.bytes(), 0U);
}

TEST(MessageQueue, strangers_neither_fill_the_room_of_the_committee_nor_delay_it) {
    MessageQueue queue;
    for (std::uint64_t peer = 100; peer < 164; ++peer) {
        ASSERT_TRUE(queue.push(peer, kSmall, true));
        while (queue.push(peer, Bytes(8U << 20), true)) {
        }
    }
    EXPECT_LE(queue.bytes(), kMaxStrangersQueueBytes);
    EXPECT_GT(queue.bytes(), kMaxStrangersQueueBytes - (8U << 20));
    EXPECT_TRUE(queue.push(1, Bytes(kMaxPeerQueueBytes)));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(queue.push(2, kSmall));
    std::uint64_t popped = 0;
    for (int members = 0; members < 21; ++popped) members += queue.pop()->peer < 100 ? 1 : 0;
    EXPECT_LE(popped, 21 + 21 / kMembersPerStranger + 1);
    EXPECT_GE(popped, 21 + 21 / kMembersPerStranger - 1) << "strangers are heard, too";
    // Whoever stood in both parts is forgotten in both.
    ASSERT_TRUE(queue.push(100, kSmall));
    for (std::uint64_t peer = 100; peer < 164; ++peer) queue.forget(peer);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.bytes(), 0U);
}

TEST(PeerTable, names_sessions_and_picks_members_first) {
    PeerTable table;
    EXPECT_FALSE(table.pick());
    const Bytes20 first = test_address(1);
    const Bytes20 second = test_address(2);
    const auto id = table.add(first);
    table.add(second);
    EXPECT_EQ(table.address_of(id), first);
    std::set<Bytes20> picked;
    for (int i = 0; i < 200; ++i) picked.insert(*table.pick());
    EXPECT_EQ(picked.size(), 2U);
    table.set_committee({first});
    EXPECT_TRUE(table.is_member(first));
    EXPECT_FALSE(table.is_member(second));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(table.pick(), first);
    EXPECT_EQ(table.remove(first), id);
    EXPECT_FALSE(table.address_of(id));
    EXPECT_NE(table.add(first), id);
}

TEST(CertificateStore, finds_by_view_and_prunes_by_epoch) {
    chain::store::MemoryStore store;
    chain::store::WriteBatch batch;
    using chain::store::CertificateStore;
    for (std::uint64_t epoch = 1; epoch <= 300; ++epoch)
        CertificateStore::put(batch, epoch, 7, 4, Hash32{{1}}, Bytes{static_cast<std::uint8_t>(epoch)});
    CertificateStore::put(batch, 300, 7, 4, Hash32{{2}}, Bytes{9});
    ASSERT_TRUE(store.write(batch, true));
    const CertificateStore kept(store);
    EXPECT_EQ(kept.find(255, 7, 4)->size(), 1U);
    EXPECT_EQ(kept.find(300, 7, 4)->size(), 2U);  // a fork: both sides are kept
    EXPECT_TRUE(kept.find(255, 7, 3)->empty());
    EXPECT_TRUE(kept.find(255, 8, 4)->empty());
    chain::store::WriteBatch erase;
    EXPECT_EQ(*kept.prune(erase, 256), 255U);
    ASSERT_TRUE(store.write(erase, true));
    EXPECT_TRUE(kept.find(255, 7, 4)->empty());
    EXPECT_EQ(kept.find(256, 7, 4)->size(), 1U);
}

TEST(Offences, cost_by_the_kind_of_wrong) {
    using chain::consensus::sdbft::action::Wrong;
    EXPECT_EQ(offence_of(Wrong::form), p2p::Offence::malformed);
    EXPECT_EQ(offence_of(Wrong::consensus), p2p::Offence::invalid_consensus);
    EXPECT_EQ(offence_of(Wrong::block), p2p::Offence::invalid_block);
}

class WorkQueueTest : public testing::Test {
protected:
    static Bytes20 peer(std::uint8_t number) { return Bytes20::copy_of(Bytes(20, number)); }
    // A job that notes its peer and was in vain or not.
    WorkQueue::Job job(std::uint8_t number, std::size_t in_vain) {
        return [this, number, in_vain] {
            while (!go_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const std::lock_guard lock(mutex_);
            order_.push_back(number);
            return in_vain;
        };
    }
    std::vector<std::uint8_t> order(std::size_t count) {
        for (int i = 0; i < 5'000; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const std::lock_guard lock(mutex_);
            if (order_.size() >= count) break;
        }
        const std::lock_guard lock(mutex_);
        return order_;
    }
    std::atomic<bool> go_{false};
    std::mutex mutex_;
    std::vector<std::uint8_t> order_;
};

TEST_F(WorkQueueTest, peers_take_turns_and_who_wastes_time_waits_for_the_others) {
    WorkQueue queue(100, 1'000);
    queue.start();
    ASSERT_TRUE(queue.post(peer(9), 1, job(9, 0)));  // it holds the thread until all is posted
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.post(peer(1), 1, job(1, 64)));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.post(peer(2), 1, job(2, 0)));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.post(peer(3), 1, job(3, 0)));
    go_ = true;
    EXPECT_EQ(order(10), (std::vector<std::uint8_t>{9, 1, 2, 3, 2, 3, 2, 3, 1, 1}));
    // All is forgiven with time.
    for (std::size_t i = 0; i < 8 * WorkQueue::kJobsToForgive; ++i) {
        while (!queue.post(peer(4), 1, job(4, 0))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    (void)order(10 + 8 * WorkQueue::kJobsToForgive);
    go_ = false;
    ASSERT_TRUE(queue.post(peer(9), 1, job(9, 0)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(queue.post(peer(2), 1, job(2, 0)));
    ASSERT_TRUE(queue.post(peer(1), 1, job(1, 0)));
    go_ = true;
    const auto all = order(13 + 8 * WorkQueue::kJobsToForgive);
    EXPECT_EQ(std::vector<std::uint8_t>(all.end() - 3, all.end()), (std::vector<std::uint8_t>{9, 1, 2}));
    queue.stop();
    EXPECT_FALSE(queue.post(peer(1), 1, job(1, 0)));
}

TEST_F(WorkQueueTest, a_flood_drops_its_own_jobs) {
    WorkQueue queue(10, 1'000);
    queue.start();
    ASSERT_TRUE(queue.post(peer(9), 1, job(9, 0)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(queue.post(peer(1), 1, job(1, 0)));
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(queue.post(peer(1), 1, job(1, 0)));
    EXPECT_TRUE(queue.post(peer(2), 1, job(2, 0)));
    // And by bytes.
    EXPECT_FALSE(queue.post(peer(3), 1'001, job(3, 0)));
    EXPECT_FALSE(queue.post(peer(1), 999, job(1, 0)));
    EXPECT_TRUE(queue.post(peer(3), 500, job(3, 0)));
    EXPECT_TRUE(queue.post(peer(4), 400, job(4, 0)));
    EXPECT_FALSE(queue.post(peer(3), 300, job(3, 0)));
    go_ = true;
    const auto all = order(11);
    EXPECT_EQ(std::count(all.begin(), all.end(), 1), 7);
    for (const int number : {2, 3, 4}) EXPECT_EQ(std::count(all.begin(), all.end(), number), 1);
    queue.stop();
}

class InboxTest : public ChainFixture {
protected:
    InboxTest() {
        inbox_.start([this](const Bytes20&, p2p::Offence offence) {
            const std::lock_guard lock(mutex_);
            offences_.push_back(offence);
        });
    }
    ~InboxTest() override { inbox_.stop(); }
    // Hands it in and waits until the inbox has looked at it.
    void take(const Bytes& encoded) {
        inbox_.take(test_address(9), {encoded});
        const auto id = short_id(types::transaction_hash(encoded));
        for (int i = 0; i < 2000 && inbox_.wants(id); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::size_t offences() {
        const std::lock_guard lock(mutex_);
        return offences_.size();
    }

    TransactionInbox inbox_{*gateway_, *pool_};
    std::mutex mutex_;
    std::vector<p2p::Offence> offences_;
};

TEST_F(InboxTest, takes_good_ones_and_gives_them_out_again) {
    const Bytes good = signed_by(1, transfer(0, 5));
    const auto id = short_id(types::transaction_hash(good));
    EXPECT_TRUE(inbox_.wants(id));
    EXPECT_FALSE(inbox_.find(id));
    take(good);
    EXPECT_FALSE(inbox_.wants(id));
    EXPECT_EQ(inbox_.find(id), good);
    ASSERT_TRUE(make_block());
    inbox_.committed({good});
    EXPECT_FALSE(inbox_.wants(id));
    EXPECT_FALSE(inbox_.find(id));  // it is in a block
    EXPECT_EQ(offences(), 0U);
}

TEST_F(InboxTest, reports_what_can_never_be_valid_and_remembers_it) {
    Bytes bad = signed_by(1, transfer(0, 5));
    bad.back() ^= 1;
    bad.resize(bad.size() - 1);
    take(bad);
    for (int i = 0; i < 2000 && offences() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(offences(), 1U);
    inbox_.committed({});
    EXPECT_FALSE(inbox_.wants(short_id(types::transaction_hash(bad))));
}

TEST_F(InboxTest, punishes_by_the_band_and_not_by_what_the_refusal_is_called) {
    // Malformed, each in its own words: none of them can become valid, whatever the state is.
    auto little_gas = transfer(0);
    little_gas.gas_limit = 20'999;
    auto other_chain = transfer(0);
    other_chain.chain_id = 1;
    auto odd_fees = transfer(0);
    odd_fees.max_priority_fee_per_gas = odd_fees.max_fee_per_gas + 1;
    auto bad_payload = bond(0, 1);
    bad_payload.data = {0xc1};
    std::size_t expected = 0;
    for (const auto& tx : {little_gas, other_chain, odd_fees, bad_payload}) {
        take(signed_by(1, tx));
        for (int i = 0; i < 2000 && offences() == expected; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(offences(), ++expected);
    }
    // Bad luck, or a peer that is behind.
    submit(1, transfer(0));
    ASSERT_TRUE(make_block());
    take(signed_by(1, transfer(0, 2)));                                             // nonce too low
    take(signed_by(2, transfer(0, Uint256(5000) * chain::params::kGrainsPerQrn)));  // insufficient funds
    take(signed_by(2, transfer(5000)));                                             // nonce too high
    auto creation = transfer(0);
    creation.to.reset();
    creation.gas_limit = 100'000;
    take(signed_by(3, creation));  // not active yet
    EXPECT_EQ(offences(), expected);
}

TEST_F(InboxTest, a_bundle_is_admitted_at_once) {
    std::size_t calls = 0;
    std::size_t admitted = 0;
    gateway_->on_admitted([&](std::span<const chain::mempool::PooledPtr> taken) {
        const std::lock_guard lock(mutex_);
        ++calls;
        admitted += taken.size();
    });
    std::vector<Bytes> bundle;
    for (std::uint64_t nonce = 0; nonce < 20; ++nonce) {
        bundle.push_back(signed_by(1, transfer(nonce)));
        if (nonce != 4) continue;
        Bytes bad = bundle[3];
        bad.pop_back();
        bundle.push_back(std::move(bad));
    }
    inbox_.take(test_address(9), bundle);
    for (int i = 0; i < 2000 && offences() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(calls, 1U);
    EXPECT_EQ(admitted, 20U);
    EXPECT_EQ(pool_->status().executable, 20U);
    EXPECT_EQ(offences_.size(), 1U);
}

TEST_F(InboxTest, gives_another_chance_after_a_block_to_what_may_fit_then) {
    const Bytes far = signed_by(1, transfer(5000, 5));  // nonce too high
    take(far);
    const auto id = short_id(types::transaction_hash(far));
    EXPECT_FALSE(inbox_.wants(id));
    inbox_.committed({});
    EXPECT_TRUE(inbox_.wants(id));
    EXPECT_EQ(offences(), 0U);
}

}  // namespace
}  // namespace quern::node
