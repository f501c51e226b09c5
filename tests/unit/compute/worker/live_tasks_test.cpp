// The live tasks as a worker knows them, beside RPC's methods over a state that random blocks change, and beside nodes
// that forget, go back or lie.
#include "compute/worker/live_tasks.h"

#include <gtest/gtest.h>

#include <random>

#include "compute/worker/node_client.h"
#include "unit/rpc/fake_backend.h"

namespace quern::compute::worker {
namespace {

using chain::types::Claim;
using chain::types::ClaimState;
using chain::types::Custody;
using chain::types::Task;
using chain::types::TaskClaim;
using chain::types::TaskState;
using chain::types::to_json;
using chain::types::VerifierReport;
using rpc::testing::Fixture;

// Blocks of a market.
class Market : public Fixture {
public:
    Market() { mine(); }
    void mine() {
        chain.add_block({});
        chain.current->number = chain.head_number();
        chain::types::Globals globals;
        globals.market_ms = 500 * chain.head_number();
        chain.current->write(chain::types::key_of<chain::types::Globals>(), chain::types::encode_record(globals));
    }
    void put(const Task& task) {
        chain.current->write(chain::types::key_of<Task>(task.id), chain::types::encode_record(task));
    }
    void put(const Claim& claim) {
        chain.current->write(chain::types::key_of<Claim>(claim.id), chain::types::encode_record(claim));
    }
    void put(const VerifierReport& report) {
        chain.current->write(chain::types::key_of<VerifierReport>(report.claim, report.place),
                             chain::types::encode_record(report));
    }
    [[nodiscard]] Task task(std::uint64_t id) const {
        return *chain::types::decode_record<Task>(*chain.current->native(chain::types::key_of<Task>(id)));
    }
    [[nodiscard]] std::uint64_t submit() {
        Task task;
        task.id = ++tasks_;
        task.steps = 100 + task.id;
        task.spec.work.tranche = 40;
        put(task);
        return task.id;
    }
    void start(std::uint64_t id) {
        Task task = this->task(id);
        task.state = TaskState::running;
        task.seats.resize(1);
        task.seats[0].stretches = 1;
        put(task);
        Claim claim;
        claim.id = *chain::types::present_claim(task);
        claim.state = ClaimState::working;
        put(claim);
    }
    void change_claim(std::uint64_t id, const std::function<void(Claim&)>& change) {
        const auto key = chain::types::key_of<Claim>(*chain::types::present_claim(task(id)));
        Claim claim = *chain::types::decode_record<Claim>(*chain.current->native(key));
        change(claim);
        put(claim);
    }
    // Others are drawn for the present claim.
    void draw(std::uint64_t id, std::uint8_t verifiers) {
        change_claim(id, [&](Claim& claim) {
            for (std::uint8_t place = verifiers; place < claim.drawn; ++place)
                chain.current->write(chain::types::key_of<VerifierReport>(claim.id, place), std::nullopt);
            claim.drawn = verifiers;
            for (std::uint8_t place = 0; place < verifiers; ++place) {
                VerifierReport report;
                report.claim = claim.id;
                report.place = place;
                put(report);
            }
        });
    }
    // One of them says something, of which the claim keeps nothing.
    void report(std::uint64_t id) {
        const Claim claim = *chain::types::decode_record<Claim>(
            *chain.current->native(chain::types::key_of<Claim>(*chain::types::present_claim(task(id)))));
        if (claim.drawn == 0) return;
        const auto key = chain::types::key_of<VerifierReport>(claim.id, std::uint8_t{0});
        auto report = *chain::types::decode_record<VerifierReport>(*chain.current->native(key));
        ++report.revealed_at;
        put(report);
    }
    // One of its custodians says something, or they are gone: of neither the claim keeps anything.
    void keep(std::uint64_t id, std::uint8_t receipt) {
        const auto claim = *chain::types::present_claim(task(id));
        const auto key = chain::types::key_of<Custody>(claim);
        Custody custody;
        custody.claim = claim;
        custody.custodians.push_back({chain::types::Address{}, receipt});
        chain.current->write(key, receipt == 0 ? std::nullopt : std::optional(chain::types::encode_record(custody)));
    }
    // The next stretch is worked on while this one is verified.
    void go_on(std::uint64_t id) {
        Task task = this->task(id);
        if (chain::types::next_claim(task) || task.seats[0].stretches == 3) return;
        ++task.seats[0].stretches;
        put(task);
        Claim claim;
        claim.id = *chain::types::next_claim(task);
        claim.state = ClaimState::working;
        put(claim);
    }
    void settle_first(std::uint64_t id) {
        Task task = this->task(id);
        if (!chain::types::next_claim(task)) return;
        ++task.settled;
        put(task);
    }
    void change_next(std::uint64_t id) {
        const auto next = chain::types::next_claim(task(id));
        if (!next) return;
        Claim claim = *chain::types::decode_record<Claim>(*chain.current->native(chain::types::key_of<Claim>(*next)));
        ++claim.step;
        put(claim);
    }
    void open_again(std::uint64_t id) {
        change_claim(id, [](Claim& claim) { claim.state = ClaimState::voided; });
        Task task = this->task(id);
        task.state = TaskState::open;
        task.seats.clear();
        task.settled = 0;
        ++task.round;
        put(task);
    }
    void end(std::uint64_t id) {
        Task task = this->task(id);
        task.state = TaskState::settled;
        put(task);
    }
    // Somebody asks for a piece of what has settled, or it is there.
    void ask(std::uint64_t id) {
        Task task = this->task(id);
        if (task.asked.empty())
            task.asked.resize(1);
        else
            task.asked.clear();
        put(task);
    }
    void forget(std::uint64_t id) { chain.current->write(chain::types::key_of<Task>(id), std::nullopt); }

