// Proposals as short ids between members of a committee, over real sockets; the liars speak the transport by hand.
#include <gtest/gtest.h>

#include <chrono>

#include "crypto/hash.h"
#include "p2p/network_impl.h"
#include "proposal_fixture.h"
#include "raw_peer.h"

namespace quern::p2p {
namespace {

using namespace testing;
using messages::Type;
const Hash32 kGenesis{{1, 2, 3}};

void small_ones_too(NetworkOptions& options) { options.compact_proposal_bytes = 1; }

ProposalCounts counts_of(const TestNode& node) { return node.network->status().proposals; }
// Those of a quarter of a second ago are told.
ProposalCounts newest_counts_of(const TestNode& node) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kStatusMs + kTickMs + 50));
    return counts_of(node);
}
int score_of(const TestNode& node, const Bytes20& address) {
    for (const auto& peer : node.network->status().peers)
        if (peer.address == address) return peer.score;
    return -1;
}
bool was_given(const TestNode& node, const Bytes& envelope) {
    const std::lock_guard lock(node.handler.mutex);
    for (const auto& [from, each] : node.handler.envelopes)
        if (each == envelope) return true;
    return false;
}

// Two members; what one proposes is known to both but for what a test takes away.
struct Pair {
    Pair() {
        for (TestNode* each : {&a, &b}) each->network->set_committee({a.me, b.me});
        EXPECT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
        b.handler.wants = false;
    }
    void give(TestNode& node, const Bytes& transaction) const {
        const std::lock_guard lock(node.handler.mutex);
        node.handler.pool[messages::short_id(chain::types::transaction_hash(transaction))] = transaction;
    }
    // The proposer has had it for long enough that others will have it.
    void spread(const SampleProposal& sample, std::size_t first = 0) const {
        for (std::size_t i = first; i < sample.transactions.size(); ++i)
            a.network->announce_transaction(chain::types::transaction_hash(sample.transactions[i]),
                                            sample.transactions[i]);
        std::this_thread::sleep_for(std::chrono::milliseconds(kSpreadMs + 130));
    }
    void propose(const SampleProposal& sample) const {
        a.network->send_proposal(sample.bytes, sample.begin, sample.end);
    }
    [[nodiscard]] bool arrives(const SampleProposal& sample) const {
        return eventually([&] { return was_given(b, sample.bytes); });
    }
    TestNode a{1, {}, small_ones_too};
    TestNode b{2, {a.as_peer()}, small_ones_too};
};

template <class Member, class Value>
bool soon(const TestNode& node, Member member, Value value) {
    return eventually([&] { return counts_of(node).*member == value; });
}

TEST(Proposals, one_whose_transactions_are_known_is_rebuilt_byte_for_byte) {
    Pair pair;
    const SampleProposal sample(60);
    for (const auto& each : sample.transactions) pair.give(pair.b, each);
    pair.spread(sample);
    pair.propose(sample);
    ASSERT_TRUE(pair.arrives(sample));
    EXPECT_TRUE(soon(pair.b, &ProposalCounts::rebuilt, 1U));
    EXPECT_EQ(counts_of(pair.b).asked, 0U);
    EXPECT_TRUE(soon(pair.a, &ProposalCounts::sent, 1U));
    EXPECT_EQ(score_of(pair.b, pair.a.me), 0);
}

TEST(Proposals, what_is_missing_is_asked_of_the_proposer) {
    Pair pair;
    const SampleProposal sample(60);
    for (std::size_t i = 0; i < 50; ++i) pair.give(pair.b, sample.transactions[i]);
    pair.spread(sample);
    pair.propose(sample);
    ASSERT_TRUE(pair.arrives(sample));
    EXPECT_TRUE(soon(pair.b, &ProposalCounts::rebuilt, 1U));
    EXPECT_EQ(counts_of(pair.b).missing, 10U);
    EXPECT_EQ(counts_of(pair.b).asked_whole, 0U);
    EXPECT_EQ(counts_of(pair.b).assembled_bytes, 0U);
}

