#include "chain/exec/outlay.h"

#include "chain/market/escrow.h"
#include "chain/types/abi.h"
#include "vm/tensor/graph.h"

namespace quern::chain::exec {
namespace {

template <class Payload>
Uint256 amount_in(BytesView payload) {
    const auto data = types::decode_record<Payload>(payload);
    return data ? data->amount : Uint256();
}

Uint256 escrow_in(const params::MarketParams& params, BytesView payload) {
    const auto data = types::decode_record<types::TaskSubmitPayload>(payload);
    if (!data) return {};
    const auto header = vm::tensor::decode_header(data->program_header);
    if (!header) return {};
    const auto escrow = market::escrow_of(*data, header->work_units, params.storage_deposit);
    return escrow ? escrow->total : Uint256();
}

Uint256 outlay(const params::MarketParams& market, types::NativeKind kind, BytesView payload) {
    switch (kind) {
        case types::NativeKind::create_validator:
            return amount_in<types::CreateValidatorPayload>(payload);
        case types::NativeKind::delegate:
            return amount_in<types::DelegatePayload>(payload);
        case types::NativeKind::bond:
            return amount_in<types::BondPayload>(payload);
        case types::NativeKind::task_submit:
            return escrow_in(market, payload);
        default:
            return {};
    }
}

}  // namespace

Uint256 outlay_of(const params::ChainParams& params, const types::Transaction& tx) {
    if (tx.type == types::TxType::native) {
        const auto* kind = types::find_kind(tx.native_kind);
        return kind == nullptr ? Uint256() : outlay(params.market, kind->kind, tx.data);
    }
    const auto group = tx.to ? types::group_at(*tx.to) : std::nullopt;
    if (!group) return {};
    const auto call = types::abi::decode_call(*group, tx.data);
    return call ? outlay(params.market, call->kind, call->payload) : Uint256();
}

}  // namespace quern::chain::exec
