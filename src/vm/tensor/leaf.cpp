// No floating-point type may appear in this file: what it computes is the chain's verdict.
#include "vm/tensor/leaf.h"

#include <algorithm>

#include "crypto/merkle.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/soft_float.h"
#include "vm/tensor/data.h"
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

constexpr std::uint32_t kMinusInfinity = 0xff800000;
constexpr std::uint64_t kStepsPerBlock = arith::kChainBlock / kTileSide;
constexpr std::uint64_t kStepsPerStrip = kStrip / kTileSide + 1;
static_assert(kStrip == arith::kChainBlock);
constexpr std::size_t kTotal = 0;
constexpr std::size_t kPartial = 1;
constexpr std::size_t kFound = 0;
constexpr std::size_t kCounts = 1;
constexpr std::string_view kUnknownOp = "leaf.unknown_op";

std::uint64_t inner_dim(const Node& node, std::span<const OperandType> inputs) {
    return inputs[0].shape.dims[node.attributes[0] != 0 ? 2 : 3];
}

// One evaluation: the target's place, the state before, and the reading of operands.
class Evaluation {
public:
    Evaluation(const Node& node, std::span<const DataSet> data, std::span<const OperandType> inputs,
               const LeafTarget& target, const MicroState& before, const TileSource& source)
        : node_(node),
          data_(data),
          inputs_(inputs),
          target_(target),
          before_(before),
          source_(source),
          at_(tile_coordinates(node.shape, target.tile, target.element)) {}

    Expected<std::uint32_t> run(const OpInfo& info) const {
        // Accumulators of the lanes reach beyond the output's columns.
        if (info.micro_steps == MicroSteps::column_tiles_and_fold) return reduce_last();
        if (info.micro_steps == MicroSteps::bisection) return bisect();
        if (!is_inside(node_.shape, at_)) return 0U;
        switch (info.kind) {
            case OpKind::input:
                return fail("leaf.input_node", "an input is judged by an opening");
            case OpKind::generated:
                return generate();
            case OpKind::window:
                return window();
            case OpKind::elementwise:
                return elementwise();
            case OpKind::reduction:
                return accumulate(info.micro_steps);
            case OpKind::structural: {
                const ElementSource source = copy_source(node_, inputs_, at_);
                return read(source.operand, source.at);
            }
            case OpKind::gather:
                return gather();
        }
        return unknown_op();
    }

private:
    [[nodiscard]] std::uint32_t previous(std::size_t accumulator) const {
        return before_.accumulators[accumulator][target_.element];
    }

    Expected<const Tile*> tile(std::uint32_t operand, std::uint64_t tile) const {
        const Tile* content = source_.tile({operand, tile});
        if (content == nullptr)
            return fail("leaf.missing_tile", "operand " + std::to_string(operand) + " tile " + std::to_string(tile));
        return content;
    }

    Expected<std::uint32_t> read(std::uint32_t operand, const Coordinates& at) const {
        QUERN_TRY(const Tile* content, tile(operand, tile_of(inputs_[operand].shape, at)));
        return (*content)[element_of(inputs_[operand].shape, at)];
    }

    [[nodiscard]] Expected<std::uint32_t> unknown_op() const {
        return fail(kUnknownOp, "no rule judges op " + std::to_string(static_cast<unsigned>(node_.op)));
    }

    Expected<std::uint32_t> generate() const {
        if (node_.op == Op::full) return node_.immediate;
        if (node_.op == Op::iota) return static_cast<std::uint32_t>(at_[node_.attributes[0]]);
        if (node_.op == Op::philox || node_.op == Op::philox_words) return philox();
        return unknown_op();
    }

