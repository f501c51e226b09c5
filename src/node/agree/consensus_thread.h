// The thread that drives SDBFT's core: takes the messages of peers, the executor's answers and the timers, carries out
// the core's actions, and keeps the journal. What was signed leaves only after it is synced; several events share one
// sync when they come together. start() and stop() belong to one thread; the other functions may be called from any.
#pragma once

#include <atomic>
#include <deque>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "chain/consensus/sdbft/core.h"
#include "node/agree/message_queue.h"
#include "node/net/consensus_inbox.h"

namespace quern::node {

inline constexpr std::size_t kEventsPerSync = 32;  // at most so many wait for one sync of the journal
// Answers of the executor and ranges that wait for the core. It asks for at most a few blocks a view, and for no block
// twice before the answer, so that many are a fault of this process: it stops (consensus.too_many_events).
inline constexpr std::size_t kMaxWaitingEvents = 8 * chain::consensus::sdbft::kMaxBlocksKept;
inline constexpr std::size_t kMaxWaitingRanges = 2;  // large; a third is refused, and range_sync brings it again
static_assert(kEventsPerSync < kMaxWaitingEvents && kMaxWaitingRanges < kMaxWaitingEvents);

// What the consensus thread asks of the rest of the node. Called on it: must return quickly.
class ConsensusPorts {
public:
    virtual ~ConsensusPorts() = default;
    // `member`: this node's key is in the committee that the core is in.
    virtual void send(chain::consensus::sdbft::action::Send send, bool member) = 0;
    // Final blocks from `first_height` on, or one block, of this peer or of anybody; `peer` is a hint.
    virtual void ask_range(std::uint64_t first_height, std::optional<chain::consensus::sdbft::PeerId> peer) = 0;
    virtual void ask_block(const Hash32& hash, std::optional<chain::consensus::sdbft::PeerId> peer) = 0;
    virtual void build(chain::consensus::sdbft::BlockRequest request) = 0;
    virtual void validate(chain::consensus::sdbft::action::Validate block) = 0;
    virtual void commit(chain::consensus::sdbft::action::Commit block) = 0;
    virtual void keep(chain::consensus::Certificate certificate) = 0;
    virtual void convict(chain::consensus::sdbft::Evidence evidence) = 0;
    virtual void misbehaved(const chain::consensus::sdbft::action::Misbehaved& blame) = 0;
    // This block, which is not final, or one of the chain when it is null.
    virtual void serve_block(chain::consensus::sdbft::PeerId peer, const Hash32& hash,
                             const std::shared_ptr<const Bytes>& block) = 0;
    virtual void serve_range(chain::consensus::sdbft::PeerId peer, std::uint64_t first_height) = 0;
    // Whether the mempool has something for a block.
    [[nodiscard]] virtual bool transactions_wait() = 0;
    // The core has taken note of a committed block.
    virtual void committed(const chain::consensus::sdbft::event::Committed& committed) = 0;
    // Once: consensus stopped and the node must.
    virtual void failed(const Error& error) = 0;
};

class ConsensusThread final : public ConsensusInbox {
public:
    struct Parts {
        chain::consensus::sdbft::CoreSetup setup;
        const chain::consensus::sdbft::Signer* signer;  // null: follows only
        const chain::consensus::sdbft::Scheme& scheme;
        // Of a validator; a follower signs nothing and keeps none.
        std::unique_ptr<chain::consensus::sdbft::Journal> journal;
        ConsensusPorts& ports;
        const Clock& clock;
    };
    struct State {
        chain::consensus::sdbft::Core::View core;
        chain::consensus::Committee committee;  // of core.epoch
        bool member = false;
        std::uint64_t views_nullified = 0;  // since the start
        std::uint64_t journal_syncs = 0;
        std::uint64_t dropped_messages = 0;  // at the queue's limits
        std::size_t queued_bytes = 0;
    };

    // Errors: the core's (journal.bad_record, rlp.*, sdbft.wrong_epoch).
    [[nodiscard]] static Expected<std::unique_ptr<ConsensusThread>> make(Parts parts);
    ~ConsensusThread() override { stop(); }
    ConsensusThread(const ConsensusThread&) = delete;
    ConsensusThread& operator=(const ConsensusThread&) = delete;

    void start();
    void stop();
    [[nodiscard]] bool receive(chain::consensus::sdbft::PeerId peer, Bytes message, bool stranger) override;
    void forget(chain::consensus::sdbft::PeerId peer) override;
    // The executor's answers.
    void post(chain::consensus::sdbft::Event event);
    // Judged blocks after the tip. False: enough wait.
    [[nodiscard]] bool post_range(chain::consensus::sdbft::event::Ranged range);
    // Something entered the mempool. Wakes nobody while the thread knows that transactions wait: what leaves the
    // mempool leaves with a block, after which it looks by itself.
    void transactions_changed();
    [[nodiscard]] State state() const;

private:
    explicit ConsensusThread(Parts parts);
    void run();
    [[nodiscard]] Status loop();
    [[nodiscard]] Status step(const chain::consensus::sdbft::Event& event);
    [[nodiscard]] Status perform(chain::consensus::sdbft::Action& action);
    // Writes what the core wants durable and tells it so.
    [[nodiscard]] Status sync();
    [[nodiscard]] Status check_transactions();
    void publish();
    [[nodiscard]] std::uint64_t wait_ms() const;

    chain::consensus::sdbft::EpochSetup epoch_;
    const chain::consensus::sdbft::Signer* signer_;
    std::unique_ptr<chain::consensus::sdbft::Journal> journal_;
    ConsensusPorts& ports_;
    const Clock& clock_;
    std::unique_ptr<chain::consensus::sdbft::Core> core_;
    std::vector<chain::consensus::sdbft::Record> unsynced_;
    std::optional<std::uint64_t> unsynced_sequence_;
    std::size_t events_unsynced_ = 0;
    std::optional<std::uint64_t> wake_at_;
    bool transactions_wait_ = false;
    // As transactions_wait_, for those that submit; false while the pool is being asked.
    std::atomic<bool> knows_of_transactions_{false};
    bool member_ = false;       // as in state_
    std::string_view refused_;  // the reason that was logged
    std::thread thread_;

    mutable Mutex mutex_;
    CondVar changed_;
    MessageQueue messages_ QUERN_GUARDED_BY(mutex_);
    std::deque<chain::consensus::sdbft::Event> events_ QUERN_GUARDED_BY(mutex_);
    std::size_t waiting_ranges_ QUERN_GUARDED_BY(mutex_) = 0;  // of events_
    bool transactions_changed_ QUERN_GUARDED_BY(mutex_) = true;
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
    State state_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::node
