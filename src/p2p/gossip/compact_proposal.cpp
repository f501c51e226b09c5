#include "p2p/gossip/compact_proposal.h"

#include <algorithm>

#include "base/ensure.h"
#include "base/rlp.h"
#include "crypto/hash.h"
#include "crypto/siphash.h"

namespace quern::p2p::gossip {
namespace {

using messages::kProposalIdBytes;
using messages::ShortId;
using Id = FixedBytes<kProposalIdBytes>;

constexpr std::uint8_t kFirstListPrefix = 0xc0;

class Ids {
public:
    explicit Ids(const Hash32& digest) : key_(FixedBytes<16>::copy_of(digest.view().first(16))) {}
    [[nodiscard]] Id of(const Hash32& hash) const {
        const std::uint64_t check = crypto::siphash24(key_, hash);
        Id id;
        std::copy_n(hash.data.begin(), ShortId::kSize, id.data.begin());
        id.data[ShortId::kSize] = static_cast<std::uint8_t>(check >> 56);
        id.data[ShortId::kSize + 1] = static_cast<std::uint8_t>(check >> 48);
        return id;
    }

private:
    FixedBytes<16> key_;
};

}  // namespace

Expected<CutProposal> cut_proposal(std::shared_ptr<const Bytes> bytes, std::size_t begin, std::size_t end) {
    CutProposal cut{std::move(bytes), {}, begin, end, {}};
    const BytesView whole = *cut.bytes;
    if (begin >= end || end > whole.size()) return fail("compact_proposal.bad_items", "no transactions");
    for (rlp::Reader items(whole.subspan(begin, end - begin)); !items.at_end();) {
        QUERN_TRY(const rlp::Item item, items.next());
        const bool comes_back = item.is_list || (!item.payload.empty() && item.payload[0] < kFirstListPrefix);
        if (!comes_back || cut.transactions.size() >= messages::kMaxBlockTransactions)
            return fail("compact_proposal.bad_items", std::to_string(cut.transactions.size()));
        cut.transactions.push_back(item.is_list ? item.whole : item.payload);
    }
    cut.digest = crypto::sha256(whole);
    return cut;
}

messages::CompactProposal make_compact(const CutProposal& cut, const std::function<bool(const Hash32&)>& known) {
    const Ids ids(cut.digest);
    const BytesView whole = *cut.bytes;
    messages::CompactProposal compact;
    compact.digest = cut.digest;
    compact.before = to_bytes(whole.first(cut.begin));
    compact.after = to_bytes(whole.subspan(cut.end));
    compact.ids.reserve(cut.transactions.size() * kProposalIdBytes);
    for (std::size_t i = 0; i < cut.transactions.size(); ++i) {
        const Hash32 hash = chain::types::transaction_hash(cut.transactions[i]);
        if (known(hash))
            append(compact.ids, ids.of(hash));
        else
            compact.prefilled.push_back({i, to_bytes(cut.transactions[i])});
    }
    return compact;
}

// --- Sent ones -------------------------------------------------------------------------------------------------------

void SentProposals::keep(CutProposal proposal) {
    std::erase_if(kept_, [&](const Kept& each) {
        if (each.cut.digest != proposal.digest) return false;
        deduct(bytes_, each.cut.bytes->size());
        return true;
    });
    bytes_ += proposal.bytes->size();
    kept_.push_back({std::move(proposal), {}});
    while (kept_.size() > kMaxSentProposals || (bytes_ > kMaxSentProposalBytes && kept_.size() > 1)) {
        deduct(bytes_, kept_.front().cut.bytes->size());
        kept_.pop_front();
    }
}

const CutProposal* SentProposals::take(const Hash32& digest, const Bytes20& peer, Part part) {
    const auto at =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.cut.digest == digest; });
    if (at == kept_.end() || !at->given.emplace(peer, part).second) return nullptr;
    return &at->cut;
}

// --- Rebuilding ------------------------------------------------------------------------------------------------------

ProposalAssembly::ProposalAssembly(messages::CompactProposal compact, const Find& find)
    : compact_(std::move(compact)),
      places_(compact_.transaction_count()),
      held_(compact_.before.size() + compact_.after.size()) {
    const Ids ids(compact_.digest);
    for (auto& each : compact_.prefilled)
        put(places_[each.index], std::make_shared<const Bytes>(std::move(each.encoded)));
    compact_.prefilled.clear();
    BytesView rest = compact_.ids;
    for (auto& place : places_) {
        if (is_too_large()) return;
        if (place.encoded) continue;
        place.expected = Id::copy_of(rest.first(kProposalIdBytes));
        rest = rest.subspan(kProposalIdBytes);
        auto known = find(ShortId::copy_of(place.expected->view().first(ShortId::kSize)));
        if (known && ids.of(known->hash) == *place.expected) put(place, std::move(known->encoded));
    }
}

void ProposalAssembly::put(Place& place, std::shared_ptr<const Bytes> encoded) {
    held_ += encoded->size();
    place.encoded = std::move(encoded);
}

std::size_t ProposalAssembly::held_bytes() const {
    return held_ + compact_.ids.size() + places_.size() * sizeof(Place);
}

std::vector<std::uint64_t> ProposalAssembly::missing() const {
    std::vector<std::uint64_t> indices;
    for (std::size_t i = 0; i < places_.size(); ++i)
        if (!places_[i].encoded) indices.push_back(i);
    return indices;
}

Status ProposalAssembly::fill(std::vector<Bytes> transactions) {
    const auto indices = missing();
    if (transactions.size() != indices.size()) return fail("compact_proposal.wrong_count");
    const Ids ids(compact_.digest);
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto& expected = places_[indices[i]].expected;
        if (!expected || ids.of(chain::types::transaction_hash(transactions[i])) != *expected)
            return fail("compact_proposal.wrong_transaction", "index " + std::to_string(indices[i]));
    }
    for (std::size_t i = 0; i < indices.size(); ++i)
        put(places_[indices[i]], std::make_shared<const Bytes>(std::move(transactions[i])));
    return {};
}

Expected<Bytes> ProposalAssembly::finish() const {
    if (is_too_large()) return fail("compact_proposal.too_large");
    rlp::Writer out;
    out.raw(compact_.before);
    for (const auto& place : places_) {
        if (!place.encoded) return fail("compact_proposal.incomplete");
        const Bytes& encoded = *place.encoded;
        if (!encoded.empty() && encoded[0] >= kFirstListPrefix)
            out.raw(encoded);
        else
            out.bytes(encoded);
    }
    out.raw(compact_.after);
    Bytes proposal = std::move(out).finish();
    if (crypto::sha256(proposal) != compact_.digest) return fail("compact_proposal.wrong_digest");
    return proposal;
}

}  // namespace quern::p2p::gossip
