// sdbft_status: where consensus stands.
#include "rpc/methods/backend.h"

namespace quern::rpc::methods {
namespace {

json::Value status_json(const chain::api::ConsensusStatus& status) {
    json::Array committee;
    for (const auto& seat : status.committee)
        committee.push_back(json::Value::object({{"address", hex(seat.address)}, {"weight", quantity(seat.weight)}}));
    const bool has_master = status.master < status.committee.size();
    return json::Value::object(
        {{"epoch", status.epoch},
         {"view", status.view},
         {"master", has_master ? json::Value(hex(status.committee[status.master].address)) : json::Value()},
         {"committee", std::move(committee)},
         {"tip", json::Value::object({{"number", status.tip_number}, {"hash", hex(status.tip_hash)}})},
         {"finalizedView", status.finalized_view},
         {"viewsNullified", status.views_nullified},
         {"backoffSteps", status.backoff_steps},
         {"member", status.member},
         {"signs", status.signs},
         {"refusesBecause", status.refuses_because.empty() ? json::Value() : json::Value(status.refuses_because)},
         {"journalSyncs", status.journal_syncs},
         {"droppedMessages", status.dropped_messages},
         {"queuedBytes", status.queued_bytes},
         {"finality_ms", json::Value::object({{"p50", status.finality.p50_ms},
                                              {"p99", status.finality.p99_ms},
                                              {"max", status.finality.largest_ms},
                                              {"samples", std::uint64_t{status.finality.samples}}})}});
}

}  // namespace

Status add_consensus_methods(Registry& registry, const Backend& backend) {
    return registry.add(
        {"sdbft_status",
         "Where consensus stands, as this node sees it.",
         {},
         {"object",
          "epoch, view, its master, the committee with weights, the newest final block, the last finalized view, views "
          "nullified since the start, how far timers have backed off, whether this node is a member and signs, why not "
          "(sdbft.no_journal, sdbft.other_signer), and milliseconds from the header's timestamp to finality here over "
          "the last 4,096 blocks: clocks that differ shift these"},
         {},
         {{"[]",
           R"({"epoch":0,"view":4,"master":"0x…","committee":[{"address":"0x…","weight":"0x3635c9adc5dea00000"}],)"
           R"("tip":{"number":3,"hash":"0x…"},"finalizedView":3,"viewsNullified":0,"backoffSteps":0,"member":true,)"
           R"("signs":true,"refusesBecause":null,"journalSyncs":12,"droppedMessages":0,"queuedBytes":0,)"
           R"("finality_ms":{"p50":9,"p99":14,"max":14,"samples":3}})"}},
         [network = backend.network](const Call&) -> Result { return status_json(network->consensus()); }});
}

}  // namespace quern::rpc::methods
