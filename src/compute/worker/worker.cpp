#include "compute/worker/worker.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "compute/worker/block_signal.h"
#include "compute/worker/dispute_player.h"
#include "compute/worker/node_client.h"
#include "compute/worker/solver.h"
#include "compute/worker/verifier.h"
#include "compute/worker/whistleblower.h"
#include "crypto/hash.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;
using chain::types::Task;
using chain::types::TaskState;
using log::Category;

constexpr std::uint64_t kRetryNodeMs = 500;
constexpr std::uint64_t kQuietMs = 5'000;  // with notifications of blocks it is looked all the same
constexpr std::uint64_t kTickSpread = 3;   // blocks over which workers spread the same due tick
constexpr std::uint64_t kDrawDelay = 2;    // a draw waits for the beacon this many blocks later
// Files of a task that has ended are kept for so many blocks, should its end be disputed in a block that comes later.
constexpr std::uint64_t kKeepFilesBlocks = 1'000;
constexpr std::size_t kMaxChainFileBytes = 32;
constexpr std::uint64_t kMostMemoryMib = 1ULL << 40;  // keeps the limit below 2^64 bytes

void pause(std::uint64_t milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

class Loop {
public:
    Loop(const WorkerOptions& options, NodeView& node, Sender& sender, InputStore& inputs, ThreadPool& pool, Rng& rng)
        : context_{options, node, sender, inputs, pool, rng},
          solver_(context_),
          verifier_(context_),
          whistleblower_(context_),
          player_(context_, {[this](const Task& task) { return solver_.claimed_history(task); },
                             [this](const Task& task) { return verifier_.claimed_history(task); },
                             [this](const Task& task) { return whistleblower_.claimed_history(task); }}) {}

    // Error: the node did not answer.
    Status look() {
        QUERN_TRY(const std::uint64_t height, context_.node.block_number());
        if (height == context_.height) return {};
        context_.height = height;
        context_.sender.refresh(height);
        if (context_.options.verifier) verifier_.on_block();
        QUERN_TRY(const std::vector<Task> tasks, context_.node.live_tasks());
        std::set<std::uint64_t> live;
        for (const Task& task : tasks) {
            live.insert(task.id);
            if (context_.options.solver) solver_.on_task(task);
            if (context_.options.verifier) verifier_.on_task(task);
            if (context_.options.whistleblower) whistleblower_.on_task(task);
            player_.on_task(task);
            if (context_.options.ticks) tick(task);
        }
        solver_.forget_all_but(live);
        verifier_.forget_all_but(live);
        whistleblower_.forget_all_but(live);
        player_.forget_all_but(live);
        clean(live);
        return {};
    }

    bool work() {
        const std::uint64_t slice = context_.options.slice_ms;
        bool worked = false;
        if (context_.options.solver) worked = solver_.work(slice) || worked;
        if (context_.options.verifier) worked = verifier_.work(slice) || worked;
        if (context_.options.whistleblower) worked = whistleblower_.work(slice) || worked;
        return worked;
    }

private:
    // Blocks that this worker waits after a tick is due, so that not all send it at once.
    [[nodiscard]] std::uint64_t delay(std::uint64_t id, std::uint64_t since) const {
        const Bytes key = chain::types::object_key(chain::types::ObjectPrefix::task, id + (since << 20));
        return crypto::sha256({context_.sender.address().view(), key}).data[0] % kTickSpread;
    }

    void clean(const std::set<std::uint64_t>& live) {
        for (const std::uint64_t task : live) seen_at_[task] = context_.height;
        if (context_.height < clean_at_) return;
        // Those that were there before the start are given the same time.
        const bool first = clean_at_ == 0;
        clean_at_ = context_.height + kKeepFilesBlocks;
        if (first) return;
        std::erase_if(seen_at_, [&](const auto& each) { return each.second + kKeepFilesBlocks < context_.height; });
        std::set<std::uint64_t> keep;
        for (const auto& [task, height] : seen_at_) keep.insert(task);
        const auto removed = Workspace::remove_all_but(context_.options.datadir, keep);
        if (!removed)
            log::warning(Category::worker, "old files not removed reason={}", removed.error().to_string());
        else if (*removed != 0)
            log::info(Category::worker, "files of ended tasks removed directories={}", *removed);
    }

    void tick(const Task& task) {
        const std::uint64_t wait = delay(task.id, task.since);
        const bool draws = task.state == TaskState::proved;
        const std::uint64_t due = draws ? task.since + kDrawDelay : task.deadline;
        if (due != 0 && context_.height >= due + wait) send_tick(chain::types::TickObject::task, task.id, task.since);
        if (task.open_disputes == 0) return;
        for (const std::uint64_t id : task.disputes) {
            const auto dispute = context_.node.dispute(id);
            if (!dispute || dispute->closed_at != 0) continue;
            const auto game = chain::types::decode_record<core::Game>(dispute->game);
            if (game && context_.height >= core::next_deadline(*game) + delay(id, 0))
                send_tick(chain::types::TickObject::dispute, id, game->charged_to);
        }
    }

    void send_tick(chain::types::TickObject object, std::uint64_t id, std::uint64_t since) {
        const std::string purpose = std::string("tick/") +
                                    (object == chain::types::TickObject::task ? "task/" : "dispute/") +
                                    std::to_string(id) + "@" + std::to_string(since);
        context_.sender.send(purpose, NativeKind::tick, chain::types::TickPayload{object, id});
    }

    Context context_;
    std::map<std::uint64_t, std::uint64_t> seen_at_;  // task -> height at which it was live
    std::uint64_t clean_at_ = 0;
    Solver solver_;
    Verifier verifier_;
    Whistleblower whistleblower_;
    DisputePlayer player_;
};

Expected<std::uint64_t> wait_for_node(NodeClient& node, const std::atomic<bool>& stop) {
    bool told = false;
    while (!stop) {
        const auto chain_id = node.chain_id();
        if (chain_id) return *chain_id;
        if (!told) log::info(Category::worker, "waiting for the node reason={}", chain_id.error().to_string());
        told = true;
        pause(kRetryNodeMs);
    }
    return fail("worker.stopped");
}

// The chain that this directory works for: the node may be another one tomorrow, and would get signatures for its own.
Status check_chain(const WorkerOptions& options, std::uint64_t chain_id) {
    if (options.chain_id && *options.chain_id != chain_id)
        return fail("worker.wrong_chain", "the node is on chain " + std::to_string(chain_id) + ", --chain-id says " +
                                              std::to_string(*options.chain_id));
    const std::string path = options.datadir + "/chain_id";
    const std::string text = std::to_string(chain_id) + "\n";
    if (!fs::exists(path)) return fs::write_file_atomic(path, as_bytes(text), 0600);
    QUERN_TRY(const std::string known, fs::read_text_file(path, kMaxChainFileBytes));
    if (known == text) return {};
    return fail("worker.wrong_chain", "the node is on chain " + std::to_string(chain_id) + ", " + options.datadir +
                                          " belongs to chain " + known.substr(0, known.find('\n')));
}

}  // namespace

