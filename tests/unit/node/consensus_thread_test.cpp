#include "node/agree/consensus_thread.h"

#include "chain_fixture.h"

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;

struct IdlePorts final : ConsensusPorts {
    void send(sdbft::action::Send, bool) override {}
    void ask_range(std::uint64_t, std::optional<sdbft::PeerId>) override {}
    void ask_block(const Hash32&, std::optional<sdbft::PeerId>) override {}
    void build(sdbft::BlockRequest) override {}
    void validate(sdbft::action::Validate) override {}
    void commit(sdbft::action::Commit) override {}
    void keep(chain::consensus::Certificate) override {}
    void convict(sdbft::Evidence) override {}
    void misbehaved(const sdbft::action::Misbehaved&) override {}
    void serve_block(sdbft::PeerId, const Hash32&, const std::shared_ptr<const Bytes>&) override {}
    void serve_range(sdbft::PeerId, std::uint64_t) override {}
    bool transactions_wait() override {
        ++asked;
        return waiting;
    }
    void committed(const sdbft::event::Committed&) override { ++reports_of_commits; }
    void failed(const Error& error) override { failures.push_back(error); }

    std::vector<Error> failures;
    std::atomic<bool> waiting{false};
    std::atomic<std::size_t> asked{0};
    std::atomic<std::size_t> reports_of_commits{0};
};

class ConsensusThreadTest : public ChainFixture {
protected:
    void SetUp() override {
        sdbft::CoreSetup setup;
        setup.config.chain = {setup_->genesis_hash, setup_->genesis.params.chain_id};
        setup.config.epoch_length = setup_->genesis.params.epoch_length;
        setup.epoch = *chain_->epoch_setup();
        setup.tip = chain_->tip();
        auto made = ConsensusThread::make({std::move(setup), nullptr, scheme_, nullptr, ports_, clock_});
        ASSERT_TRUE(made) << made.error().to_string();
        thread_ = std::move(*made);
    }

    const sdbft::EcdsaScheme scheme_{};
    IdlePorts ports_;
    std::unique_ptr<ConsensusThread> thread_;
};

TEST_F(ConsensusThreadTest, holds_few_ranges_and_takes_more_when_they_are_done) {
    for (std::size_t i = 0; i < kMaxWaitingRanges; ++i) EXPECT_TRUE(thread_->post_range({}));
    EXPECT_FALSE(thread_->post_range({}));
    thread_->start();
    bool taken = false;
    for (int i = 0; i < 2000 && !taken; ++i) {
        taken = thread_->post_range({});
        if (!taken) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_TRUE(taken);
    thread_->stop();
    EXPECT_TRUE(ports_.failures.empty());
}

TEST_F(ConsensusThreadTest, is_woken_by_a_submission_only_while_it_knows_of_no_other) {
    const auto asked_after = [this](std::size_t before) {
        for (int i = 0; i < 2000 && ports_.asked == before; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return ports_.asked.load();
    };
    thread_->start();
    std::size_t asked = asked_after(0);
    // As long as none waits each is news.
    for (int i = 0; i < 3; ++i) {
        thread_->transactions_changed();
        const std::size_t now = asked_after(asked);
        EXPECT_GT(now, asked);
        asked = now;
    }
    ports_.waiting = true;
    thread_->transactions_changed();
    asked = asked_after(asked);
    for (int i = 0; i < 100; ++i) {
        thread_->transactions_changed();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(ports_.asked, asked);
    thread_->stop();
}

TEST_F(ConsensusThreadTest, an_answer_of_the_executor_wakes_it) {
    thread_->start();
    constexpr std::size_t kAnswers = 8;
    const SystemClock real;
    const std::uint64_t began = real.monotonic_ms();
    for (std::size_t i = 1; i <= kAnswers; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it has nothing to do, and waits
        thread_->post(sdbft::event::Committed{chain_->tip(), std::nullopt});
        while (ports_.reports_of_commits < i && real.monotonic_ms() < began + 60'000) std::this_thread::yield();
    }
    // By itself it looks once a second.
    EXPECT_LT(real.monotonic_ms() - began, kAnswers * 500);
    thread_->stop();
    EXPECT_EQ(ports_.reports_of_commits, kAnswers);
}

TEST_F(ConsensusThreadTest, more_answers_than_it_can_have_asked_for_stop_the_node) {
    for (std::size_t i = 0; i < kMaxWaitingEvents; ++i) thread_->post(sdbft::event::BuildFailed{i});
    EXPECT_TRUE(ports_.failures.empty());
    EXPECT_FALSE(thread_->post_range({}));
    thread_->post(sdbft::event::BuildFailed{0});
    ASSERT_EQ(ports_.failures.size(), 1U);
    EXPECT_EQ(ports_.failures[0].name, "consensus.too_many_events");
    EXPECT_EQ(ports_.failures[0].kind, ErrorKind::local_fault);
}

}  // namespace
}  // namespace quern::node
