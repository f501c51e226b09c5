// Data that a worker reads by windows: what it asks its node for and keeps, and what becomes of work whose data are not
// there.
#include "compute/worker/task_data.h"

#include <thread>

#include "chain/market/work.h"
#include "compute/program/builder.h"
#include "compute/program/initial_state.h"
#include "compute/program/state_file.h"
#include "compute/worker/replay.h"
#include "compute/worker/training_jobs.h"
#include "content_node.h"
#include "lifecycle_fixture.h"

namespace quern::compute::worker::test {
namespace {

using namespace chain::exec::test;

constexpr std::uint64_t kLeaf = crypto::kContentLeafBytes;

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
    Bytes bytes(count);
    SeededRng rng(seed);
    rng.fill(bytes);
    return bytes;
}

// Two data tensors, the second of which ends with two tiles and a part of one.
class TaskDataTest : public ::testing::Test {
protected:
    TaskDataTest() {
        for (const Bytes& set : whole.sets()) {
            header.data.push_back({tensor::DataType::u8, set.size()});
            (void)*node.put_content(set);
        }
        load();
    }
    void load(std::uint64_t kept_bytes = kKeptDataBytes) {
        auto loaded = TaskData::load(node, header, whole.roots(), kept_bytes);
        ASSERT_TRUE(loaded) << loaded.error().to_string();
        data = std::move(*loaded);
        reader.emplace(data);
        reader->bind(node, nullptr);
    }
    [[nodiscard]] static std::optional<Bytes> part(const DataReader& from, std::size_t set, std::uint64_t first,
                                                   std::size_t length) {
        Bytes out(length);
        if (!from.read(set, first, out)) return std::nullopt;
        return out;
    }
    [[nodiscard]] Bytes truth(std::size_t set, std::uint64_t first, std::size_t length) const {
        return to_bytes(BytesView(whole.sets()[set]).subspan(first, length));
    }
    [[nodiscard]] std::vector<std::uint64_t>& asked() { return contents.read[whole.roots()[1]]; }

