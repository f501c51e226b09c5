#include "p2p/peer_session.h"

#include <gtest/gtest.h>

namespace quern::p2p {
namespace {

using messages::Type;
using transport::ConnectionKind;

PeerSession::Judgement judge(PeerSession& session, Type type, std::uint32_t stream = 1, std::uint64_t now_us = 0,
                             ConnectionKind kind = ConnectionKind::control) {
    return session.judge(messages::rule_of(type), stream, kind, now_us);
}

TEST(PeerSession, only_hello_comes_first) {
    PeerSession session;
    for (const auto& rule : messages::kRules) {
        if (rule.type == Type::hello) continue;
        const auto judged = judge(session, rule.type);
        EXPECT_TRUE(judged.admission.skip) << rule.name;
        EXPECT_EQ(judged.offence, Offence::protocol) << rule.name;
    }
    EXPECT_FALSE(judge(session, Type::hello).admission.skip);
    session.said_hello();
    EXPECT_FALSE(judge(session, Type::consensus).admission.skip);
}

TEST(PeerSession, answers_are_taken_only_while_they_are_awaited) {
    PeerSession session;
    session.said_hello();
    EXPECT_EQ(judge(session, Type::range, 5).offence, Offence::useless);
    EXPECT_TRUE(judge(session, Type::range, 5).admission.skip);
    std::string outcome;
    const auto stream = session.begin_request();
    ASSERT_TRUE(stream);
    session.asked(*stream, Type::get_range, 100, [&](Expected<Bytes> body) { outcome = body ? "body" : "error"; });
    EXPECT_EQ(judge(session, Type::block, *stream).offence, Offence::protocol);
    EXPECT_FALSE(judge(session, Type::refusal, *stream).admission.skip);
    const auto judged = judge(session, Type::range, *stream);
    EXPECT_FALSE(judged.admission.skip);
    EXPECT_EQ(judged.admission.max_body, messages::kMaxRangeMessage);
    session.take (*stream)(Bytes{});
    EXPECT_EQ(outcome, "body");
    EXPECT_EQ(session.take(*stream), nullptr);
    EXPECT_EQ(judge(session, Type::range, *stream).offence, Offence::useless);
}

TEST(PeerSession, a_late_answer_is_forgotten_without_blame) {
    PeerSession session;
    session.said_hello();
    const auto stream = session.begin_request();
    session.asked(*stream, Type::get_block, 100, [](Expected<Bytes>) {});
    EXPECT_TRUE(session.expire(99).empty());
    EXPECT_EQ(session.expire(100).size(), 1U);
    const auto judged = judge(session, Type::block, *stream);
    EXPECT_TRUE(judged.admission.skip);
    EXPECT_FALSE(judged.offence);
    EXPECT_EQ(judge(session, Type::block, *stream).offence, Offence::useless);  // once
}

TEST(PeerSession, strangers_votes_are_limited_harder) {
    const auto taken = [](PeerSession& session, std::uint64_t second) {
        std::size_t count = 0;
        for (int i = 0; i < 3000; ++i)
            count += judge(session, Type::consensus, 1, second * 1'000'000).admission.skip ? 0 : 1;
        return count;
    };
    PeerSession stranger;
    stranger.said_hello();
    stranger.set_stranger(true);
    EXPECT_EQ(taken(stranger, 1), messages::kStrangersConsensusBurst);
    EXPECT_EQ(taken(stranger, 2), messages::kStrangersConsensusPerSecond);
    EXPECT_EQ(judge(stranger, Type::consensus, 1, 2'000'000).offence, Offence::too_fast);
    // Another committee of which it is no member either gives it nothing back.
    stranger.set_stranger(true);
    EXPECT_EQ(taken(stranger, 2), 0U);
    PeerSession member;
    member.said_hello();
    EXPECT_EQ(taken(member, 1), 3000U);
    member.set_stranger(true);
    EXPECT_EQ(taken(member, 1), messages::kStrangersConsensusBurst);
}

TEST(PeerSession, proposals_are_members) {
    PeerSession session;
    session.said_hello();
    for (const Type type : {Type::proposal, Type::get_proposal_transactions, Type::get_proposal}) {
        session.set_member(false);
        EXPECT_TRUE(judge(session, type).admission.skip);
        EXPECT_EQ(judge(session, type).offence, Offence::useless);
        session.set_member(true);
        EXPECT_FALSE(judge(session, type).admission.skip);
        EXPECT_FALSE(judge(session, type).offence);
    }
}

TEST(PeerSession, requests_above_the_rate_are_refused_in_words) {
    PeerSession session;
    session.said_hello();
    const auto& rule = messages::rule_of(Type::get_peers);
    for (std::uint32_t i = 0; i < rule.burst; ++i) EXPECT_FALSE(judge(session, Type::get_peers, i).admission.skip);
    EXPECT_TRUE(judge(session, Type::get_peers).refuse_too_fast);
}

TEST(PeerSession, bounds_what_is_asked_and_served) {
    PeerSession session;
    for (std::size_t i = 0; i < kMaxRequestsPerPeer; ++i)
        session.asked(*session.begin_request(), Type::get_block, 10, [](Expected<Bytes>) {});
    EXPECT_TRUE(session.begin_request().error().is_busy());
    EXPECT_EQ(session.expire(10).size(), kMaxRequestsPerPeer);
    for (std::size_t i = 0; i < kMaxServedPerPeer; ++i) {
        EXPECT_TRUE(session.may_be_served());
        session.begin_serving();
    }
    EXPECT_FALSE(session.may_be_served());
    session.end_serving();
    EXPECT_TRUE(session.may_be_served());
}

TEST(PeerSession, bulk_carries_answers_alone) {
    PeerSession session;
    EXPECT_EQ(judge(session, Type::consensus, 1, 0, ConnectionKind::bulk).offence, Offence::protocol);
    EXPECT_FALSE(judge(session, Type::range, 1, 0, ConnectionKind::bulk).offence);  // control may say hello yet
    session.said_hello();
    EXPECT_EQ(judge(session, Type::consensus, 1, 0, ConnectionKind::bulk).offence, Offence::protocol);
}

TEST(PeerSession, only_so_many_late_answers_are_expected_and_each_once) {
    PeerSession session;
    session.said_hello();
    std::vector<std::uint32_t> streams;
    for (std::size_t i = 0; i < kMaxLateStreams + 1; ++i) {
        streams.push_back(*session.begin_request());
        session.asked(streams.back(), Type::get_block, 10, [](Expected<Bytes>) {});
        EXPECT_EQ(session.expire(10).size(), 1U);
    }
    EXPECT_EQ(judge(session, Type::block, streams.front()).offence, Offence::useless) << "the oldest is forgotten";
    EXPECT_FALSE(judge(session, Type::block, streams[1]).offence);
    // One that had begun before its time was over, and came whole after.
    EXPECT_EQ(session.take(streams.back()), nullptr);
    EXPECT_EQ(judge(session, Type::block, streams.back()).offence, Offence::useless);
}

TEST(PeerSession, what_is_open_when_the_peer_goes_is_given_back_once) {
    PeerSession session;
    for (int i = 0; i < 3; ++i) session.asked(*session.begin_request(), Type::get_block, 10, [](Expected<Bytes>) {});
    EXPECT_EQ(session.open_requests(), 3U);
    EXPECT_EQ(session.take_all().size(), 3U);
    EXPECT_EQ(session.open_requests(), 0U);
    EXPECT_TRUE(session.take_all().empty());
}

TEST(PeerSession, what_comes_on_bulk_before_hello_takes_no_memory) {
    PeerSession session;
    EXPECT_TRUE(judge(session, Type::range, 1, 0, ConnectionKind::bulk).admission.skip);
    EXPECT_TRUE(judge(session, Type::consensus, 1, 0, ConnectionKind::bulk).admission.skip);
}

}  // namespace
}  // namespace quern::p2p
