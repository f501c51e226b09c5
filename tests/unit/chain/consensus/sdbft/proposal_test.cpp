// What a Byzantine master proposes: each check of a proposal by its name, and what is kept of it.
#include <gtest/gtest.h>

#include "crypto/hash.h"
#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;

using Names = std::vector<std::string_view>;

// A block like `made`, with the header changed.
template <class Change>
Harness::Made altered(const Harness::Made& made, Change&& change) {
    auto block = *types::decode_block(made.bytes);
    change(block);
    Harness::Made out;
    out.bytes = types::encode(block);
    out.tip = tip_of(*read_block(out.bytes));
    return out;
}

// With another parent certificate, and a header that names it.
Harness::Made with_certificate(const Harness::Made& made, const Bytes& certificate) {
    return altered(made, [&](types::Block& block) {
        block.parent_certificate = certificate;
        block.header.consensus.parent_certificate_hash = certificate_hash(certificate);
    });
}

void expect_refused(Harness& h, std::uint64_t view, const Harness::Made& made, std::string_view name) {
    h.misbehaved.clear();
    h.forget();
    h.receive(h.others()[0], h.proposal(view, made));
    EXPECT_EQ(h.sent_votes(notarize, view), 0U) << name;
    EXPECT_EQ(h.misbehaved, Names{name});
    EXPECT_EQ(h.core->status().blocks_kept, 0U) << name;
    EXPECT_TRUE(h.validated.empty()) << name;
    EXPECT_TRUE(h.asked_blocks.empty()) << name;
    EXPECT_FALSE(h.halt);
}

TEST(SdbftProposal, each_field_of_the_header_is_checked) {
    using Change = void (*)(types::Block&);
    const std::pair<std::string_view, Change> cases[] = {
        {"header.wrong_epoch", [](types::Block& b) { b.header.consensus.epoch = 1; }},
        {"header.wrong_epoch", [](types::Block& b) { b.header.number = 1'000'000; }},
        {"header.wrong_number", [](types::Block& b) { b.header.number = 2; }},
        {"header.wrong_number", [](types::Block& b) { b.header.number = 0; }},
        {"header.wrong_view", [](types::Block& b) { b.header.consensus.view = 0; }},
        {"proposal.wrong_view", [](types::Block& b) { b.header.consensus.view = 2; }},
        {"header.wrong_committee", [](types::Block& b) { b.header.consensus.committee_hash.data[0] ^= 1; }},
        {"header.wrong_committee", [](types::Block& b) { b.header.consensus.next_committee_hash.data[0] ^= 1; }},
        {"header.wrong_certificate", [](types::Block& b) { b.header.consensus.parent_certificate_hash.data[0] ^= 1; }},
        {"header.wrong_certificate", [](types::Block& b) { b.parent_certificate = Bytes(9); }},
        {"header.wrong_parent", [](types::Block& b) { b.header.parent_hash.data[0] ^= 1; }},
        {"header.wrong_timestamp", [](types::Block& b) { b.header.consensus.timestamp_ms = 1; }},
        {"header.wrong_beacon", [](types::Block& b) { b.header.consensus.beacon.data[0] ^= 1; }},
    };
    for (const auto& [name, change] : cases) {
        Harness h;
        expect_refused(h, 1, altered(h.first(), change), name);
        // Its view goes on as if nothing had been proposed, and the next honest master is heard.
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
        const auto next = h.first(2);
        h.receive(h.master(2), h.proposal(2, next));
        EXPECT_EQ(h.voted(notarize, 2), next.tip.hash) << name;
    }
}

