#include "chain/consensus/vote.h"

#include "base/big_endian.h"
#include "crypto/hash.h"

namespace quern::chain::consensus {

static_assert(kVoteDomain.size() == 16);

Hash32 vote_digest(const ChainIdentity& chain, const Vote& vote) {
    Bytes message;
    message.reserve(16 + 32 + 8 + 8 + 1 + 8 + 32);
    append(message, as_bytes(kVoteDomain));
    append(message, chain.genesis_hash);
    append(message, be64(chain.chain_id));
    append(message, be64(vote.epoch));
    message.push_back(static_cast<std::uint8_t>(vote.type));
    append(message, be64(vote.view));
    append(message, vote.hash);
    return crypto::sha256(message);
}

FixedBytes<64> sign_vote(const ChainIdentity& chain, const Vote& vote, const crypto::PrivateKey& key) {
    return crypto::sign(vote_digest(chain, vote), key).compact();
}

}  // namespace quern::chain::consensus
