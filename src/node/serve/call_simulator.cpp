#include "node/serve/call_simulator.h"

#include "chain/exec/handlers/context.h"
#include "chain/exec/result/failures.h"
#include "chain/exec/result/refusals.h"
#include "chain/exec/system/market_time.h"
#include "chain/exec/tx_executor.h"
#include "node/chain/activity_index.h"
#include "node/chain/market_events.h"
#include "node/serve/reader.h"

namespace quern::node {
namespace {

namespace api = chain::api;
namespace exec = chain::exec;

exec::BlockContext next_block(const chain::params::ChainParams& params, const Snapshot& snapshot) {
    const auto& header = snapshot.head->block.header;
    exec::BlockContext context;
    context.number = header.number + 1;
    context.elapsed_ms = std::max<std::uint64_t>(params.min_block_ms, 1);
    context.timestamp_ms = header.consensus.timestamp_ms + context.elapsed_ms;
    context.beneficiary = header.beneficiary;
    context.gas_limit = params.block_gas_limit;
    context.base_fee = snapshot.next_base_fee;
    context.beacon = header.consensus.beacon;  // the next one is not known; any value does for a trial
    return context;
}

// A native transaction's kind has no call data form that costs the same, so it runs as what it is.
Expected<exec::Outcome> run_native(const chain::params::ChainParams& params, chain::state::Overlay& overlay,
                                   const exec::BlockContext& context, const api::SimulatedCall& call,
                                   std::uint64_t gas) {
    QUERN_CHECK(chain::types::active_kind(*call.native_kind));
    chain::types::Transaction tx;
    tx.type = chain::types::TxType::native;
    tx.native_kind = *call.native_kind;
    tx.data = call.data;
    exec::Message message;
    message.from = call.from;
    message.data = call.data;
    message.native_kind = static_cast<chain::types::NativeKind>(*call.native_kind);
    message.gas = gas;
    message.gas_charged = exec::due_gas(tx);
    message.gas_floor = chain::types::floor_gas(tx);
    if (gas < std::max(message.gas_charged, message.gas_floor)) return fail(exec::kIntrinsicGas.text);
    overlay.store(chain::types::object_key(chain::types::ObjectPrefix::beacon, context.number),
                  chain::types::BeaconObject{context.beacon});
    QUERN_CHECK(exec::system::advance_market_time(params, overlay, context.elapsed_ms));
    return exec::run_message(params, overlay, context.number, message, nullptr);
}

// Zero of a task that is not there.
Expected<Uint256> escrow_of(const chain::state::Overlay& state, std::uint64_t task) {
    QUERN_TRY(const auto found, state.load<chain::types::Task>(task));
    return found ? found->escrow : Uint256();
}

// The task that a trial is about: as its events name it, or its payload, or the dispute that it moves in.
Expected<std::optional<std::uint64_t>> task_of_trial(const chain::state::Overlay& state,
                                                     const std::vector<api::ToldEvent>& events,
                                                     const chain::types::abi::NativeCall& call) {
    for (const auto& event : events)
        if (event.task) return event.task;
    if (const auto task = task_named_by(call)) return task;
    const auto dispute = dispute_named_by(call);
    if (!dispute) return std::optional<std::uint64_t>();
    QUERN_TRY(const auto found, state.load<chain::types::Dispute>(*dispute));
    return found ? std::optional(found->claim.task) : std::nullopt;
}

}  // namespace

Expected<api::SimulationResult> CallSimulator::run(const api::SimulatedCall& call, const Snapshot& snapshot,
                                                   std::uint64_t gas) const {
    const auto& params = setup_.genesis.params;
    const auto context = next_block(params, snapshot);
    chain::state::Overlay overlay(snapshot.state);
    if (call.native_kind) {
        QUERN_TRY(auto outcome, run_native(params, overlay, context, call, gas));
        return api::SimulationResult{outcome.success, outcome.gas_used, std::move(outcome.output),
                                     outcome.success ? std::string() : outcome.error.to_string()};
    }

    exec::CallRequest request{call.from, call.to, call.value, call.data, gas, call.gas_price, call.access_list};
    QUERN_TRY(auto result, exec::simulate(params, overlay, context, request));
    return api::SimulationResult{result.success, result.gas_used, std::move(result.output), std::move(result.failure)};
}

Expected<api::NativeTrial> CallSimulator::try_native(const api::SimulatedCall& call,
                                                     const api::BlockSelector& at) const {
    const auto& params = setup_.genesis.params;
    QUERN_TRY(const auto* kind, chain::types::active_kind(call.native_kind.value_or(0)));
    QUERN_TRY(const auto snapshot, select_snapshot(setup_, board_, at));
    api::NativeTrial trial;
    QUERN_TRY(trial.before, holdings_of(snapshot->state, call.from));
    chain::state::Overlay overlay(snapshot->state);
    const std::uint64_t gas = std::min(call.gas.value_or(params.block_gas_limit), params.block_gas_limit);
    QUERN_TRY(const auto outcome, run_native(params, overlay, next_block(params, *snapshot), call, gas));
    trial.success = outcome.success;
    trial.gas_used = outcome.gas_used;
    if (!outcome.success) {
        trial.failure = outcome.error.name;
        trial.detail = outcome.error.detail;
    }
    for (const auto& log : overlay.take_logs())
        if (const auto event = read_market_event(log)) trial.events.push_back(tell(*event));
    QUERN_TRY(trial.after, holdings_of(overlay, call.from));
    QUERN_TRY(trial.task, task_of_trial(overlay, trial.events, {kind->kind, call.data}));
    if (trial.task) {
        const chain::state::Overlay before(snapshot->state);
        QUERN_TRY(trial.escrow_before, escrow_of(before, *trial.task));
        QUERN_TRY(trial.escrow_after, escrow_of(overlay, *trial.task));
    }
    QUERN_CHECK(snapshot->state.status());
    return trial;
}

Expected<api::SimulationResult> CallSimulator::call(const api::SimulatedCall& call,
                                                    const api::BlockSelector& at) const {
    QUERN_TRY(const auto snapshot, select_snapshot(setup_, board_, at));
    const std::uint64_t limit = setup_.genesis.params.block_gas_limit;
    return run(call, *snapshot, std::min(call.gas.value_or(limit), limit));
}

Expected<std::uint64_t> CallSimulator::estimate_gas(const api::SimulatedCall& call,
                                                    const api::BlockSelector& at) const {
    QUERN_TRY(const auto snapshot, select_snapshot(setup_, board_, at));
    std::uint64_t limit =
        std::min(call.gas.value_or(setup_.genesis.params.block_gas_limit), setup_.genesis.params.block_gas_limit);
    if (!call.gas_price.is_zero()) {
        // No more gas than the sender can pay for.
        const auto account = snapshot->state.account(call.from).value_or(chain::state::empty_account());
        const auto left = checked_sub(account.balance, call.value);
        if (!left) return fail(chain::exec::kInsufficientForTransfer);
        const Uint256 affordable = *left / call.gas_price;
        if (affordable < Uint256(limit)) limit = affordable.low_u64();
    }
    QUERN_TRY(const auto most, run(call, *snapshot, limit));
    if (!most.success) {
        if (most.failure == chain::exec::kOutOfGas)
            return fail("gas required exceeds allowance", std::to_string(limit));
        if (most.failure == chain::exec::kInsufficientForTransfer) return fail(chain::exec::kInsufficientForTransfer);
        return fail("execution reverted", most.failure);
    }
    // What was used is nearly always enough; else the least sufficient limit lies between it and the most.
    std::uint64_t enough = limit;
    std::uint64_t too_little = most.gas_used == 0 ? 0 : most.gas_used - 1;
    const auto succeeds = [&](std::uint64_t gas) {
        const auto result = run(call, *snapshot, gas);
        return result && result->success;
    };
    if (succeeds(most.gas_used)) return most.gas_used;
    while (enough - too_little > 1) {
        const std::uint64_t middle = too_little + (enough - too_little) / 2;
        (succeeds(middle) ? enough : too_little) = middle;
    }
    return enough;
}

}  // namespace quern::node
