#include "compute/worker/task_inputs.h"

#include <algorithm>
#include <set>
#include <thread>

#include "base/log.h"
#include "chain/market/work.h"
#include "compute/core/dispute_strategy.h"
#include "compute/core/state_content.h"
#include "compute/core/task_spec.h"
#include "compute/program/state_file.h"

namespace quern::compute::worker {
namespace {

using vm::tensor::Program;
using vm::tensor::State;

constexpr std::uint64_t kWordBytes = 4;
constexpr std::uint64_t kFileOverhead = 4U << 20;  // names, metadata and padding of a file of tensors
constexpr std::uint64_t kMib = 1U << 20;
constexpr std::size_t kKeptTasks = 8;
constexpr std::size_t kKeptManifests = 8;
// Connections over which the slots of a state are read at once: while one's bytes are checked here, the node reads
// another's.
constexpr std::size_t kSlotReaders = 3;
constexpr std::string_view kWrongStateRoot = "inputs.wrong_state_root";

// Of a file that holds this many bytes of tensors; twice, because a file may store 64-bit integers.
std::uint64_t file_limit(std::uint64_t tensor_bytes, std::uint64_t most) {
    return std::min(2 * tensor_bytes + kFileOverhead, most);
}

// Of the program, decoded, and the plans of its plain and its tapped steps, which a test holds against what they take.
std::uint64_t program_bytes(const Program& program) {
    constexpr std::uint64_t kNodeBytes = 1'536;
    constexpr std::uint64_t kSlotBytes = 512;
    return program.nodes.size() * kNodeBytes + program.slots.size() * kSlotBytes;
}

// Reads; what nobody serves, or (unless `may_come`) is still on its way, is put together from fragments and read again,
// a state's list and then its slots. The error of the reading stays where that fails, unless fragments are on their
// way.
template <class Read>
auto read_or_restore(NodeView& node, const CustodyRef& custody, const Hash32& content, const CustodyLimits& limits,
                     Read&& read, bool may_come = true) -> decltype(read()) {
    for (int round = 0; round < 2; ++round) {
        auto found = read();
        if (found || !custody.exists()) return found;
        if (!is_not_found(found.error()) && (may_come || !is_on_its_way(found.error()))) return found;
        if (const Status restored = restore_state(node, custody, content, limits); !restored) {
            log::debug(log::Category::worker, "not restored content={} reason={}", to_hex(content),
                       restored.error().to_string());
            if (restored.error().is_busy()) return fail(restored.error());
            return found;
        }
        log::info(log::Category::worker, "restored from fragments content={}", to_hex(content));
    }
    return read();
}

Expected<core::HistoryManifest> read_manifest(NodeView& node, const Hash32& content, const CustodyRef& custody,
                                              bool may_come) {
    return read_or_restore(
        node, custody, content, {core::kMaxManifestBytes, nullptr},
        [&]() -> Expected<core::HistoryManifest> {
            QUERN_TRY(const Bytes bytes, node.get_content(content, core::kMaxManifestBytes));
            return core::decode_manifest(bytes);
        },
        may_come);
}

// Reads slots one by one until there are no more or one fails, beside others that do the same.
class SlotReaders {
public:
    SlotReaders(const Program& program, core::StateParts& parts, const std::vector<std::size_t>& order,
                const Cancellation* cancellation)
        : program_(program), parts_(parts), order_(order), cancellation_(cancellation) {}

    void run(NodeView& node) {
        while (const auto slot = next()) {
            auto tensor = read(node, *slot);
            if (tensor)
                parts_.slots[*slot] = std::move(*tensor);
            else
                failed(tensor.error());
        }
    }
    [[nodiscard]] Status result() const {
        const MutexLock lock(mutex_);
        return result_;
    }

private:
    std::optional<std::size_t> next() {
        const MutexLock lock(mutex_);
        if (!result_ || taken_ == order_.size()) return std::nullopt;
        return order_[taken_++];
    }
    void failed(Error why) {
        const MutexLock lock(mutex_);
        if (result_) result_ = fail(std::move(why));
    }
    Expected<vm::tensor::Tensor> read(NodeView& node, std::size_t slot) const {
        if (is_requested(cancellation_)) return busy("worker.stopped");
        const vm::tensor::Slot& record = program_.slots[slot];
        // Its root is its id, which was checked on the way.
        QUERN_TRY(const Bytes tiles, node.get_content(parts_.roots[slot], core::slot_bytes(record.shape)));
        return core::tensor_of_tiles(record, tiles);
    }