    tensor::ProgramHeader header;
    const tensor::MemoryData whole{{random_bytes(2 * kLeaf, 1), random_bytes(20 * kLeaf + 9'000, 2)}};
    Contents contents;
    ContentNode node{contents};
    std::shared_ptr<const TaskData> data;
    std::optional<DataReader> reader;
};

TEST_F(TaskDataTest, is_asked_for_by_the_leaves_that_are_read_and_once) {
    EXPECT_TRUE(contents.read.empty());
    const std::uint64_t size = whole.sets()[1].size();
    EXPECT_EQ(part(*reader, 1, 5 * kLeaf - 3, 10), truth(1, 5 * kLeaf - 3, 10));
    EXPECT_EQ(asked(), (std::vector<std::uint64_t>{4 * kLeaf, 5 * kLeaf}));
    EXPECT_EQ(part(*reader, 1, size - 9, 9), truth(1, size - 9, 9));
    EXPECT_EQ(asked().back(), 20 * kLeaf);
    DataReader another(data);
    another.bind(node, nullptr);
    EXPECT_EQ(part(another, 1, 4 * kLeaf, 2 * kLeaf), truth(1, 4 * kLeaf, 2 * kLeaf));
    EXPECT_EQ(asked().size(), 3U) << "those that work for a task share what has come";
    EXPECT_TRUE(contents.asked.empty()) << "no content was asked for whole";
    EXPECT_FALSE(part(*reader, 1, size - 9, 10));
    EXPECT_FALSE(part(*reader, 1, ~std::uint64_t{0}, 2));
    EXPECT_FALSE(part(*reader, 2, 0, 1));
    EXPECT_FALSE(reader->take_missing()) << "nobody is asked for what there is not";
}

TEST_F(TaskDataTest, has_the_paths_of_its_contents_trees) {
    for (std::size_t set = 0; set < 2; ++set) {
        const std::uint64_t tiles = tensor::data_tiles(header.data[set]);
        for (std::uint64_t tile = 0; tile < tiles; ++tile)
            EXPECT_EQ(reader->tile_path(set, tile), whole.tile_path(set, tile)) << set << " " << tile;
        EXPECT_FALSE(reader->tile_path(set, tiles));
        EXPECT_FALSE(reader->tile_path(set, ~std::uint64_t{0}));
    }
    EXPECT_FALSE(reader->tile_path(2, 0));
}

TEST_F(TaskDataTest, keeps_so_many_bytes_and_lets_go_of_what_was_read_longest_ago) {
    load(3 * kLeaf);
    for (const std::uint64_t leaf : {0U, 1U, 2U, 0U, 3U}) EXPECT_TRUE(part(*reader, 1, leaf * kLeaf, 1));
    EXPECT_EQ(asked().size(), 4U);
    EXPECT_TRUE(part(*reader, 1, 0, 1));
    EXPECT_EQ(asked().size(), 4U);
    EXPECT_TRUE(part(*reader, 1, kLeaf, 1));
    EXPECT_EQ(asked(), (std::vector<std::uint64_t>{0, kLeaf, 2 * kLeaf, 3 * kLeaf, kLeaf}));
    load(kLeaf - 1);
    EXPECT_EQ(part(*reader, 1, 7, 3 * kLeaf), truth(1, 7, 3 * kLeaf)) << "what is not kept is read all the same";
}

TEST_F(TaskDataTest, takes_what_is_kept_from_the_header) {
    const std::uint64_t hashes = (2 + 21) * Hash32::kSize;
    EXPECT_EQ(kept_data_bytes(header), hashes + whole.sets()[0].size() + whole.sets()[1].size());
    EXPECT_EQ(kept_data_bytes(header, 5 * kLeaf), hashes + 5 * kLeaf);
}

TEST_F(TaskDataTest, is_read_by_several_threads_of_a_run) {
    load(4 * kLeaf);
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < 4; ++number)
        threads.emplace_back([&, number] {
            SeededRng rng(number);
            for (int i = 0; i < 200; ++i) {
                const std::uint64_t first = rng.u64() % (whole.sets()[1].size() - 2'000);
                EXPECT_EQ(part(*reader, 1, first, 2'000), truth(1, first, 2'000));
            }
        });
    for (auto& thread : threads) thread.join();
}

TEST_F(TaskDataTest, that_is_not_there_says_why_and_asks_no_more_until_somebody_has_heard) {
    contents.unreadable = Error{kContentNotFound, {}};
    EXPECT_FALSE(part(*reader, 1, 0, 1));
    EXPECT_FALSE(part(*reader, 1, kLeaf, 1));
    EXPECT_FALSE(reader->tile_path(1, 0));
    EXPECT_EQ(asked().size(), 1U);
    contents.unreadable.reset();
    EXPECT_FALSE(part(*reader, 1, 0, 1));
    const auto missing = reader->take_missing();
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->name, kContentNotFound);
    EXPECT_EQ(part(*reader, 1, 0, 1), truth(1, 0, 1));
    EXPECT_FALSE(reader->take_missing());
}

TEST_F(TaskDataTest, of_a_node_that_is_busy_is_asked_for_again) {
    contents.unreadable = Error{"content.busy", {}, ErrorKind::busy};
    contents.when_read = [&] {
        if (asked().size() == 2) contents.unreadable.reset();
    };
    EXPECT_EQ(part(*reader, 1, 0, 1), truth(1, 0, 1));
    EXPECT_EQ(asked().size(), 2U);

    contents.unreadable = Error{"content.busy", {}, ErrorKind::busy};
    const Cancellation cancelled([] { return true; });
    reader->bind(node, &cancelled);
    EXPECT_FALSE(part(*reader, 1, kLeaf, 1));
    EXPECT_EQ(asked().size(), 3U) << "nobody waits for it any more";
    EXPECT_EQ(reader->take_missing()->name, "content.busy");
}

TEST_F(TaskDataTest, is_checked_leaf_by_leaf) {
    const Cancellation cancelled([] { return true; });
    reader->bind(node, &cancelled);
    contents.files[whole.roots()[1]][3 * kLeaf + 7] ^= 1;
    EXPECT_EQ(part(*reader, 1, 2 * kLeaf, kLeaf), truth(1, 2 * kLeaf, kLeaf));
    EXPECT_FALSE(part(*reader, 1, 3 * kLeaf, 1));
    const auto missing = reader->take_missing();
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->name, "content.id_mismatch");
    EXPECT_TRUE(missing->is_busy()) << "the node's fault, not the submitter's";
}

constexpr unsigned kLevel = 4;  // shards of four leaves
constexpr std::uint64_t kShard = crypto::content_shard_bytes(kLevel);

// Of which a node has the list, and each shard as a content of its own.
class ShardedData : public ::testing::Test {
protected:
    ShardedData() {
        crypto::ShardHasher hasher(kLevel);
        hasher.update(whole.sets()[0]);
        list = hasher.finish();
        header.data.push_back({tensor::DataType::u8, list.size});
        header.data.push_back({tensor::DataType::u8, whole.sets()[1].size()});
        contents.lists[list.id()] = list;
        for (std::size_t i = 0; i < list.tops.size(); ++i) (void)*node.put_content(shard(i));
        (void)*node.put_content(whole.sets()[1]);
        auto loaded = TaskData::load(node, header, whole.roots(), kKeptDataBytes, kLevel);
        EXPECT_TRUE(loaded) << loaded.error().to_string();
        data = std::move(*loaded);
        contents.asked_leaves.clear();
        reader.emplace(data);
        reader->bind(node, nullptr);
    }
    [[nodiscard]] Bytes shard(std::size_t i) const {
        return to_bytes(BytesView(whole.sets()[0]).subspan(i * kShard, list.bytes_of(i)));
    }
    [[nodiscard]] std::optional<Bytes> part(std::size_t set, std::uint64_t first, std::size_t length) const {
        Bytes out(length);
        if (!reader->read(set, first, out)) return std::nullopt;
        return out;
    }
    [[nodiscard]] Bytes truth(std::size_t set, std::uint64_t first, std::size_t length) const {
        return to_bytes(BytesView(whole.sets()[set]).subspan(first, length));
    }

