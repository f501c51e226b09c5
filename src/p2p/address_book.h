// Where other nodes can be reached, learnt from signed records. After Bitcoin Core's address manager: records that were
// only heard of lie in "new" buckets chosen by who told and whom (so one source fills few of them), records of peers
// that were connected to lie in "tried" buckets chosen by their own network group; both by a secret that survives a
// restart, so nobody can aim. Who has proved itself leaves a place only after it was tested and did not answer, and
// keeps the endpoint at which it was reached until the next one has been tried. Strangers cannot send this node to
// loopback, private networks or host names, except on a network of test nodes. Times are seconds since 1970. Pure; one
// thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "p2p/messages/peer_record.h"
#include "p2p/transport/host_group.h"

namespace quern::p2p {

using transport::network_group;

inline constexpr std::size_t kNewBuckets = 256;
inline constexpr std::size_t kTriedBuckets = 64;
inline constexpr std::size_t kBucketSlots = 16;
inline constexpr std::size_t kBucketsPerSource = 16;  // new buckets that one source group can reach
inline constexpr std::size_t kTriedBucketsPerGroup = 8;
inline constexpr std::size_t kMaxCollisions = 16;         // newcomers that wait for the test of who has their place
inline constexpr std::uint64_t kFreshSeconds = 4 * 3600;  // heard from so lately, the old one need not be tested
inline constexpr std::uint64_t kCollisionSeconds = 2400;  // without a test for so long the old one stays
inline constexpr std::size_t kMaxAnchors = 4;

class AddressBook {
public:
    struct Candidate {
        Bytes20 address;
        messages::Endpoint endpoint;
        bool operator==(const Candidate&) const = default;
    };

    AddressBook(std::uint64_t chain_id, Rng& rng, bool local_network = false);

    // Takes a decoded record (its signature is checked) that `source_host` told. False when it is older than what is
    // known, expired, for another chain, without an endpoint that may be dialled, or its slot holds a better one.
    bool add(const messages::PeerRecord& record, std::string_view source_host, std::uint64_t now_seconds);
    // A connection to it at this endpoint came about.
    void succeeded(const Bytes20& address, const messages::Endpoint& endpoint, std::uint64_t now_seconds);
    void failed(const Bytes20& address, std::uint64_t now_seconds);
    [[nodiscard]] const messages::PeerRecord* find(const Bytes20& address) const;
    // Where it may be dialled: the tested endpoints, then those of a newer record that nobody has tried yet.
    [[nodiscard]] std::vector<messages::Endpoint> endpoints(const Bytes20& address) const;
    // One to dial: half of the time a tried one.
    [[nodiscard]] std::optional<Candidate> select();
    // One to test by a short connection: who holds a place that another wants, a newer endpoint of a tried one, or one
    // that was only heard of.
    [[nodiscard]] std::optional<Candidate> feeler(std::uint64_t now_seconds);
    // Gives places to newcomers where the test of the holder failed.
    void resolve_collisions(std::uint64_t now_seconds);
    // Up to `limit` records to pass on.
    [[nodiscard]] std::vector<Bytes> sample(std::size_t limit, std::uint64_t now_seconds);
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] std::size_t tried() const;
    [[nodiscard]] std::size_t collisions() const { return collisions_.size(); }

    // For the file of peers: rlp([2, secret, [[record, source group, tried, last success, failures]...],
    // [[address, host, port]...]]), the last being the anchors: peers to dial first after a restart. load() skips what
    // does not decode and returns the anchors.
    [[nodiscard]] Bytes save(const std::vector<Candidate>& anchors) const;
    std::vector<Candidate> load(BytesView bytes, std::uint64_t now_seconds);

private:
    struct Entry {
        messages::PeerRecord record;
        Bytes encoded;
        std::vector<messages::Endpoint> endpoints;  // of the record, those that may be dialled
        std::string source_group;
        bool tried = false;
        std::uint32_t failures = 0;
        std::size_t slot = 0;
        std::uint64_t last_success = 0;
        std::uint64_t last_failure = 0;
        std::optional<messages::PeerRecord> newer;  // of a tried one, with endpoints that nobody has tried
    };
    struct Collision {
        Bytes20 newcomer;
        std::uint64_t since = 0;
    };
    [[nodiscard]] std::uint64_t hash(std::string_view domain, BytesView a, std::string_view b) const;
    [[nodiscard]] std::size_t new_slot(const Entry& entry) const;
    [[nodiscard]] std::size_t tried_slot(const Entry& entry) const;
    [[nodiscard]] std::vector<messages::Endpoint> usable(const messages::PeerRecord& record) const;
    [[nodiscard]] bool insert(Entry entry, std::uint64_t now_seconds);
    void take(Entry& entry, const messages::PeerRecord& record) const;
    void make_tried(const Bytes20& address, std::size_t slot);
    void erase(const Bytes20& address);

    std::uint64_t chain_id_;
    Rng& rng_;
    bool local_network_;
    Hash32 secret_;
    std::map<Bytes20, Entry> entries_;
    std::vector<std::optional<Bytes20>> new_;
    std::vector<std::optional<Bytes20>> tried_;
    std::vector<Collision> collisions_;
};

}  // namespace quern::p2p
