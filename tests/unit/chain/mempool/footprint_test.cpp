// The pool's limit of bytes is one of memory: what it counts is what the allocator gave out.
#include <malloc.h>

#include "chain/mempool/admission.h"
#include "pool_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUERN_OTHER_ALLOCATOR
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QUERN_OTHER_ALLOCATOR
#endif
#endif

namespace quern::chain::mempool {
namespace {

class FootprintTest : public PoolFixture {
protected:
    // Allocated bytes for each byte that the pool counts.
    double measure(std::size_t data_bytes, std::uint64_t per_sender) {
        constexpr std::uint32_t kCount = 3'000;
        std::vector<types::RecoveredTransaction> transactions;
        for (std::uint32_t i = 0; i < kCount; ++i) {
            const auto sender = static_cast<std::uint32_t>(i / per_sender);
            fund_number(sender, Uint256(1'000'000) * params::kGrainsPerQrn);
            auto tx = transfer(i % per_sender, 1 + i % 7);
            tx.data = Bytes(data_bytes, 1);
            tx.gas_limit = 21'000 + 100 * data_bytes;
            transactions.push_back(as_of(sender, tx));
        }
        Pool pool(params_);
        const std::size_t before = ::mallinfo2().uordblks;
        // What they held themselves moves into the pool.
        std::size_t moved = 0;
        for (auto& transaction : transactions) {
            moved += ::malloc_usable_size(transaction.encoded.data()) + 8;
            if (!transaction.tx.data.empty()) moved += ::malloc_usable_size(transaction.tx.data.data()) + 8;
            EXPECT_TRUE(pool.add(std::move(transaction), state_, 0).pooled);
        }
        const std::size_t used = ::mallinfo2().uordblks - before + moved;
        EXPECT_EQ(pool.status().executable, kCount);
        return static_cast<double>(used) / static_cast<double>(pool.status().bytes);
    }
};

TEST_F(FootprintTest, is_what_the_allocator_gave_out_and_never_less) {
#ifdef QUERN_OTHER_ALLOCATOR
    GTEST_SKIP() << "the sanitizer's allocator";
#endif
    for (const std::size_t data : {std::size_t{0}, std::size_t{1'000}, std::size_t{10'000}})
        for (const std::uint64_t per_sender : {std::uint64_t{1}, std::uint64_t{100}}) {
            const double ratio = measure(data, per_sender);
            EXPECT_LE(ratio, 1.0) << data << " bytes, " << per_sender << " of a sender";
            EXPECT_GE(ratio, 0.45) << data << " bytes, " << per_sender << " of a sender";
        }
}

TEST_F(FootprintTest, two_hundred_thousand_transfers_fit_into_the_limit) {
    const auto bytes = footprint(as_of(1, transfer(0, 1)));
    EXPECT_LE(bytes * PoolLimits().max_transactions, PoolLimits().max_bytes);
}

}  // namespace
}  // namespace quern::chain::mempool