TEST(SdbftProposal, the_beacons_proof_is_the_masters_over_the_parents_beacon) {
    Harness h;
    const auto proof_of = [&](std::size_t member, const Hash32& message) {
        return h.keys.signers[h.signer_of_member[member]]->vrf_prove(message);
    };
    const auto with_proof = [&](const Signer::Vrf& vrf) {
        return altered(h.first(), [&](types::Block& block) {
            block.header.consensus.vrf_proof = vrf.proof;
            block.header.consensus.beacon = next_beacon(h.genesis.tip().beacon, vrf.output);
        });
    };
    const std::size_t other = h.master(1) == 0 ? 1 : 0;
    const auto blame_of = [&](const Harness::Made& made) {
        Harness fresh;
        fresh.receive(fresh.master(1), fresh.proposal(1, made));
        EXPECT_EQ(fresh.sent_votes(notarize, 1), 0U);
        return fresh.misbehaved;
    };
    EXPECT_EQ(blame_of(with_proof(proof_of(other, h.genesis.tip().beacon))).size(), 1U);
    EXPECT_EQ(blame_of(with_proof(proof_of(h.master(1), Hash32{{5}}))).size(), 1U);
}

TEST(SdbftProposal, the_header_rules_alone_name_a_wrong_parent) {
    Harness h;
    const auto info = *read_block(h.first().bytes);
    Tip parent = h.genesis.tip();
    EXPECT_TRUE(check_proposed(info, parent, h.epoch, *h.keys.scheme));
    parent.hash.data[0] ^= 1;
    EXPECT_EQ(check_proposed(info, parent, h.epoch, *h.keys.scheme).error().name, "header.wrong_parent");
    parent = h.genesis.tip();
    parent.number = 1;
    EXPECT_EQ(check_proposed(info, parent, h.epoch, *h.keys.scheme).error().name, "header.wrong_number");
    parent = h.genesis.tip();
    parent.view = info.view;
    EXPECT_EQ(check_proposed(info, parent, h.epoch, *h.keys.scheme).error().name, "header.wrong_view");
}

// --- The parent's certificate ----------------------------------------------------------------------------------------

struct Second : Harness {  // a first block that is notarized in view 1, and its child, proposed in view 2
    Second() {
        first_block = first();
        receive(master(1), proposal(1, first_block));
        notarization = certificate(notarize, 1, first_block.tip.hash);
        receive(others()[0], CertificateMessage{notarization});
        child = block(2, first_block.tip, encode(notarization));
        validated.clear();
    }
    Made first_block;
    Certificate notarization;
    Made child;
};

void expect_parent_refused(const Bytes& certificate, std::string_view name) {
    Second h;
    h.forget();
    h.receive(h.master(2), h.proposal(2, with_certificate(h.child, certificate)));
    EXPECT_EQ(h.sent_votes(notarize, 2), 0U) << name;
    ASSERT_FALSE(h.misbehaved.empty()) << name;
    EXPECT_EQ(h.misbehaved.back(), name);
    EXPECT_EQ(h.core->status().blocks_kept, 1U);
}

TEST(SdbftProposal, a_child_of_a_notarized_block_is_voted_for) {
    Second h;
    h.receive(h.master(2), h.proposal(2, h.child));
    EXPECT_EQ(h.voted(notarize, 2), h.child.tip.hash);
    EXPECT_TRUE(h.misbehaved.empty());
}

TEST(SdbftProposal, the_parents_certificate_is_of_the_parent_and_of_an_earlier_view) {
    Second h;
    const Hash32 other{{7}};
    expect_parent_refused(encode(h.certificate(notarize, 1, other)), "proposal.bad_parent_certificate");
    expect_parent_refused(encode(h.certificate(nullify, 1)), "proposal.bad_parent_certificate");
    // (One that is valid would have ended the view.)
    auto later = h.certificate(notarize, 2, h.first_block.tip.hash);
    later.signatures[0].data[0] ^= 1;
    expect_parent_refused(encode(later), "proposal.bad_parent_certificate");
    auto of_type = h.notarization;
    of_type.type = propose;
    expect_parent_refused(encode(of_type), "proposal.bad_parent_certificate");
    auto of_epoch = h.notarization;
    of_epoch.epoch = 1;
    expect_parent_refused(encode(of_epoch), "proposal.bad_parent_certificate");
    expect_parent_refused({}, "rlp.truncated");
}

