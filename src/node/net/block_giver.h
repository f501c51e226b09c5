// Gives peers the blocks that they ask for by hash on the consensus channel: those that are not final, which the core
// has, and those of the chain, which are read behind the duties. A question has forty bytes and an answer up to eight
// million, which wait here while the peer does not read them: they have their place in the budget of all answers, and
// who has no place gets nothing and asks another. Thread-safe.
#pragma once

#include <functional>

#include "node/net/answer_budget.h"
#include "node/net/block_server.h"
#include "node/net/duty_queue.h"

namespace quern::node {

class BlockGiver {
public:
    // A message of the consensus channel; `held` is to live until it has left, or will not.
    using Send = std::function<void(const Bytes20& peer, Bytes message, std::shared_ptr<const void> held)>;
    struct Parts {  // all outlive it
        DutyQueue& work;
        const BlockServer& server;
        std::shared_ptr<AnswerBudget> answers;
        Send send;
    };
    explicit BlockGiver(Parts parts) : parts_(std::move(parts)) {}

    // One that is not final. What it costs to find no place for it does not depend on its size.
    void give(const Bytes20& peer, const std::shared_ptr<const Bytes>& block) const;
    // One of the chain, if it is there.
    void give_final(const Bytes20& peer, const Hash32& hash) const;

private:
    const Parts parts_;
};

}  // namespace quern::node
