#include "node/agree/evidence_sender.h"

#include "chain_fixture.h"

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;

class EvidenceSenderTest : public ChainFixture {
protected:
    EvidenceSender sender_of(std::uint8_t seed) {
        return EvidenceSender({*store_, *gateway_, *pool_, chain_->board(), setup_->genesis.params.chain_id},
                              test_key(seed));
    }
    // The only validator finalizes a view that it gave up.
    sdbft::Evidence evidence_by(std::uint8_t seed) const {
        using chain::consensus::Vote;
        using chain::consensus::VoteType;
        const chain::consensus::ChainIdentity chain{setup_->genesis_hash, setup_->genesis.params.chain_id};
        const sdbft::KeySigner signer(test_key(seed));
        const Vote first{VoteType::finalize, 0, 5, setup_->genesis_hash};
        const Vote second{VoteType::nullify, 0, 5, {}};
        return {signer.public_key(), first, signer.sign(vote_digest(chain, first)), second,
                signer.sign(vote_digest(chain, second))};
    }
    bool convicted() const {
        const auto key = types::object_key(types::ObjectPrefix::validator, test_address(kValidator));
        const auto bytes = (*reader_->state({}))->native(key);
        return bytes && types::decode_record<types::ValidatorObject>(*bytes)->tombstoned;
    }
};

TEST_F(EvidenceSenderTest, reports_although_its_account_is_empty) {
    auto sender = sender_of(77);
    sender.convict(evidence_by(kValidator));
    sender.step();
    ASSERT_EQ(pool_->status().transactions, 1U);
    EXPECT_TRUE(pool_->arrived_after(0, 1)[0]->transaction.tx.max_fee_per_gas.is_zero());
    sender.step();
    EXPECT_EQ(pool_->status().transactions, 1U) << "one is enough";
    ASSERT_TRUE(make_block());
    EXPECT_TRUE(convicted());
    EXPECT_TRUE(balance(test_address(77)).is_zero()) << "it reports at once, and is not paid for that";
    sender.step();
    EXPECT_EQ(sender.pending(), 0U);
    EXPECT_EQ(pool_->status().transactions, 0U);
    ASSERT_TRUE(make_block()) << "the chain goes on";
}

TEST_F(EvidenceSenderTest, pays_when_it_can) {
    auto sender = sender_of(1);
    sender.convict(evidence_by(kValidator));
    sender.step();
    ASSERT_EQ(pool_->status().transactions, 1U);
    EXPECT_FALSE(pool_->arrived_after(0, 1)[0]->transaction.tx.max_fee_per_gas.is_zero());
    ASSERT_TRUE(make_block());
    EXPECT_TRUE(convicted());
}

TEST_F(EvidenceSenderTest, forgets_what_convicts_nobody) {
    auto sender = sender_of(77);
    sender.convict(evidence_by(3));
    sender.step();
    EXPECT_EQ(sender.pending(), 0U);
    EXPECT_EQ(pool_->status().transactions, 0U);
    EXPECT_FALSE(convicted());
}

TEST_F(EvidenceSenderTest, what_is_pending_survives_a_restart_until_it_is_done) {
    sender_of(77).convict(evidence_by(kValidator));
    restart_after_power_loss();
    {
        auto sender = sender_of(77);
        EXPECT_EQ(sender.pending(), 1U);
        sender.step();
        ASSERT_EQ(pool_->status().transactions, 1U);
        ASSERT_TRUE(make_block());
        EXPECT_TRUE(convicted());
        sender.step();
    }
    restart_after_power_loss();
    EXPECT_EQ(sender_of(77).pending(), 0U);
}

TEST_F(EvidenceSenderTest, holds_a_bounded_number_of_accusations) {
    auto sender = sender_of(77);
    auto evidence = evidence_by(kValidator);
    Accusations accusations;
    for (std::uint64_t i = 0; i < kMaxAccused + 10; ++i) {
        evidence.signer.bytes.data[0] = static_cast<std::uint8_t>(i);
        evidence.signer.bytes.data[1] = static_cast<std::uint8_t>(i >> 8);
        if (i < 2 * kMaxPendingEvidence) sender.convict(evidence);
        EXPECT_TRUE(accusations.add(crypto::address20(evidence.signer), i));
        EXPECT_FALSE(accusations.add(crypto::address20(evidence.signer), i)) << "once an epoch is enough";
    }
    EXPECT_EQ(sender.pending(), kMaxPendingEvidence);
    EXPECT_EQ(accusations.size(), kMaxAccused);
}

}  // namespace
}  // namespace quern::node
