#include "crypto/reed_solomon.h"

#ifdef QUERN_HAVE_ISAL
#include <isa-l/erasure_code.h>
#endif

#include <algorithm>
#include <array>

#include "base/ensure.h"

namespace quern::crypto {
namespace {

// --- The field -------------------------------------------------------------------------------------------------------
constexpr unsigned kPolynomial = 0x11d;
constexpr unsigned kNonZero = 255;  // elements, which are the powers of x

struct Field {
    std::array<std::uint8_t, 2 * kNonZero> power{};  // of x; twice around, so that two logarithms can be added
    std::array<std::uint8_t, 256> logarithm{};

    constexpr Field() {
        unsigned value = 1;
        for (unsigned i = 0; i < kNonZero; ++i) {
            power[i] = power[i + kNonZero] = static_cast<std::uint8_t>(value);
            logarithm[value] = static_cast<std::uint8_t>(i);
            value <<= 1;
            if (value > 255) value ^= kPolynomial;
        }
    }
    [[nodiscard]] constexpr std::uint8_t product(std::uint8_t a, std::uint8_t b) const {
        return a == 0 || b == 0 ? std::uint8_t{0} : power[logarithm[a] + logarithm[b]];
    }
    [[nodiscard]] constexpr std::uint8_t inverse(std::uint8_t a) const { return power[kNonZero - logarithm[a]]; }
};
constexpr Field kField;

// --- Matrices --------------------------------------------------------------------------------------------------------
// Row by row, k columns.
using Matrix = Bytes;

std::span<std::uint8_t> row_of(Matrix& matrix, std::size_t columns, std::size_t row) {
    return std::span(matrix).subspan(row * columns, columns);
}
// target += factor * source
void add_multiple(std::span<std::uint8_t> target, std::uint8_t factor, BytesView source) {
    for (std::size_t i = 0; i < target.size(); ++i) target[i] ^= kField.product(factor, source[i]);
}
void scale(std::span<std::uint8_t> row, std::uint8_t factor) {
    for (auto& each : row) each = kField.product(factor, each);
}

// What cell `i` is made of.
void write_code_row(CellCode code, unsigned i, std::span<std::uint8_t> row) {
    for (unsigned j = 0; j < code.data; ++j) {
        if (i < code.data)
            row[j] = i == j ? 1 : 0;
        else
            row[j] = kField.inverse(static_cast<std::uint8_t>(i ^ j));
    }
}

// Gauss and Jordan's way. Each choice of rows of the code has an inverse.
Matrix inverse_of(Matrix matrix, std::size_t size) {
    Matrix inverse(size * size);
    for (std::size_t i = 0; i < size; ++i) inverse[i * size + i] = 1;
    for (std::size_t column = 0; column < size; ++column) {
        std::size_t pivot = column;
        while (pivot < size && matrix[pivot * size + column] == 0) ++pivot;
        ensure(pivot < size, "rows of the code have an inverse");
        if (pivot != column) {
            for (Matrix* each : {&matrix, &inverse}) {
                const auto row = row_of(*each, size, pivot);
                std::swap_ranges(row.begin(), row.end(), row_of(*each, size, column).begin());
            }
        }
        const std::uint8_t factor = kField.inverse(matrix[column * size + column]);
        scale(row_of(matrix, size, column), factor);
        scale(row_of(inverse, size, column), factor);
        for (std::size_t row = 0; row < size; ++row) {
            const std::uint8_t here = matrix[row * size + column];
            if (row == column || here == 0) continue;
            add_multiple(row_of(matrix, size, row), here, row_of(matrix, size, column));
            add_multiple(row_of(inverse, size, row), here, row_of(inverse, size, column));
        }
    }
    return inverse;
}

Status check_cells(CellCode code, std::span<const unsigned> given, std::span<const unsigned> wanted) {
    if (!code.is_valid())
        return fail("code.bad_shape", std::to_string(code.data) + " of " + std::to_string(code.total) + " cells");
    if (given.size() != code.data) return fail("code.bad_cells", std::to_string(given.size()) + " are given");
    std::array<bool, kMaxCodeCells> seen{};
    for (const unsigned each : given) {
        if (each >= code.total || seen[each]) return fail("code.bad_cells", "given " + std::to_string(each));
        seen[each] = true;
    }
    for (const unsigned each : wanted)
        if (each >= code.total) return fail("code.bad_cells", "wanted " + std::to_string(each));
    return {};
}

}  // namespace

Expected<CellMap> CellMap::make(CellCode code, std::span<const unsigned> given, std::span<const unsigned> wanted) {
    QUERN_CHECK(check_cells(code, given, wanted));
    const std::size_t k = code.data;
    Matrix rows(k * k);
    for (std::size_t i = 0; i < k; ++i) write_code_row(code, given[i], row_of(rows, k, i));
    Matrix data_of_given = inverse_of(std::move(rows), k);
    CellMap map;
    map.given_ = k;
    map.wanted_ = wanted.size();
    map.factors_.resize(wanted.size() * k);
    Bytes row(k);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        write_code_row(code, wanted[i], row);
        for (std::size_t j = 0; j < k; ++j)
            add_multiple(row_of(map.factors_, k, i), row[j], row_of(data_of_given, k, j));
    }
#ifdef QUERN_HAVE_ISAL
    constexpr std::size_t kTableBytes = 32;  // of a factor
    map.tables_.resize(kTableBytes * map.factors_.size());
    if (!wanted.empty())
        ec_init_tables(static_cast<int>(k), static_cast<int>(wanted.size()), map.factors_.data(), map.tables_.data());
#endif
    return map;
}

