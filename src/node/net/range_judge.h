// Whether blocks that several peers sent are the chain's, and who lied if not: the finalization of a known committee
// vouches for one block, and each block's parent hash for the one before it, whoever sent them. Used by range_sync.h.
// Pure; thread-safe.
#pragma once

#include <functional>

#include "chain/consensus/sdbft/epoch.h"
#include "chain/consensus/sdbft/messages.h"
#include "p2p/messages/messages.h"
#include "p2p/offence.h"

namespace quern::node {

struct RangeRules {
    chain::consensus::ChainIdentity chain;
    chain::consensus::sdbft::EpochHeights heights;
    // Whether a block's body is the one that its header's roots name.
    std::function<bool(BytesView block)> body_matches;
};

struct RangeVerdict {
    // So many blocks from the first on are final; 0: nothing shows it yet.
    std::size_t count = 0;
    chain::consensus::Certificate certificate;  // of the last of them
    Hash32 hash;                                // its hash
    // They are final and do not follow the block before the first: two histories have a quorum.
    bool forks = false;
    // The block at this index is not what its sender must have known it to be. Judge again without it.
    struct Blame {
        std::size_t index = 0;
        p2p::Offence offence = p2p::Offence::invalid_block;
        Error error;
    };
    std::optional<Blame> blame;
};

// `blocks` follow each other from height `first` on, which is in the committee's epoch; those of later epochs are not
// looked at. `parent` is the hash of the final block at first - 1.
[[nodiscard]] RangeVerdict judge_range(const std::vector<const p2p::messages::BlockAnswer*>& blocks,
                                       std::uint64_t first, const Hash32& parent,
                                       const chain::consensus::Committee& committee, const RangeRules& rules);

}  // namespace quern::node
