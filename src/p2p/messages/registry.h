// Every message between peers: its number, limits and price, in one table. A message is judged by this table before a
// byte of it is parsed. Used by network.cpp and messages.cpp. Constant data; thread-safe.
#pragma once

#include <array>
#include <string_view>

#include "p2p/transport/send_queue.h"

namespace quern::p2p::messages {

using transport::TrafficClass;

enum class Type : std::uint8_t {
    hello = 0x08,
    status = 0x09,
    get_peers = 0x0a,
    peers = 0x0b,
    consensus = 0x10,
    proposal = 0x11,
    get_proposal_transactions = 0x12,
    proposal_transactions = 0x13,
    get_proposal = 0x14,
    tx_announce = 0x18,
    get_transactions = 0x19,
    transactions = 0x1a,
    compact_block = 0x20,
    get_block_transactions = 0x21,
    block_transactions = 0x22,
    get_block = 0x23,
    block = 0x24,
    get_certificate = 0x25,
    certificate = 0x26,
    get_range = 0x27,
    range = 0x28,
    find_content = 0x30,
    content_info = 0x31,
    get_leaf_hashes = 0x32,
    leaf_hashes = 0x33,
    get_leaves = 0x34,
    leaves = 0x35,
    get_shards = 0x36,
    shards = 0x37,
    refusal = 0x7f,
};

inline constexpr std::size_t kMaxBlockMessage = (8U << 20) + (64U << 10);  // a block with its certificate
// A proposal: a block, what justifies it and up to 64 nullifications of 4.4 KB (100 members).
inline constexpr std::size_t kMaxConsensusMessage = (8U << 20) + (512U << 10);
inline constexpr std::size_t kMaxRangeMessage = 9U << 20;
// A proposal as short ids is at most half of the whole one, or the whole is sent.
inline constexpr std::size_t kMaxCompactProposal = kMaxConsensusMessage / 2;

// Consensus messages of a peer that is not in the committee.
inline constexpr std::uint32_t kStrangersConsensusPerSecond = 50;
inline constexpr std::uint32_t kStrangersConsensusBurst = 200;

struct Rule {
    Type type;
    std::string_view name;
    std::size_t max_bytes;     // of the body
    std::uint32_t per_second;  // messages, and how many at once
    std::uint32_t burst;
    TrafficClass traffic;
    bool on_bulk;               // sent on the bulk connection where there is one
    Type answer;                // of a request; the type itself for messages that are none
    bool members_only = false;  // taken from members of the committee alone
};

inline constexpr std::array kRules = {
    Rule{Type::hello, "hello", 512, 1, 2, TrafficClass::urgent, false, Type::hello},
    Rule{Type::status, "status", 128, 20, 40, TrafficClass::transactions, false, Type::status},
    Rule{Type::get_peers, "get_peers", 16, 1, 4, TrafficClass::transactions, false, Type::peers},
    Rule{Type::peers, "peers", 64U << 10, 1, 4, TrafficClass::transactions, false, Type::peers},
    Rule{Type::consensus, "consensus", kMaxConsensusMessage, 2000, 8000, TrafficClass::consensus, false,
         Type::consensus},
    Rule{Type::proposal, "proposal", kMaxCompactProposal, 10, 40, TrafficClass::consensus, false, Type::proposal, true},
    Rule{Type::get_proposal_transactions, "get_proposal_transactions", 128U << 10, 20, 80, TrafficClass::consensus,
         false, Type::proposal_transactions, true},
    Rule{Type::proposal_transactions, "proposal_transactions", kMaxBlockMessage, 20, 80, TrafficClass::consensus, false,
         Type::proposal_transactions},
    Rule{Type::get_proposal, "get_proposal", 64, 20, 80, TrafficClass::consensus, false, Type::get_proposal, true},
    Rule{Type::tx_announce, "tx_announce", 16U << 10, 100, 400, TrafficClass::transactions, false, Type::tx_announce},
    Rule{Type::get_transactions, "get_transactions", 16U << 10, 100, 400, TrafficClass::transactions, false,
         Type::transactions},
    Rule{Type::transactions, "transactions", 1U << 20, 100, 400, TrafficClass::transactions, false, Type::transactions},
    Rule{Type::compact_block, "compact_block", kMaxBlockMessage, 10, 40, TrafficClass::blocks, false,
         Type::compact_block},
    Rule{Type::get_block_transactions, "get_block_transactions", 128U << 10, 20, 100, TrafficClass::blocks, false,
         Type::block_transactions},
    Rule{Type::block_transactions, "block_transactions", kMaxBlockMessage, 20, 100, TrafficClass::blocks, true,
         Type::block_transactions},
    Rule{Type::get_block, "get_block", 64, 50, 200, TrafficClass::blocks, false, Type::block},
    Rule{Type::block, "block", kMaxBlockMessage, 50, 200, TrafficClass::blocks, true, Type::block},
    Rule{Type::get_certificate, "get_certificate", 64, 50, 200, TrafficClass::urgent, false, Type::certificate},
    Rule{Type::certificate, "certificate", 64U << 10, 50, 200, TrafficClass::urgent, false, Type::certificate},
    Rule{Type::get_range, "get_range", 64, 100, 300, TrafficClass::blocks, false, Type::range},
    Rule{Type::range, "range", kMaxRangeMessage, 100, 300, TrafficClass::blocks, true, Type::range},
    Rule{Type::find_content, "find_content", 4U << 10, 100, 200, TrafficClass::transactions, false, Type::content_info},
    Rule{Type::content_info, "content_info", 64U << 10, 100, 200, TrafficClass::transactions, false,
         Type::content_info},
    Rule{Type::get_leaf_hashes, "get_leaf_hashes", 64, 200, 400, TrafficClass::transactions, false, Type::leaf_hashes},
    Rule{Type::leaf_hashes, "leaf_hashes", (1U << 20) + 64, 200, 400, TrafficClass::bulk, true, Type::leaf_hashes},
    Rule{Type::get_leaves, "get_leaves", 64, 2000, 4000, TrafficClass::transactions, false, Type::leaves},
    Rule{Type::leaves, "leaves", (1U << 20) + 64, 2000, 4000, TrafficClass::bulk, true, Type::leaves},
    Rule{Type::get_shards, "get_shards", 64, 5, 20, TrafficClass::transactions, false, Type::shards},
    Rule{Type::shards, "shards", (1U << 20) + 64, 5, 20, TrafficClass::bulk, true, Type::shards},
    Rule{Type::refusal, "refusal", 256, 200, 800, TrafficClass::transactions, false, Type::refusal},
};

// Null for a number that is no message.
[[nodiscard]] constexpr const Rule* rule_of(std::uint8_t type) {
    for (const auto& rule : kRules)
        if (static_cast<std::uint8_t>(rule.type) == type) return &rule;
    return nullptr;
}
[[nodiscard]] constexpr const Rule& rule_of(Type type) { return *rule_of(static_cast<std::uint8_t>(type)); }
[[nodiscard]] constexpr bool is_request(const Rule& rule) { return rule.answer != rule.type; }
[[nodiscard]] constexpr bool is_answer(const Rule& rule) {
    if (rule.type == Type::refusal) return true;
    for (const auto& other : kRules)
        if (is_request(other) && other.answer == rule.type) return true;
    return false;
}

}  // namespace quern::p2p::messages
