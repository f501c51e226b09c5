// What a validator signs: one vote about one block (or about a view, for nullify). Used by SDBFT, certificates and
// evidence. Pure; thread-safe.
//
//   digest = SHA-256(domain (16) || genesis_hash (32) || chain_id (8) || epoch (8) || type (1) || view (8) || hash
//   (32))
//
// Numbers are big endian. The genesis hash keeps a reset devnet's old votes from becoming evidence.
#pragma once

#include "base/bytes.h"
#include "crypto/signature.h"

namespace quern::chain::consensus {

inline constexpr std::string_view kVoteDomain = "QUERN-SDBFT-VOTE";  // 16 bytes

enum class VoteType : std::uint8_t { propose = 1, notarize = 2, nullify = 3, finalize = 4 };
[[nodiscard]] constexpr bool is_vote_type(VoteType type) {
    return type >= VoteType::propose && type <= VoteType::finalize;
}

// Which chain a vote belongs to.
struct ChainIdentity {
    Hash32 genesis_hash;
    std::uint64_t chain_id = 0;
};

struct Vote {
    VoteType type = VoteType::finalize;
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    Hash32 hash;  // of the block; zero for nullify
    bool operator==(const Vote&) const = default;
};

[[nodiscard]] Hash32 vote_digest(const ChainIdentity& chain, const Vote& vote);
// Compact (r || s), low S, deterministic: the same vote has the same bytes after a restart.
[[nodiscard]] FixedBytes<64> sign_vote(const ChainIdentity& chain, const Vote& vote, const crypto::PrivateKey& key);

}  // namespace quern::chain::consensus
