// Whole workers with their threads, files and senders, beside a node that is the handlers' test chain: markets of them,
// killed again and again, and nodes that hang or lie.
#include "compute/worker/shell.h"

#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "chain/market/custody.h"
#include "compute/core/custody_manifest.h"
#include "compute/program/safetensors.h"
#include "compute/program/state_file.h"
#include "compute/worker/node_client.h"
#include "content_node.h"
#include "crypto/content_id.h"
#include "crypto/signature.h"
#include "lifecycle_fixture.h"
#include "unit/rpc/fake_backend.h"

namespace quern::compute::worker {
namespace {

using namespace chain::exec::test;
using std::chrono::milliseconds;

constexpr std::uint64_t kMostBlocks = 400;
constexpr milliseconds kBlockTime{15};

// A chain and a content store that several workers' threads ask.
class SharedMarket {
public:
    template <class Function>
    auto with(Function&& function) {
        const MutexLock lock(mutex_);
        return function(world_);
    }
    void mine() {
        const MutexLock lock(mutex_);
        world_.begin();
        for (const auto& transaction : mempool_) {
            const auto result = world_.send_transaction(transaction.sender, transaction.tx);
            const bool ok = result.band == chain::exec::Band::ok;
            outcomes_[transaction.hash] = {ok, world_.height, std::string(result.name)};
            const auto kind = static_cast<NativeKind>(transaction.tx.native_kind);
            if (ok && kind != NativeKind::tick)
                ++executed_[{to_hex(transaction.sender),
                             std::to_string(transaction.tx.native_kind) + " " + to_hex(transaction.tx.data)}];
            // Ticks and what became void by others of the same block may come too late.
            if (!ok && kind != NativeKind::tick)
                refused_.push_back(std::to_string(transaction.tx.native_kind) + " " + result.to_string());
        }
        mempool_.clear();
        const Status finished = world_.finish();
        EXPECT_TRUE(finished) << finished.error().to_string();
    }
    // Of one transaction's payload, of one sender, the most often executed.
    int most_executed() {
        const MutexLock lock(mutex_);
        int most = 0;
        for (const auto& [what, times] : executed_) most = std::max(most, times);
        return most;
    }
    std::vector<std::string> refused() {
        const MutexLock lock(mutex_);
        return refused_;
    }

    Expected<std::uint64_t> estimate(const Address& sender, const Address& to, BytesView data) {
        const MutexLock lock(mutex_);
        chain::state::Overlay scratch(static_cast<const chain::state::StateReader&>(world_.state()));
        auto context = block_context(world_.height + 1);
        context.elapsed_ms = world_.params.min_block_ms;
        chain::exec::BlockExecution execution(world_.params, scratch, context);
        execution.begin();
        auto tx = chain::exec::test::transfer(scratch.account_or_empty(sender).nonce, to, 0);
        tx.data.assign(data.begin(), data.end());
        tx.gas_limit = 6'000'000;
        const auto result = execution.apply(from(sender, tx));
        if (result.band != chain::exec::Band::ok) return fail("node.rpc_error", result.to_string());
        return estimated_gas;
    }
    Hash32 queue(BytesView encoded) {
        const MutexLock lock(mutex_);
        mempool_.push_back(*chain::types::recover(encoded));
        return mempool_.back().hash;
    }
    std::uint64_t nonce(const Address& address) {
        const MutexLock lock(mutex_);
        std::uint64_t nonce = world_.state().account_or_empty(address).nonce;
        for (const auto& waiting : mempool_) nonce += waiting.sender == address;
        return nonce;
    }
    std::optional<TransactionOutcome> outcome(const Hash32& hash) {
        const MutexLock lock(mutex_);
        const auto found = outcomes_.find(hash);
        return found == outcomes_.end() ? std::nullopt : std::optional(found->second);
    }
    bool waits(const Hash32& hash) {
        const MutexLock lock(mutex_);
        return std::any_of(mempool_.begin(), mempool_.end(), [&](const auto& each) { return each.hash == hash; });
    }
    // As the node's RPC tells them.
    Expected<MarketNews> news(const std::optional<Head>& since) {
        const MutexLock lock(mutex_);
        show_newest_block();
        json::Value params = json::Value::array();
        if (since) params = json::Value::array({since->height, to_hex0x(since->hash)});
        const auto answer = rpc_.call("task_changes", params.dump());
        if (!answer) return fail("node.rpc_error", answer.error().message);
        return read_news(*answer);
    }
    std::vector<TaskClaim> live() {
        const MutexLock lock(mutex_);
        std::vector<TaskClaim> tasks;
        for (std::uint64_t id = 1; id < world_.globals().next_task; ++id)
            if (world_.exists(id) && chain::types::is_live(world_.task(id))) tasks.push_back(world_.live(id));
        return tasks;
    }
    void store(const Hash32& id, Bytes content) {
        const MutexLock lock(mutex_);
        contents_[id] = std::move(content);
    }
    void remove(const Hash32& id) {
        const MutexLock lock(mutex_);
        contents_.erase(id);
    }
    Expected<Bytes> content(const Hash32& id) {
        const MutexLock lock(mutex_);
        const auto found = contents_.find(id);
        if (found == contents_.end() && absent_is_on_its_way) return busy(chain::api::kContentOnItsWay);
        if (found == contents_.end()) return fail(kContentNotFound);
        ++reads_[id];
        return found->second;
    }
    int reads(const Hash32& id) {
        const MutexLock lock(mutex_);
        return reads_[id];
    }