    // Something happens to any of the tasks.
    void happen(std::mt19937& random) {
        if (tasks_ == 0 || random() % 8 == 0) {
            (void)submit();
            return;
        }
        const std::uint64_t id = random() % tasks_ + 1;
        if (!chain.current->native(chain::types::key_of<Task>(id))) return;
        const Task task = this->task(id);
        if (chain::types::is_final(task.state)) {
            if (random() % 3 == 0) ask(id);
            if (random() % 8 == 0) forget(id);
        } else if (task.state == TaskState::open) {
            Task changed = task;
            changed.deadline = random() % 3;
            if (random() % 2 == 0)
                put(changed);
            else
                start(id);
        } else if (random() % 6 == 0) {
            open_again(id);
        } else if (random() % 6 == 0) {
            end(id);
        } else if (random() % 3 == 0) {
            random() % 2 == 0 ? go_on(id) : settle_first(id);
        } else if (random() % 3 == 0) {
            change_next(id);
        } else {
            change_claim(id, [&](Claim& claim) {
                claim.step = random() % 3;
                claim.deadline = random() % 3;
            });
            if (random() % 2 == 0) draw(id, static_cast<std::uint8_t>(random() % 3));
            if (random() % 2 == 0) report(id);
            if (random() % 2 == 0) keep(id, static_cast<std::uint8_t>(random() % 3));
        }
    }

private:
    std::uint64_t tasks_ = 0;
};

// Asks the methods as NodeClient does, without the way in between.
class MarketNode : public NodeView {
public:
    explicit MarketNode(const Market& market) : market_(market) {}
    Expected<MarketNews> market_news(const std::optional<Head>& since) override {
        json::Value params = json::Value::array();
        if (since) params = json::Value::array({since->height, to_hex0x(since->hash)});
        const auto answer = market_.call("task_changes", params.dump());
        if (!answer) return fail("node.rpc_error", answer.error().message);
        QUERN_TRY(auto news, read_news(*answer));
        news.bytes = answer->dump().size();
        told_bytes += news.bytes;
        if (change) change(news);
        return news;
    }
    // A page of one task at a time; `between` may go on with the market.
    Expected<std::vector<TaskClaim>> live_tasks() override {
        ++lists;
        if (down) return busy("http.timeout");
        std::vector<TaskClaim> tasks;
        for (std::uint64_t start = 1;;) {
            const auto page = market_.call("task_list", R"(["live",)" + std::to_string(start) + ",1]");
            if (!page) return fail("node.rpc_error", page.error().message);
            for (const json::Value& item : page->find("tasks")->items()) {
                TaskClaim live;
                QUERN_CHECK(chain::types::from_json(item, live.task));
                if (const json::Value* claim = item.find("claim"); !claim->is_null())
                    QUERN_CHECK(read_claim(*claim, live));
                if (!check_claim(live)) continue;
                tasks.push_back(live);
                if (const json::Value* next = item.find("nextClaim"); !next->is_null()) {
                    QUERN_CHECK(read_claim(*next, live));
                    QUERN_CHECK(check_next(live));
                    tasks.push_back(std::move(live));
                }
            }
            if (page->find("next")->is_null()) return tasks;
            QUERN_TRY(start, page->get_u64("next"));
            if (between) between();
        }
    }
    Expected<Uint256> gas_price() override { return fail("node.down"); }
    Expected<Uint256> tip() override { return fail("node.down"); }
    Expected<std::uint64_t> pending_nonce(const chain::types::Address&) override { return fail("node.down"); }
    Expected<std::uint64_t> estimate_gas(const chain::types::Address&, const chain::types::Address&,
                                         BytesView) override {
        return fail("node.down");
    }
    Expected<Hash32> send_raw(BytesView) override { return fail("node.down"); }
    Expected<std::optional<TransactionOutcome>> outcome(const Hash32&) override { return fail("node.down"); }
    Expected<bool> knows(const Hash32&) override { return fail("node.down"); }
    Expected<DisputeNews> dispute(std::uint64_t) override { return fail("node.down"); }
    Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport&) override {
        return fail("node.down");
    }
    Expected<chain::params::MarketParams> market_params() override { return fail("node.down"); }
    Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role, const chain::types::Address&) override {
        return fail("node.down");
    }
    Expected<Bytes> get_content(const Hash32&, std::uint64_t) override { return fail("node.down"); }
    Expected<ContentLeaves> content_leaves(const Hash32&, std::uint64_t) override { return fail("node.down"); }
    Expected<Bytes> read_content(const Hash32&, std::uint64_t, std::uint64_t) override { return fail("node.down"); }
    Status put_stream(const Hash32&, std::uint64_t, const ByteSource&) override { return fail("node.down"); }
    Expected<bool> has_content(const Hash32&) override { return fail("node.down"); }
    Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32>) override { return fail("node.down"); }

    std::function<void(MarketNews&)> change;  // of what is told
    std::function<void()> between;            // two pages
    bool down = false;
    int lists = 0;
    std::size_t told_bytes = 0;

