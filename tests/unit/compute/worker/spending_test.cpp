#include "compute/worker/spending.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/fs.h"
#include "chain/types/transaction.h"
#include "compute/worker/sender.h"

namespace quern::compute::worker {
namespace {

constexpr std::uint64_t kHourMs = 3'600'000;

class SpendingTest : public testing::Test {
protected:
    SpendingTest() { std::filesystem::remove(file_); }
    ~SpendingTest() override { std::filesystem::remove(file_); }

    [[nodiscard]] Spending open(std::uint64_t per_gas, std::uint64_t per_day) {
        auto spending = Spending::open(file_, {Uint256(per_gas), Uint256(per_day)}, clock_);
        EXPECT_TRUE(spending);
        return std::move(*spending);
    }

    const std::string file_ = testing::TempDir() + "/quern-spending-test.rlp";
    ManualClock clock_{1'000 * kHourMs};
};

TEST_F(SpendingTest, offers_headroom_up_to_the_limit_and_nothing_for_a_price_above_it) {
    const Spending spending = open(100, 1'000);
    EXPECT_EQ(*spending.fee_cap(Uint256(30), 2), Uint256(60));
    EXPECT_EQ(*spending.fee_cap(Uint256(80), 2), Uint256(100));
    EXPECT_EQ(*spending.fee_cap(Uint256(100), 2), Uint256(100));
    const auto refused = spending.fee_cap(Uint256(101), 2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "spending.price_too_high");
    EXPECT_EQ(refused.error().kind, ErrorKind::busy);
    EXPECT_EQ(spending.fee_cap(~Uint256(), 2).error().name, "spending.price_too_high");
}

TEST_F(SpendingTest, books_no_more_than_a_day_s_limit) {
    Spending spending = open(100, 1'000);
    ASSERT_TRUE(spending.book(Uint256(600)));
    ASSERT_TRUE(spending.book(Uint256(400)));
    const Status more = spending.book(Uint256(1));
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().name, "spending.day_limit");
    EXPECT_EQ(spending.booked(), Uint256(1'000));
    EXPECT_EQ(spending.book(~Uint256()).error().name, "spending.day_limit");  // no overflow lets it through
}

TEST_F(SpendingTest, leaves_of_a_share_what_is_above_it_to_others) {
    Spending spending = open(100, 1'000);
    ASSERT_TRUE(spending.book(Uint256(400), kTickPercent));
    EXPECT_EQ(spending.book(Uint256(101), kTickPercent).error().name, "spending.day_limit");
    ASSERT_TRUE(spending.book(Uint256(100), kTickPercent));
    ASSERT_TRUE(spending.book(Uint256(500)));
    EXPECT_FALSE(spending.book(Uint256(1)));
}

TEST_F(SpendingTest, forgets_what_is_a_day_old_hour_by_hour) {
    Spending spending = open(100, 1'000);
    ASSERT_TRUE(spending.book(Uint256(600)));
    clock_.advance(5 * kHourMs);
    ASSERT_TRUE(spending.book(Uint256(400)));
    clock_.advance(18 * kHourMs);
    EXPECT_EQ(spending.booked(), Uint256(1'000));
    clock_.advance(kHourMs);
    EXPECT_EQ(spending.booked(), Uint256(400));
    ASSERT_TRUE(spending.book(Uint256(600)));
    clock_.advance(5 * kHourMs);
    EXPECT_EQ(spending.booked(), Uint256(600));
}

TEST_F(SpendingTest, a_restart_does_not_give_a_new_day) {
    ASSERT_TRUE(open(100, 1'000).book(Uint256(900)));
    Spending again = open(100, 1'000);
    EXPECT_EQ(again.booked(), Uint256(900));
    EXPECT_FALSE(again.book(Uint256(101)));
}

TEST_F(SpendingTest, pays_nothing_when_what_was_spent_cannot_be_read) {
    ASSERT_TRUE(fs::write_file_atomic(file_, Bytes{0xc1, 0x80, 0x80}));
    EXPECT_FALSE(Spending::open(file_, {Uint256(1), Uint256(1)}, clock_));
}

// A node that asks what it likes and keeps what it was sent.
class GreedyNode final : public NodeView {
public:
    Expected<MarketNews> market_news(const std::optional<Head>&) override { return fail("node.rpc_error"); }
    Expected<Uint256> gas_price() override { return price; }
    Expected<Uint256> tip() override { return Uint256(1); }
    Expected<std::uint64_t> pending_nonce(const chain::types::Address&) override { return sent.size(); }
    Expected<std::uint64_t> estimate_gas(const chain::types::Address&, const chain::types::Address&,
                                         BytesView) override {
        return gas;
    }
    Expected<Hash32> send_raw(BytesView encoded) override {
        const auto transaction = chain::types::recover(encoded);
        EXPECT_TRUE(transaction);
        sent.push_back(transaction->tx);
        return transaction->hash;
    }
    Expected<std::optional<TransactionOutcome>> outcome(const Hash32&) override {
        return std::optional<TransactionOutcome>();
    }
    Expected<bool> knows(const Hash32&) override { return true; }
    Expected<std::vector<chain::types::TaskClaim>> live_tasks() override {
        return std::vector<chain::types::TaskClaim>();
    }
    Expected<DisputeNews> dispute(std::uint64_t) override { return fail("node.rpc_error"); }
    Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport&) override {
        return fail("node.down");
    }
    Expected<chain::params::MarketParams> market_params() override { return chain::params::MarketParams{}; }
    Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role, const chain::types::Address&) override {
        return std::optional<chain::types::RoleBond>();
    }
    Expected<Bytes> get_content(const Hash32&, std::uint64_t) override { return fail("content.not_found"); }
    Expected<ContentLeaves> content_leaves(const Hash32&, std::uint64_t) override { return fail("content.not_found"); }
    Expected<Bytes> read_content(const Hash32&, std::uint64_t, std::uint64_t) override {
        return fail("content.not_found");
    }
    Status put_stream(const Hash32&, std::uint64_t, const ByteSource&) override {
        return fail("content.upload_refused");
    }
    Expected<bool> has_content(const Hash32&) override { return false; }
    Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32>) override { return std::vector<Hash32>(); }

    Uint256 price{10};
    std::uint64_t gas = 100'000;
    std::vector<chain::types::Transaction> sent;
};

class SenderLimitTest : public SpendingTest {
protected:
    [[nodiscard]] Sender sender(std::uint64_t per_gas, std::uint64_t per_day) {
        Hash32 secret;
        secret.data[31] = 7;
        std::filesystem::remove(sent_);
        return std::move(
            *Sender::open(node_, *crypto::PrivateKey::from_bytes(secret.view()), 7878, open(per_gas, per_day), sent_));
    }
    ~SenderLimitTest() override { std::filesystem::remove(sent_); }
    static Sender::Outcome send(Sender& sender, std::uint64_t id) {
        return sender.send(
            Attempt{"tick/" + std::to_string(id), chain::types::NativeKind::tick,
                    chain::types::encode_record(chain::types::TickPayload{chain::types::TickObject::task, id})});
    }
    const std::string sent_ = testing::TempDir() + "/quern-sent-test.rlp";
    GreedyNode node_;
};

TEST_F(SenderLimitTest, a_node_that_asks_too_much_gets_no_signature) {
    Sender sender = this->sender(50, ~0ULL);
    EXPECT_EQ(send(sender, 1), Sender::Outcome::sent);
    EXPECT_EQ(node_.sent.back().max_fee_per_gas, Uint256(20));
    node_.price = Uint256(51);
    EXPECT_EQ(send(sender, 2), Sender::Outcome::refused);
    node_.price = Uint256(40);
    EXPECT_EQ(send(sender, 3), Sender::Outcome::sent);
    EXPECT_EQ(node_.sent.back().max_fee_per_gas, Uint256(50));
    EXPECT_LE(node_.sent.back().max_priority_fee_per_gas, Uint256(50));
    node_.gas = kMaxTransactionGas + 1;
    EXPECT_EQ(send(sender, 4), Sender::Outcome::refused);
    EXPECT_EQ(node_.sent.size(), 2U);
}

TEST_F(SenderLimitTest, no_more_than_the_day_s_limit_is_signed_away) {
    constexpr std::uint64_t kPerDay = 50'000'000;
    Sender sender = this->sender(1'000, kPerDay);
    for (std::uint64_t id = 0; id < 40; ++id) (void)send(sender, id);
    Uint256 most;
    for (const auto& tx : node_.sent) most += tx.max_fee_per_gas * tx.gas_limit;
    EXPECT_FALSE(node_.sent.empty());
    EXPECT_LT(node_.sent.size(), 40U);
    EXPECT_LE(most, Uint256(kPerDay));
}

TEST_F(SenderLimitTest, raising_fees_stays_within_the_limits) {
    Sender sender = this->sender(50, ~0ULL);
    sender.refresh(1);
    ASSERT_EQ(send(sender, 1), Sender::Outcome::sent);
    node_.price = Uint256(45);
    sender.refresh(10);
    ASSERT_EQ(node_.sent.size(), 2U);
    EXPECT_EQ(node_.sent.back().max_fee_per_gas, Uint256(50));
    node_.price = Uint256(1'000);
    sender.refresh(20);
    EXPECT_EQ(node_.sent.size(), 2U);
}

}  // namespace
}  // namespace quern::compute::worker
