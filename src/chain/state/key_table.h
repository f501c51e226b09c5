// A hash table from keys of a fixed size to values that never move and are never taken out: what an overlay touched.
// Look-ups cost one probe of a seeded table and one of the entry; entries keep the order in which they came, which
// means nothing: what reaches a result is sorted first (in_key_order). Used by one thread.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/hash_seed.h"

namespace quern::chain::state {

template <class Key, class Value>
class KeyTable {
public:
    struct Entry {
        Key key;
        Value value;
    };

    // Null when there is none.
    [[nodiscard]] const Entry* find(const Key& key) const {
        if (slots_.empty()) return nullptr;
        const std::uint32_t number = slots_[slot_of(key, hash_of(key))].number;
        return number == 0 ? nullptr : &at(number - 1);
    }
    // The entry of the key, made with an empty value when there was none (then .second is true).
    std::pair<Entry*, bool> find_or_add(const Key& key) {
        if (2 * (count_ + 1) > slots_.size()) grow();
        const std::uint32_t hash = hash_of(key);
        Slot& slot = slots_[slot_of(key, hash)];
        if (slot.number != 0) return {&at(slot.number - 1), false};
        slot.hash = hash;
        if (count_ % kChunk == 0) chunks_.push_back(std::make_unique<Entry[]>(kChunk));
        slot.number = static_cast<std::uint32_t>(++count_);
        Entry& entry = at(count_ - 1);
        entry.key = key;
        return {&entry, true};
    }
    [[nodiscard]] std::size_t size() const { return count_; }
    // Whether `wanted(entry)` holds for any.
    template <class Wanted>
    [[nodiscard]] bool any_of(Wanted&& wanted) const {
        for (std::size_t i = 0; i < count_; ++i)
            if (wanted(chunks_[i / kChunk][i % kChunk])) return true;
        return false;
    }
    // Those for which `wanted(value)` holds, ascending by key.
    template <class Wanted>
    [[nodiscard]] std::vector<const Entry*> in_key_order(Wanted&& wanted) const {
        std::vector<const Entry*> entries;
        entries.reserve(count_);
        for (std::size_t i = 0; i < count_; ++i)
            if (const Entry& entry = chunks_[i / kChunk][i % kChunk]; wanted(entry.value)) entries.push_back(&entry);
        std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) { return a->key < b->key; });
        return entries;
    }

private:
    struct Slot {
        std::uint32_t hash = 0;    // of the key
        std::uint32_t number = 0;  // of the entry, from 1; 0: free
    };
    static constexpr std::size_t kChunk = 64;
    static constexpr std::size_t kFirstSlots = 256;

    [[nodiscard]] std::uint32_t hash_of(const Key& key) const {
        return static_cast<std::uint32_t>(seeded_hash<Key::kSize>(key.data.data(), seed_));
    }
    [[nodiscard]] Entry& at(std::size_t number) const { return chunks_[number / kChunk][number % kChunk]; }
    // Where the key is, or the free slot where it belongs.
    [[nodiscard]] std::size_t slot_of(const Key& key, std::uint32_t hash) const {
        const std::size_t mask = slots_.size() - 1;
        for (std::size_t place = hash & mask;; place = (place + 1) & mask) {
            const Slot& slot = slots_[place];
            if (slot.number == 0 || (slot.hash == hash && at(slot.number - 1).key == key)) return place;
        }
    }
    void grow() {
        std::vector<Slot> old(slots_.empty() ? kFirstSlots : 2 * slots_.size());
        old.swap(slots_);
        const std::size_t mask = slots_.size() - 1;
        for (const Slot& slot : old) {
            if (slot.number == 0) continue;
            std::size_t place = slot.hash & mask;
            while (slots_[place].number != 0) place = (place + 1) & mask;
            slots_[place] = slot;
        }
    }

    const std::uint64_t seed_ = hash_seed();
    std::size_t count_ = 0;
    std::vector<Slot> slots_;  // open addressing, at most half full
    std::vector<std::unique_ptr<Entry[]>> chunks_;
};

}  // namespace quern::chain::state
