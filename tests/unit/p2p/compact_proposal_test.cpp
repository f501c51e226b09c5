#include "p2p/gossip/compact_proposal.h"

#include <gtest/gtest.h>

#include "crypto/hash.h"
#include "proposal_fixture.h"

namespace quern::p2p {
namespace {

using namespace testing;
using gossip::ProposalAssembly;
using Known = ProposalAssembly::Known;
using Part = gossip::SentProposals::Part;

gossip::CutProposal cut_of(const SampleProposal& sample) {
    auto cut = gossip::cut_proposal(std::make_shared<const Bytes>(sample.bytes), sample.begin, sample.end);
    EXPECT_TRUE(cut) << cut.error().to_string();
    return std::move(*cut);
}
const auto kAll = [](const Hash32&) { return true; };

// What `here` says is there.
ProposalAssembly::Find among(const std::vector<Bytes>& here) {
    return [here](const messages::ShortId& id) -> std::optional<Known> {
        for (const auto& each : here) {
            const Hash32 hash = chain::types::transaction_hash(each);
            if (messages::short_id(hash) == id) return Known{hash, std::make_shared<const Bytes>(each)};
        }
        return std::nullopt;
    };
}

messages::CompactProposal over_the_wire(const messages::CompactProposal& compact) {
    auto decoded = messages::decode_compact_proposal(messages::encode(compact));
    EXPECT_TRUE(decoded) << decoded.error().to_string();
    return std::move(*decoded);
}

TEST(CompactProposal, comes_back_byte_for_byte) {
    const SampleProposal sample(40);
    const auto compact = over_the_wire(gossip::make_compact(cut_of(sample), kAll));
    EXPECT_LT(messages::encode(compact).size(), sample.bytes.size() / 3);
    const ProposalAssembly assembly(compact, among(sample.transactions));
    EXPECT_TRUE(assembly.missing().empty());
    const auto rebuilt = assembly.finish();
    ASSERT_TRUE(rebuilt) << rebuilt.error().to_string();
    EXPECT_EQ(*rebuilt, sample.bytes);
}

TEST(CompactProposal, what_is_missing_is_filled_in_and_nothing_else) {
    const SampleProposal sample(6);
    const auto& all = sample.transactions;
    const auto compact = gossip::make_compact(
        cut_of(sample), [&](const Hash32& hash) { return hash != chain::types::transaction_hash(all[2]); });
    EXPECT_EQ(compact.prefilled.size(), 1U);
    ProposalAssembly assembly(over_the_wire(compact), among({all[0], all[1], all[4]}));
    EXPECT_EQ(assembly.missing(), (std::vector<std::uint64_t>{3, 5}));
    EXPECT_EQ(assembly.finish().error().name, "compact_proposal.incomplete");
    EXPECT_EQ(assembly.fill({all[3]}).error().name, "compact_proposal.wrong_count");
    EXPECT_EQ(assembly.fill({all[5], all[3]}).error().name, "compact_proposal.wrong_transaction");
    EXPECT_EQ(assembly.fill({all[3], all[4]}).error().name, "compact_proposal.wrong_transaction");
    EXPECT_EQ(assembly.missing().size(), 2U);
    ASSERT_TRUE(assembly.fill({all[3], all[5]}));
    EXPECT_EQ(*assembly.finish(), sample.bytes);
}

// As two whose first eight bytes somebody ground to be the same; the check, salted by the proposal, differs.
TEST(CompactProposal, another_transaction_with_the_same_short_id_is_one_that_is_missing) {
    const SampleProposal sample(4);
    const auto compact = gossip::make_compact(cut_of(sample), kAll);
    const auto honest = among(sample.transactions);
    ProposalAssembly assembly(compact, [&](const messages::ShortId& id) {
        auto known = honest(id);
        if (id == messages::short_id(chain::types::transaction_hash(sample.transactions[1]))) {
            known->hash.data[31] ^= 1;
            known->encoded = std::make_shared<const Bytes>(200, 9);
        }
        return known;
    });
    EXPECT_EQ(assembly.missing(), (std::vector<std::uint64_t>{1}));
    ASSERT_TRUE(assembly.fill({sample.transactions[1]}));
    EXPECT_EQ(*assembly.finish(), sample.bytes);
}

TEST(CompactProposal, what_is_not_the_proposers_bytes_is_not_given_on) {
    const SampleProposal sample(4);
    const auto compact = gossip::make_compact(cut_of(sample), kAll);
    const auto honest = among(sample.transactions);
    // The check agrees by chance, or by the proposer's doing.
    const ProposalAssembly assembly(compact, [&](const messages::ShortId& id) {
        auto known = honest(id);
        known->encoded = std::make_shared<const Bytes>(known->encoded->size(), 9);
        return known;
    });
    EXPECT_TRUE(assembly.missing().empty());
    EXPECT_EQ(assembly.finish().error().name, "compact_proposal.wrong_digest");
}

TEST(CompactProposal, a_few_ids_make_no_more_than_a_proposal_may_have) {
    const SampleProposal sample(2);
    auto compact = gossip::make_compact(cut_of(sample), kAll);
    const Bytes id(compact.ids.begin(), compact.ids.begin() + messages::kProposalIdBytes);
    compact.ids.clear();
    for (std::size_t i = 0; i < messages::kMaxBlockTransactions; ++i) append(compact.ids, id);
    const auto large = std::make_shared<const Bytes>(Bytes(128U << 10, 3));
    std::size_t looked = 0;
    const ProposalAssembly assembly(compact, [&](const messages::ShortId&) {
        ++looked;
        return Known{chain::types::transaction_hash(sample.transactions[0]), large};
    });
    EXPECT_TRUE(assembly.is_too_large());
    EXPECT_LT(looked, 100U);
    EXPECT_EQ(assembly.finish().error().name, "compact_proposal.too_large");
}

TEST(CompactProposal, only_what_comes_back_is_cut) {
    const auto cut = [](Bytes items) {
        Bytes bytes{1, 2, 3};
        append(bytes, items);
        bytes.push_back(4);
        return gossip::cut_proposal(std::make_shared<const Bytes>(bytes), 3, 3 + items.size());
    };
    EXPECT_TRUE(cut({0x05, 0x82, 0x02, 0x03, 0xc1, 0x01}));
    EXPECT_EQ(cut({}).error().name, "compact_proposal.bad_items");
    EXPECT_EQ(cut({0x80}).error().name, "compact_proposal.bad_items");              // an empty envelope
    EXPECT_EQ(cut({0x82, 0xc1, 0x01}).error().name, "compact_proposal.bad_items");  // a list in a string
    EXPECT_EQ(cut({0x83, 0x01}).error().name, "rlp.truncated");
    EXPECT_EQ(cut(Bytes(messages::kMaxBlockTransactions + 1, 5)).error().name, "compact_proposal.bad_items");
    const auto bytes = std::make_shared<const Bytes>(Bytes(10, 5));
    EXPECT_FALSE(gossip::cut_proposal(bytes, 4, 11));
    EXPECT_FALSE(gossip::cut_proposal(bytes, 6, 5));
}

TEST(SentProposals, give_each_member_each_part_once_and_hold_few) {
    gossip::SentProposals sent;
    std::vector<Hash32> digests;
    for (std::uint8_t i = 0; i < gossip::kMaxSentProposals + 2; ++i) {
        auto cut = cut_of(SampleProposal(3, i));
        digests.push_back(cut.digest);
        sent.keep(std::move(cut));
    }
    EXPECT_EQ(sent.count(), gossip::kMaxSentProposals);
    EXPECT_EQ(sent.take(digests[1], address_of(2), Part::whole), nullptr);
    const Hash32& digest = digests.back();
    ASSERT_NE(sent.take(digest, address_of(2), Part::transactions), nullptr);
    EXPECT_EQ(sent.take(digest, address_of(2), Part::transactions), nullptr);
    ASSERT_NE(sent.take(digest, address_of(2), Part::whole), nullptr);
    EXPECT_EQ(sent.take(digest, address_of(2), Part::whole), nullptr);
    EXPECT_NE(sent.take(digest, address_of(3), Part::whole), nullptr);
    // Sent again, it is given again.
    sent.keep(cut_of(SampleProposal(3, gossip::kMaxSentProposals + 1)));
    EXPECT_NE(sent.take(digest, address_of(2), Part::whole), nullptr);
    EXPECT_EQ(sent.count(), gossip::kMaxSentProposals);
}

TEST(SentProposals, hold_few_bytes) {
    gossip::SentProposals sent;
    const SampleProposal large(2, 1, 3U << 20);
    sent.keep(cut_of(SampleProposal(3)));
    for (std::uint8_t i = 0; i < 3; ++i) sent.keep(cut_of(SampleProposal(2, i, 3U << 20)));
    EXPECT_EQ(sent.count(), 2U);
}

TEST(SentProposals, hold_as_many_bytes_as_two_of_the_largest_messages_have) {
    gossip::SentProposals sent;
    const auto keep = [&](std::uint8_t number, std::size_t size) {
        gossip::CutProposal proposal;
        proposal.digest.data[0] = number;
        proposal.bytes = std::make_shared<const Bytes>(size);
        sent.keep(std::move(proposal));
        return sent.count();
    };
    EXPECT_EQ(keep(1, messages::kMaxConsensusMessage), 1U);
    EXPECT_EQ(keep(2, messages::kMaxConsensusMessage), 2U);
    EXPECT_EQ(keep(3, 1), 2U);  // the first goes
    EXPECT_EQ(sent.take(Hash32{{1}}, address_of(2), Part::whole), nullptr);
}

}  // namespace
}  // namespace quern::p2p
