// admin_*: local administration with the node's cookie.
#include "rpc/methods/backend.h"

namespace quern::rpc::methods {
namespace {

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
                                {"bytesIn", peer.bytes_in},
                                {"bytesOut", peer.bytes_out},
                                {"score", std::int64_t{peer.score}}});
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
    QUERN_CHECK(registry.add({"admin_peers",
                              "The connected nodes.",
                              {},
                              {"array",
                               "objects: id, enode, name, inbound, static, finalized, rttMs, bytesIn, bytesOut, score "
                               "(points of offences; at 100 it is left)"},
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
