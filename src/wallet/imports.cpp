#include "wallet/imports.h"

#include <algorithm>
#include <map>

#include "base/fs.h"
#include "compute/core/task_imports.h"
#include "compute/program/state_file.h"
#include "wallet/amount.h"

namespace quern::wallet {
namespace {

namespace core = compute::core;
namespace tensor = vm::tensor;
namespace types = chain::types;

constexpr std::size_t kMaxStateFile = std::size_t{8} << 30;

bool same_type(const tensor::Slot& a, const tensor::Slot& b) { return a.dtype == b.dtype && a.shape == b.shape; }

// Neighbours in both states are one range.
void add_slot(std::vector<types::ImportedSlots>& ranges, std::uint32_t there, std::uint32_t here) {
    if (!ranges.empty()) {
        types::ImportedSlots& last = ranges.back();
        if (last.there + last.count == there && last.here + last.count == here) {
            ++last.count;
            return;
        }
    }
    ranges.push_back({there, here, 1});
}

// `free` of S_0's slots are not imported yet.
Expected<core::ImportSource> source_of(const ImportFiles& files, const tensor::Program& program,
                                       std::span<const Hash32> init_slots, std::vector<bool>& free) {
    QUERN_TRY(const Bytes program_file, fs::read_file(files.program, tensor::kMaxProgramBytes));
    QUERN_TRY(const tensor::Program earlier, named(files.program, tensor::decode_program(program_file)));
    QUERN_TRY(const Bytes state_file, fs::read_file(files.state, kMaxStateFile));
    QUERN_TRY(const tensor::State state, named(files.state, compute::program::read_state(earlier, state_file)));
    std::map<std::string_view, std::uint32_t> by_name;
    for (std::size_t s = 0; s < earlier.slots.size(); ++s)
        by_name[earlier.slots[s].name] = static_cast<std::uint32_t>(s);
    core::ImportSource source{files.task, 0, tensor::slot_roots(state), {}};
    for (std::size_t here = 0; here < program.slots.size(); ++here) {
        const auto found = by_name.find(program.slots[here].name);
        if (!free[here] || found == by_name.end()) continue;
        const std::uint32_t there = found->second;
        if (!same_type(earlier.slots[there], program.slots[here]) || source.slot_roots[there] != init_slots[here])
            continue;
        free[here] = false;
        add_slot(source.slots, there, static_cast<std::uint32_t>(here));
    }
    if (source.slots.empty()) return fail("task.imports_nothing", files.state + " has no slot of the initial state");
    return source;
}

}  // namespace

Status add_imports(const std::vector<ImportFiles>& files, const tensor::Program& program, const tensor::State& init,
                   types::TaskSubmitPayload& spec) {
    const std::vector<Hash32> init_slots = tensor::slot_roots(init);
    std::vector<bool> free;
    for (const tensor::Tensor& slot : init) free.push_back(!compute::program::is_zero(slot));
    std::vector<core::ImportSource> sources;
    for (const ImportFiles& one : files) {
        QUERN_TRY(core::ImportSource source, source_of(one, program, init_slots, free));
        sources.push_back(std::move(source));
    }
    std::sort(sources.begin(), sources.end(), [](const auto& a, const auto& b) { return a.task < b.task; });
    core::set_imports(spec, sources, init_slots);
    return {};
}

}  // namespace quern::wallet
