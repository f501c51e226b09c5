#include "p2p/address_book.h"

#include <algorithm>

#include "base/big_endian.h"
#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::p2p {
namespace {

constexpr std::uint32_t kMaxFailures = 8;  // then a new record may take the slot
constexpr std::uint64_t kFileVersion = 2;

}  // namespace

AddressBook::AddressBook(std::uint64_t chain_id, Rng& rng, bool local_network)
    : chain_id_(chain_id),
      rng_(rng),
      local_network_(local_network),
      new_(kNewBuckets * kBucketSlots),
      tried_(kTriedBuckets * kBucketSlots) {
    rng_.fill(secret_.data);
}

std::uint64_t AddressBook::hash(std::string_view domain, BytesView a, std::string_view b) const {
    const Hash32 digest = crypto::sha256({secret_.view(), as_bytes(domain), a, as_bytes(b)});
    return from_big_endian(digest.view().first(8));
}

std::size_t AddressBook::new_slot(const Entry& entry) const {
    const std::string group = network_group(entry.endpoints.front().host);
    const std::uint64_t of_source = hash("source", as_bytes(group), entry.source_group) % kBucketsPerSource;
    const std::size_t bucket = hash("bucket", as_bytes(std::to_string(of_source)), entry.source_group) % kNewBuckets;
    return bucket * kBucketSlots + hash("slot", entry.record.address, std::to_string(bucket)) % kBucketSlots;
}

std::size_t AddressBook::tried_slot(const Entry& entry) const {
    const std::string group = network_group(entry.endpoints.front().host);
    const std::uint64_t within = hash("tried", entry.record.address, "") % kTriedBucketsPerGroup;
    const std::size_t bucket = hash("tried bucket", as_bytes(std::to_string(within)), group) % kTriedBuckets;
    return bucket * kBucketSlots + hash("tried slot", entry.record.address, std::to_string(bucket)) % kBucketSlots;
}

void AddressBook::erase(const Bytes20& address) {
    const auto at = entries_.find(address);
    if (at == entries_.end()) return;
    (at->second.tried ? tried_ : new_)[at->second.slot].reset();
    entries_.erase(at);
}

std::vector<messages::Endpoint> AddressBook::usable(const messages::PeerRecord& record) const {
    std::vector<messages::Endpoint> good;
    for (const auto& endpoint : record.endpoints)
        if (local_network_ || transport::is_routable(endpoint.host)) good.push_back(endpoint);
    return good;
}

void AddressBook::take(Entry& entry, const messages::PeerRecord& record) const {
    entry.record = record;
    entry.encoded = encode(record);
    entry.endpoints = usable(record);
}

bool AddressBook::insert(Entry entry, std::uint64_t now_seconds) {
    const std::size_t slot = new_slot(entry);
    if (new_[slot]) {
        const Entry& held = entries_.at(*new_[slot]);
        if (held.record.expiry > now_seconds && held.failures < kMaxFailures) return false;
        erase(*new_[slot]);
    }
    entry.slot = slot;
    entry.tried = false;
    new_[slot] = entry.record.address;
    entries_[entry.record.address] = std::move(entry);
    return true;
}

bool AddressBook::add(const messages::PeerRecord& record, std::string_view source_host, std::uint64_t now_seconds) {
    if (record.chain_id != chain_id_ || record.expiry <= now_seconds) return false;
    const auto good = usable(record);
    if (good.empty()) return false;
    const auto known = entries_.find(record.address);
    if (known == entries_.end()) {
        Entry entry;
        take(entry, record);
        entry.source_group = network_group(source_host);
        return insert(std::move(entry), now_seconds);
    }
    Entry& entry = known->second;
    if (record.sequence <= entry.record.sequence) return false;
    if (entry.newer && record.sequence <= entry.newer->sequence) return false;
    if (good == entry.endpoints) {
        take(entry, record);
        entry.newer.reset();
        return true;
    }
    if (entry.tried) {
        entry.newer = record;
        return true;
    }
    // Only heard of: it is heard of anew, from whoever told this.
    Entry moved;
    take(moved, record);
    moved.source_group = network_group(source_host);
    moved.failures = entry.failures;
    const std::size_t slot = new_slot(moved);
    if (slot != entry.slot && new_[slot]) return false;
    erase(record.address);
    return insert(std::move(moved), now_seconds);
}

void AddressBook::make_tried(const Bytes20& address, std::size_t slot) {
    Entry& entry = entries_.at(address);
    new_[entry.slot].reset();
    entry.tried = true;
    entry.slot = slot;
    tried_[slot] = address;
}