TEST(SdbftProposal, the_parents_certificate_is_signed_by_a_quorum_even_when_nothing_else_is_known_of_it) {
    for (const bool forged : {false, true}) {
        Harness h;
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 2)});
        const auto first = h.first(1);
        // A sibling that was never notarized, and a certificate that says it was.
        auto certificate = h.certificate(notarize, 1, first.tip.hash);
        if (forged) {
            certificate.signatures[1].data[5] ^= 1;
        } else {
            certificate.bitmap[0] = static_cast<std::uint8_t>(certificate.bitmap[0] & (certificate.bitmap[0] - 1));
            certificate.signatures.erase(certificate.signatures.begin());
        }
        h.receive(h.master(3), h.proposal(3, h.block(3, first.tip, encode(certificate))));
        EXPECT_EQ(h.sent_votes(notarize, 3), 0U);
        ASSERT_FALSE(h.misbehaved.empty());
        EXPECT_EQ(h.misbehaved.back(), forged ? "certificate.bad_signature" : "certificate.no_quorum");
        EXPECT_EQ(h.core->status().blocks_kept, 0U);
        EXPECT_TRUE(h.asked_blocks.empty());
    }
}

TEST(SdbftProposal, the_parents_certificate_is_signed_even_when_the_parent_is_known_to_be_notarized) {
    Second h;
    auto forged = h.notarization;
    forged.signatures[0].data[9] ^= 1;
    h.receive(h.master(2), h.proposal(2, with_certificate(h.child, encode(forged))));
    EXPECT_EQ(h.sent_votes(notarize, 2), 0U);
    EXPECT_EQ(h.misbehaved, Names{"certificate.bad_signature"});
    // Another quorum's signatures do.
    Second other;
    const auto made =
        with_certificate(other.child, encode(other.certificate_with_me(notarize, 1, other.first_block.tip.hash)));
    other.receive(other.master(2), other.proposal(2, made));
    EXPECT_EQ(other.voted(notarize, 2), made.tip.hash);
}

TEST(SdbftProposal, the_first_block_has_no_parent_certificate) {
    Harness h;
    expect_refused(h, 1, with_certificate(h.first(), Bytes(9)), "proposal.bad_parent_certificate");
}

TEST(SdbftProposal, a_parent_notarized_before_the_last_final_view_is_too_old) {
    Second h;
    // View 2 is final with a block whose body is not here yet.
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 2, Hash32{{2}})});
    ASSERT_EQ(h.core->status().view, 3U);
    h.receive(h.master(3), h.proposal(3, h.block(3, h.first_block.tip, encode(h.notarization))));
    EXPECT_EQ(h.sent_votes(notarize, 3), 0U);
    EXPECT_EQ(h.misbehaved, Names{"proposal.old_parent"});
}

TEST(SdbftProposal, a_height_that_is_final_is_not_proposed_again) {
    Harness h;
    const auto late = h.first(2);
    h.finalize(1, h.first());
    h.misbehaved.clear();
    h.receive(h.others()[0], h.proposal(2, late));
    EXPECT_EQ(h.misbehaved, Names{"proposal.old_parent"});
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
}

TEST(SdbftProposal, the_certificates_view_is_the_one_in_the_parents_header) {
    Second h;
    // The same block was certified in another view, which only an epoch's last block may be.
    const auto again = h.certificate(notarize, 2, h.first_block.tip.hash);
    h.receive(h.others()[0], CertificateMessage{again});
    ASSERT_EQ(h.core->status().view, 3U);
    h.misbehaved.clear();
    h.receive(h.master(3), h.proposal(3, h.block(3, h.first_block.tip, encode(again))));
    EXPECT_EQ(h.sent_votes(notarize, 3), 0U);
    EXPECT_EQ(h.misbehaved, Names{"proposal.wrong_parent_view"});
}

// --- Epochs ----------------------------------------------------------------------------------------------------------