    const Program& program_;
    core::StateParts& parts_;
    const std::vector<std::size_t>& order_;
    const Cancellation* const cancellation_;
    mutable Mutex mutex_;
    std::size_t taken_ QUERN_GUARDED_BY(mutex_) = 0;
    Status result_ QUERN_GUARDED_BY(mutex_);
};

// A state content and its slots. The node is told of all of them, and fetches what it lacks while others are read.
// Those come first: who asks again has read what came meanwhile in vain, once at most.
Expected<State> fetch_state(NodeView& node, const Program& program, const Hash32& state_root, BytesView content,
                            const Cancellation* cancellation) {
    auto parts = core::decode_state(program, state_root, content);
    if (!parts && parts.error().name == core::kWrongStateRoot) return fail(kWrongStateRoot, parts.error().detail);
    QUERN_CHECK(parts);
    std::vector<std::size_t> order;
    std::vector<Hash32> wanted;
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < program.slots.size(); ++i) {
        if (!parts->slots[i].words.empty()) continue;
        order.push_back(i);
        wanted.push_back(parts->roots[i]);
        largest = std::max(largest, core::slot_bytes(program.slots[i].shape));
    }
    QUERN_TRY(const std::set<Hash32> here, node.want_contents(wanted, largest));
    std::stable_partition(order.begin(), order.end(), [&](std::size_t i) { return !here.contains(parts->roots[i]); });
    SlotReaders readers(program, *parts, order, cancellation);
    {
        std::vector<std::jthread> others;
        for (std::size_t i = 1; i < std::min(kSlotReaders, order.size()); ++i)
            if (auto another = node.another())
                others.emplace_back([&readers, view = std::move(another)] { readers.run(*view); });
        readers.run(node);
    }
    QUERN_CHECK(readers.result());
    return std::move(parts->slots);
}

}  // namespace

std::uint32_t loss_bits(const Program& program, const State& state) { return state[program.header.loss_slot].words[0]; }

std::uint64_t state_bytes(const Program& program) {
    std::uint64_t bytes = 0;
    for (const auto& slot : program.slots) bytes += slot.shape.elements() * kWordBytes;
    return bytes;
}

std::uint64_t most_state_bytes(const Program& program, std::uint64_t memory_bytes) {
    return std::max(file_limit(state_bytes(program), memory_bytes), core::state_content_bytes(program));
}

std::uint64_t fetched_bytes(const Program& program) {
    std::uint64_t all = 0;
    std::uint64_t largest = 0;
    for (const auto& slot : program.slots) {
        if (core::is_inline(slot.shape)) continue;
        largest = std::max(largest, core::slot_bytes(slot.shape));
        all += core::slot_bytes(slot.shape);
    }
    return core::state_content_bytes(program) + std::min(all, kSlotReaders * largest);
}

// No sum overflows: at most 2^18 tensors of 2^33 bytes and 2^26 micro-steps in each of 8 programs, and 2^53 of data.
std::uint64_t memory_needed(std::span<const Program> programs, std::uint64_t stride) {
    const std::uint64_t state = state_bytes(programs.front());
    std::uint64_t steps = 0;
    std::uint64_t dispute = 0;
    std::uint64_t decoded = 0;
    for (const Program& program : programs) {
        decoded += program_bytes(program);
        steps += vm::tensor::step_bytes(program);
        dispute = std::max(dispute, core::dispute_bytes(program, stride));
    }
    return decoded + std::max(steps, dispute) + kept_data_bytes(programs.front().header) + state +
           std::max(2 * state, fetched_bytes(programs.front()));
}

std::uint64_t InputStore::used() const {
    std::uint64_t bytes = 0;
    for (const auto& [id, held] : in_use_)
        if (const auto inputs = held.lock()) bytes += inputs->memory_bytes;
    for (const auto& [id, reserved] : fetching_) bytes += reserved;
    for (const auto& each : holds_)
        if (const auto held = each.lock()) bytes += *held;
    return bytes;
}

std::uint64_t InputStore::budget_of(Duty duty) const {
    return duty == Duty::voluntary ? limits_.memory_bytes / 2 : limits_.memory_bytes;
}

