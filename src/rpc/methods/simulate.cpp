// task_simulate: a native transaction before it is signed.
#include <algorithm>
#include <map>

#include "chain/types/native_kinds.h"
#include "chain/types/transaction.h"
#include "rpc/methods/backend.h"
#include "rpc/methods/ledger_json.h"
#include "rpc/methods/market_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
namespace api = chain::api;

constexpr std::uint64_t kGasMarginPercent = 150;  // of what it used: the state may be another when it comes to a block

// The payload's RLP from its JSON, or as it is. Errors: json.*, value.*.
Expected<Bytes> read_payload(const types::NativeKindInfo& kind, const json::Value& payload) {
    if (payload.is_string()) return read_data(payload);
    return types::visit_kind(kind.kind, [&](auto, auto tag) -> Expected<Bytes> {
        using Payload = typename decltype(tag)::Payload;
        QUERN_TRY(const auto record, types::record_from_json<Payload>(payload, types::ExtraMembers::refuse));
        return types::encode_record(record);
    });
}

std::string difference(const Uint256& before, const Uint256& after) {
    Balance change;
    change.add(after);
    change.take(before);
    return change.grains();
}

// Of each role that held something before or holds something after it.
json::Value bond_changes(const api::Holdings& before, const api::Holdings& after) {
    std::map<types::Role, std::pair<api::BondHoldings, api::BondHoldings>> roles;
    for (const auto& bond : before.bonds) roles[bond.role].first = bond;
    for (const auto& bond : after.bonds) roles[bond.role].second = bond;
    json::Array changes;
    for (const auto& [role, pair] : roles) {
        const auto& [was, is] = pair;
        if (was.bonded == is.bonded && was.locked == is.locked && was.unbonding == is.unbonding) continue;
        changes.push_back(json::Value::object({{"role", types::to_string(role)},
                                               {"bonded", difference(was.bonded, is.bonded)},
                                               {"locked", difference(was.locked, is.locked)},
                                               {"unbonding", difference(was.unbonding, is.unbonding)}}));
    }
    return changes;
}

json::Value escrow_json(const api::NativeTrial& trial) {
    if (!trial.task) return {};
    return json::Value::object({{"task", *trial.task},
                                {"before", quantity(trial.escrow_before)},
                                {"after", quantity(trial.escrow_after)},
                                {"change", difference(trial.escrow_before, trial.escrow_after)}});
}

json::Value gas_json(const Backend& backend, const api::NativeTrial& trial) {
    if (!trial.success) return {};
    return quantity(std::min(trial.gas_used * kGasMarginPercent / 100, backend.chain->block_gas_limit()));
}

Result simulate(const Backend& backend, const Call& call) {
    const auto* kind = types::find_kind(call.text(1));
    if (kind == nullptr) return rpc_fail(kInvalidParams, "native.unknown_kind: " + std::string(call.text(1)));
    auto payload = read_payload(*kind, call.value(2));
    if (!payload) return rpc_fail(payload.error(), kInvalidParams);
    if (payload->size() > types::kMaxTransactionBytes)
        return rpc_fail(kInvalidParams, "tx.too_large: " + std::to_string(payload->size()) + " bytes of payload");
    api::SimulatedCall trial_call;
    trial_call.from = call.address(0);
    trial_call.native_kind = static_cast<std::uint8_t>(kind->kind);
    trial_call.data = *payload;
    if (call.has(4)) trial_call.gas = std::min(call.quantity(4), Uint256(backend.chain->block_gas_limit())).low_u64();
    QUERN_RPC_TRY(const auto trial, backend.simulator->try_native(trial_call, call.block(3)));
    json::Array events;
    for (const api::ToldEvent& event : trial.events) {
        json::Value told = json::Value::object();
        set_event(told, event);
        events.push_back(std::move(told));
    }
    const Uint256 fee = Uint256(trial.gas_used) * backend.chain->next_base_fee();
    json::Value result = json::Value::object({{"success", trial.success},
                                              {"failure", trial.success ? json::Value() : json::Value(trial.failure)},
                                              {"detail", trial.success ? json::Value() : json::Value(trial.detail)},
                                              {"gasUsed", quantity(trial.gas_used)},
                                              {"gasSuggested", gas_json(backend, trial)},
                                              {"baseFee", quantity(fee)},
                                              {"baseFeeQrn", in_qrn(fee)},
                                              {"affordable", trial.after.balance >= fee},
                                              {"events", std::move(events)},
                                              {"before", holdings_json(trial.before)},
                                              {"after", holdings_json(trial.after)},
                                              {"balanceChange", difference(trial.before.balance, trial.after.balance)},
                                              {"bondChanges", bond_changes(trial.before, trial.after)},
                                              {"escrow", escrow_json(trial)}});
    if (kind->kind != types::NativeKind::task_submit) return result;
    const auto spec = types::decode_record<types::TaskSubmitPayload>(*payload);
    const auto price = spec ? backend.market->estimate_task(*spec) : Expected<api::TaskEstimate>(fail(spec.error()));
    result.set("price", price ? estimate_json(*price) : json::Value());
    return result;
}

}  // namespace

Status add_simulate_methods(Registry& registry, const Backend& backend) {
    return registry.add(
        {"task_simulate",
         "What a native transaction would do if it were in the next block, before it is signed: whether it succeeds, "
         "what it emits and moves, its gas.",
         {{"from", Kind::address, true, "who would send it"},
          {"kind", Kind::string, true, "its kind by name: task_submit, task_bid, bond, tick, ..."},
          {"payload", Kind::any, true, "its fields as quern-wallet native takes them, or its RLP as data"},
          {"block", Kind::block, false, "on whose state; latest when left out"},
          {"gas", Kind::quantity, false, "its gas limit; a block's when left out, or above that"}},
         {"object",
          "success; failure: the error's name as the receipt would begin with it, detail (both null when it "
          "succeeds); gasUsed; gasSuggested: half more, null when it fails; baseFee, baseFeeQrn: what gasUsed costs "
          "at the next block's base fee, a tip not counted; affordable: whether what the sender has left pays that; "
          "events: event, task, dispute, fields; before, after: "
          "balance and bonds (role, bonded, locked, unbonding) of the sender, whose fee is not taken; balanceChange, "
          "bondChanges: their differences, decimal, negative ones with a sign; escrow: task, before, after, change of "
          "the task that it is about, null when it is about none. Of task_submit also price: as in task_estimate, null "
          "when the specification is not valid"},
         {{kInvalidParams, "native.unknown_kind"},
          {kInvalidParams, "json.*, value.*: the payload lacks a field or has a wrong one"},
          {kInvalidParams, "tx.too_large: a payload that no transaction can have"},
          {kServerError, "chain.state_unavailable: the state of that block is not kept"}},
         {},
         [backend](const Call& call) -> Result { return simulate(backend, call); }});
}

}  // namespace quern::rpc::methods
