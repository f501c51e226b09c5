#include <algorithm>
#include <map>
#include <tuple>

#include "chain/exec/invariants/invariants.h"
#include "chain/market/delays.h"

namespace quern::chain::exec::invariants {
namespace {

using Key = std::tuple<std::uint64_t, std::uint16_t, std::uint32_t, std::uint32_t>;
Key key_of(const types::ClaimId& id) { return {id.task, id.seat, id.stretch, id.round}; }

bool within_reach(std::uint64_t deadline, std::uint64_t latest) { return deadline != 0 && deadline <= latest; }

Status check_task(const state::Overlay& state, const types::Task& task, std::uint64_t latest) {
    const auto no_exit = [&] {
        return fail("invariant.no_exit", "task " + std::to_string(task.id) + " " + types::to_string(task.state));
    };
    const bool runs = task.state == types::TaskState::running;
    const bool waits = !runs && !types::is_final(task.state);
    if (waits ? !within_reach(task.deadline, latest) : task.deadline != 0) return no_exit();
    for (const auto& asked : task.asked)
        if (!within_reach(asked.until, latest)) return no_exit();
    if (!runs) return {};
    // Something must be left to be decided, and no more stretches have claims than may.
    bool waits_for_claim = false;
    const std::uint64_t made = task.seats.empty() ? 0 : task.seats[0].stretches;
    if (made > market::stretch_count(task) || made > task.settled + types::kMaxUnsettled) return no_exit();
    for (const types::ClaimId& id : types::unsettled_claims(task)) {
        QUERN_TRY(const auto claim, state.load<types::Claim>(id));
        if (!claim) return no_exit();
        waits_for_claim = waits_for_claim || !types::is_final(claim->state);
    }
    return waits_for_claim ? Status{} : no_exit();
}

// Whether it is one of those of the task's round that are not settled.
bool belongs_to(const types::Claim& claim, const types::Task& task) {
    const auto unsettled = types::unsettled_claims(task);
    return task.state == types::TaskState::running &&
           std::find(unsettled.begin(), unsettled.end(), claim.id) != unsettled.end();
}

Status check_claim(const state::Overlay& state, const types::Claim& claim, std::uint64_t latest) {
    const auto name = [&] {
        return "claim of task " + std::to_string(claim.id.task) + " " + types::to_string(claim.state);
    };
    if (types::is_final(claim.state)) {
        if (claim.deadline != 0 || claim.open_disputes != 0) return fail("invariant.no_exit", name());
        return {};
    }
    if (!within_reach(claim.deadline, latest)) return fail("invariant.no_exit", name());
    QUERN_TRY(const auto task, state.load<types::Task>(claim.id.task));
    if (!task || !belongs_to(claim, *task)) return fail("invariant.no_exit", name());
    std::uint32_t open = 0;
    std::vector<types::Address> playing;
    for (const std::uint64_t id : claim.disputes) {
        QUERN_TRY(const auto dispute, state.load<types::Dispute>(id));
        if (!dispute || dispute->closed_at != 0) continue;
        ++open;
        // Of each defender the oldest has begun, the others wait.
        const bool waits = std::find(playing.begin(), playing.end(), dispute->defender) != playing.end();
        if (waits != (dispute->deadline == 0)) return fail("invariant.dispute_order", name());
        if (!waits) playing.push_back(dispute->defender);
    }
    if (open != claim.open_disputes) return fail("invariant.open_disputes", name());
    return {};
}

// Of an open one the claim is to be checked, too.
Status check_dispute(const types::Dispute& dispute, std::uint64_t latest) {
    const std::string name = "dispute " + std::to_string(dispute.id);
    const bool open = dispute.closed_at == 0;
    if (dispute.deadline > latest || (!open && dispute.deadline != 0)) return fail("invariant.no_exit", name);
    return {};
}

}  // namespace

Status check_dispute_liveness(const state::Overlay& state, const params::MarketParams& params,
                              std::uint64_t market_ms) {
    const std::uint64_t latest = market::latest_deadline(params, market_ms);
    // Claims once each, however many of their disputes have changed: all disputes of a claim are looked at.
    std::map<Key, types::Claim> claims;
    std::map<Key, types::Dispute> open_disputes;
    for (const auto& [key, value] : state.changed_native()) {
        if (!value || key.empty()) continue;
        if (key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::task)) {
            QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
            QUERN_CHECK(check_task(state, task, latest));
        } else if (key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::claim)) {
            QUERN_TRY(auto claim, types::decode_record<types::Claim>(*value));
            claims.insert_or_assign(key_of(claim.id), std::move(claim));
        } else if (key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::dispute)) {
            QUERN_TRY(const auto dispute, types::decode_record<types::Dispute>(*value));
            QUERN_CHECK(check_dispute(dispute, latest));
            if (dispute.closed_at == 0) open_disputes.insert_or_assign(key_of(dispute.claim), dispute);
        }
    }
    for (const auto& [key, dispute] : open_disputes) {
        QUERN_TRY(const auto claim, state.load<types::Claim>(dispute.claim));
        if (!claim || types::is_final(claim->state))
            return fail("invariant.no_exit", "dispute " + std::to_string(dispute.id));
        claims.insert_or_assign(key, *claim);
    }
    for (const auto& [key, claim] : claims) QUERN_CHECK(check_claim(state, claim, latest));
    return {};
}

}  // namespace quern::chain::exec::invariants
