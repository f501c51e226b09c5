// Real quernd processes of one network on loopback, for measuring through the doors that users have. The programs are
// those beside quern-bench. Used by quern-bench alone; one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/shaped_link.h"
#include "chain/exec/genesis.h"
#include "crypto/signature.h"

namespace quern::bench {

// The folder of the running program.
[[nodiscard]] std::string program_folder();
// A port on loopback that nobody listens on now.
[[nodiscard]] std::uint16_t free_port();

class LocalNetwork {
public:
    // Starts one validator for each key in full mesh and waits until all answer. `genesis` has everything but the
    // validators. With a link, which outlives it, there are two, one at each of its sides, and only from there their
    // ports of RPC are to be reached. Ends the program when it cannot.
    LocalNetwork(std::string folder, chain::exec::Genesis genesis, const std::vector<crypto::PrivateKey>& validators,
                 const ShapedLink* link = nullptr);
    ~LocalNetwork();
    LocalNetwork(const LocalNetwork&) = delete;
    LocalNetwork& operator=(const LocalNetwork&) = delete;

    [[nodiscard]] std::size_t size() const { return nodes_.size(); }
    [[nodiscard]] std::uint16_t rpc_port(std::size_t node) const { return nodes_[node].rpc_port; }
    // A node's data directory; its contents, and the file with what its administrator shows.
    [[nodiscard]] const std::string& folder(std::size_t node) const { return nodes_[node].folder; }
    [[nodiscard]] std::string contents(std::size_t node) const { return folder(node) + "/content"; }
    [[nodiscard]] std::string credentials(std::size_t node) const { return folder(node) + "/.cookie"; }
    // Processor seconds of all nodes so far.
    [[nodiscard]] double cpu_seconds() const;
    // Seconds until the nodes use less than a twentieth of a processor: the database is done with what it has put off.
    // At most a minute.
    [[nodiscard]] double wait_until_idle() const;
    // Bytes of a node's data directory.
    [[nodiscard]] std::uint64_t disk_bytes(std::size_t node) const;

private:
    struct Node {
        pid_t process = -1;
        std::uint16_t rpc_port = 0;
        std::uint16_t p2p_port = 0;
        std::string folder;
        std::string log;
    };
    std::vector<Node> nodes_;
};

}  // namespace quern::bench
