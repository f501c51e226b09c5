#include "chain/consensus/sdbft/proposal_rules.h"

#include "base/rlp.h"
#include "chain/consensus/beacon.h"

namespace quern::chain::consensus::sdbft {

Expected<BlockInfo> read_block(BytesView encoded) {
    QUERN_TRY(auto block, types::decode_block(encoded));
    const auto& fields = block.header.consensus;
    BlockInfo info;
    info.hash = types::hash_of(block.header);
    info.parent = block.header.parent_hash;
    info.number = block.header.number;
    info.epoch = fields.epoch;
    info.view = fields.view;
    info.timestamp_ms = fields.timestamp_ms;
    info.beacon = fields.beacon;
    info.vrf_proof = fields.vrf_proof;
    info.parent_certificate_hash = fields.parent_certificate_hash;
    info.committee_hash = fields.committee_hash;
    info.next_committee_hash = fields.next_committee_hash;
    info.parent_certificate = std::move(block.parent_certificate);
    return info;
}

Expected<BlockHead> read_head(BytesView encoded) {
    QUERN_TRY(rlp::Reader block, rlp::decode_list(encoded));
    QUERN_TRY(const rlp::Item item, block.next());
    QUERN_TRY(const auto header, types::decode_header(item.whole));
    return BlockHead{types::hash_of(header), header.parent_hash, header.number, header.consensus.epoch};
}

Tip tip_of(const BlockInfo& info) {
    return {info.number, info.hash, info.epoch, info.view, info.timestamp_ms, info.beacon};
}

Status check_header(const BlockInfo& block, const EpochSetup& epoch, const EpochHeights& heights, const Hooks& hooks) {
    if (hooks.checks(PlantedBug::wrong_epoch) && block.epoch != epoch.epoch)
        return fail("header.wrong_epoch", std::to_string(block.epoch));
    if (hooks.checks(PlantedBug::child_of_last_block) && hooks.checks(PlantedBug::wrong_number) &&
        heights.epoch_of(block.number) != epoch.epoch)
        return fail("header.wrong_epoch", std::to_string(block.epoch));
    if (block.view == 0) return fail("header.wrong_view", "0");
    // Each block of the epoch before it took a view. The genesis block took none.
    const std::uint64_t first = std::max<std::uint64_t>(1, heights.first(epoch.epoch));
    if (hooks.checks(PlantedBug::wrong_number) && (block.number < first || block.number - first >= block.view))
        return fail("header.wrong_number", std::to_string(block.number));
    if (hooks.checks(PlantedBug::wrong_committee) &&
        (block.committee_hash != epoch.committee.hash() || block.next_committee_hash != epoch.next_committee_hash))
        return fail("header.wrong_committee");
    if (block.parent_certificate_hash != certificate_hash(block.parent_certificate))
        return fail("header.wrong_certificate");
    return {};
}

Status check_proposed(const BlockInfo& block, const Tip& parent, const EpochSetup& epoch, const Scheme& scheme,
                      const Hooks& hooks) {
    if (hooks.checks(PlantedBug::wrong_number) && block.number != parent.number + 1)
        return fail("header.wrong_number", std::to_string(block.number));
    if (block.parent != parent.hash) return fail("header.wrong_parent", to_hex0x(block.parent));
    if (parent.epoch == block.epoch && block.view <= parent.view)
        return fail("header.wrong_view", std::to_string(block.view));
    if (hooks.checks(PlantedBug::wrong_timestamp) && block.timestamp_ms <= parent.timestamp_ms)
        return fail("header.wrong_timestamp", std::to_string(block.timestamp_ms));
    const auto& master = epoch.committee.members()[master_of(epoch, block.view)];
    const auto output = scheme.vrf_verify(master.key, parent.beacon, block.vrf_proof);
    if (!output) return hooks.checks(PlantedBug::wrong_beacon_proof) ? Status(fail(output.error())) : Status();
    if (hooks.checks(PlantedBug::wrong_beacon) && block.beacon != next_beacon(parent.beacon, *output))
        return fail("header.wrong_beacon");
    return {};
}

}  // namespace quern::chain::consensus::sdbft
