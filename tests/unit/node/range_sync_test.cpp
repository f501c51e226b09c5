#include "node/net/range_sync.h"

#include "chain/exec/block_validation.h"
#include "chain/store/block_store.h"
#include "chain_fixture.h"

namespace quern::node {
namespace {

namespace consensus = chain::consensus;
namespace messages = p2p::messages;
namespace sdbft = chain::consensus::sdbft;
using p2p::Offence;

constexpr std::uint64_t kEpochLength = 40;

chain::exec::Genesis short_epochs(std::uint64_t length) {
    auto genesis = test_genesis();
    genesis.params.epoch_length = length;
    genesis.params.market.unbonding_blocks = length + chain::params::kDrawReach;
    return genesis;
}

Bytes20 peer(std::uint8_t number) {
    Bytes20 address;
    address.data[0] = number;
    return address;
}

// Blocks of a real chain, and what to judge them by.
class RangeFixture : public ChainFixture {
protected:
    explicit RangeFixture(std::uint64_t epoch_length = kEpochLength)
        : ChainFixture(short_epochs(epoch_length)), epoch_length_(epoch_length) {}

    void make_blocks(std::uint64_t count) {
        if (blocks_.empty()) hashes_.push_back(chain_->tip().hash), blocks_.emplace_back();
        for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_TRUE(make_block());
            const chain::store::BlockStore store(*store_);
            hashes_.push_back(chain_->tip().hash);
            blocks_.push_back({**store.block(hashes_.back()), **store.finalization(hashes_.back())});
        }
    }
    [[nodiscard]] RangeRules rules() const {
        return {{setup_->genesis_hash, setup_->genesis.params.chain_id},
                sdbft::EpochHeights(epoch_length_),
                [](BytesView block) { return chain::exec::body_matches(block); },
                checkpoint_};
    }
    [[nodiscard]] consensus::Committee committee() const { return chain_->epoch_setup()->committee; }
    [[nodiscard]] RangeVerdict judge(const std::vector<messages::BlockAnswer>& blocks, std::uint64_t first) const {
        std::vector<const messages::BlockAnswer*> pointers;
        for (const auto& block : blocks) pointers.push_back(&block);
        return judge_range(pointers, first, hashes_[first - 1], committee(), rules());
    }
    [[nodiscard]] std::vector<messages::BlockAnswer> range(std::uint64_t first, std::uint64_t count) const {
        const auto begin = blocks_.begin() + static_cast<std::ptrdiff_t>(first);
        return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }
    static Bytes changed(BytesView encoded, const std::function<void(types::Block&)>& change) {
        auto block = *types::decode_block(encoded);
        change(block);
        return types::encode(block);
    }
    // A block like this one that its quorum never saw.
    static Bytes sibling(BytesView encoded) {
        return changed(encoded, [](types::Block& block) { ++block.header.gas_used; });
    }

