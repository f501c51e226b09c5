#include "node/single_producer.h"

namespace quern::node {

namespace consensus = chain::consensus;

Expected<consensus::BuiltBlock> SingleProducer::build_block(const consensus::BuildRequest& request) {
    QUERN_TRY(const auto epoch, chain_.epoch_setup());
    return chain_.build_block({request.parent,
                               request.epoch,
                               request.view,
                               request.timestamp_ms,
                               request.beacon,
                               {},
                               chain_.tip_certificate(),
                               epoch.committee.hash(),
                               epoch.next_committee_hash});
}

Status SingleProducer::validate_block(BytesView bytes) {
    QUERN_TRY(const auto block, chain::types::decode_block(bytes));
    QUERN_TRY(const auto epoch, chain_.epoch_setup());
    QUERN_CHECK(
        consensus::check_header(setup_.genesis.params, chain_.tip(), chain_.tip_certificate(), epoch.committee, block));
    QUERN_CHECK(consensus::check_not_future(block.header, clock_.now_ms()));
    return chain_.validate_block(chain::types::hash_of(block.header), bytes);
}

Expected<consensus::Tip> SingleProducer::commit(BytesView block, const Hash32& hash,
                                                const consensus::Certificate& certificate) {
    QUERN_TRY(const auto committed, chain_.commit(hash, block, certificate));
    return committed.tip;
}

}  // namespace quern::node
