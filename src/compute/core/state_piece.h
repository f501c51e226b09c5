// A piece of a state, one tile of one slot, with its way up to the state's root: what shows that somebody still has a
// settled task's last state (doc/market.md, "The held share"). The slot's root binds the number of its tiles, so that
// the chain need not know shapes: a question names a tile modulo that number. Used by execution and workers. Pure
// functions; thread-safe.
#pragma once

#include <span>

#include "base/expected.h"
#include "chain/types/native_tx.h"

namespace quern::compute::core {

inline constexpr std::uint64_t kMaxPieceTiles = std::uint64_t{1} << 40;  // of a slot: more than any program has

// Of a state of so many slots with this root. Errors: data.bad_answer.
[[nodiscard]] Status check_piece(const Hash32& state_root, std::uint64_t slot_count, std::uint32_t slot,
                                 std::uint64_t tile, const chain::types::DataAnswerPayload& answer);
// `tile_hashes` are the slot's, `slot_roots` the state's; `bytes` are those of the asked tile, modulo their number.
[[nodiscard]] chain::types::DataAnswerPayload make_piece(std::uint64_t task, std::span<const Hash32> slot_roots,
                                                         std::uint32_t slot, std::span<const Hash32> tile_hashes,
                                                         std::uint64_t tile, Bytes bytes);

}  // namespace quern::compute::core
