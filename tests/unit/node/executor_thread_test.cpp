#include "node/chain/executor_thread.h"

#include <future>

#include "chain_fixture.h"

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;

// An executor whose first answer waits, so that what is asked after it does too.
class ExecutorThreadTest : public ChainFixture {
protected:
    void SetUp() override {
        executor_ = std::make_unique<ExecutorThread>(*chain_);
        executor_->start({[this](sdbft::Event&& event) {
                              if (answers_.empty()) {
                                  begun_.set_value();
                                  go_on_.get_future().wait();
                              }
                              answers_.push_back(std::move(event));
                              ++answered_;
                          },
                          [](const SnapshotPtr&) {}, [this](const Error& error) { failures_.push_back(error); }});
        executor_->build(request(1));
        begun_.get_future().wait();
    }
    // On a parent that nobody has: the answer is BuildFailed.
    static sdbft::BlockRequest request(std::uint64_t view) {
        sdbft::BlockRequest asked;
        asked.parent.hash = Hash32{{9}};
        asked.view = view;
        return asked;
    }

    std::promise<void> begun_;
    std::promise<void> go_on_;
    std::vector<sdbft::Event> answers_;  // of the executor's thread, until it has stopped
    std::atomic<std::size_t> answered_ = 0;
    std::vector<Error> failures_;
    std::unique_ptr<ExecutorThread> executor_;
};

