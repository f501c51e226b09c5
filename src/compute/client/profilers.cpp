#include "compute/client/profilers.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "compute/client/progress.h"
#include "compute/core/profiling.h"
#include "compute/tolerance/limits.h"
#include "wallet/amount.h"

namespace quern::compute::client {
namespace {

namespace core = compute::core;
namespace types = chain::types;
using wallet::in_qrn;

constexpr std::uint64_t kMsOfSecond = 1'000;

double number(std::uint32_t word) { return std::bit_cast<float>(word); }

std::string short_number(std::uint32_t word) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", number(word));
    return text;
}

std::string must_agree(const types::ProfilingTerms& terms) {
    return std::to_string(core::agreeing_profilers(terms.profilers)) + " of " + std::to_string(terms.profilers) +
           " profilers must agree";
}

Expected<std::size_t> count(const json::Value& bonds, const Uint256& bond, const types::Address& submitter) {
    std::size_t able = 0;
    QUERN_TRY(const auto items, bonds.as_array());
    for (const json::Value& each : items) {
        const auto amount = [&](std::string_view name) -> Expected<Uint256> {
            QUERN_TRY(const std::string_view text, each.get_string(name));
            return Uint256::from_hex_quantity(text);
        };
        QUERN_TRY(const std::string_view address, each.get_string("address"));
        QUERN_TRY(const types::Address owner, fixed_from_hex<types::Address::kSize>(address));
        QUERN_TRY(const Uint256 weight, amount("weight"));
        QUERN_TRY(const Uint256 free, amount("free"));
        if (owner != submitter && std::min(weight, free) >= bond) ++able;
    }
    return able;
}

}  // namespace

Expected<std::size_t> count_able(const json::Value& bonds, const Uint256& bond, const types::Address& submitter) {
    auto able = count(bonds, bond, submitter);
    if (!able) return fail("train.bad_answer", "stake_roles: " + able.error().to_string());
    return able;
}

Status check_able(const types::ProfilingTerms& terms, std::size_t able, const Uint256& bond) {
    if (able >= core::agreeing_profilers(terms.profilers)) return {};
    return fail("train.too_few_profilers",
                must_agree(terms) + ", and " + std::to_string(able) + " verifiers have " + in_qrn(bond) +
                    " QRN of their bonds free for it, which follows from the fee: ask for fewer, pay less (--budget, "
                    "--price-cap), or leave out --profilers, so that this machine finds the limits");
}

Event able_event(const types::ProfilingTerms& terms, std::size_t able, const Uint256& bond, const Uint256& fee) {
    return {"verifiers",
            json::Value::object({{"able", std::uint64_t{able}},
                                 {"asked", std::uint64_t{terms.profilers}},
                                 {"needed", std::uint64_t{core::agreeing_profilers(terms.profilers)}},
                                 {"bond", bond.to_decimal()}}),
            must_agree(terms) + " on the first " + std::to_string(terms.segments) + " segments within " +
                program::clock_text(terms.window_s) + ", each for " + in_qrn(fee) + " QRN; " + std::to_string(able) +
                " verifiers can be drawn"};
}

Event profilers_event(const types::Task& task, std::optional<std::uint64_t> market_ms) {
    const auto& profilers = task.profiling.profilers;
    const auto having = [&](const auto& has) {
        return static_cast<std::uint64_t>(std::count_if(profilers.begin(), profilers.end(), has));
    };
    const std::uint64_t committed = having([](const auto& each) { return !each.commitment.is_zero(); });
    const std::uint64_t shown = having([](const auto& each) { return !each.replay.is_zero(); });
    std::optional<std::uint64_t> left;
    if (market_ms) left = task.deadline > *market_ms ? (task.deadline - *market_ms) / kMsOfSecond : 0;
    std::string text = "profiling: ";
    if (profilers.empty()) {
        text += std::to_string(task.spec.profiling.profilers) + " verifiers are to be drawn";
    } else {
        text += std::to_string(task.profiling.revealing ? shown : committed) + " of " +
                std::to_string(profilers.size()) +
                (task.profiling.revealing ? " have shown what they measured" : " have measured") + ", " +
                std::to_string(core::agreeing_profilers(task.spec.profiling.profilers)) + " must agree";
        if (left) text += "; " + program::clock_text(*left) + " left";
    }
    return {"profilers",
            json::Value::object({{"task", task.id},
                                 {"drawn", std::uint64_t{profilers.size()}},
                                 {"committed", committed},
                                 {"shown", shown},
                                 {"needed", std::uint64_t{core::agreeing_profilers(task.spec.profiling.profilers)}},
                                 {"leftS", left ? json::Value(*left) : json::Value()}}),
            std::move(text), true};
}

std::optional<Event> found_limits_event(const types::Task& task) {
    if (task.profiling.limits.empty()) return std::nullopt;
    const auto limits = tolerance::decode_limits(task.profiling.limits);
    if (!limits) return std::nullopt;
    return Event{"limits",
                 json::Value::object({{"task", task.id},
                                      {"l2", number(limits->l2)},
                                      {"linf", number(limits->linf)},
                                      {"moments", number(limits->moments)},
                                      {"rest", number(limits->rest)},
                                      {"leastMovement", number(limits->least_movement)},
                                      {"mostMovement", number(limits->most_movement)}}),
                 "the profilers agree: a segment may be off by " + short_number(limits->l2) +
                     " of its movement, which is " + short_number(limits->least_movement) + " to " +
                     short_number(limits->most_movement)};
}

std::string advice_without_limits(const types::Task& task) {
    const types::ProfilingTerms& terms = task.spec.profiling;
    if (!core::is_profiled(task.spec)) return {};
    if (task.reason == "no_profilers")
        return ": " + must_agree(terms) + ", and fewer verifiers could be drawn: ask for fewer, or later";
    if (task.reason == "profilers_silent")
        return ": " + must_agree(terms) + ", and fewer have measured within " + program::clock_text(terms.window_s) +
               ", or shown it: a longer --profile-window, fewer --profiled, or more --profilers, since those "
               "without libtorch measure nothing";
    if (task.reason == "profiles_differ")
        return ": " + must_agree(terms) + ", and fewer have made the same replay: ask for more, or once more";
    if (task.reason == "tolerance.cap_too_low")
        return ": their backends are further off than --cap or --history-cap, which must be higher; or name parameters "
               "that are all noise by --loose";
    if (task.reason == "tolerance.not_reproducible")
        return ": what they measured has no end, or nothing moves: name parameters that are all noise by --loose";
    return {};
}

}  // namespace quern::compute::client