    const std::uint64_t epoch_length_;
    std::optional<Checkpoint> checkpoint_;
    std::vector<messages::BlockAnswer> blocks_;  // by number
    std::vector<Hash32> hashes_;
};

TEST_F(RangeFixture, judges_blocks_by_the_finalization_above_them) {
    make_blocks(12);
    auto blocks = range(1, 12);
    for (std::size_t i = 0; i < 10; ++i) blocks[i].certificate.clear();
    blocks[11].certificate.clear();
    const auto verdict = judge(blocks, 1);
    EXPECT_EQ(verdict.count, 11U);
    EXPECT_EQ(verdict.hash, hashes_[11]);
    EXPECT_FALSE(verdict.forks);
    EXPECT_FALSE(verdict.blame);
    for (auto& block : blocks) block.certificate.clear();
    EXPECT_EQ(judge(blocks, 1).count, 0U);
    EXPECT_FALSE(judge(blocks, 1).blame);
}

TEST_F(RangeFixture, blames_whoever_sent_the_block_that_does_not_fit) {
    make_blocks(10);
    const auto blamed = [&](const std::function<void(std::vector<messages::BlockAnswer>&)>& spoil) {
        auto blocks = range(1, 10);
        spoil(blocks);
        return judge(blocks, 1).blame;
    };
    auto blame = blamed([](auto& blocks) { blocks[3].block = sibling(blocks[3].block); });
    ASSERT_TRUE(blame);
    EXPECT_EQ(blame->index, 3U);
    EXPECT_EQ(blame->error.name, "range.wrong_parent");
    // The hash is of the header alone: another body under it is a lie too.
    blame = blamed([this](auto& blocks) {
        blocks[4].block = changed(
            blocks[4].block, [this](types::Block& block) { block.transactions.push_back(signed_by(1, transfer(0))); });
    });
    ASSERT_TRUE(blame);
    EXPECT_EQ(blame->index, 4U);
    EXPECT_EQ(blame->error.name, "range.wrong_body");
    blame = blamed([](auto& blocks) { blocks[9].certificate = blocks[8].certificate; });
    ASSERT_TRUE(blame);
    EXPECT_EQ(blame->index, 9U);
    EXPECT_EQ(blame->error.name, "range.wrong_certificate");
    blame = blamed([](auto& blocks) { blocks[9].certificate[blocks[9].certificate.size() - 1] ^= 1; });
    ASSERT_TRUE(blame);
    EXPECT_EQ(blame->index, 9U);
    EXPECT_EQ(blame->error.name, "certificate.bad_signature");
    EXPECT_EQ(blame->offence, Offence::invalid_consensus);
    blame = blamed([](auto& blocks) { std::swap(blocks[2], blocks[3]); });
    ASSERT_TRUE(blame);
    EXPECT_EQ(blame->index, 2U);
    EXPECT_EQ(blame->error.name, "range.wrong_block");
    blame = blamed([](auto& blocks) { blocks[0].block = {1, 2, 3}; });
    ASSERT_TRUE(blame);
    EXPECT_EQ(blame->offence, Offence::malformed);
}

TEST_F(RangeFixture, a_quorum_of_other_keys_finalizes_nothing) {
    make_blocks(3);
    auto blocks = range(1, 3);
    const auto tip = consensus::tip_of(types::decode_block(blocks[2].block)->header);
    const consensus::Vote vote{consensus::VoteType::finalize, tip.epoch, tip.view, tip.hash};
    blocks[2].certificate = encode(
        consensus::make_certificate(vote, committee(), {{0, consensus::sign_vote(rules().chain, vote, test_key(7))}}));
    const auto verdict = judge(blocks, 1);
    EXPECT_EQ(verdict.count, 0U);
    ASSERT_TRUE(verdict.blame);
    EXPECT_EQ(verdict.blame->error.name, "certificate.bad_signature");
}

TEST_F(RangeFixture, looks_at_one_epoch_at_a_time) {
    make_blocks(kEpochLength + 5);
    const auto verdict = judge(range(30, 14), 30);
    EXPECT_EQ(verdict.count, kEpochLength - 30);
    EXPECT_EQ(verdict.hash, hashes_[kEpochLength - 1]);
    EXPECT_EQ(judge(range(kEpochLength, 5), kEpochLength).count, 5U);
}

TEST_F(RangeFixture, final_blocks_on_another_parent_are_a_fork) {
    make_blocks(5);
    std::vector<const messages::BlockAnswer*> pointers{&blocks_[4], &blocks_[5]};
    EXPECT_FALSE(judge_range(pointers, 4, hashes_[3], committee(), rules()).forks);
    EXPECT_TRUE(judge_range(pointers, 4, hashes_[2], committee(), rules()).forks);
}

TEST_F(RangeFixture, looks_as_far_for_a_finalization_as_it_is_told) {
    make_blocks(12);
    auto blocks = range(1, 12);
    for (std::size_t i = 0; i < 11; ++i) blocks[i].certificate.clear();
    std::vector<const messages::BlockAnswer*> pointers;
    std::size_t bytes = 0;
    for (const auto& block : blocks) {
        pointers.push_back(&block);
        bytes += block.block.size();
    }
    const auto count = [&](const RangeReach& reach) {
        return judge_range(pointers, 1, hashes_[0], committee(), rules(), reach).count;
    };
    EXPECT_EQ(count({}), 12U);
    EXPECT_EQ(count({12, bytes}), 12U);
    EXPECT_EQ(count({11, bytes}), 0U);
    EXPECT_EQ(count({12, bytes - 1}), 0U);
}

TEST_F(RangeFixture, names_the_first_block_down_from_the_checkpoint_that_is_of_another_history) {
    make_blocks(10);
    auto blocks = range(3, 8);
    std::vector<const messages::BlockAnswer*> pointers;
    for (const auto& block : blocks) pointers.push_back(&block);
    EXPECT_FALSE(outside_history(pointers, 3, {8, hashes_[8]}));
    EXPECT_EQ(outside_history(pointers, 3, {8, hashes_[7]}), 5U);
    EXPECT_EQ(outside_history(pointers, 3, {10, hashes_[7]}), 7U);
    // Not among them: nothing is known.
    EXPECT_FALSE(outside_history(pointers, 3, {2, hashes_[7]}));
    EXPECT_FALSE(outside_history(pointers, 3, {11, hashes_[7]}));
    blocks[1].block = sibling(blocks[1].block);
    EXPECT_EQ(outside_history(pointers, 3, {8, hashes_[8]}), 1U);
    blocks[4].block = {1, 2, 3};
    EXPECT_EQ(outside_history(pointers, 3, {8, hashes_[8]}), 4U);
}

// A node that catches up from peers that the test plays; consensus takes what it gets at once.
class RangeSyncTest : public RangeFixture {
protected:
    explicit RangeSyncTest(std::uint64_t epoch_length = kEpochLength) : RangeFixture(epoch_length) {}
    struct Asked {
        Bytes20 peer;
        messages::GetRange request;
        std::uint64_t deadline_ms = 0;
        p2p::Answer<messages::Range> answer;
    };
    ~RangeSyncTest() override {
        if (sync_) sync_->stop();
    }
    void begin() {
        RangeSync::Parts parts{clock_, rules(), 0, hashes_[0], {}, {}, {}, {}, {}};
        parts.request = [this](const Bytes20& to, const messages::GetRange& request, std::uint64_t timeout,
                               p2p::Answer<messages::Range> answer) {
            const std::lock_guard lock(mutex_);
            ++questions_[to];
            asked_.push_back({to, request, clock_.monotonic_ms() + timeout, std::move(answer)});
        };
        parts.deliver = [this](sdbft::RangeAnswer answer, const Bytes20&) {
            std::uint64_t first = 0;
            {
                const std::lock_guard lock(mutex_);
                if (is_deaf_) return;
                first = taken_ + 1;
                for (const auto& block : answer.blocks) {
                    ASSERT_EQ(block, blocks_[taken_ + 1].block);
                    ++taken_;
                }
                EXPECT_EQ(answer.certificate.hash, hashes_[taken_]);
                EXPECT_EQ(answer.tip_height, taken_);
            }
            for (std::uint64_t i = 0; i < answer.blocks.size(); ++i) sync_->committed(first + i, hashes_[first + i]);
        };
        parts.report = [this](const Bytes20& who, Offence offence) {
            const std::lock_guard lock(mutex_);
            reports_.emplace_back(who, offence);
        };
        parts.committee = [this](std::uint64_t) { return std::optional(committee()); };
        parts.forked = [this](const Bytes20& who, std::uint64_t number) {
            const std::lock_guard lock(mutex_);
            forks_.emplace_back(who, number);
        };
        sync_ = std::make_unique<RangeSync>(std::move(parts));
        sync_->start();
    }
    void join(std::uint8_t number, std::uint64_t head) { sync_->peer_joined(peer(number), {head, {}, 0, 0, 0}, false); }
    [[nodiscard]] messages::Range honest(const messages::GetRange& request) const {
        messages::Range range;
        for (std::uint64_t i = 0; i < request.count && request.first + i < blocks_.size(); ++i)
            range.blocks.push_back(blocks_[request.first + i]);
        return range;
    }
    [[nodiscard]] std::uint64_t taken() {
        const std::lock_guard lock(mutex_);
        return taken_;
    }
    // Plays the peers, with the clock going on a little in each round, until `done`. `answer` may leave a question
    // open.
    template <class Answer, class Done>
    bool play(Answer answer, Done done, std::uint64_t ms_per_round = 20) {
        for (int round = 0; round < 1500; ++round) {
            std::vector<Asked> now;
            {
                const std::lock_guard lock(mutex_);
                now.swap(asked_);
            }
            for (auto& asked : now) {
                if (std::optional<messages::Range> range = answer(asked.peer, asked.request)) {
                    if (range->blocks.empty())
                        asked.answer(fail("network.refused", "not_found"));
                    else
                        asked.answer(std::move(*range));
                } else if (clock_.monotonic_ms() >= asked.deadline_ms) {
                    asked.answer(busy("network.timeout"));
                } else {
                    const std::lock_guard lock(mutex_);
                    asked_.push_back(std::move(asked));
                }
            }
            if (done()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            clock_.advance(ms_per_round);
        }
        return false;
    }

    std::mutex mutex_;
    std::vector<Asked> asked_;
    std::map<Bytes20, std::size_t> questions_;
    std::vector<std::pair<Bytes20, Offence>> reports_;
    std::vector<std::pair<Bytes20, std::uint64_t>> forks_;
    std::uint64_t taken_ = 0;
    bool is_deaf_ = false;  // consensus takes nothing
    std::unique_ptr<RangeSync> sync_;
};

TEST_F(RangeSyncTest, catches_up_over_epochs_although_one_of_three_never_answers) {
    make_blocks(300);
    begin();
    for (std::uint8_t i = 1; i <= 3; ++i) join(i, 300);
    const std::uint64_t began = clock_.monotonic_ms();
    std::set<Bytes20> sources;
    ASSERT_TRUE(play(
        [&](const Bytes20& who, const messages::GetRange& request) -> std::optional<messages::Range> {
            if (who == peer(1)) return std::nullopt;
            sources.insert(who);
            return honest(request);
        },
        [&] { return taken() == 300; }));
    EXPECT_LT(clock_.monotonic_ms() - began, p2p::sync::kSliceMs) << "nobody waits for its time to run out";
    EXPECT_EQ(sources.size(), 2U);
}

TEST_F(RangeSyncTest, says_that_it_catches_up_while_consensus_lacks_what_a_committee_finalized) {
    make_blocks(100);
    begin();
    is_deaf_ = true;
    for (std::uint8_t i = 1; i <= 2; ++i) join(i, 100);
    const auto serve = [&](const auto&, const auto& request) { return std::optional(honest(request)); };
    ASSERT_TRUE(play(serve, [&] { return sync_->progress().syncing; }));
    {
        const std::lock_guard lock(mutex_);
        is_deaf_ = false;
    }
    // What consensus has taken is told with the next look at it, which a busy machine puts off.
    EXPECT_TRUE(play(serve, [&] {
        const auto progress = sync_->progress();
        return taken() == 100 && !progress.syncing && progress.number == 100;
    }));
}

TEST_F(RangeSyncTest, the_claim_of_a_liar_starts_a_question_and_nothing_else) {
    make_blocks(30);
    begin();
    join(1, std::uint64_t{1} << 63);
    std::size_t questions = 0;
    const std::uint64_t began = clock_.monotonic_ms();
    ASSERT_TRUE(play(
        [&](const Bytes20&, const messages::GetRange&) -> std::optional<messages::Range> {
            ++questions;
            EXPECT_FALSE(sync_->progress().syncing);
            return messages::Range{};
        },
        [&] { return clock_.monotonic_ms() > began + 60'000; }, 100));
    EXPECT_LE(questions, 5U) << "ever less";
    EXPECT_GE(questions, 2U);
    EXPECT_EQ(sync_->progress().target, 0U);
    // Those who have blocks are believed all the same.
    join(2, 30);
    ASSERT_TRUE(play(
        [&](const Bytes20& who, const messages::GetRange& request) {
            return std::optional(who == peer(2) ? honest(request) : messages::Range{});
        },
        [&] { return taken() == 30; }));
}

TEST_F(RangeSyncTest, a_status_that_lies_again_and_again_costs_few_questions) {
    make_blocks(1);
    begin();
    std::uint64_t claim = std::uint64_t{1} << 40;
    const auto status = [&] { return messages::Status{claim, {}, 0, 0, 0}; };
    for (std::uint8_t i = 1; i <= 3; ++i) join(i, claim);
    sync_->peer_joined(peer(4), status(), true);
    const std::uint64_t began = clock_.monotonic_ms();
    std::uint64_t rounds = 0;
    // For ten minutes each claims more in each second: one refuses, one never answers, one leaves and comes back, one
    // is a member of the committee.
    ASSERT_TRUE(play(
        [&](const Bytes20& who, const messages::GetRange&) {
            return who == peer(2) ? std::nullopt : std::optional(messages::Range{});
        },
        [&] {
            claim += 1000;
            for (std::uint8_t i = 1; i <= 4; ++i) sync_->peer_said(peer(i), status());
            if (++rounds % 10 == 0) {
                sync_->peer_left(peer(3));
                join(3, claim);
            }
            return clock_.monotonic_ms() > began + 600'000;
        },
        1'000));
    sync_->stop();
    for (std::uint8_t i = 1; i <= 3; ++i) {
        EXPECT_GE(questions_[peer(i)], 2U) << int{i};
        EXPECT_LE(questions_[peer(i)], 12U) << int{i};
    }
    EXPECT_LE(questions_[peer(4)], 600'000 / p2p::sync::kMaxFixedDemotedMs + 6);
    EXPECT_FALSE(sync_->progress().syncing);
    EXPECT_EQ(sync_->progress().target, 0U);
}

TEST_F(RangeSyncTest, forged_blocks_cost_their_sender_and_delay_nobody) {
    make_blocks(200);
    begin();
    for (std::uint8_t i = 1; i <= 3; ++i) join(i, 200);
    ASSERT_TRUE(play(
        [&](const Bytes20& who, const messages::GetRange& request) {
            auto range = honest(request);
            if (who == peer(2))
                for (auto& block : range.blocks) block.block = sibling(block.block);
            return std::optional(std::move(range));
        },
        [&] { return taken() == 200; }));
    const std::lock_guard lock(mutex_);
    ASSERT_FALSE(reports_.empty());
    for (const auto& [who, offence] : reports_) {
        EXPECT_EQ(who, peer(2));
        EXPECT_EQ(offence, Offence::invalid_block);
    }
}

TEST_F(RangeSyncTest, a_peer_that_leaves_the_finalizations_out_holds_up_nobody) {
    make_blocks(100);
    begin();
    join(1, 100);
    join(2, 100);
    const auto began = clock_.monotonic_ms();
    ASSERT_TRUE(play(
        [&](const Bytes20& who, const messages::GetRange& request) {
            auto range = honest(request);
            if (who == peer(1))
                for (auto& block : range.blocks) block.certificate.clear();
            return std::optional(std::move(range));
        },
        [&] { return taken() == 100; }));
    EXPECT_LT(clock_.monotonic_ms() - began, 10'000U);
}

TEST_F(RangeSyncTest, hands_over_again_what_consensus_did_not_take) {
    make_blocks(20);
    begin();
    is_deaf_ = true;
    join(1, 20);
    const auto serve = [&](const Bytes20&, const messages::GetRange& request) {
        return std::optional(honest(request));
    };
    ASSERT_TRUE(play(serve, [&] { return sync_->progress().target == 20; }));
    {
        const std::lock_guard lock(mutex_);
        is_deaf_ = false;
    }
    // Some of it came another way meanwhile.
    taken_ = 4;
    sync_->committed(4, hashes_[4]);
    EXPECT_TRUE(play(serve, [&] { return taken() == 20; }));
}

TEST_F(RangeSyncTest, what_consensus_wishes_is_asked_for_at_once) {
    make_blocks(3);
    begin();
    join(1, 3);
    const auto serve = [&](const Bytes20&, const messages::GetRange& request) {
        return std::optional(honest(request));
    };
    const auto began = clock_.monotonic_ms();
    ASSERT_TRUE(play(serve, [&] { return clock_.monotonic_ms() > began + 3'000; }));
    EXPECT_EQ(taken(), 0U) << "so near, blocks come by themselves";
    sync_->ask();
    EXPECT_TRUE(play(serve, [&] { return taken() == 3; }));
    EXPECT_FALSE(sync_->progress().syncing);
}

TEST_F(RangeSyncTest, tells_of_final_blocks_that_do_not_follow_its_own) {
    make_blocks(20);
    hashes_[0].data[0] ^= 1;  // this node's genesis block is another
    begin();
    join(1, 20);
    ASSERT_TRUE(play([&](const Bytes20&, const messages::GetRange& request) { return std::optional(honest(request)); },
                     [&] {
                         const std::lock_guard lock(mutex_);
                         return !forks_.empty();
                     }));
    EXPECT_EQ(taken(), 0U);
    EXPECT_EQ(forks_[0], (std::pair{peer(1), std::uint64_t{1}}));
}

TEST_F(RangeSyncTest, of_another_history_than_the_checkpoints_it_takes_nothing_that_leads_there) {
    make_blocks(70);
    checkpoint_ = {60, hashes_[59]};  // the true block 60 is another than the peers'
    begin();
    join(1, 70);
    join(2, 70);
    const auto serve = [&](const Bytes20&, const messages::GetRange& request) {
        return std::optional(honest(request));
    };
    const auto began = clock_.monotonic_ms();
    ASSERT_TRUE(play(serve, [&] { return clock_.monotonic_ms() > began + 5'000; }));
    EXPECT_EQ(taken(), 0U);
    const std::lock_guard lock(mutex_);
    ASSERT_GE(reports_.size(), 1U);
    for (const auto& [who, offence] : reports_) EXPECT_EQ(offence, Offence::useless);
}

TEST_F(RangeSyncTest, takes_nothing_below_the_checkpoint_before_its_block_is_here) {
    make_blocks(100);
    checkpoint_ = {90, hashes_[90]};
    begin();
    join(1, 100);
    join(2, 100);
    bool is_there = false;
    const auto serve = [&](const Bytes20&, const messages::GetRange& request) -> std::optional<messages::Range> {
        if (request.first + request.count > 90 && !is_there) return std::nullopt;
        return honest(request);
    };
    const auto began = clock_.monotonic_ms();
    ASSERT_TRUE(play(serve, [&] { return clock_.monotonic_ms() > began + 1'000; }));
    EXPECT_EQ(taken(), 0U);
    is_there = true;
    EXPECT_TRUE(play(serve, [&] { return taken() == 100; }));
    EXPECT_TRUE(reports_.empty());
}

class LongEpochs : public RangeSyncTest {
protected:
    LongEpochs() : RangeSyncTest(400) {}
};

TEST_F(LongEpochs, a_long_stretch_that_one_finalization_made_final_is_caught_up_with) {
    make_blocks(300);
    ASSERT_GT(300U, 2 * sdbft::kMaxBlocksPerRange);
    for (std::size_t i = 1; i < 290; ++i) blocks_[i].certificate.clear();
    begin();
    join(1, 300);
    join(2, 300);
    ASSERT_TRUE(play([&](const Bytes20&, const messages::GetRange& request) { return std::optional(honest(request)); },
                     [&] { return taken() == 300; }));
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(reports_.empty());
}

}  // namespace
}  // namespace quern::node