void InputStore::make_room(std::uint64_t bytes, std::uint64_t budget) {
    std::erase_if(in_use_, [](const auto& entry) { return entry.second.expired(); });
    std::erase_if(holds_, [](const auto& each) { return each.expired(); });
    for (auto it = inputs_.begin(); it != inputs_.end() && used() + bytes > budget;)
        it = it->second.use_count() == 1 ? inputs_.erase(it) : std::next(it);
}

InputStore::Hold InputStore::hold(std::uint64_t bytes, Duty duty) {
    const std::uint64_t budget = budget_of(duty);
    const MutexLock lock(mutex_);
    make_room(bytes, budget);
    const std::uint64_t held = used();
    if (held > budget || bytes > budget - held) return nullptr;
    auto hold = std::make_shared<const std::uint64_t>(bytes);
    holds_.push_back(hold);
    return hold;
}

Status InputStore::reserve(const chain::types::Task& task, std::uint64_t needed, Duty duty) {
    const std::uint64_t claimed = chain::market::memory_mib(task.spec);
    if (needed / kMib >= claimed)
        return fail("inputs.beyond_claimed_memory",
                    std::to_string(needed / kMib + 1) + " MiB, the task claims " + std::to_string(claimed));
    if (needed > limits_.memory_bytes) return fail(kTooMuchMemory, std::to_string(needed / kMib) + " MiB");
    const std::uint64_t budget = budget_of(duty);
    const MutexLock lock(mutex_);
    make_room(needed, budget);
    const std::uint64_t held = used();
    if (held != 0 && held + needed > budget) return busy("inputs.busy", "other tasks hold the memory");
    fetching_[task.id] = needed;
    return {};
}

InputStore::Shared InputStore::known(std::uint64_t task) const {
    if (const auto kept = inputs_.find(task); kept != inputs_.end()) return kept->second;
    const auto used = in_use_.find(task);
    return used == in_use_.end() ? nullptr : used->second.lock();
}

InputStore::Shared InputStore::known(const chain::types::Task& task) {
    auto inputs = known(task.id);
    if (inputs == nullptr) return nullptr;
    const auto& roots = task.spec.data_roots;
    const auto& sets = inputs->data->sets();
    if (std::equal(sets.begin(), sets.end(), roots.begin(), roots.end(),
                   [](const TaskData::Set& set, const Hash32& root) { return set.id == root; }))
        return inputs;
    holds_.emplace_back(Hold(inputs, &inputs->memory_bytes));
    inputs_.erase(task.id);
    in_use_.erase(task.id);
    return nullptr;
}

Expected<std::shared_ptr<const TaskInputs>> InputStore::load(NodeView& node, const chain::types::Task& task,
                                                             Duty duty) {
    {
        MutexLock lock(mutex_);
        while (fetching_.contains(task.id)) fetched_.wait(lock);
        if (auto inputs = known(task)) return inputs;
        fetching_[task.id] = 0;
    }
    auto inputs = fetch(node, task, duty);
    {
        const MutexLock lock(mutex_);
        fetching_.erase(task.id);
        if (inputs) {
            if (inputs_.size() >= kKeptTasks) inputs_.erase(inputs_.begin());
            inputs_[task.id] = *inputs;
            in_use_[task.id] = *inputs;
        }
    }
    fetched_.notify_all();
    return inputs;
}

Error InputStore::elsewhere(const chain::types::Task& task, const WantedContent& content, Duty duty, Error said,
                            const Expected<bool>& is_here) const {
    // Where it is here, something else is missing that belongs to it.
    if (sources_ == nullptr || !is_not_found(said) || !is_here || *is_here || !sources_->fetches(task, content, duty))
        return said;
    return {chain::api::kContentOnItsWay, to_hex(content.id) + " from a uri", ErrorKind::busy};
}

