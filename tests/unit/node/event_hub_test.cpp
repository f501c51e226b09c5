#include "node/serve/event_hub.h"

#include "chain/exec/handlers/events.h"
#include "chain/types/abi.h"
#include "chain_fixture.h"
#include "node/serve/market_changes.h"

namespace quern::node {
namespace {

namespace api = chain::api;
namespace events = chain::exec::events;

// Keeps what it was told; can be made slow.
class Listener final : public api::EventListener {
public:
    void on_block(const api::BlockEvent& event) override {
        while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::lock_guard lock(mutex_);
        if (blocks_.empty()) before_block_ = transactions_.size();
        blocks_.push_back(event);
    }
    void on_transaction(const types::RecoveredTransaction& transaction) override {
        held = hold.load();
        while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (each_transaction) each_transaction();
        const std::lock_guard lock(mutex_);
        transactions_.push_back(transaction.hash);
    }
    std::vector<api::BlockEvent> blocks(std::size_t count) { return wait_for(blocks_, count); }
    std::vector<Hash32> transactions(std::size_t count) { return wait_for(transactions_, count); }
    bool listens() const override { return attentive; }
    std::atomic<bool> attentive{true};
    std::atomic<bool> hold{false};
    std::function<void()> each_transaction;
    [[nodiscard]] std::size_t transactions_before_block() const { return before_block_; }
    std::atomic<bool> held{false};  // the hub's thread waits

private:
    template <class T>
    std::vector<T> wait_for(const std::vector<T>& list, std::size_t count) {
        for (int i = 0; i < 1000; ++i) {
            {
                const std::lock_guard lock(mutex_);
                if (list.size() >= count) return list;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        const std::lock_guard lock(mutex_);
        return list;
    }
    std::mutex mutex_;
    std::atomic<std::size_t> before_block_{0};
    std::vector<api::BlockEvent> blocks_;
    std::vector<Hash32> transactions_;
};

class EventHubTest : public ChainFixture {
protected:
    EventHubTest() {
        hub_ = std::make_unique<EventHub>(EventHub::Parts{chain_->board(), *reader_, clock_});
        gateway_->watch([this](std::span<const chain::mempool::PooledPtr> taken) {
            for (const auto& pooled : taken) hub_->transaction(pooled->transaction);
        });
    }
    ~EventHubTest() override { hub_.reset(); }
    std::unique_ptr<EventHub> hub_;
};

TEST_F(EventHubTest, tells_nothing_to_those_who_do_not_listen) {
    Listener deaf;
    deaf.attentive = false;
    hub_->add(deaf);
    {
        Listener other;
        hub_->add(other);
        submit(1, transfer(0));
        ASSERT_EQ(other.transactions(1).size(), 1U);
        ASSERT_TRUE(make_block());
        ASSERT_EQ(other.blocks(1).size(), 1U);
        hub_->remove(other);
    }
    // Nobody is there to hear of these: none of them is kept.
    const auto recovered = types::recover(signed_by(1, transfer(1)));
    ASSERT_TRUE(recovered);
    for (std::size_t i = 0; i < 2 * EventHub::kMaxQueuedTransactions; ++i) hub_->transaction(*recovered);
    EXPECT_EQ(hub_->left_out(), 0U);
    deaf.attentive = true;
    const Hash32 second = submit(1, transfer(1));
    EXPECT_EQ(deaf.transactions(1), std::vector<Hash32>{second});
    ASSERT_TRUE(make_block());
    const auto told = deaf.blocks(1);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].view->block.header.number, 2U);
    hub_->remove(deaf);
}

TEST_F(EventHubTest, tells_each_block_once_and_in_order_however_slow_the_listener_is) {
    Listener listener;
    hub_->add(listener);
    listener.hold = true;
    constexpr std::size_t kBlocks = kKeptStates + 20;  // further than states are kept
    for (std::size_t i = 0; i < kBlocks; ++i) ASSERT_TRUE(make_block());
    listener.hold = false;
    const auto told = listener.blocks(kBlocks);
    ASSERT_EQ(told.size(), kBlocks);
    for (std::size_t i = 0; i < kBlocks; ++i) EXPECT_EQ(told[i].view->block.header.number, i + 1);
    const auto& last = told.back();
    EXPECT_EQ(last.finality.signers, 1U);
    EXPECT_EQ(last.finality.weight, setup_->genesis.validators[0].stake);
    EXPECT_EQ(last.finality.weight, last.finality.total_weight);
    EXPECT_EQ(last.finality.milliseconds, 0U);
    hub_->remove(listener);
    ASSERT_TRUE(make_block());
    EXPECT_EQ(listener.blocks(kBlocks).size(), kBlocks);
}

TEST_F(EventHubTest, tells_admitted_transactions_and_then_their_block) {
    Listener listener;
    hub_->add(listener);
    const Hash32 first = submit(1, transfer(0));
    const Hash32 second = submit(1, bond(1, Uint256(5) * chain::params::kGrainsPerQrn));
    EXPECT_FALSE(gateway_->submit(signed_by(1, transfer(0))));
    EXPECT_EQ(listener.transactions(2), (std::vector<Hash32>{first, second}));
    ASSERT_TRUE(make_block());
    const auto told = listener.blocks(1);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].view->block.transactions.size(), 2U);
    ASSERT_EQ(told[0].receipts.size(), 2U);
    EXPECT_FALSE(told[0].receipts[1].logs.empty());
    EXPECT_TRUE(told[0].changes.empty()) << "a bond is no task's change";
    hub_->remove(listener);
}

