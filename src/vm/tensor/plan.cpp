#include "vm/tensor/plan.h"

#include <algorithm>
#include <utility>

#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kMaxConstantWords = 1U << 24;   // all constants that are computed once, together
constexpr std::uint64_t kMaxConstantWork = 1U << 20;  // work units of one of them
constexpr std::size_t kGroupWindow = 256;             // nodes looked ahead for members of a group
constexpr std::size_t kMaxMembers = 64;
constexpr std::size_t kShortRow = 64;  // rows below this are worth a copy of an operand that causes them

// Which elementwise nodes of a step run together. The quickest that keeps within the header's peak bytes is taken.
enum class Grouping : std::uint8_t {
    ahead,       // any of the same shape that are near
    neighbours,  // those with nothing else between them
    none,        // each node at its place and nothing kept for later: what the peak bytes are reckoned by
};

class Planner {
public:
    Planner(const Program& program, const arith::Kernels* kernels, PlanMode mode, Grouping grouping)
        : program_(program),
          kernels_(kernels),
          mode_(mode),
          grouping_(grouping),
          values_(program.nodes.size()),
          dense_(program.nodes.size(), kNone),
          live_(program.nodes.size()),
          done_(program.nodes.size()) {}

    ExecutionPlan run() {
        find_live_nodes();
        find_slot_reads();
        if (mode_ != PlanMode::owned) place_inputs_and_constants();
        schedule();
        place_arena(plan_);
        return std::move(plan_);
    }

private:
    const Node& node(std::size_t i) const { return program_.nodes[i]; }

    void find_live_nodes() {
        users_.resize(program_.nodes.size());
        is_update_.resize(program_.nodes.size());
        if (mode_ != PlanMode::step) live_.assign(live_.size(), true);
        for (const std::uint32_t update : program_.updates) live_[update] = true;
        for (const std::uint32_t update : program_.updates) is_update_[update] = true;
        for (std::size_t i = program_.nodes.size(); i-- > 0;) {
            if (!live_[i]) continue;
            for (const std::uint32_t input : node(i).inputs) {
                live_[input] = true;
                users_[input].push_back(static_cast<std::uint32_t>(i));
            }
        }
    }

    bool is_exact() const { return mode_ == PlanMode::step && grouping_ == Grouping::none; }

