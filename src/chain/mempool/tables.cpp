#include "chain/mempool/tables.h"

#include <algorithm>

#include "base/ensure.h"
#include "base/rng.h"

namespace quern::chain::mempool {

std::size_t SeededHasher::mix(std::uint64_t word) {
    static const std::array<std::uint64_t, 2> secret = [] {
        std::array<std::uint8_t, 16> bytes;
        OsRng().fill(bytes);
        std::array<std::uint64_t, 2> words;
        std::memcpy(words.data(), bytes.data(), sizeof words);
        words[1] |= 1;
        return words;
    }();
    // Both halves of the product of two secrets with the key.
    const auto product = static_cast<unsigned __int128>(word ^ secret[0]) * secret[1];
    return static_cast<std::size_t>(product >> 64) ^ static_cast<std::size_t>(product);
}

PooledPtr HashTable::find(const Hash32& hash) const {
    const auto [first, last] = entries_.equal_range(prefix(hash));
    const auto found =
        std::find_if(first, last, [&](const auto& entry) { return entry.second->transaction.hash == hash; });
    return found == last ? nullptr : found->second;
}

PooledPtr HashTable::find_short(const FixedBytes<8>& id) const {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : found->second;
}

void HashTable::insert(const PooledPtr& pooled) { entries_.emplace(prefix(pooled->transaction.hash), pooled); }

void HashTable::erase(const Hash32& hash) {
    const auto [first, last] = entries_.equal_range(prefix(hash));
    const auto found =
        std::find_if(first, last, [&](const auto& entry) { return entry.second->transaction.hash == hash; });
    if (found != last) entries_.erase(found);
}

void ParkedTable::insert(const PooledTransaction& pooled) {
    sources_[pooled.source].emplace(price_of(pooled), Place{pooled.transaction.sender, pooled.transaction.tx.nonce});
    ++size_;
    bytes_ += pooled.bytes;
}

void ParkedTable::erase(const PooledTransaction& pooled) {
    const auto source = sources_.find(pooled.source);
    if (source == sources_.end() || source->second.erase(price_of(pooled)) == 0) return;
    if (source->second.empty()) sources_.erase(source);
    --size_;
    deduct(bytes_, pooled.bytes);
}

std::size_t ParkedTable::of_source(const Source& source) const {
    const auto found = sources_.find(source);
    return found == sources_.end() ? 0 : found->second.size();
}

const Source* ParkedTable::largest() const {
    const auto found = std::max_element(sources_.begin(), sources_.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    return found == sources_.end() ? nullptr : &found->first;
}

std::pair<Price, ParkedTable::Place> ParkedTable::cheapest(const Source& source) const {
    const auto& [price, place] = *sources_.at(source).begin();
    return {price, place};
}

std::vector<ParkedTable::Place> ParkedTable::all() const {
    std::vector<Place> places;
    places.reserve(size_);
    for (const auto& [source, entries] : sources_)
        for (const auto& [price, place] : entries) places.push_back(place);
    return places;
}

}  // namespace quern::chain::mempool
