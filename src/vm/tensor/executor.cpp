#include "vm/tensor/executor.h"

#include <algorithm>

#include "vm/tensor/node_kernels.h"
#include "vm/tensor/plan.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kAlignment = 64;  // bytes

Status check_tensor(const Tensor& tensor, DType dtype, const Shape& shape, std::string_view what) {
    if (tensor.dtype != dtype || tensor.shape != shape)
        return fail("executor.bad_state", std::string(what) + " is " + tensor.shape.to_string() + ", not " +
                                              shape.to_string() + ", or of another dtype");
    if (tensor.words.size() != shape.elements())
        return fail("executor.bad_state", std::string(what) + " has not as many words as its shape says");
    return {};
}

// Words at a 64-byte boundary.
class AlignedWords {
public:
    // At least so many. What they held is lost where they were fewer, and given back before more are taken.
    void reserve(std::size_t words) {
        words += kAlignment / sizeof(std::uint32_t);
        if (words <= storage_.size()) return;
        storage_ = {};
        storage_.resize(words);
        const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
        data_ = storage_.data() + ((kAlignment - address % kAlignment) % kAlignment) / sizeof(std::uint32_t);
    }
    [[nodiscard]] std::uint32_t* data() { return data_; }

private:
    std::vector<std::uint32_t> storage_;
    std::uint32_t* data_ = nullptr;
};

}  // namespace

Status check_state(const Program& program, const State& state) {
    if (state.size() != program.slots.size())
        return fail("executor.bad_state",
                    std::to_string(state.size()) + " tensors for " + std::to_string(program.slots.size()) + " slots");
    for (std::size_t i = 0; i < state.size(); ++i)
        QUERN_CHECK(check_tensor(state[i], program.slots[i].dtype, program.slots[i].shape, program.slots[i].name));
    return {};
}

Status check_data(const Program& program, const Tensor& data) {
    return check_tensor(data, program.header.data.front().dtype, data_shape(program), "the data");
}

std::vector<Hash32> slot_roots(const State& state, ThreadPool* pool, const Cancellation* cancellation) {
    std::vector<std::size_t> first_tile;  // of each slot in the list of all tiles
    std::size_t tiles = 0;
    for (const Tensor& slot : state) {
        first_tile.push_back(tiles);
        tiles += slot.shape.tiles();
    }
    std::vector<Hash32> hashes(tiles);
    parallel_parts(pool, tiles, tiles * kTileWords, [&](std::size_t begin, std::size_t end) {
        auto slot = static_cast<std::size_t>(std::upper_bound(first_tile.begin(), first_tile.end(), begin) -
                                             first_tile.begin() - 1);
        for (std::size_t tile = begin; tile < end; ++tile) {
            if (slot + 1 < state.size() && tile == first_tile[slot + 1]) ++slot;
            if (tile % kHashBatch == 0 && is_requested(cancellation)) return;
            hashes[tile] = tile_hash(read_tile(state[slot], tile - first_tile[slot]));
        }
    });
    std::vector<Hash32> roots;
    roots.reserve(state.size());
    for (std::size_t slot = 0; slot < state.size(); ++slot)
        roots.push_back(tensor_root_of(std::span(hashes).subspan(first_tile[slot], state[slot].shape.tiles())));
    return roots;
}

Hash32 state_root(const State& state, ThreadPool* pool, const Cancellation* cancellation) {
    return state_root(slot_roots(state, pool, cancellation));
}

namespace {

std::uint64_t planned_bytes(const Program& program, PlanMode mode) { return make_plan(program, nullptr, mode).bytes(); }

}  // namespace

std::uint64_t step_bytes(const Program& program) { return planned_bytes(program, PlanMode::step); }
std::uint64_t tapped_bytes(const Program& program) { return planned_bytes(program, PlanMode::tapped); }

struct Executor::Impl {
    Impl(const Program& program_in, arith::Backend backend, ThreadPool* pool_in, const Cancellation* cancellation_in)
        : program(program_in),
          kernels(arith::kernels(backend)),
          pool(pool_in),
          cancellation(cancellation_in),
          threads(pool_in == nullptr ? 1 : pool_in->size()),
          spare(program_in.slots.size()) {}

