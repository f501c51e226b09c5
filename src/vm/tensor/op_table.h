// The ops of the step program as data: numbers, names, operands, costs, micro-steps, and what kind of thing each is.
// All else about an op is looked up by it: a kind is handled in one way, and tables of functions (structural_ops.cpp,
// node_kernels.cpp, graph_shapes.cpp) are checked against this one when they are compiled. The walk through adding an
// op is in doc/developer-notes.md. Constant data; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quern::vm::tensor {

// Stable numbers: they are serialised.
enum class Op : std::uint8_t {
    slot = 0,    // state slot `attributes[0]` before the step
    seed = 2,    // i32 [1,1,1,4]: the task's seed words (from the beacon, fixed after the solver is locked in)
    full = 3,    // every element = immediate
    iota = 4,    // i32: element's index along axis attributes[0]
    philox = 5,  // i32: input 0 = i32 [1,1,1,4] {k0, k1, c1, c2}; element = philox_word(logical index, c1, c2, k0, k1)

    elementwise = 8,  // `element` of 1 to 3 inputs, each dim of each input 1 or the output's (broadcast)
    window = 9,       // index i32 [a,b,r,1] -> [a,b,r,length]: column c of a row with index w (unsigned) is element
                      // w * attributes[1] + c of data tensor attributes[0], +0 beyond its end

    matmul = 16,    // [a,b,m,k] x [a,b,k,n] -> [a,b,m,n]; attributes {transpose a, transpose b} (0/1): stored
                    // transposed as [a,b,k,m] / [a,b,n,k]; a leading dim of 1 in an operand is broadcast
    sum_last = 17,  // [a,b,r,c] -> [a,b,r,1], 32 lanes and fold
    max_last = 18,
    sum_rows = 19,  // [a,b,r,c] -> [a,b,1,c], chains over blocks of 256 rows, then over the blocks
    kth_last = 20,  // i32 [a,b,r,c] -> i32 [a,b,r,1]: the attributes[0]-th largest word of each row, unsigned
    imatmul = 21,  // i32 A, f32 scales of A, i32 B, f32 scales of B -> f32: a matmul of signed bytes, exact within each
                   // strip of 256 of the inner dim. A, B and attributes as matmul's; the scales of an operand have its
                   // dims, but for one element a strip in place of the inner dim
    philox_words = 22,  // i32: input 0 as philox's; element = philox_four_word(logical index, c1, c2, k0, k1), which
                        // takes all four words of a call

    reshape = 24,  // same elements in row-major order
    permute = 25,  // attributes = axes: output dim i is input dim attributes[i]
    slice = 26,    // attributes = start of each dim; the output's dims say how much
    concat = 27,   // two inputs along axis attributes[0]

    gather_rows = 32,       // table [1,1,v,d], index i32 [a,b,1,n] or [a,b,n,1] -> [a,b,n,d]; out of range reads +0
    scatter_add_rows = 33,  // source [1,1,n,d], index i32 [1,1,1,n] or [1,1,n,1] -> [1,1,v,d]: sums of rows of
                            // the source by blocks of 256 positions, as sum_rows; out of range drops
};

enum class OpKind : std::uint8_t {
    input,        // given from outside: never executed; a dispute about one ends with an opening
    generated,    // made of the node itself and of a key
    window,       // reads a data tensor of the task, where an operand's words say
    elementwise,  // a row of kElementOps says the rest
    reduction,    // accumulates in micro-steps
    structural,   // each word is one of an operand's, which one follows from shapes and attributes (structural_ops.h)
    gather,       // each word is one of an operand's, which one follows from another operand's words
};

// How many micro-steps an output tile takes.
enum class MicroSteps : std::uint8_t {
    one,
    inner_tiles,             // a tile of the inner dim each
    inner_tiles_and_scales,  // a tile of the inner dim each, and at the end of each strip its scales
    column_tiles_and_fold,   // a tile column of input 0 each, then the lanes are folded
    row_tiles,               // a tile row of input 0 each: 32 rows
    bisection,               // for each bit from the highest: a tile column of input 0 each, then a fold
};

