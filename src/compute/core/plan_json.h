// A plan's body as JSON: [item...], an item being the number of a program or [count, body]. Used by wallets and the
// compiler. Pure; thread-safe.
#pragma once

#include <vector>

#include "base/json.h"
#include "compute/core/task_plan.h"

namespace quern::compute::core {

[[nodiscard]] json::Value json_of(const std::vector<PlanItem>& body);
// Errors: json.* (what is no array or no number), plan.too_deep, plan.bad_program, plan.bad_body, plan.bad_count. The
// rest is TaskPlan::make's to check.
[[nodiscard]] Expected<std::vector<PlanItem>> body_of(const json::Value& json);

}  // namespace quern::compute::core
