// Who sent which transaction, remembered: recovering a sender costs more than anything else that a node does with a
// transfer, and the same transaction comes by RPC, from peers, in blocks, and is asked for afterwards. A table of fixed
// size in which a newer transaction takes the place of an older one; what is not there is recovered. Owned by the
// mempool; thread-safe.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "chain/types/transaction.h"

namespace quern::chain::types {

inline constexpr std::size_t kRememberedSenders = std::size_t{1} << 16;

class SenderCache {
public:
    // Rounded up to a power of two.
    explicit SenderCache(std::size_t slots = kRememberedSenders);

    // As types::recover. Only senders that a signature gave are remembered, by the hash of the signed encoding.
    [[nodiscard]] Expected<RecoveredTransaction> recover(BytesView encoded);
    // The same where the encoding's transaction_hash is known already.
    [[nodiscard]] Expected<RecoveredTransaction> recover(BytesView encoded, const Hash32& hash);
    // Recoveries that were saved.
    [[nodiscard]] std::uint64_t hits() const;

private:
    static constexpr std::size_t kParts = 64;
    struct Slot {
        Hash32 hash;  // zero: empty
        Address sender;
    };
    struct Part {
        mutable Mutex mutex;
        std::vector<Slot> slots QUERN_GUARDED_BY(mutex);
        std::uint64_t hits QUERN_GUARDED_BY(mutex) = 0;
    };
    std::size_t slots_a_part_;
    std::array<Part, kParts> parts_{};
};

}  // namespace quern::chain::types
