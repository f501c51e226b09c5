#include "chain/exec/outlay.h"

#include "chain/exec/handlers/handler.h"
#include "chain/types/abi.h"

namespace quern::chain::exec {
namespace {

Uint256 outlay(const params::MarketParams& market, types::NativeKind kind, BytesView payload) {
    return types::visit_kind(kind, [&](auto constant, auto tag) {
        const auto data = types::decode_record<typename decltype(tag)::Payload>(payload);
        return data ? handlers::Handler<decltype(constant)::value>::outlay(market, *data) : Uint256();
    });
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
