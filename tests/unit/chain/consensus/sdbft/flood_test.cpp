// What strangers can make the core's thread do: little for what costs them little, whatever they send.
#include <gtest/gtest.h>

#include "base/rlp.h"
#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;
using Names = std::vector<std::string_view>;

// The block's header before a body that is none: who decodes it says so.
Bytes with_broken_body(const Bytes& block) {
    auto items = *rlp::decode_list(block);
    rlp::Writer out;
    out.begin_list().raw(items.next()->whole).integer(std::uint64_t{7}).end_list();
    return std::move(out).finish();
}

TEST(SdbftFlood, a_body_that_nobody_asked_for_is_not_decoded) {
    Harness h;
    const auto made = h.first();
    h.receive(70, BlockAnswer{with_broken_body(made.bytes)});
    EXPECT_EQ(h.misbehaved, Names{});
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 1, made.tip.hash)});
    h.receive(70, BlockAnswer{with_broken_body(made.bytes)});
    EXPECT_EQ(h.misbehaved, Names{"rlp.expected_list"});
    h.receive(71, BlockAnswer{made.bytes});
    EXPECT_EQ(h.chain->height(), 1U);
}

TEST(SdbftFlood, a_proposals_body_is_decoded_when_its_master_has_signed_for_it) {
    Harness h;
    auto message = h.proposal(1, h.first());
    message.block = with_broken_body(message.block);
    const auto signature = std::exchange(message.signature, {});
    h.receive(70, message);
    EXPECT_EQ(h.misbehaved, Names{"sdbft.bad_signature"});
    message.signature = signature;
    h.receive(70, message);
    EXPECT_EQ(h.misbehaved, (Names{"sdbft.bad_signature", "rlp.expected_list"}));
    // Whoever was first with it keeps nobody from voting for the block itself.
    h.receive(h.master(1), h.proposal(1, h.first()));
    EXPECT_EQ(h.sent_votes(notarize, 1), 1U);
}

TEST(SdbftFlood, a_refused_proposal_is_not_decoded_again) {
    Harness h;
    h.valid = false;
    auto message = h.proposal(1, h.first());
    h.receive(h.master(1), message);
    ASSERT_EQ(h.misbehaved, Names{"proposal.invalid_block"});
    message.block = with_broken_body(message.block);
    for (std::size_t peer = 70; peer < 80; ++peer) h.receive(peer, message);
    EXPECT_EQ(h.misbehaved.size(), 1U);
    EXPECT_EQ(h.validated.size(), 1U);
}

TEST(SdbftFlood, a_late_proposal_is_not_decoded_again) {
    Harness h;
    auto message = h.proposal(1, h.first());
    h.receive(h.master(1), message);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 2, h.first(2).tip.hash)});
    h.receive(h.others()[0], BlockAnswer{h.first(2).bytes});
    ASSERT_EQ(h.chain->height(), 1U);
    message.block = with_broken_body(message.block);
    for (std::size_t peer = 70; peer < 80; ++peer) h.receive(peer, message);
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftFlood, the_bodies_of_a_range_are_decoded_when_it_is_final) {
    Harness h;
    const auto first = h.first();
    const auto second = h.block(2, first.tip, encode(h.certificate(notarize, 1, first.tip.hash)));
    RangeAnswer answer{2,
                       {with_broken_body(first.bytes), with_broken_body(second.bytes)},
                       h.certificate(finalize, 2, second.tip.hash)};
    const auto right = answer.certificate;
    answer.certificate.signatures[0].data[0] ^= 1;
    h.receive(70, answer);
    EXPECT_EQ(h.misbehaved, Names{"certificate.bad_signature"});
    answer.certificate = right;
    h.receive(70, answer);
    EXPECT_EQ(h.misbehaved, (Names{"certificate.bad_signature", "rlp.expected_list"}));
    h.receive(71, RangeAnswer{2, {first.bytes, second.bytes}, right});
    EXPECT_EQ(h.chain->height(), 2U);
}

TEST(SdbftFlood, a_block_that_is_not_final_is_given_to_the_driver_without_a_copy) {
    Harness h;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    std::vector<std::shared_ptr<const Bytes>> given;
    for (std::size_t peer = 70; peer < 80; ++peer)
        for (auto& action : h.core->step(event::Received{peer, encode(Message(BlockQuery{made.tip.hash}))}, h.now)) {
            EXPECT_FALSE(std::holds_alternative<action::Send>(action));
            if (const auto* serve = std::get_if<action::ServeBlock>(&action)) given.push_back(serve->block);
        }
    ASSERT_EQ(given.size(), 10U);
    for (const auto& block : given) EXPECT_EQ(block, given[0]);
    EXPECT_EQ(*given[0], made.bytes);
}

TEST(SdbftFlood, a_peer_gets_certificates_a_few_times_in_a_delta) {
    Harness h;
    for (std::uint64_t view = 1; view <= 5; ++view)
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    h.forget();
    for (std::uint64_t i = 0; i < 4 * kCertificateAnswers; ++i) h.receive(70, CertificateQuery{0, 1, 1});
    EXPECT_EQ(h.sent<CertificateMessage>().size(), 2 * kCertificateAnswers);  // and what opened the view
    h.receive(71, CertificateQuery{0, 1, 1});
    EXPECT_EQ(h.sent<CertificateMessage>().size(), 2 * kCertificateAnswers + 2);
    h.pass(h.delta_ms);
    h.forget();
    h.receive(70, CertificateQuery{0, 1, 1});
    EXPECT_EQ(h.sent<CertificateMessage>().size(), 2U);
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
