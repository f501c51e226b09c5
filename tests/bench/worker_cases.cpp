// What a training has to do with its node, by the worker's own code at a real node: how long it stands still for states
// that are sent, and how many states lie on disk.
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "base/clock.h"
#include "bench/cases.h"
#include "bench/local_network.h"
#include "bench/market_task.h"
#include "bench/transfers.h"
#include "chain/market/work.h"
#include "compute/core/history.h"
#include "compute/worker/training_jobs.h"

namespace quern::bench {
namespace {

using namespace compute::worker;
namespace core = compute::core;
namespace tensor = vm::tensor;
namespace types = chain::types;

constexpr double kGiga = 1e9;
constexpr std::uint32_t kValidator = 1'000'000;  // load_key's
constexpr std::uint64_t kLongWindow = 1'000'000;

std::size_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

std::unique_ptr<NodeClient> client_of(const LocalNetwork& network) {
    return std::make_unique<NodeClient>("127.0.0.1", network.rpc_port(0), network.credentials(0));
}

LocalNetwork one_node(const std::string& folder) {
    return LocalNetwork(folder, devnet_genesis({}), load_keys({kValidator}));
}

// --- Publishing ------------------------------------------------------------------------------------------------------
constexpr int kRounds = 6;  // the first warms up
constexpr int kPlainSteps = 3;

double seconds_of(const std::function<void()>& function) {
    const double start = steady_seconds();
    function();
    return steady_seconds() - start;
}

Timing per(const Timing& timing, double units) {
    return {timing.median / units, timing.low / units, timing.high / units};
}

}  // namespace

void bench_publish(Bench& bench) {
    const ModelSize& size = kModels[0];
    const MarketTask task = market_task(architecture_of(size), 1, 1, kLongWindow);
    const tensor::Program& program = task.programs.any();
    const LocalNetwork network = one_node(bench.settings().scratch + "/publish");
    const auto node = client_of(network);
    ThreadPool pool(cores());
    const Cancellation never;
    Publisher publisher(client_of(network), &pool, never, [] {});
    tensor::Executor executor(program, tensor::arith::best_backend(), &pool);
    double stands_still = 0;
    const auto held_up = [&](const std::function<void()>& function) { stands_still += seconds_of(function); };
    executor.set_before_writing([&](std::size_t slot) { held_up([&] { publisher.before_writing(slot); }); });
    const tensor::Tensor seed = tensor::seed_tensor(Hash32{});
    tensor::State state = task.init;
    const auto step = [&] { executor.step(state, task.data, seed); };

    std::vector<double> plain;
    std::vector<double> beside;
    std::vector<double> still;
    std::vector<double> lost;
    std::vector<double> waiting;
    double giga = 0;
    double steps = 0;
    for (int round = 0; round < kRounds; ++round) {
        std::vector<double> alone;
        for (int i = 0; i < kPlainSteps; ++i) alone.push_back(seconds_of(step));
        std::vector<Hash32> roots = tensor::slot_roots(state, &pool);
        giga = static_cast<double>(sent_bytes(program, roots)) / kGiga;
        std::vector<Hash32> sent = roots;
        const double whole = seconds_of([&] { sent.push_back(put_state(program, state, roots, *node)); });

        step();
        roots = tensor::slot_roots(state, &pool);
        sent.insert(sent.end(), roots.begin(), roots.end());
        stands_still = 0;
        held_up([&] { must(publisher.begin(program, state, roots), "publisher"); });
        double taken = 0;
        int count = 0;
        std::optional<StoredState> stored;
        while (!stored) {
            taken += seconds_of(step);
            ++count;
            held_up([&] { stored = publisher.take(); });
        }
        sent.push_back(stored->content);
        (void)must(node->drop_contents(sent), "room");
        if (round == 0) continue;
        const double usual = summarize(alone).median;
        plain.push_back(usual);
        beside.push_back(taken / count);
        still.push_back(stands_still);
        lost.push_back(std::max(0.0, taken - count * usual));
        waiting.push_back(whole);
        steps += count / static_cast<double>(kRounds - 1);
    }
    const Timing reference = summarize(waiting);
    const std::string of = std::string(", ") + size.name;
    const char* name = "the same bytes sent before it goes on";
    bench.add_time("training stands still for a state that is sent, a GB" + of, per(summarize(still), giga), 1, name,
                   &reference, giga, text_of("%.0f MB", giga * 1e3) + text_of(" in %.1f steps", steps));
    bench.add_time("training is slower beside the sending, on the node's machine, a GB" + of,
                   per(summarize(lost), giga), 1, name, &reference, giga);
    const Timing usual = summarize(plain);
    bench.add_time("step while a state is sent" + of, summarize(beside), 1, "the same step, nothing sent", &usual, 1);
}

// --- States on disk --------------------------------------------------------------------------------------------------
namespace {

constexpr std::uint64_t kSteps = 16;
constexpr std::uint64_t kInterval = 2;
constexpr std::uint64_t kPatienceMs = 120'000;
constexpr double kLookShare = 0.2;  // of a processor, for looking at files

// The most that files below some folders take, as the disk counts them, since it was asked last.
class DiskWatch {
public:
    explicit DiskWatch(std::vector<std::string> folders) : folders_(std::move(folders)), thread_([this] { run(); }) {}
    ~DiskWatch() {
        stop_ = true;
        thread_.join();
    }
    DiskWatch(const DiskWatch&) = delete;
    DiskWatch& operator=(const DiskWatch&) = delete;
    std::uint64_t take() {
        note(bytes());
        return most_.exchange(0);
    }

private:
    [[nodiscard]] std::uint64_t bytes() const {
        std::map<std::pair<dev_t, ino_t>, std::uint64_t> files;
        for (const std::string& folder : folders_) {
            std::error_code ignored;  // files come and go
            std::filesystem::recursive_directory_iterator at(folder, ignored);
            for (; !ignored && at != std::filesystem::end(at); at.increment(ignored)) {
                struct stat found {};
                if (::stat(at->path().c_str(), &found) == 0 && S_ISREG(found.st_mode))
                    files[{found.st_dev, found.st_ino}] = static_cast<std::uint64_t>(found.st_blocks) * 512;
            }
        }
        std::uint64_t sum = 0;
        for (const auto& [file, bytes] : files) sum += bytes;
        return sum;
    }
    void note(std::uint64_t bytes) {
        std::uint64_t most = most_;
        while (bytes > most && !most_.compare_exchange_weak(most, bytes)) {
        }
    }
    void run() {
        while (!stop_) {
            const double start = steady_seconds();
            note(bytes());
            const double taken = steady_seconds() - start;
            std::this_thread::sleep_for(std::chrono::duration<double>(taken * (1 / kLookShare - 1)));
        }
    }
    const std::vector<std::string> folders_;
    std::atomic<std::uint64_t> most_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

struct OnDisk {
    double training = 0;  // states
    double drawn = 0;     // while those that verifiers are drawn for are made again
    std::size_t asked = 0;
};

types::TaskClaim running(const MarketTask& market) {
    types::TaskClaim live;
    auto& [task, claim, reports, custody] = live;
    task.id = 1;
    task.spec = market.spec;
    task.state = types::TaskState::running;
    chain::market::set_plan(task, market.programs.plan.planned(task.spec.work.interval, task.spec.work.stride));
    task.start_root = task.spec.init_root;
    claim.id = {1, 0, 0, 0};
    claim.state = types::ClaimState::working;
    claim.start_root = task.start_root;
    return live;
}

// The solver's thread until `done`.
void run_jobs(Context& context, const types::TaskClaim& live,
              const std::function<bool(const Board<TaskOrder, Trained>&, const TaskOrder&)>& done) {
    Bell news;
    Board<TaskOrder, Trained> board(news);
    TrainingJobs jobs(context, board);
    const TaskOrder order{std::make_shared<types::TaskClaim>(live)};
    board.give({{order.id(), order}});
    const std::uint64_t end = context.clock.monotonic_ms() + kPatienceMs;
    while (!done(board, order)) {
        if (context.clock.monotonic_ms() > end) give_up("the training comes to no end");
        if (!jobs.work(1'000)) board.wait(50, context.stop);
    }
}

OnDisk states_on_disk(const std::string& folder, const MarketTask& market, std::optional<std::uint64_t> keep_mib) {
    const LocalNetwork network = one_node(folder + "/network");
    WorkerOptions options;
    options.datadir = folder + "/worker";
    if (keep_mib) options.keep_states_mib = *keep_mib;
    options.backend = tensor::arith::best_backend();
    const SystemClock clock;
    InputStore inputs{InputLimits{}};
    const std::atomic<bool> stop{false};
    Context context{options,
                    clock,
                    inputs,
                    stop,
                    [&] { return client_of(network); },
                    client_of(network),
                    std::make_shared<ThreadPool>(cores()),
                    std::make_unique<OsRng>()};
    put_contents(market, *context.node);
    const auto state_bytes = static_cast<double>(market.programs.any().header.sizes.state_bytes);
    DiskWatch disk({options.datadir, network.contents(0)});
    OnDisk out;

    types::TaskClaim live = running(market);
    Trained trained;
    run_jobs(context, live, [&](const auto& board, const auto& order) {
        trained = board.facts(order);
        return trained.proof != nullptr;
    });
    out.training = static_cast<double>(disk.take()) / state_bytes;

    live.claim.state = types::ClaimState::custody;
    live.claim.step = kSteps;
    live.claim.history_root = trained.proof->history_root;
    live.claim.history_content = trained.proof->history_content;
    live.claim.verify_beacon = Hash32{{1}};
    live.reports.resize(2);
    for (std::uint8_t i = 1; i <= 2; ++i) live.reports[i - 1U].verifier.data[0] = i;
    std::set<std::uint64_t> wanted = drawn_steps(live);
    wanted.erase(0);
    out.asked = wanted.size();
    const auto workspace = must(Workspace::open(options.datadir, live.task), "workspace");
    run_jobs(context, live, [&](const auto&, const auto&) {
        const auto progress = must(workspace.load<TrainingProgress>("training-0.rlp"), "progress");
        std::set<std::uint64_t> missing = wanted;
        for (const KeptState& kept : progress->kept) missing.erase(kept.step);
        return missing.empty();
    });
    out.drawn = static_cast<double>(disk.take()) / state_bytes;
    return out;
}

}  // namespace

void bench_states_on_disk(Bench& bench) {
    const ModelSize& size = kModels[0];
    const MarketTask task = market_task(architecture_of(size), kSteps, kInterval, kLongWindow);
    const std::string& folder = bench.settings().scratch;
    const OnDisk own = states_on_disk(folder + "/states", task, std::nullopt);
    const OnDisk all = states_on_disk(folder + "/all-states", task, std::uint64_t{1} << 20);
    const std::string of = std::string(", ") + size.name;
    const char* name = "every checkpoint kept";
    bench.add(
        {"on disk, solver and its node, a training of " + std::to_string(kSteps / kInterval) + " checkpoints" + of,
         own.training,
         "states",
         0,
         0,
         Reference{name, all.training},
         0,
         {}});
    bench.add({"the same while " + std::to_string(own.asked) + " drawn states are made again" + of,
               own.drawn,
               "states",
               0,
               0,
               Reference{name, all.drawn},
               0,
               {}});
}

}  // namespace quern::bench