// Heights 1 and 2 are final; the epoch's last block, of view 3, is notarized.
struct AtLast : Harness {
    AtLast() {
        for (std::uint64_t view = 1; view < 3; ++view)
            finalize(view, block(view, chain->tip(), chain->tip_certificate()));
        last = block(3, chain->tip(), chain->tip_certificate());
        receive(others()[0], proposal(3, last));
        notarization = certificate(notarize, 3, last.tip.hash);
        receive(others()[0], CertificateMessage{notarization});
        next = core->status().view;
        while (master(next) == me) {
            receive(others()[0], CertificateMessage{certificate(nullify, next)});
            nullifications.push_back(certificate(nullify, next++));
        }
        misbehaved.clear();
        forget();
    }
    Made last;
    Certificate notarization;
    std::vector<Certificate> nullifications;
    std::uint64_t next = 0;
};

TEST(SdbftProposal, only_an_epochs_last_block_is_proposed_again) {
    AtLast h;
    ASSERT_EQ(h.misbehaved, Names{});
    const auto second = *types::decode_block(h.chain->block(h.chain->tip().hash)->block);
    Second other;
    other.receive(other.master(2), other.proposal(2, other.first_block, {}, other.notarization));
    EXPECT_EQ(other.sent_votes(notarize, 2), 0U);
    EXPECT_EQ(other.misbehaved, Names{"proposal.wrong_view"});

    h.receive(h.others()[0], h.proposal(h.next, h.last, h.nullifications, h.notarization));
    EXPECT_EQ(h.voted(notarize, h.next), h.last.tip.hash);
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftProposal, what_is_proposed_again_shows_its_notarization) {
    AtLast h;
    h.receive(h.others()[0], h.proposal(h.next, h.last, h.nullifications));
    EXPECT_EQ(h.sent_votes(notarize, h.next), 0U);
    h.receive(h.others()[0], h.proposal(h.next, h.last, h.nullifications, h.certificate(notarize, 3, Hash32{{4}})));
    EXPECT_EQ(h.sent_votes(notarize, h.next), 0U);
    h.receive(h.others()[0], h.proposal(h.next, h.last, h.nullifications, h.certificate(nullify, 3)));
    EXPECT_EQ(h.sent_votes(notarize, h.next), 0U);
    h.receive(h.others()[0], h.proposal(h.next, h.last, h.nullifications, h.notarization));
    EXPECT_EQ(h.voted(notarize, h.next), h.last.tip.hash);
}

TEST(SdbftProposal, an_epochs_first_block_rests_on_a_finalization_of_the_last_one) {
    const auto made_with = [](Harness& h, const Bytes& certificate) { return h.block(1, h.chain->tip(), certificate); };
    const auto at_epoch_one = [](AtLast& h) {
        const auto closing = h.certificate(finalize, 3, h.last.tip.hash);
        h.receive(h.others()[0], CertificateMessage{closing});
        (void)h.world->commit(h.last.tip.hash, h.last.bytes, closing);
        h.epoch = h.chain->epoch_setup();
        h.misbehaved.clear();
        h.forget();
    };
    const auto refused = [&](auto&& change, std::string_view name) {
        AtLast h;
        const auto bytes = encode(change(h));  // signed in the epoch that ends
        at_epoch_one(h);
        ASSERT_EQ(h.core->status().epoch, 1U);
        const std::size_t sender = h.others()[0];
        h.receive(sender, h.proposal(1, made_with(h, bytes)));
        EXPECT_EQ(h.sent_votes(notarize, 1), 0U) << name;
        ASSERT_FALSE(h.misbehaved.empty()) << name;
        EXPECT_EQ(h.misbehaved.back(), name);
        EXPECT_EQ(h.core->status().blocks_kept, 0U);
    };
    refused([](AtLast& h) { return h.notarization; }, "proposal.bad_parent_certificate");
    refused([](AtLast& h) { return h.certificate(nullify, 3); }, "proposal.bad_parent_certificate");
    refused([](AtLast& h) { return h.certificate(finalize, 3, Hash32{{1}}); }, "proposal.bad_parent_certificate");
    refused(
        [](AtLast& h) {
            auto forged = h.certificate(finalize, 4, h.last.tip.hash);
            forged.signatures[2].data[0] ^= 1;
            return forged;
        },
        "certificate.bad_signature");
    refused(
        [](AtLast& h) {
            auto of_epoch = h.certificate(finalize, 3, h.last.tip.hash);
            of_epoch.epoch = 1;
            return of_epoch;
        },
        "proposal.bad_parent_certificate");

    // Of the view in which it was proposed again, or of the one by which this node closed the epoch.
    for (const std::uint64_t view : {3U, 4U}) {
        AtLast h;
        const auto bytes = encode(h.certificate(finalize, view, h.last.tip.hash));
        at_epoch_one(h);
        const auto made = made_with(h, bytes);
        h.receive(h.others()[0], h.proposal(1, made));
        if (h.master(1) == h.me) continue;
        EXPECT_EQ(h.voted(notarize, 1), made.tip.hash) << view;
        EXPECT_EQ(h.misbehaved, Names{});
    }
}

