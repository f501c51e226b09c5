// Every write of a run of blocks and of parts of the tries fails once: before it reaches the log, or after. What the
// store holds then, after any of the batches that were not synced, is the state of some block, none that was synced is
// lost, and the chain goes on from it.
#include <gtest/gtest.h>

#include "base/big_endian.h"
#include "chain/state/flat_state.h"
#include "chain/state/past_state.h"
#include "chain/store/fault_kv.h"
#include "unit/chain/state/state_content.h"

namespace quern::chain::state {
namespace {

constexpr std::size_t kBlocks = 24;
constexpr std::uint64_t kPeople = 60;
constexpr StateTries::Limits kFewBehind{6, 40, false};  // so that each block has parts to write

struct Blocks {
    store::MemoryStore disk;
    store::FaultStore store{disk};
    std::vector<Content> history{Content{}};
    std::uint64_t synced = 0;  // newest block that was reported as durable

    // Until all blocks are there, or a write fails.
    void go_on(StateTries& tries, std::size_t blocks) {
        while (history.size() <= blocks) {
            const std::uint64_t number = history.size();
            SeededRng rng(1000 + number);
            const FlatState flat(store);
            Overlay overlay(flat);
            Content content = history.back();
            change(rng, overlay, content, kPeople);
            auto made = tries.compute(overlay, *tries.head(), store).value();
            ASSERT_EQ(made.roots, roots_of(content));
            tries.commit(made.version, number, made.batch);
            made.batch.put(store::table_key(store::Table::head), be64(number).view());
            const bool sync = number % 3 != 0;
            if (!store.write(made.batch, sync)) return;
            history.push_back(std::move(content));
            if (sync) synced = number;
            auto due = tries.take_due_parts();
            if (!write_parts(store, due, false)) return;
            tries.parts_stored(due.parts);
        }
    }
    std::unique_ptr<StateTries> open() {
        const auto head = store.get(store::table_key(store::Table::head)).value();
        const std::uint64_t number = head ? Uint256::from_be(*head).low_u64() : 0;
        EXPECT_GE(number, synced);
        // A block whose write failed may be there all the same.
        while (history.size() <= number) {
            SeededRng rng(1000 + history.size());
            const store::MemoryStore nothing;
            const FlatState flat(nothing);
            Overlay unused(flat);
            Content content = history.back();
            change(rng, unused, content, kPeople);
            history.push_back(std::move(content));
        }
        history.resize(number + 1);
        auto opened = StateTries::open(store, number, roots_of(history.back()), nullptr, kFewBehind);
        EXPECT_TRUE(opened) << opened.error().to_string();
        return opened ? std::move(*opened) : nullptr;
    }
};

TEST(FailedWrites, each_of_them_leaves_the_state_of_a_block_and_loses_none_that_was_synced) {
    std::size_t writes = 0;
    {
        Blocks whole;
        whole.go_on(*whole.open(), kBlocks);
        writes = whole.store.writes();
        ASSERT_GT(writes, kBlocks * 3 / 2);
    }
    SeededRng chance(4);
    for (const bool is_logged : {false, true}) {
        for (std::size_t failing = 0; failing < writes; ++failing) {
            SCOPED_TRACE(std::to_string(failing) + (is_logged ? " logged" : ""));
            Blocks run;
            auto tries = run.open();
            run.store.fail_writes_after(failing, is_logged);
            run.go_on(*tries, kBlocks);
            tries.reset();
            // All that was logged is there, or as much as had reached the disk.
            const std::size_t unsynced = run.store.unsynced_batches();
            ASSERT_TRUE(run.store.crash(chance.below(2) == 0 ? unsynced : chance.below(unsynced + 1)));
            tries = run.open();
            ASSERT_NE(tries, nullptr);
            const std::uint64_t newest = run.history.size() - 1;
            if (newest > 2) {
                const Content& older = run.history[newest - 2];
                const PastState past(run.store, newest, newest - 2);
                for (const auto& [who, account] : older.accounts) {
                    const auto proof = past.prove(roots_of(older).state_root, who, {});
                    ASSERT_TRUE(proof) << proof.error().to_string();
                    ASSERT_EQ(proof->account.balance, account.balance);
                }
            }
            run.go_on(*tries, kBlocks);
            ASSERT_EQ(run.history.size(), kBlocks + 1);
        }
    }
}

}  // namespace
}  // namespace quern::chain::state
