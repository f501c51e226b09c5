// Input words for the arithmetic's tests: a small fixed generator that mixes random bits with the patterns where
// implementations differ (NaN payloads, infinities, subnormals, signed zeros, rounding ties, near-equal exponents).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace quern::vm::tensor::arith::test {

inline constexpr std::uint32_t kSpecialWords[] = {
    0x00000000U, 0x80000000U, 0x00000001U, 0x80000001U, 0x007fffffU, 0x807fffffU, 0x00800000U, 0x80800000U, 0x00800001U,
    0x3f800000U, 0xbf800000U, 0x3f7fffffU, 0x3f800001U, 0x40000000U, 0x3f000000U, 0xbf000000U, 0x33800000U, 0x34000000U,
    0x4b000000U, 0x4b7fffffU, 0x4b800000U, 0x4effffffU, 0x4f000000U, 0xcf000000U, 0xcf000001U, 0x7f7fffffU, 0xff7fffffU,
    0x7f800000U, 0xff800000U, 0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xff812345U, 0x7fffffffU, 0xffffffffU, 0x42b17217U,
    0x42b17218U, 0xc2aeac50U, 0xc2cff1b5U, 0x2b800000U, 0x2b7fffffU, 0xab800000U, 0xab7fffffU, 0x7effffffU, 0x3f200000U,
    0x3f1fffffU, 0x3f6d8000U, 0x3f6d7fffU, 0x407c0000U, 0x00000002U, 0x00000020U, 0x0000001fU, 0x7ffffffeU, 0xfffffffeU,
};

class Words {
public:
    explicit Words(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x1234567ULL) {}

    std::uint32_t bits() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<std::uint32_t>((state_ * 0x2545F4914F6CDD1DULL) >> 32);
    }
    std::uint32_t below(std::uint32_t n) { return bits() % n; }
    // In [-scale, scale).
    float real(float scale) { return static_cast<float>(static_cast<std::int32_t>(bits())) * 0x1p-31F * scale; }
    std::uint32_t real_word(float scale) { return std::bit_cast<std::uint32_t>(real(scale)); }

    // Any kind of word.
    std::uint32_t mixed() {
        switch (below(8)) {
            case 0:
                return kSpecialWords[below(std::size(kSpecialWords))];
            case 1:
                return bits();
            case 2:
                return bits() & 0x807fffffU;  // subnormals
            case 3: {                         // around 1
                const std::uint32_t sign = bits() & 0x80000000U;
                return sign | (0x3f000000U + (bits() & 0x01ffffffU));
            }
            case 4: {  // few bits: ties
                const std::uint32_t power = bits() & 0xff800000U;
                return power | (1U << below(23));
            }
            case 5:
                return real_word(100.0F);
            case 6:
                return below(2) == 0 ? below(70) : 0U - below(70);  // small integers
            default:
                return real_word(1.0F);
        }
    }
    // Numbers as they occur in training, some zero or tiny.
    std::uint32_t usual() {
        const std::uint32_t kind = below(50);
        if (kind == 0) return 0;
        if (kind == 1) return real_word(0x1p-40F);
        return real_word(2.0F);
    }

    std::vector<std::uint32_t> mixed(std::size_t n) {
        std::vector<std::uint32_t> out(n);
        for (std::uint32_t& word : out) word = mixed();
        return out;
    }
    std::vector<std::uint32_t> usual(std::size_t n) {
        std::vector<std::uint32_t> out(n);
        for (std::uint32_t& word : out) word = usual();
        return out;
    }

private:
    std::uint64_t state_;
};

}  // namespace quern::vm::tensor::arith::test
