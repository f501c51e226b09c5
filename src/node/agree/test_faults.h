// Planted dishonesty of a validator, for tests of its conviction. Only builds with QUERN_TEST_FAULTS link it: nothing
// else may call it.
#pragma once

#include "chain/consensus/sdbft/keys.h"
#include "chain/consensus/vote.h"
#include "node/agree/consensus_link.h"

namespace quern::node {

// After each NOTARIZE one for another block, signed as well. The signer outlives what is returned.
[[nodiscard]] ConsensusLink::Echo second_votes(const chain::consensus::sdbft::Signer& signer,
                                               const chain::consensus::ChainIdentity& chain);

}  // namespace quern::node