// On a busy machine they wait to be checked while a proposal with them comes.
TEST(Proposals, what_was_delivered_and_is_not_admitted_is_there) {
    Pair pair;
    pair.b.handler.wants = true;
    pair.b.handler.admits = false;
    const SampleProposal sample(60);
    pair.spread(sample);
    pair.propose(sample);
    ASSERT_TRUE(pair.arrives(sample));
    EXPECT_TRUE(soon(pair.b, &ProposalCounts::rebuilt, 1U));
    EXPECT_EQ(counts_of(pair.b).asked + counts_of(pair.b).asked_whole, 0U);
    EXPECT_EQ(pair.b.handler.pool_size(), 0U);
}

TEST(Proposals, one_of_which_little_is_known_is_fetched_whole) {
    Pair pair;
    const SampleProposal sample(60);
    pair.spread(sample);
    pair.propose(sample);
    ASSERT_TRUE(pair.arrives(sample));
    EXPECT_TRUE(soon(pair.b, &ProposalCounts::asked_whole, 1U));
    EXPECT_EQ(counts_of(pair.b).rebuilt, 0U);
    EXPECT_EQ(counts_of(pair.b).asked, 0U);
    EXPECT_EQ(score_of(pair.b, pair.a.me), 0);
}

TEST(Proposals, what_members_cannot_have_yet_travels_inside) {
    Pair pair;
    const SampleProposal sample(60);
    for (std::size_t i = 10; i < 60; ++i) pair.give(pair.b, sample.transactions[i]);
    pair.spread(sample, 10);
    // The first of them nobody was told of, the next ones just now.
    for (std::size_t i = 5; i < 10; ++i)
        pair.a.network->announce_transaction(chain::types::transaction_hash(sample.transactions[i]),
                                             sample.transactions[i]);
    pair.propose(sample);
    ASSERT_TRUE(pair.arrives(sample));
    EXPECT_TRUE(soon(pair.b, &ProposalCounts::rebuilt, 1U));
    EXPECT_EQ(counts_of(pair.b).asked, 0U);
}

TEST(Proposals, what_saves_little_goes_whole) {
    Pair pair;
    const SampleProposal unknown(60);
    pair.propose(unknown);  // nothing of it was announced
    ASSERT_TRUE(pair.arrives(unknown));
    const SampleProposal odd(60, 1);
    pair.a.network->send_proposal(odd.bytes, odd.begin, odd.bytes.size() + 1);
    ASSERT_TRUE(pair.arrives(odd));
    EXPECT_EQ(newest_counts_of(pair.a).sent, 0U);
    TestNode c(3);
    TestNode d(4, {c.as_peer()});
    for (TestNode* each : {&c, &d}) each->network->set_committee({c.me, d.me});
    ASSERT_TRUE(eventually([&] { return c.has_peers(1) && d.has_peers(1); }));
    for (const auto& each : unknown.transactions)
        c.network->announce_transaction(chain::types::transaction_hash(each), each);
    std::this_thread::sleep_for(std::chrono::milliseconds(kSpreadMs + 130));
    c.network->send_proposal(unknown.bytes, unknown.begin, unknown.end);  // far below kCompactProposalBytes
    ASSERT_TRUE(eventually([&] { return was_given(d, unknown.bytes); }));
    EXPECT_EQ(newest_counts_of(c).sent, 0U);
}

TEST(Proposals, more_a_second_than_members_take_go_whole) {
    Pair pair;
    const SampleProposal sample(60);
    for (const auto& each : sample.transactions) pair.give(pair.b, each);
    pair.spread(sample);
    const std::uint32_t burst = messages::rule_of(Type::proposal).burst;
    for (std::uint32_t i = 0; i < 2 * burst; ++i) pair.propose(sample);
    ASSERT_TRUE(eventually([&] { return pair.b.handler.envelope_count() == 2 * burst; }));
    EXPECT_LT(counts_of(pair.a).sent, burst + burst / 2);
    EXPECT_EQ(score_of(pair.b, pair.a.me), 0);
}