// In fused multiply-adds of a matmul, as ElementOpInfo::work is (doc/work-units.md). The sum of the parts; of an
// elementwise node each output element costs its operation's work, of a matmul the inner dim and kProduct, as if its
// sides were multiples of 32, of an imatmul a quarter of the inner dim, rounded up, and the same, and kByte for each
// word of a product's operands.
struct OpCost {
    std::uint32_t node = 0;    // once
    std::uint32_t output = 0;  // per element of the output
    std::uint32_t first = 0;   // per element of input 0
    std::uint32_t second = 0;  // per element of input 1
};

inline constexpr std::uint8_t kElementArity = 0xff;  // as the element operation says

struct OpInfo {
    Op op{};
    std::string_view name;
    OpKind kind{};
    std::uint8_t arity = 0;
    std::uint8_t attributes = 0;
    OpCost cost{};
    MicroSteps micro_steps = MicroSteps::one;
    std::uint8_t accumulators = 1;  // tiles of state between two micro-steps
    bool has_immediate = false;
    bool is_view = false;  // may be read in place with other strides: view_of() in structural_ops.h
};

namespace detail {
// What only moves words costs what it takes of the memory's bandwidth.
inline constexpr std::uint32_t kFill = 2;
inline constexpr std::uint32_t kCopy = 8;
inline constexpr std::uint32_t kPermute = 32;      // who reads it reads words that lie apart
inline constexpr std::uint32_t kPhilox = 192;      // 10 rounds of two 32 x 32 products
inline constexpr std::uint32_t kPhiloxWords = 48;  // a quarter of them
inline constexpr std::uint32_t kProduct = 16;      // what an element of a product takes beside its inner dim
inline constexpr std::uint32_t kByte = 16;         // of an operand of a product of bytes, which is narrowed and packed
inline constexpr std::uint32_t kReduce = 4;
inline constexpr std::uint32_t kFold = 64;
inline constexpr std::uint32_t kSelect = 256;
inline constexpr std::uint32_t kSelected = 512;
inline constexpr std::uint32_t kScatter = 16;
inline constexpr std::uint32_t kIndex = 128;         // its row lies anywhere
inline constexpr std::uint32_t kScatterIndex = 256;  // its row is looked up among those of its block
}  // namespace detail

// clang-format off
inline constexpr std::array<OpInfo, 20> kOps{{
    {Op::slot,             "slot",             OpKind::input,       0, 1, {}},
    {Op::seed,             "seed",             OpKind::input,       0, 0, {}},
    {Op::full,             "full",             OpKind::generated,   0, 0, {.output = detail::kFill}, MicroSteps::one, 1, true},
    {Op::iota,             "iota",             OpKind::generated,   0, 1, {.output = detail::kFill}},
    {Op::philox,           "philox",           OpKind::generated,   1, 0, {.output = detail::kPhilox}},
    {Op::elementwise,      "elementwise",      OpKind::elementwise, kElementArity, 0, {}, MicroSteps::one, 1, true},
    {Op::window,           "window",           OpKind::window,      1, 2, {.output = detail::kCopy, .first = detail::kIndex}},
    {Op::matmul,           "matmul",           OpKind::reduction,   2, 2, {}, MicroSteps::inner_tiles, 2},
    {Op::sum_last,         "sum_last",         OpKind::reduction,   1, 0, {.output = detail::kFold, .first = detail::kReduce}, MicroSteps::column_tiles_and_fold},
    {Op::max_last,         "max_last",         OpKind::reduction,   1, 0, {.output = detail::kFold, .first = detail::kReduce}, MicroSteps::column_tiles_and_fold},
    {Op::sum_rows,         "sum_rows",         OpKind::reduction,   1, 0, {.first = detail::kReduce}, MicroSteps::row_tiles, 2},
    {Op::kth_last,         "kth_last",         OpKind::reduction,   1, 1, {.output = detail::kSelected, .first = detail::kSelect}, MicroSteps::bisection, 2},
    {Op::imatmul,          "imatmul",          OpKind::reduction,   4, 2, {}, MicroSteps::inner_tiles_and_scales, 2},
    {Op::philox_words,     "philox_words",     OpKind::generated,   1, 0, {.output = detail::kPhiloxWords}},
    {Op::reshape,          "reshape",          OpKind::structural,  1, 0, {.node = 1}, MicroSteps::one, 1, false, true},
    {Op::permute,          "permute",          OpKind::structural,  1, 4, {.output = detail::kPermute}, MicroSteps::one, 1, false, true},
    {Op::slice,            "slice",            OpKind::structural,  1, 4, {.output = detail::kCopy}, MicroSteps::one, 1, false, true},
    {Op::concat,           "concat",           OpKind::structural,  2, 1, {.output = detail::kCopy}},
    {Op::gather_rows,      "gather_rows",      OpKind::gather,      2, 0, {.output = detail::kCopy, .second = detail::kIndex}},
    {Op::scatter_add_rows, "scatter_add_rows", OpKind::reduction,   2, 0, {.output = detail::kFill, .first = detail::kScatter, .second = detail::kScatterIndex}, MicroSteps::row_tiles, 2},
}};
// clang-format on