private:
    static Status read_claim(const json::Value& value, TaskClaim& live) {
        QUERN_CHECK(chain::types::from_json(value, live.claim));
        QUERN_CHECK(read_custody(*value.find("custody"), live));
        return read_reports(*value.find("reports"), live);
    }
    const Market& market_;
};

// Among which a claim is to be found.
const LiveTasks::Tasks& tasks_of(const LiveTasks& known, const TaskClaim& live) {
    return chain::types::next_claim(live.task) == live.claim.id ? known.next() : known.tasks();
}

class LiveTasksTest : public testing::Test {
protected:
    LiveTasks::Update update() {
        auto update = tasks_.update(node_);
        EXPECT_TRUE(update) << update.error().to_string();
        return update ? *update : LiveTasks::Update();
    }
    void expect_all(const LiveTasks& known) const {
        MarketNode other(market_);
        const auto all = *other.live_tasks();
        ASSERT_EQ(known.tasks().size() + known.next().size(), all.size());
        for (const TaskClaim& live : all) {
            const auto& slot = tasks_of(known, live);
            const auto found = slot.find(live.task.id);
            ASSERT_NE(found, slot.end()) << live.task.id;
            EXPECT_EQ(chain::types::to_json(found->second->task), chain::types::to_json(live.task));
            EXPECT_EQ(chain::types::to_json(found->second->claim), chain::types::to_json(live.claim));
            EXPECT_EQ(to_json(found->second->reports), to_json(live.reports));
            ASSERT_EQ(found->second->custody.has_value(), live.custody.has_value()) << live.task.id;
            if (live.custody) {
                EXPECT_EQ(to_json(*found->second->custody), to_json(*live.custody));
            }
        }
    }
    void expect_all() const { expect_all(tasks_); }

    Market market_;
    MarketNode node_{market_};
    LiveTasks tasks_;
};

