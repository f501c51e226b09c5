#include "vm/tensor/tap.h"

#include <algorithm>
#include <cstring>

#include "crypto/tile_leaves.h"
#include "vm/tensor/element_map.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kHashWork = 8;  // of a word, in words touched: measured with SHA extensions

// Where the words of a tile stand in its tensor, whatever the shape of tiles.
struct TileExtent {
    Coordinates first{};
    std::size_t rows = 0;  // of it inside the tensor
    std::size_t columns = 0;
    std::size_t width = 0;  // words from one row of the tile to the next
};

TileExtent extent_of(const Shape& shape, std::uint64_t tile) {
    TileExtent extent{tile_coordinates(shape, tile, 0), 0, 0, 0};
    const Coordinates last = tile_coordinates(shape, tile, kTileWords - 1);
    extent.rows = std::min<std::size_t>(last[2] + 1, shape.rows()) - extent.first[2];
    extent.columns = std::min<std::size_t>(last[3] + 1, shape.columns()) - extent.first[3];
    extent.width = last[3] + 1 - extent.first[3];
    return extent;
}

std::ptrdiff_t offset_of(const Strides& strides, const Coordinates& at) {
    std::ptrdiff_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d) offset += static_cast<std::ptrdiff_t>(at[d]) * strides[d];
    return offset;
}

// The elements of `tensor` from `first` on, in a tensor of their own.
Tensor copy_part(const TensorView& tensor, const Coordinates& first, const Shape& shape) {
    const View& from = tensor.view;
    Tensor part{tensor.dtype, shape, std::vector<std::uint32_t>(shape.elements())};
    copy_view({from.data + offset_of(from.strides, first), shape, from.strides}, part.words.data(),
              dense_strides(shape), nullptr);
    return part;
}

// A node that gives one tile of another, with the operands that this needs: tile `tile` of it is the other's, in the
// same micro-steps.
struct Crop {
    Node node;
    std::vector<Tensor> operands;
    std::uint64_t tile = 0;
};

std::uint32_t narrow(std::size_t size) { return static_cast<std::uint32_t>(size); }

Crop crop_to_tile(const TappedNode& tapped, std::uint64_t tile) {
    const Node& node = *tapped.node;
    const TileExtent extent = extent_of(node.shape, tile);
    const MicroSteps steps = find_op(node.op)->micro_steps;
    Coordinates first = extent.first;
    std::size_t rows = extent.rows;
    if (steps == MicroSteps::row_tiles) {
        first[2] = 0;  // rows of the source are not rows of the output
        rows = node.shape.rows();
    } else if (rows == 1 && node.shape.rows() > 1) {
        // A tensor of one row has tiles of another shape: the tile above goes along.
        first[2] -= kTileSide;
        rows += kTileSide;
    }
    Crop crop{node, {}, 0};
    crop.node.shape = {{1, 1, narrow(rows), narrow(extent.columns)}};
    crop.tile = tile_of(crop.node.shape, {0, 0, extent.first[2] - first[2], 0});
    const auto add = [&](std::size_t operand, std::size_t row, std::size_t row_count, std::size_t column,
                         std::size_t column_count) {
        const TensorView& source = tapped.operands[operand];
        const auto leading = [&](std::size_t d) { return source.shape().dims[d] == 1 ? 0 : first[d]; };
        crop.operands.push_back(copy_part(source, {leading(0), leading(1), row, column},
                                          {{1, 1, narrow(row_count), narrow(column_count)}}));
    };
    switch (steps) {
        case MicroSteps::one:
            break;
        case MicroSteps::inner_tiles:
        case MicroSteps::inner_tiles_and_scales:
            for (std::size_t i = 0; i < tapped.operands.size(); ++i) {  // half of them are of A, half of B
                const Shape& shape = tapped.operands[i].shape();
                if (i >= tapped.operands.size() / 2) {
                    if (node.attributes[1] != 0)
                        add(i, first[3], extent.columns, 0, shape.columns());
                    else
                        add(i, 0, shape.rows(), first[3], extent.columns);
                } else if (node.attributes[0] != 0) {
                    add(i, 0, shape.rows(), first[2], rows);
                } else {
                    add(i, first[2], rows, 0, shape.columns());
                }
            }
            break;
        case MicroSteps::column_tiles_and_fold:
        case MicroSteps::bisection:
            add(0, first[2], rows, 0, tapped.operands[0].shape().columns());
            break;
        case MicroSteps::row_tiles:
            add(0, 0, tapped.operands[0].shape().rows(), first[3], extent.columns);
            for (std::size_t i = 1; i < tapped.operands.size(); ++i)  // the index of a scatter
                crop.operands.push_back(copy_part(tapped.operands[i], {}, tapped.operands[i].shape()));
            break;
    }
    return crop;
}

class OperandTiles final : public TileSource {
public:
    OperandTiles(const TappedNode& tapped, const ProgramHeader& header, const DataSource& data)
        : node_(*tapped.node), operands_(tapped.operands), header_(header), data_(data) {}
    [[nodiscard]] const Tile* tile(const TileRead& read) const override {
        for (const auto& [key, tile] : tiles_)
            if (key == read) return &tile;
        if (!is_kind(node_.op, OpKind::window) || read.operand != kDataOperand)
            return &tiles_.emplace_back(read, read_tile(operands_[read.operand], read.tile)).second;
        const std::uint32_t set = node_.attributes[0];
        const auto bytes = read_data_tile(header_.data[set], data_, set, read.tile);
        return bytes ? &tiles_.emplace_back(read, pack_data_tile(*bytes)).second : nullptr;
    }
    [[nodiscard]] std::deque<std::pair<TileRead, Tile>> take() { return std::move(tiles_); }

private:
    const Node& node_;
    const std::span<const TensorView> operands_;
    const ProgramHeader& header_;
    const DataSource& data_;
    mutable std::deque<std::pair<TileRead, Tile>> tiles_;  // addresses stay
};

