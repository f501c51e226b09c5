// What is on its way survives lost answers and restarts, and no purpose is sent twice.
#include "compute/worker/sender.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/fs.h"
#include "base/log.h"
#include "chain/types/transaction.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;

// A node with a mempool, of which what goes in and what comes out may get lost.
class LossyNode final : public NodeView {
public:
    Expected<MarketNews> market_news(const std::optional<Head>&) override { return fail("node.rpc_error"); }
    Expected<Uint256> gas_price() override { return Uint256(10); }
    Expected<Uint256> tip() override { return Uint256(3); }
    Expected<std::uint64_t> pending_nonce(const Address&) override { return mempool.size(); }
    Expected<std::uint64_t> estimate_gas(const Address&, const Address&, BytesView) override { return 100'000; }
    Expected<Hash32> send_raw(BytesView encoded) override {
        const Hash32 hash = chain::types::transaction_hash(encoded);
        ++told;
        last.assign(encoded.begin(), encoded.end());
        if (refuses) return fail("node.rpc_error", "nonce too low");
        if (!loses_questions) mempool.insert(hash);
        if (loses_questions || loses_answers) return busy("http.timeout");
        return hash;
    }
    Expected<std::optional<TransactionOutcome>> outcome(const Hash32& hash) override {
        if (!included.contains(hash)) return std::optional<TransactionOutcome>();
        return std::optional(TransactionOutcome{failure.empty(), 1, failure});
    }
    Expected<bool> knows(const Hash32& hash) override { return mempool.contains(hash); }
    Expected<std::vector<TaskClaim>> live_tasks() override { return std::vector<TaskClaim>(); }
    Expected<DisputeNews> dispute(std::uint64_t) override { return fail("node.rpc_error"); }
    Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport&) override {
        return fail("node.down");
    }
    Expected<chain::params::MarketParams> market_params() override { return chain::params::MarketParams{}; }
    Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role, const Address&) override {
        return std::optional<chain::types::RoleBond>();
    }
    Expected<Bytes> get_content(const Hash32&, std::uint64_t) override { return fail(kContentNotFound); }
    Expected<ContentLeaves> content_leaves(const Hash32&, std::uint64_t) override { return fail(kContentNotFound); }
    Expected<Bytes> read_content(const Hash32&, std::uint64_t, std::uint64_t) override {
        return fail(kContentNotFound);
    }
    Status put_stream(const Hash32&, std::uint64_t, const ByteSource&) override {
        return fail("content.upload_refused");
    }
    Expected<bool> has_content(const Hash32&) override { return false; }
    Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32>) override { return std::vector<Hash32>(); }

    bool loses_questions = false;
    bool loses_answers = false;
    bool refuses = false;
    int told = 0;
    std::string failure;  // of all that is included
    Bytes last;           // told
    std::set<Hash32, BytesLess> mempool;
    std::set<Hash32, BytesLess> included;
};

class SenderTest : public testing::Test {
protected:
    SenderTest() { std::filesystem::remove_all(directory_), std::filesystem::create_directories(directory_); }
    ~SenderTest() override { std::filesystem::remove_all(directory_); }

