// The pool's limit of bytes is one of memory: what it counts is what the allocator gave out.
#ifdef QUERN_JEMALLOC
#include <jemalloc/jemalloc.h>
#endif

#include "chain/mempool/admission.h"
#include "pool_fixture.h"

namespace quern::chain::mempool {
namespace {

#ifdef QUERN_JEMALLOC
// Bytes that this thread holds, each piece as large as the allocator made it.
std::uint64_t held() {
    std::uint64_t given = 0;
    std::uint64_t taken_back = 0;
    std::size_t size = sizeof given;
    EXPECT_EQ(mallctl("thread.allocated", &given, &size, nullptr, 0), 0);
    EXPECT_EQ(mallctl("thread.deallocated", &taken_back, &size, nullptr, 0), 0);
    return given - taken_back;
}
#endif

class FootprintTest : public PoolFixture {
protected:
#ifdef QUERN_JEMALLOC
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
        const std::size_t before = held();
        // What they held themselves moves into the pool.
        std::size_t moved = 0;
        for (auto& transaction : transactions) {
            moved += malloc_usable_size(transaction.encoded.data());
            if (!transaction.tx.data.empty()) moved += malloc_usable_size(transaction.tx.data.data());
            EXPECT_TRUE(pool.add(std::move(transaction), state_, 0).pooled);
        }
        const std::size_t used = held() - before + moved;
        EXPECT_EQ(pool.status().executable, kCount);
        return static_cast<double>(used) / static_cast<double>(pool.status().bytes);
    }
#endif
};

TEST_F(FootprintTest, is_what_the_allocator_gave_out_and_never_less) {
#ifndef QUERN_JEMALLOC
    GTEST_SKIP() << "a sanitizer's allocator";
#else
    for (const std::size_t data : {std::size_t{0}, std::size_t{1'000}, std::size_t{10'000}})
        for (const std::uint64_t per_sender : {std::uint64_t{1}, std::uint64_t{100}}) {
            const double ratio = measure(data, per_sender);
            EXPECT_LE(ratio, 1.0) << data << " bytes, " << per_sender << " of a sender";
            EXPECT_GE(ratio, 0.45) << data << " bytes, " << per_sender << " of a sender";
        }
#endif
}

TEST_F(FootprintTest, two_hundred_thousand_transfers_fit_into_the_limit) {
    const auto bytes = footprint(as_of(1, transfer(0, 1)));
    EXPECT_LE(bytes * PoolLimits().max_transactions, PoolLimits().max_bytes);
}

}  // namespace
}  // namespace quern::chain::mempool