    // Who reads a slot's value before the step, so that nobody does once it is written over. A reshape of a view may be
    // a view or a copy; where it is not known here it counts as both.
    void find_slot_reads() {
        const std::size_t slots = program_.slots.size();
        slot_under_.assign(program_.nodes.size(), kNone);
        reads_left_.assign(slots, 0);
        latest_reader_.assign(slots, 0);
        held_.assign(slots, kNone);
        copies_left_.assign(slots, 0);
        is_written_.assign(slots, false);
        updated_by_.resize(program_.nodes.size());
        for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
            if (!live_[i]) continue;
            const bool is_view = find_op(node(i).op)->is_view && !(is_exact() && copies_operand(program_, i));
            if (node(i).op == Op::slot) slot_under_[i] = node(i).attributes[0];
            if (is_view) slot_under_[i] = slot_under_[node(i).inputs[0]];
            if (slot_under_[i] != kNone) latest_reader_[slot_under_[i]] = i;
            for (const std::size_t slot : slots_read_by(i)) {
                ++reads_left_[slot];
                latest_reader_[slot] = i;
            }
        }
        for (std::size_t slot = 0; slot < slots; ++slot) {
            const std::uint32_t update = program_.updates[slot];
            updated_by_[update].push_back(slot);
            if (slot_under_[update] != kNone) ++copies_left_[slot_under_[update]];
        }
    }

    // Each once.
    std::vector<std::size_t> slots_read_by(std::size_t i) const {
        std::vector<std::size_t> slots;
        for (const std::uint32_t input : node(i).inputs)
            if (const std::size_t slot = slot_under_[input];
                slot != kNone && std::find(slots.begin(), slots.end(), slot) == slots.end())
                slots.push_back(slot);
        return slots;
    }

    void set_done(std::size_t i) {
        done_[i] = true;
        for (const std::size_t slot : slots_read_by(i))
            if (--reads_left_[slot] == 0) settled_.push_back(slot);
        settled_.insert(settled_.end(), updated_by_[i].begin(), updated_by_[i].end());
    }

    std::size_t add_root(Root::Kind kind, std::size_t index, std::size_t words) {
        Root root;
        root.kind = kind;
        root.index = index;
        root.words = words;
        plan_.roots.push_back(root);
        return plan_.roots.size() - 1;
    }

    void set_dense(std::size_t i, std::size_t root) {
        values_[i] = {root, 0, node(i).shape, dense_strides(node(i).shape)};
        set_done(i);
    }

    void place_inputs_and_constants() {
        std::size_t constant_words = 0;
        for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
            if (!live_[i]) continue;
            const std::size_t words = node(i).shape.elements();
            if (is_kind(node(i).op, OpKind::input)) {
                set_dense(i, add_input(node(i), words));
                continue;
            }
            if (node(i).op == Op::full) {
                add_uniform(i, Tensor{node(i).dtype, Shape{}, {node(i).immediate}});
                continue;
            }
            const bool constant =
                !is_kind(node(i).op, OpKind::window) &&
                std::all_of(node(i).inputs.begin(), node(i).inputs.end(), [&](std::uint32_t input) {
                    return done_[input] && plan_.roots[values_[input].root].kind == Root::Kind::constant;
                });
            if (!constant) continue;
            if (make_alias(i)) continue;
            std::vector<View> inputs;
            std::vector<OperandType> types;
            std::size_t taken = words;  // operands may have to be copied
            bool uniform = node(i).op == Op::elementwise;
            for (const std::uint32_t input : node(i).inputs) {
                const Value& value = values_[input];
                const Tensor& known = plan_.constants[plan_.roots[value.root].index];
                inputs.push_back(
                    {known.words.empty() ? nullptr : known.words.data() + value.offset, value.shape, value.strides});
                uniform = uniform && is_uniform(value.shape, value.strides);
                types.push_back({node(input).dtype, value.shape});
                taken += value.shape.elements();
            }
            if (uniform) {
                Node one = node(i);
                one.shape = Shape{};
                for (View& input : inputs) input.shape = Shape{};
                add_uniform(i, compute(one, inputs));
            } else if (!is_exact() && constant_words + taken <= kMaxConstantWords &&
                       node_work_units(node(i), types) <= kMaxConstantWork) {
                constant_words += words;
                plan_.constants.push_back(compute(node(i), inputs));
                set_dense(i, add_root(Root::Kind::constant, plan_.constants.size() - 1, words));
            }
        }
    }

    Tensor compute(const Node& constant, std::span<const View> inputs) const {
        if (kernels_ == nullptr) return {constant.dtype, constant.shape, {}};
        return run_node_checked(*kernels_, constant, inputs, nullptr);
    }

    std::size_t add_input(const Node& input, std::size_t words) {
        if (input.op == Op::slot) return add_root(Root::Kind::slot, input.attributes[0], words);
        return add_root(Root::Kind::seed, 0, words);
    }

    void add_uniform(std::size_t i, Tensor word) {
        plan_.constants.push_back(std::move(word));
        const std::size_t root = add_root(Root::Kind::constant, plan_.constants.size() - 1, 1);
        values_[i] = {root, 0, node(i).shape, {}};
        set_done(i);
    }

    // Makes node i a view of its input if it can be one. The input's value is known.
    bool make_alias(std::size_t i) {
        if (mode_ == PlanMode::owned || node(i).inputs.empty()) return false;
        if (is_exact() && copies_operand(program_, i)) return false;
        const Value& input = values_[node(i).inputs[0]];
        Value value = input;
        value.shape = node(i).shape;
        if (!view_of(node(i), input.shape, input.strides, value.strides, value.offset)) return false;
        values_[i] = value;
        set_done(i);
        return true;
    }

    bool inputs_done(std::size_t i) const {
        return std::all_of(node(i).inputs.begin(), node(i).inputs.end(),
                           [&](std::uint32_t input) { return done_[input]; });
    }

    void schedule() {
        for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
            at_ = i;
            if (live_[i] && !done_[i] && !make_alias(i)) schedule(i);
            hold_old_values(i);
            settled_.insert(settled_.end(), updated_by_[i].begin(), updated_by_[i].end());
            if (mode_ != PlanMode::step) {
                add_tap(i);
                const std::vector<std::size_t> slots = slots_read_by(i);
                settled_.insert(settled_.end(), slots.begin(), slots.end());
                if (slot_under_[i] != kNone) settled_.push_back(slot_under_[i]);
            }
            commit_settled();
        }
    }

    // Whether nobody reads the slot's value before the step any more but `readers` nodes that are not done.
    bool is_read_only_by(std::size_t slot, std::size_t readers) const {
        if (copies_left_[slot] != 0) return false;
        return mode_ == PlanMode::step ? reads_left_[slot] == readers : latest_reader_[slot] <= at_;
    }

    bool keeps_slot(std::size_t slot) const {
        const Value& value = values_[program_.updates[slot]];
        const Root& root = plan_.roots[value.root];
        return root.kind == Root::Kind::slot && root.index == slot && value.offset == 0 &&
               is_dense(value.shape, value.strides);
    }

    // Node i is a slot's value before the step, or a view of it, and what a slot becomes: copied at its place, since
    // either slot may be written before the other.
    void hold_old_values(std::size_t i) {
        if (slot_under_[i] == kNone) return;
        for (const std::size_t slot : updated_by_[i]) {
            if (plan_.roots[values_[i].root].kind == Root::Kind::slot && !keeps_slot(slot)) {
                held_[slot] = add_copy(values_[i]);
            }
            --copies_left_[slot_under_[i]];
        }
        if (!updated_by_[i].empty()) settled_.push_back(slot_under_[i]);
    }

    // Writes the slots whose value after the step is known and whose value before it nobody reads any more.
    void commit_settled() {
        for (std::size_t k = 0; k < settled_.size(); ++k) {
            const std::size_t slot = settled_[k];
            const std::uint32_t update = program_.updates[slot];
            const bool waits_for_turn = mode_ != PlanMode::step || slot_under_[update] != kNone;
            const bool is_known = done_[update] && (update <= at_ || !waits_for_turn);
            if (is_written_[slot] || !is_known || !is_read_only_by(slot, 0)) continue;
            is_written_[slot] = true;
            if (keeps_slot(slot)) continue;
            Value value = values_[update];
            if (held_[slot] != kNone) value = {held_[slot], 0, value.shape, dense_strides(value.shape)};
            Step step;
            step.kind = Step::Kind::commit;
            step.inputs.push_back(value);
            read(value.root);
            step.output = write_slot(slot);
            plan_.steps.push_back(std::move(step));
        }
        settled_.clear();
    }

    // For who reads a slot after the step is to find the new value.
    std::size_t write_slot(std::size_t slot) {
        is_written_[slot] = true;
        return add_root(Root::Kind::next, slot, program_.slots[slot].shape.elements());
    }

    // A slot that node i updates and may be written over; kNone: none.
    template <class Fits>
    std::size_t slot_for(std::size_t i, Fits&& fits) const {
        if (mode_ != PlanMode::step) return kNone;
        for (const std::size_t slot : updated_by_[i])
            if (!is_written_[slot] && fits(slot)) return slot;
        return kNone;
    }

    bool is_old_value(const Value& value, std::size_t slot) const {
        return value.root != kNone && plan_.roots[value.root].kind == Root::Kind::slot &&
               plan_.roots[value.root].index == slot;
    }

    void schedule(std::size_t i) {
        if (is_kind(node(i).op, OpKind::input)) {
            const std::size_t words = node(i).shape.elements();
            set_dense(i, add_copy({add_input(node(i), words), 0, node(i).shape, dense_strides(node(i).shape)}));
        } else if (node(i).op == Op::elementwise) {
            add_group(i);
        } else if (node(i).op == Op::reshape) {
            const std::uint32_t input = node(i).inputs[0];
            set_dense(i, mode_ == PlanMode::owned ? add_copy(values_[input]) : dense_copy(input).root);
        } else {
            add_single(i);
        }
    }

    // Node i and its operands can be read between the last step so far and the next one.
    void add_tap(std::size_t i) {
        keep(values_[i].root);
        for (const std::uint32_t input : node(i).inputs) keep(values_[input].root);
        plan_.taps.push_back({plan_.steps.size(), values_[i]});
    }

    void keep(std::size_t root) {
        if (plan_.roots[root].kind != Root::Kind::arena) return;  // else it is there all the time
        plan_.roots[root].last_step = std::max(plan_.roots[root].last_step, plan_.steps.size() - 1);
    }

    void read(std::size_t root) {
        plan_.roots[root].last_step = std::max(plan_.roots[root].last_step, plan_.steps.size());
    }

    std::size_t write(std::size_t words) {
        const std::size_t root = add_root(Root::Kind::arena, 0, words);
        plan_.roots[root].first_step = plan_.steps.size();
        plan_.roots[root].last_step = plan_.steps.size();
        return root;
    }

    // A dense copy of node i's value, made once.
    Value dense_copy(std::size_t i) {
        if (dense_[i] == kNone) dense_[i] = add_copy(values_[i]);
        return {dense_[i], 0, node(i).shape, dense_strides(node(i).shape)};
    }

    std::size_t add_copy(const Value& value) {
        Step step;
        step.kind = Step::Kind::copy;
        step.inputs.push_back(value);
        read(value.root);
        step.output = write(value.shape.elements());
        plan_.steps.push_back(std::move(step));
        return plan_.steps.back().output;
    }

    void add_single(std::size_t i) {
        Step step;
        step.kind = Step::Kind::node;
        step.node = &node(i);
        for (std::size_t k = 0; k < node(i).inputs.size(); ++k) {
            const std::uint32_t input = node(i).inputs[k];
            const Value& value = values_[input];
            const bool fits = has_layout({nullptr, value.shape, value.strides}, required_layout(node(i).op, k));
            step.inputs.push_back(fits ? value : dense_copy(input));
        }
        for (const Value& input : step.inputs) read(input.root);
        const std::size_t slot = slot_for(i, [&](std::size_t candidate) {
            // Only a generated one reads its operand before it writes.
            const bool overlaps = !is_kind(node(i).op, OpKind::generated) &&
                                  std::any_of(step.inputs.begin(), step.inputs.end(),
                                              [&](const Value& value) { return is_old_value(value, candidate); });
            return !overlaps && is_read_only_by(candidate, reads(i, candidate));
        });
        step.output = slot != kNone ? write_slot(slot) : write(node(i).shape.elements());
        plan_.steps.push_back(std::move(step));
        set_dense(i, plan_.steps.back().output);
    }

    // Elementwise nodes of the same shape that can run together with node i, in order.
    std::vector<std::size_t> find_members(std::size_t i) {
        if (mode_ != PlanMode::step || is_exact()) return {i};
        std::vector<std::size_t> members;
        std::size_t looked_at = 0;
        for (std::size_t j = i; j < program_.nodes.size() && looked_at < kGroupWindow && members.size() < kMaxMembers;
             ++j) {
            if (!live_[j] || done_[j]) continue;
            ++looked_at;
            const bool fits = node(j).op == Op::elementwise && node(j).shape == node(i).shape;
            if (!fits) {
                if (inputs_done(j) && make_alias(j)) continue;
                if (grouping_ == Grouping::neighbours) break;
                continue;
            }
            const bool ready = std::all_of(node(j).inputs.begin(), node(j).inputs.end(), [&](std::uint32_t input) {
                return done_[input] || std::find(members.begin(), members.end(), input) != members.end();
            });
            if (ready && (j == i || !is_better_later(j, members)))
                members.push_back(j);
            else if (grouping_ == Grouping::neighbours)
                break;
        }
        return members;
    }

    // Whether node j could be written over the slot that it updates at its own place, and not now: others before it
    // still read that.
    bool is_better_later(std::size_t j, const std::vector<std::size_t>& members) const {
        return std::any_of(updated_by_[j].begin(), updated_by_[j].end(), [&](std::size_t slot) {
            if (latest_reader_[slot] > j) return false;
            return copies_left_[slot] != 0 || reads_left_[slot] != readers_among(members, slot) + reads(j, slot);
        });
    }

    std::size_t reads(std::size_t i, std::size_t slot) const {
        return std::any_of(node(i).inputs.begin(), node(i).inputs.end(),
                           [&](std::uint32_t input) { return slot_under_[input] == slot; })
                   ? 1
                   : 0;
    }
    std::size_t readers_among(const std::vector<std::size_t>& nodes, std::size_t slot) const {
        std::size_t count = 0;
        for (const std::size_t i : nodes) count += reads(i, slot);
        return count;
    }

    // Operands of a member from outside the group, with a nest that the kernels can run.
    void place_operands(std::size_t i, const std::vector<std::size_t>& group, Member& member) {
        const std::size_t arity = node(i).inputs.size();
        std::array<Strides, kMaxOperands> strides{};
        const auto make_nest = [&] {
            for (std::size_t k = 0; k < arity; ++k) {
                const Value& value = member.operands[k].value;
                strides[k] = member.operands[k].is_gathered
                                 ? dense_strides(node(i).shape)
                                 : broadcast_strides(value.shape, value.strides, node(i).shape);
            }
            member.nest = make_loop_nest(node(i).shape, {strides.data(), arity});
        };
        for (std::size_t k = 0; k < arity; ++k) {
            const std::uint32_t input = node(i).inputs[k];
            const bool inside = std::find(group.begin(), group.end(), input) != group.end();
            member.operands[k].value =
                inside ? Value{kNone, 0, node(i).shape, dense_strides(node(i).shape)} : values_[input];
        }
        make_nest();
        const bool short_rows = member.nest.row_length < kShortRow && node(i).shape.elements() >= kGroupBlock;
        if (is_runnable(member.nest, arity) && !short_rows) return;
        for (std::size_t k = 0; k < arity; ++k) {
            Value& value = member.operands[k].value;
            if (value.root == kNone || is_dense(value.shape, value.strides) || is_uniform(value.shape, value.strides))
                continue;
            if (is_exact())
                member.operands[k].is_gathered = true;
            else
                value = dense_copy(node(i).inputs[k]);
        }
        make_nest();
    }

    // Whether member m can be written over the slot block by block: each block is read there for the last time by m,
    // and word by word.
    bool fits_over(const Step& step, const std::vector<std::size_t>& group, std::size_t m, std::size_t slot) const {
        if (!is_read_only_by(slot, readers_among(group, slot))) return false;
        for (std::size_t at = 0; at < group.size(); ++at) {
            for (std::size_t k = 0; k < node(group[at]).inputs.size(); ++k) {
                const Member::Operand& operand = step.members[at].operands[k];
                if (!is_old_value(operand.value, slot)) continue;
                const Value& value = operand.value;
                const bool is_aligned = !operand.is_gathered && value.offset == 0 &&
                                        value.shape.elements() == step.words && is_dense(value.shape, value.strides);
                if (at > m || !is_aligned) return false;
            }
        }
        return true;
    }

    void add_group(std::size_t i) {
        const std::vector<std::size_t> group = find_members(i);
        Step step;
        step.kind = Step::Kind::group;
        step.words = node(i).shape.elements();
        step.members.resize(group.size());
        for (std::size_t m = 0; m < group.size(); ++m) {  // before the step's number is taken: it may add copies
            step.members[m].node = &node(group[m]);
            step.work += arith::find_element_op(node(group[m]).element)->work;
            place_operands(group[m], group, step.members[m]);
        }
        std::vector<std::size_t> over(group.size(), kNone);  // the slot that a member is written over
        for (std::size_t m = 0; m < group.size(); ++m) {
            over[m] = slot_for(group[m], [&](std::size_t slot) { return fits_over(step, group, m, slot); });
            if (over[m] != kNone) step.members[m].root = write_slot(over[m]);
        }
        std::vector<std::size_t> last_use(group.size());  // within the group
        std::vector<bool> outside(group.size());          // read after the group
        for (std::size_t m = 0; m < group.size(); ++m) {
            outside[m] = is_update_[group[m]] || mode_ != PlanMode::step;
            for (const std::uint32_t user : users_[group[m]]) {
                const auto at = std::find(group.begin(), group.end(), user);
                if (at == group.end())
                    outside[m] = true;
                else
                    last_use[m] = std::max(last_use[m], static_cast<std::size_t>(at - group.begin()));
            }
        }
        std::vector<bool> taken;
        for (std::size_t m = 0; m < group.size(); ++m) {
            Member& member = step.members[m];
            for (std::size_t k = 0; k < node(group[m]).inputs.size(); ++k) {
                Member::Operand& operand = member.operands[k];
                if (operand.value.root != kNone) {
                    read(operand.value.root);
                    if (operand.is_gathered) operand.scratch = take_scratch(taken);
                    continue;
                }
                const auto at = static_cast<std::size_t>(
                    std::find(group.begin(), group.end(), node(group[m]).inputs[k]) - group.begin());
                operand.scratch = step.members[at].scratch;
                operand.value.root = step.members[at].root;
            }
            if (outside[m]) {
                if (over[m] == kNone) member.root = write(step.words);
                set_dense(group[m], member.root);
            } else {
                member.scratch = take_scratch(taken);
                set_done(group[m]);
            }
            for (const Member::Operand& operand : member.operands)
                if (operand.is_gathered) taken[operand.scratch] = false;
            for (std::size_t before = 0; before <= m; ++before)
                if (step.members[before].scratch != kNone && last_use[before] == m)
                    taken[step.members[before].scratch] = false;
        }
        plan_.scratch_blocks = std::max(plan_.scratch_blocks, taken.size());
        plan_.steps.push_back(std::move(step));
    }

    static std::size_t take_scratch(std::vector<bool>& taken) {
        const auto free = std::find(taken.begin(), taken.end(), false);
        const auto number = static_cast<std::size_t>(free - taken.begin());
        if (free == taken.end()) taken.push_back(false);
        taken[number] = true;
        return number;
    }

    const Program& program_;
    const arith::Kernels* const kernels_;
    const PlanMode mode_;
    const Grouping grouping_;
    ExecutionPlan plan_;
    std::vector<Value> values_;
    std::vector<std::size_t> dense_;  // root of a node's dense copy
    std::vector<bool> live_;          // reached from an update node
    std::vector<bool> done_;          // has a value, or is computed within a group
    std::vector<bool> is_update_;
    std::vector<std::vector<std::uint32_t>> users_;     // live ones
    std::size_t at_ = 0;                                // the node whose turn it is
    std::vector<std::size_t> slot_under_;               // by node: the slot whose value before the step it is or views
    std::vector<std::vector<std::size_t>> updated_by_;  // by node: slots
    std::vector<std::size_t> reads_left_;               // by slot: nodes that read that value and are not done
    std::vector<std::size_t> copies_left_;              // by slot: updates that are that value and are not copied
    std::vector<std::size_t> latest_reader_;            // by slot
    std::vector<std::size_t> held_;                     // by slot: the root of its update's copy
    std::vector<bool> is_written_;                      // by slot: by a step so far
    std::vector<std::size_t> settled_;                  // slots to look at
};

}  // namespace

std::uint64_t ExecutionPlan::bytes() const {
    std::uint64_t words = arena_words;  // no sum overflows: at most 2^18 tensors of 2^31 words
    for (const Tensor& constant : constants)
        if (constant.shape.elements() > 1) words += constant.shape.elements();
    return words * sizeof(std::uint32_t);
}

ExecutionPlan make_plan(const Program& program, const arith::Kernels* kernels, PlanMode mode) {
    if (mode != PlanMode::step) return Planner(program, kernels, mode, Grouping::none).run();
    std::uint64_t state = 0;
    for (const Slot& slot : program.slots) state += slot.shape.elements() * sizeof(std::uint32_t);
    const auto fits = [&](const ExecutionPlan& plan) {
        return state + plan.bytes() <= program.header.sizes.peak_bytes;
    };
    for (const Grouping grouping : {Grouping::ahead, Grouping::neighbours}) {
        ExecutionPlan plan = Planner(program, kernels, mode, grouping).run();
        if (fits(plan)) return plan;
    }
    ExecutionPlan plan = Planner(program, kernels, mode, Grouping::none).run();
    if (!fits(plan)) part_arena(plan);
    return plan;
}

}  // namespace quern::vm::tensor
