// Whether blocks that several peers sent are the chain's, and who lied if not: the finalization of a known committee
// vouches for one block, and each block's parent hash for the one before it, whoever sent them. Used by range_sync.h.
// Pure; thread-safe.
#pragma once

#include <functional>

#include "chain/consensus/sdbft/epoch.h"
#include "chain/consensus/sdbft/messages.h"
#include "node/chain/checkpoint.h"
#include "p2p/messages/messages.h"
#include "p2p/offence.h"

namespace quern::node {

struct RangeRules {
    chain::consensus::ChainIdentity chain;
    chain::consensus::sdbft::EpochHeights heights;
    // Whether a block's body is the one that its header's roots name.
    std::function<bool(BytesView block)> body_matches;
    std::optional<Checkpoint> checkpoint = std::nullopt;  // another history is refused
};
// How far to look for a finalization. It is rarely further than the next few blocks; when it is, blocks wait until it
// comes, as many as the range planner keeps.
struct RangeReach {
    std::size_t blocks = chain::consensus::sdbft::kMaxBlocksPerRange;
    std::size_t bytes = chain::consensus::sdbft::kMaxRangeBytes;
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
        bool all = false;  // nothing that its sender sent is to be used
        p2p::Offence offence = p2p::Offence::invalid_block;
        Error error;
    };
    std::optional<Blame> blame;
};

// `blocks` follow each other from height `first` on, which is in the committee's epoch; those of later epochs are not
// looked at. `parent` is the hash of the final block at first - 1.
[[nodiscard]] RangeVerdict judge_range(const std::vector<const p2p::messages::BlockAnswer*>& blocks,
                                       std::uint64_t first, const Hash32& parent,
                                       const chain::consensus::Committee& committee, const RangeRules& rules,
                                       const RangeReach& reach = {});
// The first block, of those that follow each other from height `first` on, that is not in the checkpoint's history: its
// own hash, or that of the one that names it as the parent, down from the checkpoint's block, which is among them.
// Nothing when it is not, or all are.
[[nodiscard]] std::optional<std::size_t> outside_history(const std::vector<const p2p::messages::BlockAnswer*>& blocks,
                                                         std::uint64_t first, const Checkpoint& checkpoint);

}  // namespace quern::node
