// What waits to be sent on one connection, and which record goes next. Scheduling happens here, before the kernel's
// buffer: urgent before consensus before the rest, which share by deficit round robin in the ratio of their quanta.
// Pure; an object belongs to one thread at a time.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::p2p::transport {

enum class TrafficClass : std::uint8_t {
    urgent,        // votes, certificates, pings: what fits one record
    consensus,     // proposals
    transactions,  // from here on: shared by quanta
    blocks,
    bulk,  // paced
};
inline constexpr std::size_t kTrafficClasses = 5;

// Bytes that may wait on one connection, by class. A full urgent or consensus queue drops its oldest message (newer
// votes supersede older ones and the core rebroadcasts); a full other queue refuses the new one.
inline constexpr std::array<std::size_t, kTrafficClasses> kMaxQueuedBytes = {1U << 20, 32U << 20, 4U << 20, 32U << 20,
                                                                             16U << 20};
inline constexpr std::array<std::size_t, kTrafficClasses> kMaxQueuedMessages = {4096, 64, 4096, 256, 256};
inline constexpr std::uint64_t kQueueLifeMs = 30'000;  // longer than any request of a peer waits
// Bytes a turn, from the third class on.
inline constexpr std::array<std::int64_t, kTrafficClasses> kQuantum = {0, 0, 64 << 10, 32 << 10, 16 << 10};

struct OutMessage {
    TrafficClass traffic = TrafficClass::urgent;
    std::uint8_t type = 0;
    std::uint32_t stream = 0;
    std::shared_ptr<const Bytes> body;  // shared by the peers that a broadcast goes to
};

struct OutRecord {
    TrafficClass traffic = TrafficClass::urgent;
    std::uint8_t type = 0;
    std::uint32_t stream = 0;
    bool more = false;
    BytesView payload;
    std::shared_ptr<const Bytes> body;  // keeps payload alive
};

class SendQueue {
public:
    // Error send_queue.full (busy).
    [[nodiscard]] Status push(OutMessage message, std::uint64_t now_ms);
    // Forgets messages of the shared classes that have waited for kQueueLifeMs and are not begun: nobody waits for them
    // any more. Error send_queue.too_slow (busy): one that is begun has not been read for twice as long.
    [[nodiscard]] Status expire(std::uint64_t now_ms);
    // Of a connection that ends: what is not urgent.
    void clear_shared();
    // The next record with at most `max_payload` bytes; nullopt when nothing may go. Bulk goes only if `bulk_allowed`.
    [[nodiscard]] std::optional<OutRecord> next(std::size_t max_payload, bool bulk_allowed);

    [[nodiscard]] bool has_only_bulk() const;  // something waits and all of it is bulk
    [[nodiscard]] std::size_t queued_bytes(TrafficClass traffic) const {
        return lanes_[static_cast<std::size_t>(traffic)].bytes;
    }
    [[nodiscard]] std::size_t queued_bytes() const;
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

private:
    struct Waiting {
        OutMessage message;
        std::size_t sent = 0;
        std::uint64_t since_ms = 0;
    };
    struct Lane {
        std::deque<Waiting> messages;
        std::size_t bytes = 0;
        std::int64_t deficit = 0;
    };
    [[nodiscard]] OutRecord cut(std::size_t lane, std::size_t max_payload);

    std::array<Lane, kTrafficClasses> lanes_;
    std::size_t turn_ = 2;
    bool turn_started_ = false;
    std::uint64_t dropped_ = 0;
};

}  // namespace quern::p2p::transport
