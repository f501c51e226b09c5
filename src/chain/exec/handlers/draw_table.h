// The tables that verifiers are drawn from: the bonds of a role with their weights, as they were when the epoch of the
// draw's anchor began. What somebody does to a bond counts in the tables of later epochs only, so nothing that happens
// after a beacon is known moves anybody's place. A table is a tree of sums (types::DrawNode), changed and searched in
// O(log n). Rules: doc/market.md, "Draws". Used by one thread.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "chain/exec/handlers/draw.h"

namespace quern::chain::exec::handlers {

// Gives the bond the weight of what is bonded in the tables of the epochs from `from` on, and a place if it has none;
// takes it away with the last grain. Versions that no draw of an epoch from `oldest` on asks for are forgotten. Of a
// role that has no tables (market::is_drawn) it does nothing. The caller stores the bond. Error bond.table_full.
[[nodiscard]] Status update_table(state::Overlay& state, types::RoleBond& bond, std::uint64_t from,
                                  std::uint64_t oldest);
// After what is bonded has changed from `before`: the same from the epoch after that of the running block on, and what
// watchers are drawn by. The caller stores the bond.
[[nodiscard]] Status bond_changed(Context& context, types::RoleBond& bond, const Uint256& before);

// The members of a table in the order in which they are drawn, without replacement: a function of the table and the
// randomness. Whoever asks decides who of them can serve; that moves nobody else.
class DrawSequence {
public:
    // The table of the epoch.
    DrawSequence(const state::Overlay& state, types::Role role, std::uint64_t epoch, const Hash32& randomness);
    // nullopt after the last.
    [[nodiscard]] Expected<std::optional<Candidate>> next();

private:
    // Of the table's version: null where nothing is below.
    [[nodiscard]] Expected<const types::DrawVersion*> node(std::uint8_t level, std::uint32_t index);

    const state::Overlay& state_;
    const types::Role role_;
    const std::uint64_t epoch_;
    const Hash32 randomness_;
    std::map<std::tuple<std::uint8_t, std::uint32_t>, std::optional<types::DrawVersion>> nodes_;  // read so far
    std::map<Uint256, Uint256> taken_;  // weights by where they begin among the table's sums
    Uint256 taken_weight_;
};

}  // namespace quern::chain::exec::handlers
