// What changed of the live tasks since a block, as task_changes tells it.
#include <gtest/gtest.h>

#include "rpc/methods/task_changes.h"
#include "unit/rpc/fake_backend.h"

namespace quern::rpc {
namespace {

namespace types = chain::types;

class TaskChangesTest : public ::testing::Test, protected testing::Fixture {
protected:
    TaskChangesTest() {
        chain.current->number = 0;
        mine();
    }
    // The next block.
    void mine() {
        chain.add_block({});
        chain.current->number = chain.head_number();
        types::Globals globals;
        globals.market_ms = 1'000 * chain.head_number();
        chain.current->write(types::key_of<types::Globals>(), types::encode_record(globals));
    }
    template <class Record, class... Id>
    void write(const Record& record, const Id&... id) {
        chain.current->write(types::key_of<Record>(id...), types::encode_record(record));
    }
    [[nodiscard]] json::Value since(std::uint64_t number) const {
        const json::Value block = json::Value::array({number, to_hex0x(chain.blocks[number]->hash)});
        const auto answer = call("task_changes", block.dump());
        EXPECT_TRUE(answer) << answer.error().message;
        return answer ? *answer->find("changes") : json::Value();
    }
    [[nodiscard]] static types::Task task_of(std::uint64_t id, types::TaskState state = types::TaskState::open) {
        types::Task task;
        task.id = id;
        task.state = state;
        return task;
    }
    [[nodiscard]] static types::Task running(std::uint64_t id) {
        auto task = task_of(id, types::TaskState::running);
        task.seats.resize(1);
        task.seats[0].stretches = 1;
        return task;
    }
    [[nodiscard]] static types::Claim claim_of(const types::Task& task) {
        types::Claim claim;
        claim.id = *types::present_claim(task);
        claim.state = types::ClaimState::working;
        return claim;
    }
    // A claim for which nobody was drawn, as it is told when it was not known.
    [[nodiscard]] static json::Value whole(const types::Claim& claim) {
        json::Value told = types::to_json(claim);
        told.set("reports", json::Value::array());
        told.set("custody", nullptr);
        return told;
    }
    static json::Value parse(std::string_view text) { return *json::parse(text); }
    static constexpr std::string_view kNothing = R"({"tasks":[],"ended":[],"disputes":[]})";
};

TEST_F(TaskChangesTest, tells_the_newest_block_and_nothing_of_a_block_that_it_does_not_know) {
    write(task_of(1), std::uint64_t{1});
    mine();
    const std::string head =
        R"({"block":2,"hash":")" + to_hex0x(chain.blocks[2]->hash) + R"(","marketMs":2000,"changes":)";
    const auto other = R"([1,")" + to_hex0x(chain.blocks[2]->hash) + R"("])";
    const auto later = R"([3,")" + to_hex0x(chain.blocks[2]->hash) + R"("])";
    for (const std::string& params : {std::string("[]"), std::string("[1]"), other, later}) {
        const auto answer = call("task_changes", params);
        ASSERT_TRUE(answer) << params;
        EXPECT_EQ(answer->dump(), head + "null}") << params;
    }
    EXPECT_EQ(since(2), parse(kNothing));
    EXPECT_FALSE(call("task_changes", R"([1,"0x12"])"));
    chain.current->oldest = 2;
    EXPECT_TRUE(since(1).is_null());
    EXPECT_EQ(since(2), parse(kNothing));
}

TEST_F(TaskChangesTest, are_new_records_and_the_fields_that_differ_in_those_that_were_there) {
    auto task = task_of(7);
    task.steps = 9;
    write(task, std::uint64_t{7});
    mine();
    EXPECT_EQ(since(0).find("tasks")->dump(), R"([{"id":7,"task":)" + types::to_json(task).dump() + "}]");
    task.bids.resize(1);
    task.deadline = 50;
    write(task, std::uint64_t{7});
    mine();
    write(task, std::uint64_t{7});  // as it was
    const json::Value fields = json::Value::object({{"deadline", 50}, {"bids", *types::to_json(task).find("bids")}});
    const json::Value told = since(1);
    ASSERT_EQ(told.find("tasks")->size(), 1U);
    EXPECT_EQ(*told.find("tasks")->items()[0].find("task"), fields);
    EXPECT_EQ(told.find("tasks")->items()[0].find("claim"), nullptr);
    EXPECT_EQ(since(2), parse(kNothing));
}

TEST_F(TaskChangesTest, name_a_field_that_became_what_it_was_for_who_knows_what_was_between) {
    auto task = task_of(7);
    write(task, std::uint64_t{7});
    mine();
    task.deadline = 50;
    write(task, std::uint64_t{7});
    mine();
    task.deadline = 0;
    write(task, std::uint64_t{7});
    EXPECT_EQ(since(1).find("tasks")->dump(), R"([{"id":7,"task":{"deadline":0}}])");
}

TEST_F(TaskChangesTest, tell_all_reports_of_a_claim_when_one_of_them_changed) {
    const auto task = running(7);
    auto claim = claim_of(task);
    write(task, std::uint64_t{7});
    write(claim, claim.id);
    mine();
    claim.drawn = 2;
    write(claim, claim.id);
    types::VerifierReport reports[2];
    for (std::uint8_t place = 0; place < 2; ++place) {
        reports[place].claim = claim.id;
        reports[place].place = place;
        write(reports[place], claim.id, place);
    }
    const auto told = [&](std::uint64_t number) { return *since(number).find("tasks")->items()[0].find("claim"); };
    const auto both = [&] { return json::Value::array({types::to_json(reports[0]), types::to_json(reports[1])}); };
    EXPECT_EQ(told(1), json::Value::object({{"drawn", 2}, {"reports", both()}}));
    mine();
    reports[1].custody = 1;
    write(reports[1], claim.id, std::uint8_t{1});
    EXPECT_EQ(told(2), json::Value::object({{"reports", both()}})) << "the claim says the same";
    mine();
    write(claim, claim.id);
    EXPECT_EQ(since(3), parse(kNothing));
    // Others will be drawn.
    claim.drawn = 0;
    write(claim, claim.id);
    for (std::uint8_t place = 0; place < 2; ++place)
        chain.current->write(types::key_of<types::VerifierReport>(claim.id, place), std::nullopt);
    EXPECT_EQ(told(3), json::Value::object({{"drawn", 0}, {"reports", json::Value::array()}}));
}

TEST_F(TaskChangesTest, tell_the_custodians_of_a_claim_when_they_changed) {
    const auto task = running(7);
    const auto claim = claim_of(task);
    write(task, std::uint64_t{7});
    write(claim, claim.id);
    mine();
    const auto told = [&](std::uint64_t number) { return *since(number).find("tasks")->items()[0].find("claim"); };
    types::Custody custody;
    custody.claim = claim.id;
    custody.custodians.resize(3);
    write(custody, claim.id);
    EXPECT_EQ(told(1), json::Value::object({{"custody", types::to_json(custody)}})) << "the claim says the same";
    mine();
    custody.custodians[1].receipt = 1;
    write(custody, claim.id);
    EXPECT_EQ(told(2), json::Value::object({{"custody", types::to_json(custody)}}));
    mine();
    chain.current->write(types::key_of<types::Custody>(claim.id), std::nullopt);
    EXPECT_EQ(told(3), json::Value::object({{"custody", nullptr}}));
}

TEST_F(TaskChangesTest, tell_a_claim_alone_that_changed_alone_and_a_new_one_whole) {
    auto task = running(7);
    auto claim = claim_of(task);
    write(task, std::uint64_t{7});
    write(claim, claim.id);
    mine();
    claim.step = 100;
    claim.deadline = 900;
    write(claim, claim.id);
    EXPECT_EQ(since(1).find("tasks")->dump(), R"([{"id":7,"claim":{"deadline":900,"step":100}}])");
    mine();
    // Void; open again, without a claim; then with the next one.
    const auto first = claim.id;
    claim.state = types::ClaimState::voided;
    write(claim, first);
    task.state = types::TaskState::open;
    task.seats.clear();
    task.round = 1;
    write(task, std::uint64_t{7});
    const json::Value open = since(2).find("tasks")->items()[0];
    ASSERT_NE(open.find("claim"), nullptr);
    EXPECT_TRUE(open.find("claim")->is_null());
    mine();
    task = running(7);
    task.round = 1;
    claim = claim_of(task);
    write(task, std::uint64_t{7});
    write(claim, claim.id);
    for (const std::uint64_t block : {1, 2, 3})
        EXPECT_EQ(*since(block).find("tasks")->items()[0].find("claim"), whole(claim)) << block;
}

TEST_F(TaskChangesTest, tell_the_next_stretch_whole_although_its_claim_is_older) {
    auto task = running(7);
    task.seats[0].stretches = 2;
    auto first = claim_of(task);
    auto second = first;
    second.id.stretch = 1;
    second.step = 5;
    write(task, std::uint64_t{7});
    write(first, first.id);
    write(second, second.id);
    mine();
    second.step = 6;
    write(second, second.id);
    EXPECT_EQ(since(1), parse(R"({"tasks":[{"id":7,"nextClaim":{"step":6}}],"ended":[],"disputes":[]})"));
    mine();
    task.settled = 1;
    write(task, std::uint64_t{7});
    ASSERT_EQ(types::present_claim(task), second.id);
    EXPECT_EQ(*since(2).find("tasks")->items()[0].find("claim"), whole(second));
    EXPECT_TRUE(since(2).find("tasks")->items()[0].find("nextClaim")->is_null()) << "it is the present one now";
}

TEST_F(TaskChangesTest, tell_the_end_of_what_was_live) {
    write(task_of(1), std::uint64_t{1});
    write(task_of(2, types::TaskState::settled), std::uint64_t{2});
    mine();
    write(task_of(1, types::TaskState::expired), std::uint64_t{1});
    chain.current->write(types::key_of<types::Task>(std::uint64_t{2}), {});
    write(types::Dispute{}, std::uint64_t{3});
    EXPECT_EQ(since(1), parse(R"({"tasks":[],"ended":[1],"disputes":[3]})"));
    mine();
    chain.current->write(types::key_of<types::Task>(std::uint64_t{1}), {});
    EXPECT_EQ(since(2), parse(kNothing));
    EXPECT_EQ(since(1), parse(R"({"tasks":[],"ended":[1],"disputes":[3]})"));
}

TEST_F(TaskChangesTest, are_not_told_when_they_are_more_than_an_answer_holds) {
    for (std::uint64_t id = 1; id <= methods::kMostChanges.objects; ++id) write(task_of(id), id);
    EXPECT_EQ(since(0).find("tasks")->size(), methods::kMostChanges.objects);
    write(task_of(methods::kMostChanges.objects + 1), methods::kMostChanges.objects + 1);
    EXPECT_TRUE(since(0).is_null());
    mine();
    // New ones count by what they are now.
    auto large = task_of(1);
    large.spec.plan.resize(std::size_t{1} << 20);
    const std::uint64_t block = chain.head_number();
    mine();
    for (std::uint64_t id = 10'001; id <= 10'009; ++id) {
        large.id = id;
        write(large, id);
        EXPECT_EQ(since(block).is_null(), id >= 10'008) << id;
    }
}

TEST_F(TaskChangesTest, are_refused_when_the_store_fails) {
    chain.current->read_status = fault("store.corrupt");
    const auto answer = call("task_changes");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, kInternalError);
    chain.current->read_status = {};
    write(task_of(1), std::uint64_t{1});
    mine();
    chain.current->write(types::key_of<types::Task>(std::uint64_t{1}), Bytes{1, 2});
    const json::Value params = json::Value::array({1, to_hex0x(chain.blocks[1]->hash)});
    EXPECT_FALSE(call("task_changes", params.dump()));
}

// About 1,000 live tasks, each changed now and then.
TEST_F(TaskChangesTest, of_a_thousand_tasks_are_some_kilobytes_a_block) {
    for (std::uint64_t id = 1; id <= 1'000; ++id) {
        const auto task = running(id);
        write(task, id);
        write(claim_of(task), *types::present_claim(task));
    }
    std::size_t bytes = 0;
    constexpr std::uint64_t kBlocks = 60;
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
        mine();
        // A heartbeat of each in a minute.
        for (std::uint64_t id = block + 1; id <= 1'000; id += kBlocks) {
            auto claim = claim_of(running(id));
            claim.step = claim.loss = 100;
            claim.since = claim.deadline = 1'000'000;
            claim.checkpoint_root = claim.checkpoint_content = Hash32{{1}};
            write(claim, claim.id);
        }
        bytes += since(chain.head_number() - 1).dump().size();
    }
    EXPECT_LE(bytes / kBlocks, 10'000U);
}

}  // namespace
}  // namespace quern::rpc
