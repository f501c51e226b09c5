// Tells listeners (the WebSocket server) what happens in the chain, on a thread of its own: the executor and those
// that submit transactions only leave a note. Blocks are not queued: the hub walks the stored chain from the last block
// that it told to the newest, so that none is left out however far it falls behind, and it costs no memory. Waiting
// transactions are queued, the newest kMaxQueuedTransactions of them, kMaxQueuedBytes at most. They come before the
// block that holds them, but however many wait, and for however many subscribers, a block is told soon. Thread-safe.
#pragma once

#include <deque>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "chain/api/events.h"
#include "chain/mempool/pool.h"
#include "node/chain/snapshot.h"

namespace quern::node {

class EventHub final : public chain::api::EventSource {
public:
    static constexpr std::size_t kMaxQueuedTransactions = 8'192;
    static constexpr std::size_t kMaxQueuedBytes = std::size_t{16} << 20;
    static constexpr std::uint64_t kTransactionsSliceMs = 20;  // then a block that waits has its turn
    static constexpr std::size_t kKeptTimes = 1'024;  // blocks whose moment of finality is kept until they are told

    struct Parts {  // all outlive the hub
        const SnapshotBoard& board;
        const chain::api::ChainReader& reader;
        const Clock& clock;
    };
    // Watches the board from here on; the first block told is the next one.
    explicit EventHub(const Parts& parts);
    ~EventHub() override;
    EventHub(const EventHub&) = delete;
    EventHub& operator=(const EventHub&) = delete;

    void add(chain::api::EventListener& listener) override;
    void remove(chain::api::EventListener& listener) override;

    // A transaction was admitted to the mempool; never waits.
    void transaction(const chain::types::RecoveredTransaction& transaction);
    // Ends the thread; nothing is told after it.
    void stop();
    // Transactions that were left out because too many waited to be told.
    [[nodiscard]] std::uint64_t left_out() const;

private:
    [[nodiscard]] bool is_listened_to() const QUERN_REQUIRES(mutex_);
    void published(const Snapshot& snapshot);
    void run();
    void tell_transactions();
    void tell_block(std::uint64_t number);
    [[nodiscard]] chain::api::Finality finality_of(const chain::api::BlockView& view,
                                                   std::optional<std::uint64_t> final_at);

    const Parts parts_;
    Mutex calling_;  // held while listeners are called; taken before mutex_
    std::vector<chain::api::EventListener*> listeners_ QUERN_GUARDED_BY(calling_);
    mutable Mutex mutex_;
    CondVar changed_;
    std::uint64_t newest_ QUERN_GUARDED_BY(mutex_) = 0;
    std::uint64_t told_ QUERN_GUARDED_BY(mutex_) = 0;
    // Block number, when it was final (the clock's now_ms).
    std::deque<std::pair<std::uint64_t, std::uint64_t>> times_ QUERN_GUARDED_BY(mutex_);
    std::deque<chain::types::RecoveredTransaction> transactions_ QUERN_GUARDED_BY(mutex_);
    std::size_t queued_bytes_ QUERN_GUARDED_BY(mutex_) = 0;                   // of their encodings
    std::vector<chain::api::EventListener*> asked_ QUERN_GUARDED_BY(mutex_);  // as listeners_: whether they listen
    std::uint64_t left_out_ QUERN_GUARDED_BY(mutex_) = 0;
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace quern::node