TEST(SdbftProposal, the_closing_certificate_is_no_parent_of_a_later_block) {
    AtLast h;
    const auto closing = h.certificate(finalize, 3, h.last.tip.hash);
    h.receive(h.others()[0], CertificateMessage{closing});
    (void)h.world->commit(h.last.tip.hash, h.last.bytes, closing);
    h.epoch = h.chain->epoch_setup();
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    h.misbehaved.clear();
    const auto later = altered(h.block(2, h.chain->tip(), encode(closing)), [](types::Block& block) {
        block.header.number += 1;
        block.header.parent_hash.data[0] ^= 1;
    });
    h.receive(h.others()[0], h.proposal(2, later));
    EXPECT_EQ(h.misbehaved, Names{"proposal.bad_parent_certificate"});
    EXPECT_TRUE(h.asked_blocks.empty());
}

// --- What is kept ----------------------------------------------------------------------------------------------------

TEST(SdbftProposal, garbage_of_a_byzantine_master_is_not_kept_and_honest_ones_are_heard) {
    Harness h;
    for (std::uint64_t view = 1; view <= 600; ++view) {
        // The epoch goes on without finality; each master proposes an absurd block.
        const auto absurd = altered(h.first(view), [](types::Block& block) { block.header.number = 1'000'000; });
        if (h.master(view) != h.me) h.receive(h.master(view), h.proposal(view, absurd));
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
        ASSERT_EQ(h.core->status().blocks_kept, 0U);
    }
    h.misbehaved.clear();
    std::uint64_t view = 601;
    for (; h.master(view) == h.me; ++view) h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    const auto made = h.first(view);
    h.receive(h.master(view), h.proposal(view, made));
    EXPECT_EQ(h.voted(notarize, view), made.tip.hash);
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftProposal, what_the_executor_refuses_is_dropped_and_not_taken_again) {
    Harness h;
    h.valid = false;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
    h.receive(h.master(1), h.proposal(1, made));
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
    EXPECT_EQ(h.validated.size(), 1U);
    EXPECT_EQ(h.misbehaved, Names{"proposal.invalid_block"});
}

TEST(SdbftProposal, what_the_executor_forgot_is_validated_again_when_it_matters) {
    Second h;
    h.step(event::Forgotten{h.first_block.tip.hash});
    EXPECT_TRUE(h.validated.empty());
    h.receive(h.master(2), h.proposal(2, h.child));
    EXPECT_EQ(h.validated, (std::vector<Hash32>{h.first_block.tip.hash, h.child.tip.hash}));
    EXPECT_EQ(h.voted(notarize, 2), h.child.tip.hash);
    h.step(event::Forgotten{Hash32{}});
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftProposal, of_a_master_that_signs_two_blocks_one_is_kept) {
    Harness h;
    for (std::uint8_t mark = 9; mark < 30; ++mark) h.receive(h.master(1), h.proposal(1, h.first(1, mark)));
    EXPECT_EQ(h.core->status().blocks_kept, 1U);
    EXPECT_EQ(h.evidence.size(), 1U);
    EXPECT_EQ(h.misbehaved, Names{});
    // The other is fetched when a quorum stands for it.
    const auto other = h.first(1, 10);
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, other.tip.hash)});
    h.receive(h.others()[0], BlockAnswer{other.bytes});
    EXPECT_EQ(h.core->status().blocks_kept, 2U);
}

