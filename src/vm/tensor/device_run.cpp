#include "vm/tensor/device_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/ensure.h"
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

using cuda::u32;
using cuda::u64;

constexpr u64 kAlignmentWords = 64;  // 256 bytes
constexpr u64 kParameterWords = 4;   // of a philox node
constexpr u64 kSpareBytes = u64{32} << 20;
constexpr u64 kThreadsOfMultiprocessor = 2048;  // at most at once, by any card so far

u64 padded(u64 words) { return (words + kAlignmentWords - 1) / kAlignmentWords * kAlignmentWords; }

// Words of the device's memory, given back with it.
class DeviceWords {
public:
    explicit DeviceWords(cuda::Device& device) : device_(&device) {}
    ~DeviceWords() { release(); }
    DeviceWords(DeviceWords&& other) noexcept
        : device_(other.device_), data_(std::exchange(other.data_, nullptr)), words_(std::exchange(other.words_, 0)) {}
    DeviceWords& operator=(DeviceWords&&) = delete;

    // At least so many; what they held is lost where they were fewer.
    [[nodiscard]] cuda::Failure reserve(u64 words) {
        if (words <= words_) return nullptr;
        release();
        const cuda::Failure failure = device_->allocate(words, data_);
        words_ = failure == nullptr ? words : 0;
        return failure;
    }
    void release() {
        if (data_ != nullptr) device_->release(data_);
        data_ = nullptr;
        words_ = 0;
    }
    [[nodiscard]] u32* data() const { return data_; }
    [[nodiscard]] u64 words() const { return words_; }

private:
    cuda::Device* device_;
    u32* data_ = nullptr;
    u64 words_ = 0;
};

cuda::Layout layout_of(const Shape& shape, const Strides& strides) {
    u32 dims[cuda::kDims];
    cuda::i64 steps[cuda::kDims];
    for (std::size_t d = 0; d < cuda::kDims; ++d) {
        dims[d] = shape.dims[d];
        steps[d] = strides[d];
    }
    return cuda::merged(dims, steps);
}

// What a node's operands and its output are on the device.
struct Operands {
    std::array<View, kMaxInputs> views;  // whose data lie there
    u32* out = nullptr;
};

cuda::ProductSide side_of(const Node& node, const View& view, std::size_t line_axis) {
    const Shape whole{{node.shape.dims[0], node.shape.dims[1], view.shape.dims[2], view.shape.dims[3]}};
    const Strides strides = broadcast_strides(view.shape, view.strides, whole);
    return {view.data, strides[line_axis], strides[5 - line_axis], strides[0], strides[1]};
}

cuda::ProductCall product_of(const Node& node, const Operands& operands) {
    const bool of_bytes = node.op == Op::imatmul;
    const std::size_t row_axis = node.attributes[0] != 0 ? 3 : 2;
    const std::size_t column_axis = node.attributes[1] != 0 ? 2 : 3;
    const View& left = operands.views[0];
    const View& right = operands.views[of_bytes ? 2 : 1];
    cuda::ProductCall call;
    call.shape = {node.shape.rows(),    node.shape.columns(), left.shape.dims[5 - row_axis],
                  node.shape.columns(), node.shape.leading(), node.shape.dims[1]};
    call.a = side_of(node, left, row_axis);
    call.b = side_of(node, right, column_axis);
    if (of_bytes) {
        call.scale_a = side_of(node, operands.views[1], row_axis);
        call.scale_b = side_of(node, operands.views[3], column_axis);
    }
    call.c = operands.out;
    // One weight matrix for all leading indices: their rows are rows of one product where A steps evenly.
    const auto evenly = [&](cuda::i64 cuda::ProductSide::*step, u64 count) {
        const auto is_even = [&](const cuda::ProductSide& side) {
            return side.*step == side.line * static_cast<cuda::i64>(call.shape.m);
        };
        return count > 1 && call.b.*step == 0 && (!of_bytes || call.scale_b.*step == 0) && is_even(call.a) &&
               (!of_bytes || is_even(call.scale_a)) && u64{call.shape.m} * count <= kMaxTensorElements;
    };
    if (evenly(&cuda::ProductSide::inner, call.shape.inner_products) ||
        (call.shape.inner_products == 1 && evenly(&cuda::ProductSide::outer, call.shape.products))) {
        const u64 count = call.shape.inner_products == 1 ? call.shape.products : call.shape.inner_products;
        const bool is_inner = call.shape.inner_products != 1;
        call.shape.m *= static_cast<u32>(count);
        call.shape.products /= count;
        call.shape.inner_products = 1;
        if (is_inner && evenly(&cuda::ProductSide::outer, call.shape.products)) {
            call.shape.m *= static_cast<u32>(call.shape.products);
            call.shape.products = 1;
        }
    }
    return call;
}