Status run(const WorkerOptions& options, crypto::PrivateKey key, const std::atomic<bool>& stop) {
    if (!options.solver && !options.verifier && !options.whistleblower)
        return fail("worker.no_role", "give at least one of -solver, -verifier, -whistleblower");
    if (!vm::tensor::arith::available(options.backend)) return fail("worker.backend_unavailable");
    QUERN_CHECK(vm::tensor::arith::check_floating_point_environment());
    QUERN_CHECK(fs::create_directories(options.datadir, 0700));
    QUERN_TRY(const auto lock, fs::LockFile::acquire(options.datadir + "/.lock"));

    NodeClient node(options.node_host, options.node_port, options.credentials_file);
    const auto chain_id = wait_for_node(node, stop);
    if (!chain_id) return {};
    QUERN_CHECK(check_chain(options, *chain_id));
    const SystemClock clock;
    QUERN_TRY(auto spending, Spending::open(options.datadir + "/spending.rlp", options.spending, clock));
    Sender sender(node, std::move(key), *chain_id, std::move(spending));
    InputLimits limits;
    limits.memory_bytes = std::min(options.max_memory_mib, kMostMemoryMib) << 20;
    limits.step_work = options.max_step_work;
    InputStore inputs(node, limits);
    ThreadPool pool(options.threads);
    OsRng rng;
    log::info(Category::worker, "worker started address={} chain={} roles={}{}{}",
              chain::types::to_checksum_address(sender.address()), *chain_id, options.solver ? "solver " : "",
              options.verifier ? "verifier " : "", options.whistleblower ? "whistleblower" : "");

    Loop loop(options, node, sender, inputs, pool, rng);
    std::optional<BlockSignal> blocks;
    if (options.notifications) {
        BlockSignal::Options signal;
        signal.node_host = options.node_host;
        signal.node_port = options.node_port;
        signal.url = options.websocket;
        blocks.emplace(std::move(signal));
    }
    const auto wait_for_block = [&] {
        if (blocks)
            blocks->wait(blocks->connected() ? kQuietMs : options.poll_ms, stop);
        else
            pause(options.poll_ms);
    };
    bool reachable = true;
    while (!stop) {
        const Status seen = loop.look();
        if (!seen && reachable)
            log::warning(Category::worker, "node not reachable reason={}", seen.error().to_string());
        if (seen && !reachable) log::info(Category::worker, "node reachable again");
        reachable = static_cast<bool>(seen);
        if (!reachable) pause(kRetryNodeMs);
        const bool worked = loop.work();
        if (!worked && reachable) wait_for_block();
    }
    log::info(Category::worker, "worker stopped");
    return {};
}

}  // namespace quern::compute::worker
