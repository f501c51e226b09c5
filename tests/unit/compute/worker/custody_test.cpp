// What custodians keep of a history: which contents, how they become fragments, and what becomes of wrong ones.
#include "compute/worker/custody.h"

#include <gtest/gtest.h>

#include "compute/core/state_content.h"
#include "compute/worker/task_inputs.h"
#include "content_node.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::worker {
namespace {

namespace tensor = vm::tensor;
using core::CustodyManifest;

class SharedNode final : public test::ContentNode {
public:
    explicit SharedNode(test::Contents& contents) : ContentNode(contents), contents_(contents) {}
    std::unique_ptr<NodeView> another() const override { return std::make_unique<SharedNode>(contents_); }
    Expected<Bytes> get_content(const Hash32& id, std::uint64_t most) override {
        auto found = ContentNode::get_content(id, most);
        if (!found && id == promised) return busy(chain::api::kContentOnItsWay);
        return found;
    }
    Expected<ContentLeaves> content_leaves(const Hash32& id, std::uint64_t most) override {
        ++questions;
        auto found = ContentNode::content_leaves(id, most);
        if (!found && id == promised_leaves) return busy(chain::api::kContentOnItsWay);
        if (found || late == 0) return found;
        if (--late == 0) contents_.files.insert(std::move(comes));
        return busy(chain::api::kContentOnItsWay);
    }
    // As over a connection: what is asked in the middle of an upload becomes a part of it.
    Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) override {
        sending_ = true;
        const Status sent = ContentNode::put_stream(id, size, source);
        sending_ = false;
        return sent;
    }
    Expected<Bytes> read_content(const Hash32& id, std::uint64_t first, std::uint64_t length) override {
        if (sending_) return fail("node.sending");
        return ContentNode::read_content(id, first, length);
    }
    unsigned questions = 0;        // about leaves
    Hash32 promised;               // somebody says to have it and does not send it
    Hash32 promised_leaves;        // the same where its leaves are asked for
    unsigned late = 0;             // questions about missing contents until ...
    test::Files::node_type comes;  // ... this one has come

private:
    test::Contents& contents_;
    bool sending_ = false;
};

constexpr crypto::CellCode kCode{2, 6};

// A history of four segments. Slot 0 is small, 1 is another in each state, 2 the same in all, 3 of zeros.
class CustodyTest : public testing::Test {
protected:
    CustodyTest() {
        for (int i = 0; i < 4; ++i)
            program.slots.push_back({"slot " + std::to_string(i), tensor::DType::f32,
                                     i == 0 ? tensor::Shape{{1, 1, 1, 7}} : tensor::Shape{{1, 1, 260, 270}}});
        tensor::State state;
        for (const auto& slot : program.slots) state.push_back(random_tensor(slot.shape));
        std::fill(state[3].words.begin(), state[3].words.end(), 0);
        for (int i = 0; i < 5; ++i) {
            state[1] = random_tensor(program.slots[1].shape);
            const auto roots = tensor::slot_roots(state);
            for (const std::size_t slot : core::own_contents(program, roots)) {
                Bytes tiles(core::slot_bytes(state[slot].shape));
                core::copy_tiles(state[slot].shape, state[slot].words, 0, tiles);
                EXPECT_EQ(node.put_content(tiles), roots[slot]);
            }
            history.state_roots.push_back(tensor::state_root(roots));
            history.checkpoint_contents.push_back(node.put_content(core::encode_state(program, state, roots)).value());
            slots.push_back(roots);
        }
        history.interval = 1;
        history_content = node.put_content(core::encode(history)).value();
    }
    tensor::Tensor random_tensor(const tensor::Shape& shape) {
        return tensor::test::random_tensor(random, tensor::DType::f32, shape, tensor::test::Fill::special);
    }
    [[nodiscard]] std::vector<Hash32> required() {
        return custody_contents(node, program, history_content, history, {}).value();
    }
    CustodyManifest made() {
        const Hash32 id = put_custody(node, kCode, required(), {}).value();
        return fetch_custody(node, id, kCode).value();
    }
    [[nodiscard]] std::string_view verdict(const CustodyManifest& manifest) {
        const Status status = check_custody(node, manifest, required(), {});
        return status ? "" : status.error().name;
    }
    void lose(const Hash32& id) { contents.files.erase(id); }

