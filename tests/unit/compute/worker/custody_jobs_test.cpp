// What a custodian's worker does when it was drawn: gets its fragments, waits for them, or says what is wrong.
#include "compute/worker/custody_jobs.h"

#include "compute/core/custody_manifest.h"
#include "content_node.h"
#include "market_actor.h"

namespace quern::compute::worker::test {
namespace {

constexpr crypto::CellCode kCode{1, 3};

// Each question takes a while.
class SlowNode final : public ContentNode {
public:
    SlowNode(Contents& contents, ManualClock& clock) : ContentNode(contents), clock_(clock) {}
    Expected<ContentLeaves> content_leaves(const Hash32& id, std::uint64_t most) override {
        clock_.advance(900);
        return ContentNode::content_leaves(id, most);
    }
    Expected<std::set<Hash32>> want_contents(std::span<const Hash32> ids, std::uint64_t max_bytes) override {
        for (const Hash32& id : ids) wanted[id] = max_bytes;
        return ContentNode::want_contents(ids, max_bytes);
    }
    std::map<Hash32, std::uint64_t> wanted;

private:
    ManualClock& clock_;
};

class CustodyJobsTest : public Lifecycle {
protected:
    CustodyJobsTest() {
        world.params.market.custodians = kCode.total;
        for (std::uint64_t i = 0; i < kCode.total; ++i)
            give(world.state(), address(0xcc0 + i), Uint256(1'000'000'000'000));
        for (std::uint64_t i = 0; i < kCode.total; ++i)
            world.bond_role(address(0xcc0 + i), chain::types::Role::custodian, 1'000'000);
        live = world.live(reach(ClaimState::custody, truth));
        context.node = std::make_unique<ContentNode>(contents);
        ContentNode node(contents);
        const Hash32 content = node.put_content(Bytes(100'000, 7)).value();
        name(put_custody(node, kCode, std::vector{content}, {}).value());
        manifest = fetch_custody(node, live.claim.custody_content, kCode).value();
        contents.asked_leaves.clear();
    }
    void name(const Hash32& id) { live.claim.custody_content = id; }
    [[nodiscard]] CustodyOrder order() const { return {std::make_shared<const TaskClaim>(live), 1}; }
    Kept work() {
        board.give({{order().id(), order()}});
        EXPECT_TRUE(jobs.work());
        return board.facts(order());
    }

    TaskClaim live;
    core::CustodyManifest manifest;
    Contents contents;
    Bell bell;
    CustodyJobs::Orders board{bell};
    WorkerOptions options;
    ManualClock clock;
    InputStore inputs{InputLimits{}};
    std::atomic<bool> stop{false};
    Context context{options, clock, inputs, stop, {}, nullptr, nullptr, nullptr};
    CustodyJobs jobs{context, board};
};

TEST_F(CustodyJobsTest, its_own_fragments_are_fetched_once) {
    EXPECT_TRUE(work().data_checked);
    EXPECT_EQ(contents.asked_leaves, std::vector{manifest.contents[0].fragments[1]});
    EXPECT_TRUE(work().data_checked);
    EXPECT_EQ(contents.asked_leaves.size(), 1U);
    EXPECT_FALSE(jobs.work()) << "there is nothing new";
}

TEST_F(CustodyJobsTest, what_nobody_has_is_waited_for) {
    const Hash32 mine = manifest.contents[0].fragments[1];
    auto lost = contents.files.extract(mine);
    EXPECT_TRUE(work().data_awaited);
    EXPECT_EQ(contents.asked_leaves.size(), 1U);
    contents.files.insert(std::move(lost));
    EXPECT_TRUE(work().data_awaited);
    EXPECT_EQ(contents.asked_leaves.size(), 1U) << "not at once";
    clock.advance(1'000);
    const Kept kept = work();
    EXPECT_TRUE(kept.data_checked);
    EXPECT_FALSE(kept.data_awaited || kept.data_missing);
}

TEST_F(CustodyJobsTest, more_than_is_paid_for_is_not_kept) {
    const std::uint64_t paid = paid_fragment_bytes(live.task);
    ContentNode node(contents);
    auto& content = manifest.contents[0];
    const auto expect_missing = [&](std::uint64_t size, std::size_t asked) {
        content.size = size;
        name(node.put_content(core::encode(manifest)).value());
        clock.advance(1'000);
        EXPECT_TRUE(work().data_missing) << size;
        EXPECT_EQ(contents.asked_leaves.size(), asked) << size;
    };
    expect_missing(paid, 1);  // its fragment has another size
    expect_missing(paid + 1, 1);
    name(content.fragments[0]);
    clock.advance(1'000);
    EXPECT_TRUE(work().data_missing) << "no manifest";
}

TEST_F(CustodyJobsTest, many_slow_fragments_take_turns_with_those_of_others) {
    ContentNode node(contents);
    std::set<Hash32> many;
    for (std::uint8_t i = 0; i < 20; ++i) many.insert(node.put_content(Bytes(1, i)).value());
    name(put_custody(node, kCode, std::vector(many.begin(), many.end()), {}).value());
    contents.asked_leaves.clear();
    context.node = std::make_unique<SlowNode>(contents, clock);
    int turns = 1;
    for (; !work().data_checked; ++turns) {
        EXPECT_TRUE(board.facts(order()).data_awaited);
        ASSERT_LT(turns, 10);
        clock.advance(1'000);
    }
    EXPECT_EQ(turns, 4) << "six in a turn";
    EXPECT_EQ(contents.asked_leaves.size(), 20U) << "each once";
}

TEST_F(CustodyJobsTest, what_is_said_to_be_small_brings_nothing_large) {
    ContentNode node(contents);
    std::vector<Hash32> both{node.put_content(Bytes(1'000'000, 1)).value(), node.put_content(Bytes(10, 2)).value()};
    std::sort(both.begin(), both.end());
    name(put_custody(node, kCode, both, {}).value());
    auto slow = std::make_unique<SlowNode>(contents, clock);
    const auto& wanted = slow->wanted;
    context.node = std::move(slow);
    EXPECT_TRUE(work().data_checked);
    const auto named = fetch_custody(node, live.claim.custody_content, kCode).value();
    for (const auto& each : named.contents) EXPECT_EQ(wanted.at(each.fragments[1]), each.size);
}

// What keeps it from them is its own affair, but who is silent pays: near the end it says that it lacks them.
TEST_F(CustodyJobsTest, what_its_node_fails_to_get_is_lacking) {
    class BrokenNode final : public ContentNode {
    public:
        using ContentNode::ContentNode;
        Expected<ContentLeaves> content_leaves(const Hash32&, std::uint64_t) override {
            return busy(kBadAnswer, "content status 500");
        }
    };
    context.node = std::make_unique<BrokenNode>(contents);
    EXPECT_TRUE(work().data_awaited);
    EXPECT_FALSE(work().data_missing);
    ++live.custody->draws;
    stop = true;
    board.give({{order().id(), order()}});
    EXPECT_FALSE(jobs.work());
    EXPECT_FALSE(board.facts(order()).data_awaited) << "of a worker that stops nothing is learnt";
}

TEST_F(CustodyJobsTest, another_draw_is_another_job) {
    EXPECT_TRUE(work().data_checked);
    ++live.custody->draws;
    EXPECT_FALSE(board.facts(order()).data_checked);
}

}  // namespace
}  // namespace quern::compute::worker::test
