// What a peer can do wrong and what it costs. Points decay by kDecayPerSecond; at kBanPoints the peer is left and
// refused for a while. Used by peer_manager.h, network.cpp and, through Network::report, the node. Constant data.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace quern::p2p {

enum class Offence : std::uint8_t {
    malformed,          // a message that does not decode
    protocol,           // forged or oversized records, unknown types, answers nobody asked for
    too_fast,           // above a message type's rate
    invalid_consensus,  // a vote or proposal with a bad signature, or from no member
    invalid_block,
    invalid_transaction,
    bad_leaf,  // content bytes that do not hash to the manifest
    timeout,   // a request that it left unanswered
    useless,   // announced what it could not deliver
};

struct OffenceRule {
    std::string_view name;
    int points;
};
inline constexpr std::array<OffenceRule, 9> kOffences = {{{"malformed", 50},
                                                          {"protocol", 100},
                                                          {"too_fast", 2},
                                                          {"invalid_consensus", 25},
                                                          {"invalid_block", 100},
                                                          {"invalid_transaction", 10},
                                                          {"bad_leaf", 34},
                                                          {"timeout", 1},
                                                          {"useless", 2}}};
inline constexpr int kBanPoints = 100;
// Of the host that it came from: a record or handshake that does not authenticate, a key that had to be banned.
inline constexpr int kBrokenBytesPoints = 20;
inline constexpr int kBannedKeyPoints = 34;
inline constexpr double kDecayPerSecond = 0.2;
inline constexpr std::uint64_t kBanMs = 600'000;
// Members of the committee and static peers are left too, but soon heard again: consensus needs them.
inline constexpr std::uint64_t kProtectedBanMs = 5'000;

[[nodiscard]] constexpr const OffenceRule& rule_of(Offence offence) {
    return kOffences[static_cast<std::size_t>(offence)];
}

}  // namespace quern::p2p
