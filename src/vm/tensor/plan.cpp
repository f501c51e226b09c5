#include "vm/tensor/plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kMaxConstantWords = 1U << 24;   // all constants that are computed once, together
constexpr std::uint64_t kMaxConstantWork = 1U << 20;  // work units of one of them
constexpr std::size_t kGroupWindow = 256;             // nodes looked ahead for members of a group
constexpr std::size_t kMaxMembers = 64;
constexpr std::size_t kShortRow = 64;        // rows below this are worth a copy of an operand that causes them
constexpr std::size_t kAlignmentWords = 16;  // a cache line

class Planner {
public:
    Planner(const Program& program, const arith::Kernels* kernels, PlanMode mode)
        : program_(program),
          kernels_(kernels),
          mode_(mode),
          values_(program.nodes.size()),
          dense_(program.nodes.size(), kNone),
          live_(program.nodes.size()),
          done_(program.nodes.size()) {}

    ExecutionPlan run() {
        find_live_nodes();
        if (mode_ != PlanMode::owned) place_inputs_and_constants();
        schedule();
        place_updates();
        place_arena();
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
        done_[i] = true;
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
            const bool constant = std::all_of(node(i).inputs.begin(), node(i).inputs.end(), [&](std::uint32_t input) {
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
            } else if (constant_words + taken <= kMaxConstantWords &&
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
        return add_root(input.op == Op::data ? Root::Kind::data : Root::Kind::seed, 0, words);
    }

    void add_uniform(std::size_t i, Tensor word) {
        plan_.constants.push_back(std::move(word));
        const std::size_t root = add_root(Root::Kind::constant, plan_.constants.size() - 1, 1);
        values_[i] = {root, 0, node(i).shape, {}};
        done_[i] = true;
    }

    // Makes node i a view of its input if it can be one. The input's value is known.
    bool make_alias(std::size_t i) {
        if (mode_ == PlanMode::owned || node(i).inputs.empty()) return false;
        const Value& input = values_[node(i).inputs[0]];
        Value value = input;
        value.shape = node(i).shape;
        if (!view_of(node(i), input.shape, input.strides, value.strides, value.offset)) return false;
        values_[i] = value;
        done_[i] = true;
        return true;
    }

    bool inputs_done(std::size_t i) const {
        return std::all_of(node(i).inputs.begin(), node(i).inputs.end(),
                           [&](std::uint32_t input) { return done_[input]; });
    }

    void schedule() {
        for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
            if (live_[i] && !done_[i] && !make_alias(i)) schedule(i);
            if (mode_ != PlanMode::step) add_tap(i);
        }
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
        step.output = write(node(i).shape.elements());
        plan_.steps.push_back(std::move(step));
        set_dense(i, plan_.steps.back().output);
    }

    // Elementwise nodes of the same shape that can run together with node i, in order.
    std::vector<std::size_t> find_members(std::size_t i) {
        if (mode_ != PlanMode::step) return {i};
        std::vector<std::size_t> members;
        std::size_t looked_at = 0;
        for (std::size_t j = i; j < program_.nodes.size() && looked_at < kGroupWindow && members.size() < kMaxMembers;
             ++j) {
            if (!live_[j] || done_[j]) continue;
            ++looked_at;
            const bool fits = node(j).op == Op::elementwise && node(j).shape == node(i).shape;
            if (!fits) {
                if (inputs_done(j)) make_alias(j);
                continue;
            }
            const bool ready = std::all_of(node(j).inputs.begin(), node(j).inputs.end(), [&](std::uint32_t input) {
                return done_[input] || std::find(members.begin(), members.end(), input) != members.end();
            });
            if (ready) members.push_back(j);
        }
        return members;
    }

    // Operands of a member from outside the group, with a nest that the kernels can run.
    void place_operands(std::size_t i, const std::vector<std::size_t>& group, Member& member) {
        const std::size_t arity = node(i).inputs.size();
        std::array<Strides, kMaxOperands> strides{};
        const auto make_nest = [&] {
            for (std::size_t k = 0; k < arity; ++k) {
                const Value& value = member.operands[k].value;
                strides[k] = broadcast_strides(value.shape, value.strides, node(i).shape);
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
            value = dense_copy(node(i).inputs[k]);
        }
        make_nest();
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
                    continue;
                }
                const auto at = static_cast<std::size_t>(
                    std::find(group.begin(), group.end(), node(group[m]).inputs[k]) - group.begin());
                operand.scratch = step.members[at].scratch;
                operand.value.root = step.members[at].root;
            }
            if (outside[m]) {
                member.root = write(step.words);
                set_dense(group[m], member.root);
            } else {
                const auto free = std::find(taken.begin(), taken.end(), false);
                member.scratch = static_cast<std::size_t>(free - taken.begin());
                if (free == taken.end()) taken.push_back(false);
                taken[member.scratch] = true;
                done_[group[m]] = true;
            }
            for (std::size_t before = 0; before <= m; ++before)
                if (step.members[before].scratch != kNone && last_use[before] == m)
                    taken[step.members[before].scratch] = false;
        }
        plan_.scratch_blocks = std::max(plan_.scratch_blocks, taken.size());
        plan_.steps.push_back(std::move(step));
    }

    void place_updates() {
        for (std::size_t slot = 0; slot < program_.slots.size(); ++slot) {
            const Value& value = values_[program_.updates[slot]];
            Root& root = plan_.roots[value.root];
            SlotUpdate update;
            update.words = value.shape.elements();
            if (root.kind == Root::Kind::slot && root.index == slot && value.offset == 0 &&
                is_dense(value.shape, value.strides)) {
                update.kind = SlotUpdate::Kind::unchanged;
                update.words = 0;
            } else if (root.kind == Root::Kind::arena && root.words == value.shape.elements() &&
                       is_dense(value.shape, value.strides)) {
                root.kind = Root::Kind::next;
                root.index = slot;
                update.kind = SlotUpdate::Kind::swap;
            } else {
                root.last_step = plan_.steps.size();  // is read after all steps
                update.kind = SlotUpdate::Kind::copy;
                update.value = value;
            }
            plan_.updates.push_back(update);
        }
    }

    // Best fit over the steps: a root's words are free again after the last step that reads them.
    void place_arena() {
        std::vector<std::vector<std::size_t>> begins(plan_.steps.size() + 1);
        std::vector<std::vector<std::size_t>> ends(plan_.steps.size() + 1);
        for (std::size_t r = 0; r < plan_.roots.size(); ++r) {
            if (plan_.roots[r].kind != Root::Kind::arena) continue;
            begins[plan_.roots[r].first_step].push_back(r);
            ends[plan_.roots[r].last_step].push_back(r);
        }
        std::map<std::size_t, std::size_t> holes;               // by offset: words
        std::set<std::pair<std::size_t, std::size_t>> by_size;  // words, offset: a stranger's program may have many
        const auto add_hole = [&](std::size_t offset, std::size_t words) {
            holes.emplace(offset, words);
            by_size.emplace(words, offset);
        };
        const auto take_hole = [&](std::map<std::size_t, std::size_t>::iterator hole) {
            const auto [offset, words] = *hole;
            by_size.erase({words, offset});
            holes.erase(hole);
            return words;
        };
        const auto padded = [&](std::size_t r) {
            return (plan_.roots[r].words + kAlignmentWords - 1) / kAlignmentWords * kAlignmentWords;
        };
        for (std::size_t s = 0; s < begins.size(); ++s) {
            for (const std::size_t r : begins[s]) {
                const auto best = by_size.lower_bound({padded(r), 0});
                if (best != by_size.end()) {
                    const auto [words, offset] = *best;
                    take_hole(holes.find(offset));
                    plan_.roots[r].offset = offset;
                    if (words > padded(r)) add_hole(offset + padded(r), words - padded(r));
                } else {
                    plan_.roots[r].offset = plan_.arena_words;
                    plan_.arena_words += padded(r);
                }
            }
            for (const std::size_t r : ends[s]) {
                std::size_t offset = plan_.roots[r].offset;
                std::size_t words = padded(r);
                auto after = holes.lower_bound(offset);
                if (after != holes.begin() && std::prev(after)->first + std::prev(after)->second == offset) {
                    offset = std::prev(after)->first;
                    words += take_hole(std::prev(after));
                }
                if (after != holes.end() && offset + words == after->first) words += take_hole(after);
                add_hole(offset, words);
            }
        }
    }

    const Program& program_;
    const arith::Kernels* const kernels_;
    const PlanMode mode_;
    ExecutionPlan plan_;
    std::vector<Value> values_;
    std::vector<std::size_t> dense_;  // root of a node's dense copy
    std::vector<bool> live_;          // reached from an update node
    std::vector<bool> done_;          // has a value, or is computed within a group
    std::vector<bool> is_update_;
    std::vector<std::vector<std::uint32_t>> users_;  // live ones
};

}  // namespace

std::uint64_t ExecutionPlan::bytes() const {
    std::uint64_t words = arena_words;  // no sum overflows: at most 2^18 tensors of 2^31 words
    for (const Tensor& constant : constants) words += constant.shape.elements();
    for (const SlotUpdate& update : updates) words += update.words;
    return words * sizeof(std::uint32_t);
}

ExecutionPlan make_plan(const Program& program, const arith::Kernels* kernels, PlanMode mode) {
    return Planner(program, kernels, mode).run();
}

}  // namespace quern::vm::tensor
