#include "chain/exec/handlers/draw_table.h"

#include <algorithm>
#include <utility>

#include "chain/consensus/sdbft/epoch.h"

namespace quern::chain::exec::handlers {
namespace {

using params::kDrawFanout;
using params::kDrawLevels;
using types::DrawNode;
using types::DrawTable;
using types::DrawVersion;

constexpr std::uint32_t kMaxPlaces = std::uint32_t{1} << (4 * kDrawLevels);
static_assert(kDrawFanout == 16);

struct Epochs {
    std::uint64_t from;
    std::uint64_t oldest;
};

// The node as it will be from that epoch on, to be changed; older versions that no draw asks for any more are gone.
DrawVersion& newest_version(DrawNode& node, const Epochs& epochs) {
    auto& versions = node.versions;
    if (versions.empty() || versions.back().epoch < epochs.from) {
        versions.push_back(versions.empty() ? DrawVersion() : versions.back());
        versions.back().epoch = epochs.from;
    }
    const auto needless = std::find_if(versions.begin() + 1, versions.end(),
                                       [&](const DrawVersion& next) { return next.epoch > epochs.oldest; });
    versions.erase(versions.begin(), needless - 1);
    return versions.back();
}

void set_weight(DrawVersion& version, std::size_t slot, const Uint256& weight) {
    if (version.weights.size() <= slot) version.weights.resize(slot + 1);
    version.weights[slot] = weight;
    while (!version.weights.empty() && version.weights.back().is_zero()) version.weights.pop_back();
}

// What is at a place, from 0 on: its weight on level 0, sums above.
Status set_member(state::Overlay& state, types::Role role, std::uint32_t place, const Candidate& member,
                  const Epochs& epochs) {
    Uint256 weight = member.weight;
    for (std::uint8_t level = 0; level < kDrawLevels; ++level) {
        const std::uint32_t slot = place % kDrawFanout;
        place /= kDrawFanout;
        const Bytes key = types::key_of<DrawNode>(role, level, place);
        QUERN_TRY(auto stored, state.load<DrawNode>(role, level, place));
        DrawNode node = std::move(stored).value_or(DrawNode());
        DrawVersion& version = newest_version(node, epochs);
        set_weight(version, slot, weight);
        if (level == 0) {
            version.addresses.resize(std::max<std::size_t>(version.addresses.size(), slot + 1));
            version.addresses[slot] = member.address;
            version.addresses.resize(version.weights.size());
        }
        weight = market::weight_of(version);
        if (node.versions.size() == 1 && version.weights.empty())
            state.erase_native(key);
        else
            state.store(key, node);
    }
    return {};
}

// Who has the place from the next epoch on.
Expected<types::Address> address_at(const state::Overlay& state, types::Role role, std::uint32_t place) {
    QUERN_TRY(const auto node, state.load<DrawNode>(role, std::uint8_t{0}, place / kDrawFanout));
    if (!node || node->versions.empty() || node->versions.back().addresses.size() <= place % kDrawFanout)
        return fault("state.corrupt_object", "a table of draws lacks place " + std::to_string(place));
    return node->versions.back().addresses[place % kDrawFanout];
}

// Whoever has the last place takes that of the bond.
Status leave_table(state::Overlay& state, types::RoleBond& bond, DrawTable& table, const Epochs& epochs) {
    const std::uint32_t last = table.bonds - 1;
    const std::uint32_t place = bond.place - 1;
    if (place != last) {
        QUERN_TRY(const types::Address address, address_at(state, bond.role, last));
        QUERN_TRY(auto moved, load_bond(state, bond.role, address));
        QUERN_CHECK(set_member(state, bond.role, place, {address, moved.weight}, epochs));
        moved.place = bond.place;
        store_bond(state, moved);
    }
    QUERN_CHECK(set_member(state, bond.role, last, {}, epochs));
    --table.bonds;
    bond.place = 0;
    return {};
}

}  // namespace

Status update_table(state::Overlay& state, types::RoleBond& bond, std::uint64_t from, std::uint64_t oldest) {
    if (!market::is_drawn(bond.role) || bond.weight == bond.bonded) return {};
    const Epochs epochs{from, oldest};
    QUERN_TRY(auto stored, state.load<DrawTable>(bond.role));
    DrawTable table = stored.value_or(DrawTable());
    const std::uint32_t bonds_before = table.bonds;
    bond.weight = bond.bonded;
    if (bond.bonded.is_zero()) {
        QUERN_CHECK(leave_table(state, bond, table, epochs));
    } else {
        if (bond.place == 0) {
            if (table.bonds == kMaxPlaces) return fail("bond.table_full", std::to_string(kMaxPlaces) + " bonds");
            bond.place = ++table.bonds;
        }
        QUERN_CHECK(set_member(state, bond.role, bond.place - 1, {bond.address, bond.weight}, epochs));
    }
    const Bytes key = types::key_of<DrawTable>(bond.role);
    if (table.bonds == 0)
        state.erase_native(key);
    else if (table.bonds != bonds_before)
        state.store(key, table);
    return {};
}

Status bond_changed(Context& context, types::RoleBond& bond, const Uint256& before) {
    if (bond.bonded > before) bond.raised_at = context.height;
    if (bond.role == types::Role::whistleblower) {
        QUERN_TRY(auto globals, load_globals(context.state));
        globals.watch_bonds = globals.watch_bonds + bond.bonded - before;
        store_globals(context.state, globals);
    }
    const consensus::sdbft::EpochHeights heights(context.params.epoch_length);
    const std::uint64_t oldest = context.height - std::min(context.height, params::kDrawReach);
    return update_table(context.state, bond, heights.epoch_of(context.height) + 1, heights.epoch_of(oldest));
}

DrawSequence::DrawSequence(const state::Overlay& state, types::Role role, std::uint64_t epoch, const Hash32& randomness)
    : state_(state), role_(role), epoch_(epoch), randomness_(randomness) {}

Expected<const DrawVersion*> DrawSequence::node(std::uint8_t level, std::uint32_t index) {
    auto [found, is_new] = nodes_.try_emplace({level, index});
    auto& version = found->second;
    if (is_new) {
        QUERN_TRY(const auto node, state_.load<DrawNode>(role_, level, index));
        if (node)
            for (const auto& each : node->versions)
                if (each.epoch <= epoch_) version = each;
    }
    return version ? &*version : nullptr;
}

Expected<std::optional<Candidate>> DrawSequence::next() {
    QUERN_TRY(const DrawVersion* root, node(kDrawLevels - 1, 0));
    if (root == nullptr) return std::optional<Candidate>();
    const Uint256 left = market::weight_of(*root) - taken_weight_;
    if (left.is_zero()) return std::optional<Candidate>();
    Uint256 point = Uint256::from_be(draw_hash("draw", randomness_, taken_.size(), 0)) % left;
    for (const auto& [begin, weight] : taken_) {
        if (point < begin) break;
        point += weight;
    }
    const Uint256 drawn = point;
    Candidate member;
    std::uint32_t index = 0;
    for (std::uint8_t level = kDrawLevels; level-- > 0;) {
        QUERN_TRY(const DrawVersion* version, node(level, index));
        std::size_t slot = 0;
        for (; version != nullptr && slot < version->weights.size() && point >= version->weights[slot]; ++slot)
            point -= version->weights[slot];
        if (version == nullptr || slot == version->weights.size() || (level == 0 && slot >= version->addresses.size()))
            return fault("state.corrupt_object", "a table of draws does not add up");
        index = index * kDrawFanout + static_cast<std::uint32_t>(slot);
        if (level == 0) member = {version->addresses[slot], version->weights[slot]};
    }
    taken_.emplace(drawn - point, member.weight);
    taken_weight_ += member.weight;
    return std::optional<Candidate>(member);
}

}  // namespace quern::chain::exec::handlers
