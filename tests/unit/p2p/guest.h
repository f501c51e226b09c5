// A peer of a node that speaks by hand: what it is told, what it is refused, and what its words cost it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "raw_peer.h"
#include "test_node.h"

namespace quern::p2p::testing {

using messages::RefusalCode;
using messages::Type;
inline constexpr std::uint32_t kFence = 9'999;  // the stream of a guest's own question

inline std::optional<PeerInfo> shown(const TestNode& node, const Bytes20& address) {
    for (const auto& peer : node.network->status().peers)
        if (peer.address == address) return peer;
    return std::nullopt;
}

// Somebody who speaks by hand and is a peer.
struct Guest {
    Guest(const TestNode& host, std::uint64_t seed, const char* from = nullptr)
        : node(host), me(address_of(seed)), raw(host.network->port(), from) {
        joined = raw.shake_hands(key_of(seed), 7878, Hash32{{1, 2, 3}}) && raw.say_hello() &&
                 eventually([&] { return shown(node, me).has_value(); });
    }
    // The code of the refusal that answers this; nullopt when none comes.
    std::optional<RefusalCode> refused(Type type, BytesView body, std::uint32_t stream) {
        raw.say(type, body, stream);
        return refusal_of(stream);
    }
    std::optional<RefusalCode> refusal_of(std::uint32_t stream) {
        while (const auto record = raw.next_message(Type::refusal))
            if (record->stream == stream) {
                const auto refusal = messages::decode_refusal(record->payload);
                return refusal ? std::optional(refusal->code) : std::nullopt;
            }
        return std::nullopt;
    }
    // What it is told until a question of its own is answered: with a small message, or one of the class of blocks or
    // of transactions, which travel in their order.
    std::vector<Type> told(Type question = Type::get_certificate) {
        const Bytes body = question == Type::get_range   ? encode(messages::GetRange{1, 1, 1'000})
                           : question == Type::get_peers ? encode(messages::GetPeers{1})
                                                         : encode(messages::GetCertificate{0, 0, 7});
        raw.say(question, body, kFence);
        std::vector<Type> types;
        while (const auto record = raw.next_record()) {
            if (record->stream == kFence &&
                record->type == static_cast<std::uint8_t>(messages::rule_of(question).answer))
                return types;
            if (messages::rule_of(record->type) != nullptr && !record->more)
                types.push_back(static_cast<Type>(record->type));
        }
        ADD_FAILURE() << "the connection ended";
        return types;
    }
    std::size_t count_told(Type type, Type question = Type::get_certificate) {
        const auto types = told(question);
        return static_cast<std::size_t>(std::count(types.begin(), types.end(), type));
    }
    // It decays by one in five seconds.
    [[nodiscard]] bool costs(Offence offence) const {
        const int points = rule_of(offence).points;
        return eventually([&] {
            const auto info = shown(node, me);
            return info && 2 * info->score > points && info->score < 2 * points;
        });
    }
    [[nodiscard]] bool was_banned() const {
        return raw.closed_by_peer() && eventually([&] {
                   const std::lock_guard lock(node.handler.mutex);
                   return !node.handler.left.empty() && node.handler.left.back() == "peer.banned";
               });
    }
    const TestNode& node;
    Bytes20 me;
    RawPeer raw;
    bool joined = false;
};

}  // namespace quern::p2p::testing
