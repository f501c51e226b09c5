#include "compute/core/plan_json.h"

#include <string>
#include <utility>

namespace quern::compute::core {
namespace {

Expected<std::vector<PlanItem>> body_at(const json::Value& json, unsigned depth) {
    if (depth > kMaxPlanDepth) return fail("plan.too_deep", "at most 4 bodies in each other");
    QUERN_TRY(const auto items, json.as_array());
    std::vector<PlanItem> body;
    for (const json::Value& item : items) {
        PlanItem& made = body.emplace_back();
        if (!item.is_array()) {
            QUERN_TRY(const std::uint64_t program, item.as_u64());
            if (program >= kMaxPlanPrograms) return fail("plan.bad_program", std::to_string(program));
            made.program = static_cast<std::uint32_t>(program);
            continue;
        }
        if (item.size() != 2) return fail("plan.bad_body", "a repeat is [count, body]");
        QUERN_TRY(made.count, item[0].as_u64());
        if (made.count < 2) return fail("plan.bad_count", "a repeat repeats");
        QUERN_TRY(made.body, body_at(item[1], depth + 1));
    }
    return body;
}

}  // namespace

json::Value json_of(const std::vector<PlanItem>& body) {
    json::Value items = json::Value::array();
    for (const PlanItem& item : body) {
        if (item.count == 1) {
            items.push(std::uint64_t{item.program});
            continue;
        }
        json::Value repeat = json::Value::array();
        repeat.push(item.count);
        repeat.push(json_of(item.body));
        items.push(std::move(repeat));
    }
    return items;
}

Expected<std::vector<PlanItem>> body_of(const json::Value& json) { return body_at(json, 1); }

}  // namespace quern::compute::core
