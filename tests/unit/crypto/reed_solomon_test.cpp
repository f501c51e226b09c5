#include "crypto/reed_solomon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"

namespace quern::crypto {
namespace {

using Cells = std::vector<Bytes>;

Cells random_cells(unsigned count, std::size_t bytes) {
    Cells cells(count, Bytes(bytes));
    SeededRng rng(count * 1'000 + bytes);
    for (Bytes& cell : cells) rng.fill(cell);
    return cells;
}

enum class By { engine, table };
Cells mapped(const CellMap& map, const Cells& given, std::size_t wanted, By by = By::engine) {
    const std::vector<BytesView> from(given.begin(), given.end());
    Cells made(wanted, Bytes(given.front().size(), 0xee));
    const std::vector<std::span<std::uint8_t>> to(made.begin(), made.end());
    if (by == By::engine)
        map.apply(from, to);
    else
        map.apply_by_table(from, to);
    return made;
}

std::vector<unsigned> cells_from(unsigned first, unsigned end) {
    std::vector<unsigned> cells(end - first);
    std::iota(cells.begin(), cells.end(), first);
    return cells;
}

// All n cells of these data.
Cells encoded(CellCode code, const Cells& data) {
    const auto map = CellMap::make(code, cells_from(0, code.data), cells_from(0, code.total));
    return mapped(map.value(), data, code.total);
}

// The field by its definition, bit by bit.
unsigned product(unsigned a, unsigned b) {
    unsigned sum = 0;
    for (; b != 0; b >>= 1) {
        if ((b & 1) != 0) sum ^= a;
        a <<= 1;
        if ((a & 0x100) != 0) a ^= 0x11d;
    }
    return sum;
}
unsigned inverse(unsigned a) {
    unsigned b = 1;
    while (product(a, b) != 1) ++b;
    return b;
}

TEST(ReedSolomon, cells_are_what_the_definition_says) {
    for (const CellCode code : {CellCode{1, 3}, CellCode{2, 4}, CellCode{3, 5}, CellCode{20, 64}}) {
        const Cells data = random_cells(code.data, 70);
        const Cells all = encoded(code, data);
        for (unsigned i = 0; i < code.total; ++i) {
            for (std::size_t at = 0; at < 70; ++at) {
                unsigned expected = 0;
                for (unsigned j = 0; j < code.data; ++j)
                    expected ^= i < code.data ? (i == j ? data[j][at] : 0U) : product(data[j][at], inverse(i ^ j));
                ASSERT_EQ(all[i][at], expected) << code.data << " of " << code.total << ", cell " << i;
            }
        }
    }
}

TEST(ReedSolomon, both_engines_make_the_same_cells_of_any_length) {
    const CellCode code{4, 12};
    const auto map = CellMap::make(code, cells_from(0, 4), cells_from(4, 12)).value();
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17},
                                    std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{127},
                                    std::size_t{1'000}, std::size_t{4'097}, std::size_t{16'384}}) {
        const Cells data = random_cells(4, bytes);
        EXPECT_EQ(mapped(map, data, 8), mapped(map, data, 8, By::table)) << reed_solomon_engine() << ' ' << bytes;
    }
}

TEST(ReedSolomon, any_k_cells_give_all_others) {
    for (unsigned total = 1; total <= 9; ++total) {
        for (unsigned data = 1; data <= total; ++data) {
            const CellCode code{data, total};
            const Cells all = encoded(code, random_cells(data, 33));
            for (unsigned choice = 0; choice < 1U << total; ++choice) {
                std::vector<unsigned> given;
                Cells cells;
                for (unsigned i = 0; i < total; ++i) {
                    if ((choice >> i & 1U) == 0) continue;
                    given.push_back(i);
                    cells.push_back(all[i]);
                }
                if (given.size() != data) continue;
                const auto map = CellMap::make(code, given, cells_from(0, total));
                ASSERT_TRUE(map);
                ASSERT_EQ(mapped(*map, cells, total), all) << data << " of " << total << ", choice " << choice;
            }
        }
    }
}

TEST(ReedSolomon, any_order_and_choice_of_the_largest_code_does) {
    SeededRng rng(11);
    for (const unsigned data : {1U, 2U, 21U, 32U, 63U, 64U}) {
        const CellCode code{data, kMaxCodeCells};
        const Cells all = encoded(code, random_cells(data, 40));
        for (int round = 0; round < 20; ++round) {
            std::vector<unsigned> given = cells_from(0, kMaxCodeCells);
            for (std::size_t i = given.size(); i > 1; --i) std::swap(given[i - 1], given[rng.below(i)]);
            given.resize(data);
            Cells cells;
            for (const unsigned each : given) cells.push_back(all[each]);
            const auto map = CellMap::make(code, given, cells_from(0, kMaxCodeCells));
            ASSERT_EQ(mapped(map.value(), cells, kMaxCodeCells), all) << data;
        }
    }
}

TEST(ReedSolomon, refuses_codes_and_cells_that_are_none) {
    const auto refusal = [](CellCode code, std::vector<unsigned> given, std::vector<unsigned> wanted) {
        const auto map = CellMap::make(code, given, wanted);
        return map ? std::string_view("none") : map.error().name;
    };
    EXPECT_EQ(refusal({0, 3}, {}, {}), "code.bad_shape");
    EXPECT_EQ(refusal({4, 3}, {0, 1, 2, 3}, {}), "code.bad_shape");
    EXPECT_EQ(refusal({1, kMaxCodeCells + 1}, {0}, {}), "code.bad_shape");
    EXPECT_EQ(refusal({2, 4}, {0}, {}), "code.bad_cells");
    EXPECT_EQ(refusal({2, 4}, {0, 1, 2}, {}), "code.bad_cells");
    EXPECT_EQ(refusal({2, 4}, {1, 1}, {}), "code.bad_cells");
    EXPECT_EQ(refusal({2, 4}, {1, 4}, {}), "code.bad_cells");
    EXPECT_EQ(refusal({2, 4}, {1, 3}, {4}), "code.bad_cells");
    EXPECT_EQ(refusal({2, 4}, {3, 1}, {}), "none");
}

}  // namespace
}  // namespace quern::crypto