    std::uint64_t estimated_gas = 3'000'000;  // of all that would not fail
    std::atomic<bool> uploads_hang{false};
    std::atomic<bool> absent_is_on_its_way{false};
    std::atomic<int> hanging{0};

private:
    void show_newest_block() QUERN_REQUIRES(mutex_) {
        using chain::types::ObjectPrefix;
        rpc::testing::FakeState& shown = *rpc_.chain.current;
        while (rpc_.chain.head_number() < world_.height) rpc_.chain.add_block({});
        shown.number = world_.height;
        for (const auto prefix : {ObjectPrefix::globals, ObjectPrefix::task, ObjectPrefix::claim, ObjectPrefix::report,
                                  ObjectPrefix::custody, ObjectPrefix::dispute}) {
            const Bytes all = chain::types::object_key(prefix);
            std::map<Bytes, std::optional<Bytes>, BytesLess> changed;
            for (const auto& [key, value] : shown.native_range(all, {}, SIZE_MAX)) changed[key] = std::nullopt;
            for (const auto& [key, value] : world_.state().native_range(all, {}, 100'000)) changed[key] = value;
            for (const auto& [key, value] : changed)
                if (shown.native(key) != value) shown.write(key, value);
        }
    }

    Mutex mutex_;
    World world_ QUERN_GUARDED_BY(mutex_);
    rpc::testing::Fixture rpc_ QUERN_GUARDED_BY(mutex_);  // over what the world was when it was asked last
    std::vector<chain::types::RecoveredTransaction> mempool_ QUERN_GUARDED_BY(mutex_);
    std::map<Hash32, TransactionOutcome, BytesLess> outcomes_ QUERN_GUARDED_BY(mutex_);
    std::map<std::pair<std::string, std::string>, int> executed_ QUERN_GUARDED_BY(mutex_);
    std::vector<std::string> refused_ QUERN_GUARDED_BY(mutex_);
    std::map<Hash32, Bytes, BytesLess> contents_ QUERN_GUARDED_BY(mutex_);
    std::map<Hash32, int, BytesLess> reads_ QUERN_GUARDED_BY(mutex_);
};

class MarketNode final : public NodeView {
public:
    explicit MarketNode(SharedMarket& market) : market_(market) {}
    Expected<MarketNews> market_news(const std::optional<Head>& since) override { return market_.news(since); }
    Expected<Uint256> gas_price() override { return Uint256(20); }
    Expected<Uint256> tip() override { return Uint256(1); }
    Expected<std::uint64_t> pending_nonce(const Address& address) override { return market_.nonce(address); }
    Expected<std::uint64_t> estimate_gas(const Address& sender, const Address& to, BytesView data) override {
        return market_.estimate(sender, to, data);
    }
    Expected<Hash32> send_raw(BytesView encoded) override { return market_.queue(encoded); }
    Expected<std::optional<TransactionOutcome>> outcome(const Hash32& hash) override { return market_.outcome(hash); }
    Expected<bool> knows(const Hash32& hash) override { return market_.waits(hash) || market_.outcome(hash); }
    Expected<std::vector<TaskClaim>> live_tasks() override {
        ++lists;
        return market_.live();
    }
    Expected<std::optional<Task>> task(std::uint64_t id) override {
        return market_.with([&](World& world) { return world.state().load<Task>(id); });
    }
    Expected<DisputeNews> dispute(std::uint64_t id) override {
        return market_.with([&](World& world) {
            DisputeNews news{world.dispute(id), {}};
            const auto game = chain::types::decode_record<core::Game>(news.dispute.game);
            if (const auto* post = game ? waiting_post(*game) : nullptr; post != nullptr)
                news.post = chain::types::encode_record(*post);
            return news;
        });
    }
    Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport& report) override {
        return market_.with([&](World& world) { return world.probes.at(report.result_root); });
    }
    Expected<chain::params::MarketParams> market_params() override {
        return market_.with([&](World& world) { return world.params.market; });
    }
    Expected<std::optional<chain::types::RoleBond>> bond(Role role, const Address& address) override {
        return market_.with([&](World& world) { return world.state().load<chain::types::RoleBond>(role, address); });
    }
    Expected<Bytes> get_content(const Hash32& id, std::uint64_t) override { return market_.content(id); }
    Expected<ContentLeaves> content_leaves(const Hash32& id, std::uint64_t) override {
        QUERN_TRY(const Bytes content, market_.content(id));
        return test::leaves_of(content);
    }
    Expected<Bytes> read_content(const Hash32& id, std::uint64_t first, std::uint64_t length) override {
        QUERN_TRY(const Bytes content, market_.content(id));
        return test::part_of(content, first, length);
    }
    Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) override {
        if (market_.uploads_hang) {
            ++market_.hanging;
            while (market_.uploads_hang) std::this_thread::sleep_for(milliseconds(1));
        }
        QUERN_TRY(Bytes content, test::read_all(size, source));
        if (crypto::content_id_of(content) != id) return fail("content.id_mismatch");
        market_.store(id, std::move(content));
        return {};
    }
    Expected<bool> has_content(const Hash32& id) override { return market_.content(id).has_value(); }
    Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32> ids) override {
        for (const Hash32& id : ids) market_.remove(id);
        return std::vector<Hash32>();
    }
    int lists = 0;  // of all live tasks that it was asked for

private:
    SharedMarket& market_;
};

// A worker as a process is one: a restart keeps its directory and its key alone.
class Worker {
public:
    Worker(SharedMarket& market, std::uint8_t number, const std::function<void(WorkerOptions&)>& set)
        : market_(market), node_(market) {
        secret_.data[31] = number;
        address_ = crypto::address20(key());
        options_.datadir = testing::TempDir() + "/quern-shell-test/" + std::to_string(number);
        options_.slice_ms = 5;
        options_.threads = 1;
        options_.ticks = false;
        options_.spending = {Uint256(1'000), ~Uint256()};
        set(options_);
        std::filesystem::remove_all(options_.datadir);
        std::filesystem::create_directories(options_.datadir);
        start();
    }
    ~Worker() {
        end();
        std::filesystem::remove_all(options_.datadir);
    }
    void start() {
        stop_ = false;
        auto spending = Spending::open(options_.datadir + "/spending.rlp", options_.spending, clock_);
        auto sender = Sender::open(node_, key(), chain::params::kDevnetChainId, std::move(*spending),
                                   options_.datadir + "/sent.rlp");
        ASSERT_TRUE(sender) << sender.error().to_string();
        sender_.emplace(std::move(*sender));
        shell_ = std::make_unique<Shell>(
            Shell::Parts{options_, [this] { return std::make_unique<MarketNode>(market_); }, node_, *sender_, clock_,
                         [] { return std::make_unique<OsRng>(); }, stop_, bell_});
    }
    void end() {
        stop_ = true;
        shell_.reset();
        sender_.reset();
    }
    void look() {
        const Status seen = shell_->look();
        EXPECT_TRUE(seen) << seen.error().to_string();
    }
    [[nodiscard]] const Address& address() const { return address_; }
    [[nodiscard]] int lists() const { return node_.lists; }

private:
    [[nodiscard]] crypto::PrivateKey key() const { return *crypto::PrivateKey::from_bytes(secret_.view()); }

    SharedMarket& market_;
    MarketNode node_;
    Hash32 secret_;
    Address address_;
    WorkerOptions options_;
    const SystemClock clock_;
    std::atomic<bool> stop_{false};
    Bell bell_;
    std::optional<Sender> sender_;
    std::unique_ptr<Shell> shell_;
};

class ShellTest : public testing::Test {
protected:
    ShellTest() {
        const Bytes program_bytes = tensor::encode(tiny().program);
        market_.store(crypto::sha256(as_bytes("program")), program_bytes);
        market_.store(crypto::sha256(as_bytes("init")), *program::write_state(tiny().program, tiny().init));
        market_.store(tiny().data.roots().front(), tiny().data.sets().front());
        market_.with([](World& world) {
            give(world.state(), kSubmitter, Uint256(1'000'000'000'000'000));
            give(world.state(), chain::exec::test::address(0x71c), Uint256(1'000'000'000'000'000));
            world.begin();
            EXPECT_TRUE(world.finish());
        });
        spec_.windows.bid_s = spec_.windows.start_s = spec_.windows.heartbeat_s = 30;
        spec_.windows.prove_s = spec_.windows.verify_s = spec_.windows.challenge_s = 30;
    }
    Worker& add(Role role, const std::function<void(WorkerOptions&)>& set = {}) {
        workers_.push_back(std::make_unique<Worker>(market_, static_cast<std::uint8_t>(workers_.size() + 1),
                                                    [&](WorkerOptions& options) {
                                                        options.solver = role == Role::solver;
                                                        options.verifier = role == Role::verifier;
                                                        options.whistleblower = role == Role::whistleblower;
                                                        options.custodian = role == Role::custodian;
                                                        if (set) set(options);
                                                    }));
        market_.with([&](World& world) {
            give(world.state(), workers_.back()->address(), Uint256(1'000'000'000'000'000));
            world.bond_role(workers_.back()->address(), role, 1'000'000);
        });
        return *workers_.back();
    }
    void add_everybody() {
        add(Role::solver);
        for (int i = 0; i < 2; ++i) add(Role::verifier);
        add(Role::whistleblower);
    }
    std::uint64_t submit() {
        return market_.with([&](World& world) {
            const auto result = world.one(kSubmitter, NativeKind::task_submit, spec_);
            EXPECT_EQ(result.band, chain::exec::Band::ok) << result.to_string();
            return world.globals().next_task - 1;
        });
    }
    Task task(std::uint64_t id) { return live(id).task; }
    TaskClaim live(std::uint64_t id) {
        return market_.with([&](World& world) { return world.live(id); });
    }
    void block() {
        for (const auto& worker : workers_) worker->look();
        std::this_thread::sleep_for(kBlockTime);
        for (const auto& worker : workers_) worker->look();
        market_.mine();
        expect_followed();
        // What is due and nobody of these ticks.
        for (const TaskClaim& each : market_.live())
            market_.with([&](World& world) {
                const std::uint64_t id = each.task.id;
                if (chain::types::is_final(each.task.state)) return;
                if (world.market_ms() + world.block_ms >= world.deadline(id)) (void)world.tick(id);
            });
    }
    // Who reads what changed knows what there is.
    void expect_followed() {
        const auto update = followed_.update(follower_);
        ASSERT_TRUE(update) << update.error().to_string();
        const auto all = market_.live();
        ASSERT_EQ(followed_.tasks().size(), all.size());
        for (const TaskClaim& live : all) {
            const auto& known = *followed_.tasks().at(live.task.id);
            EXPECT_EQ(chain::types::encode_record(known.task), chain::types::encode_record(live.task));
            EXPECT_EQ(chain::types::encode_record(known.claim), chain::types::encode_record(live.claim));
            ASSERT_EQ(known.custody.has_value(), live.custody.has_value());
            if (live.custody) {
                EXPECT_EQ(chain::types::encode_record(*known.custody), chain::types::encode_record(*live.custody));
            }
        }
        EXPECT_EQ(follower_.lists, 1);
    }
    template <class Condition>
    bool run_until(Condition&& condition, const std::function<void(std::uint64_t)>& between = {}) {
        for (std::uint64_t i = 0; i < kMostBlocks; ++i) {
            if (condition()) return true;
            block();
            if (between) between(i);
        }
        return condition();
    }
    [[nodiscard]] bool ended(std::uint64_t id) { return chain::types::is_final(task(id).state); }

    SharedMarket market_;
    MarketNode follower_{market_};
    LiveTasks followed_;
    chain::types::TaskSubmitPayload spec_ = tiny_spec(kSteps, kInterval);
    std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_F(ShellTest, workers_settle_a_task_among_them) {
    add_everybody();
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return ended(id); }));
    EXPECT_EQ(task(id).state, TaskState::settled) << task(id).reason;
    EXPECT_EQ(task(id).round, 0U);
    EXPECT_TRUE(task(id).slashes.empty());
    EXPECT_EQ(market_.most_executed(), 1);
    EXPECT_EQ(market_.refused(), std::vector<std::string>{});
    for (const auto& worker : workers_) EXPECT_EQ(worker->lists(), 1) << "then it reads what changed";
}

// Nobody else does anything about a task that has settled: no worker of these ticks.
TEST_F(ShellTest, a_solver_shows_what_is_asked_for_and_collects_its_share_when_the_retention_is_over) {
    market_.with([](World& world) {
        world.params.market.held_percent = 50;
        world.params.market.retention_s = 60;
    });
    Worker& solver = add(Role::solver);
    for (int i = 0; i < 2; ++i) add(Role::verifier);
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return ended(id); }));
    ASSERT_EQ(task(id).state, TaskState::settled) << task(id).reason;
    ASSERT_FALSE(task(id).held.is_zero());
    const auto restart = [&](std::uint64_t i) {
        if (i % 3 != 0) return;
        solver.look();
        solver.end();
        solver.start();
    };
    for (const std::uint64_t tile : {0U, 7U}) {
        market_.with([&](World& world) {
            const auto result =
                world.one(kSubmitter, NativeKind::data_challenge, chain::types::DataChallengePayload{id, 0, tile});
            EXPECT_EQ(result.band, chain::exec::Band::ok) << result.to_string();
        });
        ASSERT_TRUE(run_until([&] { return task(id).asked.empty(); }, restart));
        EXPECT_FALSE(task(id).held.is_zero()) << "it was answered";
    }
    market_.estimated_gas = 1;  // what it pays is more than what it costs
    ASSERT_TRUE(run_until([&] { return market_.with([&](World& world) { return !world.exists(id); }); }, restart));
    EXPECT_EQ(market_.most_executed(), 2) << "each question, with the same answer: the slot has one tile";
    EXPECT_EQ(market_.refused(), std::vector<std::string>{});
}

// Both segments are drawn, and the state between them is gone by then.
TEST_F(ShellTest, a_solver_that_keeps_two_states_is_verified_and_paid) {
    add(Role::solver, [](WorkerOptions& options) { options.keep_states_mib = 0; });
    for (int i = 0; i < 2; ++i) add(Role::verifier);
    const auto id = submit();
    const auto middle = [&] {
        const auto manifest = core::decode_manifest(*market_.content(live(id).claim.history_content));
        return manifest->checkpoint_contents.at(1);
    };
    ASSERT_TRUE(run_until([&] { return live(id).claim.state == ClaimState::proved; }));
    EXPECT_FALSE(market_.content(middle()));
    ASSERT_TRUE(run_until([&] { return live(id).claim.state > ClaimState::custody; }));
    EXPECT_TRUE(market_.content(middle()));
    ASSERT_TRUE(run_until([&] { return ended(id); }));
    EXPECT_EQ(task(id).state, TaskState::settled) << task(id).reason;
    EXPECT_EQ(task(id).round, 0U);
    EXPECT_TRUE(task(id).slashes.empty());
    EXPECT_EQ(market_.refused(), std::vector<std::string>{});
}

class KeptShellTest : public ShellTest {
protected:
    KeptShellTest() {
        market_.with([](World& world) { world.params.market.custodians = 3; });
        // The ids of fragments are made of what the contents are.
        const Bytes init = *program::write_state(tiny().program, tiny().init);
        spec_.contents.init = crypto::content_id_of(init);
        market_.store(spec_.contents.init, init);
        for (int i = 0; i < 3; ++i) add(Role::custodian);
        for (int i = 0; i < 2; ++i) add(Role::verifier);
    }
};

TEST_F(KeptShellTest, custodians_keep_what_a_history_begins_and_ends_with) {
    add(Role::solver, [](WorkerOptions& options) { options.keep_states_mib = 0; });
    const auto id = submit();
    std::optional<chain::types::Custody> custody;
    ASSERT_TRUE(run_until([&] { return ended(id); },
                          [&](std::uint64_t i) {
                              if (auto now = live(id).custody) custody = now;
                              Worker& worker = *workers_[i % workers_.size()];
                              worker.look();
                              worker.end();
                              worker.start();
                          }));
    EXPECT_EQ(task(id).state, TaskState::settled) << task(id).reason;
    EXPECT_TRUE(task(id).slashes.empty());
    ASSERT_TRUE(custody);
    EXPECT_EQ(custody->draws, 1U);
    EXPECT_GE(chain::market::receipts_of(*custody, 1), 2U);
    EXPECT_EQ(market_.most_executed(), 1);
    const auto manifest = core::decode_custody_manifest(*market_.content(task(id).start_custody));
    ASSERT_TRUE(manifest);
    EXPECT_EQ(manifest->code, (crypto::CellCode{1, 3}));
    EXPECT_NE(manifest->find(task(id).start_history), nullptr);
    for (const auto& each : manifest->contents)
        for (const Hash32& fragment : each.fragments) EXPECT_TRUE(market_.content(fragment));
}

TEST_F(KeptShellTest, a_manifest_of_wrong_fragments_costs_its_solver_the_task) {
    add(Role::solver, [](WorkerOptions& options) { options.fault.fault = Fault::bad_custody; });
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return task(id).round == 1; }));
    ASSERT_EQ(task(id).slashes.size(), 1U);
    EXPECT_EQ(task(id).slashes[0].reason, "data_missing");
    EXPECT_EQ(task(id).slashes[0].address, workers_.back()->address());
}

TEST_F(ShellTest, workers_that_are_killed_in_every_block_lose_nothing_and_send_nothing_twice) {
    add_everybody();
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return ended(id); },
                          [&](std::uint64_t i) {
                              Worker& worker = *workers_[i % workers_.size()];
                              worker.look();  // killed with transactions on their way
                              worker.end();
                              worker.start();
                          }));
    EXPECT_EQ(task(id).state, TaskState::settled) << task(id).reason;
    EXPECT_EQ(task(id).round, 0U);
    EXPECT_TRUE(task(id).slashes.empty());
    EXPECT_EQ(market_.most_executed(), 1);
    EXPECT_EQ(market_.refused(), std::vector<std::string>{});
}