TEST_F(ExecutorThreadTest, of_blocks_to_be_built_only_the_newest_waits) {
    for (std::uint64_t view = 2; view <= 50; ++view) executor_->build(request(view));
    go_on_.set_value();
    for (int i = 0; i < 2000 && answered_ < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    executor_->stop();
    ASSERT_EQ(answers_.size(), 2U);
    EXPECT_EQ(std::get<sdbft::event::BuildFailed>(answers_[1]).view, 50U);
    EXPECT_TRUE(failures_.empty());
}

TEST_F(ExecutorThreadTest, more_than_consensus_can_ask_for_stops_the_node) {
    for (std::size_t i = 0; i < kMaxExecutorJobs; ++i) executor_->validate({Hash32{{1}}, Bytes{1}, {}});
    EXPECT_TRUE(failures_.empty());
    executor_->validate({Hash32{{1}}, Bytes{1}, {}});
    ASSERT_EQ(failures_.size(), 1U);
    EXPECT_EQ(failures_[0].name, "executor.too_many_jobs");
    EXPECT_EQ(failures_[0].kind, ErrorKind::local_fault);
    go_on_.set_value();
    executor_->stop();
}

// Blocks of several views on the genesis block, which the chain has not executed, and a clock that can hold up whoever
// asks it: the executor does when it begins a block.
class OvertakenBlocks : public ChainFixture {
protected:
    class GateClock final : public Clock {
    public:
        explicit GateClock(const Clock& clock) : clock_(clock) {}
        std::uint64_t now_ms() const override { return clock_.now_ms(); }
        std::uint64_t monotonic_ms() const override {
            if (on_question) on_question();
            return clock_.monotonic_ms();
        }
        std::function<void()> on_question;

    private:
        const Clock& clock_;
    };

    chain::consensus::BuiltBlock build(std::uint64_t view) {
        auto asked = next_request();
        asked.view = view;
        auto built = chain_->build_block(asked);
        EXPECT_TRUE(built);
        return std::move(*built);
    }
    void SetUp() override {
        for (std::uint64_t nonce = 0; nonce < 5; ++nonce) submit(1, transfer(nonce));
        for (std::uint64_t view = 1; view <= 3; ++view) blocks_.push_back(build(view));
        parent_ = chain_->tip();
        chain_.reset();
        auto opened = Chain::open(
            {*store_, *setup_, *pool_, threads_, gate_, test_address(kValidator), checkpoint_, max_unflushed_bytes_});
        ASSERT_TRUE(opened);
        chain_ = std::move(*opened);
    }
    [[nodiscard]] sdbft::action::Validate question(std::size_t block, std::uint64_t view) const {
        return {blocks_[block].hash, blocks_[block].block, parent_.hash, 0, view};
    }
    // Asks `later` while the block of `first` is being executed, and waits for `answers`.
    void while_running(const sdbft::action::Validate& first, std::size_t answers,
                       const std::function<void(ExecutorThread&)>& later) {
        std::promise<void> begun;
        std::promise<void> go_on;
        bool asked = false;
        gate_.on_question = [&] {
            if (std::exchange(asked, true)) return;
            begun.set_value();
            go_on.get_future().wait();
        };
        ExecutorThread executor(*chain_);
        executor.start({[this](sdbft::Event&& event) {
                            answers_.push_back(std::move(event));
                            ++answered_;
                        },
                        [](const SnapshotPtr&) {}, [](const Error& error) { ADD_FAILURE() << error.to_string(); }});
        executor.validate(first);
        begun.get_future().wait();
        later(executor);
        go_on.set_value();
        for (int i = 0; i < 5000 && answered_ < answers; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        executor.stop();
        gate_.on_question = {};
    }
    [[nodiscard]] std::string answer(std::size_t number) const {
        if (number >= answers_.size()) return "none";
        if (const auto* valid = std::get_if<sdbft::event::Validated>(&answers_[number]))
            return (valid->valid ? "valid " : "invalid ") + name(valid->hash);
        if (const auto* forgotten = std::get_if<sdbft::event::Forgotten>(&answers_[number]))
            return "forgotten " + name(forgotten->hash);
        return std::holds_alternative<sdbft::event::Built>(answers_[number]) ? "built" : "other";
    }
    [[nodiscard]] std::string name(const Hash32& hash) const {
        for (std::size_t i = 0; i < blocks_.size(); ++i)
            if (blocks_[i].hash == hash) return std::to_string(i);
        return "?";
    }

    GateClock gate_{clock_};
    std::vector<chain::consensus::BuiltBlock> blocks_;
    chain::consensus::Tip parent_;
    std::vector<sdbft::Event> answers_;
    std::atomic<std::size_t> answered_ = 0;
};

TEST_F(OvertakenBlocks, a_block_does_not_keep_the_executor_from_the_next_views_one) {
    while_running(question(0, 1), 3, [&](ExecutorThread& executor) {
        executor.validate(question(1, 2));  // waits, and is overtaken there
        executor.validate(question(2, 3));
    });
    EXPECT_EQ(answer(0), "forgotten 0");
    EXPECT_EQ(answer(1), "forgotten 1");
    EXPECT_EQ(answer(2), "valid 2");
    EXPECT_EQ(chain_->prepared_blocks(), 1U);
}

TEST_F(OvertakenBlocks, a_block_does_not_keep_its_node_from_proposing) {
    auto own = next_request();
    own.view = 2;
    while_running(question(0, 1), 2, [&](ExecutorThread& executor) { executor.build(own); });
    EXPECT_EQ(answer(0), "forgotten 0");
    EXPECT_EQ(answer(1), "built");
}

TEST_F(OvertakenBlocks, what_is_still_wanted_is_not_given_up) {
    while_running(question(0, 2), 3, [&](ExecutorThread& executor) {
        executor.validate(question(1, 2));  // of the same view
        auto child = question(2, 3);
        child.parent = blocks_[0].hash;
        executor.validate(child);  // rests on the first: the second alone is overtaken
    });
    EXPECT_EQ(answer(0), "valid 0");
    EXPECT_EQ(answer(1), "forgotten 1");
}

TEST_F(OvertakenBlocks, epochs_come_before_views) {
    while_running(question(0, 7), 2, [&](ExecutorThread& executor) {
        auto next = question(1, 1);
        next.epoch = 1;
        executor.validate(next);
    });
    EXPECT_EQ(answer(0), "forgotten 0");
    EXPECT_EQ(answer(1), "valid 1");
}

TEST_F(OvertakenBlocks, stopping_waits_for_no_block) {
    std::promise<void> begun;
    std::promise<void> go_on;
    gate_.on_question = [&] {
        begun.set_value();
        go_on.get_future().wait();
    };
    ExecutorThread executor(*chain_);
    executor.start({[this](sdbft::Event&& event) { answers_.push_back(std::move(event)); }, [](const SnapshotPtr&) {},
                    [](const Error&) {}});
    executor.validate(question(0, 1));
    begun.get_future().wait();
    std::thread stopper([&] { executor.stop(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    go_on.set_value();
    stopper.join();
    EXPECT_EQ(answer(0), "forgotten 0");
}

// Before each signature and before each transaction: what a block can make a node do on after it was given up is one of
// each.
TEST_F(OvertakenBlocks, is_given_up_between_any_two_transactions) {
    constexpr int kTransactions = 5;
    for (int last = 0; last < 2 * kTransactions; ++last) {
        std::atomic<int> asked = 0;
        const auto status = chain_->validate_block(blocks_[0].hash, blocks_[0].block, [&] { return asked++ >= last; });
        ASSERT_FALSE(status) << last;
        EXPECT_EQ(status.error().name, "block.given_up");
        EXPECT_TRUE(status.error().is_busy());
        EXPECT_EQ(chain_->prepared_blocks(), 0U);
    }
    EXPECT_TRUE(chain_->validate_block(blocks_[0].hash, blocks_[0].block, [] { return false; }));
}

}  // namespace
}  // namespace quern::node