    Expected<std::uint32_t> accumulate(MicroSteps steps) const {
        if (steps == MicroSteps::inner_tiles_and_scales) return strip_product();
        if (steps == MicroSteps::inner_tiles)
            return sum_by_blocks(inner_dim(node_, inputs_), [this](std::uint32_t sum, std::uint64_t k, std::size_t n) {
                return matmul_chain(sum, k, n);
            });
        if (node_.op == Op::sum_rows)
            return sum_by_blocks(inputs_[0].shape.rows(), [this](std::uint32_t sum, std::uint64_t row, std::size_t n) {
                return row_chain(sum, row, n);
            });
        if (node_.op == Op::scatter_add_rows)
            return sum_by_blocks(inputs_[0].shape.rows(), [this](std::uint32_t sum, std::uint64_t row, std::size_t n) {
                return scatter_chain(sum, row, n);
            });
        return unknown_op();
    }

    Expected<std::uint32_t> philox() const {
        QUERN_TRY(const Tile* key, tile(0, 0));
        const auto index = static_cast<std::uint32_t>(logical_index(node_.shape, at_));
        const auto word = node_.op == Op::philox ? arith::philox_word : arith::philox_four_word;
        return word(index, (*key)[2], (*key)[3], (*key)[0], (*key)[1]);
    }

    Expected<std::uint32_t> elementwise() const {
        std::array<std::uint32_t, kMaxInputs> words{};
        for (std::uint32_t i = 0; i < inputs_.size(); ++i) {
            QUERN_TRY(words[i], read(i, elementwise_source(inputs_[i].shape, i, at_).at));
        }
        return arith::evaluate_soft(node_.element, words[0], words[1], words[2], node_.immediate);
    }

