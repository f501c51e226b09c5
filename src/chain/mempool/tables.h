// The pool's tables that are more than a container: by hash, where strangers choose the keys, and of parked
// transactions by source. Belong to the pool, under its lock.
#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "chain/mempool/pooled.h"

namespace quern::chain::mempool {

// Hashes and addresses can be ground until they collide: a secret of this process decides where they go. Only for
// tables that are not iterated for results.
struct SeededHasher {
    [[nodiscard]] static std::size_t mix(std::uint64_t word);
    template <std::size_t N>
    std::size_t operator()(const FixedBytes<N>& value) const noexcept {
        static_assert(N >= sizeof(std::uint64_t));
        std::uint64_t word = 0;
        std::memcpy(&word, value.data.data(), sizeof word);
        return mix(word);
    }
};

// By hash, and by its first 8 bytes, which two transactions may share when somebody took the trouble.
class HashTable {
public:
    [[nodiscard]] PooledPtr find(const Hash32& hash) const;
    [[nodiscard]] PooledPtr find_short(const FixedBytes<8>& id) const;
    void insert(const PooledPtr& pooled);
    void erase(const Hash32& hash);
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

private:
    [[nodiscard]] static FixedBytes<8> prefix(const Hash32& hash) {
        return FixedBytes<8>::copy_of(hash.view().first(8));
    }
    std::unordered_multimap<FixedBytes<8>, PooledPtr, SeededHasher> entries_;
};

// Parked transactions of each source, cheapest first.
class ParkedTable {
public:
    struct Place {
        types::Address sender;
        std::uint64_t nonce = 0;
    };
    void insert(const PooledTransaction& pooled);
    void erase(const PooledTransaction& pooled);
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] std::size_t of_source(const Source& source) const;
    // The source that has most; nothing is parked: null.
    [[nodiscard]] const Source* largest() const;
    // The cheapest of a source that has some, and what it pays.
    [[nodiscard]] std::pair<Price, Place> cheapest(const Source& source) const;
    [[nodiscard]] std::vector<Place> all() const;

private:
    std::map<Source, std::map<Price, Place>> sources_;
    std::size_t size_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace quern::chain::mempool