TEST_F(ShellTest, invented_reports_are_beaten_by_a_whistleblower_that_is_killed_again_and_again) {
    add(Role::solver);
    for (int i = 0; i < 2; ++i)
        add(Role::verifier, [](WorkerOptions& options) { options.fault = {Fault::pass_without_work, 0}; });
    Worker& whistleblower = add(Role::whistleblower);
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return ended(id); },
                          [&](std::uint64_t i) {
                              if (i % 3 != 0) return;
                              whistleblower.look();
                              whistleblower.end();
                              whistleblower.start();
                          }));
    EXPECT_EQ(task(id).round, 0U);
    std::set<std::string> reasons;
    for (const auto& slash : task(id).slashes) reasons.insert(slash.reason);
    EXPECT_EQ(reasons, std::set<std::string>{"wrong_probe"});
    EXPECT_EQ(market_.most_executed(), static_cast<int>(live(id).claim.draws)) << "a receipt in each draw";
}

// Nobody watches: it is beaten with what the other one has computed for its own report.
TEST_F(ShellTest, an_invented_report_is_beaten_by_a_peer_that_is_killed_between_its_transactions) {
    add(Role::solver);
    Worker& liar = add(Role::verifier, [](WorkerOptions& options) { options.fault = {Fault::pass_without_work, 0}; });
    Worker& peer = add(Role::verifier);
    const auto id = submit();
    int killed = 0;
    ASSERT_TRUE(run_until([&] { return ended(id); },
                          [&](std::uint64_t i) {
                              const bool between = live(id).claim.commitments != 0;
                              if (!between && i % 4 != 0) return;
                              killed += between ? 1 : 0;
                              peer.look();
                              peer.end();
                              peer.start();
                          }));
    EXPECT_GT(killed, 0);
    EXPECT_EQ(task(id).state, TaskState::settled) << task(id).reason;
    ASSERT_EQ(task(id).slashes.size(), 1U);
    EXPECT_EQ(task(id).slashes[0].address, liar.address());
    EXPECT_EQ(task(id).slashes[0].reason, "wrong_probe");
    const auto& payments = task(id).payments;
    EXPECT_TRUE(std::any_of(payments.begin(), payments.end(),
                            [&](const auto& each) { return each.to == peer.address() && each.reason == "bounty"; }));
    EXPECT_EQ(live(id).claim.disputes.size(), 1U);
    EXPECT_EQ(market_.most_executed(), 1);
    EXPECT_EQ(market_.refused(), std::vector<std::string>{});
}

