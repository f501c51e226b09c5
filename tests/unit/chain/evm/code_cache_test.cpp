#include "chain/evm/code_cache.h"

#include <gtest/gtest.h>

#include "crypto/hash.h"

namespace quern::chain::evm {
namespace {

using vm::evm::Code;

Bytes code_of(std::uint32_t number, std::size_t size) {
    Bytes code(size, 0x5b);
    for (std::size_t i = 0; i < 4; ++i) code[i] = static_cast<std::uint8_t>(number >> (8 * i));
    return code;
}

std::shared_ptr<const Code> put(CodeCache& cache, BytesView code) {
    return cache.put(crypto::keccak256(code), Code::analyse(code));
}

TEST(CodeCache, gives_the_same_object_to_all) {
    CodeCache cache;
    const Bytes code = code_of(1, 100);
    EXPECT_EQ(cache.find(crypto::keccak256(code)), nullptr);
    const auto first = put(cache, code);
    EXPECT_EQ(to_bytes(first->bytes()), code);
    EXPECT_EQ(put(cache, code), first);
    EXPECT_EQ(cache.find(crypto::keccak256(code)), first);
    EXPECT_EQ(cache.size(), 1U);
}

TEST(CodeCache, lets_go_of_what_was_not_asked_for) {
    constexpr std::size_t kMaxBytes = 16 * 100'000;
    CodeCache cache(kMaxBytes);
    const Bytes wanted = code_of(0, 1'000);
    const auto object = put(cache, wanted);
    std::size_t most = 0;
    for (std::uint32_t i = 1; i <= 2'000; ++i) {
        put(cache, code_of(i, 1'000));
        ASSERT_EQ(cache.find(crypto::keccak256(wanted)), object) << i;
        most = std::max(most, cache.size());
    }
    // 21 KB each: four in each of two generations of each of 16 parts.
    EXPECT_LE(most, 2 * 16 * 5U);
    EXPECT_EQ(cache.find(crypto::keccak256(code_of(1, 1'000))), nullptr);
}

}  // namespace
}  // namespace quern::chain::evm
