#include "compute/core/task_imports.h"

#include <algorithm>
#include <tuple>

#include "crypto/merkle_range.h"

namespace quern::compute::core {

using chain::types::ImportedSlots;
using chain::types::TaskImport;
using chain::types::TaskImports;
using chain::types::TaskSubmitPayload;
using crypto::MerkleTag;

namespace {

constexpr std::string_view kBad = "task.bad_imports";
constexpr std::string_view kMismatch = "task.import_mismatch";

Status check_ranges(const TaskImport& import) {
    if (import.slots.empty()) return fail(kBad, "an import of no slots");
    for (const ImportedSlots& range : import.slots)
        if (range.count == 0 || std::uint64_t{range.there} + range.count > import.slot_count)
            return fail(kBad, "slots that the earlier state has not");
    if (!std::is_sorted(import.slots.begin(), import.slots.end(),
                        [](const ImportedSlots& a, const ImportedSlots& b) { return a.here < b.here; }))
        return fail(kBad, "ranges ascend by their slots here");
    return {};
}

// No slot of S_0 is imported twice.
Status check_apart(const TaskImports& imports) {
    std::vector<ImportedSlots> ranges;
    for (const TaskImport& import : imports.list) ranges.insert(ranges.end(), import.slots.begin(), import.slots.end());
    if (ranges.size() > kMaxImportRanges) return fail(kBad, std::to_string(ranges.size()) + " ranges");
    std::sort(ranges.begin(), ranges.end(),
              [](const ImportedSlots& a, const ImportedSlots& b) { return a.here < b.here; });
    for (std::size_t i = 1; i < ranges.size(); ++i)
        if (std::uint64_t{ranges[i - 1].here} + ranges[i - 1].count > ranges[i].here)
            return fail(kBad, "slot " + std::to_string(ranges[i].here) + " is imported twice");
    return {};
}

// Takes from the front of a list.
class Openings {
public:
    explicit Openings(std::span<const Hash32> hashes) : rest_(hashes) {}

    Expected<std::span<const Hash32>> take(std::uint64_t count) {
        if (count > rest_.size()) return fail(kBad, "openings are missing");
        const auto taken = rest_.first(static_cast<std::size_t>(count));
        rest_ = rest_.subspan(static_cast<std::size_t>(count));
        return taken;
    }
    [[nodiscard]] bool done() const { return rest_.empty(); }

private:
    std::span<const Hash32> rest_;
};

Expected<Hash32> open_state(std::span<const Hash32> roots, std::uint64_t first, std::uint64_t slot_count,
                            Openings& siblings) {
    QUERN_TRY(const auto beside, siblings.take(crypto::merkle_range_sibling_count(first, roots.size(), slot_count)));
    QUERN_TRY(const Hash32 top, crypto::merkle_top_from_range(roots, first, slot_count, beside));
    return crypto::list_id(MerkleTag::state, slot_count, top);
}

}  // namespace

Status check_imports(const TaskImports& imports) {
    if (imports.list.size() > kMaxImports) return fail(kBad, std::to_string(imports.list.size()) + " imports");
    for (std::size_t i = 0; i < imports.list.size(); ++i) {
        const TaskImport& import = imports.list[i];
        if (i > 0 && std::tie(imports.list[i - 1].task, imports.list[i - 1].seat) >= std::tie(import.task, import.seat))
            return fail(kBad, "imports ascend by task and seat");
        QUERN_CHECK(check_ranges(import));
    }
    return check_apart(imports);
}

Expected<std::vector<Hash32>> open_imports(const TaskSubmitPayload& spec, std::uint64_t slot_count) {
    const TaskImports& imports = spec.imports;
    QUERN_CHECK(check_imports(imports));
    Openings roots(imports.roots);
    Openings siblings(imports.siblings);
    std::vector<Hash32> states;
    for (const TaskImport& import : imports.list) {
        std::vector<Hash32> led;  // by range
        for (const ImportedSlots& range : import.slots) {
            if (std::uint64_t{range.here} + range.count > slot_count)
                return fail(kBad, "slots that the first state has not");
            QUERN_TRY(const auto slots, roots.take(range.count));
            QUERN_TRY(const Hash32 there, open_state(slots, range.there, import.slot_count, siblings));
            QUERN_TRY(const Hash32 here, open_state(slots, range.here, slot_count, siblings));
            if (here != spec.init_root)
                return fail(kMismatch, "slot " + std::to_string(range.here) + " of the first state is another");
            led.push_back(there);
        }
        if (std::adjacent_find(led.begin(), led.end(), std::not_equal_to<>()) != led.end())
            return fail(kMismatch, "slots of several states of task " + std::to_string(import.task));
        states.push_back(led.front());
    }
    if (!roots.done() || !siblings.done()) return fail(kBad, "openings are left over");
    return states;
}

void set_imports(TaskSubmitPayload& spec, std::span<const ImportSource> sources, std::span<const Hash32> init_slots) {
    TaskImports imports;
    const auto add = [&](std::span<const Hash32> slots, std::uint64_t first, std::uint64_t count) {
        const std::vector<Hash32> beside = crypto::merkle_range_siblings(slots, first, count);
        imports.siblings.insert(imports.siblings.end(), beside.begin(), beside.end());
    };
    for (const ImportSource& source : sources) {
        imports.list.push_back(
            {source.task, source.seat, static_cast<std::uint32_t>(source.slot_roots.size()), source.slots});
        for (const ImportedSlots& range : source.slots) {
            const auto first = init_slots.begin() + range.here;
            imports.roots.insert(imports.roots.end(), first, first + range.count);
            add(source.slot_roots, range.there, range.count);
            add(init_slots, range.here, range.count);
        }
    }
    spec.imports = std::move(imports);
}

}  // namespace quern::compute::core