TEST_F(LiveTasksTest, are_read_once_and_then_what_changed) {
    for (int i = 0; i < 20; ++i) (void)market_.submit();
    EXPECT_TRUE(update().all_anew);
    expect_all();
    EXPECT_FALSE(update().new_block);
    const auto first = node_.told_bytes;
    market_.mine();
    market_.start(3);
    market_.end(4);
    const auto news = update();
    EXPECT_TRUE(news.new_block);
    EXPECT_FALSE(news.all_anew);
    EXPECT_EQ(tasks_.head().height, market_.chain.head_number());
    EXPECT_EQ(tasks_.head().market_ms, 500 * market_.chain.head_number());
    expect_all();
    EXPECT_EQ(node_.lists, 1);
    EXPECT_LT(node_.told_bytes - first, 4'000U);
}

TEST_F(LiveTasksTest, of_any_blocks_are_what_the_node_has) {
    int lists = 0;
    std::size_t most_next = 0;
    for (unsigned seed = 0; seed < 10; ++seed) {
        std::mt19937 random(seed);
        Market market;
        MarketNode node(market);
        MarketNode other(market);
        LiveTasks often;
        LiveTasks seldom;
        for (int block = 0; block < 100; ++block) {
            market.mine();
            for (auto i = random() % 6; i != 0; --i) market.happen(random);
            if (random() % 16 == 0) market.chain.current->oldest = market.chain.head_number();
            // Some are made between two pages.
            node.between = [&] {
                if (random() % 4 != 0) return;
                market.mine();
                market.happen(random);
            };
            ASSERT_TRUE(often.update(node));
            node.between = {};
            ASSERT_TRUE(often.update(node));
            MarketNode plain(market);
            const auto all = *plain.live_tasks();
            ASSERT_EQ(often.tasks().size() + often.next().size(), all.size());
            most_next = std::max(most_next, often.next().size());
            if (random() % 8 == 0) {
                ASSERT_TRUE(seldom.update(other));
                ASSERT_EQ(seldom.tasks().size() + seldom.next().size(), all.size());
            }
            for (const TaskClaim& live : all)
                for (const LiveTasks* known : {&often, &seldom}) {
                    if (!(known->head() == often.head())) continue;
                    const auto& mine = *tasks_of(*known, live).at(live.task.id);
                    ASSERT_EQ(chain::types::to_json(mine.task), chain::types::to_json(live.task));
                    ASSERT_EQ(chain::types::to_json(mine.claim), chain::types::to_json(live.claim));
                    ASSERT_EQ(to_json(mine.reports), to_json(live.reports));
                }
        }
        lists += node.lists;
    }
    EXPECT_GT(lists, 20);
    EXPECT_LT(lists, 200);
    EXPECT_GT(most_next, 1U) << "tasks with two claims were among them";
}

// Else each question would make all workers read all tasks.
TEST_F(LiveTasksTest, that_have_ended_come_back_whole_while_they_are_asked_about) {
    const auto id = market_.submit();
    for (int i = 0; i < 20; ++i) (void)market_.submit();
    market_.start(id);
    market_.draw(id, 2);
    (void)update();
    const auto next = [&](const std::function<void()>& happen) {
        market_.mine();
        happen();
        const auto news = update();
        EXPECT_FALSE(news.all_anew);
        expect_all();
    };
    next([&] { market_.end(id); });
    EXPECT_FALSE(tasks_.tasks().contains(id));
    for (int i = 0; i < 2; ++i) {
        next([&] { market_.ask(id); });
        ASSERT_TRUE(tasks_.tasks().contains(id));
        EXPECT_EQ(tasks_.tasks().at(id)->reports.size(), 2U);
        next([&] { market_.ask(id); });
        EXPECT_FALSE(tasks_.tasks().contains(id));
    }
    EXPECT_EQ(node_.lists, 1);
}

TEST_F(LiveTasksTest, are_read_anew_when_the_node_cannot_tell_what_changed) {
    const auto id = market_.submit();
    (void)update();
    market_.mine();
    market_.start(id);
    market_.chain.current->oldest = market_.chain.head_number();
    node_.down = true;
    EXPECT_FALSE(tasks_.update(node_));
    EXPECT_EQ(tasks_.head().height, market_.chain.head_number() - 1) << "it is not taken for known";
    node_.down = false;
    EXPECT_TRUE(update().all_anew);
    expect_all();
    EXPECT_EQ(node_.lists, 3);
    market_.mine();
    market_.end(id);
    EXPECT_FALSE(update().all_anew);
    EXPECT_TRUE(tasks_.tasks().empty());
}

// A stranger's tasks fill what a list may have; who is bound by its own must not lose sight of them.
TEST_F(LiveTasksTest, are_followed_by_news_while_all_are_too_many_to_be_read) {
    const auto id = market_.submit();
    (void)update();
    node_.down = true;  // as "too many tasks"
    node_.change = [](MarketNews& news) { news.bytes = kMaxNewsBytes; };
    for (int i = 0; i < 3; ++i) {
        market_.mine();
        if (i == 0) market_.start(id);
        const auto told = tasks_.update(node_);
        EXPECT_TRUE(told) << told.error().to_string();
    }
    EXPECT_EQ(tasks_.tasks().at(id)->task.state, TaskState::running);
    EXPECT_EQ(tasks_.head().height, market_.chain.head_number());
}

TEST_F(LiveTasksTest, follow_a_node_that_has_other_blocks_or_fewer) {
    (void)market_.submit();
    for (int i = 0; i < 5; ++i) market_.mine();
    (void)update();
    // Put back from a copy: two blocks less.
    market_.chain.blocks.resize(market_.chain.blocks.size() - 2);
    market_.chain.current->number = market_.chain.head_number();
    EXPECT_TRUE(update().all_anew);
    EXPECT_EQ(tasks_.head().height, market_.chain.head_number());
    // The same height, another block.
    (void)market_.submit();
    market_.chain.blocks.back()->hash.data[5] ^= 1;
    const auto other = update();
    EXPECT_TRUE(other.new_block);
    EXPECT_TRUE(other.all_anew);
    expect_all();
    market_.mine();
    (void)market_.submit();
    EXPECT_FALSE(update().all_anew);
    expect_all();
}

TEST_F(LiveTasksTest, are_read_anew_when_news_do_not_fit) {
    const auto id = market_.submit();
    (void)update();
    const std::vector<std::function<void(MarketNews&)>> lies = {
        [](MarketNews& news) {
            news.tasks.push_back({77, {}, {}, {}});
        },
        [](MarketNews& news) {
            news.tasks.push_back({78, json::Value::object({{"deadline", 7}}), {}, {}});
        },
        [&](MarketNews& news) {
            news.tasks.push_back({id, json::Value::object({{"deadline", "soon"}}), {}, {}});
        },
        [&](MarketNews& news) {
            news.tasks.push_back({id, json::Value::object({{"id", 5}}), {}, {}});
        },
        [&](MarketNews& news) {
            news.tasks.push_back({id, json::Value::object({{"state", 3}}), {}, {}});
        },
        [&](MarketNews& news) {
            news.tasks.push_back({id, json::Value::object({{"state", 2}}), json::Value::object({{"step", 3}}), {}});
        },
    };
    int lists = 1;
    for (const auto& lie : lies) {
        market_.mine();
        node_.change = lie;
        EXPECT_TRUE(update().all_anew);
        expect_all();
        EXPECT_EQ(node_.lists, ++lists);
    }
}

TEST_F(LiveTasksTest, that_nobody_can_read_are_left_out_without_reading_all_each_time) {
    const auto id = market_.submit();
    (void)market_.submit();
    (void)update();
    market_.mine();
    Task broken = market_.task(id);
    broken.state = TaskState::assigned;  // to nobody
    market_.put(broken);
    EXPECT_TRUE(update().all_anew);
    EXPECT_EQ(tasks_.tasks().size(), 1U);
    market_.mine();
    broken.deadline = 9;
    market_.put(broken);
    EXPECT_FALSE(update().all_anew);
    EXPECT_EQ(node_.lists, 2);
    market_.mine();
    market_.end(id);
    (void)market_.submit();
    EXPECT_FALSE(update().all_anew);
    EXPECT_EQ(tasks_.tasks().size(), 2U);
    expect_all();
}

TEST_F(LiveTasksTest, are_asked_for_anew_after_a_nonsensical_answer_and_not_after_none) {
    class Answering final : public MarketNode {
    public:
        using MarketNode::MarketNode;
        Expected<MarketNews> market_news(const std::optional<Head>& since) override {
            asked.push_back(since.has_value());
            if (!error.empty()) return busy(error);
            return MarketNode::market_news(since);
        }
        std::string error;
        std::vector<bool> asked;
    } node(market_);
    LiveTasks tasks;
    ASSERT_TRUE(tasks.update(node));
    node.error = "http.timeout";
    EXPECT_FALSE(tasks.update(node));
    node.error = kBadAnswer;
    EXPECT_FALSE(tasks.update(node));
    node.error.clear();
    const auto again = tasks.update(node);
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->all_anew);
    EXPECT_EQ(node.asked, (std::vector<bool>{false, true, true, false}));
}

TEST_F(LiveTasksTest, do_not_fill_a_workers_memory) {
    (void)update();
    std::size_t told = 0;
    const int lists = 1;
    std::uint64_t next = 1'000;
    node_.change = [&](MarketNews& news) {
        Task task;
        task.id = ++next;
        news.tasks.push_back({task.id, chain::types::to_json(task), {}, {}});
        news.bytes = kMaxNewsBytes / 4;
    };
    for (int block = 0; block < 10; ++block) {
        market_.mine();
        (void)update();
        told += kMaxNewsBytes / 4;
        EXPECT_LE(tasks_.tasks().size(), 4U);
    }
    EXPECT_GT(told, 2 * kMaxNewsBytes);
    EXPECT_EQ(node_.lists, lists + 2);
}

}  // namespace
}  // namespace quern::compute::worker
