// The connected peers as the node's other parts name them: consensus by number, p2p by address. A peer that comes again
// gets a new number. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/rng.h"
#include "chain/consensus/sdbft/actions.h"

namespace quern::node {

class PeerTable {
public:
    using PeerId = chain::consensus::sdbft::PeerId;
    PeerId add(const Bytes20& address);
    // The number that the peer had.
    std::optional<PeerId> remove(const Bytes20& address);
    void set_committee(std::vector<Bytes20> members);

    [[nodiscard]] std::optional<PeerId> id_of(const Bytes20& address) const;
    // Of the committee.
    [[nodiscard]] bool is_member(const Bytes20& address) const;
    [[nodiscard]] std::optional<Bytes20> address_of(PeerId peer) const;
    // Someone, drawn at random; members of the committee first.
    [[nodiscard]] std::optional<Bytes20> pick();
    [[nodiscard]] std::size_t size() const;

private:
    mutable Mutex mutex_;
    std::map<Bytes20, PeerId> peers_ QUERN_GUARDED_BY(mutex_);
    std::map<PeerId, Bytes20> by_id_ QUERN_GUARDED_BY(mutex_);
    std::vector<Bytes20> committee_ QUERN_GUARDED_BY(mutex_);  // ascending
    PeerId next_id_ QUERN_GUARDED_BY(mutex_) = 1;
    OsRng rng_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::node
