#include "p2p/transport/noise.h"

#include <gtest/gtest.h>

#include "p2p/transport/cipher.h"

namespace quern::p2p::transport {
namespace {

template <std::size_t N>
FixedBytes<N> fixed(std::string_view hex) {
    return *fixed_from_hex<N>(hex);
}

// The vector for this suite of the Noise community's shared set (cacophony, vectors/cacophony.txt).
constexpr std::string_view kPrologue = "4a6f686e2047616c74";
constexpr std::string_view kInitiatorStatic = "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1";
constexpr std::string_view kInitiatorEphemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
constexpr std::string_view kResponderStatic = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893";
constexpr std::string_view kResponderEphemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
constexpr std::string_view kHandshakeHash = "c8e5f64e846193be2a834104c2a009868d6c9f3bd3c186299888b488b2f1f58e";
struct VectorMessage {
    std::string_view payload;
    std::string_view ciphertext;
};
constexpr VectorMessage kMessages[] = {
    {"4c756477696720766f6e204d69736573",
     "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79444c756477696720766f6e204d69736573"},
    {"4d757272617920526f746862617264",
     "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884381cbad1f276e038c48378ffce2b65285e08d6b68aaa3629a5"
     "a"
     "8639392490e5b9bd5269c2f1e4f488ed8831161f19b7815528f8982ffe09be9b5c412f8a0db50f8814c7194e83f23dbd8d162c9326ad"},
    {"462e20412e20486179656b",
     "c7195ffacac1307ff99046f219750fc47693e23c3cb08b89c2af808b444850a80ae475b9df0f169ae80a89be0865b57f58c9fea0d4ec82a28"
     "6"
     "427402f113e4b6ae769a1d95941d49b25030"},
    {"4361726c204d656e676572", "96763ed773f8e47bb3712f0e29b3060ffc956ffc146cee53d5e1df"},
    {"4a65616e2d426170746973746520536179", "3e40f15f6f3a46ae446b253bf8b1d9ffb6ed9b174d272328ff91a7e2e5c79c07f5"},
    {"457567656e2042f6686d20766f6e2042617765726b",
     "eb3f3515110702e047a6c9da4478b6ead94873c11c0f2d710ddb3f09fce024b3a58502ae3f"}};

struct Pair {
    Handshake initiator;
    Handshake responder;
};

Pair vector_pair(std::string_view initiator_prologue = kPrologue) {
    const auto key = [](std::string_view hex) { return KeyPair::from_secret(fixed<32>(hex)); };
    return {
        Handshake(Handshake::Role::initiator, *from_hex(initiator_prologue), key(kInitiatorStatic),
                  key(kInitiatorEphemeral)),
        Handshake(Handshake::Role::responder, *from_hex(kPrologue), key(kResponderStatic), key(kResponderEphemeral))};
}

TEST(Noise, public_vector_of_the_suite) {
    Pair pair = vector_pair();
    for (int i = 0; i < 3; ++i) {
        Handshake& from = i % 2 == 0 ? pair.initiator : pair.responder;
        Handshake& to = i % 2 == 0 ? pair.responder : pair.initiator;
        const Bytes payload = *from_hex(kMessages[i].payload);
        const auto message = from.write(payload);
        ASSERT_TRUE(message) << message.error().to_string();
        EXPECT_EQ(to_hex(*message), kMessages[i].ciphertext) << i;
        const auto read = to.read(*message);
        ASSERT_TRUE(read) << read.error().to_string();
        EXPECT_EQ(*read, payload);
    }
    EXPECT_EQ(to_hex(pair.initiator.handshake_hash()), kHandshakeHash);
    EXPECT_EQ(pair.responder.handshake_hash(), pair.initiator.handshake_hash());
    EXPECT_EQ(pair.responder.remote_static(), KeyPair::from_secret(fixed<32>(kInitiatorStatic)).public_key());
    EXPECT_EQ(pair.initiator.remote_static(), KeyPair::from_secret(fixed<32>(kResponderStatic)).public_key());

    const SessionKeys initiator = *pair.initiator.split();
    const SessionKeys responder = *pair.responder.split();
    CipherState seal_initiator(CipherState::Direction::seal, initiator.send);
    CipherState open_initiator(CipherState::Direction::open, initiator.receive);
    CipherState seal_responder(CipherState::Direction::seal, responder.send);
    CipherState open_responder(CipherState::Direction::open, responder.receive);
    for (int i = 3; i < 6; ++i) {
        const bool from_responder = i % 2 == 1;
        const Bytes payload = *from_hex(kMessages[i].payload);
        Bytes sealed;
        (from_responder ? seal_responder : seal_initiator).seal({}, payload, sealed);
        EXPECT_EQ(to_hex(sealed), kMessages[i].ciphertext) << i;
        const auto opened = (from_responder ? open_initiator : open_responder).open({}, sealed);
        ASSERT_TRUE(opened);
        EXPECT_TRUE(equal(*opened, payload));
    }
}

TEST(Noise, x25519_of_rfc_7748) {
    // RFC 7748, section 5.2, first vector.
    const auto shared = x25519(fixed<32>("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
                               fixed<32>("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"));
    ASSERT_TRUE(shared);
    EXPECT_EQ(to_hex(*shared), "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
}

TEST(Noise, refuses_points_of_small_order) {
    const Hash32 secret = fixed<32>(kInitiatorStatic);
    for (const std::string_view point : {"0000000000000000000000000000000000000000000000000000000000000000",
                                         "0100000000000000000000000000000000000000000000000000000000000000",
                                         "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"}) {
        const auto shared = x25519(secret, fixed<32>(point));
        ASSERT_FALSE(shared) << point;
        EXPECT_EQ(shared.error().name, "noise.weak_key");
    }
}

TEST(Noise, zero_ephemeral_ends_the_handshake) {
    Pair pair = vector_pair();
    const Bytes zero(32, 0);
    ASSERT_TRUE(pair.responder.read(zero));
    const auto answer = pair.responder.write({});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().name, "noise.weak_key");
    EXPECT_EQ(pair.responder.write({}).error().name, "noise.out_of_turn");
}

TEST(Noise, session_keys_are_given_once_and_wiped) {
    Pair pair = vector_pair();
    ASSERT_TRUE(pair.responder.read(*pair.initiator.write({})));
    ASSERT_TRUE(pair.initiator.read(*pair.responder.write({})));
    ASSERT_TRUE(pair.responder.read(*pair.initiator.write({})));
    alignas(SessionKeys) std::array<std::uint8_t, sizeof(SessionKeys)> storage{};
    auto* keys = new (storage.data()) SessionKeys(*pair.initiator.split());
    EXPECT_EQ(keys->send, pair.responder.split()->receive);
    keys->~SessionKeys();
    EXPECT_EQ(std::count(storage.begin(), storage.end(), 0), static_cast<std::ptrdiff_t>(storage.size()));
    // What they came from is gone, too.
    EXPECT_EQ(pair.initiator.split().error().name, "noise.unfinished");
}

TEST(Noise, another_prologue_does_not_authenticate) {
    Pair pair = vector_pair("4a6f686e2047616c75");
    const Bytes first = *pair.initiator.write({});
    ASSERT_TRUE(pair.responder.read(first));
    const auto read = pair.initiator.read(*pair.responder.write({}));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().name, "noise.forged");
    EXPECT_FALSE(pair.initiator.is_finished());
    EXPECT_EQ(pair.initiator.split().error().name, "noise.unfinished");
}

TEST(Noise, each_changed_bit_of_each_message_is_noticed) {
    for (int step = 1; step < 3; ++step) {
        const std::size_t size = kMessages[step].ciphertext.size() / 2;
        for (std::size_t at = 0; at < size; at += 7) {
            Pair pair = vector_pair();
            const Bytes first = *pair.initiator.write({});
            ASSERT_TRUE(pair.responder.read(first));
            Bytes second = *pair.responder.write(*from_hex(kMessages[1].payload));
            if (step == 1) {
                second[at] ^= 1;
                EXPECT_FALSE(pair.initiator.read(second)) << at;
                continue;
            }
            ASSERT_TRUE(pair.initiator.read(second));
            Bytes third = *pair.initiator.write(*from_hex(kMessages[2].payload));
            third[at] ^= 0x80;
            EXPECT_FALSE(pair.responder.read(third)) << at;
        }
    }
}

TEST(Noise, refuses_truncated_oversized_and_out_of_turn) {
    {
        Pair pair = vector_pair();
        EXPECT_EQ(pair.responder.write({}).error().name, "noise.out_of_turn");
        EXPECT_EQ(pair.initiator.read(Bytes(64)).error().name, "noise.out_of_turn");
    }
    for (const std::size_t size : {std::size_t{0}, std::size_t{31}}) {
        Pair pair = vector_pair();
        EXPECT_EQ(pair.responder.read(Bytes(size)).error().name, "noise.truncated");
        EXPECT_EQ(pair.responder.read(Bytes(32, 9)).error().name, "noise.out_of_turn");
    }
    {
        Pair pair = vector_pair();
        EXPECT_EQ(pair.responder.read(Bytes(kMaxNoiseMessage + 1)).error().name, "noise.oversized");
    }
    {
        Pair pair = vector_pair();
        (void)*pair.initiator.write({});
        EXPECT_EQ(pair.initiator.read(Bytes(95)).error().name, "noise.truncated");
    }
}

TEST(Cipher, rekey_follows_noise) {
    const Hash32 key = fixed<32>(kInitiatorStatic);
    CipherState seal(CipherState::Direction::seal, key);
    CipherState open(CipherState::Direction::open, key);
    const Bytes plain(100, 7);
    Bytes sealed;
    seal.rekey();
    seal.seal({}, plain, sealed);
    Bytes copy = sealed;
    EXPECT_FALSE(open.open({}, copy));
    CipherState fresh(CipherState::Direction::open, key);
    fresh.rekey();
    ASSERT_TRUE(fresh.open({}, sealed));
}

}  // namespace
}  // namespace quern::p2p::transport
