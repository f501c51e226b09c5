// split, prove_leaf, concede: the moves of a dispute's two parties. The game itself is compute/core's.
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/types/post_event.h"

namespace quern::chain::exec::handlers {
namespace {

using types::NativeKind;

struct OpenGame {
    types::Dispute dispute;
    core::Game game;
    core::Side side = core::Side::defender;
};

// The open dispute and the sender's side in it.
Expected<OpenGame> load_game(const Context& context, std::uint64_t id) {
    OpenGame open;
    QUERN_TRY(open.dispute, load_dispute(context.state, id));
    if (open.dispute.closed_at != 0) return fail("dispute.closed");
    if (context.sender == open.dispute.rival)
        open.side = core::Side::rival;
    else if (context.sender != open.dispute.defender)
        return fail("dispute.not_a_party");
    QUERN_TRY(open.game, types::decode_record<core::Game>(open.dispute.game));
    return open;
}

// Puts an accepted move on record; a decided game is concluded.
Status finish_move(Context& context, OpenGame& open, std::size_t move_bytes) {
    auto& dispute = open.dispute;
    ++dispute.rounds;
    dispute.bytes += move_bytes;
    dispute.gas += context.gas;
    update_game(dispute, open.game);
    emit(context, types::KindGroup::disputes,
         events::DisputeMoved{dispute.id, context.sender, static_cast<std::uint8_t>(open.game.phase), dispute.rounds});
    QUERN_TRY(auto live, load_live(context.state, dispute.claim));
    if (open.game.verdict != core::Verdict::none) {
        QUERN_CHECK(conclude_dispute(context, live, dispute, open.game));
        store_live(context.state, live);
        return {};
    }
    store_dispute(context.state, dispute);
    QUERN_TRY(const bool changed, refresh_deadline(context, live.claim));
    if (changed) store_live(context.state, live);
    return {};
}

Status check_dispute_id(std::uint64_t id) {
    if (id == 0) return fail("dispute.unknown", "0");
    return {};
}

}  // namespace

// --- split -----------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::dispute_split>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_dispute_id(data.dispute));
    QUERN_CHECK(core::decode_split_move(data.move));
    return {};
}

struct Handler<NativeKind::dispute_split>::Prepared {
    OpenGame open;
};

auto Handler<NativeKind::dispute_split>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto open, load_game(context, data.dispute));
    return Prepared{std::move(open)};
}

Status Handler<NativeKind::dispute_split>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& open = prepared.open;
    QUERN_TRY(const auto move, core::decode_split_move(data.move));
    QUERN_CHECK(core::apply_split(open.game, open.side, move, context.market_ms));
    // The state keeps its hash; a contract may have made the call, so that the post is in no transaction's payload.
    const bool waits = core::has_post(open.game);
    if (waits) emit(context, types::KindGroup::disputes, types::DisputePosted{data.dispute, data.move});
    open.dispute.posted_at = waits ? context.height : 0;
    return finish_move(context, open, data.move.size());
}

// --- prove_leaf ------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::dispute_prove_leaf>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_dispute_id(data.dispute));
    QUERN_CHECK(core::decode_leaf_witness(data.witness));
    return {};
}

struct Handler<NativeKind::dispute_prove_leaf>::Prepared {
    OpenGame open;
};

auto Handler<NativeKind::dispute_prove_leaf>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto open, load_game(context, data.dispute));
    return Prepared{std::move(open)};
}

Status Handler<NativeKind::dispute_prove_leaf>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& open = prepared.open;
    QUERN_TRY(const auto witness, core::decode_leaf_witness(data.witness));
    if (context.observer != nullptr) context.observer->leaf_begins(open.dispute.id);
    const auto status = core::apply_leaf(open.game, open.side, witness, context.market_ms);
    if (context.observer != nullptr) context.observer->leaf_ended(open.dispute.id);
    if (!status) return status;
    QUERN_TRY(const auto node, core::disputed_node(open.game));
    open.dispute.leaf_executed = true;
    open.dispute.leaf_op = static_cast<std::uint32_t>(node.node.op);
    return finish_move(context, open, data.witness.size());
}

// --- concede ---------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::dispute_concede>::check_form(const params::MarketParams&, const Payload& data) {
    return check_dispute_id(data.dispute);
}

struct Handler<NativeKind::dispute_concede>::Prepared {
    OpenGame open;
};

auto Handler<NativeKind::dispute_concede>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto open, load_game(context, data.dispute));
    return Prepared{std::move(open)};
}

Status Handler<NativeKind::dispute_concede>::apply(Context& context, const Payload&, Prepared&& prepared) {
    auto& open = prepared.open;
    QUERN_CHECK(core::concede(open.game, open.side, context.market_ms));
    return finish_move(context, open, 0);
}

QUERN_DEFINE_RUN(dispute_split, kNothing)
QUERN_DEFINE_RUN(dispute_prove_leaf, kNothing)
QUERN_DEFINE_RUN(dispute_concede, kNothing)

}  // namespace quern::chain::exec::handlers
