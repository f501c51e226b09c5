#include "chain/exec/tx_executor.h"

#include <algorithm>

#include "chain/exec/handlers/handler.h"
#include "chain/exec/result/failures.h"
#include "chain/exec/result/refusals.h"
#include "chain/types/transaction_errors.h"
#include "chain/types/transaction_rules.h"

namespace quern::chain::exec {
namespace {

using types::Transaction;
using types::TxType;

std::uint64_t payload_gas(types::NativeKind kind, std::size_t payload_bytes) {
    const auto price = params::native_gas(kind);
    return price.fixed + price.per_byte * payload_bytes;  // payloads are bounded by kMaxTransactionBytes
}

std::uint64_t gas_of(const state::Overlay::Written& written) {
    return params::kNativeGasPerObject * written.objects + params::kNativeGasPerWrittenByte * written.object_bytes +
           params::kNativeGasPerStoredByte * written.stored_bytes + params::kNativeGasPerAccount * written.accounts +
           params::kLogGas * written.logs + params::kLogTopicGas * written.log_topics +
           params::kLogByteGas * written.log_bytes;
}

// Names that wallets match on, for errors of the types module.
Result from_form_error(const Error& error) {
    if (error.name == types::kWrongChainId) return refuse(kWrongChain, error.detail);
    if (error.name == types::kPriorityFeeAboveMaxFee) return refuse(kTipAboveFee);
    return malformed(error.name, error.detail);
}

// Changes nothing when it fails.
Status transfer(state::Overlay& overlay, const types::Address& from, const types::Address& to, const Uint256& value) {
    if (value.is_zero()) return {};
    const auto rest = checked_sub(overlay.account_view(from).balance, value);
    if (!rest) return fail(kInsufficientForTransfer);
    overlay.change_account(from).balance = *rest;
    overlay.change_account(to).balance += value;
    return {};
}

class MessageRun {
public:
    MessageRun(const params::ChainParams& params, state::Overlay& overlay, std::uint64_t height, const Message& message,
               ExecutionObserver* observer)
        : params_(params),
          overlay_(overlay),
          height_(height),
          message_(message),
          observer_(observer),
          gas_(message.gas_charged) {}

    Outcome run() {
        Status status;
        if (gas_ > message_.gas)
            status = fail(kOutOfGas);
        else if (message_.native_kind || types::group_at(*message_.to))
            status = run_native();
        else
            status = transfer(overlay_, message_.from, *message_.to, message_.value);

        Outcome outcome;
        outcome.success = status.has_value();
        if (!status) {
            outcome.error = status.error();
            if (status.error().name == kOutOfGas)
                gas_ = message_.gas;
            else if (status.error().name != kInsufficientForTransfer)  // no code ran, so there is no revert data
                outcome.output = types::abi::encode_error(outcome.error.to_string());
        }
        outcome.gas_used = std::min(std::max(gas_, message_.gas_floor), message_.gas);
        return outcome;
    }

private:
    Status charge(std::uint64_t amount) {
        if (message_.gas - gas_ < amount) return fail(kOutOfGas);
        gas_ += amount;
        return {};
    }

    Status run_native() {
        const std::size_t start = overlay_.snapshot();
        auto status = message_.native_kind ? native_transaction() : reserved_call(*types::group_at(*message_.to));
        if (!status) overlay_.revert_to(start);
        return status;
    }

    Status reserved_call(types::KindGroup group) {
        if (!message_.value.is_zero()) return fail("native.value_not_zero");
        QUERN_TRY(const auto call, types::abi::decode_call(group, message_.data));
        QUERN_CHECK(charge(payload_gas(call.kind, call.payload.size())));
        return decode_and_run(call.kind, call.payload);
    }

    // Its payload's gas is part of what is due.
    Status native_transaction() {
        if (message_.native != nullptr) return native(*message_.native, message_.data.size());
        return decode_and_run(*message_.native_kind, message_.data);
    }