    tensor::test::Random random{4};
    tensor::Program program;
    core::HistoryManifest history;
    Hash32 history_content;
    std::vector<std::vector<Hash32>> slots;  // roots, of each state
    test::Contents contents;
    SharedNode node{contents};
};

TEST_F(CustodyTest, needs_the_ends_and_the_beginning_of_the_last_segment) {
    const auto& states = history.checkpoint_contents;
    const std::set<Hash32> expected{history_content, states[0],   states[3],   states[4],
                                    slots[0][1],     slots[3][1], slots[4][1], slots[0][2]};
    EXPECT_EQ(required(), std::vector<Hash32>(expected.begin(), expected.end()));
}

TEST_F(CustodyTest, takes_a_first_state_that_is_a_file) {
    history.checkpoint_contents[0] = node.put_content(Bytes(100, 7)).value();
    EXPECT_EQ(required().size(), 7U) << "the slots of that state are not contents of their own";
}

// As a file of more than a shard is.
TEST_F(CustodyTest, takes_a_first_state_that_is_there_by_shard) {
    constexpr unsigned kLevel = 4;
    Bytes file(crypto::content_shard_bytes(kLevel) * 7 / 2 + 5);
    for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<std::uint8_t>(i * i >> 5);
    crypto::ShardHasher hasher(kLevel);
    hasher.update(file);
    const crypto::ContentShards list = hasher.finish();
    ASSERT_EQ(list.id(), crypto::content_id_of(file));
    contents.lists[list.id()] = list;
    for (std::size_t i = 0; i < list.tops.size(); ++i) {
        const BytesView shard = BytesView(file).subspan(i * list.shard_bytes());
        EXPECT_EQ(node.put_content(to_bytes(shard.first(std::min<std::size_t>(shard.size(), list.shard_bytes())))),
                  list.id_of(i));
    }
    history.checkpoint_contents[0] = list.id();
    CustodyLimits limits;
    limits.shard_level = kLevel;
    const auto needed = custody_contents(node, program, history_content, history, limits);
    ASSERT_TRUE(needed) << needed.error().to_string();
    EXPECT_EQ(needed->size(), 7U);
    const auto id = put_custody(node, kCode, *needed, limits);
    ASSERT_TRUE(id) << id.error().to_string();
    const CustodyManifest manifest = fetch_custody(node, *id, kCode).value();
    EXPECT_TRUE(check_custody(node, manifest, *needed, limits));
    EXPECT_TRUE(restore_content(node, manifest, list.id(), {}));
    EXPECT_EQ(contents.files.at(list.id()), file);
    EXPECT_TRUE(check_custody(node, manifest, *needed, limits_of(program, limits)));
    limits.content_bytes = file.size() - 1;
    lose(list.id());
    contents.asked_leaves.clear();
    EXPECT_EQ(check_custody(node, manifest, std::vector{list.id()}, limits).error().name, kWrongCustody);
    const Status too_large = check_custody(node, {kCode, {*manifest.find(list.id())}}, std::vector{list.id()}, limits);
    EXPECT_EQ(too_large.error().name, "content.too_large");
    EXPECT_EQ(contents.asked_leaves, std::vector{list.id()}) << "no shard of it is fetched";
}

