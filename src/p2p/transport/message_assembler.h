// Joins the records of messages on one connection. Memory grows only by bytes that have arrived and is accounted in the
// node's ledger of unfinished messages; who may begin a message at all is asked at its first record; a message that
// does not end in time ends the connection. Pure: time is an argument in milliseconds. One thread.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "p2p/transport/frames.h"
#include "p2p/transport/memory_ledger.h"

namespace quern::p2p::transport {

inline constexpr std::size_t kMaxPartialMessages = 16;      // messages of one connection whose end has not come yet
inline constexpr std::uint64_t kUnfinishedMs = 30'000;      // from a message's first record to its last
inline constexpr std::size_t kUnfinishedBytes = 24U << 20;  // of one connection; two of the largest messages
inline constexpr std::size_t kUnfinishedFixedBytes = 64U << 20;

// What a node's unfinished messages may take: half is kept for fixed peers.
[[nodiscard]] MemoryLedger::Limits unfinished_limits(std::size_t total);

struct WholeMessage {
    std::uint8_t type = 0;
    std::uint32_t stream = 0;
    Bytes body;
};

// What becomes of a message that begins.
struct Admission {
    std::size_t max_body = 0;
    bool skip = false;  // its records are read and forgotten
};

class MessageAssembler final : public MemoryLedger::Holder {
public:
    using Admit = std::function<Expected<Admission>(std::uint8_t type, std::uint32_t stream)>;

    // `given_up` is told when others needed the room; add() fails from then on.
    MessageAssembler(MemoryLedger& ledger, std::uint64_t unfinished_ms, std::function<void()> given_up = {})
        : Holder(ledger), unfinished_ms_(unfinished_ms), given_up_(std::move(given_up)) {}

    // `admit` is asked once for each message, at its first record. A whole message, or nullopt while its end is
    // missing or when it is skipped. Errors: those of admit, frame.message_too_long, frame.too_many_partial,
    // frame.empty_part; busy ones, which are nobody's fault: memory.share_full, memory.full, frame.crowded_out.
    [[nodiscard]] Expected<std::optional<WholeMessage>> add(const Frame& frame, const Admit& admit,
                                                            std::uint64_t now_ms);
    // Error frame.unfinished: a message has waited for its end too long.
    [[nodiscard]] Status check_time(std::uint64_t now_ms) const;
    [[nodiscard]] std::size_t partial_messages() const { return partial_.size(); }

private:
    struct Partial {
        Bytes body;
        Admission admission;
        std::size_t seen = 0;     // bytes so far, kept or skipped
        std::size_t charged = 0;  // in the ledger
        std::uint64_t since_ms = 0;
    };
    [[nodiscard]] std::uint64_t oldest_ms() const override;
    void give_up() override;
    [[nodiscard]] Status grow(Partial& partial, std::size_t more, std::uint64_t now_ms);

    std::map<std::pair<std::uint8_t, std::uint32_t>, Partial> partial_;
    std::uint64_t unfinished_ms_;
    std::function<void()> given_up_;
    bool crowded_out_ = false;
};

}  // namespace quern::p2p::transport
