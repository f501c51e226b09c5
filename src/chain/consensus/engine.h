// The consensus engine as a pure state machine: step(event, now) -> actions, no sockets, clocks, files or threads. The
// driver (driver.h) carries the actions out and feeds the results back as events. Implementations: SingleValidator.
// Belongs to the chain thread.
#pragma once

#include <variant>

#include "chain/consensus/header_rules.h"
#include "chain/consensus/safety_journal.h"

namespace quern::chain::consensus {

// A block to be made on `parent`.
struct BuildRequest {
    Tip parent;
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    std::uint64_t timestamp_ms = 0;
    Hash32 beacon;
    bool operator==(const BuildRequest&) const = default;
};

namespace event {
struct Started {};
struct TransactionsWait {  // the mempool has, or no longer has, something to put in a block
    bool waiting = false;
};
struct TimePassed {};
struct Built {
    BuiltBlock block;
};
struct Stored {};     // the proposal and its block are durable
struct Validated {};  // the recovered block is valid on the tip
struct Committed {
    Tip tip;
};
}  // namespace event
using Event = std::variant<event::Started, event::TransactionsWait, event::TimePassed, event::Built, event::Stored,
                           event::Validated, event::Committed>;

namespace action {
struct Build {  // answered by Built
    BuildRequest request;
};
struct Store {  // answered by Stored; nothing that follows from the signature may happen before
    SignedProposal proposal;
};
struct Validate {  // a block that was signed before a restart; answered by Validated
    Bytes block;
};
struct Commit {  // answered by Committed
    Bytes block;
    Hash32 hash;
    Certificate certificate;
};
struct WakeAt {  // send TimePassed at this monotonic time; replaces an earlier one
    std::uint64_t monotonic_ms = 0;
};
struct Halt {  // this validator must not go on
    Error error;
};
}  // namespace action
using Action =
    std::variant<action::Build, action::Store, action::Validate, action::Commit, action::WakeAt, action::Halt>;

class Engine {
public:
    virtual ~Engine() = default;
    [[nodiscard]] virtual std::vector<Action> step(const Event& event, const Time& now) = 0;
};

}  // namespace quern::chain::consensus
