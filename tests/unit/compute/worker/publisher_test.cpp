// States on their way into the store while the training writes over them.
#include "compute/worker/publisher.h"

#include <gtest/gtest.h>

#include "compute/core/state_content.h"
#include "compute/worker/bell.h"
#include "compute/worker/task_inputs.h"
#include "content_node.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::worker {
namespace {

namespace tensor = vm::tensor;

// A store that takes 1 KiB at a time, and from the second on only once it is opened.
struct Store {
    std::atomic<bool> opened{false};
    std::atomic<int> attempts{0};
    std::atomic<int> failures{0};  // attempts that fail after the first piece, before others are taken
    std::atomic<std::size_t> taken{0};
    std::map<Hash32, Bytes> contents;  // whole ones
    std::vector<Hash32> order;
};

class StoreNode final : public test::ContentNode {
public:
    explicit StoreNode(Store& store) : ContentNode(contents_), store_(store) {}
    Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) override {
        if (store_.contents.contains(id)) return {};
        const bool fails = ++store_.attempts <= store_.failures;
        Bytes content(size, 0);
        store_.taken = 0;
        for (std::size_t at = 0; at < size;) {
            const std::size_t piece = std::min<std::size_t>(1024, size - at);
            QUERN_TRY(const std::size_t more, source(std::span(content).subspan(at, piece)));
            store_.taken = at += more;
            if (at == more) wait();
            if (fails) return busy("http.closed");
        }
        if (crypto::content_id_of(content) != id) return fail("content.id_mismatch");
        store_.contents[id] = std::move(content);
        store_.order.push_back(id);
        return {};
    }

private:
    void wait() const {
        while (!store_.opened) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    test::Contents contents_;
    Store& store_;
};

class Publishing : public testing::Test {
protected:
    std::unique_ptr<Publisher> begin(ThreadPool* pool = nullptr) {
        auto publisher =
            std::make_unique<Publisher>(std::make_unique<StoreNode>(store), pool, stopping, [this] { news.ring(); });
        EXPECT_TRUE(publisher->begin(program, state, tensor::slot_roots(state)));
        while (store.taken == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return publisher;
    }
    void write_over(Publisher& publisher) {
        for (std::size_t slot = 0; slot < state.size(); ++slot) {
            publisher.before_writing(slot);
            for (std::uint32_t& word : state[slot].words) word ^= 7;
        }
    }
    // The state as it was, in the store, under its root.
    void expect_stored(Publisher& publisher, const tensor::State& sent) {
        const std::atomic<bool> never{false};
        EXPECT_TRUE(news.wait(60'000, never));
        EXPECT_TRUE(publisher.is_stored());
        const auto stored = publisher.take();
        EXPECT_FALSE(publisher.runs());
        EXPECT_FALSE(publisher.take());
        ASSERT_TRUE(stored);
        const std::vector<Hash32> roots = tensor::slot_roots(sent);
        EXPECT_EQ(stored->slots, std::vector<Hash32>{roots[0]});
        EXPECT_EQ(store.order.back(), stored->content) << "the last";
        test::Contents contents;
        contents.files.insert(store.contents.begin(), store.contents.end());
        test::ContentNode node(contents);
        InputStore inputs{InputLimits{}};
        const auto read = inputs.checkpoint(node, program, {stored->content, tensor::state_root(roots)});
        ASSERT_TRUE(read) << read.error().to_string();
        EXPECT_EQ(*read, sent);
    }

    tensor::Program program = tensor::test::deep_program(1, 300);  // a slot of 400 KiB and the loss
    tensor::State state = tensor::test::random_state(program, 1, tensor::test::Fill::moderate);
    Store store;
    Bell news;
    std::atomic<bool> stop{false};
    Cancellation stopping{[this] { return stop.load(); }};
};

TEST_F(Publishing, sends_the_state_as_it_was_while_steps_write_over_it) {
    const tensor::test::SpreadSmallWork spread;
    ThreadPool pool(3);
    const tensor::State first = state;
    const auto publisher = begin(&pool);
    for (int step = 0; step < 3; ++step) write_over(*publisher);  // and waits for nobody
    EXPECT_FALSE(publisher->is_stored());
    EXPECT_FALSE(publisher->take());
    EXPECT_LE(store.taken, 1024U);
    store.opened = true;
    expect_stored(*publisher, first);

    write_over(*publisher);  // nobody reads any more
    ASSERT_TRUE(publisher->begin(program, state, tensor::slot_roots(state)));
    expect_stored(*publisher, state);
}

TEST_F(Publishing, has_copied_a_state_before_it_sends_so_that_steps_find_nothing_to_copy) {
    const tensor::State first = state;
    const auto publisher = begin();
    for (tensor::Tensor& slot : state)
        for (std::uint32_t& word : slot.words) word ^= 7;
    store.opened = true;
    expect_stored(*publisher, first);
}

TEST_F(Publishing, sends_the_state_as_it_was_however_soon_a_step_writes_over_it) {
    store.opened = true;
    Publisher publisher(std::make_unique<StoreNode>(store), nullptr, stopping, [this] { news.ring(); });
    for (int round = 0; round < 20; ++round) {
        const tensor::State sent = state;
        ASSERT_TRUE(publisher.begin(program, state, tensor::slot_roots(state)));
        for (std::size_t slot = 0; slot < state.size(); ++slot) {
            publisher.before_writing(slot);
            for (std::uint32_t& word : state[slot].words) word += 5;
        }
        expect_stored(publisher, sent);
    }
}

TEST_F(Publishing, begins_anew_when_the_node_fails_and_sends_the_same) {
    store.failures = 2;
    const tensor::State first = state;
    const auto publisher = begin();
    write_over(*publisher);
    store.opened = true;
    expect_stored(*publisher, first);
    EXPECT_EQ(store.attempts, 3 + 1) << "the slot, and the state content";
}

TEST_F(Publishing, sends_what_two_states_share_once) {
    store.opened = true;
    const auto publisher = begin();
    expect_stored(*publisher, state);
    state[1].words[0] ^= 1;
    ASSERT_TRUE(publisher->begin(program, state, tensor::slot_roots(state)));
    expect_stored(*publisher, state);
    EXPECT_EQ(store.attempts, 3);
}

TEST_F(Publishing, reads_nothing_once_the_worker_stops) {
    auto publisher = begin();
    stop = true;
    for (std::size_t slot = 0; slot < state.size(); ++slot) publisher->before_writing(slot);
    state.clear();  // as a step does that is given up
    store.opened = true;
    publisher.reset();
    EXPECT_LE(store.taken, 1024U);
    EXPECT_EQ(store.attempts, 1);
}

TEST_F(Publishing, ends_when_nobody_wants_it_any_more) {
    store.failures = 1'000;
    auto publisher = begin();
    store.opened = true;
    while (store.attempts < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    publisher.reset();  // in the pause before the next attempt, or in one
    EXPECT_LT(store.attempts, 1'000);
}

TEST_F(Publishing, refuses_what_is_no_state_of_the_program) {
    Publisher publisher(std::make_unique<StoreNode>(store), nullptr, stopping, [] {});
    const std::vector<Hash32> roots = tensor::slot_roots(state);
    state.pop_back();
    EXPECT_EQ(publisher.begin(program, state, roots).error().name, "executor.bad_state");
    EXPECT_FALSE(publisher.runs());
}

}  // namespace
}  // namespace quern::compute::worker
