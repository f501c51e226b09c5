// States that come slot by slot.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "compute/core/state_content.h"
#include "compute/program/state_file.h"
#include "compute/worker/task_inputs.h"
#include "content_node.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::worker {
namespace {

namespace tensor = vm::tensor;
using tensor::DType;
using tensor::Shape;

// What it has not is on its way, and then here.
class LateNode final : public test::ContentNode {
public:
    LateNode(test::Contents& contents, std::set<Hash32>& late) : ContentNode(contents), late_(late) {}
    Expected<Bytes> get_content(const Hash32& id, std::uint64_t most) override {
        asked.push_back(id);
        if (late_.contains(id)) return busy(chain::api::kContentOnItsWay);
        QUERN_TRY(Bytes content, ContentNode::get_content(id, most));
        if (content.size() > most) return fail("content.too_large");
        return content;
    }
    Expected<bool> has_content(const Hash32& id) override { return !late_.contains(id); }
    Expected<std::set<Hash32>> want_contents(std::span<const Hash32> ids, std::uint64_t most) override {
        wanted.assign(ids.begin(), ids.end());
        return ContentNode::want_contents(ids, most);
    }
    std::vector<Hash32> asked;
    std::vector<Hash32> wanted;

private:
    std::set<Hash32>& late_;
};

// Its views give slots once as many threads as there may be have asked for one, or nobody else comes.
struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t inside = 0;
    std::size_t most = 0;
};

class SharedNode final : public test::ContentNode {
public:
    SharedNode(test::Contents& contents, Meeting& meeting, std::size_t readers)
        : ContentNode(contents), contents_(contents), meeting_(meeting), readers_(readers) {}
    std::unique_ptr<NodeView> another() const override {
        return std::make_unique<SharedNode>(contents_, meeting_, readers_);
    }
    Expected<Bytes> get_content(const Hash32& id, std::uint64_t most) override {
        std::unique_lock lock(meeting_.mutex);
        auto content = ContentNode::get_content(id, most);
        if (!content || core::is_state_content(*content)) return content;
        meeting_.most = std::max(meeting_.most, ++meeting_.inside);
        meeting_.changed.notify_all();
        (void)meeting_.changed.wait_for(lock, std::chrono::seconds(5), [&] { return meeting_.most >= readers_; });
        --meeting_.inside;
        return content;
    }

private:
    test::Contents& contents_;
    Meeting& meeting_;
    std::size_t readers_;
};

// Six slots that are contents of their own, of which one is zeros and two are the same, and a small one.
class StateFetch : public testing::Test {
protected:
    StateFetch() {
        tensor::test::Random random(4);
        for (int i = 0; i < 6; ++i) add({{1, 1, 260, 270}}, random);
        std::fill(state[2].words.begin(), state[2].words.end(), 0);
        state[4] = state[3];
        add({{1, 1, 1, 7}}, random);
        roots = tensor::slot_roots(state);
        content = put(core::encode_state(program, state, roots));
        for (const std::size_t slot : core::own_contents(program, roots)) {
            Bytes tiles(core::slot_bytes(state[slot].shape));
            core::copy_tiles(state[slot].shape, state[slot].words, 0, tiles);
            EXPECT_EQ(put(tiles), roots[slot]);
        }
    }
    void add(const Shape& shape, tensor::test::Random& random) {
        program.slots.push_back({"slot " + std::to_string(program.slots.size()), DType::f32, shape});
        state.push_back(tensor::test::random_tensor(random, DType::f32, shape, tensor::test::Fill::special));
    }
    Hash32 put(const Bytes& bytes) {
        const Hash32 id = crypto::content_id_of(bytes);
        contents.files[id] = bytes;
        return id;
    }
    Expected<tensor::State> fetch() {
        node.asked.clear();
        return inputs.checkpoint(node, program, {content, tensor::state_root(roots)});
    }

    tensor::Program program;
    tensor::State state;
    std::vector<Hash32> roots;
    test::Contents contents;
    std::set<Hash32> late;
    LateNode node{contents, late};
    Hash32 content;
    InputStore inputs{InputLimits{}};
};

TEST_F(StateFetch, is_whole_without_the_zeros) {
    EXPECT_EQ(contents.files.size(), 1U + 4U);
    const auto fetched = fetch();
    ASSERT_TRUE(fetched) << fetched.error().to_string();
    EXPECT_EQ(*fetched, state);
    EXPECT_FALSE(contents.asked.contains(roots[2]));
}

TEST_F(StateFetch, asks_for_what_its_node_lacks_before_it_reads_the_rest) {
    late = {roots[1], roots[5]};
    const auto none = fetch();
    ASSERT_FALSE(none);
    EXPECT_TRUE(is_on_its_way(none.error()));
    EXPECT_EQ(node.asked, (std::vector{content, roots[1]}));
    late = {roots[5]};
    EXPECT_TRUE(is_on_its_way(fetch().error()));
    EXPECT_EQ(node.asked, (std::vector{content, roots[5]}));
    late.clear();
    EXPECT_EQ(fetch().value(), state);
}

TEST_F(StateFetch, tells_its_node_of_all_slots_before_it_asks_for_the_first) {
    late.insert(roots.begin(), roots.end());
    EXPECT_TRUE(is_on_its_way(fetch().error()));
    EXPECT_EQ(node.asked, (std::vector{content, roots[0]}));
    EXPECT_EQ(node.wanted, (std::vector{roots[0], roots[1], roots[3], roots[4], roots[5]}));
}

TEST_F(StateFetch, reads_three_slots_at_once) {
    Meeting meeting;
    SharedNode shared(contents, meeting, 3);
    EXPECT_EQ(inputs.checkpoint(shared, program, {content, tensor::state_root(roots)}).value(), state);
    EXPECT_EQ(meeting.most, 3U);
    // What one of them finds ends the others, too.
    contents.files.erase(roots[5]);
    EXPECT_EQ(inputs.checkpoint(shared, program, {content, tensor::state_root(roots)}).error().name, kContentNotFound);
}

TEST_F(StateFetch, says_what_is_missing_and_what_is_wrong) {
    const Bytes slot = std::exchange(contents.files[roots[1]], Bytes(4096));
    EXPECT_EQ(fetch().error().name, "state.wrong_size");
    contents.files.erase(roots[1]);
    EXPECT_EQ(fetch().error().name, kContentNotFound);
    contents.files[roots[1]] = slot;
    EXPECT_EQ(inputs.checkpoint(node, program, {content, Hash32{{1}}}).error().name, "inputs.wrong_state_root");
    // Another slot in its place, and the list says so.
    roots[1] = roots[0];
    EXPECT_EQ(fetch().error().name, "inputs.wrong_state_root");
    const std::atomic<bool> stop{true};
    const Cancellation stopping([&] { return stop.load(); });
    roots = tensor::slot_roots(state);
    EXPECT_TRUE(
        inputs.checkpoint(node, program, {content, tensor::state_root(roots)}, nullptr, &stopping).error().is_busy());
}

}  // namespace
}  // namespace quern::compute::worker