    // Plans and buffers are made for the first run that needs them.
    const ExecutionPlan& prepare(PlanMode mode, const State& state, const Tensor& data, const Tensor& seed) {
        std::unique_ptr<const ExecutionPlan>& made = plans[static_cast<std::size_t>(mode)];
        if (made == nullptr) made = std::make_unique<const ExecutionPlan>(make_plan(program, &kernels, mode));
        arena.reserve(made->arena_words);
        scratch.reserve(threads * made->scratch_blocks * kGroupBlock);
        for (std::size_t slot = 0; slot < spare.size(); ++slot)
            if (made->updates[slot].words != 0) spare[slot].resize(made->updates[slot].words);
        bind(*made, state, data, seed);
        return *made;
    }

    void bind(const ExecutionPlan& plan, const State& state, const Tensor& data, const Tensor& seed) {
        reads.resize(plan.roots.size());
        writes.resize(plan.roots.size());
        for (std::size_t r = 0; r < plan.roots.size(); ++r) {
            const Root& root = plan.roots[r];
            writes[r] = nullptr;
            switch (root.kind) {
                case Root::Kind::slot:
                    reads[r] = state[root.index].words.data();
                    break;
                case Root::Kind::data:
                    reads[r] = data.words.data();
                    break;
                case Root::Kind::seed:
                    reads[r] = seed.words.data();
                    break;
                case Root::Kind::constant:
                    reads[r] = plan.constants[root.index].words.data();
                    break;
                case Root::Kind::arena:
                    reads[r] = writes[r] = arena.data() + root.offset;
                    break;
                case Root::Kind::next:
                    reads[r] = writes[r] = spare[root.index].data();
                    break;
            }
        }
    }

    [[nodiscard]] View view(const Value& value) const {
        return {reads[value.root] + value.offset, value.shape, value.strides};
    }
    [[nodiscard]] TensorView output_of(const ExecutionPlan& plan, std::uint32_t node) const {
        return {program.nodes[node].dtype, view(plan.taps[node].value)};
    }

    // Nodes up to `last`, each shown to `tap` as soon as it can be read. False: cancelled.
    bool run_tapped(const ExecutionPlan& plan, const Tap& tap, const Alter& alter, std::uint32_t last) {
        std::size_t done = 0;
        for (std::uint32_t i = 0; i < plan.taps.size() && i <= last; ++i) {
            if (is_requested(cancellation)) return false;
            while (done < plan.taps[i].steps) run(plan, plan.steps[done++]);
            if (alter) alter_output(plan, i, alter);
            TappedNode tapped{i, &program.nodes[i], output_of(plan, i), {}};
            std::array<TensorView, kMaxInputs> operands;
            for (std::size_t k = 0; k < tapped.node->inputs.size(); ++k)
                operands[k] = output_of(plan, tapped.node->inputs[k]);
            tapped.operands = {operands.data(), tapped.node->inputs.size()};
            tap(tapped);
        }
        return !is_requested(cancellation);  // seen by the last tap: what it hashed is of no use
    }

    // In a plan whose outputs own their buffers.
    void alter_output(const ExecutionPlan& plan, std::uint32_t node, const Alter& alter) {
        const TensorView output = output_of(plan, node);
        Tensor tensor{output.dtype, output.shape(), {}};
        tensor.words.assign(output.view.data, output.view.data + output.shape().elements());
        alter(node, tensor);
        std::copy(tensor.words.begin(), tensor.words.end(), writes[plan.taps[node].value.root]);
    }

    // state := the state after the plan's steps.
    void update(const ExecutionPlan& plan, State& state) {
        for (std::size_t slot = 0; slot < state.size(); ++slot)
            if (const SlotUpdate& update = plan.updates[slot]; update.kind == SlotUpdate::Kind::copy)
                copy_view(view(update.value), spare[slot].data(), dense_strides(update.value.shape), pool);
        for (std::size_t slot = 0; slot < state.size(); ++slot)
            if (plan.updates[slot].kind != SlotUpdate::Kind::unchanged) state[slot].words.swap(spare[slot]);
    }

    void run(const ExecutionPlan& plan, const Step& step) {
        if (step.kind == Step::Kind::group) return run_group(plan, step);
        std::array<View, kMaxInputs> inputs;
        for (std::size_t i = 0; i < step.inputs.size(); ++i) inputs[i] = view(step.inputs[i]);
        if (step.kind == Step::Kind::copy)
            copy_view(inputs[0], writes[step.output], dense_strides(inputs[0].shape), pool);
        else
            run_node(kernels, *step.node, {inputs.data(), step.inputs.size()}, writes[step.output], pool);
    }

