// Windows of data: what they read, what that costs, and how a leaf judges it.
#include "vm/tensor/data.h"

#include <gtest/gtest.h>

#include "crypto/content_id.h"
#include "test_programs.h"
#include "vm/tensor/tap.h"

namespace quern::vm::tensor {
namespace {

using test::Fill;

const std::vector<DataType> kTypes{DataType::f32, DataType::i32, DataType::u8, DataType::i8, DataType::u16};

__extension__ using Wide = unsigned __int128;

// Element `at` by its definition.
std::uint32_t element_of(const DataSet& data, const Bytes& bytes, Wide at) {
    if (at >= data.elements) return 0;
    const std::size_t size = element_bytes(data.type);
    std::int64_t value = 0;
    for (std::size_t b = 0; b < size; ++b)
        value |= static_cast<std::int64_t>(bytes[static_cast<std::size_t>(at) * size + b]) << (8 * b);
    if (data.type == DataType::i8 && value > 127) value -= 256;
    return static_cast<std::uint32_t>(value);
}

struct Windows {
    Program program;
    State state;
    MemoryData data;
};

// One window node with the given index, which a slot holds; slot 1 is what it gives.
Windows windows_of(const DataSet& data, const Shape& index_shape, std::vector<std::uint32_t> index,
                   std::uint32_t stride, std::uint32_t length) {
    test::Graph g;
    const DType dtype = word_type(data.type);
    const std::uint32_t at = g.add_slot("index", DType::i32, index_shape);
    const std::uint32_t window = g.window(at, 1, dtype, stride, length);
    g.add_slot("window", dtype, g.shape(window));
    g.update(1, window);
    g.add_slot("loss", DType::f32, {});
    g.finish({}, {data});
    Windows made{g.program, {}, test::random_data(g.program, 5)};
    for (const Slot& slot : g.program.slots)
        made.state.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements())});
    made.state[0].words = std::move(index);
    return made;
}

