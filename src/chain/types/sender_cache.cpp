#include "chain/types/sender_cache.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace quern::chain::types {

SenderCache::SenderCache(std::size_t slots) : slots_(std::bit_ceil(std::max(slots, kLocks))) {}

Expected<RecoveredTransaction> SenderCache::recover(BytesView encoded) {
    const Hash32 hash = transaction_hash(encoded);
    std::size_t index = 0;
    for (std::size_t i = 0; i < sizeof index; ++i) index = index << 8 | hash.data[i];
    index &= slots_.size() - 1;
    Slot& slot = slots_[index];
    Lock& lock = locks_[index % kLocks];
    std::optional<Address> known;
    {
        const std::lock_guard guard(lock.mutex);
        if (slot.hash == hash) {
            known = slot.sender;
            ++lock.hits;
        }
    }
    if (known) {
        QUERN_TRY(auto tx, decode_transaction(encoded));
        return RecoveredTransaction{std::move(tx), to_bytes(encoded), hash, *known};
    }
    auto recovered = types::recover(encoded);
    if (recovered) {
        const std::lock_guard guard(lock.mutex);
        slot = {hash, recovered->sender};
    }
    return recovered;
}

std::uint64_t SenderCache::hits() const {
    std::uint64_t sum = 0;
    for (const Lock& lock : locks_) {
        const std::lock_guard guard(lock.mutex);
        sum += lock.hits;
    }
    return sum;
}

}  // namespace quern::chain::types
