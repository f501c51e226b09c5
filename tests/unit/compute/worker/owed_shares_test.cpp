// The held shares that a solver collects when a retention is over.
#include "compute/worker/owed_shares.h"

#include <filesystem>
#include <fstream>

#include "base/fs.h"
#include "chain/market/delays.h"
#include "content_node.h"
#include "market_actor.h"

namespace quern::compute::worker::test {
namespace {

// Tells the tasks of a world, all of them each time.
class WorldNode : public ContentNode {
public:
    WorldNode(Contents& contents, World& world) : ContentNode(contents), world_(world) {}
    Expected<MarketNews> market_news(const std::optional<Head>&) override {
        MarketNews news;
        news.head = {world_.height - behind, Hash32::copy_of(Uint256(world_.height).to_be32()), world_.market_ms()};
        return news;
    }
    Expected<std::vector<TaskClaim>> live_tasks() override {
        std::vector<TaskClaim> tasks;
        for (std::uint64_t id = 1; id < world_.globals().next_task; ++id)
            if (world_.exists(id) && chain::types::is_live(world_.task(id))) tasks.push_back(world_.live(id));
        return tasks;
    }
    Expected<std::optional<Task>> task(std::uint64_t id) override {
        ++asked;
        if (down) return busy(kBadAnswer);
        if (forgets) return std::optional<Task>();
        if (dust == 0) return world_.state().load<Task>(id);
        auto task = world_.task(1);
        if (id <= dust) task.held = 1;
        return std::optional<Task>(std::move(task));
    }
    Expected<Uint256> gas_price() override { return price; }
    Expected<Uint256> tip() override { return Uint256(1); }
    Expected<std::uint64_t> estimate_gas(const Address&, const Address&, BytesView) override {
        return std::uint64_t{1};
    }

    Uint256 price{1};
    int asked = 0;
    bool down = false;
    bool forgets = false;
    std::uint64_t behind = 0;  // blocks
    std::uint64_t dust = 0;    // so many tasks are like the first, but that they hold a grain, which a tick costs

private:
    World& world_;
};

// What the file of noted tasks holds.
struct Noted {
    struct Entry {
        std::uint64_t task = 0;
        std::uint64_t height = 0;
        QUERN_FIELDS(v("task", task), v("height", height))
    };
    std::vector<Entry> tasks;
    QUERN_FIELDS(v("tasks", tasks))
};

class OwedSharesTest : public Lifecycle {
protected:
    OwedSharesTest() {
        world.params.market.held_percent = 20;
        world.params.market.retention_s = 400;
        std::filesystem::remove(file);
        owed.emplace(file, kSolver);
    }
    ~OwedSharesTest() override { std::filesystem::remove(file); }
    std::vector<Attempt> look() {
        EXPECT_TRUE(live.update(node));
        return owed->look(node, live, chain::market::in_ms(world.params.market.retention_s));
    }
    std::uint64_t settled() {
        const auto id = reach(ClaimState::challenge, truth);
        EXPECT_TRUE(look().empty());
        tick_when_due(id);
        return id;
    }
    std::uint64_t retention_end(std::uint64_t id) {
        return world.task(id).since + chain::market::in_ms(world.params.market.retention_s);
    }
    void end_retention(std::uint64_t id) {
        world.skip_until(retention_end(id));
        world.skip(1);
    }

