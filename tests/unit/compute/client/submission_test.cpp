// A task is offered within its budget and paid once, whatever gets lost.
#include "compute/client/submission.h"

#include "chain/params/parameters.h"
#include "chain/types/abi.h"
#include "memory_node.h"
#include "small_training.h"

namespace quern::compute::client {
namespace {

namespace types = chain::types;

constexpr std::uint64_t kChain = 7878;

class SubmissionTest : public test::SmallTraining {
protected:
    SubmissionTest() {
        Hash32 secret;
        secret.data[31] = 7;
        key_ = *crypto::PrivateKey::from_bytes(secret.view());
        const chain::params::ChainParams params;
        options_.terms.params = json::Value::object({{"market", chain::params::to_json(params, "market")}}).dump();
    }
    [[nodiscard]] Expected<Offer> offer(const Uint256& budget, const Uint256& balance = ~Uint256()) {
        QUERN_TRY(const Training training, prepare());
        return make_offer(node_, crypto::address20(*key_), balance, kChain, training.spec, training.files, budget);
    }
    [[nodiscard]] Job job() {
        const auto made = offer(qrn(5));
        EXPECT_TRUE(made) << made.error().to_string();
        const auto signed_job = sign_offer(node_, *made, *key_, kChain, training_id(made->spec));
        EXPECT_TRUE(signed_job) << signed_job.error().to_string();
        return signed_job.value_or(Job{});
    }
    static Uint256 qrn(std::uint64_t count) { return Uint256(count) * Uint256(1'000'000'000) * Uint256(1'000'000'000); }

