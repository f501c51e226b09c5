#include "chain/mempool/dispute_lane.h"

#include "chain/types/abi.h"
#include "compute/core/dispute_game.h"

namespace quern::chain::mempool {
namespace {

namespace core = compute::core;

struct Move {
    types::NativeKind kind;
    std::uint64_t dispute;
};

template <class Payload>
std::optional<Move> move_of(types::NativeKind kind, BytesView payload) {
    const auto decoded = types::decode_record<Payload>(payload);
    if (!decoded) return std::nullopt;
    return Move{kind, decoded->dispute};
}

std::optional<Move> read_move(const types::Transaction& tx) {
    auto kind = static_cast<types::NativeKind>(tx.native_kind);
    BytesView payload = tx.data;
    types::abi::NativeCall call;
    if (tx.type != types::TxType::native) {
        if (!tx.to || *tx.to != types::group_address(types::KindGroup::disputes)) return std::nullopt;
        auto decoded = types::abi::decode_call(types::KindGroup::disputes, tx.data);
        if (!decoded) return std::nullopt;
        call = std::move(*decoded);
        kind = call.kind;
        payload = call.payload;
    }
    switch (kind) {
        case types::NativeKind::dispute_split:
            return move_of<types::DisputeSplitPayload>(kind, payload);
        case types::NativeKind::dispute_prove_leaf:
            return move_of<types::DisputeProveLeafPayload>(kind, payload);
        case types::NativeKind::dispute_concede:
            return move_of<types::DisputeConcedePayload>(kind, payload);
        default:
            return std::nullopt;
    }
}

}  // namespace

std::optional<std::uint64_t> due_dispute_move(const state::StateReader& state,
                                              const types::RecoveredTransaction& transaction) {
    const auto move = read_move(transaction.tx);
    if (!move) return std::nullopt;
    const auto bytes = state.native(types::object_key(types::ObjectPrefix::dispute, move->dispute));
    if (!bytes) return std::nullopt;
    const auto dispute = types::decode_record<types::Dispute>(*bytes);
    if (!dispute || dispute->winner != types::DisputeWinner::none) return std::nullopt;
    const bool defends = transaction.sender == dispute->defender;
    if (!defends && transaction.sender != dispute->rival) return std::nullopt;
    if (move->kind == types::NativeKind::dispute_concede) return move->dispute;
    const auto game = types::decode_record<core::Game>(dispute->game);
    if (!game || !core::owes_move(*game, defends ? core::Side::defender : core::Side::rival)) return std::nullopt;
    return move->dispute;
}

}  // namespace quern::chain::mempool
