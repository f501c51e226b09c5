// The connected peers as the node's other parts name them: consensus by number, p2p by address; and what they say of
// how far they are. A peer that comes again gets a new number. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "base/rng.h"
#include "chain/consensus/sdbft/actions.h"
#include "p2p/messages/messages.h"

namespace quern::node {

class PeerTable {
public:
    using PeerId = chain::consensus::sdbft::PeerId;
    PeerId add(const Bytes20& address, const p2p::messages::Status& status, bool fixed);
    // The number that the peer had.
    std::optional<PeerId> remove(const Bytes20& address);
    void set_status(const Bytes20& address, const p2p::messages::Status& status);
    void set_committee(std::vector<Bytes20> members);

    [[nodiscard]] std::optional<PeerId> id_of(const Bytes20& address) const;
    [[nodiscard]] std::optional<Bytes20> address_of(PeerId peer) const;
    // Someone who has final blocks up to `height`, drawn at random; members of the committee first.
    [[nodiscard]] std::optional<Bytes20> pick(std::uint64_t height);
    // The newest final height that peers tell of: of static and committee peers if there are any, else of all.
    [[nodiscard]] std::uint64_t finalized() const;
    [[nodiscard]] std::uint64_t finalized_of(const Bytes20& address) const;
    [[nodiscard]] std::size_t size() const;

private:
    struct Entry {
        PeerId id = 0;
        p2p::messages::Status status;
        bool fixed = false;
    };
    mutable std::mutex mutex_;  // guards all
    std::map<Bytes20, Entry> peers_;
    std::map<PeerId, Bytes20> by_id_;
    std::vector<Bytes20> committee_;  // ascending
    PeerId next_id_ = 1;
    OsRng rng_;
};

}  // namespace quern::node