TEST_F(CustodyTest, what_no_state_is_read_from_is_too_large) {
    const std::uint64_t most = limits_of(program, {}).content_bytes;
    EXPECT_EQ(most, core::kMaxManifestBytes) << "what is small has a history that may be large";
    tensor::Program large = program;
    large.slots[1].shape = tensor::Shape{{1, 1, 8'192, 8'192}};
    const std::uint64_t of_large = limits_of(large, {}).content_bytes;
    EXPECT_GE(of_large, core::slot_bytes(large.slots[1].shape));
    EXPECT_LE(of_large, 3 * state_bytes(large));
    CustodyLimits small;
    small.content_bytes = 7;
    EXPECT_EQ(limits_of(program, small).content_bytes, 7U);
}

TEST_F(CustodyTest, another_program_s_state_has_no_custody) {
    program.slots.pop_back();
    EXPECT_EQ(custody_contents(node, program, history_content, history, {}).error().name, "state.wrong_size");
}

TEST_F(CustodyTest, makes_what_is_found_right) {
    const CustodyManifest manifest = made();
    EXPECT_EQ(verdict(manifest), "");
    for (const auto& each : manifest.contents)
        for (const Hash32& fragment : each.fragments) EXPECT_TRUE(contents.files.contains(fragment));
}

TEST_F(CustodyTest, goes_on_where_it_was_cut_off) {
    int left = 3;
    contents.when_put = [&]() -> Status { return left-- > 0 ? Status{} : Status(fail("node.down")); };
    EXPECT_EQ(put_custody(node, kCode, required(), {}).error().name, "node.down");
    const auto stored = contents.files.size();
    contents.when_put = nullptr;
    const CustodyManifest manifest = made();
    EXPECT_EQ(verdict(manifest), "");
    EXPECT_GT(contents.files.size(), stored);
    contents.when_put = []() -> Status { return fail("node.down"); };
    EXPECT_EQ(put_custody(node, kCode, required(), {}).error().name, "node.down") << "the manifest's own";
    EXPECT_TRUE(fetch_fragments(node, manifest, 5, {}));
}

TEST_F(CustodyTest, finds_what_is_wrong_with_a_manifest) {
    const CustodyManifest right = made();
    CustodyManifest flipped = right;
    flipped.contents[2].fragments[5].data[31] ^= 1;
    EXPECT_EQ(verdict(flipped), kWrongCustody);
    CustodyManifest resized = right;
    ++resized.contents[0].size;
    EXPECT_EQ(verdict(resized), kWrongCustody);
    CustodyManifest less = right;
    less.contents.pop_back();
    EXPECT_EQ(verdict(less), kWrongCustody);
    CustodyManifest more = right;
    more.contents.push_back(right.contents.back());
    more.contents.back().content.data.fill(0xff);
    EXPECT_EQ(verdict(more), kWrongCustody);
    const Hash32 id = node.put_content(core::encode(right)).value();
    EXPECT_EQ(fetch_custody(node, id, {1, 6}).error().name, kWrongCustody);
    EXPECT_EQ(fetch_custody(node, history_content, kCode).error().name, "custody.not_a_manifest");
}

TEST_F(CustodyTest, a_custodian_lacks_what_nobody_serves_or_has_another_size) {
    const CustodyManifest manifest = made();
    for (unsigned place = 0; place < kCode.total; ++place) EXPECT_TRUE(fetch_fragments(node, manifest, place, {}));
    CustodyManifest other = manifest;
    other.contents[1].fragments[3] = history_content;
    EXPECT_EQ(fetch_fragments(node, other, 3, {}).error().name, kWrongCustody);
    lose(manifest.contents[1].fragments[3]);
    EXPECT_EQ(fetch_fragments(node, manifest, 3, {}).error().name, kContentNotFound);
    EXPECT_TRUE(fetch_fragments(node, manifest, 4, {}));
}

TEST_F(CustodyTest, gives_each_content_from_parity_alone) {
    const CustodyManifest manifest = made();
    for (const auto& each : manifest.contents) {
        const Bytes whole = contents.files.at(each.content);
        lose(each.content);
        for (unsigned i = 0; i < 4; ++i) lose(each.fragments[i]);
        const Status restored = restore_content(node, manifest, each.content, {});
        ASSERT_TRUE(restored) << restored.error().to_string();
        EXPECT_EQ(contents.files.at(each.content), whole);
    }
}