TEST(SdbftProposal, one_that_nobody_voted_for_goes_when_its_view_is_nullified) {
    Harness h;
    h.pass(h.max_idle_ms + 2 * h.delta_ms);  // NULLIFY 1: this node votes for nothing there
    h.receive(h.master(1), h.proposal(1, h.first()));
    EXPECT_EQ(h.core->status().blocks_kept, 1U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
}

TEST(SdbftProposal, one_that_this_node_voted_for_stays_within_a_budget) {
    Harness h;
    h.limits.blocks_kept = 8;
    h.restart();
    h.start();
    std::vector<Harness::Made> voted;
    std::uint64_t view = 1;
    for (; voted.size() < 40; ++view) {
        if (h.master(view) != h.me) {
            const auto made = h.first(view);
            h.receive(h.master(view), h.proposal(view, made));
            ASSERT_EQ(h.voted(notarize, view), made.tip.hash);
            voted.push_back(made);
        }
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
        ASSERT_LE(h.core->status().blocks_kept, 8U);
    }
    EXPECT_EQ(h.core->status().blocks_kept, 8U);
    EXPECT_EQ(h.misbehaved, Names{});
    // The newest is still served.
    h.forget();
    h.receive(h.others()[0], BlockQuery{voted.back().tip.hash});
    EXPECT_EQ(h.sent<BlockAnswer>().size(), 1U);
    // What is gone and notarized nevertheless holds nobody up: its view is nullified too.
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, view - 1, Hash32{{8}})});
    while (h.master(view) != h.me) h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view++)});
    h.pass(h.max_idle_ms);
    EXPECT_FALSE(h.sent<ProposeMessage>().empty());
}

TEST(SdbftProposal, the_master_that_holds_most_loses_its_oldest_first) {
    Harness h;
    h.limits.block_bytes = 60'000;
    h.restart();
    h.start();
    // One master proposes large blocks, the others small ones.
    const std::size_t greedy = h.master(1);
    std::vector<Hash32> small;
    std::vector<Hash32> large;
    for (std::uint64_t view = 1; view <= 60; ++view) {
        if (h.master(view) != h.me) {
            auto made = h.first(view);
            if (h.master(view) == greedy) {
                std::vector<Bytes> transactions(400, Bytes(11));
                const auto vrf = h.keys.signers[h.signer_of_member[greedy]]->vrf_prove(h.genesis.tip().beacon);
                made.bytes = *h.world->build({h.genesis.tip(),
                                              0,
                                              view,
                                              h.now.wall_ms + 1,
                                              next_beacon(h.genesis.tip().beacon, vrf.output),
                                              vrf.proof,
                                              {},
                                              h.epoch.committee.hash(),
                                              h.epoch.next_committee_hash},
                                             transactions, 9);
                made.tip = tip_of(*read_block(made.bytes));
            }
            (h.master(view) == greedy ? large : small).push_back(made.tip.hash);
            h.receive(h.master(view), h.proposal(view, made));
            ASSERT_EQ(h.voted(notarize, view), made.tip.hash);
        }
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
        ASSERT_LE(h.core->status().block_bytes, 60'000U);
    }
    ASSERT_GT(large.size(), 6U);
    h.forget();
    for (const auto& hash : small) h.receive(h.others()[0], BlockQuery{hash});
    EXPECT_EQ(h.sent<BlockAnswer>().size(), small.size());
    h.forget();
    h.receive(h.others()[0], BlockQuery{large.front()});
    EXPECT_TRUE(h.sent<BlockAnswer>().empty());
    h.receive(h.others()[0], BlockQuery{large.back()});
    EXPECT_EQ(h.sent<BlockAnswer>().size(), 1U);
}

TEST(SdbftProposal, proposals_wait_for_few_views_ahead_and_few_behind) {
    Harness h;
    for (std::uint64_t view = 1; view <= 40; ++view)
        if (h.master(view) != h.me) h.receive(h.master(view), h.proposal(view, h.first(view)));
    EXPECT_LE(h.core->status().blocks_kept, kMaxFutureProposals + 1);
    // A certificate of a view far ahead: what was proposed on the way is over, whether nullified or not.
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 30)});
    EXPECT_LE(h.core->status().blocks_kept, 1U);  // the one of view 1, for which this node voted
}

