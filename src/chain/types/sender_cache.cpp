#include "chain/types/sender_cache.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/big_endian.h"

namespace quern::chain::types {

SenderCache::SenderCache(std::size_t slots) : slots_a_part_(std::bit_ceil(std::max(slots, kParts)) / kParts) {
    for (Part& part : parts_) {
        const MutexLock lock(part.mutex);
        part.slots.resize(slots_a_part_);
    }
}

Expected<RecoveredTransaction> SenderCache::recover(BytesView encoded) {
    return recover(encoded, transaction_hash(encoded));
}

Expected<RecoveredTransaction> SenderCache::recover(BytesView encoded, const Hash32& hash) {
    std::size_t index = from_big_endian(hash.view().first(sizeof index));
    Part& part = parts_[index % kParts];
    index = index / kParts % slots_a_part_;
    std::optional<Address> known;
    {
        const MutexLock lock(part.mutex);
        if (const Slot& slot = part.slots[index]; slot.hash == hash) {
            known = slot.sender;
            ++part.hits;
        }
    }
    QUERN_TRY(auto tx, decode_transaction(encoded));
    if (known) return RecoveredTransaction{std::move(tx), to_bytes(encoded), hash, *known};
    QUERN_TRY(const auto sender, recover_sender(tx));
    {
        const MutexLock lock(part.mutex);
        part.slots[index] = {hash, sender};
    }
    return RecoveredTransaction{std::move(tx), to_bytes(encoded), hash, sender};
}

std::uint64_t SenderCache::hits() const {
    std::uint64_t sum = 0;
    for (const Part& part : parts_) {
        const MutexLock lock(part.mutex);
        sum += part.hits;
    }
    return sum;
}

}  // namespace quern::chain::types
