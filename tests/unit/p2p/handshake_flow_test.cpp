// What may come in a handshake and when, by name, without sockets.
#include "p2p/transport/handshake_flow.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "unit/p2p/test_node.h"

namespace quern::p2p::transport {
namespace {

using testing::key_of;

constexpr std::uint64_t kChain = 7878;
constexpr std::uint64_t kNow = 1'700'000'000;

Identity identity_of(std::uint64_t number, std::uint64_t expiry = kNow + 60) {
    SeededRng rng(number);
    Identity identity{KeyPair::generate(rng), {}, testing::address_of(number), kChain, Bytes(34, 9)};
    NetCert certificate{kChain, identity.static_key.public_key(), kRoleFullNode, expiry, {}};
    sign(certificate, key_of(number));
    identity.net_cert = encode(certificate);
    return identity;
}

struct Guard final : CookieGuard {
    Challenge challenge(const std::string&, BytesView) override {
        if (refuses) return {std::nullopt, true};
        if (!loaded) return {};
        FixedBytes<16> cookie;
        cookie.data.fill(5);
        return {cookie, false};
    }
    bool cookie_fits(const std::string&, BytesView, BytesView cookie) override {
        return to_bytes(cookie) == Bytes(16, 5);
    }
    bool loaded = false;
    bool refuses = false;
};

struct HandshakeFlowTest : ::testing::Test {
    HandshakeFlow initiator(const Bytes20& expected) {
        return {{alice, cache, rng, guard}, ConnectionKind::bulk, expected};
    }
    HandshakeFlow responder(const Identity& who) { return {{who, cache, rng, guard}, "192.0.2.1"}; }
    // Header, then body.
    static Expected<Bytes> take(HandshakeFlow& flow, BytesView message) {
        auto answer = flow.take(message.first(kHandshakeHeader), kNow);
        return answer ? flow.take(message.subspan(kHandshakeHeader), kNow) : answer;
    }
    static std::string name_of(const Expected<Bytes>& answer) {
        return answer ? "taken" : std::string(answer.error().name);
    }
    static Bytes message(std::uint8_t kind, const Bytes& body) {
        Bytes out(kHandshakeHeader + body.size());
        out[0] = kind;
        out[1] = static_cast<std::uint8_t>(body.size() >> 8);
        out[2] = static_cast<std::uint8_t>(body.size());
        std::copy(body.begin(), body.end(), out.begin() + kHandshakeHeader);
        return out;
    }