template <class Kernel>
Kernel over_last_axis(const Node& node, const Operands& operands) {
    const View& x = operands.views[0];
    Kernel kernel;
    kernel.rows.data = x.data;
    for (std::size_t d = 0; d < 3; ++d) {
        kernel.rows.dims[d] = node.shape.dims[d];
        kernel.rows.strides[d] = x.strides[d];
    }
    kernel.columns = x.shape.columns();
    kernel.out = operands.out;
    return kernel;
}

}  // namespace

struct DeviceRun::Impl {
    Impl(const Program& program_in, const ExecutionPlan& plan_in, cuda::Device& device_in, ThreadPool* pool_in,
         const Cancellation* cancellation_in, const cuda::LaunchLimits& limits_in)
        : program(program_in),
          plan(plan_in),
          device(device_in),
          pool(pool_in),
          cancellation(cancellation_in),
          limits(limits_in),
          slots(device_in),
          arena(device_in),
          constants(device_in),
          scratch(device_in),
          groups(device_in) {
        for (const Slot& slot : program.slots) {
            slot_at.push_back(slot_words);
            slot_words += padded(slot.shape.elements());
        }
        for (const Tensor& constant : plan.constants) {
            constant_at.push_back(constant_words);
            constant_words += padded(constant.words.size());
        }
        constant_words += padded(kParameterWords) * 2;  // the seed, and a philox node's parameters
        for (const Step& step : plan.steps) {
            scratch_words = std::max(scratch_words, scratch_of(step));
            // One group's at a time where buffers are made one by one.
            const u64 count = step.kind == Step::Kind::group ? step.members.size() : 0;
            described_count = plan.begins.empty() ? described_count + count : std::max(described_count, count);
        }
    }
    // Nothing is copied any more when the memory goes.
    ~Impl() { (void)device.wait(); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    static u64 scratch_of(const Step& step) {
        if (step.kind != Step::Kind::node || step.node->op != Op::sum_rows) return 0;
        const Shape& shape = step.inputs[0].shape;
        return cuda::divided_up(shape.rows(), cuda::SumRowBlocks::kRowsOfBlock) * shape.leading() * shape.columns();
    }
    [[nodiscard]] u64 bytes() const {
        return (slot_words + plan.arena_words + constant_words + scratch_words) * sizeof(u32) +
               described_count * sizeof(cuda::GroupMember);
    }

    // --- Failures: the first one counts, and nothing is done after it ------------------------------------------------
    void note(cuda::Failure each) {
        if (failure == nullptr) failure = each;
    }
    [[nodiscard]] bool goes_on() const { return failure == nullptr && !is_cancelled; }
    void wait() {
        in_flight = 0;
        note(device.wait());
    }
    // Queues the kernel in pieces: whoever waits for the queue waits for few of them.
    void run(const cuda::AnyKernel& kernel) {
        if (!goes_on()) return;
        const u64 blocks = cuda::blocks_of(kernel);
        const u64 steps = cuda::serial_steps(kernel);
        if (!limits.is_suitable(steps, blocks)) {
            unsuitable = std::to_string(steps) + " steps one after the other in " + std::to_string(blocks) + " blocks";
            return note(unsuitable.c_str());
        }
        const cuda::LaunchPieces pieces(steps, device.multiprocessors(), limits);
        for (u64 first = 0; first < blocks; first += pieces.blocks) {
            const u64 count = std::min(pieces.blocks, blocks - first);
            const u64 work = pieces.steps_of(count);
            if (in_flight != 0 && in_flight + work > limits.in_flight) {
                wait();
                is_cancelled = is_requested(cancellation);
            }
            if (!goes_on()) return;
            note(device.run_blocks(kernel, first, count));
            in_flight += work;
        }
    }
    // Of a failure only when nothing is on its way any more: what is copied may be the caller's memory.
    Status outcome() {
        if (failure == nullptr) return {};
        wait();
        is_loaded = false;
        const std::string_view name = unsuitable.empty() ? "cuda.failed" : "cuda.unsuitable";
        Status failed = fault(name, device.name() + ": " + std::exchange(failure, nullptr));
        unsuitable.clear();
        return failed;
    }

    // Memory, constants and descriptions, once.
    Status prepare() {
        if (is_prepared) return {};
        const u64 wanted = bytes() + spare_bytes(device);
        if (wanted > device.free_bytes())
            return fault("cuda.too_little_memory", std::to_string(wanted) + " bytes wanted, " +
                                                       std::to_string(device.free_bytes()) + " free on " +
                                                       device.name());
        note(slots.reserve(slot_words));
        note(constants.reserve(constant_words));
        if (plan.begins.empty() && plan.arena_words != 0) note(arena.reserve(plan.arena_words));
        if (scratch_words != 0) note(scratch.reserve(scratch_words));
        if (failure != nullptr) return outcome();
        for (std::size_t c = 0; c < plan.constants.size(); ++c)
            note(device.upload(plan.constants[c].words.data(), constants.data() + constant_at[c],
                               plan.constants[c].words.size() * sizeof(u32)));
        wait();
        places.assign(plan.roots.size(), nullptr);
        for (std::size_t r = 0; r < plan.roots.size(); ++r) {
            const Root& root = plan.roots[r];
            switch (root.kind) {
                case Root::Kind::slot:
                case Root::Kind::next:
                    places[r] = slots.data() + slot_at[root.index];
                    break;
                case Root::Kind::seed:
                    places[r] = seed();
                    break;
                case Root::Kind::constant:
                    places[r] = constants.data() + constant_at[root.index];
                    break;
                case Root::Kind::arena:
                    if (plan.begins.empty()) places[r] = arena.data() + root.offset;
                    break;
            }
        }
        is_written.assign(program.slots.size(), false);
        for (const Root& root : plan.roots)
            if (root.kind == Root::Kind::next) is_written[root.index] = true;
        if (plan.begins.empty()) describe_groups();
        is_prepared = failure == nullptr;
        return outcome();
    }
    [[nodiscard]] u32* parameters() const { return constants.data() + constant_words - padded(kParameterWords); }
    [[nodiscard]] u32* seed() const { return parameters() - padded(kParameterWords); }

    [[nodiscard]] View view(const Value& value) const {
        return {places[value.root] + value.offset, value.shape, value.strides};
    }

    // --- Groups ------------------------------------------------------------------------------------------------------
    void describe(const Step& step, std::vector<cuda::GroupMember>& list) const {
        for (const Member& member : step.members) {
            cuda::GroupMember made;
            made.op = member.node->element;
            made.arity = static_cast<u32>(member.node->inputs.size());
            made.immediate = member.node->immediate;
            if (member.scratch != kNone)
                made.value = static_cast<u32>(member.scratch);
            else
                made.out = places[member.root];
            for (std::size_t o = 0; o < member.node->inputs.size(); ++o) {
                const Member::Operand& operand = member.operands[o];
                if (operand.scratch != kNone && !operand.is_gathered) {
                    made.values[o] = static_cast<u32>(operand.scratch);
                    continue;
                }
                const Value& value = operand.value;
                const Strides strides = broadcast_strides(value.shape, value.strides, member.node->shape);
                made.operands[o] = {places[value.root] + value.offset, layout_of(member.node->shape, strides)};
            }
            list.push_back(made);
        }
    }

    void describe_groups() {
        described.clear();
        first_member.assign(plan.steps.size(), 0);
        for (std::size_t s = 0; s < plan.steps.size(); ++s) {
            if (plan.steps[s].kind != Step::Kind::group) continue;
            first_member[s] = described.size();
            describe(plan.steps[s], described);
        }
        upload_descriptions();
    }
    void upload_descriptions() {
        const u64 bytes_of_all = described.size() * sizeof(cuda::GroupMember);
        if (bytes_of_all == 0) return;
        note(groups.reserve(bytes_of_all / sizeof(u32)));
        if (failure == nullptr) note(device.upload(described.data(), groups.data(), bytes_of_all));
        if (failure == nullptr) wait();
    }

    void run_group(const Step& step, std::size_t number) {
        const std::size_t first = plan.begins.empty() ? first_member[number] : 0;
        if (!plan.begins.empty()) {
            described.clear();
            describe(step, described);
            if (step.members.size() > 1) upload_descriptions();
        }
        if (step.members.size() == 1) {
            const cuda::GroupMember& member = described[first];
            cuda::Elementwise kernel;
            kernel.op = member.op;
            kernel.arity = member.arity;
            kernel.immediate = member.immediate;
            kernel.count = static_cast<u32>(step.words);
            std::copy(std::begin(member.operands), std::end(member.operands), std::begin(kernel.operands));
            kernel.out = member.out;
            return run(kernel);
        }
        std::size_t values = 0;
        for (const Member& member : step.members)
            if (member.scratch != kNone) values = std::max(values, member.scratch + 1);
        ensure(values <= cuda::LargeGroup::kMaxValues, "a group has no more values than members");
        const auto filled = [&](auto kernel) {
            kernel.members = reinterpret_cast<const cuda::GroupMember*>(groups.data()) + first;
            kernel.member_count = static_cast<u32>(step.members.size());
            kernel.count = static_cast<u32>(step.words);
            return kernel;
        };
        if (values <= cuda::SmallGroup::kMaxValues)
            run(filled(cuda::SmallGroup{}));
        else
            run(filled(cuda::LargeGroup{}));
    }

    // --- Nodes -------------------------------------------------------------------------------------------------------
    void copy(const View& from, u32* to, const Strides& strides) {
        cuda::Copy kernel;
        kernel.from = from.data;
        kernel.source = layout_of(from.shape, from.strides);
        kernel.to = to;
        kernel.target = layout_of(from.shape, strides);
        run(kernel);
    }

    void fill(u32* out, u64 count, u32 word) {
        cuda::Iota kernel;
        kernel.out = out;
        kernel.count = static_cast<u32>(count);
        kernel.word = word;
        run(kernel);
    }

    void iota(const Node& node, u32* out) {
        const std::size_t axis = node.attributes[0];
        cuda::Iota kernel;
        kernel.out = out;
        kernel.count = static_cast<u32>(node.shape.elements());
        kernel.inner = static_cast<u32>(dense_strides(node.shape)[axis]);
        kernel.length = node.shape.dims[axis];
        run(kernel);
    }

    // The keys may lie where the output does.
    void philox(const Node& node, const Operands& operands) {
        const Shape four{{1, 1, 1, kParameterWords}};
        copy({operands.views[0].data, four, dense_strides(four)}, parameters(), dense_strides(four));
        cuda::Philox kernel;
        kernel.parameters = parameters();
        kernel.whole = node.op == Op::philox_words ? 1 : 0;
        kernel.domain = kernel.whole;
        kernel.count = node.shape.elements();
        kernel.out = operands.out;
        run(kernel);
    }

    void sum_rows(const Operands& operands) {
        const View& x = operands.views[0];
        cuda::SumRowBlocks sums;
        sums.matrices.data = x.data;
        for (std::size_t d = 0; d < 2; ++d) {
            sums.matrices.dims[d] = x.shape.dims[d];
            sums.matrices.strides[d] = x.strides[d];
        }
        sums.row_count = x.shape.rows();
        sums.columns = x.shape.columns();
        sums.stride = x.strides[2];
        const bool is_whole = sums.row_blocks() == 1;
        sums.out = is_whole ? operands.out : scratch.data();
        run(sums);
        if (is_whole) return;
        cuda::SumTotals totals;
        totals.sums = sums.out;
        totals.matrices = x.shape.leading();
        totals.row_blocks = sums.row_blocks();
        totals.columns = sums.columns;
        totals.out = operands.out;
        run(totals);
    }

    void gather(const Node& node, const Operands& operands) {
        const View& table = operands.views[0];
        cuda::GatherRows kernel;
        kernel.table = table.data;
        kernel.table_rows = table.shape.rows();
        kernel.stride = table.strides[2];
        kernel.index = operands.views[1].data;
        kernel.count = node.shape.leading() * node.shape.rows();
        kernel.columns = table.shape.columns();
        kernel.out = operands.out;
        run(kernel);
    }

    void scatter_add(const Node& node, const Operands& operands) {
        const View& source = operands.views[0];
        fill(operands.out, node.shape.elements(), 0);
        cuda::ScatterAddRows kernel;
        kernel.x = source.data;
        kernel.stride = source.strides[2];
        kernel.index = operands.views[1].data;
        kernel.rows = source.shape.rows();
        kernel.columns = source.shape.columns();
        kernel.table = operands.out;
        kernel.table_rows = node.shape.rows();
        kernel.table_stride = source.shape.columns();
        run(kernel);
    }

    void structural(const Node& node, const Operands& operands) {
        const View& first = operands.views[0];
        View made{first.data, node.shape, {}};
        std::ptrdiff_t offset = 0;
        if (view_of(node, first.shape, first.strides, made.strides, offset)) {
            made.data += offset;
            return copy(made, operands.out, dense_strides(node.shape));
        }
        if (node.op == Op::concat) {
            const Strides strides = dense_strides(node.shape);
            const std::size_t axis = node.attributes[0];
            copy(first, operands.out, strides);
            copy(operands.views[1], operands.out + first.shape.dims[axis] * strides[axis], strides);
            return;
        }
        // A reshape of words in another order: both sides in the order of their elements.
        cuda::Copy kernel;
        kernel.from = first.data;
        kernel.source = layout_of(first.shape, first.strides);
        kernel.to = operands.out;
        kernel.target = layout_of(node.shape, dense_strides(node.shape));
        run(kernel);
    }

    bool window(const Node& node, const Operands& operands, const DataSource& data) {
        const View& index = operands.views[0];
        window_index.resize(index.shape.elements());
        window_words.resize(node.shape.elements());
        if (failure == nullptr)
            note(device.download(index.data, window_index.data(), window_index.size() * sizeof(u32)));
        if (failure == nullptr) wait();
        if (failure != nullptr) return true;
        if (!read_windows(program.header, node, window_index.data(), data, window_words.data(), pool)) return false;
        note(device.upload(window_words.data(), operands.out, window_words.size() * sizeof(u32)));
        // The next window's words take the place of these.
        if (failure == nullptr) wait();
        return true;
    }

    // False: it is a window node, and the source has not all that it reads.
    bool run_node(const Node& node, const Operands& operands, const DataSource& data) {
        switch (node.op) {
            case Op::full:
                fill(operands.out, node.shape.elements(), node.immediate);
                return true;
            case Op::iota:
                iota(node, operands.out);
                return true;
            case Op::philox:
            case Op::philox_words:
                philox(node, operands);
                return true;
            case Op::matmul:
                run(cuda::matmul(product_of(node, operands)));
                return true;
            case Op::imatmul:
                run(cuda::imatmul(product_of(node, operands)));
                return true;
            case Op::sum_last:
                run(over_last_axis<cuda::SumLast>(node, operands));
                return true;
            case Op::max_last:
                run(over_last_axis<cuda::MaxLast>(node, operands));
                return true;
            case Op::kth_last: {
                auto kernel = over_last_axis<cuda::KthLast>(node, operands);
                kernel.k = node.attributes[0];
                run(kernel);
                return true;
            }
            case Op::sum_rows:
                sum_rows(operands);
                return true;
            case Op::gather_rows:
                gather(node, operands);
                return true;
            case Op::scatter_add_rows:
                scatter_add(node, operands);
                return true;
            case Op::reshape:
            case Op::permute:
            case Op::slice:
            case Op::concat:
                structural(node, operands);
                return true;
            case Op::window:
                return window(node, operands, data);
            case Op::slot:
            case Op::seed:
            case Op::elementwise:
                break;  // of no step of a plan: inputs are roots, elementwise nodes are groups
        }
        ensure(false, "a plan's node is one of these");
        return true;
    }

    bool run_step(const Step& step, std::size_t number, const DataSource& data) {
        if (step.kind == Step::Kind::group) {
            run_group(step, number);
            return true;
        }
        Operands operands;
        for (std::size_t i = 0; i < step.inputs.size(); ++i) operands.views[i] = view(step.inputs[i]);
        operands.out = places[step.output];
        if (step.kind == Step::Kind::node) return run_node(*step.node, operands, data);
        copy(operands.views[0], operands.out, dense_strides(operands.views[0].shape));
        return true;
    }

    // Where the plan's buffers are made one by one.
    void begin_buffers(std::size_t number) {
        if (plan.begins.empty()) return;
        for (const std::size_t r : plan.begins[number]) {
            const auto made = buffers.emplace(r, device).first;
            note(made->second.reserve(std::max<u64>(plan.roots[r].words, 1)));
            places[r] = made->second.data();
        }
    }
    void end_buffers(std::size_t number) {
        if (plan.begins.empty()) return;
        for (const std::size_t r : plan.ends[number]) buffers.erase(r);
    }

    const Program& program;
    const ExecutionPlan& plan;
    cuda::Device& device;
    ThreadPool* const pool;
    const Cancellation* const cancellation;
    const cuda::LaunchLimits limits;
    DeviceWords slots;
    DeviceWords arena;
    DeviceWords constants;
    DeviceWords scratch;
    DeviceWords groups;  // described
    std::map<std::size_t, DeviceWords> buffers;
    std::vector<u64> slot_at;
    std::vector<u64> constant_at;
    u64 slot_words = 0;
    u64 constant_words = 0;
    u64 scratch_words = 0;
    u64 described_count = 0;
    std::vector<u32*> places;      // of roots
    std::vector<bool> is_written;  // of slots: by a step
    std::vector<cuda::GroupMember> described;
    std::vector<std::size_t> first_member;  // of each step's group
    std::vector<u32> window_index;
    std::vector<u32> window_words;
    cuda::Failure failure = nullptr;
    std::string unsuitable;  // where that is the failure
    u64 in_flight = 0;       // of limits
    bool is_cancelled = false;
    bool is_prepared = false;
    bool is_loaded = false;
};

DeviceRun::DeviceRun(const Program& program, const ExecutionPlan& plan, cuda::Device& device, ThreadPool* pool,
                     const Cancellation* cancellation, const cuda::LaunchLimits& limits)
    : impl_(std::make_unique<Impl>(program, plan, device, pool, cancellation, limits)) {}

DeviceRun::~DeviceRun() = default;

std::uint64_t DeviceRun::bytes() const { return impl_->bytes(); }

std::uint64_t DeviceRun::spare_bytes(const cuda::Device& device) {
    constexpr u64 kValueBytes = u64{cuda::LargeGroup::kMaxValues} * cuda::kElementsPerThread * sizeof(u32);
    return kSpareBytes + device.multiprocessors() * kThreadsOfMultiprocessor * kValueBytes;
}

Status DeviceRun::load(const State& state) {
    QUERN_CHECK(impl_->prepare());
    for (std::size_t slot = 0; slot < state.size() && impl_->failure == nullptr; ++slot)
        impl_->note(impl_->device.upload(state[slot].words.data(), impl_->slots.data() + impl_->slot_at[slot],
                                         state[slot].words.size() * sizeof(u32)));
    if (impl_->failure == nullptr) impl_->wait();
    impl_->is_loaded = impl_->failure == nullptr;
    return impl_->outcome();
}

Expected<bool> DeviceRun::step(const DataSource& data, const Tensor& seed) {
    ensure(impl_->is_loaded, "a step follows the loading of a state");
    impl_->note(impl_->device.upload(seed.words.data(), impl_->seed(), seed.words.size() * sizeof(u32)));
    impl_->is_cancelled = false;
    bool is_complete = true;
    for (std::size_t s = 0; s < impl_->plan.steps.size() && is_complete && impl_->goes_on(); ++s) {
        impl_->is_cancelled = is_requested(impl_->cancellation);
        if (impl_->is_cancelled) break;
        impl_->begin_buffers(s);
        if (impl_->failure == nullptr) is_complete = impl_->run_step(impl_->plan.steps[s], s, data);
        impl_->end_buffers(s);
    }
    impl_->buffers.clear();
    if (impl_->failure == nullptr) impl_->wait();
    QUERN_CHECK(impl_->outcome());
    impl_->is_loaded = is_complete && !impl_->is_cancelled;
    return impl_->is_loaded;
}

Status DeviceRun::store(State& state, const std::function<void(std::size_t slot)>& before_writing) {
    ensure(impl_->is_loaded, "what is stored was loaded");
    for (std::size_t slot = 0; slot < state.size() && impl_->failure == nullptr; ++slot) {
        if (!impl_->is_written[slot]) continue;
        if (before_writing) before_writing(slot);
        impl_->note(impl_->device.download(impl_->slots.data() + impl_->slot_at[slot], state[slot].words.data(),
                                           state[slot].words.size() * sizeof(u32)));
    }
    if (impl_->failure == nullptr) impl_->wait();
    return impl_->outcome();
}

Expected<std::vector<Hash32>> DeviceRun::slot_roots() {
    ensure(impl_->is_loaded, "what is hashed was loaded");
    impl_->is_cancelled = false;
    // Before anything writes into them.
    std::vector<std::vector<Hash32>> hashes;
    for (const Slot& slot : impl_->program.slots) hashes.emplace_back(slot.shape.tiles());
    DeviceWords there(impl_->device);
    u64 words = 0;
    for (const std::vector<Hash32>& each : hashes) words += each.size() * cuda::TileHashes::kHashWords;
    impl_->note(there.reserve(words));
    u64 at = 0;
    for (std::size_t slot = 0; slot < hashes.size() && impl_->failure == nullptr; ++slot) {
        const Shape& shape = impl_->program.slots[slot].shape;
        cuda::TileHashes kernel;
        kernel.words = impl_->slots.data() + impl_->slot_at[slot];
        kernel.leading = shape.leading();
        kernel.rows = shape.rows();
        kernel.columns = shape.columns();
        kernel.hashes = there.data() + at;
        impl_->run(kernel);
        static_assert(sizeof(Hash32) == cuda::TileHashes::kHashWords * sizeof(u32));
        if (impl_->failure == nullptr)
            impl_->note(
                impl_->device.download(kernel.hashes, hashes[slot].data(), hashes[slot].size() * sizeof(Hash32)));
        at += shape.tiles() * cuda::TileHashes::kHashWords;
    }
    if (impl_->failure == nullptr) impl_->wait();
    QUERN_CHECK(impl_->outcome());
    std::vector<Hash32> roots;
    roots.reserve(hashes.size());
    for (const std::vector<Hash32>& each : hashes) roots.push_back(tensor_root_of(each));
    return roots;
}

}  // namespace quern::vm::tensor