    test::MemoryNode node_;
    std::optional<crypto::PrivateKey> key_;
};

TEST(BudgetTest, is_an_amount_as_people_write_it) {
    EXPECT_EQ(parse_budget("5qrn")->to_decimal(), "5000000000000000000");
    EXPECT_EQ(parse_budget("0.5 qrn")->to_decimal(), "500000000000000000");
    EXPECT_EQ(parse_budget("2 gwei")->to_decimal(), "2000000000");
    EXPECT_EQ(parse_budget("1000")->to_decimal(), "1000");
    for (const char* wrong : {"", " 5qrn", "5  qrn", "5 ", "5 eth", "-5qrn", "0.5"}) {
        const auto none = parse_budget(wrong);
        ASSERT_FALSE(none) << wrong;
        EXPECT_NE(none.error().detail.find("--budget"), std::string::npos);
    }
}

TEST_F(SubmissionTest, offers_the_highest_price_that_the_budget_pays) {
    const auto made = offer(qrn(5));
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_LE(made->most, qrn(5));
    EXPECT_EQ(made->most, made->price.escrow.total + made->fee);
    EXPECT_EQ(made->fee, made->tx.max_fee_per_gas * made->tx.gas_limit);
    // One grain a work unit more would be too much.
    options_.terms.price_cap = (made->spec.money.price_cap + Uint256(1)).to_decimal();
    const auto dearer = offer(qrn(5));
    ASSERT_FALSE(dearer);
    EXPECT_EQ(dearer.error().name, "train.budget_too_small");
    EXPECT_NE(dearer.error().detail.find("at that price cap takes 5."), std::string::npos) << dearer.error().detail;
}

TEST_F(SubmissionTest, says_what_a_small_budget_lacks) {
    const auto made = offer(Uint256(1'000));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().name, "train.budget_too_small");
    EXPECT_NE(made.error().detail.find("even at 1 grain per work unit takes "), std::string::npos);
    // Enough for the escrow alone: the fee belongs to the price.
    options_.terms.price_cap = "1";
    const auto whole = offer(qrn(5));
    ASSERT_TRUE(whole) << whole.error().to_string();
    EXPECT_EQ(offer(whole->price.escrow.total).error().name, "train.budget_too_small");
    EXPECT_TRUE(offer(whole->most));
}

TEST_F(SubmissionTest, an_account_must_have_what_it_offers) {
    const auto made = offer(qrn(5));
    ASSERT_TRUE(made);
    EXPECT_TRUE(offer(qrn(5), made->most));
    const auto poor = offer(qrn(5), made->most - Uint256(1));
    ASSERT_FALSE(poor);
    EXPECT_EQ(poor.error().name, "train.not_enough_balance");
    EXPECT_EQ(offer(qrn(5), Uint256(1)).error().name, "train.not_enough_balance");
}

// A node that tries what cannot be paid says something about the chain, not about the budget.
TEST_F(SubmissionTest, what_cannot_be_paid_is_said_before_the_node_tries_it) {
    node_.estimate_error = "bond.insufficient";
    EXPECT_EQ(offer(qrn(5)).error().name, "node.rpc_error");
    EXPECT_EQ(offer(Uint256(1)).error().name, "train.budget_too_small");
    EXPECT_EQ(offer(qrn(5), Uint256(1)).error().name, "train.not_enough_balance");
}

TEST_F(SubmissionTest, signs_with_the_nonce_of_now) {
    const auto made = offer(qrn(5));
    ASSERT_TRUE(made);
    node_.nonce = 9;  // while the user thought it over
    const auto signed_job = sign_offer(node_, *made, *key_, kChain, training_id(made->spec));
    ASSERT_TRUE(signed_job);
    const auto tx = types::recover(signed_job->transaction);
    ASSERT_TRUE(tx);
    EXPECT_EQ(tx->tx.nonce, 9U);
    EXPECT_EQ(tx->sender, crypto::address20(*key_));
    EXPECT_EQ(signed_job->submitter, tx->sender);
    const auto spec = types::decode_record<types::TaskSubmitPayload>(tx->tx.data);
    ASSERT_TRUE(spec);
    EXPECT_EQ(training_id(*spec), signed_job->training);
    EXPECT_EQ(spec->money.price_cap, made->spec.money.price_cap);
}

TEST_F(SubmissionTest, sends_the_same_bytes_until_a_block_has_them) {
    const Job sent = job();
    node_.loses_questions = true;
    EXPECT_TRUE(push(node_, sent).error().is_busy());
    EXPECT_TRUE(push(node_, sent).error().is_busy());
    node_.loses_questions = false;
    node_.loses_answers = true;
    EXPECT_TRUE(push(node_, sent).error().is_busy());
    // The node has it: nothing more is sent.
    EXPECT_TRUE(push(node_, sent));
    EXPECT_TRUE(push(node_, sent));
    ASSERT_EQ(node_.told.size(), 3U);
    for (const Bytes& bytes : node_.told) EXPECT_EQ(bytes, sent.transaction);
    node_.mempool.clear();  // a node that was started anew
    node_.loses_answers = false;
    const auto waiting = push(node_, sent);
    ASSERT_TRUE(waiting);
    EXPECT_FALSE(*waiting);
    EXPECT_EQ(node_.told.size(), 4U);
    node_.included.insert(transaction_of(sent));
    node_.mempool.clear();
    const auto done = push(node_, sent);
    ASSERT_TRUE(done);
    ASSERT_TRUE(*done);
    EXPECT_TRUE((*done)->success);
    EXPECT_EQ(node_.told.size(), 4U) << "what a block has is not sent again";
}

TEST_F(SubmissionTest, a_silent_node_says_nothing) {
    const Job sent = job();
    node_.silent = true;
    EXPECT_TRUE(push(node_, sent).error().is_busy());
    EXPECT_TRUE(node_.told.empty()) << "not before it is known whether a block has it";
}

TEST_F(SubmissionTest, a_refusal_is_one_unless_a_block_has_it_meanwhile) {
    const Job sent = job();
    node_.refusal = "nonce too low";
    const auto refused = push(node_, sent);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "train.refused");
    EXPECT_EQ(refused.error().detail, "nonce too low");
    node_.includes_after_asking = true;
    const auto done = push(node_, sent);
    ASSERT_TRUE(done);
    EXPECT_TRUE(*done);
}

TEST(ReceiptTest, tells_the_task_and_the_fee) {
    const std::string event = to_hex0x(types::abi::signature_hash("TaskSubmitted(uint64,address,uint256,uint256)"));
    const auto receipt = [&](const std::string& topic) {
        json::Value other = json::Value::object({{"topics", json::Value::array({to_hex0x(Hash32{})})}});
        json::Value log =
            json::Value::object({{"topics", json::Value::array({topic, to_hex0x(Uint256(17).to_be32())})}});
        return json::Value::object({{"gasUsed", "0x10"},
                                    {"effectiveGasPrice", "0x3"},
                                    {"logs", json::Value::array({std::move(other), std::move(log)})}});
    };
    const auto found = read_receipt(receipt(event));
    ASSERT_TRUE(found) << found.error().to_string();
    EXPECT_EQ(found->task, 17U);
    EXPECT_EQ(found->fee, Uint256(48));
    for (const json::Value& wrong : {receipt(to_hex0x(Hash32{})), json::Value(), json::Value::object({{"logs", 1}})}) {
        const auto none = read_receipt(wrong);
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().name, "train.bad_receipt");
        EXPECT_TRUE(none.error().is_busy());
    }
}

}  // namespace
}  // namespace quern::compute::client
