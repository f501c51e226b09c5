#include "compute/core/state_content.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/big_endian.h"
#include "crypto/content_id.h"
#include "vm/tensor/tap.h"

namespace quern::compute::core {

namespace tensor = vm::tensor;

std::uint64_t state_content_bytes(const tensor::Program& program) {
    std::uint64_t bytes = slot_list_bytes(program.slots.size());
    for (const tensor::Slot& slot : program.slots)
        if (is_inline(slot.shape)) bytes += slot_bytes(slot.shape);
    return bytes;
}

Hash32 zero_root(std::uint64_t tiles) {
    // All nodes of a level are `full` but the last one, below which fewer tiles may be.
    Hash32 full = crypto::merkle_leaf(Bytes(tensor::kTileBytes));
    Hash32 last = full;
    for (std::uint64_t width = tiles; width > 1; width = width / 2 + width % 2) {
        if (width % 2 == 0) last = crypto::merkle_inner(full, last);
        full = crypto::merkle_inner(full, full);
    }
    return crypto::bytes_id(tiles * tensor::kTileBytes, last);
}

Bytes encode_state(const tensor::Program& program, const tensor::State& state, std::span<const Hash32> roots) {
    Bytes bytes;
    bytes.reserve(state_content_bytes(program));
    append(bytes, as_bytes(kStateMagic));
    append(bytes, be64(roots.size()));
    for (const Hash32& root : roots) append(bytes, root);
    for (const tensor::Tensor& slot : state) {
        if (!is_inline(slot.shape)) continue;
        const std::size_t at = bytes.size();
        bytes.resize(at + slot_bytes(slot.shape));
        copy_tiles(slot.shape, slot.words, 0, std::span(bytes).subspan(at));
    }
    return bytes;
}

bool is_state_content(BytesView bytes) {
    return bytes.size() >= kStateMagic.size() && equal(bytes.first(kStateMagic.size()), as_bytes(kStateMagic));
}

Expected<std::uint64_t> slot_count(BytesView bytes) {
    if (!is_state_content(bytes)) return fail("state.not_a_state");
    if (bytes.size() < slot_list_bytes(0)) return fail("state.truncated");
    const std::uint64_t count = from_big_endian(bytes.subspan(kStateMagic.size(), sizeof count));
    if (count == 0 || count > tensor::kMaxSlots) return fail("state.not_a_state", std::to_string(count) + " slots");
    return count;
}

Expected<std::vector<Hash32>> slot_roots(BytesView bytes) {
    QUERN_TRY(const std::uint64_t count, slot_count(bytes));
    if (bytes.size() < slot_list_bytes(count)) return fail("state.truncated");
    std::vector<Hash32> roots;
    roots.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i)
        roots.push_back(Hash32::copy_of(bytes.subspan(slot_list_bytes(i), Hash32::kSize)));
    return roots;
}

std::vector<std::size_t> own_contents(const tensor::Program& program, std::span<const Hash32> roots) {
    std::vector<std::size_t> slots;
    std::set<Hash32> seen;
    for (std::size_t i = 0; i < roots.size(); ++i) {
        const tensor::Shape& shape = program.slots[i].shape;
        if (!is_inline(shape) && roots[i] != zero_root(shape.tiles()) && seen.insert(roots[i]).second)
            slots.push_back(i);
    }
    return slots;
}

void copy_tiles(const tensor::Shape& shape, std::span<const std::uint32_t> words, std::uint64_t begin,
                std::span<std::uint8_t> bytes) {
    const tensor::TensorView view{tensor::DType::i32, {words.data(), shape, tensor::dense_strides(shape)}};
    while (!bytes.empty()) {
        const Bytes tile = tensor::tile_bytes(tensor::read_tile(view, begin / tensor::kTileBytes));
        const BytesView from = BytesView(tile).subspan(begin % tensor::kTileBytes);
        const std::size_t count = std::min(from.size(), bytes.size());
        std::copy_n(from.begin(), count, bytes.begin());
        bytes = bytes.subspan(count);
        begin += count;
    }
}

Expected<tensor::Tensor> tensor_of_tiles(const tensor::Slot& slot, BytesView bytes) {
    const tensor::Shape& shape = slot.shape;
    if (bytes.size() != slot_bytes(shape))
        return fail("state.wrong_size", slot.name + " has " + std::to_string(bytes.size()) + " bytes");
    tensor::Tensor result{slot.dtype, shape, std::vector<std::uint32_t>(shape.elements())};
    const std::size_t height = shape.tile_height();
    const std::size_t width = shape.tile_width();
    for (std::uint64_t number = 0; number < shape.tiles(); ++number) {
        QUERN_TRY(const tensor::Tile tile,
                  tensor::tile_from_bytes(bytes.subspan(number * tensor::kTileBytes, tensor::kTileBytes)));
        const tensor::TileIndex at = tensor::tile_index(shape, number);
        const std::size_t rows = std::min<std::size_t>(height, shape.rows() - at.row * height);
        const std::size_t columns = std::min<std::size_t>(width, shape.columns() - at.column * width);
        std::uint32_t* const to =
            result.words.data() + (at.leading * shape.rows() + at.row * height) * shape.columns() + at.column * width;
        std::uint32_t padding = 0;
        for (std::size_t row = 0; row < height; ++row) {
            const std::uint32_t* const from = tile.data() + row * width;
            const std::size_t inside = row < rows ? columns : 0;
            std::copy_n(from, inside, to + (inside == 0 ? 0 : row * shape.columns()));
            for (std::size_t column = inside; column < width; ++column) padding |= from[column];
        }
        if (padding != 0) return fail("state.bad_padding", slot.name + " tile " + std::to_string(number));
    }
    return result;
}

Expected<StateParts> decode_state(const tensor::Program& program, const Hash32& state_root, BytesView bytes) {
    StateParts parts;
    QUERN_TRY(parts.roots, slot_roots(bytes));
    if (parts.roots.size() != program.slots.size() || bytes.size() != state_content_bytes(program))
        return fail("state.wrong_size",
                    std::to_string(parts.roots.size()) + " slots in " + std::to_string(bytes.size()) + " bytes");
    if (tensor::state_root(parts.roots) != state_root) return fail(kWrongStateRoot, "of the state");
    BytesView left = bytes.subspan(slot_list_bytes(parts.roots.size()));
    for (std::size_t i = 0; i < program.slots.size(); ++i) {
        const tensor::Slot& slot = program.slots[i];
        parts.slots.push_back({slot.dtype, slot.shape, {}});
        if (!is_inline(slot.shape)) {
            if (parts.roots[i] == zero_root(slot.shape.tiles())) parts.slots[i].words.resize(slot.shape.elements());
            continue;
        }
        const BytesView tiles = left.first(slot_bytes(slot.shape));
        left = left.subspan(tiles.size());
        if (crypto::content_id_of(tiles) != parts.roots[i]) return fail(kWrongStateRoot, slot.name);
        QUERN_TRY(parts.slots.back(), tensor_of_tiles(slot, tiles));
    }
    return parts;
}

}  // namespace quern::compute::core
