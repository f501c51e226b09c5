#include "chain/consensus/sdbft/view_votes.h"

namespace quern::chain::consensus::sdbft {

const ViewVotes::Entry* ViewVotes::of(VoteType type, std::size_t member) const {
    const auto& votes = list(type);
    return member < votes.size() && votes[member] ? &*votes[member] : nullptr;
}

std::optional<Evidence> ViewVotes::add(const Committee& committee, const Vote& vote, std::size_t member,
                                       const Signature& signature) {
    std::optional<Evidence> found;
    for (const auto type : {VoteType::propose, VoteType::notarize, VoteType::nullify, VoteType::finalize}) {
        const Entry* known = of(type, member);
        if (known == nullptr || found) continue;
        const Vote other{type, epoch_, view_, known->hash};
        if (is_slashable_pair(vote, other))
            found = Evidence{committee.members()[member].key, other, known->signature, vote, signature};
    }
    auto& votes = list(vote.type);
    if (votes.size() < committee.members().size()) votes.resize(committee.members().size());
    if (!votes[member]) votes[member] = Entry{vote.hash, signature};
    return found;
}

ViewVotes::Tally ViewVotes::tally(const Committee& committee, VoteType type, const Hash32& hash) const {
    Tally tally;
    const auto& votes = list(type);
    for (std::size_t i = 0; i < votes.size(); ++i) {
        if (!votes[i] || votes[i]->hash != hash) continue;
        tally.weight += committee.members()[i].weight;
        ++tally.members;
    }
    return tally;
}

Certificate ViewVotes::certificate(const Committee& committee, VoteType type, const Hash32& hash) const {
    std::vector<std::pair<std::size_t, Signature>> signatures;
    const auto& votes = list(type);
    for (std::size_t i = 0; i < votes.size(); ++i)
        if (votes[i] && votes[i]->hash == hash) signatures.emplace_back(i, votes[i]->signature);
    return make_certificate({type, epoch_, view_, hash}, committee, signatures);
}

}  // namespace quern::chain::consensus::sdbft