    std::string file = testing::TempDir() + "/owed-" + std::to_string(::getpid()) + ".rlp";
    Contents contents;
    WorldNode node{contents, world};
    LiveTasks live;
    std::optional<OwedShares> owed;
};

TEST_F(OwedSharesTest, are_collected_with_a_tick_when_the_retention_is_over) {
    const auto id = settled();
    EXPECT_TRUE(look().empty());
    world.skip_until(retention_end(id));
    EXPECT_TRUE(look().empty()) << "the next block's time is not known";
    world.skip(1);
    const auto ticks = look();
    ASSERT_EQ(ticks.size(), 1U);
    EXPECT_EQ(ticks[0].kind, NativeKind::tick);
    world.begin();
    expect_ok(world.send(kSolver, ticks[0].kind, ticks[0].payload));
    ASSERT_TRUE(world.finish());
    EXPECT_FALSE(world.exists(id));
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(owed->size(), 0U) << "nothing more is to be had";
}

TEST_F(OwedSharesTest, are_asked_about_seldom_and_ticked_again_until_they_are_paid) {
    const auto id = settled();
    (void)look();
    EXPECT_EQ(node.asked, 1);
    for (int i = 0; i < 40; ++i) {
        world.skip(1);
        EXPECT_TRUE(look().empty());
    }
    EXPECT_EQ(node.asked, 1) << "its end is known";
    end_retention(id);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(look().size(), 1U);
        world.skip(1);
    }
}

TEST_F(OwedSharesTest, outlast_a_restart) {
    const auto id = settled();
    owed.emplace(file, kSolver);
    EXPECT_EQ(owed->size(), 1U);
    end_retention(id);
    EXPECT_EQ(look().size(), 1U);
    std::ofstream(file) << "nonsense";
    owed.emplace(file, kSolver);
    EXPECT_EQ(owed->size(), 0U) << "who ticks is paid all the same";
}

TEST_F(OwedSharesTest, are_this_solvers_alone) {
    const auto id = reach(ClaimState::challenge, truth);
    owed.emplace(file, kSecond);
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(owed->size(), 0U);
    owed.emplace(file, kSolver);
    (void)look();
    EXPECT_EQ(owed->size(), 1U);
    tick_when_due(id);
    owed.emplace(file, kSecond);  // the file of another solver, or one that lost the task to it
    (void)look();
    EXPECT_EQ(owed->size(), 0U);
}

TEST_F(OwedSharesTest, end_with_what_was_accepted_or_lost) {
    const auto id = settled();
    expect_ok(world.one(kSubmitter, NativeKind::task_accept, chain::types::TaskIdPayload{id}));
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(owed->size(), 0U);
}

TEST_F(OwedSharesTest, wait_for_the_end_of_a_question) {
    const auto id = settled();
    expect_ok(world.one(kSubmitter, NativeKind::data_challenge, chain::types::DataChallengePayload{id, 0, 0}));
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(node.asked, 0) << "it is a live task";
    world.skip_until(world.task(id).asked.at(0).until);
    expect_ok(world.tick(id));
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(owed->size(), 0U) << "nobody has shown anything";
}

TEST_F(OwedSharesTest, that_cost_more_than_they_pay_wait_for_a_lower_price) {
    const auto id = settled();
    end_retention(id);
    node.price = world.task(id).held;
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(owed->size(), 1U);
    node.price -= Uint256(1);
    world.skip(kOwedAgainBlocks);
    EXPECT_EQ(look().size(), 1U);
}

// Whoever settles many tasks that hold next to nothing, or a rise of the price of gas, leaves a solver with shares that
// wait for ever. Of as many as come round before the first is asked for again, all others would never have their turn.
TEST_F(OwedSharesTest, that_do_not_pay_keep_no_other_from_its_turn) {
    ASSERT_EQ(settled(), 1U);
    end_retention(1);
    node.dust = kMaxOwedAsked * kOwedAgainBlocks;
    Noted noted;
    for (std::uint64_t id = 1; id <= node.dust + 1; ++id) noted.tasks.push_back({id, 1});
    ASSERT_TRUE(fs::write_file_atomic(file, chain::types::encode_record(noted), 0600));
    owed.emplace(file, kSolver);
    ASSERT_EQ(owed->size(), node.dust + 1);
    std::size_t ticks = 0;
    for (std::uint64_t i = 0; i < 2 * kOwedAgainBlocks + 1; ++i) {
        const int before = node.asked;
        ticks += look().size();
        EXPECT_LE(node.asked - before, static_cast<int>(kMaxOwedAsked));
        world.skip(1);
    }
    EXPECT_GT(ticks, 0U);
}

TEST_F(OwedSharesTest, are_not_forgotten_for_a_node_that_is_behind_or_down) {
    const auto id = settled();
    end_retention(id);
    node.down = true;
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(owed->size(), 1U);
    node.down = false;
    node.forgets = true;
    node.behind = world.height;
    EXPECT_TRUE(look().empty());
    EXPECT_EQ(owed->size(), 1U) << "it has not come to the task yet";
    node.forgets = false;
    node.behind = 0;
    world.skip(kOwedAgainBlocks);
    EXPECT_EQ(look().size(), 1U);
}

}  // namespace
}  // namespace quern::compute::worker::test
