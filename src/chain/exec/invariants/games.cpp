#include <map>

#include "chain/exec/invariants/invariants.h"
#include "compute/core/claims.h"

namespace quern::chain::exec::invariants {
namespace {

using types::ObjectPrefix;

// Of each role and address; sums wrap, which is exact for those that must be zero.
using Games = std::map<std::pair<types::Role, types::Address>, std::uint64_t>;

// Adds what one object says `times` times: bonds what they count, disputes, as much less, who plays.
Status add_games(Games& games, BytesView key, const std::optional<Bytes>& value, std::uint64_t times) {
    if (!value || key.empty()) return {};
    if (key[0] == static_cast<std::uint8_t>(ObjectPrefix::role_bond)) {
        QUERN_TRY(const auto bond, types::decode_record<types::RoleBond>(*value));
        games[{bond.role, bond.address}] += times * bond.games;
    } else if (key[0] == static_cast<std::uint8_t>(ObjectPrefix::dispute)) {
        QUERN_TRY(const auto dispute, types::decode_record<types::Dispute>(*value));
        if (dispute.closed_at != 0 || dispute.deadline == 0) return {};  // a game that waits has no deadline
        games[{compute::core::defender_role(dispute.target), dispute.defender}] -= times;
        games[{dispute.rival_role, dispute.rival}] -= times;
    }
    return {};
}

}  // namespace

Status check_games(const state::Overlay& state) {
    Games difference;
    for (const auto& [key, value] : state.changed_native()) {
        QUERN_CHECK(add_games(difference, key, value, 1));
        QUERN_CHECK(add_games(difference, key, state.base().native(key), ~std::uint64_t{0}));
    }
    for (const auto& [party, games] : difference)
        if (games != 0) return fail("invariant.games", to_hex(party.second));
    return {};
}

}  // namespace quern::chain::exec::invariants