TEST_F(ShellTest, a_challenge_that_was_lost_is_not_made_again) {
    spec_.windows.challenge_s = 300;
    add(Role::solver);
    add(Role::verifier, [](WorkerOptions& options) { options.fault = {Fault::pass_without_work, 0}; });
    Worker& peer = add(Role::verifier);
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return live(id).claim.open_disputes != 0; }));
    // Its owner gives up what it could win.
    market_.with([&](World& world) {
        const std::uint64_t dispute = world.claim(id).disputes.at(0);
        const auto result =
            world.one(peer.address(), NativeKind::dispute_concede, chain::types::DisputeConcedePayload{dispute});
        EXPECT_EQ(result.band, chain::exec::Band::ok) << result.to_string();
    });
    ASSERT_EQ(live(id).claim.state, ClaimState::challenge);
    for (int i = 0; i < 12; ++i) block();
    EXPECT_EQ(live(id).claim.state, ClaimState::challenge);
    EXPECT_EQ(live(id).claim.disputes.size(), 1U);
    EXPECT_EQ(live(id).claim.commitments, 0U);
    ASSERT_EQ(task(id).slashes.size(), 1U);
    EXPECT_EQ(task(id).slashes[0].address, peer.address());
    EXPECT_EQ(task(id).slashes[0].reason, "false_accusation");
}