void AddressBook::succeeded(const Bytes20& address, const messages::Endpoint& endpoint, std::uint64_t now_seconds) {
    const auto at = entries_.find(address);
    if (at == entries_.end()) return;
    Entry& entry = at->second;
    entry.failures = 0;
    entry.last_success = now_seconds;
    if (entry.newer) {
        const auto good = usable(*entry.newer);
        if (std::find(good.begin(), good.end(), endpoint) != good.end()) {
            const messages::PeerRecord record = *entry.newer;
            take(entry, record);
            entry.newer.reset();
        }
    }
    if (entry.tried) return;
    const std::size_t slot = tried_slot(entry);
    if (!tried_[slot]) return make_tried(address, slot);
    // Who is there has proved itself: it is tested before it leaves.
    const bool waits = std::any_of(collisions_.begin(), collisions_.end(),
                                   [&](const Collision& each) { return each.newcomer == address; });
    if (!waits && collisions_.size() < kMaxCollisions) collisions_.push_back({address, now_seconds});
}

void AddressBook::failed(const Bytes20& address, std::uint64_t now_seconds) {
    const auto at = entries_.find(address);
    if (at == entries_.end()) return;
    ++at->second.failures;
    at->second.last_failure = now_seconds;
}

void AddressBook::resolve_collisions(std::uint64_t now_seconds) {
    for (std::size_t i = 0; i < collisions_.size();) {
        const Collision collision = collisions_[i];
        const auto newcomer = entries_.find(collision.newcomer);
        bool over = newcomer == entries_.end() || newcomer->second.tried;
        if (!over) {
            const std::size_t slot = tried_slot(newcomer->second);
            const auto holder = tried_[slot] ? entries_.find(*tried_[slot]) : entries_.end();
            const bool gone = holder == entries_.end() || holder->second.record.expiry <= now_seconds;
            if (gone || holder->second.last_failure >= collision.since) {
                if (holder != entries_.end()) erase(Bytes20(holder->first));
                make_tried(collision.newcomer, slot);
                over = true;
            } else {
                over = holder->second.last_success + kFreshSeconds > now_seconds ||
                       collision.since + kCollisionSeconds <= now_seconds;
            }
        }
        if (over)
            collisions_.erase(collisions_.begin() + static_cast<std::ptrdiff_t>(i));
        else
            ++i;
    }
}

const messages::PeerRecord* AddressBook::find(const Bytes20& address) const {
    const auto at = entries_.find(address);
    return at == entries_.end() ? nullptr : &at->second.record;
}

std::vector<messages::Endpoint> AddressBook::endpoints(const Bytes20& address) const {
    const auto at = entries_.find(address);
    if (at == entries_.end()) return {};
    auto all = at->second.endpoints;
    if (at->second.newer)
        for (auto& endpoint : usable(*at->second.newer))
            if (std::find(all.begin(), all.end(), endpoint) == all.end()) all.push_back(std::move(endpoint));
    return all;
}

std::optional<AddressBook::Candidate> AddressBook::select() {
    if (entries_.empty()) return std::nullopt;
    const bool from_tried = rng_.below(2) == 0;
    for (int pass = 0; pass < 2; ++pass) {
        const auto& table = (pass == 0) == from_tried ? tried_ : new_;
        const std::size_t start = rng_.below(table.size());
        for (std::size_t i = 0; i < table.size(); ++i) {
            const auto& held = table[(start + i) % table.size()];
            if (!held) continue;
            const Entry& entry = entries_.at(*held);
            // Failing ones are passed over more and more often.
            if (entry.failures != 0 && rng_.below(std::uint64_t{1} << std::min<std::uint32_t>(entry.failures, 10)) != 0)
                continue;
            return Candidate{*held, entry.endpoints[rng_.below(entry.endpoints.size())]};
        }
    }
    return std::nullopt;
}

std::optional<AddressBook::Candidate> AddressBook::feeler(std::uint64_t now_seconds) {
    for (const auto& collision : collisions_) {
        const auto newcomer = entries_.find(collision.newcomer);
        if (newcomer == entries_.end()) continue;
        const auto& holder = tried_[tried_slot(newcomer->second)];
        if (!holder) continue;
        const Entry& entry = entries_.at(*holder);
        if (entry.last_success + kFreshSeconds <= now_seconds)
            return Candidate{*holder, entry.endpoints[rng_.below(entry.endpoints.size())]};
    }
    if (rng_.below(4) == 0)
        for (const auto& [address, entry] : entries_)
            if (entry.newer && entry.newer->expiry > now_seconds)
                return Candidate{address, usable(*entry.newer).front()};
    const std::size_t start = rng_.below(new_.size());
    for (std::size_t i = 0; i < new_.size(); ++i) {
        const auto& held = new_[(start + i) % new_.size()];
        if (!held) continue;
        const Entry& entry = entries_.at(*held);
        if (entry.record.expiry > now_seconds && entry.failures < kMaxFailures)
            return Candidate{*held, entry.endpoints[rng_.below(entry.endpoints.size())]};
    }
    return std::nullopt;
}

