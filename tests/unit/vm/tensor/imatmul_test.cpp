// Products of bytes against a reference that is no code of the machine's: 64-bit sums, and one binary32 addition a
// strip.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "test_programs.h"
#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/element_map.h"
#include "vm/tensor/leaf.h"

namespace quern::vm::tensor {
namespace {

using test::Random;

// 0 to 255 with the sign of a byte.
std::int64_t byte_of(std::uint32_t word) {
    const auto low = static_cast<std::int64_t>(word % 256);
    return low < 128 ? low : low - 256;
}

// Of binary32's exponent field alone.
double scale_of(std::uint32_t word) {
    const int field = static_cast<int>(word / 0x800000U % 256);
    if (field == 255) return std::nan("");
    return std::ldexp(1.0, std::min(std::max(field - 127, -60), 52));
}

struct Operand {
    Tensor bytes;
    Tensor scales;
    bool inner_is_rows = false;

    [[nodiscard]] std::uint64_t place(const Tensor& tensor, const Coordinates& at, std::uint64_t line,
                                      std::uint64_t inner) const {
        Coordinates to{tensor.shape.dims[0] == 1 ? 0 : at[0], tensor.shape.dims[1] == 1 ? 0 : at[1], 0, 0};
        to[inner_is_rows ? 2 : 3] = inner;
        to[inner_is_rows ? 3 : 2] = line;
        return ((to[0] * tensor.shape.dims[1] + to[1]) * tensor.shape.dims[2] + to[2]) * tensor.shape.dims[3] + to[3];
    }
};

std::uint32_t expected_word(const Operand& a, const Operand& b, const Coordinates& at, std::uint64_t inner) {
    float total = 0;
    for (std::uint64_t first = 0; first < inner; first += 256) {
        std::int64_t sum = 0;
        for (std::uint64_t k = first; k < std::min<std::uint64_t>(inner, first + 256); ++k)
            sum += byte_of(a.bytes.words[a.place(a.bytes, at, at[2], k)]) *
                   byte_of(b.bytes.words[b.place(b.bytes, at, at[3], k)]);
        const double scale = scale_of(a.scales.words[a.place(a.scales, at, at[2], first / 256)]) *
                             scale_of(b.scales.words[b.place(b.scales, at, at[3], first / 256)]);
        total += static_cast<float>(static_cast<double>(sum) * scale);  // the product is exact in both
    }
    return total != total ? 0x7fc00000U : std::bit_cast<std::uint32_t>(total);
}

std::uint32_t any_scale(Random& random) {
    static constexpr std::uint32_t kSpecial[] = {0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x7f7fffff,
                                                 0xff7fffff, 0x21000000, 0x217fffff, 0x59800000, 0x5a000000};
    const std::uint64_t bits = random.next();
    if (bits >> 61 == 0) return kSpecial[(bits >> 8) % std::size(kSpecial)];
    if (bits >> 54 == 255) return 0x7f800000U | static_cast<std::uint32_t>(bits & 0x807fffffU);  // no number
    return static_cast<std::uint32_t>((bits & 0x807fffffU) | (110U + (bits >> 32 & 31U)) << 23);
}

Operand random_operand(Random& random, const Shape& shape, bool inner_is_rows) {
    Operand made{{DType::i32, shape, {}}, {DType::f32, strips_of(shape, inner_is_rows ? 2 : 3), {}}, inner_is_rows};
    for (std::uint64_t i = 0; i < shape.elements(); ++i) {
        const auto word = static_cast<std::uint32_t>(random.next() >> 32);
        made.bytes.words.push_back(word % 7 == 0 ? word | 0x80U : word);  // some -128, and any high bits
    }
    for (std::uint64_t i = 0; i < made.scales.shape.elements(); ++i) made.scales.words.push_back(any_scale(random));
    return made;
}

struct Product {
    Program program;
    State state;
};

Product product_of(const Operand& a, const Operand& b) {
    test::Graph g;
    Product made;
    const auto add = [&](const std::string& name, const Tensor& tensor) {
        made.state.push_back(tensor);
        return g.add_slot(name, tensor.dtype, tensor.shape);
    };
    const test::Graph::Scaled left{add("a", a.bytes), add("scales_a", a.scales)};
    const test::Graph::Scaled right{add("b", b.bytes), add("scales_b", b.scales)};
    const std::uint32_t product = g.imatmul(left, right, a.inner_is_rows, !b.inner_is_rows);
    g.add_slot("product", DType::f32, g.shape(product));
    g.update(4, product);
    g.add_slot("loss", DType::f32, {});
    for (std::size_t slot : {4U, 5U})
        made.state.push_back({DType::f32, g.program.slots[slot].shape,
                              std::vector<std::uint32_t>(g.program.slots[slot].shape.elements())});
    g.finish({});
    made.program = g.program;
    return made;
}

void expect_reference(const Operand& a, const Operand& b, std::uint64_t inner) {
    const Product given = product_of(a, b);
    ASSERT_TRUE(validate(given.program));
    const Shape& shape = given.program.slots[4].shape;
    std::vector<std::uint32_t> wanted;
    for (std::uint64_t i = 0; i < shape.elements(); ++i)
        wanted.push_back(expected_word(a, b, coordinates_of(shape, i), inner));
    for (const arith::Backend backend : arith::kBackends) {
        if (!arith::available(backend)) continue;
        State state = given.state;
        Executor(given.program, backend, nullptr).step(state, MemoryData{}, test::test_seed());
        ASSERT_EQ(state[4].words, wanted)
            << arith::name(backend) << " " << a.bytes.shape.to_string() << " by " << b.bytes.shape.to_string();
    }
}

TEST(Imatmul, is_exact_within_a_strip_and_rounds_once_for_each) {
    Random random(71);
    for (const std::uint32_t k : {1U, 3U, 4U, 31U, 32U, 33U, 63U, 255U, 256U, 257U, 288U, 512U, 600U})
        for (const bool rows_a : {false, true})
            for (const bool rows_b : {false, true}) {
                const std::uint32_t m = 1 + random.below(40);
                const std::uint32_t n = 1 + random.below(70);
                const Shape a = rows_a ? Shape{{1, 1, k, m}} : Shape{{1, 1, m, k}};
                const Shape b = rows_b ? Shape{{1, 1, k, n}} : Shape{{1, 1, n, k}};
                expect_reference(random_operand(random, a, rows_a), random_operand(random, b, rows_b), k);
                if (testing::Test::HasFatalFailure()) return;
            }
}

TEST(Imatmul, leading_dims_are_broadcast_with_their_scales) {
    Random random(72);
    for (const auto& [a, b] : {std::pair{Shape{{2, 3, 5, 300}}, Shape{{2, 3, 300, 7}}},
                               std::pair{Shape{{2, 3, 5, 300}}, Shape{{1, 1, 300, 7}}},
                               std::pair{Shape{{1, 3, 5, 300}}, Shape{{2, 1, 300, 7}}},
                               std::pair{Shape{{2, 3, 1, 300}}, Shape{{1, 1, 300, 7}}},
                               std::pair{Shape{{2, 1, 5, 300}}, Shape{{2, 3, 300, 7}}}}) {
        expect_reference(random_operand(random, a, false), random_operand(random, b, true), 300);
        if (testing::Test::HasFatalFailure()) return;
    }
}

// One element: bytes of one value each, scales as given.
std::uint32_t single(std::uint32_t a, std::uint32_t b, std::vector<std::uint32_t> scales_a,
                     std::vector<std::uint32_t> scales_b, std::uint32_t k, arith::Backend backend) {
    const std::vector<std::uint32_t> left(k, a);
    const std::vector<std::uint32_t> right(k, b);
    std::uint32_t out = 0;
    arith::kernels(backend).imatmul(1, 1, k, {left.data(), k, 1}, {scales_a.data(), 1, 1}, {right.data(), 1, 1},
                                    {scales_b.data(), 1, 1}, &out, 1);
    return out;
}

TEST(Imatmul, reads_bytes_and_exponents_alone_and_clamps_them) {
    for (const arith::Backend backend : arith::kBackends) {
        if (!arith::available(backend)) continue;
        const auto of_scale = [&](std::uint32_t scale) { return single(1, 1, {scale}, {0x3f800000}, 1, backend); };
        EXPECT_EQ(of_scale(0xbfffffff), 0x3f800000U) << arith::name(backend);  // the sign and the fraction are nothing
        EXPECT_EQ(of_scale(0x00000000), 0x21800000U);                          // 2^-60
        EXPECT_EQ(of_scale(0x807fffff), 0x21800000U);
        EXPECT_EQ(of_scale(0x21000000), 0x21800000U);
        EXPECT_EQ(of_scale(0x22000000), 0x22000000U);
        EXPECT_EQ(of_scale(0x59800000), 0x59800000U);  // 2^52
        EXPECT_EQ(of_scale(0x5a000000), 0x59800000U);
        EXPECT_EQ(of_scale(0x7f7fffff), 0x59800000U);
        for (const std::uint32_t none : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xffffffffU})
            EXPECT_EQ(of_scale(none), 0x7fc00000U);
        EXPECT_EQ(single(0, 0, {0x7f800000}, {0x3f800000}, 1, backend), 0x7fc00000U);  // a scale shows without bytes
        EXPECT_EQ(single(0x7fffff80, 0x12345680, {0x3f800000}, {0x3f800000}, 256, backend), 0x4a800000U);  // 2^22
        EXPECT_EQ(single(0x80, 0x7f, {0x3f800000}, {0x3f800000}, 256, backend), 0xca7e0000U);
        // The largest strip is 2^126; four of them are above all numbers, and with those of the other sign none.
        const std::vector<std::uint32_t> large(5, 0x59800000);
        EXPECT_EQ(single(0x80, 0x80, large, large, 256, backend), 0x7e800000U);
        EXPECT_EQ(single(0x80, 0x80, large, large, 512, backend), 0x7f000000U);
        EXPECT_EQ(single(0x80, 0x80, large, large, 1024, backend), 0x7f800000U);
        // The smallest that is no zero: 2^-120.
        EXPECT_EQ(single(1, 1, {0}, {0}, 1, backend), 0x03800000U);
        EXPECT_EQ(single(1, 0xff, {0}, {0}, 1, backend), 0x83800000U);
    }
}

// 2^24 + 1 + 1 is 2^24 in binary32, and 2^24 + 2 + 1 is 2^24 + 4: in another order the first would be 2^24 + 2.
TEST(Imatmul, adds_strips_in_order) {
    for (const arith::Backend backend : arith::kBackends) {
        if (!arith::available(backend)) continue;
        std::vector<std::uint32_t> a(768, 0);
        std::vector<std::uint32_t> b(768, 1);
        a[0] = 64;  // by 2^18
        a[256] = 1;
        a[512] = 1;
        const std::vector<std::uint32_t> scales{0x48800000, 0x3f800000, 0x3f800000};
        const std::vector<std::uint32_t> ones(3, 0x3f800000);
        std::uint32_t out = 0;
        arith::kernels(backend).imatmul(1, 1, 768, {a.data(), 768, 1}, {scales.data(), 3, 1}, {b.data(), 1, 1},
                                        {ones.data(), 1, 1}, &out, 1);
        EXPECT_EQ(out, 0x4b800000U) << arith::name(backend);
        a[257] = 1;
        arith::kernels(backend).imatmul(1, 1, 768, {a.data(), 768, 1}, {scales.data(), 3, 1}, {b.data(), 1, 1},
                                        {ones.data(), 1, 1}, &out, 1);
        EXPECT_EQ(out, 0x4b800002U) << arith::name(backend);
    }
}

// Of two strips of 256 and 8: eight micro-steps and the scales, one and the scales.
TEST(Imatmul, has_a_micro_step_for_each_tile_and_for_each_strips_scales) {
    Random random(73);
    const Operand a = random_operand(random, {{1, 1, 3, 264}}, false);
    const Operand b = random_operand(random, {{1, 1, 264, 2}}, true);
    const Product given = product_of(a, b);
    const Node& node = given.program.nodes[given.program.updates[4]];
    const std::vector<const Tensor*> inputs{&a.bytes, &a.scales, &b.bytes, &b.scales};
    const std::vector<MicroState> trace = micro_trace(node, inputs, 0);
    ASSERT_EQ(trace.size(), 11U);
    std::int64_t sum = 0;
    for (std::size_t step = 0; step < trace.size(); ++step) {
        const bool scales = step == 8 || step == 10;
        if (scales) sum = 0;
        for (std::uint64_t k = 32 * step; !scales && k < std::min<std::uint64_t>(32 * step + 32, 256); ++k)
            sum += byte_of(a.bytes.words[k]) * byte_of(b.bytes.words[2 * k]);
        for (std::uint64_t k = 256; step == 9 && k < 264; ++k)
            sum += byte_of(a.bytes.words[k]) * byte_of(b.bytes.words[2 * k]);
        EXPECT_EQ(static_cast<std::int32_t>(trace[step].accumulators[1][0]), sum) << "micro-step " << step;
        if (step < 8) {
            EXPECT_EQ(trace[step].accumulators[0][0], 0U);
        }
        // The padding of the tile stays 0.
        EXPECT_EQ(trace[step].accumulators[0][2], 0U);
        EXPECT_EQ(trace[step].accumulators[1][3 * kTileSide], 0U);
    }
    EXPECT_EQ(trace[10].accumulators[0][0], expected_word(a, b, {0, 0, 0, 0}, 264));
}

// Each word that a leaf has of its tiles decides: the line of bytes in one micro-step, one scale of each in the other.
TEST(Imatmul, a_leaf_reads_its_lines_and_its_scales_and_nothing_else) {
    Random random(74);
    Operand a = random_operand(random, {{1, 1, 40, 300}}, false);
    Operand b = random_operand(random, {{1, 1, 300, 33}}, true);
    for (Operand* each : {&a, &b})
        for (std::uint32_t& scale : each->scales.words) scale = 0x3f800000;
    for (Operand* each : {&a, &b})
        for (std::uint32_t& word : each->bytes.words) word |= 1;  // none is zero
    const Product given = product_of(a, b);
    const Node& node = given.program.nodes[given.program.updates[4]];
    const std::vector<const Tensor*> inputs{&a.bytes, &a.scales, &b.bytes, &b.scales};
    const auto types = test::operand_types(given.program, node);
    const std::uint64_t tile = 2;  // rows from 32 on, columns 0 to 31
    const std::vector<MicroState> trace = micro_trace(node, inputs, tile);
    ASSERT_EQ(trace.size(), 12U);
    for (const std::uint64_t step : {std::uint64_t{3}, std::uint64_t{8}, std::uint64_t{10}, std::uint64_t{11}}) {
        const bool scales = step == 8 || step == 11;
        const LeafTarget target{tile, step, scales ? 0U : 1U, 3 * kTileSide + 5};
        const std::vector<TileRead> reads = leaf_reads(node, inputs, target);
        ASSERT_EQ(reads.size(), 2U);
        EXPECT_EQ(reads[0].operand, scales ? 1U : 0U);
        EXPECT_EQ(reads[1].operand, scales ? 3U : 2U);
        for (std::size_t changed = 0; changed < reads.size(); ++changed) {
            std::size_t deciding = 0;
            for (std::uint32_t word = 0; word < kTileWords; ++word) {
                class Tiles final : public TileSource {
                public:
                    std::vector<std::pair<TileRead, Tile>> tiles;
                    [[nodiscard]] const Tile* tile(const TileRead& read) const override {
                        for (const auto& [key, content] : tiles)
                            if (key == read) return &content;
                        return nullptr;
                    }
                } source;
                for (const TileRead& read : reads)
                    source.tiles.emplace_back(read, read_tile(*inputs[read.operand], read.tile));
                source.tiles[changed].second[word] ^= scales ? 0x00800000U : 0x40U;
                const auto value = evaluate_leaf(node, given.program.header, types, target, trace[step - 1], source);
                ASSERT_TRUE(value);
                deciding += *value != trace[step].accumulators[target.accumulator][target.element] ? 1 : 0;
            }
            EXPECT_EQ(deciding, scales ? 1U : step == 10 ? 12U : 32U) << "micro-step " << step;
        }
    }
}

}  // namespace
}  // namespace quern::vm::tensor
