// The node's part in the network behind chain/api's NetworkStatus, for RPC. Thread-safe.
#pragma once

#include "chain/api/network_status.h"
#include "node/participation.h"

namespace quern::node {

class NetworkReading final : public chain::api::NetworkStatus {
public:
    // `participation` outlives it. `host`: where the node listens or what it advertises.
    NetworkReading(Participation& participation, std::string host, std::string agent)
        : participation_(participation), host_(std::move(host)), agent_(std::move(agent)) {}

    [[nodiscard]] chain::api::ConsensusStatus consensus() const override;
    [[nodiscard]] chain::api::SyncStatus sync() const override;
    [[nodiscard]] std::vector<chain::api::PeerStatus> peers() const override;
    [[nodiscard]] std::size_t peer_count() const override { return participation_.network().peer_count(); }
    [[nodiscard]] chain::api::OwnAddress own_address() const override;
    [[nodiscard]] Status add_peer(std::string_view peer) override;

private:
    Participation& participation_;
    const std::string host_;
    const std::string agent_;
};

}  // namespace quern::node
