#include "crypto/keccak.h"

#include <array>
#include <cstring>

namespace quern::crypto {
namespace {

#if defined(__clang__)
#define QUERN_UNROLL _Pragma("unroll")
#else
#define QUERN_UNROLL _Pragma("GCC unroll 25")
#endif

constexpr std::size_t kWords = 25;
constexpr std::size_t kRateWords = 17;  // 136 bytes: 256 bits of output
constexpr std::size_t kRate = 8 * kRateWords;

constexpr std::array<std::uint64_t, 24> kRoundConstants = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
    0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088,
    0x0000000080008009, 0x000000008000000a, 0x000000008000808b, 0x800000000000008b, 0x8000000000008089,
    0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};
// By word x + 5 y (FIPS 202, 3.2.2).
constexpr std::array<int, kWords> kRotations = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                                25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};

// Keccak-f[1600] (FIPS 202, 3.2) on one state for each lane of V.
template <class V>
[[gnu::always_inline]] inline void permute(V* state) {
    for (const std::uint64_t constant : kRoundConstants) {
        V column[5];
        QUERN_UNROLL
        for (std::size_t x = 0; x < 5; ++x)
            column[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];
        V turned[kWords];
        QUERN_UNROLL
        for (std::size_t i = 0; i < kWords; ++i) {
            const std::size_t x = i % 5;
            const std::size_t y = i / 5;
            const V& next = column[(x + 1) % 5];
            const V word = state[i] ^ column[(x + 4) % 5] ^ (next << 1 | next >> 63);
            turned[y + 5 * ((2 * x + 3 * y) % 5)] =
                i == 0 ? word : word << kRotations[i] | word >> ((64 - kRotations[i]) & 63);
        }
        QUERN_UNROLL
        for (std::size_t i = 0; i < kWords; ++i) {
            const std::size_t row = i - i % 5;
            state[i] = turned[i] ^ (~turned[row + (i + 1) % 5] & turned[row + (i + 2) % 5]);
        }
        state[0] ^= constant;
    }
}

typedef std::uint64_t Four __attribute__((vector_size(32)));
typedef std::uint64_t Eight __attribute__((vector_size(64)));

using Permutation = void (*)(std::uint64_t* words);  // words[i * lanes + lane]

void permute_one(std::uint64_t* words) { permute(words); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) void permute_four(std::uint64_t* words) { permute(reinterpret_cast<Four*>(words)); }
__attribute__((target("avx512f"))) void permute_eight(std::uint64_t* words) {
    permute(reinterpret_cast<Eight*>(words));
}
bool has_four() { return __builtin_cpu_supports("avx2") != 0; }
bool has_eight() { return __builtin_cpu_supports("avx512f") != 0; }
#else
void permute_four(std::uint64_t*) {}
void permute_eight(std::uint64_t*) {}
bool has_four() { return false; }
bool has_eight() { return false; }
#endif

// Each lane works on a message of its own and takes the next one when it is done, so that lengths may differ.
template <std::size_t kLanes>
void hash_all(Permutation permutation, std::span<const BytesView> messages, std::span<Hash32> hashes) {
    constexpr std::size_t kIdle = ~std::size_t{0};
    struct Lane {
        std::size_t message = kIdle;
        std::size_t absorbed = 0;  // bytes
        bool last = false;         // the padded block was absorbed
    };
    alignas(64) std::uint64_t words[kWords * kLanes] = {};
    std::array<Lane, kLanes> lanes;
    std::size_t next = 0;
    std::size_t busy = 0;
    const auto start = [&](std::size_t lane) {
        for (std::size_t i = 0; i < kWords; ++i) words[i * kLanes + lane] = 0;
        lanes[lane] = {next < messages.size() ? next++ : kIdle, 0, false};
        if (lanes[lane].message != kIdle) ++busy;
    };
    const auto absorb = [&](std::size_t number) {
        Lane& lane = lanes[number];
        std::array<std::uint8_t, kRate> block{};
        const BytesView rest = messages[lane.message].subspan(lane.absorbed);
        const std::uint8_t* source = rest.data();
        if (rest.size() < kRate) {
            if (!rest.empty()) std::memcpy(block.data(), rest.data(), rest.size());
            block[rest.size()] = 0x01;  // the original padding, not SHA3's
            block[kRate - 1] |= 0x80;
            source = block.data();
            lane.last = true;
        }
        lane.absorbed += kRate;
        for (std::size_t i = 0; i < kRateWords; ++i) {
            std::uint64_t word = 0;
            std::memcpy(&word, source + 8 * i, sizeof(word));  // little endian, as all machines that this runs on
            words[i * kLanes + number] ^= word;
        }
    };
    for (std::size_t lane = 0; lane < kLanes; ++lane) start(lane);
    while (busy > 0) {
        for (std::size_t lane = 0; lane < kLanes; ++lane)
            if (lanes[lane].message != kIdle) absorb(lane);
        permutation(words);
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            if (lanes[lane].message == kIdle || !lanes[lane].last) continue;
            for (std::size_t i = 0; i < 4; ++i)
                std::memcpy(hashes[lanes[lane].message].data.data() + 8 * i, &words[i * kLanes + lane], 8);
            --busy;
            start(lane);
        }
    }
}

}  // namespace

bool keccak256_many_in_lanes(std::size_t lanes, std::span<const BytesView> messages, std::span<Hash32> hashes) {
    if (lanes == 1)
        hash_all<1>(permute_one, messages, hashes);
    else if (lanes == 4 && has_four())
        hash_all<4>(permute_four, messages, hashes);
    else if (lanes == 8 && has_eight())
        hash_all<8>(permute_eight, messages, hashes);
    else
        return false;
    return true;
}

void keccak256_many(std::span<const BytesView> messages, std::span<Hash32> hashes) {
    static const std::size_t lanes = has_eight() ? 8 : has_four() ? 4 : 1;
    // A vector that is nearly empty costs as much as a full one.
    (void)keccak256_many_in_lanes(messages.size() < 2 ? 1 : lanes, messages, hashes);
}

}  // namespace quern::crypto