    Status decode_and_run(types::NativeKind kind, BytesView payload) {
        QUERN_TRY(const auto call, handlers::decode_native(params_.market, static_cast<std::uint8_t>(kind), payload));
        return native(*call, payload.size());
    }

    Status native(const handlers::CheckedCall& call, std::size_t payload_bytes) {
        QUERN_TRY(const auto globals, handlers::load_globals(overlay_));  // of the block: no read of the transaction's
        const std::size_t start = overlay_.snapshot();
        state::ReadMeter reads(params::kNativeGasPerRead, params::kNativeGasPerReadByte, message_.gas - gas_);
        handlers::Context context{params_,       overlay_, height_,   message_.from,
                                  payload_bytes, gas_,     observer_, globals.market_ms};
        overlay_.count_reads(&reads);
        const auto status = call.run(context);
        overlay_.count_reads(nullptr);
        QUERN_CHECK(charge(reads.used()));  // of a call that fails, too
        QUERN_CHECK(status);
        return charge(gas_of(overlay_.written_since(start)));
    }

    const params::ChainParams& params_;
    state::Overlay& overlay_;
    std::uint64_t height_;
    const Message& message_;
    ExecutionObserver* observer_;
    std::uint64_t gas_;
};

}  // namespace

std::uint64_t due_gas(const Transaction& tx) {
    std::uint64_t gas = types::intrinsic_gas(tx);
    if (tx.type == TxType::native)
        if (const auto* kind = types::find_kind(tx.native_kind)) gas += payload_gas(kind->kind, tx.data.size());
    return gas;
}

GasCosts gas_costs(const Transaction& tx) { return {due_gas(tx), types::floor_gas(tx)}; }

FormCheck check_stateless(const params::ChainParams& params, const types::RecoveredTransaction& recovered,
                          const GasCosts& costs) {
    const Transaction& tx = recovered.tx;
    if (tx.type == TxType::set_code) return {refused("set_code.not_active", "delegations need the EVM"), nullptr};
    if (tx.type != TxType::native && !tx.to) return {refuse(kCreationNotActive), nullptr};
    if (const auto form = types::check_form(tx, params.chain_id); !form)
        return {from_form_error(form.error()), nullptr};
    if (tx.gas_limit > params.block_gas_limit) return {refuse(kBlockGasLimit), nullptr};
    const std::uint64_t needed = std::max(costs.due, costs.floor);
    if (tx.gas_limit < needed)
        return {refuse(kIntrinsicGas, "have " + std::to_string(tx.gas_limit) + ", want " + std::to_string(needed)),
                nullptr};
    if (tx.type != TxType::native) return {ok(), nullptr};
    auto call = handlers::decode_native(params.market, tx.native_kind, tx.data);
    if (!call) return {malformed(call.error().name, call.error().detail), nullptr};
    return {ok(), std::move(*call)};
}

Result check_account(const state::Account& account, const types::RecoveredTransaction& recovered, bool exact_nonce) {
    const Transaction& tx = recovered.tx;
    const auto nonces = [&] {
        return "address " + to_hex0x(recovered.sender) + ", tx: " + std::to_string(tx.nonce) +
               " state: " + std::to_string(account.nonce);
    };
    if (tx.nonce < account.nonce) return refuse(kNonceTooLow, nonces());
    if (exact_nonce && tx.nonce > account.nonce) return refuse(kNonceTooHigh, nonces());
    if (account.has_code()) return refuse(kSenderNoEoa);                           // EIP-3607
    const Uint256 needed = tx.max_fee_per_gas * Uint256(tx.gas_limit) + tx.value;  // check_form excluded overflow
    if (account.balance < needed)
        return refuse(kInsufficientFunds, "address " + to_hex0x(recovered.sender) + " have " +
                                              account.balance.to_decimal() + " want " + needed.to_decimal());
    return ok();
}

Outcome run_message(const params::ChainParams& params, state::Overlay& overlay, std::uint64_t height,
                    const Message& message, ExecutionObserver* observer) {
    return MessageRun(params, overlay, height, message, observer).run();
}

}  // namespace quern::chain::exec