// A program says by its root what its header and its leaves are; the plan's roots were opened to the chain.
Expected<core::TaskPrograms> InputStore::fetch_programs(NodeView& node, const chain::types::Task& task,
                                                        Duty duty) const {
    QUERN_TRY(core::TaskPlan plan, core::TaskPlan::decode(task.spec.plan));
    std::vector<Program> programs;
    for (std::size_t i = 0; i < plan.programs().size(); ++i) {
        const Hash32& id = task.spec.contents.programs[i];
        const auto bytes = node.get_content(id, vm::tensor::kMaxProgramBytes);
        if (!bytes)
            return fail(elsewhere(task, {id, {}, vm::tensor::kMaxProgramBytes, false}, duty, bytes.error(),
                                  node.has_content(id)));
        QUERN_TRY(Program program, vm::tensor::decode_program(*bytes));
        if (vm::tensor::program_root(program) != plan.programs()[i].root) return fail("inputs.wrong_program_root");
        programs.push_back(std::move(program));
    }
    return core::TaskPrograms{std::move(plan), std::move(programs)};
}

namespace {

// Where the node does not take them another's may have.
void put_limits(NodeView& node, const chain::types::Task& task) {
    if (task.profiling.limits.empty()) return;
    if (const auto put = node.put_content(task.profiling.limits); !put)
        log::warning(log::Category::worker, "the limits of a task are not in the node's store task={} reason={}",
                     task.id, put.error().to_string());
}

}  // namespace

// All that are missing are asked for at once.
Expected<std::shared_ptr<const TaskData>> InputStore::fetch_data(NodeView& node,
                                                                 const vm::tensor::ProgramHeader& header,
                                                                 const chain::types::Task& task, Duty duty) const {
    put_limits(node, task);
    auto data = TaskData::load(node, header, task.spec.data_roots);
    if (data || !is_not_found(data.error())) return data;
    const std::size_t count = header.data.size();
    Error why = data.error();
    for (std::size_t i = 0; i < count; ++i) {
        const Hash32& id = task.spec.data_roots[i];
        if (id.is_zero()) continue;
        const std::uint64_t size = vm::tensor::data_bytes(header.data[i]);
        const Expected<bool> here = crypto::content_shard_count(size) > 1
                                        ? node.content_shards(id, crypto::kContentShardLevel).has_value()
                                        : node.has_content(id);
        const Error found = elsewhere(task, {id, size, 0, count == 1}, duty, data.error(), here);
        if (found.is_busy()) why = found;
    }
    return fail(std::move(why));
}

Expected<InputStore::Shared> InputStore::fetch(NodeView& node, const chain::types::Task& task, Duty duty) {
    if (const std::uint64_t work = chain::market::largest_step(chain::market::work_of(task).plan);
        work > limits_.step_work)
        return fail(kTooMuchWork, std::to_string(work) + " work units in a step");
    QUERN_TRY(core::TaskPrograms programs, fetch_programs(node, task, duty));
    const std::uint64_t needed = memory_needed(programs.programs, task.spec.work.stride);
    QUERN_CHECK(reserve(task, needed, duty));
    auto inputs = std::make_shared<TaskInputs>(TaskInputs{std::move(programs), {}, needed});
    const Program& any = inputs->programs.any();

    QUERN_TRY(inputs->data, fetch_data(node, any.header, task, duty));
    const auto initial = checkpoint(node, any, {task.spec.contents.init, task.spec.init_root});
    if (!initial && initial.error().name == kWrongStateRoot) return fail("inputs.wrong_init_root");
    if (!initial) {
        const Hash32& id = task.spec.contents.init;
        return fail(elsewhere(task, {id, {}, most_state_bytes(any, limits_.memory_bytes), false}, duty, initial.error(),
                              node.has_content(id)));
    }
    return Shared(std::move(inputs));
}

Status InputStore::try_data(NodeView& node, const chain::types::Task& task, const TaskInputs& inputs) const {
    SeededRng drawn(tried_shards_ ^ task.id);  // the same ones when the node is asked again
    return inputs.data->try_shards(node, drawn);
}

Expected<std::shared_ptr<const TaskData>> InputStore::data_of(NodeView& node, const chain::types::TaskClaim& live,
                                                              const TaskInputs& inputs) {
    const Hash32& claimed = live.claim.claimed_content;
    if (!core::claims_data(live.task.spec) || claimed.is_zero()) return inputs.data;
    const std::pair key(live.task.id, claimed);
    {
        const MutexLock lock(mutex_);
        if (const auto known = claimed_.find(key); known != claimed_.end())
            if (auto data = known->second.lock()) return data;
    }
    QUERN_TRY(auto data, inputs.data->with_last(node, claimed));
    const MutexLock lock(mutex_);
    std::erase_if(claimed_, [](const auto& entry) { return entry.second.expired(); });
    claimed_[key] = data;
    return data;
}

