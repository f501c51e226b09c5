#include "node/participation.h"

#include "chain_fixture.h"

namespace quern::node {
namespace {

template <class Condition>
bool wait_until(Condition condition, int seconds = 20) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

class AloneTest : public ChainFixture {
protected:
    Expected<std::unique_ptr<Participation>> participate() {
        ParticipationOptions options;
        options.network.chain_id = setup_->genesis.params.chain_id;
        options.network.genesis_hash = setup_->genesis_hash;
        options.network.listen = false;
        options.journal = folder_ + "/sdbft.journal";
        options.accept_missing_journal = accept_missing_journal_;
        return Participation::start({*store_, *setup_, *chain_, *pool_, *gateway_, system_,
                                     [this](const Error& error) {
                                         const std::lock_guard lock(mutex_);
                                         failure_ = error;
                                     }},
                                    options, test_key(kValidator), test_key(kValidator));
    }
    std::optional<Error> failure() {
        const std::lock_guard lock(mutex_);
        return failure_;
    }

    SystemClock system_;
    bool accept_missing_journal_ = false;
    std::mutex mutex_;
    std::optional<Error> failure_;
};

TEST_F(AloneTest, one_validator_finalizes_and_goes_on_after_a_restart) {
    auto node = participate();
    ASSERT_TRUE(node) << node.error().to_string();
    const Hash32 hash = submit(1, transfer(0, 5));
    ASSERT_TRUE(wait_until([&] { return reader_->receipt(hash).has_value(); }));
    ASSERT_TRUE(wait_until([&] { return (*node)->consensus().core.tip.number >= 2; }));
    EXPECT_TRUE((*node)->consensus().core.signs);
    EXPECT_TRUE((*node)->consensus().member);
    EXPECT_GE((*node)->finality().samples, 1U);
    EXPECT_FALSE((*node)->progress().syncing);
    (*node)->stop();
    const auto height = reader_->head_number();

    restart_after_power_loss();
    ASSERT_GE(reader_->head_number(), height);
    node = participate();
    ASSERT_TRUE(node) << node.error().to_string();
    EXPECT_TRUE(wait_until([&] { return reader_->head_number() > height; }));
    (*node)->stop();
    EXPECT_FALSE(failure());
}

TEST_F(AloneTest, a_failing_disk_stops_it_with_the_stores_error) {
    auto node = participate();
    ASSERT_TRUE(node) << node.error().to_string();
    store_->fail_writes_after(0);
    ASSERT_TRUE(wait_until([&] { return failure().has_value(); }));
    (*node)->stop();
    EXPECT_EQ(failure()->name, "store.io");
    EXPECT_EQ(chain_->tip().number, reader_->head_number());
}

TEST_F(AloneTest, signs_nothing_when_its_journal_is_gone) {
    auto node = participate();
    ASSERT_TRUE(node) << node.error().to_string();
    ASSERT_TRUE(wait_until([&] { return reader_->head_number() >= 1; }));
    (*node)->stop();
    std::filesystem::remove(folder_ + "/sdbft.journal");
    // The second time too: a start that refuses leaves nothing that could pass for the journal.
    for (int start = 0; start < 2; ++start) {
        restart_after_power_loss();
        node = participate();
        ASSERT_TRUE(node) << node.error().to_string();
        const auto height = reader_->head_number();
        EXPECT_FALSE((*node)->consensus().core.signs);
        EXPECT_EQ((*node)->consensus().core.refuses_because, "sdbft.no_journal");
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        EXPECT_EQ(reader_->head_number(), height);
        (*node)->stop();
    }
    restart_after_power_loss();
    accept_missing_journal_ = true;
    node = participate();
    ASSERT_TRUE(node) << node.error().to_string();
    EXPECT_FALSE((*node)->consensus().core.signs);  // it listens first
    const auto height = reader_->head_number();
    EXPECT_TRUE(wait_until([&] { return reader_->head_number() > height; }));
    EXPECT_TRUE((*node)->consensus().core.signs);
    (*node)->stop();
}

}  // namespace
}  // namespace quern::node
