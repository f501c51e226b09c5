#include "node/net/block_giver.h"

#include <future>

#include "chain/consensus/sdbft/messages.h"
#include "chain/consensus/sdbft/proposal_rules.h"
#include "chain_fixture.h"

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;

Bytes20 peer(std::uint8_t number) {
    Bytes20 address;
    address.data[0] = number;
    return address;
}

class BlockGiverTest : public ChainFixture {
protected:
    struct Given {
        Bytes20 peer;
        Bytes message;
        std::shared_ptr<const void> held;
    };
    BlockGiverTest() {
        work_.start();
        giver_ = std::make_unique<BlockGiver>(
            BlockGiver::Parts{work_, server_, answers_, [this](const Bytes20& to, Bytes message, auto held) {
                                  given_.push_back({to, std::move(message), std::move(held)});
                              }});
    }
    ~BlockGiverTest() override { work_.stop(); }
    void wait() {
        while (work_.waiting() != 0) std::this_thread::yield();
        std::promise<void> done;
        ASSERT_TRUE(work_.post_own([&] { done.set_value(); }));
        done.get_future().wait();
    }

    DutyQueue work_{clock_};
    BlockServer server_{chain_->board(), setup_->genesis.params.epoch_length};
    std::shared_ptr<AnswerBudget> answers_ = std::make_shared<AnswerBudget>();
    std::vector<Given> given_;
    std::unique_ptr<BlockGiver> giver_;
};

TEST_F(BlockGiverTest, who_asks_for_blocks_and_does_not_read_them_holds_a_share) {
    const auto block = std::make_shared<const Bytes>(1U << 20, std::uint8_t{7});
    for (int i = 0; i < 50; ++i) giver_->give(peer(1), block);
    EXPECT_EQ(given_.size(), 2U);
    EXPECT_EQ(given_[0].message, encode(sdbft::Message(sdbft::BlockAnswer{*block})));
    for (int round = 0; round < 4; ++round)
        for (std::uint8_t who = 2; who < 200; ++who) giver_->give(peer(who), block);
    EXPECT_LE(given_.size() << 20, kMaxStrangersAnswerBytes);
    EXPECT_LE(answers_->used(), kMaxStrangersAnswerBytes);
    // What strangers hold is not the committee's.
    answers_->set_committee({peer(200)});
    given_.clear();
    const auto before = answers_->used();
    giver_->give(peer(200), block);
    EXPECT_EQ(given_.size(), 1U);
    EXPECT_GT(answers_->used(), before);
    given_.clear();
    EXPECT_EQ(answers_->used(), 0U);
    giver_->give(peer(1), block);
    EXPECT_EQ(given_.size(), 1U);
}

TEST_F(BlockGiverTest, final_blocks_have_their_place_too) {
    ASSERT_TRUE(make_block());
    const Hash32 hash = chain_->tip().hash;
    for (int i = 0; i < 8; ++i) giver_->give_final(peer(1), hash);
    giver_->give_final(peer(2), Hash32{});
    wait();
    ASSERT_EQ(given_.size(), 8U);
    const auto answer = sdbft::decode_message(given_[0].message);
    ASSERT_TRUE(answer);
    EXPECT_EQ(sdbft::read_block(std::get<sdbft::BlockAnswer>(*answer).block)->hash, hash);
    std::size_t bytes = 0;
    for (const auto& given : given_) bytes += given.message.size();
    EXPECT_GE(answers_->used(), bytes);
    EXPECT_LE(answers_->used(), bytes + 8 * 16U);
    // Nobody's place is left over, whatever was there.
    given_.clear();
    EXPECT_EQ(answers_->used(), 0U);
    const auto all = AnswerBudget::reserve(answers_, peer(9), kMaxStrangersAnswerBytes);
    ASSERT_NE(all, nullptr);
    giver_->give_final(peer(1), hash);
    wait();
    EXPECT_TRUE(given_.empty());
}

}  // namespace
}  // namespace quern::node