    // All members block by block, so that what only they read stays in the cache.
    void run_group(const ExecutionPlan& plan, const Step& step) {
        const std::size_t parts = std::min(threads, (step.words + kGroupBlock - 1) / kGroupBlock);
        parallel_parts(pool, parts, step.words * step.work / 8, [&](std::size_t first_part, std::size_t last_part) {
            const std::size_t blocks = (step.words + kGroupBlock - 1) / kGroupBlock;
            // Scratch belongs to a part; without threads all parts run in turn on the first one's.
            std::uint32_t* buffers = scratch.data() + first_part * plan.scratch_blocks * kGroupBlock;
            const std::size_t end = std::min(step.words, blocks * last_part / parts * kGroupBlock);
            for (std::size_t at = blocks * first_part / parts * kGroupBlock; at < end; at += kGroupBlock)
                run_block(step, at, std::min(end, at + kGroupBlock), buffers);
        });
    }

    void run_block(const Step& step, std::size_t begin, std::size_t end, std::uint32_t* buffers) {
        for (const Member& member : step.members) {
            std::array<ElementwiseOperand, kMaxOperands> operands;
            for (std::size_t i = 0; i < member.node->inputs.size(); ++i) {
                const Member::Operand& operand = member.operands[i];
                if (operand.scratch != kNone)
                    operands[i] = {buffers + operand.scratch * kGroupBlock, static_cast<std::ptrdiff_t>(begin)};
                else
                    operands[i] = {reads[operand.value.root] + operand.value.offset, 0};
            }
            std::uint32_t* out =
                member.scratch != kNone ? buffers + member.scratch * kGroupBlock : writes[member.root] + begin;
            run_elementwise(kernels, *member.node, member.nest, operands, begin, end, out);
        }
    }

    const Program& program;
    const arith::Kernels& kernels;
    ThreadPool* const pool;
    const Cancellation* const cancellation;
    const std::size_t threads;
    std::array<std::unique_ptr<const ExecutionPlan>, kPlanModes> plans;
    AlignedWords arena;  // of whichever plan runs
    AlignedWords scratch;
    std::vector<std::vector<std::uint32_t>> spare;  // per slot: its words after the step
    std::vector<const std::uint32_t*> reads;        // per root of the plan that runs
    std::vector<std::uint32_t*> writes;
};

Executor::Executor(const Program& program, arith::Backend backend, ThreadPool* pool, const Cancellation* cancellation)
    : impl_(std::make_unique<Impl>(program, backend, pool, cancellation)) {}

Executor::~Executor() = default;

bool Executor::step(State& state, const Tensor& data, const Tensor& seed) {
    const ExecutionPlan& plan = impl_->prepare(PlanMode::step, state, data, seed);
    for (const Step& step : plan.steps) {
        if (is_requested(impl_->cancellation)) return false;
        impl_->run(plan, step);
    }
    impl_->update(plan, state);
    return true;
}

bool Executor::step_tapped(State& state, const Tensor& data, const Tensor& seed, const Tap& tap, const Alter& alter) {
    const ExecutionPlan& plan = impl_->prepare(alter ? PlanMode::owned : PlanMode::tapped, state, data, seed);
    if (!impl_->run_tapped(plan, tap, alter, kLastNode)) return false;
    impl_->update(plan, state);
    return true;
}

bool Executor::run_tapped(const State& state, const Tensor& data, const Tensor& seed, const Tap& tap,
                          const Alter& alter, std::uint32_t last) {
    const ExecutionPlan& plan = impl_->prepare(alter ? PlanMode::owned : PlanMode::tapped, state, data, seed);
    return impl_->run_tapped(plan, tap, alter, last);
}

NodeOutputs Executor::run_all(const State& state, const Tensor& data, const Tensor& seed) {
    return run_altered(state, data, seed, {});
}

NodeOutputs Executor::run_altered(const State& state, const Tensor& data, const Tensor& seed, const Alter& alter) {
    const Program& program = impl_->program;
    NodeOutputs outputs;
    outputs.reserve(program.nodes.size());
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        std::array<View, kMaxInputs> inputs;
        for (std::size_t k = 0; k < node.inputs.size(); ++k) inputs[k] = dense_view(outputs[node.inputs[k]]);
        if (node.op == Op::slot)
            outputs.push_back(state[node.attributes[0]]);
        else if (node.op == Op::data)
            outputs.push_back(data);
        else if (node.op == Op::seed)
            outputs.push_back(seed);
        else
            outputs.push_back(run_node_checked(impl_->kernels, node, {inputs.data(), node.inputs.size()}, impl_->pool));
        if (alter) alter(static_cast<std::uint32_t>(i), outputs.back());
    }
    return outputs;
}

}  // namespace quern::vm::tensor