// A member or a stranger by hand, and a node that knows the first half of a proposal.
struct Liar {
    explicit Liar(bool member = true) : raw(node.network->port()) {
        node.network->set_committee(member ? std::set<Bytes20>{node.me, address_of(9)} : std::set<Bytes20>{node.me});
        EXPECT_TRUE(raw.shake_hands(key_of(9), 7878, kGenesis) && raw.say_hello());
        EXPECT_TRUE(eventually([&] { return node.has_peers(1); }));
    }
    [[nodiscard]] gossip::CutProposal cut(const SampleProposal& sample) const {
        return *gossip::cut_proposal(std::make_shared<const Bytes>(sample.bytes), sample.begin, sample.end);
    }
    messages::CompactProposal compact(const SampleProposal& sample, std::size_t known) {
        for (std::size_t i = 0; i < known; ++i) {
            const std::lock_guard lock(node.handler.mutex);
            node.handler.pool[messages::short_id(chain::types::transaction_hash(sample.transactions[i]))] =
                sample.transactions[i];
        }
        return gossip::make_compact(cut(sample), [](const Hash32&) { return true; });
    }
    // What it is asked for of the transactions, with the stream.
    std::optional<std::pair<std::uint32_t, messages::GetProposalTransactions>> asked() {
        const auto record = raw.next_message(Type::get_proposal_transactions);
        if (!record) return std::nullopt;
        auto body = messages::decode_get_proposal_transactions(record->payload);
        if (!body) return std::nullopt;
        return std::pair(record->stream, std::move(*body));
    }
    bool is_asked_for_the_whole(const Hash32& digest) {
        const auto record = raw.next_message(Type::get_proposal);
        return record && record->payload == encode(messages::GetProposal{digest});
    }
    TestNode node{1, {}, small_ones_too};
    RawPeer raw;
};

TEST(Proposals, a_silent_proposer_is_asked_for_the_whole_and_holds_nothing) {
    Liar liar;
    const SampleProposal sample(8);
    const auto compact = liar.compact(sample, 6);
    ASSERT_TRUE(liar.raw.say(Type::proposal, encode(compact)));
    const auto asked = liar.asked();
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->second.indexes, (std::vector<std::uint64_t>{6, 7}));
    const auto begun = std::chrono::steady_clock::now();
    ASSERT_TRUE(liar.is_asked_for_the_whole(compact.digest));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3));
    EXPECT_TRUE(soon(liar.node, &ProposalCounts::assembled_bytes, 0U));
    EXPECT_EQ(score_of(liar.node, address_of(9)), 0);
    // A late answer changes nothing; the whole does.
    liar.raw.say(
        Type::proposal_transactions,
        encode(messages::ProposalTransactions{compact.digest, {sample.transactions[6], sample.transactions[7]}}),
        asked->first);
    EXPECT_EQ(liar.node.handler.envelope_count(), 0U);
    liar.raw.say(Type::consensus, sample.bytes);
    EXPECT_TRUE(eventually([&] { return was_given(liar.node, sample.bytes); }));
    EXPECT_EQ(liar.node.handler.envelope_count(), 1U);
}

TEST(Proposals, who_gives_other_transactions_is_blamed_and_asked_for_the_whole) {
    const SampleProposal sample(8);
    const auto& all = sample.transactions;
    const std::vector<std::vector<Bytes>> lies = {
        {all[6], all[5]}, {all[6]}, {all[7], all[6]}, {all[6], all[7], all[7]}};
    for (const auto& lie : lies) {
        Liar liar;
        const auto compact = liar.compact(sample, 6);
        ASSERT_TRUE(liar.raw.say(Type::proposal, encode(compact)));
        const auto asked = liar.asked();
        ASSERT_TRUE(asked);
        liar.raw.say(Type::proposal_transactions, encode(messages::ProposalTransactions{compact.digest, lie}),
                     asked->first);
        EXPECT_TRUE(liar.is_asked_for_the_whole(compact.digest));
        EXPECT_TRUE(
            eventually([&] { return score_of(liar.node, address_of(9)) >= rule_of(Offence::malformed).points - 1; }));
        EXPECT_EQ(liar.node.handler.envelope_count(), 0U);
    }
    // Those of another proposal.
    Liar liar;
    const auto compact = liar.compact(sample, 6);
    ASSERT_TRUE(liar.raw.say(Type::proposal, encode(compact)));
    const auto asked = liar.asked();
    ASSERT_TRUE(asked);
    liar.raw.say(Type::proposal_transactions, encode(messages::ProposalTransactions{Hash32{{1}}, {all[6], all[7]}}),
                 asked->first);
    EXPECT_TRUE(liar.is_asked_for_the_whole(compact.digest));
    EXPECT_EQ(liar.node.handler.envelope_count(), 0U);
}