    tensor::ProgramHeader header;
    const tensor::MemoryData whole{{random_bytes(5 * kShard + 2 * kLeaf + 9'000, 4), random_bytes(3 * kLeaf, 5)}};
    crypto::ContentShards list;
    Contents contents;
    ContentNode node{contents};
    std::shared_ptr<const TaskData> data;
    std::optional<DataReader> reader;
};

TEST_F(ShardedData, are_read_by_the_shards_that_windows_lie_in) {
    ASSERT_EQ(list.id(), whole.roots()[0]);
    EXPECT_EQ(part(0, 3 * kShard + 2 * kLeaf + 5, 100), truth(0, 3 * kShard + 2 * kLeaf + 5, 100));
    EXPECT_EQ(contents.asked_leaves, std::vector<Hash32>{list.id_of(3)});
    EXPECT_EQ(contents.read[list.id_of(3)], std::vector<std::uint64_t>{2 * kLeaf});
    EXPECT_EQ(part(0, 4 * kShard - 10, 20), truth(0, 4 * kShard - 10, 20)) << "a window over a shard's end";
    EXPECT_EQ(contents.asked_leaves, (std::vector<Hash32>{list.id_of(3), list.id_of(4)}));
    EXPECT_EQ(part(0, list.size - 5, 5), truth(0, list.size - 5, 5));
    EXPECT_FALSE(part(0, list.size - 5, 6));
    EXPECT_EQ(part(0, 0, list.size), truth(0, 0, list.size));
    EXPECT_EQ(contents.asked_leaves.size(), 6U) << "the leaf hashes of each shard came once";
    EXPECT_EQ(part(1, 0, 3 * kLeaf), truth(1, 0, 3 * kLeaf)) << "a small content beside it";
    EXPECT_TRUE(contents.asked.empty());
    EXPECT_FALSE(reader->take_missing());
}

TEST_F(ShardedData, have_the_paths_of_the_wholes_tree) {
    for (std::size_t set = 0; set < 2; ++set) {
        const std::uint64_t tiles = tensor::data_tiles(header.data[set]);
        for (std::uint64_t tile = 0; tile < tiles; ++tile) {
            const auto path = reader->tile_path(set, tile);
            ASSERT_EQ(path, whole.tile_path(set, tile)) << set << " " << tile;
            const Bytes bytes = *tensor::read_data_tile(header.data[set], *reader, set, tile);
            const auto top = crypto::merkle_top_from_path(crypto::merkle_leaf(bytes), tile, tiles, *path);
            EXPECT_EQ(crypto::bytes_id(tensor::data_bytes(header.data[set]), *top), whole.roots()[set]);
        }
        EXPECT_FALSE(reader->tile_path(set, tiles));
        EXPECT_FALSE(reader->tile_path(set, ~std::uint64_t{0}));
    }
}

TEST_F(ShardedData, lack_a_shard_where_it_is_read_alone) {
    contents.files.erase(list.id_of(2));
    EXPECT_EQ(part(0, 2 * kShard - 9, 9), truth(0, 2 * kShard - 9, 9));
    EXPECT_FALSE(part(0, 2 * kShard - 9, 10));
    EXPECT_EQ(reader->take_missing()->name, kContentNotFound);
    EXPECT_FALSE(reader->tile_path(0, 2 * kShard / tensor::kTileBytes));
    EXPECT_EQ(reader->take_missing()->name, kContentNotFound);
    EXPECT_EQ(part(0, 3 * kShard, 9), truth(0, 3 * kShard, 9));
    const Cancellation cancelled([] { return true; });
    reader->bind(node, &cancelled);
    EXPECT_EQ(part(0, 5 * kShard, 9), truth(0, 5 * kShard, 9));
    contents.files[list.id_of(5)][kLeaf] ^= 1;
    EXPECT_FALSE(part(0, 5 * kShard + kLeaf, 1));
    EXPECT_EQ(reader->take_missing()->name, kIdMismatch);
}

TEST_F(ShardedData, are_tried_before_somebody_answers_for_reading_them) {
    SeededRng rng(1);
    EXPECT_TRUE(data->try_shards(node, rng));
    EXPECT_EQ(contents.asked_leaves.size(), kTriedShards);
    for (std::size_t i = 0; i < list.tops.size(); ++i) contents.files.erase(list.id_of(i));
    EXPECT_EQ(data->try_shards(node, rng).error().name, kContentNotFound);
    contents.lists.clear();
    EXPECT_EQ(TaskData::load(node, header, whole.roots(), kKeptDataBytes, kLevel).error().name, kContentNotFound);
}

TEST_F(ShardedData, of_another_size_than_the_headers_are_refused) {
    header.data[0].elements -= 1;
    const auto loaded = TaskData::load(node, header, whole.roots(), kKeptDataBytes, kLevel);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().name, "inputs.wrong_data_size");
}

TEST_F(ShardedData, take_the_tops_and_the_leaf_hashes_of_so_many_shards) {
    const std::uint64_t hashes = (6 + 6 * 4 + 3) * Hash32::kSize;
    EXPECT_EQ(kept_data_bytes(header, kLeaf, kLevel), hashes + kLeaf);
    header.data[0].elements = 1'000'000 * kShard;
    const std::uint64_t most = (crypto::kMaxContentShards + kKeptShards * 4 + 3) * Hash32::kSize;
    EXPECT_EQ(kept_data_bytes(header, kLeaf, kLevel), most + kLeaf);
    header.data.assign(tensor::kMaxDataSets, {tensor::DataType::f32, tensor::kMaxDataElements});
    EXPECT_LT(kept_data_bytes(header), std::uint64_t{1} << 30) << "of the largest tensors that a program may name";
}

constexpr std::uint64_t kDataLeaves = 40;
constexpr std::uint32_t kWindowStride = 50'000;

// Its step j adds up the first elements of window j - 1.
program::BuiltProgram reading_program() {
    program::Builder b({{tensor::DataType::u8, kDataLeaves * kLeaf}});
    const auto step = b.slot("step", tensor::DType::i32, {}, program::Initializer::zeros());
    const auto loss = b.slot("loss", tensor::DType::f32, {}, program::Initializer::zeros());
    b.set_loss_slot(loss);
    b.update(loss, b.add(loss, b.sum_last(b.to_f32(b.window(step, 0, kWindowStride, 300)))));
    b.update(step, b.iadd(step, b.constant_i32(1)));
    auto built = b.finish();
    EXPECT_TRUE(built) << built.error().to_string();
    return std::move(*built);
}

// A task of four steps, two of them a segment, whose contents a node has.
class ReadingTask : public ::testing::Test {
protected:
    ReadingTask() {
        options.datadir = ::testing::TempDir() + "/quern-task-data-test";
        (void)Workspace::remove_all_but(options.datadir, {});
        auto live = std::make_shared<TaskClaim>();
        auto& [task, claim, reports, custody] = *live;
        task.id = 1;
        task.spec = spec_of(programs, kInterval);
        task.state = TaskState::running;
        chain::market::set_plan(task, programs.plan.planned(kInterval, 1));
        const tensor::State init = program::initial_state(built, 1);
        task.spec.contents.programs = {*context.node->put_content(tensor::encode(built.program))};
        task.spec.init_root = tensor::state_root(init);
        task.spec.contents.init = *context.node->put_content(*program::write_state(built.program, init));
        task.spec.data_roots = {*context.node->put_content(data.sets().front())};
        task.start_root = task.spec.init_root;
        claim.id = {1, 0, 0, 0};
        claim.state = ClaimState::working;
        claim.start_root = task.start_root;
        order.live = std::move(live);
        tensor::State state = init;
        tensor::Executor executor(built.program, tensor::arith::Backend::scalar, nullptr);
        roots = {tensor::state_root(state)};
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
            EXPECT_TRUE(executor.step(state, data, tensor::seed_tensor(claim.seed_beacon)));
            roots.push_back(tensor::state_root(state));
        }
    }
    ~ReadingTask() override { (void)Workspace::remove_all_but(options.datadir, {}); }
    [[nodiscard]] std::vector<std::uint64_t>& asked() {
        return contents.read[order.live->task.spec.data_roots.front()];
    }
    // The leaves that steps first to last read; 300 bytes from where each window begins lie in one.
    [[nodiscard]] static std::vector<std::uint64_t> leaves_of_steps(std::uint64_t first, std::uint64_t last) {
        std::vector<std::uint64_t> leaves;
        for (std::uint64_t step = first; step <= last; ++step)
            leaves.push_back((step - 1) * kWindowStride / kLeaf * kLeaf);
        return leaves;
    }
    void work(TrainingJobs& jobs, Board<TaskOrder, Trained>& board) {
        board.give({{order.id(), order}});
        board.wait(0, stop);
        while (board.facts(order).proof == nullptr)
            if (!jobs.work(1'000)) {
                if (contents.unreadable) return;
                board.wait(60'000, stop);  // until a checkpoint is in the store
            }
    }
    [[nodiscard]] TaskClaim proved(const chain::types::TaskProvePayload& proof) const {
        TaskClaim live = *order.live;
        live.claim.state = ClaimState::custody;
        live.claim.history_root = proof.history_root;
        live.claim.history_content = proof.history_content;
        return live;
    }
    [[nodiscard]] Context context_with(InputStore& store) {
        return {options,
                clock,
                store,
                stop,
                [this] { return std::make_unique<ContentNode>(contents); },
                std::make_unique<ContentNode>(contents),
                std::make_shared<ThreadPool>(2),
                std::make_unique<OsRng>()};
    }

    const program::BuiltProgram built = reading_program();
    const core::TaskPrograms programs = *core::TaskPrograms::make({built.program}, core::plain_body(kSteps));
    const tensor::MemoryData data{{random_bytes(kDataLeaves * kLeaf, 3)}};
    std::vector<Hash32> roots;
    Contents contents;
    WorkerOptions options;
    const SystemClock clock;
    InputStore inputs{InputLimits{}};
    std::atomic<bool> stop{false};
    Bell news;
    TaskOrder order;
    Context context = context_with(inputs);
};

TEST_F(ReadingTask, is_trained_with_the_leaves_that_its_steps_read) {
    Board<TaskOrder, Trained> board(news);
    TrainingJobs jobs(context, board);
    work(jobs, board);
    const Trained trained = board.facts(order);
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(*trained.history, roots);
    EXPECT_EQ(asked(), leaves_of_steps(1, kSteps));
    EXPECT_EQ(contents.asked[order.live->task.spec.data_roots.front()], 0);
}

TEST_F(ReadingTask, whose_data_go_missing_is_trained_on_from_the_last_checkpoint) {
    Board<TaskOrder, Trained> board(news);
    contents.when_read = [&] {
        if (asked().size() == kInterval + 1) board.wait(60'000, stop);  // the checkpoint is in the store
        if (asked().size() == kSteps) contents.unreadable = Error{kContentNotFound, {}};
    };
    TrainingJobs jobs(context, board);
    work(jobs, board);
    EXPECT_EQ(board.facts(order).proof, nullptr);
    EXPECT_EQ(board.facts(order).checkpoints.size(), 1U);
    contents.unreadable.reset();
    contents.when_read = nullptr;
    work(jobs, board);
    ASSERT_NE(board.facts(order).proof, nullptr);
    EXPECT_EQ(*board.facts(order).history, roots);
}

TEST_F(ReadingTask, whose_data_go_missing_is_replayed_when_they_are_there) {
    Board<TaskOrder, Trained> board(news);
    TrainingJobs jobs(context, board);
    work(jobs, board);
    const auto proof = board.facts(order).proof;
    ASSERT_NE(proof, nullptr);
    InputStore others{InputLimits{}};
    Context verifier = context_with(others);
    for (const std::uint64_t last : {1U, 2U, 4U}) {  // that is read before
        asked().clear();
        contents.when_read = [&] {
            if (asked().size() > last) contents.unreadable = Error{kContentNotFound, {}};
        };
        InputStore store{InputLimits{}};
        Context fresh = context_with(store);
        auto replay = Replay::begin(fresh, proved(*proof), {0, 1}, {}, {});
        ASSERT_TRUE(replay) << replay.error().to_string();
        const Status first = (*replay)->advance(Slice(fresh, 600'000));
        EXPECT_EQ(first.has_value(), last == kSteps);
        if (!first) {
            EXPECT_EQ(first.error().name, kContentNotFound);
        }
        contents.unreadable.reset();
        contents.when_read = nullptr;
        const Status second = (*replay)->advance(Slice(fresh, 600'000));
        ASSERT_TRUE(second) << second.error().to_string();
        EXPECT_TRUE((*replay)->done());
        EXPECT_EQ((*replay)->first_difference(), 0U);
        EXPECT_EQ((*replay)->history(), roots);
    }
    asked().clear();
    auto second_half = Replay::begin(verifier, proved(*proof), {1}, {}, {});
    ASSERT_TRUE(second_half);
    ASSERT_TRUE((*second_half)->advance(Slice(verifier, 600'000)));
    EXPECT_EQ(asked(), leaves_of_steps(3, 4)) << "a segment's data and no others";
}

}  // namespace
}  // namespace quern::compute::worker::test
