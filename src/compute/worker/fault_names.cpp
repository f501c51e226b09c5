// Apart from what the faults do, so that a build without the option -test-fault links none of these names.
#include <charconv>

#include "compute/worker/faults.h"

namespace quern::compute::worker {
namespace {

constexpr std::pair<std::string_view, Fault> kFaultNames[] = {
    {"skip_work", Fault::skip_work},
    {"wrong_update", Fault::wrong_update},
    {"large_update", Fault::large_update},
    {"flip_element", Fault::flip_element},
    {"wrong_slot", Fault::wrong_slot},
    {"wrong_init", Fault::wrong_init},
    {"easy_data", Fault::easy_data},
    {"data_order", Fault::data_order},
    {"altered_rate", Fault::altered_rate},
    {"tiny_updates", Fault::tiny_updates},
    {"stale_momentum", Fault::stale_momentum},
    {"every_other_step", Fault::every_other_step},
    {"interpolated", Fault::interpolated},
    {"pass_without_work", Fault::pass_without_work},
    {"false_accusation", Fault::false_accusation},
    {"other_flip", Fault::other_flip},
    {"wrong_choice", Fault::wrong_choice},
    {"silent_opening", Fault::silent_opening},
    {"bad_custody", Fault::bad_custody},
    {"wrong_largest", Fault::wrong_largest},
};

}  // namespace

std::string known_faults() {
    std::string names;
    for (const auto& [name, fault] : kFaultNames) names += (names.empty() ? "" : ", ") + std::string(name);
    return names + " (each with an optional @STEP)";
}

Expected<FaultPlan> parse_fault(std::string_view text) {
    FaultPlan plan;
    std::string_view name = text;
    if (const auto at = text.find('@'); at != std::string_view::npos) {
        name = text.substr(0, at);
        const std::string_view number = text.substr(at + 1);
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), plan.step);
        if (error != std::errc{} || end != number.data() + number.size() || plan.step == 0)
            return fail("fault.bad_step", std::string(number));
    }
    for (const auto& [known, fault] : kFaultNames)
        if (known == name) {
            plan.fault = fault;
            return plan;
        }
    return fail("fault.unknown", std::string(name) + "; known: " + known_faults());
}

}  // namespace quern::compute::worker