    SeededRng rng{7};
    Guard guard;
    NetCertCache cache;
    Identity alice = identity_of(1);
    Identity bob = identity_of(2);
};

TEST_F(HandshakeFlowTest, three_messages_prove_both_and_say_what_the_connection_is_for) {
    auto dialler = initiator(bob.address);
    auto answerer = responder(bob);
    EXPECT_EQ(dialler.split().error().name, "noise.unfinished");
    const auto second = take(answerer, *dialler.start());
    ASSERT_TRUE(second);
    EXPECT_FALSE(answerer.is_done());
    const auto third = take(dialler, *second);
    ASSERT_TRUE(third);
    EXPECT_TRUE(dialler.is_done());
    const auto nothing = take(answerer, *third);
    ASSERT_TRUE(nothing);
    EXPECT_TRUE(nothing->empty());
    EXPECT_TRUE(answerer.is_done());
    EXPECT_EQ(answerer.kind(), ConnectionKind::bulk);
    EXPECT_EQ(answerer.peer().address, alice.address);
    EXPECT_EQ(answerer.peer_certificate(), alice.net_cert);
    EXPECT_EQ(dialler.peer().address, bob.address);
    EXPECT_EQ(name_of(answerer.take(Bytes(3), kNow)), "handshake.out_of_turn") << "it is done";
    EXPECT_TRUE(dialler.split() && answerer.split());
}

TEST_F(HandshakeFlowTest, kinds_lengths_and_turns_are_judged_by_the_header) {
    const auto refused = [&](const Bytes& header) {
        auto flow = responder(bob);
        const std::string name = name_of(flow.take(header, kNow));
        EXPECT_TRUE(name == "taken" || name_of(flow.take(Bytes{1, 0, 32}, kNow)) == "handshake.out_of_turn")
            << "nothing more is taken after an error";
        return name;
    };
    EXPECT_EQ(refused({0, 0, 32}), "handshake.unknown_kind");
    EXPECT_EQ(refused({6, 0, 32}), "handshake.unknown_kind");
    EXPECT_EQ(refused({1, 0, 31}), "handshake.wrong_length");
    EXPECT_EQ(refused({1, 1, 32}), "handshake.wrong_length");
    EXPECT_EQ(refused({2, 0, 213}), "handshake.wrong_length");
    EXPECT_EQ(refused({1, 0, 32}), "taken");
    EXPECT_EQ(refused({5, 0, 48}), "taken");
    for (std::uint8_t kind = 2; kind <= 4; ++kind) {  // not to a responder, not yet
        auto flow = responder(bob);
        const std::size_t size = kind == 2 ? 214 : kind == 3 ? 183 : 16;
        EXPECT_EQ(name_of(take(flow, message(kind, Bytes(size)))), "handshake.out_of_turn") << int{kind};
    }
    auto twice = responder(bob);
    const Bytes first = *initiator(bob.address).start();
    ASSERT_TRUE(take(twice, first));
    EXPECT_EQ(name_of(take(twice, first)), "handshake.out_of_turn");
    auto early = initiator(bob.address);
    EXPECT_EQ(name_of(early.take(Bytes{2, 0, 214}, kNow)), "handshake.out_of_turn") << "before it said anything";
    auto dialler = initiator(bob.address);
    EXPECT_EQ(name_of(take(dialler, *dialler.start())), "handshake.out_of_turn") << "its own words";
    auto short_of = responder(bob);
    EXPECT_EQ(name_of(short_of.take(Bytes{1, 0}, kNow)), "handshake.out_of_turn") << "less than was wanted";
}

TEST_F(HandshakeFlowTest, under_load_a_cookie_comes_first_and_once) {
    guard.loaded = true;
    auto dialler = initiator(bob.address);
    auto answerer = responder(bob);
    const Bytes first = *dialler.start();
    const auto cookie = take(answerer, first);
    ASSERT_TRUE(cookie);
    EXPECT_EQ((*cookie)[0], 4);
    const auto again = take(dialler, *cookie);
    ASSERT_TRUE(again);
    EXPECT_EQ((*again)[0], 5);
    const auto second = take(answerer, *again);
    ASSERT_TRUE(second);
    EXPECT_TRUE(take(dialler, *second));

    auto stubborn = responder(bob);
    ASSERT_TRUE(take(stubborn, first));
    EXPECT_EQ(name_of(take(stubborn, first)), "handshake.out_of_turn") << "it was asked for a cookie";
    auto forged = responder(bob);
    EXPECT_EQ(name_of(take(forged, message(5, Bytes(48, 1)))), "handshake.bad_cookie");
    auto asked_twice = initiator(bob.address);
    ASSERT_TRUE(asked_twice.start());
    ASSERT_TRUE(take(asked_twice, *cookie));
    EXPECT_EQ(name_of(take(asked_twice, *cookie)), "handshake.out_of_turn");
    guard.refuses = true;
    auto full = responder(bob);
    const auto refused = take(full, first);
    EXPECT_EQ(name_of(refused), "handshake.refused");
    EXPECT_TRUE(refused.error().is_busy()) << "nobody's fault";
}

TEST_F(HandshakeFlowTest, the_one_who_answers_is_the_one_who_was_dialled) {
    const auto answer_of = [&](const Bytes20& expected, const Identity& who) {
        auto dialler = initiator(expected);
        auto answerer = responder(who);
        return name_of(take(dialler, *take(answerer, *dialler.start())));
    };
    EXPECT_EQ(answer_of(bob.address, bob), "taken");
    EXPECT_EQ(answer_of(testing::address_of(3), bob), "handshake.wrong_peer");
    EXPECT_EQ(answer_of(alice.address, alice), "handshake.self");
    EXPECT_EQ(answer_of(bob.address, identity_of(2, kNow - 1)), "net_cert.expired");
}

TEST_F(HandshakeFlowTest, who_dials_is_not_this_node_and_says_what_for) {
    // The same chain key at both ends: a node that dialled itself by another way.
    Identity twin = identity_of(1);
    SeededRng other(99);
    twin.static_key = KeyPair::generate(other);
    NetCert certificate{kChain, twin.static_key.public_key(), kRoleFullNode, kNow + 60, {}};
    sign(certificate, key_of(1));
    twin.net_cert = encode(certificate);
    Handshake noise(Handshake::Role::initiator, alice.prologue, twin.static_key, KeyPair::generate(other));
    auto self = responder(alice);
    const auto second = take(self, message(1, *noise.write({})));
    ASSERT_TRUE(second);
    ASSERT_TRUE(noise.read(BytesView(*second).subspan(kHandshakeHeader)));
    Bytes payload = twin.net_cert;
    payload.push_back(1);
    EXPECT_EQ(name_of(take(self, message(3, *noise.write(payload)))), "handshake.self");
    for (const auto purpose : {std::uint8_t{0}, std::uint8_t{3}}) {
        Handshake another(Handshake::Role::initiator, alice.prologue, alice.static_key, KeyPair::generate(other));
        auto flow = responder(bob);
        const auto reply = take(flow, message(1, *another.write({})));
        ASSERT_TRUE(reply);
        ASSERT_TRUE(another.read(BytesView(*reply).subspan(kHandshakeHeader)));
        Bytes words = alice.net_cert;
        words.push_back(purpose);
        EXPECT_EQ(name_of(take(flow, message(3, *another.write(words)))), "handshake.unknown_purpose");
    }
}

}  // namespace
}  // namespace quern::p2p::transport