TEST_F(ShellTest, a_peer_whose_bond_does_not_cover_a_challenge_says_so_and_pays_nothing) {
    const std::string file = testing::TempDir() + "/quern-shell-test-stake.log";
    std::filesystem::remove(file);
    ASSERT_TRUE(log::configure({.file = file, .to_stderr = false}));
    market_.with([](World& world) { world.params.market.challenge_stake_gammas = 100'000; });  // of 10: the whole bond
    add(Role::solver);
    add(Role::verifier, [](WorkerOptions& options) { options.fault = {Fault::pass_without_work, 0}; });
    Worker& peer = add(Role::verifier);
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return ended(id); }));
    ASSERT_TRUE(log::configure({}));
    EXPECT_EQ(task(id).state, TaskState::settled) << task(id).reason;
    EXPECT_TRUE(task(id).slashes.empty());
    EXPECT_EQ(market_.refused(), std::vector<std::string>{});
    EXPECT_EQ(market_.with([&](World& world) { return world.bond(Role::verifier, peer.address()).locked; }), Uint256());
    std::ifstream in(file);
    int told = 0;
    for (std::string line; std::getline(in, line);)
        told += line.find("not sent purpose=challenge_commit") != std::string::npos &&
                line.find("bond.insufficient") != std::string::npos;
    EXPECT_EQ(told, 1);
}

