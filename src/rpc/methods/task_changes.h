// What of the live tasks changed since a block, for task_changes: of the records only the fields that differ, so that
// who follows a thousand tasks reads little with each block. Read from the states' own changes, not from events:
// nothing that changes without one is missed. Pure; thread-safe.
#pragma once

#include "chain/api/chain_reader.h"
#include "rpc/method.h"

namespace quern::rpc::methods {

// Of what was there before and of what is there now, each.
inline constexpr chain::api::ChangeLimits kMostChanges{4'096, std::size_t{8} << 20};

// tasks: id with the fields that changed of `task` and of its present `claim`, whose `reports` are told all together
// when one has changed; ended: ids; disputes: ids. Null: these
// are more than kMostChanges, or that block lies too far back. The fields of a record are those that any block since
// has changed, so that they make one of any block since the present one; all of a record that was not there, or that
// was not the present claim all the time.
[[nodiscard]] Result changes_of_tasks(const chain::api::StateView& state, std::uint64_t since, const Call& call);

}  // namespace quern::rpc::methods