TEST_F(EventHubTest, a_block_is_told_soon_however_many_transactions_wait_for_however_many_subscribers) {
    Listener listener;
    // As when each is for thousands of subscriptions.
    listener.each_transaction = [this] { clock_.advance(10); };
    listener.hold = true;
    hub_->add(listener);
    const auto recovered = types::recover(signed_by(1, transfer(0)));
    ASSERT_TRUE(recovered);
    hub_->transaction(*recovered);
    while (!listener.held) std::this_thread::yield();
    constexpr std::size_t kWaiting = 500;
    for (std::size_t i = 0; i < kWaiting; ++i) hub_->transaction(*recovered);
    ASSERT_TRUE(make_block());
    listener.hold = false;
    ASSERT_EQ(listener.blocks(1).size(), 1U);
    EXPECT_LE(listener.transactions_before_block(), 2 * EventHub::kTransactionsSliceMs / 10 + 1);
    EXPECT_EQ(listener.transactions(kWaiting + 1).size(), kWaiting + 1);
    hub_->remove(listener);
}

TEST_F(EventHubTest, a_stop_waits_for_one_transaction_and_not_for_all) {
    Listener listener;
    listener.each_transaction = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    hub_->add(listener);
    const auto recovered = types::recover(signed_by(1, transfer(0)));
    ASSERT_TRUE(recovered);
    constexpr std::size_t kWaiting = 400;  // 8 s of them
    for (std::size_t i = 0; i < kWaiting; ++i) hub_->transaction(*recovered);
    ASSERT_FALSE(listener.transactions(1).empty());
    hub_->stop();
    EXPECT_LT(listener.transactions(0).size(), kWaiting / 2);
    hub_->remove(listener);
}

TEST_F(EventHubTest, keeps_the_newest_of_too_many_transactions) {
    Listener listener;
    hub_->add(listener);
    listener.hold = true;
    const auto recovered = types::recover(signed_by(1, transfer(0)));
    ASSERT_TRUE(recovered);
    constexpr std::size_t kExtra = 100;
    hub_->transaction(*recovered);
    while (!listener.held) std::this_thread::yield();
    for (std::size_t i = 0; i < EventHub::kMaxQueuedTransactions + kExtra; ++i) hub_->transaction(*recovered);
    EXPECT_EQ(hub_->left_out(), kExtra);
    // Large ones are bounded by their bytes.
    auto large = *recovered;
    large.encoded.resize(types::kMaxTransactionBytes);
    const std::uint64_t before = hub_->left_out();
    constexpr std::size_t kFit = EventHub::kMaxQueuedBytes / types::kMaxTransactionBytes;
    for (std::size_t i = 0; i < kFit + kExtra; ++i) hub_->transaction(large);
    EXPECT_GE(hub_->left_out(), before + EventHub::kMaxQueuedTransactions + kExtra);
    listener.hold = false;
    ASSERT_TRUE(make_block());
    EXPECT_EQ(listener.blocks(1).size(), 1U);
    hub_->stop();
    hub_->remove(listener);
}