// The chain would take bids on both, and the one that wins second would lose its deposit.
TEST_F(ShellTest, a_solver_bids_on_no_more_than_its_bond_covers) {
    market_.with([](World& world) { world.params.market.dispute_cost = 600; });  // a seat locks 600,000 of 1,000,000
    Worker& solver = add(Role::solver);
    for (int i = 0; i < 2; ++i) add(Role::verifier);
    const std::uint64_t both[] = {submit(), submit()};
    ASSERT_TRUE(
        run_until([&] { return task(both[0]).state > TaskState::open && task(both[1]).state > TaskState::open; }));
    int assigned = 0;
    for (const auto id : both) {
        assigned += task(id).seats.empty() ? 0 : 1;
        EXPECT_TRUE(task(id).slashes.empty());
        EXPECT_TRUE(!task(id).seats.empty() || task(id).reason == "no_bids") << task(id).reason;
    }
    EXPECT_EQ(assigned, 1);
    EXPECT_EQ(market_.with([&](World& world) { return world.bond(Role::solver, solver.address()).faults; }), 0U);
}

TEST_F(ShellTest, a_training_that_hangs_delays_no_bid) {
    Worker& busy = add(Role::solver);
    for (int i = 0; i < 2; ++i) add(Role::verifier);
    const auto stuck = submit();
    market_.uploads_hang = true;
    ASSERT_TRUE(run_until([&] { return market_.hanging > 0; }));
    ASSERT_EQ(live(stuck).claim.state, ClaimState::working);
    const auto next = submit();
    EXPECT_TRUE(run_until([&] { return !task(next).bids.empty() || task(next).state != TaskState::open; }));
    const auto seats = task(next).seats;
    EXPECT_TRUE(seats.empty() || seats[0].solver == busy.address());
    EXPECT_EQ(market_.hanging, 1) << "the training still hangs";
    market_.uploads_hang = false;
}