void read_tile(const TensorView& tensor, std::uint64_t tile, Tile& to) {
    const TileExtent extent = extent_of(tensor.shape(), tile);
    const Strides& strides = tensor.view.strides;
    const std::uint32_t* const source = tensor.view.data + offset_of(strides, extent.first);
    if (extent.rows * extent.columns != kTileWords) to.fill(0);
    if (strides[3] == 1) {
        for (std::size_t r = 0; r < extent.rows; ++r)
            std::memcpy(to.data() + r * extent.width, source + static_cast<std::ptrdiff_t>(r) * strides[2],
                        extent.columns * sizeof(std::uint32_t));
        return;
    }
    for (std::size_t c = 0; c < extent.columns; ++c) {  // of a transpose, whose columns are rows in memory
        const std::uint32_t* from = source + static_cast<std::ptrdiff_t>(c) * strides[3];
        for (std::size_t r = 0; r < extent.rows; ++r, from += strides[2]) to[r * extent.width + c] = *from;
    }
}

}  // namespace

Tile read_tile(const TensorView& tensor, std::uint64_t tile) {
    Tile result;
    read_tile(tensor, tile, result);
    return result;
}

std::vector<Hash32> tile_hashes(const TensorView& tensor, ThreadPool* pool, const Cancellation* cancellation) {
    std::vector<Hash32> hashes(tensor.shape().tiles());
    parallel_parts(pool, hashes.size(), hashes.size() * kTileWords * kHashWork,
                   [&](std::size_t begin, std::size_t end) {
                       crypto::TileLeaves leaves(end - begin);
                       for (std::size_t i = begin; i < end; ++i) {
                           if (i % kHashBatch == 0 && is_requested(cancellation)) break;
                           Tile& words = leaves.next(hashes[i]);
                           read_tile(tensor, i, words);
                           to_hashed_words(words);
                       }
                       leaves.flush();
                   });
    return hashes;
}

Hash32 tensor_root(const TensorView& tensor, ThreadPool* pool, const Cancellation* cancellation) {
    return tensor_root_of(tile_hashes(tensor, pool, cancellation));
}

std::vector<MicroState> micro_trace(const TappedNode& tapped, std::uint64_t tile) {
    std::vector<MicroState> trace;
    each_micro_state(tapped, tile, [&](const MicroState& state) {
        trace.push_back(state);
        return true;
    });
    return trace;
}

void each_micro_state(const TappedNode& tapped, std::uint64_t tile, const TakeMicroState& take) {
    MicroState last{std::vector<Tile>(accumulator_count(*tapped.node), Tile{})};
    last.accumulators.front() = read_tile(tapped.output, tile);
    if (find_op(tapped.node->op)->micro_steps == MicroSteps::one) {
        (void)take(last);
        return;
    }
    const Crop crop = crop_to_tile(tapped, tile);
    std::vector<const Tensor*> operands;
    std::vector<OperandType> types;
    for (const Tensor& operand : crop.operands) {
        operands.push_back(&operand);
        types.push_back({operand.dtype, operand.shape});
    }
    std::uint64_t left = micro_step_count(crop.node, types);
    each_micro_state(crop.node, operands, crop.tile,
                     [&](const MicroState& state) { return take(--left == 0 ? last : state); });
}

std::uint64_t micro_state_bytes(const Node& node, std::span<const OperandType> operands) {
    return micro_step_count(node, operands) * accumulator_count(node) * kTileBytes;
}

std::uint64_t micro_copy_bytes(const Node& node, std::span<const OperandType> operands) {
    // Of a tile that leads to the largest copies: as many rows and columns as tiles can have, and the tile above.
    const std::uint64_t rows = std::min<std::uint64_t>(kTileSide + 1, node.shape.rows());
    const std::uint64_t columns = extent_of(node.shape, 0).columns;
    const auto words_of = [](const Shape& shape) { return std::uint64_t{shape.rows()} * shape.columns(); };
    std::uint64_t words = 0;
    switch (find_op(node.op)->micro_steps) {
        case MicroSteps::one:
            break;
        case MicroSteps::inner_tiles: {
            const std::uint64_t inner = operands[0].shape.dims[node.attributes[0] != 0 ? 2 : 3];
            words = inner * (rows + columns);
            break;
        }
        case MicroSteps::inner_tiles_and_scales: {
            const std::uint64_t inner = operands[0].shape.dims[node.attributes[0] != 0 ? 2 : 3];
            words = (inner + (inner + kStrip - 1) / kStrip) * (rows + columns);
            break;
        }
        case MicroSteps::column_tiles_and_fold:
        case MicroSteps::bisection:
            words = rows * operands[0].shape.columns();
            break;
        case MicroSteps::row_tiles:
            words = operands[0].shape.rows() * columns;
            for (std::size_t i = 1; i < operands.size(); ++i) words += words_of(operands[i].shape);
            break;
    }
    return words * sizeof(std::uint32_t);
}

Expected<TappedLeaf> evaluate_leaf(const TappedNode& tapped, const ProgramHeader& header, const LeafTarget& target,
                                   const MicroState& before, const DataSource& data) {
    std::vector<OperandType> types;
    for (const TensorView& operand : tapped.operands) types.push_back({operand.dtype, operand.shape()});
    OperandTiles tiles(tapped, header, data);
    TappedLeaf leaf;
    QUERN_TRY(leaf.value, evaluate_leaf(*tapped.node, header, types, target, before, tiles));
    leaf.tiles = tiles.take();
    return leaf;
}

}  // namespace quern::vm::tensor
