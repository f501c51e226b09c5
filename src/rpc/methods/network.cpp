// eth_chainId, eth_syncing, eth_accounts; net_*; web3_*.
#include "crypto/hash.h"
#include "rpc/methods/backend.h"

namespace quern::rpc::methods {
namespace {

#if defined(__x86_64__)
constexpr const char* kPlatform = "linux-amd64";
#elif defined(__aarch64__)
constexpr const char* kPlatform = "linux-arm64";
#else
constexpr const char* kPlatform = "linux";
#endif

}  // namespace

Status add_network_methods(Registry& registry, const Backend& backend) {
    const auto* chain = backend.chain;
    const auto* network = backend.network;
    QUERN_CHECK(registry.add({"eth_chainId",
                              "The chain id that transactions are signed for (EIP-155).",
                              {},
                              {"quantity", "7876 mainnet, 7877 testnet, 7878 devnet"},
                              {},
                              {{"[]", R"("0x1ec6")"}},
                              [chain](const Call&) -> Result { return quantity(chain->chain_id()); }}));
    QUERN_CHECK(registry.add({"eth_syncing",
                              "Whether the node is catching up with others.",
                              {},
                              {"boolean or object", "false, or startingBlock, currentBlock and highestBlock"},
                              {},
                              {{"[]", "false"}},
                              [network](const Call&) -> Result {
                                  const auto sync = network->sync();
                                  if (!sync.syncing) return json::Value(false);
                                  return json::Value::object({{"startingBlock", quantity(sync.first)},
                                                              {"currentBlock", quantity(sync.current)},
                                                              {"highestBlock", quantity(sync.highest)}});
                              }}));
    QUERN_CHECK(registry.add({"eth_accounts",
                              "The accounts that the node signs for: none, keys stay in wallets.",
                              {},
                              {"array", "empty"},
                              {},
                              {{"[]", "[]"}},
                              [](const Call&) -> Result { return json::Value(json::Array()); }}));
    QUERN_CHECK(registry.add({"net_version",
                              "The network id, which is the chain id, in decimal.",
                              {},
                              {"string", "the id"},
                              {},
                              {{"[]", R"("7878")"}},
                              [chain](const Call&) -> Result { return std::to_string(chain->chain_id()); }}));
    QUERN_CHECK(registry.add({"net_listening",
                              "Whether the node takes connections from other nodes.",
                              {},
                              {"boolean", "true when it listens"},
                              {},
                              {{"[]", "true"}},
                              [network](const Call&) -> Result { return network->own_address().listening; }}));
    QUERN_CHECK(registry.add({"net_peerCount",
                              "How many other nodes are connected.",
                              {},
                              {"quantity", "number of peers"},
                              {},
                              {{"[]", R"("0x3")"}},
                              [network](const Call&) -> Result { return quantity(network->peer_count()); }}));
    QUERN_CHECK(registry.add(
        {"web3_clientVersion",
         "Name, version and platform of the node.",
         {},
         {"string", "name/version/platform"},
         {},
         {{"[]", R"("Quern/v0.1.0/linux-amd64")"}},
         [version = backend.version](const Call&) -> Result { return "Quern/v" + version + "/" + kPlatform; }}));
    return registry.add({"web3_sha3",
                         "Keccak-256 of bytes.",
                         {{"data", Kind::data, true, "the bytes"}},
                         {"hash", "their hash"},
                         {},
                         {{R"(["0x68656c6c6f20776f726c64"])",
                           R"("0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad")"}},
                         [](const Call& call) -> Result { return hex(crypto::keccak256(call.data(0))); }});
}

}  // namespace quern::rpc::methods
