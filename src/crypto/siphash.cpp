#include "crypto/siphash.h"

#include <bit>

namespace quern::crypto {
namespace {

std::uint64_t little_endian(BytesView bytes) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) word |= std::uint64_t{bytes[i]} << (8 * i);
    return word;
}

struct State {
    std::uint64_t v0, v1, v2, v3;

    void round() {
        v0 += v1;
        v1 = std::rotl(v1, 13) ^ v0;
        v0 = std::rotl(v0, 32);
        v2 += v3;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 += v3;
        v3 = std::rotl(v3, 21) ^ v0;
        v2 += v1;
        v1 = std::rotl(v1, 17) ^ v2;
        v2 = std::rotl(v2, 32);
    }
    void take(std::uint64_t word) {
        v3 ^= word;
        round();
        round();
        v0 ^= word;
    }
};

}  // namespace

std::uint64_t siphash24(const FixedBytes<16>& key, BytesView message) {
    const std::uint64_t k0 = little_endian(key.view().first(8));
    const std::uint64_t k1 = little_endian(key.view().subspan(8));
    // The constants spell "somepseudorandomlygeneratedbytes".
    State state{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
    const std::uint64_t length = message.size();
    while (message.size() >= 8) {
        state.take(little_endian(message.first(8)));
        message = message.subspan(8);
    }
    state.take(little_endian(message) | length << 56);
    state.v2 ^= 0xff;
    for (int i = 0; i < 4; ++i) state.round();
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace quern::crypto