TEST_F(ShellTest, a_role_without_a_bond_is_told_once) {
    const std::string file = testing::TempDir() + "/quern-shell-test-bonds.log";
    std::filesystem::remove(file);
    ASSERT_TRUE(log::configure({.file = file, .to_stderr = false}));
    Worker poor(market_, 40, [](WorkerOptions& options) { options.solver = options.verifier = true; });
    const auto pass = [&](int blocks) {
        for (int i = 0; i < blocks; ++i) {
            market_.mine();
            poor.look();
        }
    };
    const auto told = [&](const std::string& role) {
        std::ifstream in(file);
        const std::string text((std::istreambuf_iterator<char>(in)), {});
        const std::string line = "no bond as " + role + ":";
        std::size_t count = 0;
        for (auto at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++count;
        return count;
    };
    pass(40);
    EXPECT_EQ(told("solver"), 1U);
    EXPECT_EQ(told("verifier"), 1U);
    EXPECT_EQ(told("whistleblower"), 0U) << "not its role";
    market_.with([&](World& world) {
        give(world.state(), poor.address(), Uint256(1'000'000'000'000'000));
        world.bond_role(poor.address(), Role::solver, 1'000'000);
    });
    poor.end();
    poor.start();
    pass(20);
    EXPECT_EQ(told("solver"), 1U) << "it has one";
    EXPECT_EQ(told("verifier"), 2U) << "a new process says it again";
    ASSERT_TRUE(log::configure({}));
}

TEST_F(ShellTest, contents_that_are_not_what_was_paid_for_get_no_bid) {
    add(Role::solver);
    market_.store(tiny().data.roots().front(), Bytes(100, 7));
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return ended(id); }));
    EXPECT_EQ(task(id).state, TaskState::expired);
    EXPECT_TRUE(task(id).bids.empty());
}