TEST(MarketChangesTest, reads_events_with_what_the_state_knows_of_them) {
    class State final : public api::StateView {
    public:
        std::map<Bytes, Bytes, BytesLess> objects;
        std::uint64_t block_number() const override { return 1; }
        api::AccountView account(const types::Address&) const override { return {}; }
        Bytes code_at(const types::Address&) const override { return {}; }
        Hash32 storage(const types::Address&, const Hash32&) const override { return {}; }
        std::optional<Bytes> native(BytesView key) const override {
            const auto found = objects.find(to_bytes(key));
            return found == objects.end() ? std::nullopt : std::optional(found->second);
        }
        std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override {
            return {};
        }
        Expected<std::optional<std::vector<api::ObjectChange>>> changed_since(std::uint64_t, std::span<const Bytes>,
                                                                              const api::ChangeLimits&) const override {
            return std::optional<std::vector<api::ObjectChange>>();
        }
        Expected<api::AccountProof> prove(const types::Address&, std::span<const Hash32>) const override {
            return api::AccountProof{};
        }
    } state;
    types::Task task;
    task.id = 7;
    task.state = types::TaskState::running;
    state.objects[types::object_key(types::ObjectPrefix::task, 7)] = types::encode_record(task);
    types::Dispute dispute;
    dispute.id = 3;
    dispute.claim.task = 7;
    state.objects[types::object_key(types::ObjectPrefix::dispute, 3)] = types::encode_record(dispute);

    namespace abi = types::abi;
    const auto tasks = types::group_address(types::KindGroup::tasks);
    const auto disputes = types::group_address(types::KindGroup::disputes);
    const auto roles = types::group_address(types::KindGroup::roles);
    types::Block block;
    block.transactions = {Bytes{1}, Bytes{2}};
    std::vector<types::Receipt> receipts(2);
    receipts[0].logs = {abi::event_log(tasks, events::TaskSubmitted{7, test_address(1), 900, 100}),
                        abi::event_log(tasks, events::CheckpointPosted{7, 10, {}, 0})};
    receipts[1].logs = {abi::event_log(tasks, events::TaskStateChanged{7, types::TaskState::open,
                                                                       types::TaskState::assigned, "bid", 0}),
                        abi::event_log(disputes, events::DisputeMoved{3, test_address(2), 1, 4}),
                        abi::event_log(disputes, events::DisputeClosed{3, 7, types::DisputeWinner::rival, "leaf"}),
                        {tasks, {}, {}},
                        abi::event_log(tasks, events::ClaimStateChanged{7, 0, 0, 1, types::ClaimState::working,
                                                                        types::ClaimState::proved, "proved", 1'000}),
                        abi::event_log(tasks, events::TaskDeleted{9}),
                        abi::event_log(tasks, events::BidDisplaced{7, test_address(1), test_address(2)}),
                        abi::event_log(roles, events::BondReleased{test_address(1), 7, types::Role::solver, 5, 10}),
                        abi::event_log(roles, events::Slashed{test_address(1), 7, types::Role::solver, 5, "no_start"})};
    const auto changes = market_changes(block, receipts, &state);
    ASSERT_EQ(changes.size(), 10U);
    EXPECT_EQ(changes[7].kind, "displaced");
    EXPECT_EQ(changes[8].kind, "unlocked");
    EXPECT_EQ(changes[8].task, 7U);
    EXPECT_EQ(changes[9].kind, "slashed");
    EXPECT_EQ(changes[9].fields.get_string("reason").value_or("?"), "no_start");
    EXPECT_EQ(changes[0].kind, "submitted");
    EXPECT_EQ(changes[0].state, types::TaskState::open);
    EXPECT_EQ(changes[0].transaction, types::transaction_hash(Bytes{1}));
    EXPECT_EQ(changes[1].kind, "checkpoint");
    EXPECT_EQ(changes[1].state, types::TaskState::running);
    EXPECT_EQ(changes[1].fields.get_u64("step").value_or(0), 10U);
    EXPECT_EQ(changes[1].fields.find("task"), nullptr);
    EXPECT_EQ(changes[2].state, types::TaskState::assigned);
    EXPECT_EQ(changes[2].fields.get_string("from").value_or("?"), "open");
    EXPECT_EQ(changes[2].transaction, types::transaction_hash(Bytes{2}));
    EXPECT_EQ(changes[3].kind, "moved");
    EXPECT_EQ(changes[3].task, 7U);
    EXPECT_EQ(changes[3].dispute, 3U);
    EXPECT_EQ(changes[4].fields.get_string("winner").value_or("?"), "rival");
    EXPECT_EQ(changes[5].kind, "claim");
    EXPECT_EQ(changes[5].state, types::TaskState::running);
    EXPECT_EQ(changes[5].fields.get_string("from").value_or("?"), "working");
    EXPECT_EQ(changes[5].fields.get_string("to").value_or("?"), "proved");
    EXPECT_EQ(changes[5].fields.get_u64("round").value_or(0), 1U);
    EXPECT_EQ(changes[6].kind, "deleted");
    EXPECT_EQ(changes[6].state, std::nullopt);
    const auto blind = market_changes(block, receipts, nullptr);
    ASSERT_EQ(blind.size(), 10U);
    EXPECT_EQ(blind[1].state, std::nullopt);
    EXPECT_EQ(blind[3].task, std::nullopt);
}

}  // namespace
}  // namespace quern::node
