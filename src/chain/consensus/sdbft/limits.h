// What peers can make the core hold, and what it asks for and says at most. The constants are what a node runs with;
// the simulator also runs with smaller ones, so that every one of them is reached. Plain values; thread-safe.
#pragma once

#include "chain/consensus/sdbft/messages.h"

namespace quern::chain::consensus::sdbft {

inline constexpr std::uint64_t kMaxFutureViews = 64;     // votes this far ahead are kept
inline constexpr std::uint64_t kMaxFutureProposals = 4;  // proposals (whole blocks) this far ahead
inline constexpr std::uint64_t kKeptVoteViews = 32;      // behind the current view, single votes are dropped
inline constexpr std::uint64_t kKeptFinalViews = 4;      // views kept behind the last finalized one
// Blocks that are not final and that only their masters stand for, or this node's own vote; as many again that a quorum
// has signed.
inline constexpr std::size_t kMaxBlocksKept = 512;
inline constexpr std::size_t kMaxBlockBytesKept = 128U << 20;  // of the former
inline constexpr std::size_t kMaxWrongBodies = 256;
inline constexpr std::size_t kMaxWantedBlocks = 64;
// Of the next epoch, for each of its members; only masters' proposals, of which kMaxFutureProposals + 1 views are kept,
// are large.
inline constexpr std::size_t kMaxPendingMessages = 64;
inline constexpr std::size_t kMaxPendingBytes = 9U << 20;
inline constexpr std::size_t kMaxPendingPeers = 128;
inline constexpr std::size_t kMaxPeersHelped = 1024;
inline constexpr std::size_t kMaxPeersAnswered = 1024;
inline constexpr std::uint64_t kCertificateAnswers = 4;  // to queries of one peer within delta
inline constexpr std::size_t kBlankStartCertificates = 8;
inline constexpr std::uint64_t kVoteEpochsRemembered = 2;  // of each member's newest votes: the present and the last
inline constexpr std::uint64_t kRangeDistance = 8;         // missing heights from which ranges are asked for

static_assert(kMaxFutureProposals <= kMaxFutureViews && kKeptFinalViews <= kKeptVoteViews);
static_assert(kMaxBlocksPerRange <= kMaxBlocksKept && kRangeDistance < kMaxBlocksPerRange);
static_assert(2 * (kMaxFutureProposals + 1) * types::kMaxBlockBytes <= kMaxBlockBytesKept);
static_assert(kMaxFutureProposals < kMaxBlocksKept && kMaxWantedBlocks <= kMaxBlocksKept);
static_assert(kMaxCommittee <= kMaxPendingPeers);
static_assert(types::kMaxBlockBytes < kMaxPendingBytes && kMaxRangeBytes < kMaxMessageBytes);
// A proposal with a block and nullifications of the largest size is a message that peers take.
static_assert(types::kMaxBlockBytes + (kMaxNullificationsPerProposal + 2) * (kMaxCommittee * 66 + 128) <
              kMaxMessageBytes);

struct Limits {
    std::uint64_t future_views = kMaxFutureViews;
    std::uint64_t future_proposals = kMaxFutureProposals;
    std::uint64_t kept_vote_views = kKeptVoteViews;
    std::uint64_t kept_final_views = kKeptFinalViews;
    std::size_t blocks_kept = kMaxBlocksKept;
    std::size_t block_bytes = kMaxBlockBytesKept;
    std::size_t wrong_bodies = kMaxWrongBodies;
    std::size_t wanted_blocks = kMaxWantedBlocks;
    std::size_t pending_messages = kMaxPendingMessages;
    std::size_t pending_bytes = kMaxPendingBytes;
    std::size_t pending_peers = kMaxPendingPeers;
    std::size_t peers_helped = kMaxPeersHelped;
    std::size_t blank_start_certificates = kBlankStartCertificates;
    std::uint64_t range_distance = kRangeDistance;
    // At most what the messages allow (messages.h); at least 1.
    std::size_t nullifications_per_proposal = kMaxNullificationsPerProposal;
    std::size_t certificates_per_query = kMaxCertificatesPerQuery;
};

}  // namespace quern::chain::consensus::sdbft
