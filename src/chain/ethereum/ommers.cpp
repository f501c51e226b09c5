#include "chain/ethereum/ommers.h"

#include <algorithm>

#include "chain/ethereum/header_rules.h"

namespace quern::chain::ethereum {
namespace {

constexpr std::size_t kMaxOmmers = 2;
constexpr std::size_t kOmmerGenerations = 6;
constexpr std::uint64_t kOmmerShares = 8;    // of the reward, one less for each generation
constexpr std::uint64_t kNephewShares = 32;  // of the reward, one for each ommer

constexpr std::uint64_t kEther = 1'000'000'000'000'000'000;

Uint256 block_reward(Revision revision) {
    if (revision >= Revision::paris) return {};
    const std::uint64_t ether = revision >= Revision::constantinople ? 2 : revision >= Revision::byzantium ? 3 : 5;
    return Uint256(kEther) * Uint256(ether);
}

}  // namespace

Status check_ommers(const Network& network, const Block& block, const Ancestor& parent) {
    if (block.ommers.size() > kMaxOmmers) return fail("block.too_many_uncles");
    std::vector<Hash32> named;  // by blocks up to here, and by this one
    std::vector<const Ancestor*> ancestors;
    for (const Ancestor* each = &parent; each != nullptr && ancestors.size() <= kOmmerGenerations;
         each = each->parent) {
        ancestors.push_back(each);
        named.insert(named.end(), each->ommers.begin(), each->ommers.end());
    }
    const auto find_ancestor = [&](const Hash32& hash) -> const Ancestor* {
        for (const Ancestor* each : ancestors)
            if (each->header.hash == hash) return each;
        return nullptr;
    };
    for (const Header& ommer : block.ommers) {
        if (std::find(named.begin(), named.end(), ommer.hash) != named.end()) return fail("block.uncle_in_chain");
        named.push_back(ommer.hash);
        if (find_ancestor(ommer.hash) != nullptr) return fail("block.uncle_is_ancestor");
        if (ommer.parent_hash == parent.header.hash) return fail("block.uncle_is_brother");
        const Ancestor* its_parent = find_ancestor(ommer.parent_hash);
        if (its_parent == nullptr) return fail("block.uncle_parent_incorrect");
        QUERN_CHECK(check_header(network, ommer, *its_parent));
    }
    return {};
}

void pay_rewards(state::Overlay& overlay, const Fork& fork, const Block& block) {
    const Uint256 reward = block_reward(fork.revision);
    if (reward.is_zero()) return;
    Uint256 own = reward;
    for (const Header& ommer : block.ommers) {
        own += reward / Uint256(kNephewShares);
        const std::uint64_t generations = block.header.number - ommer.number;
        overlay.change_account(ommer.coinbase).balance +=
            reward * Uint256(kOmmerShares - generations) / Uint256(kOmmerShares);
    }
    overlay.change_account(block.header.coinbase).balance += own;
}

}  // namespace quern::chain::ethereum
