#include "vm/tensor/tensor.h"

#include <gtest/gtest.h>

#include <set>

#include "crypto/content_id.h"
#include "test_programs.h"
#include "vm/tensor/element_map.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor {
namespace {

Tensor counting(const Shape& shape) {
    Tensor tensor{DType::i32, shape, std::vector<std::uint32_t>(shape.elements())};
    for (std::size_t i = 0; i < tensor.words.size(); ++i) tensor.words[i] = static_cast<std::uint32_t>(i + 1);
    return tensor;
}

TEST(Shape, refuses_zero_and_oversized_dims_without_overflow) {
    EXPECT_TRUE((Shape{{1, 1, 1, 1}}.validate()));
    EXPECT_TRUE((Shape{{1, 1, 1U << 16, 1U << 15}}.validate()));
    EXPECT_FALSE((Shape{{1, 0, 1, 1}}.validate()));
    EXPECT_FALSE((Shape{{1, 1, 1U << 16, 1U << 16}}.validate()));
    EXPECT_FALSE((Shape{{1U << 31, 1U << 31, 1U << 31, 1U << 31}}.validate()));
    EXPECT_FALSE((Shape{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}.validate()));
    EXPECT_FALSE((Shape{{1U << 31, 1, 1, 0}}.validate()));
    EXPECT_EQ((Shape{{1, 2, 64, 256}}.to_string()), "[1,2,64,256]");
}

TEST(Tiles, numbers_and_positions_are_inverse) {
    const Shape shape{{2, 3, 65, 96}};
    EXPECT_EQ(shape.tiles(), 6U * 3 * 3);
    for (std::uint64_t tile = 0; tile < shape.tiles(); ++tile)
        EXPECT_EQ(tile_number(shape, tile_index(shape, tile)), tile);
    const TileIndex last = tile_index(shape, shape.tiles() - 1);
    EXPECT_EQ(last.leading, 5U);
    EXPECT_EQ(last.row, 2U);
    EXPECT_EQ(last.column, 2U);
}

TEST(Tiles, ragged_ones_are_padded_with_zeros_and_cover_every_word_once) {
    const Tensor tensor = counting({{2, 2, 33, 70}});
    std::set<std::uint32_t> seen;
    std::size_t padding = 0;
    for (std::uint64_t tile = 0; tile < tensor.shape.tiles(); ++tile) {
        for (const std::uint32_t word : read_tile(tensor, tile)) {
            if (word == 0)
                ++padding;
            else
                EXPECT_TRUE(seen.insert(word).second);
        }
    }
    EXPECT_EQ(seen.size(), tensor.words.size());
    EXPECT_EQ(padding, tensor.shape.tiles() * kTileWords - tensor.words.size());
    // Leading index 1, tile row 1, tile column 2: one row of 6 words.
    const Tile tile = read_tile(tensor, (1 * 2 + 1) * 3 + 2);
    EXPECT_EQ(tile[0], 33U * 70 + 32 * 70 + 64 + 1);
    EXPECT_EQ(tile[5], tile[0] + 5);
    EXPECT_EQ(tile[6], 0U);
    EXPECT_EQ(tile[32], 0U);
}

TEST(Tiles, of_one_row_are_1024_words_long) {
    const Tensor tensor = counting({{2, 3, 1, 2050}});
    EXPECT_EQ(tensor.shape.tiles(), 6U * 3);
    for (std::uint64_t tile = 0; tile < tensor.shape.tiles(); ++tile) {
        const TileIndex at = tile_index(tensor.shape, tile);
        EXPECT_EQ(at.row, 0U);
        EXPECT_EQ(tile_number(tensor.shape, at), tile);
        const Tile words = read_tile(tensor, tile);
        const std::uint64_t first = at.leading * 2050 + at.column * 1024;
        const std::uint64_t count = at.column == 2 ? 2 : 1024;
        for (std::uint64_t i = 0; i < kTileWords; ++i) {
            ASSERT_EQ(words[i], i < count ? first + i + 1 : 0) << "tile " << tile << " word " << i;
            const Coordinates place = tile_coordinates(tensor.shape, tile, static_cast<std::uint32_t>(i));
            EXPECT_EQ(is_inside(tensor.shape, place), i < count);
            if (i >= count) continue;
            EXPECT_EQ(logical_index(tensor.shape, place), first + i);
            EXPECT_EQ(tile_of(tensor.shape, place), tile);
            EXPECT_EQ(element_of(tensor.shape, place), i);
        }
    }
    // A vector fills its tiles; a column still takes one for 32 words.
    for (const std::uint32_t n : {1U, 1023U, 1024U, 1025U, 4096U}) {
        EXPECT_EQ((Shape{{1, 1, 1, n}}.tiles()), (n + 1023) / 1024);
        EXPECT_EQ((Shape{{1, 1, n, 1}}.tiles()), n == 1 ? 1U : (n + 31) / 32);
    }
}

TEST(Tiles, bytes_are_little_endian_and_of_one_size) {
    Tile tile{};
    tile[0] = 0x01020304;
    tile[1023] = 0xa0b0c0d0;
    const Bytes bytes = tile_bytes(tile);
    ASSERT_EQ(bytes.size(), 4096U);
    EXPECT_EQ(to_hex(BytesView(bytes).first(4)), "04030201");
    EXPECT_EQ(to_hex(BytesView(bytes).last(4)), "d0c0b0a0");
    EXPECT_EQ(tile_from_bytes(bytes).value(), tile);
    EXPECT_EQ(tile_from_bytes(BytesView(bytes).first(4095)).error().name, "tensor.bad_tile_size");
    EXPECT_EQ(tile_hash(tile), crypto::merkle_leaf(bytes));
}

TEST(Commitments, the_root_is_the_content_id_of_the_tiles_bytes) {
    for (const Shape shape : {Shape{}, Shape{{1, 1, 32, 32}}, Shape{{1, 1, 40, 40}}, Shape{{1, 1, 65, 1}},
                              Shape{{2, 2, 33, 70}}, Shape{{3, 1, 1, 5}}, Shape{{1, 7, 2, 65}}}) {
        Tensor tensor = counting(shape);
        Bytes bytes;
        for (std::uint64_t tile = 0; tile < shape.tiles(); ++tile) append(bytes, tile_bytes(read_tile(tensor, tile)));
        const Hash32 root = tensor_root(tensor);
        EXPECT_EQ(root, crypto::content_id_of(bytes)) << shape.to_string();
        EXPECT_EQ(root, tensor_root_of(tile_hashes(tensor)));
        // Every word counts; the type is for who has the program's record to know.
        tensor.words.back() ^= 1;
        EXPECT_NE(tensor_root(tensor), root);
        tensor.words.back() ^= 1;
        tensor.dtype = DType::f32;
        EXPECT_EQ(tensor_root(tensor), root);
    }
}

TEST(Commitments, a_tile_opens_to_the_root) {
    const Tensor tensor = counting({{3, 1, 70, 33}});
    const Hash32 root = tensor_root(tensor);
    const std::vector<Hash32> hashes = tile_hashes(tensor);
    for (const std::uint64_t tile : {0, 7, 17}) {
        const auto path = crypto::merkle_path(hashes, tile);
        const Hash32 hash = tile_hash(read_tile(tensor, tile));
        EXPECT_TRUE(crypto::check_tile_path(root, hash, tile, hashes.size(), path));
        EXPECT_EQ(crypto::check_tile_path(root, hash, tile ^ 1, hashes.size(), path).error().name,
                  "merkle.proof_mismatch");
    }
    // The number of tiles is in the root: 18 and 20 tiles give tile 0 a path of the same length.
    EXPECT_EQ(crypto::check_tile_path(root, hashes[0], 0, 20, crypto::merkle_path(hashes, 0)).error().name,
              "merkle.proof_mismatch");
}

TEST(Commitments, one_tile_by_hand) {
    // One word 0x3f800000: SHA-256 over the grammar of doc/verification.md, spelled out.
    const Tensor one{DType::f32, {}, {0x3f800000}};
    Bytes leaf(4096 + 1);
    leaf[2] = 0x80;
    leaf[3] = 0x3f;
    const Hash32 root = crypto::sha256({Bytes{0, 0, 0, 0, 0, 0, 0x10, 0}, crypto::sha256(leaf), Bytes{2}});
    EXPECT_EQ(tensor_root(one), root);
    EXPECT_EQ(state_root(std::vector{root}), crypto::sha256({Bytes{0, 0, 0, 0, 0, 0, 0, 1}, root, Bytes{4}}));
}

// Reads a view element by element.
std::vector<std::uint32_t> words_of(const View& view) {
    std::vector<std::uint32_t> words;
    const auto& d = view.shape.dims;
    for (std::uint32_t i = 0; i < d[0]; ++i)
        for (std::uint32_t j = 0; j < d[1]; ++j)
            for (std::uint32_t k = 0; k < d[2]; ++k)
                for (std::uint32_t l = 0; l < d[3]; ++l)
                    words.push_back(view.data[i * view.strides[0] + j * view.strides[1] + k * view.strides[2] +
                                              l * view.strides[3]]);
    return words;
}

// A random view of a dense tensor: permuted, sliced, some dims broadcast.
View random_view(test::Random& random, const Tensor& tensor) {
    View view = dense_view(tensor);
    for (std::size_t d = 3; d > 0; --d) {
        const std::size_t other = random.below(static_cast<std::uint32_t>(d + 1));
        std::swap(view.shape.dims[d], view.shape.dims[other]);
        std::swap(view.strides[d], view.strides[other]);
    }
    for (std::size_t d = 0; d < 4; ++d) {
        const std::uint32_t choice = random.below(4);
        std::uint32_t& dim = view.shape.dims[d];
        if (choice == 0) {
            const std::uint32_t start = random.below(dim);
            view.data += start * view.strides[d];
            dim = 1 + random.below(dim - start);
        } else if (choice == 1 && random.below(2) == 0) {
            view.strides[d] = 0;
        }
    }
    return view;
}

TEST(Views, copies_equal_element_by_element_reading) {
    test::Random random(41);
    ThreadPool pool(3);
    for (int round = 0; round < 600; ++round) {
        const Tensor tensor =
            counting({{1 + random.below(4), 1 + random.below(4), 1 + random.below(70), 1 + random.below(90)}});
        const View view = random_view(random, tensor);
        std::vector<std::uint32_t> copy(view.shape.elements());
        copy_view(view, copy.data(), dense_strides(view.shape), round % 2 == 0 ? &pool : nullptr);
        ASSERT_EQ(copy, words_of(view)) << round;
    }
}

TEST(Views, a_reshape_without_copy_reads_the_same_words) {
    test::Random random(42);
    int possible = 0;
    for (int round = 0; round < 2000; ++round) {
        const Tensor tensor = counting({{2, 3, 4, 6}});
        const View view = random_view(random, tensor);
        Shape to;
        std::uint64_t rest = view.shape.elements();
        for (std::size_t d = 0; d < 3; ++d) {
            std::uint32_t factor = 1 + random.below(6);
            while (rest % factor != 0) --factor;
            to.dims[d] = factor;
            rest /= factor;
        }
        to.dims[3] = static_cast<std::uint32_t>(rest);
        View reshaped{view.data, to, {}};
        if (!reshape_strides(view.shape, view.strides, to, reshaped.strides)) continue;
        ++possible;
        ASSERT_EQ(words_of(reshaped), words_of(view)) << view.shape.to_string() << " to " << to.to_string();
    }
    EXPECT_GT(possible, 200);
    Strides strides;
    EXPECT_TRUE(reshape_strides({{2, 3, 4, 6}}, dense_strides({{2, 3, 4, 6}}), {{1, 1, 24, 6}}, strides));
    EXPECT_FALSE(reshape_strides({{3, 2, 4, 6}}, {24, 72, 6, 1}, {{1, 1, 24, 6}}, strides));
}

TEST(Views, loop_nests_visit_every_element_in_order) {
    test::Random random(43);
    for (int round = 0; round < 500; ++round) {
        const Tensor tensor =
            counting({{1 + random.below(3), 1 + random.below(4), 1 + random.below(5), 1 + random.below(9)}});
        const View view = random_view(random, tensor);
        const LoopNest nest = make_loop_nest(view.shape, {&view.strides, 1});
        ASSERT_EQ(nest.rows() * nest.row_length, view.shape.elements());
        std::vector<std::uint32_t> words;
        for (std::size_t row = 0; row < nest.rows(); ++row)
            for (std::size_t i = 0; i < nest.row_length; ++i)
                words.push_back(view.data[nest.row_offset(0, row) + static_cast<std::ptrdiff_t>(i) * nest.inner[0]]);
        ASSERT_EQ(words, words_of(view));
    }
}

}  // namespace
}  // namespace quern::vm::tensor