TEST_F(ShellTest, a_verifier_says_so_when_a_checkpoint_cannot_be_had) {
    add(Role::solver);
    for (int i = 0; i < 2; ++i) add(Role::verifier);
    const auto id = submit();
    ASSERT_TRUE(run_until([&] { return live(id).claim.state == ClaimState::proved; }));
    market_.store(live(id).claim.history_content, Bytes(64, 1));
    ASSERT_TRUE(run_until([&] { return live(id).claim.state > ClaimState::proved || task(id).round != 0; }));
    ASSERT_TRUE(run_until([&] { return task(id).round != 0 || ended(id); }));
    ASSERT_EQ(task(id).slashes.size(), 1U);
    EXPECT_EQ(task(id).slashes[0].reason, "data_missing") << "the solver's, of no verifier's bond";
}

// From the proof until `late_ms` of market time before the receipts' deadline no node has one content; then it does.
// Ends when the claim is settled, or the task open again.
class LateContentTest : public ShellTest {
protected:
    void run(std::uint64_t late_ms, const std::function<Hash32(const core::HistoryManifest&)>& chosen = {}) {
        add(Role::solver);
        for (int i = 0; i < 2; ++i) add(Role::verifier);
        id_ = submit();
        ASSERT_TRUE(run_until([&] { return live(id_).claim.state == ClaimState::proved; }));
        const Hash32 history = live(id_).claim.history_content;
        const Hash32 late = chosen ? chosen(*core::decode_manifest(*market_.content(history))) : history;
        const Bytes content = *market_.content(late);
        market_.remove(late);
        ASSERT_TRUE(run_until([&] { return live(id_).claim.state == ClaimState::custody; }));
        const auto deadline = live(id_).claim.deadline;
        ASSERT_TRUE(run_until([&] {
            return task(id_).round != 0 ||
                   market_.with([&](World& world) { return world.market_ms() + late_ms >= deadline; });
        }));
        market_.store(late, content);
        ASSERT_TRUE(run_until([&] { return task(id_).round != 0 || ended(id_); }));
        for (const auto& slash : task(id_).slashes) EXPECT_EQ(slash.role, Role::solver) << slash.reason;
    }
    std::uint64_t id_ = 0;
};

TEST_F(LateContentTest, what_nobody_has_until_late_in_the_window_is_not_missing) {
    run(spec_.windows.verify_s * 1000 / 2);
    EXPECT_EQ(task(id_).round, 0U);
    EXPECT_EQ(task(id_).state, TaskState::settled);
}

TEST_F(LateContentTest, what_does_not_come_is_missing_before_anybody_is_silent) {
    for (const bool on_its_way : {false, true}) {
        market_.absent_is_on_its_way = on_its_way;
        run(0);
        EXPECT_EQ(task(id_).round, 1U);
        EXPECT_EQ(task(id_).reason, "data_missing");
        workers_.clear();
    }
}

TEST_F(LateContentTest, while_it_is_on_its_way_the_rest_is_not_read_again) {
    market_.absent_is_on_its_way = true;
    Hash32 first;
    run(spec_.windows.verify_s * 1000 / 2, [&](const core::HistoryManifest& manifest) {
        first = manifest.checkpoint_contents[0];
        return manifest.checkpoint_contents[1];
    });
    EXPECT_EQ(task(id_).state, TaskState::settled);
    // By each of three as an input, by the solver to begin with, by each verifier to check it and to replay from it.
    EXPECT_LE(market_.reads(first), 3 + 1 + 2 * 2);
}

}  // namespace
}  // namespace quern::compute::worker