TEST_F(CustodyTest, one_fragment_too_few_gives_nothing) {
    const CustodyManifest manifest = made();
    const auto& lost = manifest.contents.front();
    lose(lost.content);
    for (unsigned i = 0; i < 5; ++i) lose(lost.fragments[i]);
    EXPECT_EQ(restore_content(node, manifest, lost.content, {}).error().name, kContentNotFound);
    EXPECT_EQ(restore_content(node, manifest, Hash32{}, {}).error().name, kContentNotFound);
}

TEST_F(CustodyTest, fragments_of_something_else_are_not_stored) {
    CustodyManifest manifest = made();
    auto& lost = manifest.contents.front();
    lose(lost.content);
    lost.fragments[0] = node.put_content(Bytes(crypto::fragment_bytes(lost.size, kCode.data), 1)).value();
    EXPECT_EQ(restore_content(node, manifest, lost.content, {}).error().name, crypto::kWrongContent);
    EXPECT_FALSE(contents.files.contains(lost.content));
}

// What custodians have of the history is there for whoever reads it, without a word about them.
class KeptHistory : public CustodyTest {
protected:
    KeptHistory() {
        live.task.custodians = 6;
        live.task.steps = 4;
        live.task.spec.work.interval = 1;
        live.task.spec.work.stride = 1;
        live.claim.history_content = history_content;
        live.claim.history_root = core::history_root(history.state_roots);
        live.claim.custody_content = put_custody(node, kCode, required(), {}).value();
        live.task.start_root = history.state_roots.back();
        live.task.start_history = history_content;
        live.task.start_custody = live.claim.custody_content;
        lose_history();
    }
    void lose_history() {
        lose(history_content);
        for (const Hash32& state : history.checkpoint_contents) lose(state);
        for (const auto& roots : slots)
            for (const Hash32& root : roots) lose(root);
    }
    [[nodiscard]] StateRef state(std::size_t number) const {
        return {history.checkpoint_contents[number], history.state_roots[number], custody_of(live)};
    }

    chain::types::TaskClaim live;
    InputStore inputs{InputLimits{}};
};

TEST_F(KeptHistory, is_read_from_fragments) {
    const auto manifest = inputs.manifest(node, live);
    ASSERT_TRUE(manifest) << manifest.error().to_string();
    EXPECT_EQ((*manifest)->state_roots, history.state_roots);
    for (const std::size_t number : {0U, 3U, 4U}) {
        const auto read = inputs.checkpoint(node, program, state(number));
        ASSERT_TRUE(read) << read.error().to_string();
        EXPECT_EQ(tensor::state_root(*read), history.state_roots[number]);
    }
    EXPECT_EQ(inputs.checkpoint(node, program, state(2)).error().name, kContentNotFound) << "nobody keeps it";
}

TEST_F(KeptHistory, is_not_waited_for_longer_than_custody_lasts) {
    node.promised = history_content;
    live.claim.state = chain::types::ClaimState::custody;
    EXPECT_TRUE(is_on_its_way(inputs.manifest(node, live).error()));
    live.claim.state = chain::types::ClaimState::committing;
    EXPECT_TRUE(inputs.manifest(node, live));
}

