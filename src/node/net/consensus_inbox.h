// Where the network's side leaves what peers say to consensus; the consensus thread implements it. Thread-safe.
#pragma once

#include "base/bytes.h"
#include "chain/consensus/sdbft/actions.h"

namespace quern::node {

class ConsensusInbox {
public:
    virtual ~ConsensusInbox() = default;
    // A peer's message; `stranger`: it is not in the committee. False: dropped at a limit.
    [[nodiscard]] virtual bool receive(chain::consensus::sdbft::PeerId peer, Bytes message, bool stranger) = 0;
    // The peer left; its number will not come again.
    virtual void forget(chain::consensus::sdbft::PeerId peer) = 0;
};

}  // namespace quern::node
