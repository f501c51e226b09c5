// What a task's first state takes from the last states of settled tasks, slot by slot: equal roots, opened under both
// states' roots, so that the chain knows it when the task is submitted and no dispute has to ask (doc/market.md,
// "Stacked proofs"). Used by the chain (check), wallets (make) and RPC. Pure functions; thread-safe.
#pragma once

#include <span>

#include "chain/types/native_tx.h"

namespace quern::compute::core {

inline constexpr std::size_t kMaxImports = 8;
inline constexpr std::size_t kMaxImportRanges = 64;  // of all imports together: proof records keep them for ever

// The form of the list, whatever opens it. Error task.bad_imports: more than kMaxImports or kMaxImportRanges; not
// ascending by task and seat; an import without ranges, ranges that do not ascend in S_0, are empty, lie outside the
// earlier state or have a slot in common.
[[nodiscard]] Status check_imports(const chain::types::TaskImports& imports);

// The state roots that the payload's openings lead to, by import: the chain compares them with the proof records'.
// `slot_count` is that of the plan's state. Errors: those of check_imports; task.bad_imports also where a range lies
// outside S_0 and where openings are missing or left over; task.import_mismatch: one does not lead to init_root, or two
// ranges of an import not to the same state.
[[nodiscard]] Expected<std::vector<Hash32>> open_imports(const chain::types::TaskSubmitPayload& spec,
                                                         std::uint64_t slot_count);

// An earlier state as its owner knows it, and which of its slots are S_0's.
struct ImportSource {
    std::uint64_t task = 0;
    std::uint16_t seat = 0;
    std::vector<Hash32> slot_roots;
    std::vector<chain::types::ImportedSlots> slots;
};
// Sets imports and openings of the payload. The ranges lie inside both states.
void set_imports(chain::types::TaskSubmitPayload& spec, std::span<const ImportSource> sources,
                 std::span<const Hash32> init_slots);

}  // namespace quern::compute::core
