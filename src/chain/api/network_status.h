// What RPC may ask of the node's part in the network: consensus, peers, catching up. Implemented by the node; every
// method may be called from any thread and returns at once.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "chain/types/address.h"

namespace quern::chain::api {

struct CommitteeSeat {
    types::Address address;
    Uint256 weight;
};

struct FinalityTimes {  // from a header's timestamp, by its proposer's clock, to finality here, by this node's
    std::uint64_t p50_ms = 0;
    std::uint64_t p99_ms = 0;
    std::uint64_t largest_ms = 0;
    std::size_t samples = 0;
};

struct ConsensusStatus {
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    std::size_t master = 0;  // index in committee
    std::vector<CommitteeSeat> committee;
    std::uint64_t tip_number = 0;
    Hash32 tip_hash;
    std::uint64_t finalized_view = 0;
    std::uint64_t views_nullified = 0;  // since the start
    std::uint64_t backoff_steps = 0;
    bool member = false;          // this node's key is in the committee
    bool signs = false;           // and it signs
    std::string refuses_because;  // error name, or empty
    std::uint64_t journal_syncs = 0;
    std::uint64_t dropped_messages = 0;
    std::uint64_t queued_bytes = 0;
    FinalityTimes finality;
};

struct SyncStatus {
    bool syncing = false;
    std::uint64_t first = 0;
    std::uint64_t current = 0;
    std::uint64_t highest = 0;
};

struct PeerStatus {
    types::Address address;
    std::string host;
    std::uint16_t port = 0;
    std::string agent;
    bool inbound = false;
    bool fixed = false;  // named by an option, or of the committee
    std::uint64_t finalized_number = 0;
    std::uint64_t rtt_us = 0;
    std::uint64_t least_rtt_us = 0;
    std::uint64_t answers = 0;  // that it gave to this node's questions
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
    int score = 0;  // points of offences
};

struct OwnAddress {
    types::Address address;
    std::string host;  // where it listens, or what it advertises first
    std::uint16_t port = 0;
    bool listening = false;
    std::string agent;
};

class NetworkStatus {
public:
    virtual ~NetworkStatus() = default;
    [[nodiscard]] virtual ConsensusStatus consensus() const = 0;
    [[nodiscard]] virtual SyncStatus sync() const = 0;
    [[nodiscard]] virtual std::vector<PeerStatus> peers() const = 0;
    [[nodiscard]] virtual std::size_t peer_count() const = 0;
    [[nodiscard]] virtual OwnAddress own_address() const = 0;
    // "0xADDRESS@HOST:PORT", to be dialled from now on. Error p2p.bad_peer.
    [[nodiscard]] virtual Status add_peer(std::string_view peer) = 0;
};

}  // namespace quern::chain::api