TEST(Proposals, who_refuses_is_asked_for_the_whole_at_once_without_blame) {
    Liar liar;
    const SampleProposal sample(8);
    const auto compact = liar.compact(sample, 6);
    ASSERT_TRUE(liar.raw.say(Type::proposal, encode(compact)));
    const auto asked = liar.asked();
    ASSERT_TRUE(asked);
    liar.raw.say(Type::refusal, encode(messages::Refusal{messages::RefusalCode::not_found, {}}), asked->first);
    EXPECT_TRUE(liar.is_asked_for_the_whole(compact.digest));
    EXPECT_EQ(score_of(liar.node, address_of(9)), 0);
}

TEST(Proposals, what_does_not_come_back_as_it_was_is_fetched_whole_and_costs_little) {
    Liar liar;
    const SampleProposal sample(8);
    auto compact = liar.compact(sample, 8);
    compact.after[0] ^= 1;  // as where another transaction has one's short id and check
    ASSERT_TRUE(liar.raw.say(Type::proposal, encode(compact)));
    EXPECT_TRUE(liar.is_asked_for_the_whole(compact.digest));
    EXPECT_EQ(liar.node.handler.envelope_count(), 0U);
    EXPECT_TRUE(eventually([&] { return score_of(liar.node, address_of(9)) > 0; }));
    EXPECT_LE(score_of(liar.node, address_of(9)), rule_of(Offence::useless).points);
}

TEST(Proposals, none_is_taken_from_who_is_no_member) {
    Liar liar(false);
    const SampleProposal sample(8);
    ASSERT_TRUE(liar.raw.say(Type::proposal, encode(liar.compact(sample, 8))));
    EXPECT_TRUE(eventually([&] { return score_of(liar.node, address_of(9)) == rule_of(Offence::useless).points; }));
    EXPECT_EQ(liar.node.handler.envelope_count(), 0U);
    const auto counts = newest_counts_of(liar.node);
    EXPECT_EQ(counts.asked_whole + counts.asked + counts.rebuilt, 0U);
    // Who becomes one is heard.
    liar.node.network->set_committee({liar.node.me, address_of(9)});
    ASSERT_TRUE(liar.raw.say(Type::proposal, encode(liar.compact(sample, 8))));
    EXPECT_TRUE(eventually([&] { return was_given(liar.node, sample.bytes); }));
}