TEST(Window, holds_the_elements_from_index_times_stride_on_and_zero_beyond_the_end) {
    test::Random random(3);
    for (const DataType type : kTypes) {
        for (const std::uint32_t stride : {0U, 1U, 7U, 40U, 0xffffffffU}) {
            for (const std::uint32_t length : {1U, 33U, 40U, 20'000U}) {
                const DataSet data{type, 9'001};
                std::vector<std::uint32_t> index{0, 1, 9'000, 9'001, 0x7fffffff, 0x80000000, 0xffffffff};
                while (index.size() < 36) index.push_back(random.below(stride == 0 ? 100 : 9'001 / stride + 2));
                const Windows w = windows_of(data, {{2, 3, 6, 1}}, index, stride, length);
                ASSERT_TRUE(validate(w.program));
                ThreadPool pool(3);
                for (ThreadPool* const threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
                    State after = w.state;
                    ASSERT_TRUE(
                        Executor(w.program, arith::best_backend(), threads).step(after, w.data, test::test_seed()));
                    for (std::size_t row = 0; row < index.size(); ++row)
                        for (std::uint32_t c = 0; c < length; ++c)
                            ASSERT_EQ(after[1].words[row * length + c],
                                      element_of(data, w.data.sets()[1], static_cast<Wide>(index[row]) * stride + c))
                                << "type " << static_cast<int>(type) << " stride " << stride << " row " << row
                                << " column " << c;
                }
            }
        }
    }
}

TEST(Window, costs_the_hashing_of_each_tile_that_it_may_read) {
    const auto tiles = [](DataType type, const Shape& shape) {
        return window_tiles(Node{Op::window, {}, word_type(type), shape, {0}, 0, {0, 1}}, DataSet{type, 1});
    };
    EXPECT_EQ(tiles(DataType::u8, {{1, 1, 16, 1}}), 16U) << "an element lies in one";
    EXPECT_EQ(tiles(DataType::u8, {{1, 1, 16, 2}}), 32U);
    EXPECT_EQ(tiles(DataType::u8, {{2, 3, 5, 4'097}}), 60U);
    EXPECT_EQ(tiles(DataType::u8, {{1, 1, 1, 4'098}}), 3U);
    EXPECT_EQ(tiles(DataType::u16, {{1, 1, 1, 2'049}}), 2U);
    EXPECT_EQ(tiles(DataType::u16, {{1, 1, 1, 2'050}}), 3U);
    EXPECT_EQ(tiles(DataType::i32, {{1, 1, 1, 1'025}}), 2U);

    const Windows w = windows_of({DataType::u8, 100'000}, {{1, 1, 16, 1}}, std::vector<std::uint32_t>(16), 64, 65);
    EXPECT_EQ(w.program.header.sizes.window_bytes, 32U * kTileBytes);
    // 16 x 65 words at 8 and 16 indices at 128, and the tiles.
    EXPECT_EQ(w.program.header.work_units, (8U * 16 * 65 + 128 * 16 + 511) / 512 + 32 * kTileHashWork);
    Program cheap = w.program;
    cheap.header.sizes.window_bytes += kTileBytes;
    EXPECT_EQ(check_header(cheap.header).error().name, "program.wrong_sizes");
}

TEST(Window, is_refused_unless_index_and_output_fit) {
    const DataSet data{DataType::u8, 100};
    ProgramHeader header;
    header.data = {data};
    const Node good{Op::window, {}, DType::i32, {{2, 3, 4, 5}}, {0}, 0, {0, 9}};
    const OperandType index{DType::i32, {{2, 3, 4, 1}}};
    const auto error_of = [&](const Node& node, const OperandType& operand) {
        const Status status = check_node(node, std::vector<OperandType>{operand}, header);
        return status ? std::string_view("none") : status.error().name;
    };
    EXPECT_EQ(error_of(good, index), "none");
    EXPECT_EQ(error_of(good, {DType::f32, index.shape}), "program.bad_dtype");
    EXPECT_EQ(error_of(good, {DType::i32, {{2, 3, 1, 4}}}), "program.bad_shape");
    Node other = good;
    other.dtype = DType::f32;
    EXPECT_EQ(error_of(other, index), "program.bad_dtype");
    other = good;
    other.attributes[0] = 1;
    EXPECT_EQ(error_of(other, index), "program.bad_attribute");
}

// Serves what a tapped run read, and nothing else.
class Witness final : public TileSource {
public:
    explicit Witness(const TappedLeaf& leaf) : leaf_(leaf) {}
    const Tile* tile(const TileRead& read) const override {
        for (const auto& [key, tile] : leaf_.tiles)
            if (key == read) return &tile;
        return nullptr;
    }

private:
    const TappedLeaf& leaf_;
};

TEST(Window, leaves_read_the_index_and_one_tile_of_the_data) {
    const test::Execution run = test::run_every_op(Fill::moderate);
    const Program& program = run.program;
    const MemoryData data = test::random_data(program, 12);
    const State state = test::random_state(program, 11, Fill::moderate);
    std::size_t windows = 0;
    std::size_t of_data = 0;
    Executor executor(program, arith::best_backend(), nullptr);
    executor.run_tapped(state, data, test::test_seed(), [&](const TappedNode& tapped) {
        const Node& node = *tapped.node;
        if (node.op != Op::window) return;
        ++windows;
        const auto types = test::operand_types(program, node);
        ASSERT_EQ(micro_step_count(node, types), 1U);
        const std::uint64_t tiles = node.shape.tiles();
        for (std::uint64_t tile = 0; tile < tiles; tile += 1 + tiles / 8) {
            const Tile wanted = read_tile(tapped.output, tile);
            for (std::uint32_t element = 0; element < kTileWords; element += 3) {
                const LeafTarget target{tile, 0, 0, element};
                const auto leaf = evaluate_leaf(tapped, program.header, target, initial_micro_state(node), data);
                ASSERT_TRUE(leaf) << leaf.error().to_string();
                ASSERT_EQ(leaf->value, wanted[element]);
                ASSERT_LE(leaf->tiles.size(), kMaxLeafTiles);
                const auto judged =
                    evaluate_leaf(node, program.header, types, target, initial_micro_state(node), Witness(*leaf));
                ASSERT_TRUE(judged);
                ASSERT_EQ(*judged, wanted[element]);
                if (leaf->tiles.size() < 2) continue;
                ++of_data;
                TappedLeaf less = *leaf;
                less.tiles.pop_back();
                EXPECT_EQ(evaluate_leaf(node, program.header, types, target, initial_micro_state(node), Witness(less))
                              .error()
                              .name,
                          "leaf.missing_tile");
            }
        }
    });
    EXPECT_GT(windows, 8U);
    EXPECT_GT(of_data, 1'000U);
}

TEST(Data, tiles_are_those_of_the_content) {
    for (const DataType type : kTypes) {
        const DataSet data{type, 5'001};
        test::Random random(9);
        Bytes bytes(data_bytes(data));
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
        const MemoryData source({bytes});
        const std::uint64_t tiles = data_tiles(data);
        EXPECT_EQ(tiles, (bytes.size() + 4'095) / 4'096);
        std::size_t size = 0;
        for (std::uint64_t tile = 0; tile < tiles; ++tile) {
            const auto part = read_data_tile(data, source, 0, tile);
            ASSERT_TRUE(part);
            const auto path = source.tile_path(0, tile);
            ASSERT_TRUE(path);
            const auto top = crypto::merkle_top_from_path(crypto::merkle_leaf(*part), tile, tiles, *path);
            ASSERT_TRUE(top);
            EXPECT_EQ(crypto::bytes_id(bytes.size(), *top), crypto::content_id_of(bytes));
            const Tile packed = pack_data_tile(*part);
            for (std::uint64_t i = 0; i < part->size() / element_bytes(type); ++i)
                ASSERT_EQ(data_word(type, packed, i), element_of(data, bytes, size / element_bytes(type) + i));
            size += part->size();
        }
        EXPECT_EQ(size, bytes.size());
        EXPECT_FALSE(read_data_tile(data, source, 0, tiles));
        EXPECT_FALSE(source.tile_path(0, tiles));
        EXPECT_FALSE(source.tile_path(1, 0));
    }
}

// A source that has only the first tile.
class OneTile final : public DataSource {
public:
    bool read(std::size_t, std::uint64_t first, std::span<std::uint8_t> out) const override {
        std::fill(out.begin(), out.end(), std::uint8_t{1});
        return first + out.size() <= kTileBytes;
    }
    std::optional<std::vector<Hash32>> tile_path(std::size_t, std::uint64_t) const override { return std::nullopt; }
};

TEST(Data, that_a_source_has_not_end_the_run) {
    for (const std::uint32_t first : {0U, 100U}) {
        const Windows w = windows_of({DataType::u8, 10'000}, {{1, 1, 1, 1}}, {first}, 64, 65);
        Executor executor(w.program, arith::Backend::scalar, nullptr);
        State state = w.state;
        EXPECT_EQ(executor.step(state, OneTile(), test::test_seed()), first == 0);
        State tapped = w.state;
        EXPECT_EQ(executor.step_tapped(tapped, OneTile(), test::test_seed(), [](const TappedNode&) {}), first == 0);
        EXPECT_EQ(executor.run_tapped(w.state, OneTile(), test::test_seed(), [](const TappedNode&) {}), first == 0);
    }
}

}  // namespace
}  // namespace quern::vm::tensor