    // A sum of `summands` in blocks: 32 of them a micro-step go into the partial sum, at the end of a block that goes
    // into the total. go_on(partial, first, count) is the chain over `count` summands from number `first` on.
    template <class Chain>
    Expected<std::uint32_t> sum_by_blocks(std::uint64_t summands, Chain go_on) const {
        const std::uint64_t first = target_.micro_step * kTileSide;
        const bool closes_block = (target_.micro_step + 1) % kStepsPerBlock == 0 || first + kTileSide >= summands;
        if (closes_block && target_.accumulator == kPartial) return 0U;
        if (!closes_block && target_.accumulator == kTotal) return previous(kTotal);
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kTileSide, summands - first));
        QUERN_TRY(const std::uint32_t partial, go_on(previous(kPartial), first, count));
        return closes_block ? arith::soft_add(previous(kTotal), partial) : partial;
    }

    Expected<std::uint32_t> matmul_chain(std::uint32_t partial, std::uint64_t first, std::size_t count) const {
        std::array<std::uint32_t, kTileSide> a{};
        std::array<std::uint32_t, kTileSide> b{};
        QUERN_CHECK(read_line(0, node_.attributes[0] != 0, at_[2], first, count, a));
        QUERN_CHECK(read_line(1, node_.attributes[1] == 0, at_[3], first, count, b));
        return arith::mm_chain_soft(partial, a.data(), b.data(), count);
    }

    // `count` words of a product's operand along its inner dim from `first` on, at `outer` in its other dim.
    Status read_line(std::uint32_t operand, bool inner_is_rows, std::uint64_t outer, std::uint64_t first,
                     std::size_t count, std::array<std::uint32_t, kTileSide>& line) const {
        const Shape& shape = inputs_[operand].shape;
        Coordinates at{shape.dims[0] == 1 ? 0 : at_[0], shape.dims[1] == 1 ? 0 : at_[1], 0, 0};
        const std::size_t inner_axis = inner_is_rows ? 2 : 3;
        at[inner_axis] = first;
        at[5 - inner_axis] = outer;
        QUERN_TRY(const Tile* content, tile(operand, tile_of(shape, at)));
        const std::uint32_t place = element_of(shape, at);
        const std::size_t step = inner_is_rows ? kTileSide : 1;  // a tensor of one row has no second
        for (std::size_t i = 0; i < count; ++i) line[i] = (*content)[place + i * step];
        return {};
    }

    // A product of bytes: of each strip the micro-steps of its tiles into partial, then one with the scales.
    Expected<std::uint32_t> strip_product() const {
        const std::uint64_t strip = target_.micro_step / kStepsPerStrip;
        const std::uint64_t tile = target_.micro_step % kStepsPerStrip;
        const std::uint64_t first = strip * kStrip + tile * kTileSide;
        const std::uint64_t inner = inner_dim(node_, inputs_);
        const bool scales = tile == kStepsPerBlock || first >= inner;
        if (target_.accumulator == kPartial) {
            if (scales) return 0U;
            const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kTileSide, inner - first));
            std::array<std::uint32_t, kTileSide> a{};
            std::array<std::uint32_t, kTileSide> b{};
            QUERN_CHECK(read_line(0, node_.attributes[0] != 0, at_[2], first, count, a));
            QUERN_CHECK(read_line(2, node_.attributes[1] == 0, at_[3], first, count, b));
            return arith::imm_chain_soft(previous(kPartial), a.data(), b.data(), count);
        }
        if (!scales) return previous(kTotal);
        std::array<std::uint32_t, kTileSide> scale_a{};
        std::array<std::uint32_t, kTileSide> scale_b{};
        QUERN_CHECK(read_line(1, node_.attributes[0] != 0, at_[2], strip, 1, scale_a));
        QUERN_CHECK(read_line(3, node_.attributes[1] == 0, at_[3], strip, 1, scale_b));
        return arith::strip_sum_soft(previous(kTotal), previous(kPartial), scale_a[0], scale_b[0]);
    }

    // The lanes of a row are 32 words of the accumulator, whatever the shape of the output's tiles.
    Expected<std::uint32_t> reduce_last() const {
        const bool is_sum = node_.op == Op::sum_last;
        const Shape& source = inputs_[0].shape;
        const std::uint32_t lane = target_.element % arith::kReductionLanes;
        Coordinates at = tile_coordinates(node_.shape, target_.tile, 0);
        at[2] += target_.element / arith::kReductionLanes;
        const bool row_exists = at[2] < node_.shape.rows();
        if (target_.micro_step == source.tile_columns()) {  // the fold
            if (!row_exists || lane != 0) return 0U;
            const std::uint32_t* lanes = before_.accumulators[0].data() + target_.element;
            return is_sum ? arith::fold_sum_soft(lanes) : arith::fold_max_soft(lanes);
        }
        if (!row_exists) return is_sum ? 0U : kMinusInfinity;
        const std::uint64_t end =
            std::min<std::uint64_t>((target_.micro_step + 1) * source.tile_width(), source.columns());
        std::uint32_t value = previous(0);
        for (at[3] = target_.micro_step * source.tile_width() + lane; at[3] < end; at[3] += arith::kReductionLanes) {
            QUERN_TRY(const std::uint32_t word, read(0, at));
            value = is_sum ? arith::soft_add(value, word) : arith::soft_max(value, word);
        }
        return value;
    }

    // The k-th largest word of a row, bit by bit: lanes count the words that are not below the candidate, and a fold
    // keeps its bit where there are k of them.
    Expected<std::uint32_t> bisect() const {
        const Shape& source = inputs_[0].shape;
        const std::uint64_t steps = source.tile_columns() + 1;
        const std::uint64_t step = target_.micro_step % steps;
        const std::uint32_t bit = 0x80000000U >> (target_.micro_step / steps);
        const bool folds = step == source.tile_columns();
        return target_.accumulator == kFound ? found(folds, bit) : counted(folds, step, bit);
    }

    [[nodiscard]] std::uint32_t found(bool folds, std::uint32_t bit) const {
        if (!is_inside(node_.shape, at_)) return 0;
        const std::uint32_t before = previous(kFound);
        if (!folds) return before;
        const std::uint64_t row = at_[2] % node_.shape.tile_height();
        const std::uint32_t* const lanes = before_.accumulators[kCounts].data() + row * arith::kReductionLanes;
        std::uint64_t count = 0;
        for (std::size_t lane = 0; lane < arith::kReductionLanes; ++lane) count += lanes[lane];
        return count >= node_.attributes[0] ? before | bit : before;
    }

    Expected<std::uint32_t> counted(bool folds, std::uint64_t step, std::uint32_t bit) const {
        const Shape& source = inputs_[0].shape;
        const std::uint64_t row = target_.element / arith::kReductionLanes;
        Coordinates at = tile_coordinates(node_.shape, target_.tile, 0);
        at[2] += row;
        if (folds || at[2] >= node_.shape.rows()) return 0U;
        const std::uint32_t candidate = before_.accumulators[kFound][row * node_.shape.tile_width()] | bit;
        const std::uint64_t end = std::min<std::uint64_t>((step + 1) * source.tile_width(), source.columns());
        std::uint32_t count = previous(kCounts);
        at[3] = step * source.tile_width() + target_.element % arith::kReductionLanes;
        for (; at[3] < end; at[3] += arith::kReductionLanes) {
            QUERN_TRY(const std::uint32_t word, read(0, at));
            count += word >= candidate ? 1 : 0;
        }
        return count;
    }

    Expected<std::uint32_t> row_chain(std::uint32_t sum, std::uint64_t row, std::size_t count) const {
        for (Coordinates at{at_[0], at_[1], row, at_[3]}; at[2] < row + count; ++at[2]) {
            QUERN_TRY(const std::uint32_t word, read(0, at));
            sum = arith::soft_add(sum, word);
        }
        return sum;
    }

    Expected<std::uint32_t> gather() const {
        QUERN_TRY(const std::uint32_t row, read(1, index_coordinates(inputs_[1].shape, at_, at_[2])));
        if (row >= inputs_[0].shape.rows()) return 0U;
        return read(0, {0, 0, row, at_[3]});
    }

    // The product of two 32-bit numbers and a column fit 64 bits.
    Expected<std::uint32_t> window() const {
        QUERN_TRY(const std::uint32_t index, read(0, {at_[0], at_[1], at_[2], 0}));
        const DataSet& data = data_[node_.attributes[0]];
        const std::uint64_t element = std::uint64_t{index} * node_.attributes[1] + at_[3];
        if (element >= data.elements) return 0U;
        const std::uint64_t in_a_tile = kTileBytes / element_bytes(data.type);
        QUERN_TRY(const Tile* content, tile(kDataOperand, element / in_a_tile));
        return data_word(data.type, *content, element % in_a_tile);
    }

    Expected<std::uint32_t> scatter_chain(std::uint32_t sum, std::uint64_t row, std::size_t count) const {
        for (const std::uint64_t end = row + count; row < end; ++row) {
            QUERN_TRY(const std::uint32_t index, read(1, index_coordinates(inputs_[1].shape, {}, row)));
            if (index != at_[2]) continue;
            QUERN_TRY(const std::uint32_t word, read(0, {0, 0, row, at_[3]}));
            sum = arith::soft_add(sum, word);
        }
        return sum;
    }

    const Node& node_;
    const std::span<const DataSet> data_;  // of the program
    const std::span<const OperandType> inputs_;
    const LeafTarget& target_;
    const MicroState& before_;
    const TileSource& source_;
    const Coordinates at_;
};

