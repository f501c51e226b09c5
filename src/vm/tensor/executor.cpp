#include "vm/tensor/executor.h"

#include <algorithm>
#include <optional>

#include "base/ensure.h"
#include "crypto/tile_leaves.h"
#include "vm/tensor/device_run.h"
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
        crypto::TileLeaves leaves(end - begin);
        for (std::size_t tile = begin; tile < end; ++tile) {
            if (slot + 1 < state.size() && tile == first_tile[slot + 1]) ++slot;
            if (tile % kHashBatch == 0 && is_requested(cancellation)) break;
            Tile& words = leaves.next(hashes[tile]);
            read_tile(state[slot], tile - first_tile[slot], words);
            to_hashed_words(words);
        }
        leaves.flush();
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
          on_device(backend == arith::Backend::cuda),
          pool(pool_in),
          cancellation(cancellation_in),
          threads(pool_in == nullptr ? 1 : pool_in->size()) {}

    // Plans and buffers are made for the first run that needs them. `next` is the state where the run changes it.
    const ExecutionPlan& prepare(PlanMode mode, const State& state, State* next, const DataSource& data,
                                 const Tensor& seed) {
        const ExecutionPlan& made = plan_of(mode);
        if (made.begins.empty()) arena.reserve(made.arena_words);
        scratch.reserve(threads * made.scratch_blocks * kGroupBlock);
        bind(made, state, next, data, seed);
        return made;
    }
    const ExecutionPlan& plan_of(PlanMode mode) {
        std::unique_ptr<const ExecutionPlan>& made = plans[static_cast<std::size_t>(mode)];
        if (made == nullptr) made = std::make_unique<const ExecutionPlan>(make_plan(program, &kernels, mode));
        return *made;
    }

    // What step() gives; nullopt: there is no device, or not any more, and the state is as before.
    std::optional<bool> step_on_device(State& state, const DataSource& data, const Tensor& seed) {
        if (!on_device || device_failure) return std::nullopt;
        const Expected<bool> done = run_on_device(state, data, seed);
        if (done) return *done;
        device_failure = done.error();
        device_run = nullptr;
        device = nullptr;
        // What it was writing when it failed is neither state.
        if (has_written) return give_up(state);
        return std::nullopt;
    }
    Expected<bool> run_on_device(State& state, const DataSource& data, const Tensor& seed) {
        has_written = false;
        if (device == nullptr) {
            std::string why;
            device = cuda::open_device(why);
            if (device == nullptr) return fail(cuda::is_built() ? "cuda.no_card" : "cuda.not_built", why);
        }
        if (device_run == nullptr)
            device_run = std::make_unique<DeviceRun>(program, plan_of(PlanMode::step), *device, pool, cancellation);
        QUERN_CHECK(device_run->load(state));
        QUERN_TRY(const bool is_complete, device_run->step(data, seed));
        if (!is_complete) return false;
        has_written = true;
        QUERN_CHECK(device_run->store(state, before_writing));
        return true;
    }

    Tensor windows_of(const Node& node, const Tensor& index, const DataSource& data) {
        Tensor result{node.dtype, node.shape, std::vector<std::uint32_t>(node.shape.elements())};
        const bool complete = read_windows(program.header, node, index.words.data(), data, result.words.data(), pool);
        ensure(complete, "run_all is given data that have all that is asked for");
        return result;
    }

    void bind(const ExecutionPlan& plan, const State& state, State* next, const DataSource& data, const Tensor& seed) {
        source = &data;
        writes_state = next != nullptr;
        has_written = false;
        buffers.clear();
        buffers.resize(plan.begins.empty() ? 0 : plan.roots.size());
        reads.resize(plan.roots.size());
        writes.resize(plan.roots.size());
        for (std::size_t r = 0; r < plan.roots.size(); ++r) {
            const Root& root = plan.roots[r];
            writes[r] = nullptr;
            switch (root.kind) {
                case Root::Kind::slot:
                    reads[r] = state[root.index].words.data();
                    break;
                case Root::Kind::seed:
                    reads[r] = seed.words.data();
                    break;
                case Root::Kind::constant:
                    reads[r] = plan.constants[root.index].words.data();
                    break;
                case Root::Kind::arena:
                    // one by one: when its step comes
                    reads[r] = writes[r] = plan.begins.empty() ? arena.data() + root.offset : nullptr;
                    break;
                case Root::Kind::next:
                    reads[r] = writes[r] = writes_state ? (*next)[root.index].words.data() : nullptr;
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

    // Nodes up to `last`, each shown to `tap` as soon as it can be read. False: cancelled, or data were missing.
    bool run_tapped(const ExecutionPlan& plan, const Tap& tap, const Alter& alter, std::uint32_t last) {
        std::size_t done = 0;
        for (std::uint32_t i = 0; i < plan.taps.size() && i <= last; ++i) {
            if (is_requested(cancellation)) return false;
            while (done < plan.taps[i].steps)
                if (!run(plan, plan.steps[done++])) return false;
            if (alter) alter_output(plan, i, alter);
            TappedNode tapped{i, &program.nodes[i], output_of(plan, i), {}};
            std::array<TensorView, kMaxInputs> operands;
            for (std::size_t k = 0; k < tapped.node->inputs.size(); ++k)
                operands[k] = output_of(plan, tapped.node->inputs[k]);
            tapped.operands = {operands.data(), tapped.node->inputs.size()};
            tap(tapped);
        }
        if (is_requested(cancellation)) return false;  // seen by the last tap: what it hashed is of no use
        while (last >= plan.taps.size() && done < plan.steps.size())
            if (!run(plan, plan.steps[done++])) return false;
        return true;
    }

    // In a plan whose outputs own their buffers.
    void alter_output(const ExecutionPlan& plan, std::uint32_t node, const Alter& alter) {
        const TensorView output = output_of(plan, node);
        Tensor tensor{output.dtype, output.shape(), {}};
        tensor.words.assign(output.view.data, output.view.data + output.shape().elements());
        alter(node, tensor);
        std::copy(tensor.words.begin(), tensor.words.end(), writes[plan.taps[node].value.root]);
    }

    // A plan of the mode `step`. False: cancelled, or data were missing.
    bool run_step(const ExecutionPlan& plan) {
        for (std::size_t i = 0; i < plan.steps.size(); ++i) {
            if (is_requested(cancellation)) return false;
            if (!plan.begins.empty()) {
                for (const std::size_t r : plan.begins[i]) {
                    buffers[r].resize(plan.roots[r].words);
                    reads[r] = writes[r] = buffers[r].data();
                }
            }
            if (!run(plan, plan.steps[i])) return false;
            if (!plan.ends.empty())
                for (const std::size_t r : plan.ends[i]) buffers[r] = {};
        }
        return true;
    }

    // Of a run that was cancelled: what is no state of the training must not be taken for one.
    bool give_up(State& state) const {
        if (!has_written) return false;
        if (before_writing)
            for (std::size_t slot = 0; slot < state.size(); ++slot) before_writing(slot);
        state.clear();
        return false;
    }

    void tell_of_writing(const ExecutionPlan& plan, std::size_t root) {
        if (root == kNone || plan.roots[root].kind != Root::Kind::next) return;
        has_written = true;
        if (before_writing) before_writing(plan.roots[root].index);
    }

    // False: it is a window node, and the source has not all that it reads.
    bool run(const ExecutionPlan& plan, const Step& step) {
        if (step.kind == Step::Kind::commit && !writes_state) return true;
        tell_of_writing(plan, step.output);
        for (const Member& member : step.members) tell_of_writing(plan, member.root);
        if (step.kind == Step::Kind::group) {
            run_group(plan, step);
            return true;
        }
        std::array<View, kMaxInputs> inputs;
        for (std::size_t i = 0; i < step.inputs.size(); ++i) inputs[i] = view(step.inputs[i]);
        if (step.kind == Step::Kind::copy || step.kind == Step::Kind::commit)
            copy_view(inputs[0], writes[step.output], dense_strides(inputs[0].shape), pool);
        else if (is_kind(step.node->op, OpKind::window))
            return read_windows(program.header, *step.node, inputs[0].data, *source, writes[step.output], pool);
        else
            run_node(kernels, *step.node, {inputs.data(), step.inputs.size()}, writes[step.output], pool);
        return true;
    }

    // All members block by block, so that what only they read stays in the cache.
    void run_group(const ExecutionPlan& plan, const Step& step) {
        const std::size_t parts = std::min(threads, (step.words + kGroupBlock - 1) / kGroupBlock);
        parallel_parts(pool, parts, step.words * step.work / 8, [&](std::size_t first_part, std::size_t last_part) {
            const std::size_t blocks = (step.words + kGroupBlock - 1) / kGroupBlock;
            // Scratch belongs to a part; without threads all parts run in turn on the first one's.
            std::uint32_t* blocks_of_part = scratch.data() + first_part * plan.scratch_blocks * kGroupBlock;
            const std::size_t end = std::min(step.words, blocks * last_part / parts * kGroupBlock);
            for (std::size_t at = blocks * first_part / parts * kGroupBlock; at < end; at += kGroupBlock)
                run_block(step, at, std::min(end, at + kGroupBlock), blocks_of_part);
        });
    }

    void run_block(const Step& step, std::size_t begin, std::size_t end, std::uint32_t* blocks) {
        for (const Member& member : step.members) {
            std::array<ElementwiseOperand, kMaxOperands> operands;
            for (std::size_t i = 0; i < member.node->inputs.size(); ++i) {
                const Member::Operand& operand = member.operands[i];
                if (operand.is_gathered)
                    gather_words(view(operand.value), member.node->shape, begin, end,
                                 blocks + operand.scratch * kGroupBlock);
                if (operand.scratch != kNone)
                    operands[i] = {blocks + operand.scratch * kGroupBlock, static_cast<std::ptrdiff_t>(begin)};
                else
                    operands[i] = {reads[operand.value.root] + operand.value.offset, 0};
            }
            std::uint32_t* out =
                member.scratch != kNone ? blocks + member.scratch * kGroupBlock : writes[member.root] + begin;
            run_elementwise(kernels, *member.node, member.nest, operands, begin, end, out);
        }
    }

    const Program& program;
    const arith::Kernels& kernels;
    const bool on_device;
    ThreadPool* const pool;
    const Cancellation* const cancellation;
    const std::size_t threads;
    std::array<std::unique_ptr<const ExecutionPlan>, kPlanModes> plans;
    AlignedWords arena;  // of whichever plan runs
    AlignedWords scratch;
    std::vector<std::vector<std::uint32_t>> buffers;  // per root, of a plan without an arena
    std::vector<const std::uint32_t*> reads;          // per root of the plan that runs
    std::vector<std::uint32_t*> writes;
    const DataSource* source = nullptr;  // of the run
    std::function<void(std::size_t slot)> before_writing;
    bool writes_state = false;
    bool has_written = false;  // some of it
    std::unique_ptr<cuda::Device> device;
    std::unique_ptr<DeviceRun> device_run;
    std::optional<Error> device_failure;
};

Status check_backend(arith::Backend backend) {
    if (backend != arith::Backend::cuda) {
        if (arith::available(backend)) return {};
        return fail("executor.backend_unavailable", std::string(arith::name(backend)));
    }
    std::string why;
    if (!cuda::is_built()) return fail("cuda.not_built", "this build has no kernels for graphics processors");
    if (cuda::open_device(why) == nullptr) return fail("cuda.no_card", why);
    return {};
}

std::string card_name() {
    std::string why;
    const auto card = cuda::open_device(why);
    return card == nullptr ? "" : card->name();
}

Executor::Executor(const Program& program, arith::Backend backend, ThreadPool* pool, const Cancellation* cancellation)
    : impl_(std::make_unique<Impl>(program, backend, pool, cancellation)) {}

Executor::Executor(const Program& program, std::unique_ptr<cuda::Device> device, ThreadPool* pool,
                   const Cancellation* cancellation)
    : Executor(program, arith::Backend::cuda, pool, cancellation) {
    impl_->device = std::move(device);
}

Executor::~Executor() = default;

const Error* Executor::device_failure() const { return impl_->device_failure ? &*impl_->device_failure : nullptr; }

void Executor::set_before_writing(std::function<void(std::size_t slot)> hook) {
    impl_->before_writing = std::move(hook);
}

bool Executor::step(State& state, const DataSource& data, const Tensor& seed) {
    if (const std::optional<bool> done = impl_->step_on_device(state, data, seed)) return *done;
    const ExecutionPlan& plan = impl_->prepare(PlanMode::step, state, &state, data, seed);
    return impl_->run_step(plan) || impl_->give_up(state);
}

bool Executor::step_tapped(State& state, const DataSource& data, const Tensor& seed, const Tap& tap,
                           const Alter& alter) {
    const ExecutionPlan& plan = impl_->prepare(alter ? PlanMode::owned : PlanMode::tapped, state, &state, data, seed);
    return impl_->run_tapped(plan, tap, alter, kLastNode) || impl_->give_up(state);
}

bool Executor::run_tapped(const State& state, const DataSource& data, const Tensor& seed, const Tap& tap,
                          const Alter& alter, std::uint32_t last) {
    const ExecutionPlan& plan = impl_->prepare(alter ? PlanMode::owned : PlanMode::tapped, state, nullptr, data, seed);
    return impl_->run_tapped(plan, tap, alter, last);
}

NodeOutputs Executor::run_all(const State& state, const DataSource& data, const Tensor& seed) {
    return run_altered(state, data, seed, {});
}

NodeOutputs Executor::run_altered(const State& state, const DataSource& data, const Tensor& seed, const Alter& alter) {
    const Program& program = impl_->program;
    NodeOutputs outputs;
    outputs.reserve(program.nodes.size());
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        std::array<View, kMaxInputs> inputs;
        for (std::size_t k = 0; k < node.inputs.size(); ++k) inputs[k] = dense_view(outputs[node.inputs[k]]);
        if (node.op == Op::slot)
            outputs.push_back(state[node.attributes[0]]);
        else if (node.op == Op::seed)
            outputs.push_back(seed);
        else if (is_kind(node.op, OpKind::window))
            outputs.push_back(impl_->windows_of(node, outputs[node.inputs[0]], data));
        else
            outputs.push_back(run_node_checked(impl_->kernels, node, {inputs.data(), node.inputs.size()}, impl_->pool));
        if (alter) alter(static_cast<std::uint32_t>(i), outputs.back());
    }
    return outputs;
}

}  // namespace quern::vm::tensor
