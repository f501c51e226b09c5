// States in the content store, slot by slot: what a history's checkpoints name. A slot's tiles are a content whose id
// is the slot's root, so that a state is fetched in part, and slots that two states share are stored and sent once.
// Used by workers, tools, and nodes (which contents a state is made of). Pure functions; thread-safe.
//
//   state content = "QRNSTAT1" || n (8, big endian) || slot root (32) * n || tiles of each slot of at most kInlineTiles
//
// in slot order. Each content costs two files and a few round trips, and small slots are many: they come with the list.
// A larger slot is a content of its own, but for one of zeros, which everybody knows.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "vm/tensor/executor.h"
#include "vm/tensor/graph.h"

namespace quern::compute::core {

inline constexpr std::string_view kStateMagic = "QRNSTAT1";
inline constexpr std::uint64_t kInlineTiles = 64;  // 256 KiB
inline constexpr std::string_view kWrongStateRoot = "state.wrong_root";

[[nodiscard]] constexpr bool is_inline(const vm::tensor::Shape& shape) { return shape.tiles() <= kInlineTiles; }
// Of a slot's tiles.
[[nodiscard]] constexpr std::uint64_t slot_bytes(const vm::tensor::Shape& shape) {
    return shape.tiles() * vm::tensor::kTileBytes;
}
// Of the state content, which has this size for every state of the program.
[[nodiscard]] std::uint64_t state_content_bytes(const vm::tensor::Program& program);
// Of its beginning, up to the last root.
[[nodiscard]] constexpr std::uint64_t slot_list_bytes(std::uint64_t slots) {
    return kStateMagic.size() + sizeof(std::uint64_t) + Hash32::kSize * slots;
}

// The root of so many tiles (at least one) of zeros.
[[nodiscard]] Hash32 zero_root(std::uint64_t tiles);

// `state` is one of the program, `roots` are its slots'.
[[nodiscard]] Bytes encode_state(const vm::tensor::Program& program, const vm::tensor::State& state,
                                 std::span<const Hash32> roots);
[[nodiscard]] bool is_state_content(BytesView bytes);
// How many slots a state content has, and their roots: `bytes` are its beginning, as long as its list at least. Errors:
// state.not_a_state, state.truncated.
[[nodiscard]] Expected<std::uint64_t> slot_count(BytesView bytes);
[[nodiscard]] Expected<std::vector<Hash32>> slot_roots(BytesView bytes);

// The slots of a state of this program with these roots that are contents of their own: numbers, ascending. Of several
// with one root the first.
[[nodiscard]] std::vector<std::size_t> own_contents(const vm::tensor::Program& program, std::span<const Hash32> roots);

// Bytes [begin, begin + bytes.size()) of a slot's tiles.
void copy_tiles(const vm::tensor::Shape& shape, std::span<const std::uint32_t> words, std::uint64_t begin,
                std::span<std::uint8_t> bytes);
// The tensor of these tiles, whose root is the caller's to check. Errors: state.wrong_size, state.bad_padding (words
// outside the tensor that are not 0: such a slot has another root once it is in memory).
[[nodiscard]] Expected<vm::tensor::Tensor> tensor_of_tiles(const vm::tensor::Slot& slot, BytesView bytes);

// A state content taken apart: the roots, the slots that came with it, checked against their roots, and those of zeros;
// slots that are contents of their own are empty. Errors: state.not_a_state, state.wrong_size, state.wrong_root (of the
// state, or of a slot), state.bad_padding.
struct StateParts {
    std::vector<Hash32> roots;
    vm::tensor::State slots;
};
[[nodiscard]] Expected<StateParts> decode_state(const vm::tensor::Program& program, const Hash32& state_root,
                                                BytesView bytes);

}  // namespace quern::compute::core
