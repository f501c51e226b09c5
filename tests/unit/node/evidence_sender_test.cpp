#include "node/agree/evidence_sender.h"

#include "chain_fixture.h"

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;

class EvidenceSenderTest : public ChainFixture {
protected:
    EvidenceSender sender_of(std::uint8_t seed) {
        return EvidenceSender({*gateway_, *pool_, chain_->board(), setup_->genesis.params.chain_id}, test_key(seed));
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
    EXPECT_TRUE(pool_->all()[0]->transaction.tx.max_fee_per_gas.is_zero());
    sender.step();
    EXPECT_EQ(pool_->status().transactions, 1U) << "one is enough";
    ASSERT_TRUE(make_block());
    EXPECT_TRUE(convicted());
    EXPECT_FALSE(balance(test_address(77)).is_zero()) << "the reporter's part";
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
    EXPECT_FALSE(pool_->all()[0]->transaction.tx.max_fee_per_gas.is_zero());
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

}  // namespace
}  // namespace quern::node