TEST_F(KeptHistory, waits_for_fragments_that_are_on_their_way) {
    const auto manifest = fetch_custody(node, live.claim.custody_content, kCode).value();
    const auto* const names = manifest.find(history_content);
    ASSERT_NE(names, nullptr);
    for (unsigned i = 1; i < 5; ++i) lose(names->fragments[i]);
    node.comes = contents.files.extract(names->fragments[0]);
    node.late = 9;  // five are missing: in the second pass
    EXPECT_TRUE(inputs.manifest(node, live));
    lose_history();
    node.comes = contents.files.extract(names->fragments[0]);
    node.late = 1'000;
    InputStore others{InputLimits{}};
    EXPECT_TRUE(is_on_its_way(others.manifest(node, live).error()));
    // Whichever it is that comes: the others are lost.
    node.late = 0;
    node.promised_leaves = names->fragments[2];
    EXPECT_TRUE(is_on_its_way(others.manifest(node, live).error()));
    const Cancellation stopping([] { return true; });
    EXPECT_EQ(restore_content(node, manifest, history_content, {1U << 20, &stopping}).error().name, "worker.stopped");
    EXPECT_EQ(fetch_fragments(node, manifest, 5, {1U << 20, &stopping}).error().name, "worker.stopped");
}

// Who promises everything and sends nothing does not hold up others' work.
TEST_F(KeptHistory, is_not_waited_for_in_vain_for_long) {
    const auto manifest = fetch_custody(node, live.claim.custody_content, kCode).value();
    const Hash32& last = history.checkpoint_contents.back();
    for (const Hash32& fragment : manifest.find(last)->fragments) lose(fragment);
    node.late = 1'000'000;
    node.questions = 0;
    EXPECT_TRUE(is_on_its_way(inputs.checkpoint(node, program, state(4)).error()));
    EXPECT_LE(node.questions, 12U);
}

TEST_F(KeptHistory, fragments_that_are_here_are_not_behind_promises) {
    const auto manifest = fetch_custody(node, live.claim.custody_content, kCode).value();
    for (const auto& each : manifest.contents)
        for (unsigned i = 0; i < 4; ++i) lose(each.fragments[i]);
    node.late = 1'000'000;
    EXPECT_TRUE(inputs.checkpoint(node, program, state(4)));
    EXPECT_EQ(node.late, 1'000'000U) << "nobody was waited for";
}

// A list that is no state of the program names what it likes.
TEST_F(KeptHistory, what_is_not_the_state_has_nothing_fetched) {
    tensor::Program other = program;
    other.slots.push_back(program.slots[1]);
    const auto read = inputs.checkpoint(node, other, state(4));
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().name, kContentNotFound);
    EXPECT_FALSE(contents.files.contains(slots[4][1]));
}

TEST_F(KeptHistory, nothing_is_asked_for_once_the_worker_stops) {
    const auto manifest = fetch_custody(node, live.claim.custody_content, kCode).value();
    const Cancellation stopping([] { return true; });
    CustodyLimits limits;
    limits.cancellation = &stopping;
    node.questions = 0;
    EXPECT_EQ(fetch_fragments(node, manifest, 3, limits).error().name, "worker.stopped");
    EXPECT_EQ(restore_content(node, manifest, history_content, limits).error().name, "worker.stopped");
    EXPECT_EQ(node.questions, 0U);
}

TEST_F(KeptHistory, is_what_the_next_solver_begins_with) {
    const auto start = InputStore::start_of(node, live.task);
    ASSERT_TRUE(start) << start.error().to_string();
    EXPECT_EQ(start->content, history.checkpoint_contents.back());
    EXPECT_TRUE(inputs.checkpoint(node, program, *start));
}

TEST_F(KeptHistory, without_enough_fragments_is_not_found) {
    const auto manifest = fetch_custody(node, live.claim.custody_content, kCode).value();
    for (const auto& each : manifest.contents)
        for (unsigned i = 0; i < 5; ++i) lose(each.fragments[i]);
    EXPECT_EQ(inputs.manifest(node, live).error().name, kContentNotFound);
    EXPECT_EQ(inputs.checkpoint(node, program, state(4)).error().name, kContentNotFound);
    EXPECT_EQ(InputStore::start_of(node, live.task).error().name, kContentNotFound);
    live.task.custodians = 0;
    EXPECT_FALSE(custody_of(live).exists());
    EXPECT_FALSE(custody_of_start(live.task).exists());
}

}  // namespace
}  // namespace quern::compute::worker
