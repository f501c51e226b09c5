#include "chain/exec/block_executor.h"

#include <algorithm>

#include "chain/exec/fees.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/invariants/invariants.h"
#include "chain/exec/result/refusals.h"
#include "chain/exec/system/epochs.h"
#include "chain/exec/system/market_time.h"
#include "chain/exec/tx_executor.h"
#include "chain/market/shares.h"
#include "chain/types/transaction_rules.h"

namespace quern::chain::exec {
namespace {

constexpr std::uint64_t kMaxReceiptsReserved = 32'768;

// a * b, modulo 2^256 as operator* has it: what gas costs.
Uint256 times(const Uint256& a, std::uint64_t b) {
    Uint256 result;
    unsigned __int128 carry = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        carry += static_cast<unsigned __int128>(a.limb[i]) * b;
        result.limb[i] = static_cast<std::uint64_t>(carry);
        carry >>= 64;
    }
    return result;
}

Status open_block(const params::ChainParams& params, state::Overlay& overlay, const BlockContext& context) {
    overlay.store(types::key_of<types::BeaconObject>(context.number), types::BeaconObject{context.beacon});
    QUERN_CHECK(system::advance_market_time(params, overlay, context.elapsed_ms));
    return {};
}

Message message_of(const types::RecoveredTransaction& recovered, const GasCosts& costs,
                   const handlers::CheckedCall* native) {
    const auto& tx = recovered.tx;
    Message message;
    message.from = recovered.sender;
    message.to = tx.to;
    message.value = tx.value;
    message.data = tx.data;
    if (tx.type == types::TxType::native) message.native_kind = static_cast<types::NativeKind>(tx.native_kind);
    message.native = native;
    message.gas = tx.gas_limit;
    message.gas_charged = costs.due;
    message.gas_floor = costs.floor;
    return message;
}

// What would not convict is not passed on, whatever it offers for that. What offers nothing is executed with the gas
// that it has: else it would keep its place in a mempool, and a block that leaves it out for want of gas costs it
// nothing.
Result check_evidence(const params::ChainParams& params, const state::StateReader& state, std::uint64_t height,
                      const types::RecoveredTransaction& recovered, const GasCosts& costs,
                      const handlers::CheckedCall* native) {
    const auto& tx = recovered.tx;
    if (native == nullptr || tx.native_kind != static_cast<std::uint8_t>(types::NativeKind::evidence)) return ok();
    state::Overlay overlay(state);
    if (travels_free(tx)) {
        const auto outcome = run_message(params, overlay, height, message_of(recovered, costs, native), nullptr);
        return outcome.success ? ok() : refused(outcome.error.name, outcome.error.detail);
    }
    const handlers::Context context{params, overlay, height, recovered.sender};
    if (const auto status = native->would_run(context); !status)
        return refused(status.error().name, status.error().detail);
    return ok();
}

}  // namespace

struct BlockExecution::Impl {
    const params::ChainParams& params;
    state::Overlay& overlay;
    BlockContext context;
    ExecutionObserver* observer;
    std::uint64_t gas_used = 0;
    Uint256 base_fees;  // taken from senders, not yet in globals
    std::vector<types::Receipt> receipts;
    Status opened;
};

BlockExecution::BlockExecution(const params::ChainParams& params, state::Overlay& overlay, const BlockContext& context,
                               ExecutionObserver* observer)
    : impl_(std::make_unique<Impl>(Impl{params, overlay, context, observer, 0, {}, {}, {}})) {
    // A receipt is some 150 bytes: moving them as their list grows costs more than a transfer.
    impl_->receipts.reserve(std::min(context.gas_limit / types::kTxBaseGas, kMaxReceiptsReserved));
}

BlockExecution::BlockExecution(BlockExecution&&) noexcept = default;
BlockExecution::~BlockExecution() = default;

void BlockExecution::begin() {
    auto& overlay = impl_->overlay;
    impl_->opened = open_block(impl_->params, overlay, impl_->context);
    if (impl_->context.number >= params::kBeaconWindow) {
        const Bytes old = types::key_of<types::BeaconObject>(impl_->context.number - params::kBeaconWindow);
        if (overlay.native(old)) overlay.erase_native(old);
    }
}