    [[nodiscard]] Expected<Sender> open() {
        Hash32 secret;
        secret.data[31] = 7;
        QUERN_TRY(auto spending, Spending::open(directory_ + "/spending.rlp", {Uint256(1'000), per_day_}, clock_));
        return Sender::open(node_, *crypto::PrivateKey::from_bytes(secret.view()), 7878, std::move(spending),
                            directory_ + "/sent.rlp");
    }
    static Attempt tick(std::uint64_t id) {
        return {"tick/" + std::to_string(id), NativeKind::tick,
                chain::types::encode_record(chain::types::TickPayload{chain::types::TickObject::task, id}), false};
    }

    const std::string directory_ = testing::TempDir() + "/quern-sender-test";
    ManualClock clock_{1'000};
    LossyNode node_;
    Uint256 per_day_ = ~Uint256();
};

TEST_F(SenderTest, a_lost_answer_makes_no_second_transaction) {
    auto sender = *open();
    node_.loses_answers = true;
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::sent);
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::waiting);
    node_.loses_answers = false;
    for (std::uint64_t height = 2; height < 20; ++height) {
        sender.refresh(height);
        EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::waiting);
    }
    EXPECT_EQ(node_.mempool.size(), 1U);
    EXPECT_EQ(node_.told, 1) << "the node has it: nothing to repeat";
}

// Advice follows what is paid: a tip that holds the base fee makes the next one dearer by as much, and so on.
TEST_F(SenderTest, offers_the_advised_tip_and_not_the_whole_price) {
    auto sender = *open();
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::sent);
    const auto tx = chain::types::decode_transaction(node_.last);
    ASSERT_TRUE(tx);
    EXPECT_EQ(tx->max_priority_fee_per_gas, Uint256(3));
    EXPECT_EQ(tx->max_fee_per_gas, Uint256(20));
}

TEST_F(SenderTest, a_lost_question_is_asked_again_in_the_same_words) {
    auto sender = *open();
    node_.loses_questions = true;
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::sent);
    EXPECT_TRUE(node_.mempool.empty());
    node_.loses_questions = false;
    sender.refresh(2);
    EXPECT_EQ(node_.mempool.size(), 1U);
    sender.refresh(3);
    EXPECT_EQ(node_.told, 2);
}

TEST_F(SenderTest, a_restart_remembers_what_is_on_its_way) {
    {
        auto sender = *open();
        node_.loses_questions = true;  // killed before it left
        EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::sent);
        node_.loses_questions = false;
        EXPECT_EQ(sender.send(tick(2)), Sender::Outcome::sent);
    }
    const auto before = node_.mempool;
    auto again = *open();
    EXPECT_EQ(again.send(tick(1)), Sender::Outcome::waiting);
    EXPECT_EQ(again.send(tick(2)), Sender::Outcome::waiting);
    again.refresh(2);
    EXPECT_EQ(node_.mempool.size(), 2U) << "the lost one was told again";
    EXPECT_TRUE(std::includes(node_.mempool.begin(), node_.mempool.end(), before.begin(), before.end(), BytesLess()));
    node_.included = node_.mempool;
    again.refresh(3);
    EXPECT_EQ(again.send(tick(1)), Sender::Outcome::waiting) << "the node may not show its effect yet";
    again.refresh(8);
    EXPECT_EQ(again.send(tick(1)), Sender::Outcome::sent) << "over: whoever asks again means another";
}

TEST_F(SenderTest, what_the_node_refuses_is_no_longer_on_its_way) {
    auto sender = *open();
    node_.refuses = true;
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::refused);
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::waiting) << "not in each block";
    Attempt urgent = tick(2);
    urgent.each_block = true;
    EXPECT_EQ(sender.send(urgent), Sender::Outcome::refused);
    EXPECT_EQ(sender.send(urgent), Sender::Outcome::refused);
    node_.refuses = false;
    sender.refresh(9);
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::sent);
    EXPECT_EQ(open()->send(tick(2)), Sender::Outcome::sent) << "nothing of the refused one was kept";
}

TEST_F(SenderTest, who_cannot_pay_is_told_so_now_and_then) {
    const std::string file = directory_ + "/log";
    ASSERT_TRUE(log::configure({.file = file, .to_stderr = false}));
    auto sender = *open();
    node_.refuses = true;
    const auto duty = [](int number) {
        return Attempt{"reveal/" + std::to_string(number), NativeKind::task_abandon,
                       chain::types::encode_record(chain::types::TaskIdPayload{1}), false};
    };
    sender.refresh(1);
    EXPECT_EQ(sender.send(tick(1)), Sender::Outcome::refused) << "others may have ticked: no word about that";
    EXPECT_EQ(sender.send(duty(1)), Sender::Outcome::refused);
    EXPECT_EQ(sender.send(duty(2)), Sender::Outcome::refused);
    sender.refresh(200);
    EXPECT_EQ(sender.send(duty(3)), Sender::Outcome::refused);
    ASSERT_TRUE(log::configure({}));
    const auto said = fs::read_file(file, 1U << 20);
    ASSERT_TRUE(said);
    const std::string text(said->begin(), said->end());
    EXPECT_NE(text.find("not sent purpose=reveal/1 reason=node.rpc_error: nonce too low"), std::string::npos) << text;
    EXPECT_NE(text.find("purpose=reveal/3"), std::string::npos) << text;
    EXPECT_EQ(text.find("purpose=reveal/2"), std::string::npos) << text;
    EXPECT_EQ(text.find("purpose=tick"), std::string::npos) << text;
}