// Serves tiles of whole tensors and remembers which were asked for.
class RecordingSource final : public TileSource {
public:
    explicit RecordingSource(std::span<const Tensor* const> inputs) : inputs_(inputs) {}

    [[nodiscard]] const Tile* tile(const TileRead& read) const override {
        const auto known = std::find(reads_.begin(), reads_.end(), read);
        if (known != reads_.end()) return &tiles_[static_cast<std::size_t>(known - reads_.begin())];
        if (reads_.size() == kMaxLeafTiles) return nullptr;
        tiles_[reads_.size()] = read_tile(*inputs_[read.operand], read.tile);
        reads_.push_back(read);
        return &tiles_[reads_.size() - 1];
    }
    [[nodiscard]] std::vector<TileRead> take() { return std::move(reads_); }

private:
    std::span<const Tensor* const> inputs_;
    mutable std::vector<TileRead> reads_;
    mutable std::array<Tile, kMaxLeafTiles> tiles_;
};

Expected<std::uint32_t> evaluate_valid(const Node& node, std::span<const DataSet> data,
                                       std::span<const OperandType> inputs, const LeafTarget& target,
                                       const MicroState& before, const TileSource& source) {
    if (target.tile >= node.shape.tiles() || target.element >= kTileWords ||
        target.accumulator >= accumulator_count(node) || target.micro_step >= micro_step_count(node, inputs))
        return fail("leaf.bad_target", "tile " + std::to_string(target.tile) + " micro-step " +
                                           std::to_string(target.micro_step) + " of " + node.shape.to_string());
    if (before.accumulators.size() != accumulator_count(node))
        return fail("leaf.bad_accumulators", std::to_string(before.accumulators.size()) + " tiles");
    const OpInfo* const info = find_op(node.op);
    if (info == nullptr) return fail(kUnknownOp);
    return Evaluation(node, data, inputs, target, before, source).run(*info);
}

}  // namespace

