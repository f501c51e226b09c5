// admin_* and logging: administration with credentials.
#include "base/log_control.h"
#include "rpc/methods/backend.h"
#include "rpc/values.h"

#include <limits>

namespace quern::rpc::methods {
namespace {

constexpr std::size_t kMaxContents = 4'096;  // in one call

// As -addnode takes it.
std::string peer_name(const chain::types::Address& id, const std::string& host, std::uint16_t port) {
    const bool is_v6 = host.find(':') != std::string::npos;
    return to_hex0x(id) + "@" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

json::Value peer_json(const chain::api::PeerStatus& peer) {
    return json::Value::object({{"id", hex(peer.address)},
                                {"enode", peer_name(peer.address, peer.host, peer.port)},
                                {"name", peer.agent},
                                {"inbound", peer.inbound},
                                {"static", peer.fixed},
                                {"finalized", peer.finalized_number},
                                {"rttMs", static_cast<double>(peer.rtt_us) / 1000.0},
                                {"minRttMs", static_cast<double>(peer.least_rtt_us) / 1000.0},
                                {"answers", peer.answers},
                                {"bytesIn", peer.bytes_in},
                                {"bytesOut", peer.bytes_out},
                                {"score", std::int64_t{peer.score}}});
}

// Category names, "all" for each. The first error wins, and nothing is changed then.
tl::expected<std::vector<log::Category>, RpcError> read_categories(const Call& call, std::size_t argument) {
    std::vector<log::Category> chosen;
    if (!call.has(argument)) return chosen;
    for (const json::Value& item : call.value(argument).items()) {
        const std::string_view name = item.as_string().value_or("");
        if (name == "all" || name == "1") return log::categories();
        const auto category = log::category_from_name(name);
        if (!category) return rpc_fail(kInvalidParams, "unknown logging category " + item.dump());
        chosen.push_back(*category);
    }
    return chosen;
}

tl::expected<std::vector<Hash32>, RpcError> read_contents(const Call& call) {
    const auto& items = call.value(0).items();
    if (items.size() > kMaxContents)
        return rpc_fail(kInvalidParams, "at most " + std::to_string(kMaxContents) + " contents");
    std::vector<Hash32> ids;
    for (const json::Value& item : items) {
        const auto id = read_hash(item);
        if (!id) return rpc_fail(kInvalidParams, id.error().detail);
        ids.push_back(*id);
    }
    return ids;
}

template <class Ids>
json::Value list_of(const Ids& ids) {
    json::Array list;
    for (const Hash32& id : ids) list.push_back(hex(id));
    return json::Value(std::move(list));
}

Result drop_contents(chain::api::ContentGateway& content, const Call& call) {
    const auto ids = read_contents(call);
    if (!ids) return tl::unexpected<RpcError>(ids.error());
    const auto held = content.let_go({ids->begin(), ids->end()});
    if (!held) return rpc_fail(held.error());
    return json::Value::object({{"held", list_of(*held)}});
}

Result fetch_contents(chain::api::ContentGateway& content, const Call& call) {
    const auto ids = read_contents(call);
    if (!ids) return tl::unexpected<RpcError>(ids.error());
    const std::uint64_t most = call.number_or(1, std::numeric_limits<std::uint64_t>::max());
    return json::Value::object({{"here", list_of(content.want(*ids, most))}});
}

Result logging(const Call& call) {
    const auto include = read_categories(call, 0);
    if (!include) return tl::unexpected<RpcError>(include.error());
    const auto exclude = read_categories(call, 1);
    if (!exclude) return tl::unexpected<RpcError>(exclude.error());
    for (const log::Category category : *include) log::set_debugged(category, true);
    for (const log::Category category : *exclude) log::set_debugged(category, false);
    json::Value shown = json::Value::object();
    for (const log::Category category : log::categories())
        shown.set(log::name_of(category), log::is_debugged(category));
    return shown;
}

}  // namespace

Status add_admin_methods(Registry& registry, const Backend& backend) {
    auto* const network = backend.network;
    QUERN_CHECK(registry.add({"admin_nodeInfo",
                              "How other nodes name and reach this one.",
                              {},
                              {"object", "id (the address), enode (for -addnode), listening, name"},
                              {},
                              {{"[]", R"({"id":"0x2afb10139699349e8078cfd29f7cc293831b7d7f",)"
                                      R"("enode":"0x2afb10139699349e8078cfd29f7cc293831b7d7f@192.0.2.7:7876",)"
                                      R"("listening":true,"name":"quernd/0.1.0"})"}},
                              [network](const Call&) -> Result {
                                  const auto own = network->own_address();
                                  return json::Value::object({{"id", hex(own.address)},
                                                              {"enode", peer_name(own.address, own.host, own.port)},
                                                              {"listening", own.listening},
                                                              {"name", own.agent}});
                              },
                              Access::cookie}));
    QUERN_CHECK(
        registry.add({"admin_peers",
                      "The connected nodes.",
                      {},
                      {"array",
                       "objects: id, enode, name, inbound, static, finalized, rttMs, minRttMs, answers (to this "
                       "node's questions), bytesIn, bytesOut, score (points of offences; at 100 it is left)"},
                      {},
                      {{"[]", "[]"}},
                      [network](const Call&) -> Result {
                          json::Array peers;
                          for (const auto& peer : network->peers()) peers.push_back(peer_json(peer));
                          return json::Value(std::move(peers));
                      },
                      Access::cookie}));
    QUERN_CHECK(registry.add({"admin_addPeer",
                              "Connects to a node and stays connected, as -addnode does until the node stops.",
                              {{"peer", Kind::string, true, "0xADDRESS@HOST:PORT"}},
                              {"boolean", "true: it will be dialled"},
                              {{kInvalidParams, "not 0xADDRESS@HOST:PORT"}},
                              {{R"(["0x2afb10139699349e8078cfd29f7cc293831b7d7f@192.0.2.7:7876"])", "true"}},
                              [network](const Call& call) -> Result {
                                  if (const auto added = network->add_peer(call.text(0)); !added)
                                      return rpc_fail(kInvalidParams, added.error().to_string());
                                  return json::Value(true);
                              },
                              Access::cookie}));
    QUERN_CHECK(registry.add(
        {"admin_dropContents",
         "Removes contents from this node's store at once, but for those that it has a duty to serve: a solver's "
         "states "
         "that nobody asks for any more.",
         {{"contents", Kind::array, true, "content ids, 4096 at most; those that are not here are left out"}},
         {"object", "held: the ids of those that stay"},
         {{kInvalidParams, "no content id, or too many"},
          {kServerError, "content.duties_unknown, or the error of what says the duties"}},
         {{R"([["0x6d1f0e2b3c4d5a697887b6c5d4e3f2010f1e2d3c4b5a69788796a5b4c3d2e1f0"]])", R"({"held":[]})"}},
         [content = backend.content](const Call& call) -> Result { return drop_contents(*content, call); },
         Access::cookie}));
    QUERN_CHECK(registry.add(
        {"admin_fetchContents",
         "Tells this node which contents will be asked of it next, in this order: those that it lacks it gets from "
         "other "
         "nodes meanwhile, some at a time. Waits for nothing.",
         {{"contents", Kind::array, true, "content ids, 4096 at most; as many may wait"},
          {"maxBytes", Kind::number, false, "none that is larger is fetched"}},
         {"object", "here: the ids of those that this node has"},
         {{kInvalidParams, "no content id, or too many"}},
         {{R"([["0x6d1f0e2b3c4d5a697887b6c5d4e3f2010f1e2d3c4b5a69788796a5b4c3d2e1f0"]])", R"({"here":[]})"}},
         [content = backend.content](const Call& call) -> Result { return fetch_contents(*content, call); },
         Access::cookie}));
    QUERN_CHECK(
        registry.add({"logging",
                      "Which categories the log shows at debug level, after switching some on and then some off. Lasts "
                      "until the node "
                      "stops.",
                      {{"include", Kind::array, false, "names of categories to show at debug level; \"all\" for each"},
                       {"exclude", Kind::array, false, "names of categories not to show so"}},
                      {"object", "each category's name with true or false"},
                      {{kInvalidParams, "unknown logging category"}},
                      {{R"([["p2p"],[]])", R"({"node":false,"p2p":true})"}},
                      logging,
                      Access::cookie}));
    return registry.add({"admin_stop",
                         "Stops the node cleanly.",
                         {},
                         {"boolean", "true: the node is stopping"},
                         {},
                         {{"[]", "true"}},
                         [stop = backend.request_stop](const Call&) -> Result {
                             if (!stop) return rpc_fail(kServerError, "this node cannot be stopped from here");
                             stop();
                             return json::Value(true);
                         },
                         Access::cookie});
}

}  // namespace quern::rpc::methods
