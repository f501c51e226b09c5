// Memory of one kind that peers can make this node hold: unfinished messages, or answers that wait to be read. One
// limit for the node, a share for each holder, a part that only fixed peers can use, and an order of eviction: when
// there is no room, the network that holds most for longest loses its heaviest holder, who gives all of it up. An
// honest peer holds much for moments and little for long; whoever wants to keep others out must hold much for long, or
// come in numbers, and numbers share a network. Who has been connected for an hour weighs less than who has just come.
// Pure: time is an argument in milliseconds. One thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/expected.h"

namespace quern::p2p::transport {

class MemoryLedger {
public:
    struct Limits {
        std::size_t total = 0;       // bytes of all holders
        std::size_t for_fixed = 0;   // of these, out of strangers' reach
        std::size_t per_holder = 0;  // of one stranger
        std::size_t per_fixed = 0;   // of one fixed peer
    };

    // One connection or peer; signs itself on and off.
    class Holder {
    public:
        explicit Holder(MemoryLedger& ledger);
        Holder(const Holder&) = delete;
        Holder& operator=(const Holder&) = delete;
        [[nodiscard]] std::size_t held_bytes() const { return bytes_; }
        [[nodiscard]] bool is_fixed() const { return fixed_; }
        void set_fixed(bool fixed);  // static peers and members of the committee
        // The network it belongs to (host_group.h) and since when it is connected.
        void set_origin(std::string network, std::uint64_t since_ms) {
            network_ = std::move(network);
            since_ms_ = since_ms;
        }

    protected:
        ~Holder();
        // Errors, all busy: memory.share_full, memory.full (this one is who would have to give up).
        [[nodiscard]] Status reserve(std::size_t bytes, std::uint64_t now_ms);
        void release(std::size_t bytes);
        [[nodiscard]] std::size_t room() const;  // left of its share

    private:
        friend class MemoryLedger;
        [[nodiscard]] std::size_t share() const {
            return fixed_ ? ledger_.limits_.per_fixed : ledger_.limits_.per_holder;
        }
        // When the oldest of what it holds came.
        [[nodiscard]] virtual std::uint64_t oldest_ms() const = 0;
        // Others need the room: releases everything. Not called from inside reserve() of this holder.
        virtual void give_up() = 0;

        MemoryLedger& ledger_;
        std::size_t bytes_ = 0;
        bool fixed_ = false;
        std::string network_;
        std::uint64_t since_ms_ = 0;
    };

    explicit MemoryLedger(const Limits& limits) : limits_(limits) {}
    [[nodiscard]] std::size_t used() const { return used_; }
    [[nodiscard]] std::size_t used_by_strangers() const { return strangers_; }
    [[nodiscard]] const Limits& limits() const { return limits_; }
    [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

private:
    [[nodiscard]] bool fits(bool fixed, std::size_t bytes) const;
    [[nodiscard]] Holder* heaviest(bool fixed, const Holder& asking, std::size_t bytes, std::uint64_t now_ms) const;

    Limits limits_;
    std::set<Holder*> holders_;
    std::size_t used_ = 0;
    std::size_t strangers_ = 0;
    std::uint64_t evictions_ = 0;
};

}  // namespace quern::p2p::transport