// Whether the number is an op's. No default: a new enumerator that is not listed here is a warning, and one that has no
// row in the table does not compile.
[[nodiscard]] constexpr bool is_op(std::uint8_t number) {
    switch (static_cast<Op>(number)) {
        case Op::slot:
        case Op::seed:
        case Op::full:
        case Op::iota:
        case Op::philox:
        case Op::elementwise:
        case Op::window:
        case Op::matmul:
        case Op::sum_last:
        case Op::max_last:
        case Op::sum_rows:
        case Op::kth_last:
        case Op::imatmul:
        case Op::philox_words:
        case Op::reshape:
        case Op::permute:
        case Op::slice:
        case Op::concat:
        case Op::gather_rows:
        case Op::scatter_add_rows:
            return true;
    }
    return false;
}

namespace detail {
inline constexpr std::uint8_t kNoRow = 0xff;
inline constexpr std::array<std::uint8_t, 256> kRowOfOp = [] {
    std::array<std::uint8_t, 256> rows{};
    for (auto& row : rows) row = kNoRow;
    for (std::size_t i = 0; i < kOps.size(); ++i)
        rows[static_cast<std::uint8_t>(kOps[i].op)] = static_cast<std::uint8_t>(i);
    return rows;
}();
constexpr bool is_complete() {
    for (std::size_t number = 0; number < kRowOfOp.size(); ++number)
        if ((kRowOfOp[number] != kNoRow) != is_op(static_cast<std::uint8_t>(number))) return false;
    return true;
}
constexpr bool is_in_order() {
    for (std::size_t i = 1; i < kOps.size(); ++i)
        if (kOps[i - 1].op >= kOps[i].op) return false;
    return true;
}
static_assert(is_in_order(), "kOps: ascending by number, each op once");
static_assert(is_complete(), "kOps: a row for each op of is_op(), and no other");
}  // namespace detail

// nullptr when the value is no op.
[[nodiscard]] constexpr const OpInfo* find_op(Op op) {
    const std::uint8_t row = detail::kRowOfOp[static_cast<std::uint8_t>(op)];
    return row == detail::kNoRow ? nullptr : &kOps[row];
}
[[nodiscard]] constexpr bool is_kind(Op op, OpKind kind) {
    const OpInfo* const info = find_op(op);
    return info != nullptr && info->kind == kind;
}

// Whether `table`, whose entries begin with their `op`, holds exactly the ops that `belongs` (of an OpInfo) holds for,
// in their order: for static_assert beside tables of functions.
template <class Table, class Belongs>
[[nodiscard]] constexpr bool covers(const Table& table, Belongs belongs) {
    std::size_t next = 0;
    for (const OpInfo& info : kOps) {
        if (!belongs(info)) continue;
        if (next == table.size() || table[next].op != info.op) return false;
        ++next;
    }
    return next == table.size();
}
// The entry of an op in such a table; nullptr when it has none.
template <class Table>
[[nodiscard]] constexpr auto find_entry(const Table& table, Op op) -> decltype(table.data()) {
    for (const auto& entry : table)
        if (entry.op == op) return &entry;
    return nullptr;
}

}  // namespace quern::vm::tensor
