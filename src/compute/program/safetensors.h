// The safetensors file layout, strict: 8 bytes little-endian header length, a JSON header padded with spaces so that
// the data starts at a multiple of 8, then the tensors' bytes without gaps. Used for states and exported
// models by quern-compile and the workers. Pure functions on byte strings; thread-safe.
//
//   header = {"__metadata__": {key: text...}, name: {"dtype": "F32" | "I32", "shape": [...], "data_offsets": [from,
//   to]}}
//
// The reader takes shapes of 0 to 4 dims (right aligned into four), tensors in any order of the header, and refuses
// everything that Python's safetensors refuses: a length beyond the file, a header that does not start with '{', gaps,
// overlaps, bytes left over, sizes that do not match shapes, duplicate names. It allocates only what the file holds.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"
#include "vm/tensor/tensor.h"

namespace quern::compute::program {

inline constexpr std::size_t kMaxSafetensorsHeader = 16U << 20;
inline constexpr std::size_t kMaxSafetensorsName = 512;
inline constexpr std::size_t kMaxSafetensorsTensors = 1U << 16;

struct NamedTensor {
    std::string name;
    vm::tensor::Tensor tensor;

    bool operator==(const NamedTensor&) const = default;
};

using Metadata = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] const std::string* find_metadata(const Metadata& metadata, std::string_view key);

struct Safetensors {
    std::vector<NamedTensor> tensors;  // in the order of their data
    Metadata metadata;

    [[nodiscard]] const vm::tensor::Tensor* find(std::string_view name) const;
    [[nodiscard]] const std::string* find_metadata(std::string_view key) const {
        return program::find_metadata(metadata, key);
    }
};

// A tensor to write; the views must outlive the call. `squeeze` leaves leading dims of 1 out of the shape in the
// file, as other software expects of a model (a matrix has 2 dims, a vector 1).
struct TensorView {
    std::string_view name;
    const vm::tensor::Tensor* tensor = nullptr;
    bool squeeze = false;
};

// Names must differ, be 1 to 512 bytes of UTF-8 and not "__metadata__".
// Errors: safetensors.duplicate_name, safetensors.bad_name, safetensors.too_many_tensors.
[[nodiscard]] Expected<Bytes> write_safetensors(std::span<const TensorView> tensors, const Metadata& metadata);

// The same file up to its first word: the words of the tensors follow, in order and little endian.
[[nodiscard]] Expected<Bytes> safetensors_header(std::span<const TensorView> tensors, const Metadata& metadata);
// The bytes of these words in a file, from byte `begin` on, as many as `bytes` takes; there are so many.
void copy_words(std::span<const std::uint32_t> words, std::size_t begin, std::span<std::uint8_t> bytes);

// Errors: safetensors.truncated, safetensors.header_too_large, safetensors.bad_header, safetensors.duplicate_name,
// safetensors.bad_metadata, safetensors.bad_name, safetensors.bad_entry, safetensors.unsupported_dtype,
// safetensors.bad_shape, safetensors.wrong_size, safetensors.gap, safetensors.overlap, safetensors.trailing_data,
// safetensors.too_many_tensors.
[[nodiscard]] Expected<Safetensors> read_safetensors(BytesView file);

}  // namespace quern::compute::program
