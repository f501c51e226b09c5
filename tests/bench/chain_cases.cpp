// What a worker and the chain have to do with each other, by the worker's own code at a real quernd whose blocks come
// as fast as the defaults let them: in how many blocks it answers, and what it reads to know 1,000 open tasks.
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "bench/cases.h"
#include "bench/counting_relay.h"
#include "bench/local_network.h"
#include "bench/market_task.h"
#include "bench/transfers.h"
#include "chain/exec/handlers/events.h"
#include "chain/types/abi.h"
#include "compute/worker/live_tasks.h"
#include "compute/worker/worker.h"
#include "rpc/client.h"
#include "support/training_game.h"

namespace quern::bench {
namespace {

using namespace compute::worker;
namespace events = chain::exec::events;
namespace types = chain::types;
using types::ClaimState;
using types::NativeKind;
using types::Role;
using types::TaskState;

constexpr std::uint32_t kValidator = 1'000'000;  // load_key's
constexpr std::uint32_t kSubmitter = 0;
constexpr std::uint32_t kTransferrer = 1;
constexpr std::uint32_t kFirstWorker = 10;
constexpr auto kPoll = std::chrono::milliseconds(5);

json::Value answer_of(Expected<rpc::Result> answer, const char* what) {
    if (!answer) give_up(std::string(what) + ": " + answer.error().to_string());
    if (!*answer) give_up(std::string(what) + ": " + answer->error().message);
    return std::move(**answer);
}

std::uint64_t quantity(const json::Value& value) {
    const auto text = value.as_string();
    if (!text) give_up("the node gave no number");
    return std::stoull(std::string(*text), nullptr, 16);
}

std::uint64_t height_of(rpc::Client& client) { return quantity(answer_of(client.call("eth_blockNumber"), "height")); }

void send(rpc::Client& client, const Bytes& transaction) {
    (void)answer_of(client.call("eth_sendRawTransaction", json::Value::array({to_hex0x(transaction)})), "submitting");
}

void wait_until(const std::function<bool()>& condition, double seconds, const char* what) {
    const double end = steady_seconds() + seconds;
    while (!condition()) {
        if (steady_seconds() > end) give_up(std::string("in vain: ") + what);
        std::this_thread::sleep_for(kPoll);
    }
}

// --- Reaction --------------------------------------------------------------------------------------------------------
constexpr std::uint64_t kTasks = 12;
constexpr std::uint64_t kWindow = 8;  // seconds: forty pauses of an idle chain
constexpr std::uint64_t kIdleMs = 200;
constexpr double kLifeSeconds = 50;

// Workers as quern-worker runs them, on threads of this program.
class Workers {
public:
    Workers(const LocalNetwork& network, std::string folder) : network_(network), folder_(std::move(folder)) {}
    ~Workers() {
        stop_ = true;
        for (std::thread& each : threads_) each.join();
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    void start(std::uint32_t key, WorkerOptions options) {
        options.credentials_file = network_.credentials(0);
        options.datadir = folder_ + "/worker" + std::to_string(key);
        options.threads = 1;
        options.dispute_threads = 1;
        options.backend = vm::tensor::arith::best_backend();
        threads_.emplace_back([this, key, options] { must(run(options, load_key(key), stop_), "worker"); });
    }

private:
    const LocalNetwork& network_;
    const std::string folder_;
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

// Sends a transfer as soon as it sees a block, and another for the next one: blocks do not wait for work meanwhile, and
// nobody answers a block sooner.
class Transferrer {
public:
    explicit Transferrer(const LocalNetwork& network) : client_("127.0.0.1", network.rpc_port(0)) {
        thread_ = std::thread([this] { run(); });
    }
    // Blocks from one that was seen to the one with the transfer.
    std::vector<double> stop() {
        stop_ = true;
        thread_.join();
        std::vector<double> blocks;
        for (const auto& [seen, hash] : sent_) {
            const json::Value receipt =
                answer_of(client_.call("eth_getTransactionReceipt", json::Value::array({to_hex0x(hash)})), "receipt");
            if (!receipt.is_null())
                blocks.push_back(static_cast<double>(quantity(*must(receipt.get("blockNumber"), "receipt")) - seen));
        }
        return blocks;
    }

private:
    void run() {
        const crypto::PrivateKey key = load_key(kTransferrer);
        std::uint64_t seen = height_of(client_);
        for (std::uint64_t nonce = 0; !stop_;) {
            const std::uint64_t height = height_of(client_);
            if (height != seen) {
                const Bytes encoded = signed_transfer(key, nonce++, sink_address(1));
                send(client_, encoded);
                sent_.emplace_back(height, types::transaction_hash(encoded));
                seen = height;
            }
            std::this_thread::sleep_for(kPoll);
        }
    }
    rpc::Client client_;
    std::atomic<bool> stop_{false};
    std::vector<std::pair<std::uint64_t, Hash32>> sent_;
    std::thread thread_;
};

// The heights at which each task came into each of its states, and its first claim into each of its own.
struct Heights {
    std::map<std::uint64_t, std::map<TaskState, std::uint64_t>> tasks;
    std::map<std::uint64_t, std::map<ClaimState, std::uint64_t>> claims;
};

// Word number `at` of an event's data, as a small number.
std::uint64_t word(const Bytes& data, std::size_t at) {
    constexpr std::size_t kWord = 32;
    if (data.size() < (at + 1) * kWord) give_up("an event without its fields");
    return data[(at + 1) * kWord - 1];
}

template <class Event>
void for_each_event(rpc::Client& client, const std::function<void(std::uint64_t, std::uint64_t, const Bytes&)>& use) {
    const json::Value filter = json::Value::object(
        {{"fromBlock", "0x1"},
         {"address", to_hex0x(types::group_address(types::KindGroup::tasks))},
         {"topics", json::Value::array({to_hex0x(types::abi::signature_hash(types::abi::event_signature<Event>()))})}});
    const json::Value logs = answer_of(client.call("eth_getLogs", json::Value::array({filter})), "logs");
    for (const json::Value& log : logs.items()) {
        const auto topics = must(log.get_array("topics"), "topics");
        const auto task = must(fixed_from_hex<32>(must(topics[1].as_string(), "topic")), "topic");
        const std::uint64_t block = quantity(*must(log.get("blockNumber"), "block"));
        use(block, Uint256::from_be(task.view()).low_u64(),
            must(from_hex(must(log.get_string("data"), "data")), "data"));
    }
}

Heights heights_of(rpc::Client& client) {
    Heights heights;
    for_each_event<events::TaskStateChanged>(client, [&](std::uint64_t block, std::uint64_t task, const Bytes& data) {
        heights.tasks[task].emplace(static_cast<TaskState>(word(data, 1)), block);
    });
    for_each_event<events::ClaimStateChanged>(client, [&](std::uint64_t block, std::uint64_t task, const Bytes& data) {
        heights.claims[task].emplace(static_cast<ClaimState>(word(data, 4)), block);
    });
    return heights;
}

// From one state to the next one of each object that came into both.
template <class State>
std::vector<double> blocks_between(const std::map<std::uint64_t, std::map<State, std::uint64_t>>& objects, State from,
                                   State to) {
    std::vector<double> blocks;
    for (const auto& [task, heights] : objects)
        if (heights.contains(from) && heights.contains(to))
            blocks.push_back(static_cast<double>(heights.at(to)) - static_cast<double>(heights.at(from)));
    return blocks;
}

void add_blocks(Bench& bench, std::string name, const std::vector<double>& blocks, double reference) {
    if (blocks.empty()) give_up("nothing came of: " + name);
    const Timing timing = summarize(blocks);
    bench.add({std::move(name), timing.median, "blocks", timing.low, timing.high,
               Reference{"a transfer sent at sight of a block", reference}, 0,
               text_of("at most %.0f", *std::max_element(blocks.begin(), blocks.end()))});
}

}  // namespace

void bench_reaction(Bench& bench) {
    const std::string& folder = bench.settings().scratch;
    const std::vector<std::pair<Role, std::uint32_t>> roles = {
        {Role::solver, kFirstWorker}, {Role::verifier, kFirstWorker + 1}, {Role::verifier, kFirstWorker + 2}};
    std::vector<crypto::PrivateKey> accounts = load_keys({kSubmitter, kTransferrer});
    for (const auto& [role, key] : roles) accounts.push_back(load_key(key));
    chain::exec::Genesis genesis = devnet_genesis(accounts);
    genesis.params.max_idle_ms = kIdleMs;
    genesis.params.market.min_window_s = kWindow;
    for (const auto& [role, key] : roles)
        genesis.bonds.push_back({crypto::address20(load_key(key)), role, in_grains(10'000)});
    const LocalNetwork network(folder + "/reaction", genesis, load_keys({kValidator}));
    MarketTask task = market_task(test::small_architecture(), 4, 2, kWindow);
    {
        NodeClient node("127.0.0.1", network.rpc_port(0), network.credentials(0));
        put_contents(task, node);
    }
    Workers workers(network, folder + "/reaction");
    for (const auto& [role, key] : roles) {
        WorkerOptions options;
        options.node_port = network.rpc_port(0);
        options.solver = role == Role::solver;
        options.verifier = role == Role::verifier;
        workers.start(key, options);
    }
    rpc::Client client("127.0.0.1", network.rpc_port(0));
    Transferrer transferrer(network);
    for (std::uint64_t nonce = 0; nonce < kTasks; ++nonce) {
        send(client,
             signed_native(load_key(kSubmitter), nonce, NativeKind::task_submit, types::encode_record(task.spec)));
        std::this_thread::sleep_for(std::chrono::milliseconds(150));  // nothing is due for all at once
    }
    wait_until(
        [&] {
            std::this_thread::sleep_for(std::chrono::seconds(1));
            const Heights heights = heights_of(client);
            return blocks_between(heights.claims, ClaimState::revealing, ClaimState::challenge).size() == kTasks;
        },
        kLifeSeconds, "the tasks are not verified");
    const Timing reference = summarize(transferrer.stop());
    const Heights heights = heights_of(client);
    add_blocks(bench, "from an assignment to task_start",
               blocks_between(heights.tasks, TaskState::assigned, TaskState::running), reference.median);
    add_blocks(bench, "from the draw of verifiers to the last receipt of custody",
               blocks_between(heights.claims, ClaimState::custody, ClaimState::committing), reference.median);
    add_blocks(bench, "from the last commitment to the last reveal",
               blocks_between(heights.claims, ClaimState::revealing, ClaimState::challenge), reference.median);
}

// --- Open tasks ------------------------------------------------------------------------------------------------------
namespace {

constexpr std::uint64_t kOpenTasks = 1'000;
constexpr std::uint64_t kLongWindow = 1'000'000;
constexpr std::uint32_t kSubmitters = 4;
constexpr std::uint32_t kBidders = 4;  // each bids once in each block
constexpr double kFollowSeconds = 15;
constexpr int kReadings = 3;

// Bids on other tasks in each block.
class Bidders {
public:
    explicit Bidders(const LocalNetwork& network) : client_("127.0.0.1", network.rpc_port(0)) {
        thread_ = std::thread([this] { run(); });
    }
    ~Bidders() {
        stop_ = true;
        thread_.join();
    }
    Bidders(const Bidders&) = delete;
    Bidders& operator=(const Bidders&) = delete;

private:
    void run() {
        std::uint64_t seen = height_of(client_);
        for (std::uint64_t nonce = 0; !stop_;) {
            const std::uint64_t height = height_of(client_);
            if (height != seen) {
                for (std::uint32_t i = 0; i < kBidders; ++i) {
                    const std::uint64_t task = (kBidders * nonce + i) * 7 % kOpenTasks + 1;
                    send(client_, signed_native(load_key(kFirstWorker + i), nonce, NativeKind::task_bid,
                                                types::encode_record(types::TaskBidPayload{.task = task, .price = 1})));
                }
                ++nonce;
                seen = height;
            }
            std::this_thread::sleep_for(kPoll);
        }
    }
    rpc::Client client_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

// A connection of a worker's, whose bytes are counted.
struct Reader {
    CountingRelay relay;
    NodeClient node;
    explicit Reader(const LocalNetwork& network) : relay(network.rpc_port(0)), node("127.0.0.1", relay.port()) {}
};

}  // namespace

void bench_open_tasks(Bench& bench) {
    const std::string& folder = bench.settings().scratch;
    constexpr std::uint32_t kWhistleblower = kFirstWorker + kBidders;
    std::vector<crypto::PrivateKey> accounts;
    for (std::uint32_t i = 0; i < kSubmitters; ++i) accounts.push_back(load_key(i));
    for (std::uint32_t i = kFirstWorker; i <= kWhistleblower; ++i) accounts.push_back(load_key(i));
    chain::exec::Genesis genesis = devnet_genesis(accounts);
    for (std::uint32_t i = kFirstWorker; i <= kWhistleblower; ++i)
        genesis.bonds.push_back({crypto::address20(load_key(i)),
                                 i == kWhistleblower ? Role::whistleblower : Role::solver, in_grains(1'000'000)});
    const LocalNetwork network(folder + "/open", genesis, load_keys({kValidator}));
    rpc::Client client("127.0.0.1", network.rpc_port(0));
    const MarketTask task = market_task(test::demo_architecture(512), 300, 30, kLongWindow);
    for (std::uint64_t i = 0; i < kOpenTasks; ++i)
        send(client, signed_native(accounts[i % kSubmitters], i / kSubmitters, NativeKind::task_submit,
                                   types::encode_record(task.spec)));
    Reader list(network);
    wait_until([&] { return must(list.node.live_tasks(), "tasks").size() == kOpenTasks; }, 60, "the tasks do not open");

    CountingRelay worker_calls(network.rpc_port(0));
    const json::Value info = answer_of(client.call("quern_nodeInfo"), "node");
    const auto notices = must(must(info.get("webSocketPort"), "notices")->as_u64(), "notices");
    CountingRelay worker_notices(static_cast<std::uint16_t>(notices));
    Workers workers(network, folder + "/open");
    WorkerOptions options;
    options.whistleblower = true;
    options.node_port = worker_calls.port();
    options.websocket = http::Url{"127.0.0.1", worker_notices.port(), "/"};
    workers.start(kWhistleblower, options);

    Reader reader(network);
    LiveTasks tasks;
    (void)must(tasks.update(reader.node), "first reading");
    const std::uint64_t first = reader.relay.answered();
    if (tasks.tasks().size() != kOpenTasks) give_up("not all tasks are known");
    const Bidders bidders(network);
    // The worker has read them by then, and the first bids are in blocks.
    std::this_thread::sleep_for(std::chrono::seconds(3));
    (void)must(tasks.update(reader.node), "reading");

    std::uint64_t worker_bytes = worker_calls.answered() + worker_notices.answered();
    const std::uint64_t notice_bytes = worker_notices.answered();
    std::uint64_t bytes = reader.relay.answered();
    std::uint64_t asked = reader.relay.asked();
    const std::uint64_t begun = tasks.head().height;
    const double start = steady_seconds();
    std::vector<double> each;  // bytes of an update
    std::uint64_t changed = 0;
    while (steady_seconds() - start < kFollowSeconds) {
        const std::uint64_t before = reader.relay.answered();
        const LiveTasks::Tasks known = tasks.tasks();
        const auto update = must(tasks.update(reader.node), "reading");
        if (update.all_anew) give_up("the tasks were read anew");
        if (update.new_block) each.push_back(static_cast<double>(reader.relay.answered() - before));
        for (const auto& [id, live] : tasks.tasks()) changed += known.at(id) != live;
        // As with a notice of the block.
        wait_until([&] { return height_of(client) != tasks.head().height; }, 10, "no blocks");
    }
    const double seconds = steady_seconds() - start;
    const auto a_second = [&](std::uint64_t count) { return static_cast<double>(count) / seconds; };
    worker_bytes = worker_calls.answered() + worker_notices.answered() - worker_bytes;
    bytes = reader.relay.answered() - bytes;
    asked = reader.relay.asked() - asked;
    const double blocks = a_second(tasks.head().height - begun);
    const double a_worker = a_second(worker_bytes) / 1e3;
    const double of_notices = a_second(worker_notices.answered() - notice_bytes) / 1e3;

    std::vector<double> readings;
    for (int i = 0; i < kReadings; ++i) {
        const std::uint64_t before = list.relay.answered();
        (void)must(list.node.live_tasks(), "tasks");
        readings.push_back(static_cast<double>(list.relay.answered() - before));
    }
    const double whole = summarize(readings).median;
    const Reference all{"all of them read in each block", whole * blocks / 1e3};
    const Timing update = summarize(each);
    bench.add({"1,000 open tasks followed, answers", a_second(bytes) / 1e3, "KB/s", update.low * blocks / 1e3,
               update.high * blocks / 1e3, all, 0,
               text_of("%.1f blocks", blocks) + text_of(" and %.1f changes a second, ", a_second(changed)) +
                   text_of("%.1f KB/s asked", a_second(asked) / 1e3)});
    bench.add({"the same to a worker with nothing to do", a_worker, "KB/s", 0, 0, all, 0,
               text_of("%.1f KB/s of it notices of blocks", of_notices)});
    bench.add({"1,000 open tasks, the first reading",
               static_cast<double>(first) / 1e3,
               "KB",
               0,
               0,
               Reference{"the list of all", whole / 1e3},
               0,
               {}});
}

}  // namespace quern::bench