TEST(SdbftProposal, what_a_quorum_signed_stays_though_this_node_did_not_vote_for_it) {
    Harness h;
    h.pass(h.max_idle_ms + 2 * h.delta_ms);  // NULLIFY 1
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, made.tip.hash)});
    for (std::uint64_t view = 1; view <= 12; ++view)
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    EXPECT_EQ(h.core->status().blocks_kept, 1U);
}

TEST(SdbftProposal, what_a_quorum_may_have_signed_stays_beyond_the_budget) {
    Harness h;
    h.limits.block_bytes = 1;
    h.restart();
    h.start();
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    ASSERT_EQ(h.sent_votes(notarize, 1), 1U);
    // How view 1 ended is not known here.
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 20)});
    EXPECT_EQ(h.core->status().blocks_kept, 1U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 21)});
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
}

TEST(SdbftProposal, what_is_no_ancestor_of_the_final_block_goes_with_its_view) {
    Harness h;
    const auto sibling = h.first(1, 10);
    h.receive(h.master(1), h.proposal(1, sibling));
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, sibling.tip.hash)});
    const auto child = h.block(2, sibling.tip, encode(h.certificate(notarize, 1, sibling.tip.hash)));
    h.receive(h.master(2), h.proposal(2, child));
    ASSERT_EQ(h.core->status().blocks_kept, 2U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 2)});
    const auto made = h.first(3);
    h.finalize(3, made);
    ASSERT_EQ(h.chain->height(), 1U);
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
}

TEST(SdbftProposal, ranges_that_are_final_find_room_when_the_table_is_full) {
    Harness h;
    h.limits.blocks_kept = 2;
    h.restart();
    h.start();
    // Four blocks that quorums notarized in views that were nullified too.
    for (std::uint64_t view = 1; view <= 5; ++view) {
        const auto made = h.first(view, static_cast<std::uint8_t>(view));
        h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, view, made.tip.hash)});
        h.receive(h.others()[0], BlockAnswer{made.bytes});
        EXPECT_LE(h.core->status().blocks_kept, 4U);
    }
    EXPECT_EQ(h.core->status().blocks_kept, 4U);
    EXPECT_EQ(h.misbehaved, Names{});
    const auto first = h.first(6);
    std::size_t held = 0;
    h.alter_committed = [&](event::Committed&) { held = h.core->status().blocks_kept; };
    h.receive(h.others()[0], RangeAnswer{1, {first.bytes}, h.certificate(finalize, 6, first.tip.hash)});
    EXPECT_EQ(h.chain->height(), 1U);
    EXPECT_EQ(held, 1U);
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftProposal, ranges_that_are_final_drive_nothing_out_while_there_is_room) {
    Harness h;
    h.limits.blocks_kept = 2;
    h.restart();
    h.start();
    for (std::uint64_t view = 1; view <= 3; ++view) {
        const auto made = h.first(view, static_cast<std::uint8_t>(view));
        h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, view, made.tip.hash)});
        h.receive(h.others()[0], BlockAnswer{made.bytes});
    }
    ASSERT_EQ(h.core->status().blocks_kept, 3U);
    const auto first = h.first(6);
    std::size_t held = 0;
    h.alter_committed = [&](event::Committed&) { held = h.core->status().blocks_kept; };
    h.receive(h.others()[0], RangeAnswer{1, {first.bytes}, h.certificate(finalize, 6, first.tip.hash)});
    EXPECT_EQ(h.chain->height(), 1U);
    EXPECT_EQ(held, 4U);  // twice what is kept otherwise
}

TEST(SdbftProposal, ranges_that_are_final_find_room_beside_what_this_node_voted_for) {
    Harness h;
    h.limits.blocks_kept = 1;
    h.restart();
    h.start();
    for (std::uint64_t view = 1; view <= 3; ++view) {
        if (h.master(view) == h.me) continue;
        const auto made = h.first(view);
        h.receive(h.master(view), h.proposal(view, made));
        h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, view, made.tip.hash)});
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    }
    ASSERT_EQ(h.core->status().blocks_kept, 3U);
    const auto first = h.first(6);
    h.receive(h.others()[0], RangeAnswer{1, {first.bytes}, h.certificate(finalize, 6, first.tip.hash)});
    EXPECT_EQ(h.chain->height(), 1U);
    EXPECT_EQ(h.misbehaved, Names{});
}

