// States on their way into the store while the training writes over them.
#include "compute/worker/publisher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "compute/program/state_file.h"
#include "crypto/content_id.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::worker {
namespace {

namespace tensor = vm::tensor;

// What the store has taken, and where it waits with the next piece.
struct Store {
    std::atomic<bool> opened{false};
    std::atomic<std::size_t> taken{0};
    bool refuses = false;
    Hash32 id;
    Bytes content;
};

class StoreNode final : public NodeView {
public:
    explicit StoreNode(Store& store) : store_(store) {}
    Expected<Head> head() override { return fail("node.down"); }
    Expected<Uint256> gas_price() override { return fail("node.down"); }
    Expected<std::uint64_t> pending_nonce(const chain::types::Address&) override { return fail("node.down"); }
    Expected<std::uint64_t> estimate_gas(const chain::types::Address&, const chain::types::Address&,
                                         BytesView) override {
        return fail("node.down");
    }
    Expected<Hash32> send_raw(BytesView) override { return fail("node.down"); }
    Expected<std::optional<TransactionOutcome>> outcome(const Hash32&) override { return fail("node.down"); }
    Expected<bool> knows(const Hash32&) override { return fail("node.down"); }
    Expected<std::vector<chain::types::TaskClaim>> live_tasks() override { return fail("node.down"); }
    Expected<chain::types::Dispute> dispute(std::uint64_t) override { return fail("node.down"); }
    Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role, const chain::types::Address&) override {
        return fail("node.down");
    }
    Expected<Bytes> get_content(const Hash32&, std::uint64_t) override { return fail("node.down"); }
    Expected<Hash32> put_content(BytesView) override { return fail("node.down"); }
    // The first KiB at once, the rest when it is opened.
    Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) override {
        if (store_.refuses) return fail("content.upload_refused");
        store_.id = id;
        store_.content.resize(size);
        std::size_t at = 0;
        while (at < size) {
            const std::size_t piece = std::min<std::size_t>(1024, size - at);
            QUERN_TRY(const std::size_t more, source(std::span(store_.content).subspan(at, piece)));
            at += more;
            store_.taken = at;
            while (!store_.opened) {
                if (stopped && stopped->requested()) break;
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        return {};
    }

    const Cancellation* stopped = nullptr;

private:
    Store& store_;
};

struct Publishing : testing::Test {
    tensor::Program program = tensor::test::deep_program(2, 128);  // a slot of 64 KiB and the loss
    tensor::State state = tensor::test::random_state(program, 1, tensor::test::Fill::moderate);
    Bytes file = *program::write_state(program, state);
    Store store;
    std::atomic<bool> stop{false};
    Cancellation stopping{[this] { return stop.load(); }};

    std::unique_ptr<Publisher> begin() {
        auto node = std::make_unique<StoreNode>(store);
        node->stopped = &stopping;
        auto publisher = std::make_unique<Publisher>(std::move(node), stopping);
        EXPECT_TRUE(publisher->begin(program, state));
        return publisher;
    }
    void wait_for_the_store() const {
        while (store.taken == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
};

TEST_F(Publishing, a_slot_is_written_over_only_once_it_was_sent) {
    const auto publisher = begin();
    wait_for_the_store();
    publisher->before_writing(1);  // small: copied
    state[1].words[0] ^= 1;
    std::atomic<bool> written{false};
    std::thread step([&] {
        publisher->before_writing(0);
        written = true;
        for (std::uint32_t& word : state[0].words) word = 7;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(written);
    EXPECT_FALSE(publisher->is_ready());
    store.opened = true;
    step.join();
    const auto id = publisher->finish();
    ASSERT_TRUE(id) << id.error().to_string();
    EXPECT_FALSE(publisher->runs());
    EXPECT_EQ(*id, crypto::content_id_of(file));
    EXPECT_EQ(store.id, *id);
    EXPECT_EQ(store.content, file);
    publisher->before_writing(0);  // nobody reads any more
    ASSERT_TRUE(publisher->begin(program, state));
    ASSERT_TRUE(publisher->finish());
    EXPECT_EQ(store.content, *program::write_state(program, state));
}

TEST_F(Publishing, a_refusal_keeps_no_step_waiting) {
    store.refuses = true;
    const auto publisher = begin();
    publisher->before_writing(0);
    EXPECT_EQ(publisher->finish().error().name, "content.upload_refused");
}

TEST_F(Publishing, ends_when_the_worker_stops_or_nobody_wants_it_any_more) {
    auto publisher = begin();
    wait_for_the_store();
    stop = true;
    publisher->before_writing(0);
    EXPECT_EQ(publisher->finish().error().name, "worker.stopped");
    EXPECT_LT(store.taken, file.size());

    Store second;
    const Cancellation never;
    second.opened = true;
    Publisher dropped(std::make_unique<StoreNode>(second), never);
    ASSERT_TRUE(dropped.begin(program, state));  // and dropped while it runs
}

}  // namespace
}  // namespace quern::compute::worker
