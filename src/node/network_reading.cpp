#include "node/network_reading.h"

namespace quern::node {

namespace api = chain::api;

api::ConsensusStatus NetworkReading::consensus() const {
    const auto state = participation_.consensus();
    const auto finality = participation_.finality();
    api::ConsensusStatus status;
    status.epoch = state.core.epoch;
    status.view = state.core.view;
    status.master = state.core.master;
    for (const auto& member : state.committee.members())
        status.committee.push_back({crypto::address20(member.key), member.weight});
    status.tip_number = state.core.tip.number;
    status.tip_hash = state.core.tip.hash;
    status.finalized_view = state.core.last_finalized_view;
    status.views_nullified = state.views_nullified;
    status.backoff_steps = state.core.backoff_steps;
    status.member = state.member;
    status.signs = state.core.signs;
    status.refuses_because = state.core.refuses_because;
    status.journal_syncs = state.journal_syncs;
    status.dropped_messages = state.dropped_messages;
    status.queued_bytes = state.queued_bytes;
    status.finality = {finality.p50, finality.p99, finality.largest, finality.samples};
    return status;
}

api::SyncStatus NetworkReading::sync() const {
    const auto progress = participation_.progress();
    return {progress.syncing, progress.first, progress.number, progress.target};
}

std::vector<api::PeerStatus> NetworkReading::peers() const {
    std::vector<api::PeerStatus> peers;
    for (auto& peer : participation_.network().status().peers)
        peers.push_back({peer.address, peer.host, peer.port, peer.agent, !peer.outbound, peer.fixed,
                         peer.status.finalized_number, peer.rtt_us, peer.least_rtt_us, peer.answers, peer.bytes_in,
                         peer.bytes_out, peer.score});
    return peers;
}

api::OwnAddress NetworkReading::own_address() const {
    const auto& network = participation_.network();
    return {network.address(), host_, network.port(), network.port() != 0, agent_};
}

Status NetworkReading::add_peer(std::string_view peer) {
    QUERN_TRY(const auto parsed, p2p::parse_static_peer(peer));
    participation_.network().add_static_peer(parsed);
    return {};
}

}  // namespace quern::node
