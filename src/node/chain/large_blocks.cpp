#include "node/chain/large_blocks.h"

#include <algorithm>

namespace quern::node {
namespace {

// More wait for their commits only while finality stands still. Others' leave room for this node's own.
constexpr std::size_t kMaxRemembered = 128;
constexpr std::size_t kMaxOthersRemembered = 64;

}  // namespace

void LargeBlocks::built(const Hash32& hash, const Block& block, double sealing_us, bool cut_short) {
    if (budget_.built(sealing_us, block.gas, cut_short) && waiting_.size() < kMaxRemembered)
        waiting_[hash] = {block, true, cut_short};
}

void LargeBlocks::executed(const Hash32& hash, const Block& block) {
    if (budget_.is_as_large(block.gas) && waiting_.size() < kMaxOthersRemembered)
        waiting_.try_emplace(hash, Waiting{block, false, false});
}

void LargeBlocks::committed(std::uint64_t number, const Hash32& hash, std::uint64_t now_ms) {
    bool lost = false;
    std::erase_if(waiting_, [&](const auto& entry) {
        const auto& [large, waiting] = entry;
        if (waiting.block.number > number) return false;
        const auto took_ms = static_cast<double>(now_ms - std::min(now_ms, waiting.block.began_ms));
        if (large != hash)
            lost = lost || waiting.own;
        else if (waiting.own)
            budget_.became_final(took_ms, waiting.block.gas, waiting.cut_short);
        else
            budget_.other_became_final(took_ms, waiting.block.gas);
        return true;
    });
    if (lost) budget_.lost();
}

}  // namespace quern::node