Expected<StateRef> InputStore::start_of(NodeView& node, const chain::types::Task& task) {
    if (task.start_history.is_zero()) return StateRef{task.spec.contents.init, task.start_root};
    const CustodyRef custody = custody_of_start(task);
    QUERN_TRY(const core::HistoryManifest manifest, read_manifest(node, task.start_history, custody, true));
    if (manifest.state_roots.back() != task.start_root) return fail("inputs.wrong_history_root");
    return StateRef{manifest.checkpoint_contents.back(), task.start_root, custody};
}

Expected<core::HistoryManifest> InputStore::unserved_manifest(NodeView& node, const chain::types::TaskClaim& live) {
    const auto& work = live.task.spec.work;
    QUERN_TRY(const StateRef start, start_of(node, live.task));
    if (start.root != live.claim.start_root) return fail("inputs.unknown_start");
    const std::uint64_t steps = chain::market::stretch_of(live).steps;
    core::HistoryManifest manifest{work.interval, work.stride, std::vector<Hash32>(steps / work.stride + 1),
                                   std::vector<Hash32>(steps / work.interval + 1)};
    manifest.state_roots.front() = start.root;
    manifest.checkpoint_contents.front() = start.content;
    return manifest;
}

Expected<State> InputStore::first_state(NodeView& node, const chain::types::TaskClaim& live, const Program& program,
                                        Expected<State> failed, ThreadPool* pool, const Cancellation* cancellation) {
    const auto start = start_of(node, live.task);
    if (!start || start->root != live.claim.start_root) return failed;
    return checkpoint(node, program, *start, pool, cancellation);
}

Expected<std::shared_ptr<const core::HistoryManifest>> InputStore::manifest(NodeView& node,
                                                                            const chain::types::TaskClaim& live) {
    const auto& spec = live.task.spec;
    const auto& claim = live.claim;
    // Checked against the history root, which another task that names the same content does not share.
    Bytes key;
    append(key, claim.history_content);
    append(key, claim.history_root);
    const std::uint64_t steps = chain::market::stretch_of(live).steps;
    const auto fits = [&](const core::HistoryManifest& manifest) {
        return manifest.steps() == steps && manifest.interval == spec.work.interval &&
               manifest.stride == spec.work.stride;
    };
    {
        const MutexLock lock(mutex_);
        if (const auto known = manifests_.find(key); known != manifests_.end()) {
            if (!fits(*known->second)) return fail("inputs.wrong_history_root");
            return known->second;
        }
    }
    const bool may_come = claim.state <= chain::types::ClaimState::custody;
    QUERN_TRY(core::HistoryManifest manifest, read_manifest(node, claim.history_content, custody_of(live), may_come));
    if (!fits(manifest) || core::history_root(manifest.state_roots) != claim.history_root)
        return fail("inputs.wrong_history_root");
    auto result = std::make_shared<const core::HistoryManifest>(std::move(manifest));
    const MutexLock lock(mutex_);
    if (manifests_.size() >= kKeptManifests) manifests_.erase(manifests_.begin());
    manifests_[std::move(key)] = result;
    return result;
}

Expected<State> InputStore::checkpoint(NodeView& node, const Program& program, const StateRef& named, ThreadPool* pool,
                                       const Cancellation* cancellation) {
    const std::uint64_t most = most_state_bytes(program, limits_.memory_bytes);
    return read_or_restore(node, named.custody, named.content, {most, cancellation},
                           [&] { return read_state(node, program, named, most, pool, cancellation); });
}

Expected<State> InputStore::read_state(NodeView& node, const Program& program, const StateRef& named,
                                       std::uint64_t most, ThreadPool* pool, const Cancellation* cancellation) const {
    QUERN_TRY(const Bytes bytes, node.get_content(named.content, most));
    if (core::is_state_content(bytes)) return fetch_state(node, program, named.root, bytes, cancellation);
    QUERN_TRY(State state, program::read_state(program, bytes));
    const Hash32 root = vm::tensor::state_root(state, pool, cancellation);
    if (is_requested(cancellation)) return busy("worker.stopped");
    if (root != named.root) return fail(kWrongStateRoot);
    return state;
}

}  // namespace quern::compute::worker
