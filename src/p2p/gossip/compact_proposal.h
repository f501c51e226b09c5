// Proposals as short ids: cutting the transactions out of one, and putting them back, byte for byte. What consensus
// says around them is not looked at. Members have most transactions of a block before they are asked about it, so that
// a body of n transactions travels as 10 n bytes, and its proposer's uplink is not the limit of a large committee.
//
// Plain short ids instead of ones salted for each proposal: a transaction is then one look-up among those that are
// here, and not one hash of each of those that are here. Two transactions with one short id cost their maker 2^32
// hashes, and could make each proposal that holds one of them be fetched whole; the check of two bytes, which is salted
// by the proposal and so by nobody beforehand, tells them apart, and the one is asked for like any that is missing.
// The digest says whether what was put together is what the proposer sent: if it is, consensus gets it as if it had
// come whole, and blames its sender for what it says; if it is not, it is fetched whole.
// Pure; values and tables of one thread.
//
//   digest   = SHA-256(proposal)
//   proposal = before || items of the transactions || after       item: an envelope as in a block (chain/types/block.h)
//   ids      = (short_id (8) || check (2))...
//   check    = SipHash-2-4(first 16 bytes of the digest, transaction hash), big endian, its first two bytes
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>

#include "p2p/messages/messages.h"

namespace quern::p2p::gossip {

// What was sent last is kept for those who lack something of it: so many, and so many bytes (the newest in any case).
inline constexpr std::size_t kMaxSentProposals = 4;
inline constexpr std::size_t kMaxSentProposalBytes = 2 * messages::kMaxConsensusMessage;

struct CutProposal {
    std::shared_ptr<const Bytes> bytes;
    Hash32 digest;
    std::size_t begin = 0;  // of the transactions' items
    std::size_t end = 0;
    std::vector<BytesView> transactions;  // envelopes, in `bytes`
};
// `bytes` with the items of transactions from `begin` to `end`. Errors: compact_proposal.bad_items (none, too many, or
// such as would not come back byte for byte), rlp.*.
[[nodiscard]] Expected<CutProposal> cut_proposal(std::shared_ptr<const Bytes> bytes, std::size_t begin,
                                                 std::size_t end);
// `known` says which transactions the receivers probably have; the others travel inside.
[[nodiscard]] messages::CompactProposal make_compact(const CutProposal& cut,
                                                     const std::function<bool(const Hash32& hash)>& known);

// The proposals that this node sent last. Each of them is given to each member that asks once in parts and once whole,
// so that asking costs no more of the uplink than sending it whole to all would have.
class SentProposals {
public:
    enum class Part : std::uint8_t { transactions, whole };
    // One that is kept already is given anew to those who ask.
    void keep(CutProposal proposal);
    // Null when it is not kept or this peer was given that already; valid until the next keep().
    [[nodiscard]] const CutProposal* take(const Hash32& digest, const Bytes20& peer, Part part);
    [[nodiscard]] std::size_t count() const { return kept_.size(); }

private:
    struct Kept {
        CutProposal cut;
        std::set<std::pair<Bytes20, Part>> given;
    };
    std::deque<Kept> kept_;  // oldest first
    std::size_t bytes_ = 0;
};

class ProposalAssembly {
public:
    struct Known {
        Hash32 hash;
        std::shared_ptr<const Bytes> encoded;
    };
    using Find = std::function<std::optional<Known>(const messages::ShortId& id)>;
    ProposalAssembly(messages::CompactProposal compact, const Find& find);

    [[nodiscard]] const Hash32& digest() const { return compact_.digest; }
    [[nodiscard]] std::size_t transaction_count() const { return places_.size(); }
    // More than a proposal may have: whatever is missing, it must be fetched whole.
    [[nodiscard]] bool is_too_large() const { return held_ > messages::kMaxConsensusMessage; }
    // What it keeps in memory, what others share in it included.
    [[nodiscard]] std::size_t held_bytes() const;
    // Indices of what is still missing, ascending.
    [[nodiscard]] std::vector<std::uint64_t> missing() const;
    // The missing ones in their order. Errors: compact_proposal.wrong_count, compact_proposal.wrong_transaction.
    [[nodiscard]] Status fill(std::vector<Bytes> transactions);
    // Once nothing is missing. Errors: compact_proposal.incomplete, compact_proposal.too_large,
    // compact_proposal.wrong_digest.
    [[nodiscard]] Expected<Bytes> finish() const;

private:
    using Id = FixedBytes<messages::kProposalIdBytes>;
    struct Place {
        std::optional<Id> expected;  // none: prefilled
        std::shared_ptr<const Bytes> encoded;
    };
    void put(Place& place, std::shared_ptr<const Bytes> encoded);

    messages::CompactProposal compact_;
    std::vector<Place> places_;
    std::size_t held_ = 0;  // of the proposal's bytes
};

}  // namespace quern::p2p::gossip
