#include "crypto/blake2b.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "base/bytes.h"
#include "base/rng.h"

namespace quern::crypto {
namespace {

using State = std::array<std::uint64_t, 8>;
constexpr State kInitial = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                            0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

// The hash with 64 bytes of output and no key, by F (RFC 7693, section 3.3).
Bytes blake2b512(BytesView message) {
    State h = kInitial;
    h[0] ^= 0x01010040;
    std::uint64_t at = 0;
    for (;;) {
        const std::uint64_t size = std::min<std::uint64_t>(message.size() - at, 128);
        std::array<std::uint64_t, 16> m{};
        for (std::size_t i = 0; i < size; ++i) m[i / 8] |= std::uint64_t{message[at + i]} << (8 * (i % 8));
        at += size;
        blake2b_compress(12, h, m, {at, 0}, at == message.size());
        if (at == message.size()) break;
    }
    Bytes digest;
    for (const std::uint64_t word : h)
        for (unsigned shift = 0; shift < 64; shift += 8) digest.push_back(static_cast<std::uint8_t>(word >> shift));
    return digest;
}

TEST(Blake2b, twelve_rounds_make_the_hash_of_openssl) {
    SeededRng rng(152);
    for (std::size_t size = 0; size < 700; size += 1 + rng.below(40)) {
        Bytes message(size);
        rng.fill(message);
        Bytes wanted(64);
        ASSERT_EQ(EVP_Digest(message.data(), size, wanted.data(), nullptr, EVP_blake2b512(), nullptr), 1);
        EXPECT_EQ(to_hex(blake2b512(message)), to_hex(wanted)) << size;
    }
}

TEST(Blake2b, rounds_counters_and_the_flag_count) {
    const std::array<std::uint64_t, 16> m{0x636261};
    const auto f = [&](std::uint32_t rounds, std::array<std::uint64_t, 2> t, bool is_final) {
        State h = kInitial;
        blake2b_compress(rounds, h, m, t, is_final);
        return h;
    };
    const State base = f(12, {3, 0}, true);
    EXPECT_NE(base, f(11, {3, 0}, true));
    EXPECT_NE(base, f(22, {3, 0}, true));  // the permutations repeat after ten rounds, what is mixed does not
    EXPECT_NE(base, f(12, {4, 0}, true));
    EXPECT_NE(base, f(12, {3, 1}, true));
    EXPECT_NE(base, f(12, {3, 0}, false));
}

}  // namespace
}  // namespace quern::crypto
