// What happens in the chain, told as it happens: finalized blocks with what they changed, and admitted transactions.
// Implemented by the node's event hub, heard by the WebSocket server's subscriptions. add() and remove() may be called
// from any thread; a listener is called from the source's one thread, blocks in order and each exactly once.
#pragma once

#include "base/json.h"
#include "chain/api/chain_reader.h"

namespace quern::chain::api {

// One event of the market in a block. `kind` names it: for tasks submitted, state, claim, bid, assigned, checkpoint,
// paid, drawn, custody, committed, revealed, deleted; for disputes challenged, released, opened, moved, closed.
struct MarketChange {
    enum class Topic : std::uint8_t { task, dispute } topic = Topic::task;
    std::string_view kind;
    std::optional<std::uint64_t> task;     // absent when the chain does not know it any more
    std::optional<std::uint64_t> dispute;  // of opened, moved and closed
    // The task's: after the change for `submitted` and `state`, else after the block; absent when it is unknown.
    std::optional<types::TaskState> state;
    Hash32 transaction;  // zero: the block's own end-of-block work
    json::Value fields;  // the event's other fields by name
};

struct Finality {
    std::size_t signers = 0;
    std::optional<Uint256> weight;        // of the signers; absent when this node does not keep that epoch's committee
    std::optional<Uint256> total_weight;  // of the committee
    std::optional<std::uint64_t> milliseconds;  // from the block's timestamp until this node had it final
};

struct BlockEvent {
    std::shared_ptr<const BlockView> view;
    std::vector<types::Receipt> receipts;
    std::vector<MarketChange> changes;
    Finality finality;
};

class EventListener {
public:
    virtual ~EventListener() = default;
    // Whether anybody would hear: while this is false nothing is told, so that nothing need be read, copied or waited
    // for. Asked for each event, from any thread and under locks: it only looks at something.
    [[nodiscard]] virtual bool listens() const { return true; }
    virtual void on_block(const BlockEvent& event) = 0;
    virtual void on_transaction(const types::RecoveredTransaction& transaction) = 0;
};

class EventSource {
public:
    virtual ~EventSource() = default;
    // The listener hears of blocks from the next one on, but for those that came while it did not listen.
    virtual void add(EventListener& listener) = 0;
    // Returns when no call into the listener runs any more. Not to be called by a listener.
    virtual void remove(EventListener& listener) = 0;
};

}  // namespace quern::chain::api
