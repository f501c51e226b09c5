#include "node/net/block_giver.h"

#include "chain/consensus/sdbft/messages.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;

namespace {
constexpr std::size_t kMessageOverhead = 16;  // its kind and two prefixes
}  // namespace

void BlockGiver::give(const Bytes20& peer, const std::shared_ptr<const Bytes>& block) const {
    const auto place = AnswerBudget::reserve(parts_.answers, peer, block->size() + kMessageOverhead);
    if (place) parts_.send(peer, encode(sdbft::Message(sdbft::BlockAnswer{*block})), place);
}

void BlockGiver::give_final(const Bytes20& peer, const Hash32& hash) const {
    parts_.work.post_for(peer, [this, peer, hash](bool in_time) {
        if (!in_time) return;
        const auto place = AnswerBudget::reserve(parts_.answers, peer, chain::types::kMaxBlockBytes + kMessageOverhead);
        if (!place) return;
        auto found = parts_.server.block(hash);
        if (!found) return;
        place->shrink(found->block.size() + kMessageOverhead);
        parts_.send(peer, encode(sdbft::Message(sdbft::BlockAnswer{std::move(found->block)})), place);
    });
}

}  // namespace quern::node
