#include "rpc/methods/market_json.h"

#include <utility>

#include "chain/market/work.h"
#include "rpc/values.h"

namespace quern::rpc::methods {

namespace types = chain::types;

json::Value estimate_json(const chain::api::TaskEstimate& estimate) {
    return json::Value::object({{"steps", estimate.steps},
                                {"workPerStep", estimate.work_per_step},
                                {"commitWork", estimate.commit_work},
                                {"totalWork", quantity(estimate.total_work)},
                                {"segments", estimate.segments},
                                {"stretches", estimate.stretches},
                                {"sampledSegments", estimate.sampled_segments},
                                {"verifierWork", quantity(estimate.verifier_work)},
                                {"reward", quantity(estimate.reward)},
                                {"verifierFee", quantity(estimate.verifier_fee)},
                                {"verifierFees", quantity(estimate.verifier_fees)},
                                {"custodyFee", quantity(estimate.custody_fee)},
                                {"custodyFees", quantity(estimate.custody_fees)},
                                {"profilerFee", quantity(estimate.profiler_fee)},
                                {"profilerFees", quantity(estimate.profiler_fees)},
                                {"tax", quantity(estimate.tax)},
                                {"storageDeposit", quantity(estimate.storage_deposit)},
                                {"escrow", quantity(estimate.escrow)},
                                {"solverBond", quantity(estimate.solver_bond)},
                                {"verifierBond", quantity(estimate.verifier_bond)},
                                {"profilerBond", quantity(estimate.profiler_bond)}});
}

json::Value task_json(const TaskClaims& shown, const chain::api::MarketGuide& guide) {
    const auto json_of = [&](const ShownClaim& each) {
        return each.claim.state == types::ClaimState::none ? json::Value() : claim_json(shown.task, each);
    };
    json::Value object = types::to_json(shown.task);
    object.set("stateName", types::to_string(shown.task.state));
    object.set("final", types::is_final(shown.task.state));
    object.set("heldUntil", shown.task.held.is_zero() ? json::Value() : json::Value(guide.retention_end(shown.task)));
    object.set("claim", json_of(shown.claim));
    object.set("nextClaim", json_of(shown.next));
    return object;
}

json::Value reports_json(const Reports& reports) {
    json::Array list;
    for (const types::VerifierReport& report : reports) list.push_back(types::to_json(report));
    return list;
}

json::Value custody_json(const std::optional<types::Custody>& custody) {
    return custody ? types::to_json(*custody) : json::Value();
}

json::Value claim_json(const types::Task& task, const ShownClaim& shown) {
    const auto& claim = shown.claim;
    const auto stretch = chain::market::stretch_of(task, claim.id.stretch);
    const bool has_loss = claim.step > stretch.before;
    json::Value object = types::to_json(claim);
    object.set("reports", reports_json(shown.reports));
    object.set("custody", custody_json(shown.custody));
    object.set("firstStep", stretch.before + 1);
    object.set("lastStep", stretch.last());
    object.set("stateName", types::to_string(claim.state));
    object.set("final", types::is_final(claim.state));
    object.set("firstLossValue", has_loss ? json::Value(f32_value(claim.first_loss)) : json::Value());
    object.set("lossValue", has_loss ? json::Value(f32_value(claim.loss)) : json::Value());
    return object;
}

Expected<ShownClaim> with_reports(const chain::api::StateView& state, types::Claim claim) {
    ShownClaim shown{std::move(claim), {}, {}};
    for (std::uint8_t place = 0; place < shown.claim.drawn; ++place) {
        QUERN_TRY(auto report, read_object<types::VerifierReport>(state, shown.claim.id, place));
        if (!report) return fault("store.corrupt", "a claim lacks a report");
        shown.reports.push_back(std::move(*report));
    }
    QUERN_TRY(shown.custody, read_object<types::Custody>(state, shown.claim.id));
    return shown;
}

Expected<TaskClaims> with_claims(const chain::api::StateView& state, types::Task task) {
    TaskClaims shown{std::move(task), {}, {}};
    for (const auto& [id, claim] : {std::pair(types::present_claim(shown.task), &shown.claim),
                                    std::pair(types::next_claim(shown.task), &shown.next)}) {
        if (!id) continue;
        QUERN_TRY(auto found, read_object<types::Claim>(state, *id));
        if (!found) continue;
        QUERN_TRY(*claim, with_reports(state, std::move(*found)));
    }
    return shown;
}

json::Value role_bond_json(const types::RoleBond& bond) {
    json::Value object = types::to_json(bond);
    object.set("roleName", types::to_string(bond.role));
    object.set("free", checked_sub(bond.bonded, bond.locked).value_or(Uint256()).to_hex_quantity());
    return object;
}

std::optional<types::Role> role_from(const json::Value& value) {
    for (const types::Role role : types::kRoles)
        if (value == json::Value(types::to_string(role)) || value == json::Value(static_cast<std::uint64_t>(role)))
            return role;
    return std::nullopt;
}

}  // namespace quern::rpc::methods
