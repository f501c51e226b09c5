// Parts of the tries are written beside the chain: a commit does not wait for them, memory is bounded, and whatever was
// not written is repeated.
#include "node/chain/state_flusher.h"

#include <gtest/gtest.h>

#include <atomic>

#include "unit/node/chain_fixture.h"

namespace quern::node {
namespace {

using chain::state::DueParts;

// Writes that are not synced (those of the flusher) wait at a gate.
class GatedStore final : public chain::store::Store {
public:
    explicit GatedStore(chain::store::Store& store) : store_(store) {}
    Expected<std::optional<Bytes>> get(BytesView key) const override { return store_.get(key); }
    Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override {
        return store_.for_each(prefix, start, visit);
    }
    Status write(const chain::store::WriteBatch& batch, bool sync) override {
        if (!sync) {
            MutexLock lock(mutex_);
            while (is_closed_) changed_.wait(lock);
            ++passed_;
        }
        return store_.write(batch, sync);
    }
    std::unique_ptr<chain::store::Reader> snapshot() const override { return store_.snapshot(); }

    void set_closed(bool closed) {
        const MutexLock lock(mutex_);
        is_closed_ = closed;
        changed_.notify_all();
    }
    std::size_t passed() const {
        const MutexLock lock(mutex_);
        return passed_;
    }

private:
    chain::store::Store& store_;
    mutable Mutex mutex_;
    CondVar changed_;
    bool is_closed_ QUERN_GUARDED_BY(mutex_) = false;
    std::size_t passed_ QUERN_GUARDED_BY(mutex_) = 0;
};

DueParts due_with(std::uint8_t key, std::size_t bytes) {
    DueParts due;
    due.parts = {key};
    due.batch.put(Bytes{0x32, key}, Bytes(bytes, key));
    return due;
}

TEST(StateFlusher, writes_in_order_and_tells_what_it_wrote) {
    chain::store::MemoryStore store;
    StateFlusher flusher(store);
    for (std::uint8_t i = 0; i < 50; ++i) ASSERT_TRUE(flusher.add(due_with(i % 10, 1U + i)));
    ASSERT_TRUE(flusher.finish());
    EXPECT_EQ(flusher.take_written().size(), 50U);
    EXPECT_TRUE(flusher.take_written().empty());
    for (std::uint8_t i = 0; i < 10; ++i) EXPECT_EQ(store.get(Bytes{0x32, i}).value()->size(), 41U + i);
    EXPECT_TRUE(flusher.add({}));
}

TEST(StateFlusher, whoever_adds_waits_only_when_too_much_waits_already) {
    chain::store::MemoryStore memory;
    GatedStore store(memory);
    store.set_closed(true);
    StateFlusher flusher(store, 1000);
    std::atomic<int> added = 0;
    std::thread adder([&] {
        for (std::uint8_t i = 0; i < 6; ++i) {
            ASSERT_TRUE(flusher.add(due_with(i, 400)));
            ++added;
        }
    });
    while (added < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(added, 2);  // 800 bytes wait; a third would be too many
    EXPECT_TRUE(flusher.take_written().empty());
    store.set_closed(false);
    adder.join();
    ASSERT_TRUE(flusher.finish());
    EXPECT_EQ(memory.size(), 6U);
}

TEST(StateFlusher, one_that_is_larger_than_the_limit_is_written_all_the_same) {
    chain::store::MemoryStore store;
    StateFlusher flusher(store, 100);
    ASSERT_TRUE(flusher.add(due_with(1, 400)));
    ASSERT_TRUE(flusher.add(due_with(2, 400)));
    ASSERT_TRUE(flusher.finish());
    EXPECT_EQ(store.size(), 2U);
}

TEST(StateFlusher, without_a_limit_whoever_adds_writes) {
    chain::store::MemoryStore store;
    StateFlusher flusher(store, 0);
    ASSERT_TRUE(flusher.add(due_with(1, 10)));
    EXPECT_EQ(store.size(), 1U);
    EXPECT_EQ(flusher.take_written().size(), 1U);
}

TEST(StateFlusher, the_end_waits_for_what_was_added) {
    chain::store::MemoryStore store;
    {
        StateFlusher flusher(store);
        for (std::uint8_t i = 0; i < 20; ++i) ASSERT_TRUE(flusher.add(due_with(i, 10)));
    }
    EXPECT_EQ(store.size(), 20U);
}

TEST(StateFlusher, after_a_failed_write_nothing_is_written_and_the_error_is_told) {
    for (const std::size_t limit : {kMaxUnflushedBytes, std::size_t{0}}) {
        chain::store::MemoryStore memory;
        chain::store::FaultStore store(memory);
        store.fail_writes_after(1);
        StateFlusher flusher(store, limit);
        EXPECT_TRUE(flusher.add(due_with(1, 10)));
        (void)flusher.finish();
        (void)flusher.add(due_with(2, 10));
        const Status end = flusher.finish();
        ASSERT_FALSE(end);
        EXPECT_EQ(end.error().name, "store.io");
        store.fail_writes_after(100);
        EXPECT_EQ(flusher.add(due_with(3, 10)).error().name, "store.io");
        EXPECT_FALSE(store.get(Bytes{0x32, 2}).value());
        EXPECT_FALSE(store.get(Bytes{0x32, 3}).value());
    }
}

class FlushedChain : public ChainFixture {};

TEST_F(FlushedChain, commits_do_not_wait_for_a_flush_that_hangs_and_a_start_repeats_it) {
    stop();
    GatedStore gated(*store_);
    gated.set_closed(true);
    auto pool = chain::mempool::Pool(test_genesis().params);
    const auto setup = open_chain_database(gated, genesis_text_).value();
    auto opened = Chain::open({gated, setup, pool, threads_, clock_, test_address(kValidator)});
    ASSERT_TRUE(opened);
    setup_ = setup;
    chain_ = std::move(*opened);
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(make_block());
    EXPECT_EQ(gated.passed(), 0U);
    const auto tip = chain_->tip();
    // What a killed process leaves: the blocks alone.
    chain::store::MemoryStore left;
    chain::store::WriteBatch rows;
    ASSERT_TRUE(durable_.for_each({}, {}, [&](BytesView key, BytesView value) {
        rows.put(to_bytes(key), value);
        return true;
    }));
    ASSERT_TRUE(left.write(rows, true));
    gated.set_closed(false);
    chain_.reset();  // waits
    EXPECT_GE(gated.passed(), 10U);
    for (chain::store::Store* store :
         {static_cast<chain::store::Store*>(&left), static_cast<chain::store::Store*>(&gated)}) {
        const auto again = Chain::open({*store, setup, pool, threads_, clock_, test_address(kValidator)});
        ASSERT_TRUE(again) << again.error().to_string();
        EXPECT_EQ((*again)->tip().hash, tip.hash);
    }
    start();
}

}  // namespace
}  // namespace quern::node
