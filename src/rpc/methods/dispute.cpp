// dispute_*: games about claims.
#include <algorithm>

#include "chain/types/event_reader.h"
#include "chain/types/post_event.h"
#include "rpc/methods/backend.h"
#include "rpc/methods/market_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
using types::Dispute;

constexpr std::uint64_t kDefaultPage = 100;
constexpr std::uint64_t kMaxPage = 500;

json::Value summary(const Backend& backend, const Dispute& dispute) {
    json::Value object = types::to_json(dispute);
    object.set("rivalRoleName", types::to_string(dispute.rival_role));
    object.set("winnerName", types::to_string(dispute.winner));
    object.set("open", dispute.winner == types::DisputeWinner::none && dispute.closed_at == 0);
    object.set("leafOpName",
               dispute.leaf_executed ? json::Value(backend.market->op_name(dispute.leaf_op)) : json::Value());
    const auto microseconds = backend.chain->leaf_microseconds(dispute.id);
    object.set("leafMicroseconds", microseconds ? json::Value(*microseconds) : json::Value());
    return object;
}

// The post that waits for the rival, as the logs of its block have it: the last one there. Null: none does, or this
// node has no receipts of that block.
json::Value waiting_post(const Backend& backend, const Dispute& dispute) {
    if (dispute.posted_at == 0) return {};
    json::Value post;
    for (const auto& receipt : backend.chain->receipts(dispute.posted_at))
        for (const auto& log : receipt.logs)
            if (log.address == types::group_address(types::KindGroup::disputes))
                if (const auto posted = types::read_event<types::DisputePosted>(log))
                    if (posted->dispute == dispute.id) post = to_hex0x(posted->post);
    return post;
}

Result get(const Backend& backend, std::uint64_t id) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto dispute, read_object<Dispute>(*state, id));
    if (!dispute) return json::Value();
    json::Value object = summary(backend, *dispute);
    const auto view = backend.market->describe_game(dispute->game);
    object.set("gameView", view ? *view : json::Value());
    object.set("post", waiting_post(backend, *dispute));
    return object;
}

Result list(const Backend& backend, const Call& call) {
    const std::uint64_t limit = std::min(call.number_or(3, kDefaultPage), kMaxPage);
    const bool only_open = call.boolean_or(1, false);
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    json::Array disputes;
    QUERN_RPC_TRY(const auto next, scan_objects<Dispute>(*state, call.number_or(2, 0), [&](const Dispute& dispute) {
                      if (call.has(0) && dispute.claim.task != call.number(0)) return true;
                      if (only_open && (dispute.winner != types::DisputeWinner::none || dispute.closed_at != 0))
                          return true;
                      if (disputes.size() == limit) return false;
                      json::Value object = summary(backend, dispute);
                      object.erase("game");
                      disputes.push_back(std::move(object));
                      return true;
                  }));
    return json::Value::object(
        {{"disputes", std::move(disputes)}, {"next", next ? json::Value(*next) : json::Value()}});
}

}  // namespace

Status add_dispute_methods(Registry& registry, const Backend& backend) {
    QUERN_CHECK(
        registry.add({"dispute_get",
                      "A dispute with its whole record and its game in readable fields.",
                      {{"dispute", Kind::number, true, "the dispute's id"}},
                      {"object or null",
                       "the record's fields (game: RLP; deadline: 0 when closed, or while it waits for another game of "
                       "its defender's); "
                       "gameView: phase, step, node, tile, element, claimed and true values, who owes a move; post: "
                       "RLP of the post that waits for the rival (postedAt: its block), null when none does or this "
                       "node has no logs of that block; rounds, bytes and gas of the moves; leafOpName, "
                       "leafMicroseconds (this node's measurement)"},
                      {},
                      {},
                      [backend](const Call& call) -> Result { return get(backend, call.number(0)); }}));
    return registry.add({"dispute_list",
                         "Disputes by ascending id, a page at a time.",
                         {{"task", Kind::number, false, "only this task's"},
                          {"open", Kind::boolean, false, "only those that are not decided"},
                          {"start", Kind::number, false, "first id of the page; 0 when left out"},
                          {"limit", Kind::number, false, "disputes in the page, 100 when left out, at most 500"}},
                         {"object",
                          "disputes: as in dispute_get without game, gameView and post; next: the start of the next "
                          "page, null at the end"},
                         {},
                         {{"[1,true]", R"({"disputes":[],"next":null})"}},
                         [backend](const Call& call) -> Result { return list(backend, call); }});
}

}  // namespace quern::rpc::methods
