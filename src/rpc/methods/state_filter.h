// Task states as clients name them: one state, or all, live, final. Used by task_list and the tasks subscription.
// Plain values.
#pragma once

#include <optional>

#include "base/json.h"
#include "chain/types/native_objects.h"

namespace quern::rpc::methods {

struct StateFilter {
    enum class Kind : std::uint8_t { all, live, final, one } kind = Kind::all;
    chain::types::TaskState state = chain::types::TaskState::open;

    [[nodiscard]] bool admits(chain::types::TaskState candidate) const;
    // A settled task with an open question is live, and final.
    [[nodiscard]] bool admits(const chain::types::Task& candidate) const;
};

// A state's name or number, "live", "final" or "all"; nullopt for anything else.
[[nodiscard]] std::optional<StateFilter> read_state_filter(const json::Value& value);

}  // namespace quern::rpc::methods