void CellMap::apply_by_table(std::span<const BytesView> given, std::span<const std::span<std::uint8_t>> wanted) const {
    ensure(given.size() == given_ && wanted.size() == wanted_, "as many cells as the map is of");
    std::array<std::uint8_t, 256> products{};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto target = wanted[i];
        std::fill(target.begin(), target.end(), std::uint8_t{0});
        for (std::size_t j = 0; j < given.size(); ++j) {
            const std::uint8_t factor = factors_[i * given_ + j];
            if (factor == 0) continue;
            for (std::size_t byte = 0; byte < products.size(); ++byte)
                products[byte] = kField.product(factor, static_cast<std::uint8_t>(byte));
            for (std::size_t at = 0; at < target.size(); ++at) target[at] ^= products[given[j][at]];
        }
    }
}

#ifdef QUERN_HAVE_ISAL
void CellMap::apply(std::span<const BytesView> given, std::span<const std::span<std::uint8_t>> wanted) const {
    ensure(given.size() == given_ && wanted.size() == wanted_, "as many cells as the map is of");
    if (wanted.empty() || wanted.front().empty()) return;
    // The library takes pointers to what it does not change without const.
    std::array<std::uint8_t*, kMaxCodeCells> from{};
    for (std::size_t j = 0; j < given.size(); ++j) from[j] = const_cast<std::uint8_t*>(given[j].data());
    std::vector<std::uint8_t*> to(wanted.size());
    std::transform(wanted.begin(), wanted.end(), to.begin(), [](const auto& cell) { return cell.data(); });
    ec_encode_data(static_cast<int>(wanted.front().size()), static_cast<int>(given_), static_cast<int>(wanted_),
                   const_cast<std::uint8_t*>(tables_.data()), from.data(), to.data());
}
std::string_view reed_solomon_engine() { return "isa-l"; }
#else
void CellMap::apply(std::span<const BytesView> given, std::span<const std::span<std::uint8_t>> wanted) const {
    apply_by_table(given, wanted);
}
std::string_view reed_solomon_engine() { return "tables"; }
#endif

}  // namespace quern::crypto
