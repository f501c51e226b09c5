#include "p2p/address_book.h"

#include <algorithm>

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::p2p {
namespace {

constexpr std::uint32_t kMaxFailures = 8;  // then a new record may take the slot

}  // namespace

AddressBook::AddressBook(std::uint64_t chain_id, Rng& rng)
    : chain_id_(chain_id), rng_(rng), new_(kNewBuckets * kBucketSlots), tried_(kTriedBuckets * kBucketSlots) {
    rng_.fill(secret_.data);
}

std::uint64_t AddressBook::hash(std::string_view domain, BytesView a, std::string_view b) const {
    const Hash32 digest = crypto::sha256({secret_.view(), as_bytes(domain), a, as_bytes(b)});
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < 8; ++i) word = word << 8 | digest.data[i];
    return word;
}

std::size_t AddressBook::new_slot(const messages::PeerRecord& record, std::string_view source_group) const {
    const std::string group = network_group(record.endpoints.front().host);
    const std::uint64_t of_source = hash("source", as_bytes(group), source_group) % kBucketsPerSource;
    const std::size_t bucket = hash("bucket", as_bytes(std::to_string(of_source)), source_group) % kNewBuckets;
    return bucket * kBucketSlots + hash("slot", record.address, std::to_string(bucket)) % kBucketSlots;
}

std::size_t AddressBook::tried_slot(const messages::PeerRecord& record) const {
    const std::string group = network_group(record.endpoints.front().host);
    const std::uint64_t within = hash("tried", record.address, "") % 8;
    const std::size_t bucket = hash("tried bucket", as_bytes(std::to_string(within)), group) % kTriedBuckets;
    return bucket * kBucketSlots + hash("tried slot", record.address, std::to_string(bucket)) % kBucketSlots;
}

void AddressBook::erase(const Bytes20& address) {
    const auto at = entries_.find(address);
    if (at == entries_.end()) return;
    (at->second.tried ? tried_ : new_)[at->second.slot].reset();
    entries_.erase(at);
}

bool AddressBook::add(const messages::PeerRecord& record, std::string_view source_host, std::uint64_t now_seconds) {
    if (record.chain_id != chain_id_ || record.endpoints.empty() || record.expiry <= now_seconds) return false;
    if (const auto known = entries_.find(record.address); known != entries_.end()) {
        if (record.sequence <= known->second.record.sequence) return false;
        // The slot stays: a peer cannot move itself to another bucket by new records.
        known->second.record = record;
        known->second.encoded = encode(record);
        return true;
    }
    const std::size_t slot = new_slot(record, network_group(source_host));
    if (new_[slot]) {
        const Entry& held = entries_.at(*new_[slot]);
        if (held.record.expiry > now_seconds && held.failures < kMaxFailures) return false;
        erase(*new_[slot]);
    }
    new_[slot] = record.address;
    entries_[record.address] = Entry{record, encode(record), false, 0, slot};
    return true;
}

void AddressBook::succeeded(const Bytes20& address, std::uint64_t now_seconds) {
    const auto at = entries_.find(address);
    if (at == entries_.end()) return;
    at->second.failures = 0;
    if (at->second.tried) return;
    const std::size_t slot = tried_slot(at->second.record);
    if (tried_[slot]) {
        const Entry& held = entries_.at(*tried_[slot]);
        // The one that is there has proved itself: it leaves only when it is known to be gone.
        if (held.record.expiry > now_seconds && held.failures < kMaxFailures) return;
        erase(*tried_[slot]);
    }
    new_[at->second.slot].reset();
    at->second.tried = true;
    at->second.slot = slot;
    tried_[slot] = address;
}

void AddressBook::failed(const Bytes20& address) {
    if (const auto at = entries_.find(address); at != entries_.end()) ++at->second.failures;
}

const messages::PeerRecord* AddressBook::find(const Bytes20& address) const {
    const auto at = entries_.find(address);
    return at == entries_.end() ? nullptr : &at->second.record;
}

const messages::PeerRecord* AddressBook::select() {
    if (entries_.empty()) return nullptr;
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
            return &entry.record;
        }
    }
    return nullptr;
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

Bytes AddressBook::save() const {
    rlp::Writer writer;
    writer.begin_list();
    for (const auto& [address, entry] : entries_)
        writer.begin_list().bytes(entry.encoded).boolean(entry.tried).end_list();
    writer.end_list();
    return std::move(writer).finish();
}

void AddressBook::load(BytesView bytes, std::uint64_t now_seconds) {
    auto item = rlp::decode_single(bytes);
    if (!item || !item->is_list) return;
    rlp::Reader reader(item->payload);
    while (!reader.at_end()) {
        auto fields = reader.list();
        if (!fields) return;
        const auto encoded = fields->bytes();
        const auto tried = fields->boolean();
        if (!encoded || !tried) return;
        const auto record = messages::decode_peer_record(*encoded);
        if (!record || !add(*record, record->endpoints.empty() ? "" : record->endpoints.front().host, now_seconds))
            continue;
        if (*tried) succeeded(record->address, now_seconds);
    }
}

}  // namespace quern::p2p
