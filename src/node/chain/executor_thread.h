// The thread that owns the chain: builds, validates and commits blocks in the order in which consensus asks, and gives
// the answers back as events. start() and stop() belong to one thread; build(), validate() and commit() may be called
// from any. What consensus has gone past does not keep it from what comes next: a block that is being validated, or
// waits for that, is given up (answer: Forgotten) as soon as one is to be built or validated that was asked for in a
// later view and does not rest on it. That happens between two transactions; gas bounds what one of them takes.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <variant>

#include "base/mutex.h"
#include "chain/consensus/sdbft/limits.h"
#include "node/chain/chain.h"

namespace quern::node {

// What waits. Consensus asks for one block to be built at a time (a newer question takes the place of one that waits),
// to validate what it holds, and to commit one block at a time; more is a fault of this process, which stops
// (executor.too_many_jobs).
inline constexpr std::size_t kMaxExecutorJobs = 4 * chain::consensus::sdbft::kMaxBlocksKept;
static_assert(2 * chain::consensus::sdbft::kMaxBlocksKept + 2 < kMaxExecutorJobs);

class ExecutorThread {
public:
    struct Hooks {
        // Answers: Built, BuildFailed, Validated, Committed.
        std::function<void(chain::consensus::sdbft::Event&&)> answer;
        // A block was committed and its snapshot published; before `answer` hears of it.
        std::function<void(const SnapshotPtr&)> committed;
        // Once, when the thread cannot go on.
        std::function<void(const Error&)> failed;
    };
    // `chain` outlives the thread.
    explicit ExecutorThread(Chain& chain) : chain_(chain) {}
    ~ExecutorThread() { stop(); }
    ExecutorThread(const ExecutorThread&) = delete;
    ExecutorThread& operator=(const ExecutorThread&) = delete;

    void start(Hooks hooks);
    // Gives up the block that is being validated or finishes the job at hand, drops the others, joins.
    void stop();

    void build(chain::consensus::sdbft::BlockRequest request) { post(std::move(request)); }
    void validate(chain::consensus::sdbft::action::Validate block) { post(std::move(block)); }
    void commit(chain::consensus::sdbft::action::Commit block) { post(std::move(block)); }

private:
    using Job = std::variant<chain::consensus::sdbft::BlockRequest, chain::consensus::sdbft::action::Validate,
                             chain::consensus::sdbft::action::Commit>;
    // A question about a block, in the view in which consensus asked it.
    struct Place {
        std::pair<std::uint64_t, std::uint64_t> view;  // epoch, view
        Hash32 parent;
    };
    [[nodiscard]] static std::optional<Place> place_of(const Job& job);
    // Whether who asks for `newer` has no use for the answer to `older` any more.
    [[nodiscard]] static bool is_overtaken(const Job& older, const Place& newer);
    struct Waiting {
        Job job;
        bool given_up = false;
    };
    void post(Job job);
    void run();
    [[nodiscard]] Status perform(const chain::consensus::sdbft::BlockRequest& request);
    [[nodiscard]] Status perform(const chain::consensus::sdbft::action::Validate& block);
    [[nodiscard]] Status perform(const chain::consensus::sdbft::action::Commit& block);

    Chain& chain_;
    Hooks hooks_;
    std::thread thread_;
    Mutex mutex_;
    CondVar changed_;
    std::deque<Waiting> jobs_ QUERN_GUARDED_BY(mutex_);
    const Job* running_ QUERN_GUARDED_BY(mutex_) = nullptr;
    std::atomic<bool> given_up_{false};  // what is running
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
};

}  // namespace quern::node
