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
    for (std::size_t i = 0; i < kMaxExecutorJobs; ++i) executor_->validate({Hash32{{1}}, Bytes{1}});
    EXPECT_TRUE(failures_.empty());
    executor_->validate({Hash32{{1}}, Bytes{1}});
    ASSERT_EQ(failures_.size(), 1U);
    EXPECT_EQ(failures_[0].name, "executor.too_many_jobs");
    EXPECT_EQ(failures_[0].kind, ErrorKind::local_fault);
    go_on_.set_value();
    executor_->stop();
}

}  // namespace
}  // namespace quern::node
