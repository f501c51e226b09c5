// Answers that wait to be read by one peer, accounted from the moment they are made until the connection's queue lets
// go of them, in the node's ledger of such answers: a peer that asks and does not read holds its own share, not the
// node's memory, and is left when others need the room. Used by network_messages.cpp; one thread.
#pragma once

#include <functional>
#include <memory>
#include <set>

#include "base/bytes.h"
#include "p2p/transport/memory_ledger.h"

namespace quern::p2p {

inline constexpr std::size_t kAnswerBytesOfStrangers = 96U << 20;  // all together
// As much again for fixed peers. A share holds one answer of the largest kind and some more.
inline constexpr transport::MemoryLedger::Limits kAnswerMemory = {2 * kAnswerBytesOfStrangers, kAnswerBytesOfStrangers,
                                                                  16U << 20, 48U << 20};

class AnswerAccount final : public transport::MemoryLedger::Holder, public std::enable_shared_from_this<AnswerAccount> {
public:
    // `given_up`: others needed the room; the peer must be left.
    AnswerAccount(transport::MemoryLedger& ledger, std::function<void()> given_up)
        : Holder(ledger), given_up_(std::move(given_up)) {}

    // Whether an answer of this size would be taken now, others' shares aside: what would not need not be made.
    [[nodiscard]] bool has_room(std::size_t bytes) const { return !was_given_up_ && bytes <= room(); }
    // The answer as a queue keeps it. Errors, all busy: memory.share_full, memory.full.
    [[nodiscard]] Expected<std::shared_ptr<const Bytes>> charge(Bytes body, std::uint64_t now_ms) {
        const std::size_t size = body.size();
        if (was_given_up_) return busy("memory.share_full", "the peer is being left");
        QUERN_CHECK(reserve(size, now_ms));
        const auto since = waiting_since_.insert(now_ms);
        auto* const kept = new Bytes(std::move(body));
        return std::shared_ptr<const Bytes>(kept, [account = weak_from_this(), since, size](const Bytes* each) {
            delete each;
            const auto open = account.lock();
            if (!open || open->was_given_up_) return;
            open->waiting_since_.erase(since);
            open->release(size);
        });
    }

private:
    [[nodiscard]] std::uint64_t oldest_ms() const override { return *waiting_since_.begin(); }
    void give_up() override {
        was_given_up_ = true;
        waiting_since_.clear();
        release(held_bytes());
        given_up_();
    }

    std::function<void()> given_up_;
    std::multiset<std::uint64_t> waiting_since_;
    bool was_given_up_ = false;
};

}  // namespace quern::p2p