Result BlockExecution::apply(const types::RecoveredTransaction& recovered) {
    auto& [params, overlay, context, observer, gas_used, base_fees, receipts, opened] = *impl_;
    const auto& tx = recovered.tx;
    const GasCosts costs = gas_costs(tx);
    auto form = check_stateless(params, recovered, costs);
    if (!form.result.in_block()) return std::move(form.result);
    if (context.gas_limit - gas_used < tx.gas_limit) return retry("gas limit reached");
    if (!pays_base_fee(tx, context.base_fee))
        return refuse(kFeeTooLow, "maxFeePerGas: " + tx.max_fee_per_gas.to_decimal() +
                                      " baseFee: " + context.base_fee.to_decimal());
    if (auto result = check_account(overlay.account_view(recovered.sender), recovered, true); !result.in_block())
        return result;

    const bool free = travels_free(tx);
    const Uint256 price = free ? Uint256() : types::effective_gas_price(tx, context.base_fee);
    const std::size_t start = overlay.snapshot();
    {
        state::Account& sender = overlay.change_account(recovered.sender);
        ++sender.nonce;
        sender.balance -= times(price, tx.gas_limit);
    }
    auto outcome =
        run_message(params, overlay, context.number, message_of(recovered, costs, form.native.get()), observer);
    if (free && !outcome.success) {
        overlay.revert_to(start);
        return refused(outcome.error.name, outcome.error.detail);
    }
    if (!price.is_zero() && outcome.gas_used < tx.gas_limit)
        overlay.change_account(recovered.sender).balance += times(price, tx.gas_limit - outcome.gas_used);
    const Uint256 tip = free ? Uint256() : times(price - context.base_fee, outcome.gas_used);
    if (!tip.is_zero()) overlay.change_account(context.beneficiary).balance += tip;
    if (!free) base_fees += times(context.base_fee, outcome.gas_used);
    gas_used += outcome.gas_used;
    overlay.settle();

    types::Receipt receipt;
    receipt.type = tx.type;
    receipt.success = outcome.success;
    receipt.cumulative_gas_used = gas_used;
    receipt.logs = overlay.take_logs();
    receipt.gas_used = outcome.gas_used;
    receipt.effective_gas_price = price;
    if (!outcome.success) receipt.failure = outcome.error.to_string();
    receipts.push_back(std::move(receipt));
    return outcome.success ? ok() : failed(outcome.error);
}

Status BlockExecution::finish() {
    auto& impl = *impl_;
    QUERN_CHECK(impl.opened);
    if (!impl.base_fees.is_zero()) {
        QUERN_TRY(auto globals, handlers::load_globals(impl.overlay));
        const auto split = market::split_base_fee(impl.base_fees);
        globals.burned += split.burned;
        globals.jackpot_vault += split.jackpot;
        handlers::store_globals(impl.overlay, globals);
        impl.base_fees = Uint256();
    }
    QUERN_CHECK(system::end_block(impl.params, impl.overlay, impl.context.number, impl.context.beacon));
    if (impl.params.check_invariants) return invariants::check_all(impl.overlay, impl.params);
    return {};
}

std::uint64_t BlockExecution::gas_used() const { return impl_->gas_used; }

const std::vector<types::Receipt>& BlockExecution::receipts() const { return impl_->receipts; }

std::vector<types::Receipt> BlockExecution::take_receipts() { return std::move(impl_->receipts); }

Expected<CallResult> simulate(const params::ChainParams& params, state::Overlay& overlay, const BlockContext& context,
                              const CallRequest& call) {
    if (!call.to) return fail(kCreationNotActive.text);
    if (!overlay.native(types::key_of<types::BeaconObject>(context.number)))
        QUERN_CHECK(open_block(params, overlay, context));

    types::Transaction tx;
    tx.type = types::TxType::dynamic_fee;
    tx.to = call.to;
    tx.value = call.value;
    tx.data = call.data;
    tx.access_list = call.access_list;
    tx.gas_limit = call.gas_limit == 0 ? params.block_gas_limit : std::min(call.gas_limit, params.block_gas_limit);

    if (!call.gas_price.is_zero()) {
        const auto fee = checked_mul(call.gas_price, tx.gas_limit);
        const auto needed = fee ? checked_add(*fee, call.value) : std::nullopt;
        auto sender = overlay.account_or_empty(call.from);
        if (!needed || sender.balance < *needed) return fail(kInsufficientFunds.text);
        sender.balance -= *fee;
        overlay.set_account(call.from, sender);
    }
    Message message;
    message.from = call.from;
    message.to = tx.to;
    message.value = tx.value;
    message.data = tx.data;
    message.gas = tx.gas_limit;
    message.gas_charged = types::intrinsic_gas(tx);
    message.gas_floor = types::floor_gas(tx);
    if (message.gas < std::max(message.gas_charged, message.gas_floor)) return fail(kIntrinsicGas.text);
    auto outcome = run_message(params, overlay, context.number, message, nullptr);
    return CallResult{outcome.success, outcome.gas_used, std::move(outcome.output),
                      outcome.success ? std::string() : outcome.error.to_string()};
}

Result precheck(const params::ChainParams& params, const state::StateReader& state, std::uint64_t height,
                const types::RecoveredTransaction& tx, const Uint256& base_fee) {
    const GasCosts costs = gas_costs(tx.tx);
    auto form = check_stateless(params, tx, costs);
    if (!form.result.in_block()) return std::move(form.result);
    if (!pays_base_fee(tx.tx, base_fee))
        return refuse(kFeeTooLow,
                      "maxFeePerGas: " + tx.tx.max_fee_per_gas.to_decimal() + " baseFee: " + base_fee.to_decimal());
    const auto sender = state.account(tx.sender);
    if (auto result = check_account(sender ? *sender : state::empty_account(), tx, false); !result.in_block())
        return result;
    return check_evidence(params, state, height, tx, costs, form.native.get());
}

}  // namespace quern::chain::exec