TEST(Proposals, a_member_that_floods_has_a_few_places_and_others_have_theirs) {
    Liar liar;
    TestNode honest(2, {liar.node.as_peer()}, small_ones_too);
    for (TestNode* each : {&liar.node, &honest}) each->network->set_committee({liar.node.me, honest.me, address_of(9)});
    ASSERT_TRUE(eventually([&] { return liar.node.has_peers(2) && honest.has_peers(1); }));
    for (std::uint8_t i = 0; i < 12; ++i)
        ASSERT_TRUE(liar.raw.say(Type::proposal, encode(liar.compact(SampleProposal(8, i), 6))));
    EXPECT_TRUE(soon(liar.node, &ProposalCounts::asked_whole, 12 - kMaxProposalsPerPeer));
    EXPECT_EQ(counts_of(liar.node).asked, kMaxProposalsPerPeer);
    EXPECT_LT(counts_of(liar.node).assembled_bytes, std::size_t{8'000});
    // The same one again takes no place, and is asked for no second time.
    ASSERT_TRUE(liar.raw.say(Type::proposal, encode(liar.compact(SampleProposal(8, 0), 6))));
    const SampleProposal sample(60, 99);
    for (std::size_t i = 0; i < 60; ++i) {
        const Hash32 hash = chain::types::transaction_hash(sample.transactions[i]);
        honest.network->announce_transaction(hash, sample.transactions[i]);
        const std::lock_guard lock(liar.node.handler.mutex);
        if (i < 50) liar.node.handler.pool[messages::short_id(hash)] = sample.transactions[i];
    }
    liar.node.handler.wants = false;
    std::this_thread::sleep_for(std::chrono::milliseconds(kSpreadMs + 130));
    honest.network->send_proposal(sample.bytes, sample.begin, sample.end);
    EXPECT_TRUE(eventually([&] { return was_given(liar.node, sample.bytes); }));
    EXPECT_TRUE(soon(liar.node, &ProposalCounts::assembled_bytes, 0U));
    EXPECT_EQ(newest_counts_of(liar.node).asked_whole, 12U);
}

// As many members by hand as it takes, each with as much as it may have here.
void expect_all_places_are_bounded(std::size_t members, std::size_t bytes, std::size_t kept) {
    TestNode node(1, {}, small_ones_too);
    std::set<Bytes20> committee{node.me};
    std::vector<std::unique_ptr<RawPeer>> liars;
    for (std::uint64_t i = 0; i < members; ++i) {
        committee.insert(address_of(500 + i));
        liars.push_back(std::make_unique<RawPeer>(node.network->port()));
        ASSERT_TRUE(liars.back()->shake_hands(key_of(500 + i), 7878, kGenesis) && liars.back()->say_hello());
    }
    node.network->set_committee(committee);
    ASSERT_TRUE(eventually([&] { return node.has_peers(members); }));
    const SampleProposal sample(8);
    for (std::size_t i = 0; i < 6; ++i) {
        const std::lock_guard lock(node.handler.mutex);
        node.handler.pool[messages::short_id(chain::types::transaction_hash(sample.transactions[i]))] =
            sample.transactions[i];
    }
    auto cut = *gossip::cut_proposal(std::make_shared<const Bytes>(sample.bytes), sample.begin, sample.end);
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t round = 0; round < kMaxProposalsPerPeer; ++round)
        for (const auto& liar : liars) {
            ++cut.digest.data[31];  // another one, to which nothing leads
            auto compact = gossip::make_compact(cut, [](const Hash32&) { return true; });
            compact.before = Bytes(bytes, 1);
            const Bytes body = encode(compact);
            constexpr std::size_t kPart = transport::max_payload(transport::kMaxControlRecord);
            for (std::size_t at = 0; at < body.size(); at += kPart) {
                const std::size_t size = std::min(kPart, body.size() - at);
                ASSERT_TRUE(liar->send_record(static_cast<std::uint8_t>(Type::proposal),
                                              BytesView(body).subspan(at, size), at + size < body.size(),
                                              static_cast<std::uint32_t>(100 + round)));
            }
        }
    const std::size_t sent = members * kMaxProposalsPerPeer;
    std::size_t most = 0;
    EXPECT_TRUE(eventually([&] {
        const auto counts = counts_of(node);
        most = std::max(most, counts.assembled_bytes);
        return counts.asked + counts.asked_whole >= sent;
    }));
    // Where all came while the first ones were waited for. Large ones take longer under sanitizers; places get free.
    if (std::chrono::steady_clock::now() - began < std::chrono::milliseconds(kProposalAnswerMs)) {
        EXPECT_EQ(counts_of(node).asked, kept);
    }
    EXPECT_GE(counts_of(node).asked, kept / 2);
    EXPECT_LE(most, kMaxProposalBytes);
    EXPECT_TRUE(soon(node, &ProposalCounts::assembled_bytes, 0U));
    EXPECT_EQ(counts_of(node).asked_whole, sent);
}

TEST(Proposals, many_members_that_flood_have_so_many_places) {
    expect_all_places_are_bounded(kMaxProposals / kMaxProposalsPerPeer + 2, 100, kMaxProposals);
}

TEST(Proposals, large_ones_have_so_many_bytes) { expect_all_places_are_bounded(9, 4U << 20, 15); }

TEST(Proposals, above_the_rate_none_is_read) {
    Liar liar;
    const auto body = encode(liar.compact(SampleProposal(8), 8));
    const std::uint32_t burst = messages::rule_of(Type::proposal).burst;
    for (std::uint32_t i = 0; i < burst + 20; ++i) ASSERT_TRUE(liar.raw.say(Type::proposal, body));
    EXPECT_TRUE(eventually([&] { return score_of(liar.node, address_of(9)) > 0; }));
    EXPECT_LE(liar.node.handler.envelope_count(), burst + 10);
}

// A node proposes; a member by hand asks for it.
struct Asker {
    explicit Asker(bool member = true) : raw(node.network->port()) {
        // Somebody must be there to propose to.
        node.network->set_committee(member ? std::set<Bytes20>{node.me, other.me, address_of(9)}
                                           : std::set<Bytes20>{node.me, other.me});
        EXPECT_TRUE(raw.shake_hands(key_of(9), 7878, kGenesis) && raw.say_hello());
        EXPECT_TRUE(eventually([&] { return node.has_peers(2); }));
        for (const auto& each : sample.transactions)
            node.network->announce_transaction(chain::types::transaction_hash(each), each);
        std::this_thread::sleep_for(std::chrono::milliseconds(kSpreadMs + 130));
        node.network->send_proposal(sample.bytes, sample.begin, sample.end);
        EXPECT_TRUE(eventually([&] { return counts_of(node).sent == 1; }));
        digest = crypto::sha256(sample.bytes);
    }
    void ask(std::vector<std::uint64_t> indexes, std::uint32_t stream) {
        raw.say(Type::get_proposal_transactions, encode(messages::GetProposalTransactions{digest, std::move(indexes)}),
                stream);
    }
    const SampleProposal sample{20};
    TestNode node{1, {}, small_ones_too};
    TestNode other{2, {node.as_peer()}};
    RawPeer raw;
    Hash32 digest;
};

TEST(Proposals, a_member_is_given_each_part_once) {
    Asker asker;
    asker.ask({3, 7}, 50);
    const auto answer = asker.raw.next_message(Type::proposal_transactions);
    ASSERT_TRUE(answer);
    const auto given = messages::decode_proposal_transactions(answer->payload);
    ASSERT_TRUE(given);
    EXPECT_EQ(given->encoded, (std::vector<Bytes>{asker.sample.transactions[3], asker.sample.transactions[7]}));
    asker.ask({3}, 51);
    EXPECT_TRUE(asker.raw.next_message(Type::refusal));
    for (int i = 0; i < 2; ++i) asker.raw.say(Type::get_proposal, encode(messages::GetProposal{asker.digest}));
    const auto whole = asker.raw.next_message(Type::consensus);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->payload, asker.sample.bytes);
    // A question later it has not come again.
    asker.raw.say(Type::get_certificate, encode(messages::GetCertificate{1, 1, 7}), 60);
    while (const auto record = asker.raw.next_record()) {
        EXPECT_NE(record->type, static_cast<std::uint8_t>(Type::consensus));
        if (record->type == static_cast<std::uint8_t>(Type::certificate)) break;
    }
}

TEST(Proposals, places_that_are_none_are_malformed) {
    Asker asker;
    asker.ask({3, 20}, 50);
    EXPECT_TRUE(asker.raw.next_message(Type::refusal));
    EXPECT_TRUE(eventually([&] { return score_of(asker.node, address_of(9)) >= 49; }));
}

TEST(Proposals, who_is_no_member_is_given_nothing) {
    Asker asker(false);
    asker.raw.say(Type::get_proposal, encode(messages::GetProposal{asker.digest}));
    asker.ask({3}, 50);
    asker.raw.say(Type::get_certificate, encode(messages::GetCertificate{1, 1, 7}), 60);
    while (const auto record = asker.raw.next_record()) {
        EXPECT_NE(record->type, static_cast<std::uint8_t>(Type::consensus));
        EXPECT_NE(record->type, static_cast<std::uint8_t>(Type::proposal_transactions));
        if (record->type == static_cast<std::uint8_t>(Type::certificate)) break;
    }
    EXPECT_TRUE(eventually([&] { return score_of(asker.node, address_of(9)) > 0; }));
}

}  // namespace
}  // namespace quern::p2p
