#include "chain/consensus/header_rules.h"

namespace quern::chain::consensus {

std::uint64_t epoch_of(const params::ChainParams& params, std::uint64_t number) { return number / params.epoch_length; }

std::uint64_t next_view(const params::ChainParams& params, const Tip& parent) {
    return epoch_of(params, parent.number + 1) == parent.epoch ? parent.view + 1 : 1;
}

Status check_header(const params::ChainParams& params, const Tip& parent, BytesView parent_finalization,
                    const Committee& committee, const types::Block& block) {
    const auto& header = block.header;
    const auto& fields = header.consensus;
    if (header.number != parent.number + 1) return fail("header.wrong_number", std::to_string(header.number));
    if (header.parent_hash != parent.hash) return fail("header.wrong_parent", to_hex0x(header.parent_hash));
    if (fields.epoch != epoch_of(params, header.number))
        return fail("header.wrong_epoch", std::to_string(fields.epoch));
    // Views may be skipped inside an epoch (nullified ones), never repeated.
    if (fields.view < next_view(params, parent)) return fail("header.wrong_view", std::to_string(fields.view));
    if (fields.timestamp_ms <= parent.timestamp_ms || header.timestamp != fields.timestamp_ms / 1000)
        return fail("header.wrong_timestamp", std::to_string(fields.timestamp_ms));
    if (header.prev_randao != fields.beacon) return fail("header.wrong_beacon");
    if (!fields.vrf_proof.empty()) return fail("header.vrf_proof_set", "proofs are not active");
    const Hash32 committee_hash = committee.hash();
    if (fields.committee_hash != committee_hash || fields.next_committee_hash != committee_hash)
        return fail("header.wrong_committee");
    if (!equal(block.parent_certificate, parent_finalization) ||
        fields.parent_certificate_hash != certificate_hash(parent_finalization))
        return fail("header.wrong_certificate");
    if (header.gas_limit != params.block_gas_limit)
        return fail("header.wrong_gas_limit", std::to_string(header.gas_limit));
    // There is no consensus layer beside this one (EIP-4788's root has nothing to say).
    if (!header.parent_beacon_block_root.is_zero()) return fail("header.wrong_constant", "parent beacon block root");
    return {};
}

Status check_not_future(const types::BlockHeader& header, std::uint64_t now_ms) {
    if (header.consensus.timestamp_ms > now_ms + params::kMaxFutureMs)
        return fail("header.from_the_future", std::to_string(header.consensus.timestamp_ms));
    return {};
}

}  // namespace quern::chain::consensus