std::vector<Bytes> AddressBook::sample(std::size_t limit, std::uint64_t now_seconds) {
    std::vector<Bytes> out;
    std::vector<const Entry*> all;
    for (const auto& [address, entry] : entries_)
        if (entry.record.expiry > now_seconds && entry.failures < kMaxFailures) all.push_back(&entry);
    for (std::size_t i = 0; i < all.size() && out.size() < limit; ++i) {
        std::swap(all[i], all[i + rng_.below(all.size() - i)]);
        out.push_back(all[i]->encoded);
    }
    return out;
}

std::size_t AddressBook::tried() const {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(), [](const auto& entry) { return entry.second.tried; }));
}

// --- The file --------------------------------------------------------------------------------------------------------

Bytes AddressBook::save(const std::vector<Candidate>& anchors) const {
    rlp::Writer writer;
    writer.begin_list().integer(kFileVersion).fixed(secret_).begin_list();
    for (const auto& [address, entry] : entries_)
        writer.begin_list()
            .bytes(entry.encoded)
            .bytes(as_bytes(entry.source_group))
            .boolean(entry.tried)
            .integer(entry.last_success)
            .integer(std::uint64_t{entry.failures})
            .end_list();
    writer.end_list().begin_list();
    for (const auto& anchor : anchors)
        writer.begin_list()
            .fixed(anchor.address)
            .bytes(as_bytes(anchor.endpoint.host))
            .integer(std::uint64_t{anchor.endpoint.port})
            .end_list();
    writer.end_list().end_list();
    return std::move(writer).finish();
}

std::vector<AddressBook::Candidate> AddressBook::load(BytesView bytes, std::uint64_t now_seconds) {
    std::vector<Candidate> anchors;
    const auto read = [&]() -> Status {
        QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
        QUERN_TRY(const std::uint64_t version, reader.u64());
        if (version != kFileVersion) return fail("address_book.bad_version");
        QUERN_TRY(secret_, reader.fixed<32>());
        QUERN_TRY(rlp::Reader list, reader.list());
        while (!list.at_end()) {
            QUERN_TRY(rlp::Reader fields, list.list());
            QUERN_TRY(const BytesView encoded, fields.bytes());
            QUERN_TRY(const BytesView source_group, fields.bytes());
            QUERN_TRY(const bool tried, fields.boolean());
            QUERN_TRY(const std::uint64_t last_success, fields.u64());
            QUERN_TRY(const std::uint64_t failures, fields.u64());
            const auto record = messages::decode_peer_record(encoded);
            if (!record || record->chain_id != chain_id_ || record->expiry <= now_seconds || usable(*record).empty() ||
                entries_.contains(record->address))
                continue;
            Entry entry;
            take(entry, *record);
            entry.source_group = as_text(source_group);
            entry.last_success = std::min(last_success, now_seconds);
            entry.failures = static_cast<std::uint32_t>(std::min<std::uint64_t>(failures, kMaxFailures));
            const std::size_t slot = tried_slot(entry);
            if (!insert(std::move(entry), now_seconds)) continue;
            if (tried && !tried_[slot]) make_tried(record->address, slot);
        }
        QUERN_TRY(rlp::Reader kept, reader.list());
        while (!kept.at_end() && anchors.size() < kMaxAnchors) {
            QUERN_TRY(rlp::Reader fields, kept.list());
            Candidate anchor;
            QUERN_TRY(anchor.address, fields.fixed<20>());
            QUERN_TRY(const BytesView host, fields.bytes());
            QUERN_TRY(const std::uint64_t port, fields.u64());
            if (!messages::is_host(as_text(host)) || port == 0 || port > 0xffff) continue;
            anchor.endpoint = {std::string(as_text(host)), static_cast<std::uint16_t>(port)};
            anchors.push_back(std::move(anchor));
        }
        return {};
    };
    (void)read();  // what was read up to an error is kept
    return anchors;
}

}  // namespace quern::p2p
