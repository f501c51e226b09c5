// The node's options as plain structs, from the command line and quern.conf (the same names, Bitcoin Core's habits).
// Core code sees these structs, never argv. Pure but for reading the configuration file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log_control.h"
#include "chain/mempool/pool.h"
#include "content/store.h"
#include "node/chain/checkpoint.h"
#include "p2p/network.h"
#include "rpc/gate.h"
#include "rpc/http_server.h"
#include "rpc/ws_server.h"

namespace quern::node {

inline constexpr std::uint16_t kDefaultRpcPort = 8545;
inline constexpr std::uint16_t kDefaultPort = 7876;
inline constexpr std::size_t kMaxConfigBytes = 1U << 20;

struct PeerOptions {
    bool listen = true;
    std::string bind = "0.0.0.0";
    std::uint16_t port = kDefaultPort;  // 0: any free one
    std::vector<p2p::messages::Endpoint> advertised;
    std::vector<p2p::StaticPeer> static_peers;
    std::vector<p2p::StaticPeer> seed_nodes;
    std::size_t max_inbound = 64;
    std::size_t max_outbound = 8;
    std::uint64_t max_upload_bytes_per_second = 0;  // of contents; 0: learned
};

struct NodeOptions {
    std::string datadir;
    std::string network;                   // expected; empty: whatever the genesis says
    std::string genesis_file;              // needed at first start
    std::optional<Checkpoint> checkpoint;  // else what the release knows of the network
    std::string validator_key;             // empty: this node makes no blocks
    std::string validator_password_file;
    std::string node_key;  // of a node that is no validator; default <datadir>/node.key, made when it is not there
    bool accept_missing_journal = false;
    std::string test_fault;                  // test builds only: double_vote
    bool archive = false;                    // keep the state after every block
    std::optional<std::uint64_t> revert_to;  // go back to this block first
    std::size_t database_cache_mib = 64;
    unsigned threads = 0;  // for signatures and hashing; 0: one per CPU
    PeerOptions peers;
    rpc::HttpOptions rpc;
    bool rpc_enabled = true;
    rpc::WsOptions ws;
    bool ws_enabled = true;  // only with RPC
    rpc::GateRules gate;     // but for the cookie
    chain::mempool::PoolLimits mempool;
    std::uint64_t content_quota_bytes = content::kDefaultQuotaBytes;
    std::uint64_t content_min_free_bytes = content::kDefaultMinFreeBytes;
    std::uint64_t content_min_idle_seconds = content::kDefaultMinIdleSeconds;
    std::uint64_t content_max_item_bytes = content::kDefaultMaxItemBytes;
    log::Options log;  // file: <datadir>/debug.log unless set
    log::Rotation log_rotation;
};

// What the command line asked for instead of running the node: text to print and an exit code.
struct EarlyExit {
    std::string text;
    int code = 0;
};
struct ParsedOptions {
    NodeOptions options;
    std::optional<EarlyExit> exit;
};

// Reads the command line, then <datadir>/quern.conf (or -conf), whose lines stand before the command line's. A mistake
// is an EarlyExit with code 2.
[[nodiscard]] ParsedOptions parse_options(int argc, const char* const* argv);

// "name=value" lines as arguments "--name=value"; "#" starts a comment line, a name alone means 1.
// Errors: config.bad_line (with its number).
[[nodiscard]] Expected<std::vector<std::string>> parse_config(std::string_view text);

}  // namespace quern::node
