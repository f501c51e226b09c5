// What a step of a program takes, by rules and not by what an executor does (doc/program-format.md, "Sizes").
#include <algorithm>

#include "vm/tensor/graph.h"
#include "vm/tensor/tap.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kNoNode = ~std::size_t{0};

std::uint64_t tile_bytes_of(const Shape& shape) { return shape.tiles() * kTileBytes; }

// Nodes and slots may be any here: only what is in order is followed.
class Sizes {
public:
    explicit Sizes(const Program& program)
        : program_(program),
          count_(program.nodes.size()),
          base_(count_),
          last_(count_),
          slot_of_base_(count_, kNoNode),
          latest_reader_(program.slots.size(), 0),
          is_read_(program.slots.size(), false) {}

    ProgramSizes run() {
        ProgramSizes sizes;
        for (const Slot& slot : program_.slots) sizes.state_bytes += tile_bytes_of(slot.shape);
        sizes.commit_work = sizes.state_bytes / kTileBytes * kTileHashWork;
        for (const Node& node : program_.nodes) sizes.trace_bytes += tile_bytes_of(node.shape);
        sizes.trace_bytes += kMicroTraceFactor * largest_micro_trace();
        for (const Node& node : program_.nodes) sizes.window_bytes += window_tiles(node, program_.header) * kTileBytes;
        find_bases();
        sizes.peak_bytes = sizes.state_bytes + most_at_once();
        return sizes;
    }

private:
    const Node& node(std::size_t i) const { return program_.nodes[i]; }

    // Bytes of the micro-states of a tile, of the node that has most of them.
    std::uint64_t largest_micro_trace() const {
        std::uint64_t most = 0;
        std::vector<OperandType> operands;
        for (std::size_t i = 0; i < count_; ++i) {
            operands.clear();
            for (const std::uint32_t input : node(i).inputs)
                if (input < i) operands.push_back({node(input).dtype, node(input).shape});
            if (!check_operands(node(i), operands) || find_op(node(i).op)->micro_steps == MicroSteps::one) continue;
            most = std::max(most, micro_state_bytes(node(i), operands));
        }
        return most;
    }

    bool is_view(std::size_t i) const {
        if (node(i).inputs.empty() || node(i).inputs[0] >= i) return false;
        return node(i).op == Op::permute || node(i).op == Op::slice ||
               (node(i).op == Op::reshape && !copies_operand(program_, i));
    }

    // The slot whose value before the step node i is, or is a view of; kNoNode otherwise.
    std::size_t slot_under(std::size_t i) const { return slot_of_base_[base_[i]]; }

    void find_bases() {
        for (std::size_t i = 0; i < count_; ++i) {
            base_[i] = is_view(i) ? base_[node(i).inputs[0]] : i;
            last_[i] = i;
            if (node(i).op == Op::slot && !node(i).attributes.empty() && node(i).attributes[0] < program_.slots.size())
                slot_of_base_[i] = node(i).attributes[0];
            touch_slot(slot_under(i), i);
            for (const std::uint32_t input : node(i).inputs) {
                if (input >= i) continue;
                last_[base_[input]] = i;
                touch_slot(slot_under(input), i);
            }
        }
    }

    void touch_slot(std::size_t slot, std::size_t by) {
        if (slot == kNoNode) return;
        latest_reader_[slot] = by;
        is_read_[slot] = true;
    }

    // Whether node i can be written where the slot that it alone updates is: nothing reads that afterwards, and itself
    // it reads each word where it writes it, or none.
    bool is_in_place(std::size_t i, std::size_t slot) const {
        if (!is_kind(node(i).op, OpKind::elementwise) && !is_kind(node(i).op, OpKind::generated)) return false;
        if (node(i).shape != program_.slots[slot].shape) return false;
        if (is_read_[slot] && latest_reader_[slot] > i) return false;
        return std::all_of(node(i).inputs.begin(), node(i).inputs.end(), [&](std::uint32_t input) {
            return input >= i || slot_under(input) != slot || base_[input] == input;
        });
    }

    std::uint64_t most_at_once() {
        std::vector<std::uint64_t> more(count_ + 1);  // by node: bytes that live from it on
        std::vector<std::uint64_t> fewer(count_ + 1);
        std::vector<std::size_t> updated(count_, 0);  // by node: slots that it updates
        for (const std::uint32_t update : program_.updates)
            if (update < count_) ++updated[update];
        std::vector<bool> seen(count_, false);
        std::vector<bool> in_place(count_, false);
        for (std::size_t slot = 0; slot < std::min(program_.updates.size(), program_.slots.size()); ++slot) {
            const std::size_t update = program_.updates[slot];
            if (update >= count_) continue;
            const bool is_other_slot = slot_under(update) != kNoNode && slot_under(update) != slot;
            if (is_other_slot || base_[update] != update || seen[update])
                more[update] += tile_bytes_of(program_.slots[slot].shape);
            seen[update] = true;
            last_[update] = count_ - 1;
            in_place[update] = updated[update] == 1 && is_in_place(update, slot);
        }
        for (std::size_t i = 0; i < count_; ++i) {
            if (base_[i] != i || in_place[i] || node(i).op == Op::slot) continue;
            more[i] += tile_bytes_of(node(i).shape);
            fewer[last_[i] + 1] += tile_bytes_of(node(i).shape);
        }
        std::uint64_t alive = 0;
        std::uint64_t most = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            alive = alive - fewer[i] + more[i];
            most = std::max(most, alive);
        }
        return most;
    }

    const Program& program_;
    const std::size_t count_;
    std::vector<std::size_t> base_;           // by node: the one whose words it is a view of
    std::vector<std::size_t> last_;           // by base: the last that reads it or a view of it
    std::vector<std::size_t> slot_of_base_;   // by node: the slot that it is
    std::vector<std::size_t> latest_reader_;  // by slot: the last node that is or reads its value before the step
    std::vector<bool> is_read_;
};

}  // namespace

bool copies_operand(const Program& program, std::size_t i) {
    const Node& node = program.nodes[i];
    if (node.op != Op::reshape || node.inputs.empty() || node.inputs[0] >= i) return false;
    const Op operand = program.nodes[node.inputs[0]].op;
    return operand == Op::permute || operand == Op::slice;
}

ProgramSizes sizes_of(const Program& program) { return Sizes(program).run(); }

}  // namespace quern::vm::tensor