std::size_t accumulator_count(const Node& node) {
    const OpInfo* const info = find_op(node.op);
    return info == nullptr ? 1 : info->accumulators;
}

std::uint64_t micro_step_count(const Node& node, std::span<const OperandType> inputs) {
    if (!check_operands(node, inputs)) return 1;
    switch (find_op(node.op)->micro_steps) {
        case MicroSteps::one:
            return 1;
        case MicroSteps::inner_tiles:
            return (inner_dim(node, inputs) + kTileSide - 1) / kTileSide;
        case MicroSteps::inner_tiles_and_scales: {
            const std::uint64_t inner = inner_dim(node, inputs);
            return (inner + kTileSide - 1) / kTileSide + (inner + kStrip - 1) / kStrip;
        }
        case MicroSteps::column_tiles_and_fold:
            return inputs[0].shape.tile_columns() + 1;
        case MicroSteps::row_tiles:
            return inputs[0].shape.tile_rows();
        case MicroSteps::bisection:
            return 32 * (inputs[0].shape.tile_columns() + 1);
    }
    return 1;
}

MicroState initial_micro_state(const Node& node) {
    MicroState state;
    state.accumulators.resize(accumulator_count(node), Tile{});
    if (node.op == Op::max_last) state.accumulators[0].fill(kMinusInfinity);
    return state;
}

Hash32 micro_state_hash(const MicroState& state) {
    std::vector<Hash32> hashes;
    hashes.reserve(state.accumulators.size());
    for (const Tile& accumulator : state.accumulators) hashes.push_back(tile_hash(accumulator));
    return crypto::list_id_of(crypto::MerkleTag::micro, hashes);
}

Expected<std::uint32_t> evaluate_leaf(const Node& node, const ProgramHeader& header,
                                      std::span<const OperandType> inputs, const LeafTarget& target,
                                      const MicroState& before, const TileSource& source) {
    if (find_op(node.op) == nullptr) return fail(kUnknownOp);
    if (is_kind(node.op, OpKind::input)) return fail("leaf.input_node", "an input is judged by an opening");
    if (!check_node(node, inputs, header)) return 0U;
    return evaluate_valid(node, header.data, inputs, target, before, source);
}

std::vector<TileRead> leaf_reads(const Node& node, std::span<const Tensor* const> inputs, const LeafTarget& target) {
    std::vector<OperandType> types;
    for (const Tensor* input : inputs) types.push_back({input->dtype, input->shape});
    if (is_kind(node.op, OpKind::input) || is_kind(node.op, OpKind::window) || !check_operands(node, types)) return {};
    RecordingSource source(inputs);
    // Which tiles are read depends on the inputs alone, not on the accumulators.
    if (!evaluate_valid(node, {}, types, target, initial_micro_state(node), source)) return {};
    return source.take();
}

}  // namespace quern::vm::tensor