// --- Bodies ----------------------------------------------------------------------------------------------------------

TEST(SdbftProposal, another_blocks_body_is_asked_for_whole_before_anybody_is_blamed) {
    Harness h;
    const auto made = h.first();
    const auto collided = altered(made, [](types::Block& block) { block.transactions.push_back(Bytes(11)); });
    ASSERT_EQ(collided.tip.hash, made.tip.hash);
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 1, made.tip.hash)});
    h.forget();
    const std::size_t relayer = h.others()[1];
    h.receive(relayer, BlockAnswer{collided.bytes});
    EXPECT_EQ(h.misbehaved, Names{});
    ASSERT_EQ(h.asked_blocks.size(), 1U);
    EXPECT_EQ(h.asked_blocks[0].hash, made.tip.hash);
    EXPECT_EQ(h.asked_blocks[0].peer, relayer);
    EXPECT_EQ(h.chain->height(), 0U);
    h.receive(relayer, BlockAnswer{made.bytes});
    EXPECT_EQ(h.chain->height(), 1U);
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftProposal, who_gives_the_wrong_body_twice_is_blamed_and_such_answers_are_bounded) {
    Harness h;
    h.limits.wrong_bodies = 2;
    h.restart();
    h.start();
    const auto made = h.first();
    const auto collided = altered(made, [](types::Block& block) { block.transactions.push_back(Bytes(11)); });
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 1, made.tip.hash)});
    h.receive(70, BlockAnswer{collided.bytes});
    h.receive(70, BlockAnswer{collided.bytes});
    EXPECT_EQ(h.misbehaved, Names{"sdbft.bad_block"});
    h.receive(71, BlockAnswer{collided.bytes});
    h.forget();
    h.receive(72, BlockAnswer{collided.bytes});
    EXPECT_TRUE(h.asked_blocks.empty());
    EXPECT_EQ(h.misbehaved.size(), 1U);
}

// 5 pauses, 2 s, and what two honest nodes may be apart when they enter a view.
std::uint64_t longest_lag(const Harness& h) {
    return 5 * h.max_idle_ms + 2'000 + backed_off(3 * h.delta_ms, 4) + h.delta_ms;
}

TEST(SdbftProposal, a_block_far_behind_the_views_beginning_gets_no_vote_and_no_blame) {
    Harness h;
    h.pass(60'000);  // the chain stood still
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    std::uint64_t view = 2;
    const auto next = [&] {
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
        ++view;
    };
    std::size_t refused = 0;
    std::size_t taken = 0;
    for (const bool late : {true, false, true, false}) {
        while (h.master(view) == h.me) next();
        const std::uint64_t timestamp = h.now.wall_ms - longest_lag(h) - (late ? 1 : 0);
        const auto made = h.block(view, h.genesis.tip(), {}, 9, timestamp);
        std::vector<Certificate> nullifications;
        for (std::uint64_t over = 1; over < view; ++over) nullifications.push_back(h.certificate(nullify, over));
        h.receive(h.master(view), h.proposal(view, made, nullifications));
        (late ? refused : taken) += h.sent_votes(notarize, view);
        next();
    }
    EXPECT_EQ(refused, 0U);
    EXPECT_EQ(taken, 2U);
    EXPECT_TRUE(h.misbehaved.empty());
}

TEST(SdbftProposal, an_honest_block_may_be_long_on_its_way) {
    Harness h;
    const auto made = h.first();
    h.now.wall_ms +=
        10 * longest_lag(h);  // the proposal's way, or this node's other work; no timer of the view is over
    h.receive(h.master(1), h.proposal(1, made));
    EXPECT_EQ(h.sent_votes(notarize, 1), 1U);
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
