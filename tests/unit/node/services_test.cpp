#include "base/log.h"
#include "chain/exec/handlers/events.h"
#include "chain/mempool/dispute_lane.h"
#include "chain/types/abi.h"
#include "chain_fixture.h"
#include "compute/core/dispute_game.h"
#include "compute/core/history.h"
#include "compute/core/state_content.h"
#include "content/store.h"
#include "node/chain/event_log.h"
#include "node/options.h"
#include "node/serve/content_duties.h"
#include "node/serve/content_gateway.h"
#include "node/serve/market_guide.h"

namespace quern::node {
namespace {

namespace api = chain::api;

class SimulatorTest : public ChainFixture {
protected:
    SimulatorTest() {
        call_.from = test_address(1);
        call_.to = test_address(50);
    }
    api::SimulatedCall call_;
};

TEST_F(SimulatorTest, estimates_what_the_transaction_then_uses) {
    call_.value = 5;
    EXPECT_EQ(simulator_->estimate_gas(call_, {}).value_or(0), 21'000U);

    api::SimulatedCall native;
    native.from = test_address(1);
    const auto tx = bond(0, Uint256(5) * chain::params::kGrainsPerQrn);
    native.native_kind = tx.native_kind;
    native.data = tx.data;
    const auto estimate = simulator_->estimate_gas(native, {});
    ASSERT_TRUE(estimate) << estimate.error().to_string();
    auto exact = tx;
    exact.gas_limit = *estimate;
    const Hash32 hash = submit(1, exact);
    ASSERT_TRUE(make_block());
    const auto receipt = reader_->receipt(hash);
    ASSERT_TRUE(receipt);
    EXPECT_TRUE(receipt->receipt.success) << receipt->receipt.failure;
    EXPECT_EQ(receipt->receipt.gas_used, *estimate);
}

TEST_F(SimulatorTest, names_failures_as_wallets_know_them) {
    call_.value = Uint256(2000) * chain::params::kGrainsPerQrn;
    EXPECT_EQ(simulator_->estimate_gas(call_, {}).error().name, "insufficient funds for transfer");
    const auto unpaid = simulator_->call(call_, {});
    ASSERT_TRUE(unpaid);
    EXPECT_EQ(unpaid->failure, "insufficient funds for transfer");
    EXPECT_TRUE(unpaid->output.empty()) << "revert data makes clients say that a contract refused";
    call_.gas_price = 1'000'000'000;
    EXPECT_EQ(simulator_->estimate_gas(call_, {}).error().name, "insufficient funds for transfer");

    api::SimulatedCall unbond;
    unbond.from = test_address(1);
    unbond.to = types::group_address(types::KindGroup::roles);
    unbond.data = *types::abi::encode_call(types::NativeKind::unbond,
                                           types::encode_record(types::UnbondPayload{types::Role::solver, 1}));
    EXPECT_EQ(simulator_->estimate_gas(unbond, {}).error().name, "execution reverted");
    const auto called = simulator_->call(unbond, {});
    ASSERT_TRUE(called);
    EXPECT_FALSE(called->success);
    EXPECT_TRUE(types::abi::decode_error(called->output));
    EXPECT_EQ(simulator_->call(call_, {api::BlockSelector::Kind::number, 99, {}}).error().name,
              "chain.state_unavailable");
}

TEST_F(SimulatorTest, changes_nothing) {
    call_.value = 5;
    ASSERT_TRUE(simulator_->call(call_, {}));
    EXPECT_EQ(balance(test_address(50)), 0);
}

class LaneTest : public ChainFixture {
protected:
    LaneTest() : overlay_(empty_state()) {
        vm::tensor::ProgramHeader header;
        header.slot_count = 2;
        header.node_count = 3;
        header.work_units = 1;
        header.sizes = {2 * vm::tensor::kTileHashWork, 3 * vm::tensor::kTileBytes, 0, 2 * vm::tensor::kTileBytes,
                        2 * vm::tensor::kTileBytes};
        compute::core::GameContext context;
        context.plan = compute::core::TaskPlan::make({{Hash32{{3}}, header}}, compute::core::plain_body(8))->bytes();
        context.history_leaves = 9;
        const auto game = compute::core::open_history_game(context, Hash32{{1}}, Hash32{{2}}, 100, 10);
        EXPECT_TRUE(game) << game.error().to_string();
        if (game) dispute_.game = types::encode_record(*game);
        dispute_.id = 4;
        dispute_.defender = test_address(1);
        dispute_.rival = test_address(2);
        put();
    }
    static const chain::state::StateReader& empty_state() {
        static const chain::store::MemoryStore store;
        static const chain::state::FlatState state(store);
        return state;
    }
    void put() { overlay_.store(types::object_key(types::ObjectPrefix::dispute, dispute_.id), dispute_); }
    std::optional<std::uint64_t> due(std::uint8_t seed, types::NativeKind kind, Bytes payload) {
        auto tx = bond(0, 1);
        tx.native_kind = static_cast<std::uint8_t>(kind);
        tx.data = std::move(payload);
        return chain::mempool::due_dispute_move(overlay_, *types::recover(signed_by(seed, tx)));
    }
    chain::state::Overlay overlay_;
    types::Dispute dispute_;
};

TEST_F(LaneTest, takes_moves_that_a_side_owes) {
    const Bytes split = types::encode_record(types::DisputeSplitPayload{4, {}});
    EXPECT_EQ(due(1, types::NativeKind::dispute_split, split), 4U);
    EXPECT_EQ(due(2, types::NativeKind::dispute_split, split), std::nullopt) << "there is no post";
    EXPECT_EQ(due(3, types::NativeKind::dispute_split, split), std::nullopt);  // no side of it
    EXPECT_EQ(due(1, types::NativeKind::dispute_concede, types::encode_record(types::DisputeConcedePayload{4})), 4U);
    EXPECT_EQ(due(1, types::NativeKind::dispute_split, types::encode_record(types::DisputeSplitPayload{5, {}})),
              std::nullopt);
    EXPECT_EQ(due(1, types::NativeKind::dispute_split, Bytes{1, 2}), std::nullopt);
    EXPECT_EQ(due(1, types::NativeKind::bond, split), std::nullopt);
    auto game = *types::decode_record<compute::core::Game>(dispute_.game);
    const Bytes not_posted = dispute_.game;
    game.post.data[0] = 1;
    dispute_.game = types::encode_record(game);
    put();
    EXPECT_EQ(due(1, types::NativeKind::dispute_split, split), std::nullopt) << "the rival is to pick";
    EXPECT_EQ(due(2, types::NativeKind::dispute_split, split), 4U);
    dispute_.game = not_posted;
    put();
    game.post = {};
    game.charged_to = compute::core::kNotBegun;  // nobody's clock runs
    const Bytes going_on = std::exchange(dispute_.game, types::encode_record(game));
    put();
    EXPECT_EQ(due(1, types::NativeKind::dispute_split, split), std::nullopt);
    dispute_.game = going_on;
    put();
    EXPECT_EQ(due(1, types::NativeKind::dispute_split, split), 4U);
    dispute_.winner = types::DisputeWinner::rival;
    put();
    EXPECT_EQ(due(1, types::NativeKind::dispute_split, split), std::nullopt);
}

TEST_F(LaneTest, a_game_that_waits_is_told_without_a_deadline) {
    const CoreMarketGuide guide({});
    auto game = *types::decode_record<compute::core::Game>(dispute_.game);
    auto view = *guide.describe_game(dispute_.game);
    EXPECT_EQ(view.find("deadline")->as_u64().value_or(0), 110U);
    EXPECT_EQ(view.find("waitsFor")->size(), 1U);
    game.charged_to = compute::core::kNotBegun;
    view = *guide.describe_game(types::encode_record(game));
    EXPECT_TRUE(view.find("deadline")->is_null());
    EXPECT_EQ(view.find("waitsFor")->size(), 0U);
}

TEST_F(LaneTest, takes_calls_to_the_reserved_address_alike) {
    auto tx = transfer(0, 0);
    tx.to = types::group_address(types::KindGroup::disputes);
    tx.data = *types::abi::encode_call(types::NativeKind::dispute_concede,
                                       types::encode_record(types::DisputeConcedePayload{4}));
    EXPECT_EQ(chain::mempool::due_dispute_move(overlay_, *types::recover(signed_by(2, tx))), 4U);
    tx.to = test_address(9);
    EXPECT_EQ(chain::mempool::due_dispute_move(overlay_, *types::recover(signed_by(2, tx))), std::nullopt);
}

TEST(LeafTimerTest, times_survive_in_the_side_table) {
    chain::store::MemoryStore store;
    {
        LeafTimer timer;
        timer.leaf_begins(3);
        timer.leaf_ended(3);
        EXPECT_EQ(timer.microseconds(store, 3), std::nullopt);
        const LeafTimes times = timer.take();
        chain::store::WriteBatch batch;
        LeafTimer::write(times, batch);
        ASSERT_TRUE(store.write(batch, true));
        timer.leaf_begins(4);
        timer.leaf_ended(4);
        timer.publish(times);
        EXPECT_TRUE(timer.microseconds(store, 3));
        EXPECT_EQ(timer.microseconds(store, 4), std::nullopt);
        timer.discard();
        EXPECT_TRUE(timer.take().empty());
    }
    EXPECT_GE(LeafTimer().microseconds(store, 3).value_or(-1), 0.0);
}

TEST_F(ChainFixture, content_gateway_passes_uploads_through) {
    auto store = content::Store::open({folder_ + "/content", 1 << 20, 1 << 20});
    ASSERT_TRUE(store);
    StoreGateway gateway(**store);
    const Bytes bytes(1000, 3);
    const Hash32 id = crypto::content_id_of(bytes);
    auto upload = gateway.begin_upload(id, bytes.size());
    ASSERT_TRUE(upload);
    ASSERT_TRUE((*upload)->append(bytes));
    ASSERT_TRUE((*upload)->finish());
    EXPECT_EQ(*gateway.size(id), 1000U);
    EXPECT_EQ(gateway.read(id, 990, 100)->size(), 10U);
    EXPECT_EQ(gateway.begin_upload(id, 2 << 20).error().name, "content.too_large");
}

TEST_F(ChainFixture, contents_that_a_task_names_and_those_of_its_history_are_duties) {
    auto contents = *content::Store::open({folder_ + "/content", 1 << 20, 1 << 20});
    compute::core::HistoryManifest history;
    history.interval = 1;
    history.state_roots.resize(3);
    history.checkpoint_contents = {Hash32{{31}}, Hash32{{32}}, Hash32{{33}}};
    chain::store::MemoryStore state_store;
    const auto put = [&](const auto& object) {
        chain::store::WriteBatch batch;
        const Bytes key = types::key_of<std::decay_t<decltype(object)>>(object.id);
        batch.put(chain::store::table_key(chain::store::Table::native, {key}), types::encode_record(object));
        ASSERT_TRUE(state_store.write(batch, true));
    };
    types::Task task;
    task.id = 300;
    task.spec.contents.programs = {Hash32{{1}}};
    task.spec.contents.init = Hash32{{2}};
    task.spec.data_roots = {Hash32{{3}}};
    task.steps = 2;
    task.spec.work.interval = 1;
    put(task);
    const chain::state::FlatState state(state_store);
    using Ids = std::set<Hash32>;
    const chain::params::MarketParams market;
    Ids all{Hash32{{5}}};  // nobody names this one
    for (const Hash32& id : {Hash32{{1}}, Hash32{{2}}, Hash32{{3}}, Hash32{{4}}}) all.insert(id);
    all.insert(history.checkpoint_contents.begin(), history.checkpoint_contents.end());
    const auto idle_of = [&](Ids ids) {
        const Status known = keep_content_duties(state, market, *contents, ids);
        EXPECT_TRUE(known) << known.error().to_string();
        return ids;
    };
    const auto without = [](Ids ids, std::initializer_list<std::uint8_t> held) {
        for (const std::uint8_t id : held) ids.erase(Hash32{{id}});
        return ids;
    };
    EXPECT_EQ(idle_of(all), without(all, {1, 2, 3}));
    const crypto::ContentShards list{crypto::kContentShardBytes + 5, {Hash32{{1}}, Hash32{{2}}}};
    const Ids of_list{list.id(), list.id_of(0), list.id_of(1), Hash32{{5}}};
    task.spec.data_roots = {list.id()};
    put(task);
    EXPECT_EQ(idle_of(of_list), (Ids{list.id_of(0), list.id_of(1), Hash32{{5}}})) << "what is not here names nothing";
    ASSERT_TRUE(contents->put_shards(list));
    EXPECT_EQ(idle_of(of_list), (Ids{Hash32{{5}}})) << "data, with their shards";
    task.spec.data_roots = {Hash32{{3}}};
    task.spec.contents.init = list.id();
    put(task);
    EXPECT_EQ(idle_of(of_list), (Ids{Hash32{{5}}})) << "and an initial state";
    task.spec.contents.init = Hash32{{2}};
    put(task);
    for (std::uint64_t id = 1; id < 290; ++id) {
        types::Task other;
        other.id = id;
        other.spec.data_roots = {Hash32{{3}}};
        put(other);
    }
    types::Claim claim;
    claim.id = {300, 0, 0, 1};
    claim.checkpoint_content = Hash32{{4}};
    claim.history_content = *contents->put(encode(history));
    put(claim);
    all.insert(claim.history_content);
    EXPECT_EQ(idle_of(all), (Ids{Hash32{{5}}})) << "of steps and interval that are the task's";
    task.steps = 3;
    put(task);
    EXPECT_NE(idle_of(all), (Ids{Hash32{{5}}})) << "of other steps";
    task.spec.work.tranche = 2;
    put(task);
    EXPECT_EQ(idle_of(all), (Ids{Hash32{{5}}})) << "of a tranche";
    task.steps = 2;
    task.spec.work.interval = 2;
    put(task);
    EXPECT_EQ(idle_of(all), (Ids{Hash32{{5}}, Hash32{{31}}, Hash32{{32}}, Hash32{{33}}})) << "it is another task's";
    task.spec.work.interval = 1;
    put(task);
    // A state's slots are duties where the state is.
    const auto slots_of = [&](const std::vector<Hash32>& roots) {
        Bytes bytes = compute::core::encode_state({}, {}, roots);
        return *contents->put(bytes);
    };
    const Hash32 last = slots_of({Hash32{{51}}, Hash32{{52}}});
    Ids slots{Hash32{{50}}, Hash32{{51}}, Hash32{{52}}, Hash32{{53}}, last};
    EXPECT_EQ(idle_of(slots), slots);
    const types::Claim before = claim;
    history.checkpoint_contents.back() = last;
    claim.history_content = *contents->put(encode(history));
    put(claim);
    EXPECT_EQ(idle_of(slots), (Ids{Hash32{{50}}, Hash32{{53}}}));
    claim.checkpoint_content = slots_of({Hash32{{53}}});
    put(claim);
    EXPECT_EQ(idle_of(slots), (Ids{Hash32{{50}}})) << "the last checkpoint";
    claim.checkpoint_content = list.id();
    put(claim);
    EXPECT_EQ(idle_of(of_list), (Ids{list.id_of(0), list.id_of(1), Hash32{{5}}}))
        << "a history's states have no shards";
    claim = before;
    put(claim);
    claim.state = types::ClaimState::voided;
    put(claim);
    EXPECT_EQ(idle_of(all), without(all, {1, 2, 3})) << "nothing is owed for what was not accepted";
    claim.state = types::ClaimState::settled;
    put(claim);
    const Ids settled{Hash32{{5}}, Hash32{{31}}, Hash32{{32}}};
    EXPECT_EQ(idle_of(all), settled) << "the state that was paid for";
    task.settled = 2;
    put(task);
    EXPECT_EQ(idle_of(all), without(all, {1, 2, 3})) << "a later one was";
    task.settled = 1;
    put(task);
    EXPECT_EQ(idle_of(all), settled);
    // The retention is over, and nobody has paid for the tick.
    task.state = types::TaskState::settled;
    task.since = 1'000;
    put(task);
    types::Globals globals;
    globals.market_ms = task.since + market.retention_s * 1000 - 1;
    const auto put_globals = [&] {
        chain::store::WriteBatch batch;
        batch.put(chain::store::table_key(chain::store::Table::native, {types::key_of<types::Globals>()}),
                  types::encode_record(globals));
        ASSERT_TRUE(state_store.write(batch, true));
    };
    put_globals();
    EXPECT_EQ(idle_of(all), settled);
    ++globals.market_ms;
    put_globals();
    EXPECT_EQ(idle_of(all), without(all, {3})) << "that of tasks that are open";
    task.asked.resize(1);
    put(task);
    EXPECT_EQ(idle_of(all), settled) << "somebody asks whether it is there";
    task.asked.clear();
    put(task);
    task.state = types::TaskState::running;
    put(task);
    // What cannot be read says nothing of what may go.
    const std::string hex = to_hex(claim.history_content);
    std::ofstream(folder_ + "/content/" + hex.substr(0, 2) + "/" + hex) << "damaged";
    EXPECT_EQ(keep_content_duties(state, market, *contents, all).error().name, "content.corrupt");
    claim.history_content = {};
    claim.checkpoint_content = last;
    put(claim);
    EXPECT_TRUE(keep_content_duties(state, market, *contents, all));
    const std::string state_hex = to_hex(claim.checkpoint_content);
    std::ofstream(folder_ + "/content/" + state_hex.substr(0, 2) + "/" + state_hex) << "damaged";
    EXPECT_EQ(keep_content_duties(state, market, *contents, all).error().name, "content.corrupt");
}

TEST_F(ChainFixture, market_events_become_log_lines) {
    namespace events = chain::exec::events;
    namespace abi = types::abi;
    const std::string file = folder_ + "/events.log";
    log::Options options;
    options.file = file;
    options.to_stderr = false;
    ASSERT_TRUE(log::configure(options));
    const auto tasks = types::group_address(types::KindGroup::tasks);
    const auto disputes = types::group_address(types::KindGroup::disputes);
    types::Receipt receipt;
    receipt.logs.push_back(abi::event_log(
        tasks, events::TaskStateChanged{7, types::TaskState::open, types::TaskState::assigned, "lowest_bid", 0}));
    receipt.logs.push_back(abi::event_log(tasks, events::Paid{7, test_address(1), 12, "solver_reward"}));
    receipt.logs.push_back(abi::event_log(disputes, events::DisputeClosed{3, 7, types::DisputeWinner::rival, "leaf"}));
    receipt.logs.push_back({tasks, {Hash32{{1}}}, {}});           // of no known kind
    receipt.logs.push_back({tasks, receipt.logs[0].topics, {}});  // damaged
    log_market_events(99, {receipt});
    log::flush();
    ASSERT_TRUE(log::configure(log::Options{}));
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    EXPECT_NE(text.find("task state task=7 from=open to=assigned reason=lowest_bid block=99"), std::string::npos)
        << text;
    EXPECT_NE(text.find("reason=solver_reward"), std::string::npos);
    EXPECT_NE(text.find("dispute closed dispute=3 task=7 winner=rival reason=leaf"), std::string::npos);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

class OptionsTest : public ::testing::Test {
protected:
    OptionsTest() {
        std::string pattern = ::testing::TempDir() + "quern-options-XXXXXX";
        if (::mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
    }
    ~OptionsTest() override { std::filesystem::remove_all(folder_); }
    void write_conf(std::string_view text) { std::ofstream(folder_ + "/quern.conf") << text; }
    ParsedOptions parse(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"quernd", "-datadir=" + folder_});
        std::vector<const char*> argv;
        for (const auto& argument : arguments) argv.push_back(argument.c_str());
        return parse_options(static_cast<int>(argv.size()), argv.data());
    }
    std::string folder_;
};

TEST_F(OptionsTest, has_defaults_and_takes_bitcoin_style_options) {
    auto parsed = parse({});
    ASSERT_FALSE(parsed.exit);
    EXPECT_EQ(parsed.options.rpc.port, kDefaultRpcPort);
    EXPECT_EQ(parsed.options.rpc.bind, "127.0.0.1");
    EXPECT_EQ(parsed.options.log.file, folder_ + "/debug.log");
    parsed = parse({"-rpcport=9000", "-portoffset", "5", "-debug=rpc,exec", "-debug=node", "-norpc", "-chain=devnet",
                    "-printtoconsole=0"});
    ASSERT_FALSE(parsed.exit) << parsed.exit->text;
    EXPECT_EQ(parsed.options.rpc.port, 9005);
    EXPECT_EQ(parsed.options.log.debug, (std::vector<std::string>{"rpc", "exec", "node"}));
    EXPECT_FALSE(parsed.options.rpc_enabled);
    EXPECT_FALSE(parsed.options.log.to_stderr);
    EXPECT_EQ(parsed.options.network, "devnet");
    EXPECT_FALSE(parsed.options.checkpoint);
    parsed = parse({"-checkpoint=1200:0x" + std::string(64, 'a')});
    ASSERT_FALSE(parsed.exit) << parsed.exit->text;
    ASSERT_TRUE(parsed.options.checkpoint);
    EXPECT_EQ(parsed.options.checkpoint->number, 1200U);
    EXPECT_EQ(parsed.options.checkpoint->hash.data[31], 0xaa);
}

TEST_F(OptionsTest, an_offset_that_meets_the_first_nodes_ports_is_refused_with_a_better_one) {
    const auto parsed = parse({"-portoffset=1"});
    ASSERT_TRUE(parsed.exit);
    EXPECT_EQ(parsed.exit->code, 2);
    for (const char* part : {"-rpcport 8546", "-wsport", "10"})
        EXPECT_NE(parsed.exit->text.find(part), std::string::npos) << part << " in " << parsed.exit->text;
    EXPECT_FALSE(parse({"-portoffset=1", "-nows"}).exit);
    EXPECT_FALSE(parse({"-portoffset=10"}).exit);
    EXPECT_TRUE(parse({"-portoffset=10", "-wsport=8555"}).exit);
    EXPECT_FALSE(parse({"-portoffset=1", "-wsport=0"}).exit);
}

TEST_F(OptionsTest, the_command_line_overrides_the_file) {
    write_conf("# comment\n\nrpcport = 9001\nrpcbind=0.0.0.0\r\nacceptmissingjournal\ndebug=rpc\n");
    const auto parsed = parse({"-rpcport=9002"});
    ASSERT_FALSE(parsed.exit) << parsed.exit->text;
    EXPECT_EQ(parsed.options.rpc.port, 9002);
    EXPECT_EQ(parsed.options.rpc.bind, "0.0.0.0");
    EXPECT_TRUE(parsed.options.accept_missing_journal);
    EXPECT_EQ(parsed.options.log.debug, std::vector<std::string>{"rpc"});
}

TEST_F(OptionsTest, mistakes_exit_with_two_and_help_with_zero) {
    EXPECT_EQ(parse({"-nosuchoption=1"}).exit->code, 2);
    EXPECT_EQ(parse({"-rpcport=banana"}).exit->code, 2);
    EXPECT_EQ(parse({"-rpcport=65535", "-portoffset=1"}).exit->code, 2);
    EXPECT_EQ(parse({"-loglevel=loud"}).exit->code, 2);
    EXPECT_EQ(parse({"-conf=" + folder_ + "/missing.conf"}).exit->code, 2);
    EXPECT_EQ(parse({"-checkpoint=12"}).exit->code, 2);
    EXPECT_EQ(parse({"-checkpoint=12:0x1234"}).exit->code, 2);
    EXPECT_EQ(parse({"-checkpoint=-1:0x" + std::string(64, 'a')}).exit->code, 2);
    EXPECT_EQ(parse({"--help"}).exit->code, 0);
    EXPECT_NE(parse({"-version"}).exit->text.find("quernd"), std::string::npos);
    write_conf("rpcport=1\nthis is no option\n");
    const auto parsed = parse({});
    EXPECT_EQ(parsed.exit->code, 2);
    EXPECT_NE(parsed.exit->text.find("line 2"), std::string::npos);
    write_conf("nosuchoption=1\n");
    EXPECT_EQ(parse({}).exit->code, 2);
    write_conf("datadir=/elsewhere\n");
    EXPECT_EQ(parse({}).exit->code, 2);
}

}  // namespace
}  // namespace quern::node
