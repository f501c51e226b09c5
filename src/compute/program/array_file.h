// Arrays of other software's files, as data tensors: NumPy's .npy (format versions 1 to 3) and the tensors of
// safetensors files with more types than states have. Used by quern-compile. Pure functions on byte strings;
// thread-safe. Sizes that a header names are checked against what the file holds before memory is taken.
//
//   npy = 93 "NUMPY", major, minor, u16 (of version 1) or u32 header length, header, elements
//   header = a Python dictionary {'descr': text, 'fortran_order': False, 'shape': (numbers)}, spaces, newline
//
// Elements are little endian and in C order. f4, i4, u1, i1 and u2 stay as they are. f8 is rounded to the nearest f32,
// half ways to even; F16 and BF16 are exactly f32; i8 must fit i32. What is not finite, or not after rounding, is an
// error: a model cannot learn from it.
#pragma once

#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"
#include "vm/tensor/graph.h"

namespace quern::compute::program {

inline constexpr std::size_t kMaxNpyHeader = std::size_t{1} << 16;
inline constexpr std::size_t kMaxArrayDims = 32;  // as NumPy's

struct Array {
    vm::tensor::DataType type = vm::tensor::DataType::f32;
    std::vector<std::uint64_t> shape;  // of none: one element; the first counts examples
    Bytes elements;

    [[nodiscard]] std::uint64_t count() const { return elements.size() / vm::tensor::element_bytes(type); }
    [[nodiscard]] std::uint64_t examples() const { return shape.empty() ? 1 : shape.front(); }
};

// Errors: npy.bad_magic, npy.unknown_version, npy.truncated, npy.header_too_large, npy.bad_header,
// npy.unsupported_dtype (also of big endian elements), npy.fortran_order, npy.wrong_size (shape and file differ),
// array.empty, array.not_finite, array.out_of_range, each of the last two with the element's number.
[[nodiscard]] Expected<Array> read_npy(BytesView file);

// Of types F32, I32, U8, I8, U16, F64, F16, BF16 and I64; other tensors of the file may be of any. Errors:
// safetensors.truncated, safetensors.header_too_large, safetensors.bad_header, safetensors.duplicate_name,
// safetensors.no_such_tensor, safetensors.bad_entry, safetensors.bad_shape, safetensors.unsupported_dtype,
// safetensors.wrong_size, array.*.
[[nodiscard]] Expected<Array> read_safetensors_array(BytesView file, std::string_view name);

}  // namespace quern::compute::program
