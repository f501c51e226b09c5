#include "rpc/methods/state_filter.h"

namespace quern::rpc::methods {

namespace types = chain::types;
using types::TaskState;

bool StateFilter::admits(TaskState candidate) const {
    switch (kind) {
        case Kind::live:
            return !types::is_final(candidate);
        case Kind::final:
            return types::is_final(candidate);
        case Kind::one:
            return candidate == state;
        case Kind::all:
            break;
    }
    return true;
}

bool StateFilter::admits(const types::Task& candidate) const {
    return kind == Kind::live ? types::is_live(candidate) : admits(candidate.state);
}

std::optional<StateFilter> read_state_filter(const json::Value& value) {
    if (value == json::Value("all")) return StateFilter{};
    if (value == json::Value("live")) return StateFilter{StateFilter::Kind::live, {}};
    if (value == json::Value("final")) return StateFilter{StateFilter::Kind::final, {}};
    for (auto number = static_cast<std::uint8_t>(TaskState::open);
         number <= static_cast<std::uint8_t>(TaskState::profiling); ++number) {
        const auto state = static_cast<TaskState>(number);
        if (value == json::Value(types::to_string(state)) || value == json::Value(number))
            return StateFilter{StateFilter::Kind::one, state};
    }
    return std::nullopt;
}

}  // namespace quern::rpc::methods
