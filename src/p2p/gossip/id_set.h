// Sets of short ids. Peers choose the ids, so that where one lies depends on a secret of this process; a set is one
// array, because every announcement of every peer is looked up in several of them. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash_seed.h"
#include "p2p/messages/messages.h"

namespace quern::p2p::gossip {

using messages::ShortId;

struct ShortIdHasher {
    std::size_t operator()(const ShortId& id) const noexcept {
        return seeded_hash<8>(id.data.data(), quern::hash_seed());
    }
};

// Linear probing, at most half full; what is erased leaves no gap behind. Its array never shrinks.
class IdSet {
public:
    // Whether it was not there.
    bool insert(const ShortId& id);
    // Whether it was there.
    bool erase(const ShortId& id);
    [[nodiscard]] bool contains(const ShortId& id) const;
    [[nodiscard]] std::size_t size() const { return count_; }
    // In no order that means anything.
    [[nodiscard]] std::vector<ShortId> all() const;

private:
    struct Place {
        ShortId id;
        bool used = false;
    };
    [[nodiscard]] std::size_t home_of(const ShortId& id) const { return ShortIdHasher()(id) & (places_.size() - 1); }
    // Where it is, or the free place where it would go.
    [[nodiscard]] std::size_t find(const ShortId& id) const;
    void grow();

    std::vector<Place> places_;  // a power of two of them, or none
    std::size_t count_ = 0;
};

// At most `capacity`; the oldest goes first.
class BoundedIds {
public:
    explicit BoundedIds(std::size_t capacity) : capacity_(capacity) {}
    bool insert(const ShortId& id);
    [[nodiscard]] bool contains(const ShortId& id) const { return ids_.contains(id); }
    [[nodiscard]] std::size_t size() const { return ids_.size(); }

private:
    std::size_t capacity_;
    IdSet ids_;
    std::vector<ShortId> order_;  // a ring, once it is full
    std::size_t oldest_ = 0;
};

}  // namespace quern::p2p::gossip
