// The elementwise operations of the canonical arithmetic: their serialised numbers, names, operand types and costs.
// Used by programs, executors, the chain's leaf and the kernels below. Definitions: doc/arithmetic.md. Constant data;
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace quern::vm::tensor::arith {

// Same numbers as tensor::DType: words are IEEE-754 binary32 bits or two's complement int32.
enum class WordType : std::uint8_t { f32 = 1, i32 = 2 };

// Stable numbers: they are serialised in programs. 0 is no operation.
enum class ElementOp : std::uint8_t {
    neg = 1,
    abs = 2,
    sqrt = 3,
    exp = 4,
    log = 5,
    tanh = 6,
    sigmoid = 7,
    erf = 8,

    add = 16,
    sub = 17,
    mul = 18,
    div = 19,
    min = 20,
    max = 21,
    fma = 24,  // a * b + c, one rounding

    lt = 32,  // f32 comparisons give i32 1 or 0; 0 on NaN
    le = 33,
    eq = 34,
    ilt = 35,
    ieq = 36,
    select = 40,   // a != 0 ? b : c with a i32; the f32 result is canonical on NaN
    iselect = 41,  // the same for i32

    iadd = 48,  // wrapping
    isub = 49,
    imul = 50,
    idiv = 51,  // truncating; x / 0 = 0, INT_MIN / -1 = INT_MIN
    irem = 52,  // x % 0 = 0, INT_MIN % -1 = 0
    iand = 53,
    ior = 54,
    ixor = 55,
    ishl = 56,  // shift counts mod 32
    ishr = 57,  // logical
    isar = 58,  // arithmetic
    imin = 59,
    imax = 60,

    i2f = 64,   // nearest even
    f2i = 65,   // nearest even, NaN -> 0, saturating
    bits = 66,  // f32 -> i32: the same word, of a NaN as well

    permute_index = 72,  // (index, key0, key1), immediate n: arith/random.h
};

struct ElementOpInfo {
    ElementOp op{};
    std::string_view name;
    std::uint8_t arity = 0;
    std::array<WordType, 3> inputs{};  // the first `arity` count
    WordType output{};
    std::uint32_t work = 0;  // cost per element, in fused multiply-adds of a matmul
    bool uses_immediate = false;
};

namespace detail {
inline constexpr WordType kF = WordType::f32;
inline constexpr WordType kI = WordType::i32;
}  // namespace detail

inline constexpr std::array<ElementOpInfo, 39> kElementOps{{
    {ElementOp::neg, "neg", 1, {detail::kF}, detail::kF, 8},
    {ElementOp::abs, "abs", 1, {detail::kF}, detail::kF, 8},
    {ElementOp::sqrt, "sqrt", 1, {detail::kF}, detail::kF, 16},
    {ElementOp::exp, "exp", 1, {detail::kF}, detail::kF, 24},
    {ElementOp::log, "log", 1, {detail::kF}, detail::kF, 32},
    {ElementOp::tanh, "tanh", 1, {detail::kF}, detail::kF, 48},
    {ElementOp::sigmoid, "sigmoid", 1, {detail::kF}, detail::kF, 40},
    {ElementOp::erf, "erf", 1, {detail::kF}, detail::kF, 56},
    {ElementOp::add, "add", 2, {detail::kF, detail::kF}, detail::kF, 8},
    {ElementOp::sub, "sub", 2, {detail::kF, detail::kF}, detail::kF, 8},
    {ElementOp::mul, "mul", 2, {detail::kF, detail::kF}, detail::kF, 8},
    {ElementOp::div, "div", 2, {detail::kF, detail::kF}, detail::kF, 16},
    {ElementOp::min, "min", 2, {detail::kF, detail::kF}, detail::kF, 8},
    {ElementOp::max, "max", 2, {detail::kF, detail::kF}, detail::kF, 8},
    {ElementOp::fma, "fma", 3, {detail::kF, detail::kF, detail::kF}, detail::kF, 8},
    {ElementOp::lt, "lt", 2, {detail::kF, detail::kF}, detail::kI, 8},
    {ElementOp::le, "le", 2, {detail::kF, detail::kF}, detail::kI, 8},
    {ElementOp::eq, "eq", 2, {detail::kF, detail::kF}, detail::kI, 8},
    {ElementOp::ilt, "ilt", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::ieq, "ieq", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::select, "select", 3, {detail::kI, detail::kF, detail::kF}, detail::kF, 8},
    {ElementOp::iselect, "iselect", 3, {detail::kI, detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::iadd, "iadd", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::isub, "isub", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::imul, "imul", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::idiv, "idiv", 2, {detail::kI, detail::kI}, detail::kI, 192},
    {ElementOp::irem, "irem", 2, {detail::kI, detail::kI}, detail::kI, 192},
    {ElementOp::iand, "iand", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::ior, "ior", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::ixor, "ixor", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::ishl, "ishl", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::ishr, "ishr", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::isar, "isar", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::imin, "imin", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::imax, "imax", 2, {detail::kI, detail::kI}, detail::kI, 8},
    {ElementOp::i2f, "i2f", 1, {detail::kI}, detail::kF, 8},
    {ElementOp::f2i, "f2i", 1, {detail::kF}, detail::kI, 8},
    {ElementOp::bits, "bits", 1, {detail::kF}, detail::kI, 8},
    {ElementOp::permute_index, "permute_index", 3, {detail::kI, detail::kI, detail::kI}, detail::kI, 8192, true},
}};

// Whether the op reads subnormal operands as zeros of their sign and gives a zero of its sign for a result of magnitude
// at most kLargestFlushed: whatever multiplies. A processor takes fifty times as long for such numbers, and who chooses
// the data of a task chooses them.
[[nodiscard]] constexpr bool flushes(ElementOp op) {
    switch (op) {
        case ElementOp::sqrt:
        case ElementOp::exp:
        case ElementOp::log:
        case ElementOp::tanh:
        case ElementOp::sigmoid:
        case ElementOp::erf:
        case ElementOp::mul:
        case ElementOp::div:
        case ElementOp::fma:
            return true;
        default:
            return false;
    }
}
// 2^-126, the least normal number: flushed too, since processors differ in whether they look before or after rounding
// when they find a result to be subnormal.
inline constexpr std::uint32_t kLargestFlushed = 0x00800000U;

// nullptr when `value` is no operation.
[[nodiscard]] constexpr const ElementOpInfo* find_element_op(std::uint8_t value) {
    for (const ElementOpInfo& entry : kElementOps)
        if (static_cast<std::uint8_t>(entry.op) == value) return &entry;
    return nullptr;
}
[[nodiscard]] constexpr const ElementOpInfo* find_element_op(ElementOp op) {
    return find_element_op(static_cast<std::uint8_t>(op));
}
[[nodiscard]] constexpr const ElementOpInfo* find_element_op(std::string_view name) {
    for (const ElementOpInfo& entry : kElementOps)
        if (entry.name == name) return &entry;
    return nullptr;
}

}  // namespace quern::vm::tensor::arith
