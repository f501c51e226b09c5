// Where other nodes can be reached, learnt from signed records. After Bitcoin Core's address manager: records that were
// only heard of lie in "new" buckets chosen by who told (so one source fills few of them), records of peers that were
// connected to lie in "tried" buckets chosen by their own network group; both by a secret, so nobody can aim. Pure; one
// thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "p2p/messages/peer_record.h"
#include "p2p/transport/host_group.h"

namespace quern::p2p {

inline constexpr std::size_t kNewBuckets = 256;
inline constexpr std::size_t kTriedBuckets = 64;
inline constexpr std::size_t kBucketSlots = 16;
inline constexpr std::size_t kBucketsPerSource = 16;  // new buckets that one source group can reach

using transport::network_group;

class AddressBook {
public:
    AddressBook(std::uint64_t chain_id, Rng& rng);

    // Takes a decoded record (its signature is checked) that `source_host` told. False when it is older than what is
    // known, expired, for another chain, without endpoints, or its slot holds a better one.
    bool add(const messages::PeerRecord& record, std::string_view source_host, std::uint64_t now_seconds);
    // A connection to it came about / failed.
    void succeeded(const Bytes20& address, std::uint64_t now_seconds);
    void failed(const Bytes20& address);
    [[nodiscard]] const messages::PeerRecord* find(const Bytes20& address) const;
    // One to dial: half of the time a tried one. nullptr when there is none.
    [[nodiscard]] const messages::PeerRecord* select();
    // Up to `limit` records to pass on.
    [[nodiscard]] std::vector<Bytes> sample(std::size_t limit, std::uint64_t now_seconds);
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] std::size_t tried() const;

    // For the file of peers: rlp([[record, tried]...]). load() skips what does not decode.
    [[nodiscard]] Bytes save() const;
    void load(BytesView bytes, std::uint64_t now_seconds);

private:
    struct Entry {
        messages::PeerRecord record;
        Bytes encoded;
        bool tried = false;
        std::uint32_t failures = 0;
        std::size_t slot = 0;
    };
    [[nodiscard]] std::uint64_t hash(std::string_view domain, BytesView a, std::string_view b) const;
    [[nodiscard]] std::size_t new_slot(const messages::PeerRecord& record, std::string_view source_group) const;
    [[nodiscard]] std::size_t tried_slot(const messages::PeerRecord& record) const;
    void erase(const Bytes20& address);

    std::uint64_t chain_id_;
    Rng& rng_;
    Hash32 secret_;
    std::map<Bytes20, Entry> entries_;
    std::vector<std::optional<Bytes20>> new_;
    std::vector<std::optional<Bytes20>> tried_;
};

}  // namespace quern::p2p
