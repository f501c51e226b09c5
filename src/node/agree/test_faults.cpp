#include "node/agree/test_faults.h"

#include "chain/consensus/sdbft/messages.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;

ConsensusLink::Echo second_votes(const sdbft::Signer& signer, const chain::consensus::ChainIdentity& chain) {
    return [&signer, chain](BytesView message) -> std::optional<Bytes> {
        const auto decoded = sdbft::decode_message(message);
        const auto* vote = decoded ? std::get_if<sdbft::VoteMessage>(&*decoded) : nullptr;
        if (vote == nullptr || vote->vote.type != chain::consensus::VoteType::notarize) return std::nullopt;
        sdbft::VoteMessage second = *vote;
        second.vote.hash.data[0] ^= 1;
        second.signature = signer.sign(vote_digest(chain, second.vote));
        return encode(sdbft::Message(second));
    };
}

}  // namespace quern::node