TEST_F(SenderTest, what_ran_out_of_gas_is_sent_again_at_once_and_other_failures_later) {
    auto sender = *open();
    for (const char* failure : {"out of gas", "task.wrong_state"}) {
        node_.failure = failure;
        const bool ran_out = std::string_view(failure) == "out of gas";
        const std::uint64_t id = ran_out ? 1 : 2;
        EXPECT_EQ(sender.send(tick(id)), Sender::Outcome::sent);
        node_.included = node_.mempool;
        sender.refresh(2);
        EXPECT_EQ(sender.send(tick(id)), ran_out ? Sender::Outcome::sent : Sender::Outcome::waiting) << failure;
    }
}

// Estimated before another one of the block that makes it dearer.
TEST_F(SenderTest, gives_half_more_gas_than_was_estimated_and_some) {
    auto sender = *open();
    ASSERT_EQ(sender.send(tick(1)), Sender::Outcome::sent);
    EXPECT_EQ(chain::types::decode_transaction(node_.last)->gas_limit, 350'000U);
}

TEST_F(SenderTest, ticks_do_not_take_what_duties_need) {
    per_day_ = Uint256(10 * 350'000 * 20);  // of ten
    auto sender = *open();
    int sent = 0;
    while (sender.send(tick(100 + static_cast<std::uint64_t>(sent))) == Sender::Outcome::sent) ++sent;
    EXPECT_EQ(sent, 5);
    for (int duty = 0; duty < 5; ++duty) {
        const Attempt reveal{"reveal/" + std::to_string(duty), NativeKind::task_abandon,
                             chain::types::encode_record(chain::types::TaskIdPayload{1}), false};
        EXPECT_EQ(sender.send(reveal), Sender::Outcome::sent) << duty;
    }
    EXPECT_EQ(sender.send(tick(999)), Sender::Outcome::refused);
}

// Whoever asks many solvers' questions and answers them itself must not make a verifier or solver miss a deadline.
TEST_F(SenderTest, answers_do_not_take_what_bonds_answer_for) {
    per_day_ = Uint256(8 * 350'000 * 20);  // of eight
    auto sender = *open();
    int sent = 0;
    const auto next = [&](NativeKind kind, const auto& payload) {
        return Attempt{"some/" + std::to_string(sent), kind, chain::types::encode_record(payload), false};
    };
    const chain::types::DataAnswerPayload answer{1, 1, Bytes(4096, 0), {}, {}};
    while (sender.send(next(NativeKind::data_answer, answer)) == Sender::Outcome::sent) ++sent;
    EXPECT_EQ(sent, 6);
    ++sent;  // a purpose of its own
    const chain::types::ProfileCommitPayload profile{1, Hash32{{1}}};
    EXPECT_NE(sender.send(next(NativeKind::profile_commit, profile)), Sender::Outcome::sent) << "nor is it promised";
    ++sent;
    EXPECT_EQ(sender.send(next(NativeKind::task_abandon, chain::types::TaskIdPayload{1})), Sender::Outcome::sent);
}

TEST_F(SenderTest, the_first_attempt_that_is_not_refused_is_the_only_one) {
    auto sender = *open();
    sender.send(Send{{tick(1), tick(2)}});
    EXPECT_EQ(node_.mempool.size(), 1U);
    sender.send(Send{{tick(1), tick(2)}});
    EXPECT_EQ(node_.mempool.size(), 1U) << "the first waits";
}

TEST_F(SenderTest, a_damaged_record_of_what_is_on_its_way_is_an_error) {
    ASSERT_TRUE(fs::write_file_atomic(directory_ + "/sent.rlp", Bytes{0xc1, 0x80, 0x80}));
    EXPECT_FALSE(open());
}

}  // namespace
}  // namespace quern::compute::worker
