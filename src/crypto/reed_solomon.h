// Systematic Reed-Solomon code over GF(2^8): of k cells of data n cells are made, all of one length, and any k of the n
// give all others. Used by crypto/content_fragments.h. Pure functions; a CellMap is a plain value, thread-safe.
//
//   field        GF(2)[x] / (x^8 + x^4 + x^3 + x^2 + 1); the bits of a byte are its polynomial's coefficients
//   cell i < k   data cell i as it is
//   cell i >= k  the sum over all j < k of data cell j divided by (i xor j), byte by byte
//
// Rows k to n - 1 are a Cauchy matrix, each square part of which has an inverse, and so has each choice of k rows
// of the whole: Blömer, Kalfane, Karp, Karpinski, Luby, Zuckerman, "An XOR-Based Erasure-Resilient Coding Scheme", ICSI
// TR-95-048 (1995). (Not each choice of rows of a unit matrix over a Vandermonde matrix has one.) The sums are Intel's
// ISA-L's where it is built in, which makes the same matrix as gf_gen_cauchy1_matrix; else they are looked up in
// tables.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace quern::crypto {

// n at most. The field would allow 256; but a manifest holds n ids for each content.
inline constexpr unsigned kMaxCodeCells = 64;

// A code: any `data` of `total` cells give all.
struct CellCode {
    unsigned data = 0;   // k
    unsigned total = 0;  // n
    bool operator==(const CellCode&) const = default;
    [[nodiscard]] constexpr bool is_valid() const { return 1 <= data && data <= total && total <= kMaxCodeCells; }
};

// How some cells of a code follow from k others.
class CellMap {
public:
    // From the cells `given`, k different ones in any order, to the cells `wanted`, any number of them. Errors:
    // code.bad_shape (of the code), code.bad_cells (not k different ones below n; one wanted that is not below n).
    [[nodiscard]] static Expected<CellMap> make(CellCode code, std::span<const unsigned> given,
                                                std::span<const unsigned> wanted);
    // All spans of one length of at most 2^30 bytes, as many as were given and wanted, in that order; none overlap.
    void apply(std::span<const BytesView> given, std::span<const std::span<std::uint8_t>> wanted) const;
    // The same without ISA-L, for tests and benchmarks.
    void apply_by_table(std::span<const BytesView> given, std::span<const std::span<std::uint8_t>> wanted) const;

private:
    std::size_t given_ = 0;
    std::size_t wanted_ = 0;
    Bytes factors_;  // row by row: of wanted cell i that of given cell j
    Bytes tables_;   // ISA-L's
};
// What makes the sums, for benchmarks and bug reports: "isa-l" or "tables".
[[nodiscard]] std::string_view reed_solomon_engine();

}  // namespace quern::crypto
