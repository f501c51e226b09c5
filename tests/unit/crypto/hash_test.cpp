#include "crypto/hash.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/rng.h"
#include "crypto/aead.h"

namespace quern::crypto {
namespace {

TEST(Hash, matches_published_values) {
    EXPECT_EQ(to_hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(to_hex(sha256(as_bytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(to_hex(keccak256({})), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
    EXPECT_EQ(to_hex(keccak256(as_bytes("abc"))), "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
}

TEST(Hash, hmac_matches_rfc_4231) {
    EXPECT_EQ(to_hex(hmac_sha256(Bytes(20, 0x0b), as_bytes("Hi There"))),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    EXPECT_EQ(to_hex(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(to_hex(hmac_sha256(Bytes(131, 0xaa), as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hash, pieces_give_the_same_as_the_whole) {
    SeededRng rng(1);
    Bytes message(5000);
    rng.fill(message);
    const Hash32 whole = sha256(message);
    Sha256 hasher;
    for (int round = 0; round < 20; ++round) {
        BytesView rest = message;
        while (!rest.empty()) {
            const std::size_t size = std::min<std::size_t>(rest.size(), rng.below(700));
            hasher.update(rest.first(size));
            rest = rest.subspan(size);
        }
        EXPECT_EQ(hasher.finish(), whole);
    }
    EXPECT_EQ(sha256({BytesView(message).first(10), BytesView(), BytesView(message).subspan(10)}), whole);
}

TEST(Hash, hashers_nest_move_and_run_on_threads) {
    const Hash32 wanted = sha256(as_bytes("abc"));
    std::vector<Sha256> many(20);
    for (auto& hasher : many) hasher.update(as_bytes("a"));
    EXPECT_EQ(sha256(as_bytes("abc")), wanted);
    Sha256 moved = std::move(many[3]);
    many.clear();
    EXPECT_EQ(moved.update(as_bytes("bc")).finish(), wanted);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i)
                if (sha256(as_bytes("abc")) != wanted) ++wrong;
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
}

TEST(Aead, matches_rfc_8439) {
    Hash32 key;
    for (std::uint8_t i = 0; i < 32; ++i) key.data[i] = static_cast<std::uint8_t>(0x80 + i);
    const auto nonce = fixed_from_hex<12>("070000004041424344454647").value();
    const Bytes associated = from_hex("50515253c0c1c2c3c4c5c6c7").value();
    const auto text = as_bytes(
        "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would "
        "be it.");
    const Bytes sealed = aead_seal(key, nonce, associated, text);
    EXPECT_EQ(to_hex(BytesView(sealed).last(16)), "1ae10b594f09e26a7e902ecbd0600691");
    EXPECT_EQ(to_hex(BytesView(sealed).first(8)), "d31a8d34648e60db");
    EXPECT_EQ(*aead_open(key, nonce, associated, sealed), to_bytes(text));
}

TEST(Aead, any_change_is_a_forgery) {
    const Hash32 key;
    const AeadNonce nonce;
    const Bytes sealed = aead_seal(key, nonce, as_bytes("a"), as_bytes("secret"));
    for (std::size_t i = 0; i < sealed.size(); ++i) {
        Bytes changed = sealed;
        changed[i] ^= 1;
        EXPECT_EQ(aead_open(key, nonce, as_bytes("a"), changed).error().name, "aead.forged");
    }
    EXPECT_EQ(aead_open(key, nonce, as_bytes("b"), sealed).error().name, "aead.forged");
    EXPECT_EQ(aead_open(key, nonce, as_bytes("a"), Bytes(15)).error().name, "aead.too_short");
    EXPECT_TRUE(aead_open(key, nonce, {}, aead_seal(key, nonce, {}, {}))->empty());
}

}  // namespace
}  // namespace quern::crypto
