// What a submitter is told of a task whose limits profilers find (doc/tolerance.md, "Profilers"): whether there are
// enough of them before anything is paid, how far they are, what they have found, and what to do where they fail. Used
// by quern-train. Plain values; numbers here are shown and decide nothing on the chain.
#pragma once

#include <optional>
#include <string>

#include "chain/types/native_objects.h"
#include "compute/client/options.h"

namespace quern::compute::client {

// Verifiers with this much of their bonds free, the submitter not among them, in an answer of stake_roles. Error:
// train.bad_answer.
[[nodiscard]] Expected<std::size_t> count_able(const json::Value& bonds, const Uint256& bond,
                                               const chain::types::Address& submitter);
// Errors: train.too_few_profilers (fewer than must agree: the task would end without limits).
[[nodiscard]] Status check_able(const chain::types::ProfilingTerms& terms, std::size_t able, const Uint256& bond);
// Event "verifiers": who can be drawn, and for what.
[[nodiscard]] Event able_event(const chain::types::ProfilingTerms& terms, std::size_t able, const Uint256& bond,
                               const Uint256& fee);

// Event "profilers", of a task that is being profiled: how many are drawn, have committed and have shown what they
// measured, and the seconds left where the market time is known.
[[nodiscard]] Event profilers_event(const chain::types::Task& task, std::optional<std::uint64_t> market_ms);
// Event "limits", of what they have found; nullopt: nothing yet.
[[nodiscard]] std::optional<Event> found_limits_event(const chain::types::Task& task);
// What a submitter may do about a task that ended without limits, ": ..." behind the reason; empty of other reasons.
[[nodiscard]] std::string advice_without_limits(const chain::types::Task& task);

}  // namespace quern::compute::client
