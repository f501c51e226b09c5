#include "chain/consensus/driver.h"

#include <deque>

namespace quern::chain::consensus {

Expected<std::optional<Event>> Driver::perform(Action& action) {
    if (auto* build = std::get_if<action::Build>(&action)) {
        QUERN_TRY(auto built, producer_.build_block(build->request));
        return std::optional<Event>(event::Built{std::move(built)});
    }
    if (auto* store = std::get_if<action::Store>(&action)) {
        QUERN_CHECK(journal_.store(store->proposal));
        return std::optional<Event>(event::Stored{});
    }
    if (auto* validate = std::get_if<action::Validate>(&action)) {
        QUERN_CHECK(producer_.validate_block(validate->block));
        return std::optional<Event>(event::Validated{});
    }
    if (auto* commit = std::get_if<action::Commit>(&action)) {
        QUERN_TRY(auto tip, producer_.commit(commit->block, commit->hash, commit->certificate));
        return std::optional<Event>(event::Committed{tip});
    }
    if (auto* wake = std::get_if<action::WakeAt>(&action)) {
        wake_at_ = wake->monotonic_ms;
        return std::optional<Event>();
    }
    return fail(std::get<action::Halt>(action).error);
}

Status Driver::handle(Event event) {
    std::deque<Event> events;
    events.push_back(std::move(event));
    while (!events.empty()) {
        const Event next = std::move(events.front());
        events.pop_front();
        if (std::holds_alternative<event::TimePassed>(next)) wake_at_.reset();
        for (auto& action : engine_.step(next, now())) {
            QUERN_TRY(auto answer, perform(action));
            if (answer) events.push_back(std::move(*answer));
        }
    }
    return {};
}

}  // namespace quern::chain::consensus
