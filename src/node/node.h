// A whole node: opens the data directory, wires storage, mempool, consensus and RPC, and runs until it is told to stop.
// The only place that knows all parts. start(), run() and the destructor belong to one thread; request_stop() and
// stop_requested() may be called from any.
//
// The data directory:
//   .lock               held while a node runs
//   .cookie             user:password of local administration, made anew at each start
//   chaindata/          LevelDB: blocks, receipts, state, indexes
//   consensus/sdbft.journal    what this validator signed
//   node.key            the key of a node that is no validator
//   peers.dat           known nodes
//   content/            the content store
//   mempool.journal     waiting transactions
//   debug.log, quern.conf
#pragma once

#include <memory>

#include "node/options.h"

namespace quern::node {

class Node {
public:
    // Errors name what is wrong and where: fs.locked, node.*, genesis.*, store.*, key_file.*, consensus.*, rpc.*.
    [[nodiscard]] static Expected<std::unique_ptr<Node>> start(const NodeOptions& options);
    // Stops everything in order: no new requests, the block that is being made, the files.
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    void request_stop();
    [[nodiscard]] bool stop_requested() const;
    // Why the node stopped by itself; success when it was asked to.
    [[nodiscard]] Status result() const;

private:
    struct Services;
    explicit Node(std::unique_ptr<Services> services);
    std::unique_ptr<Services> services_;
};

}  // namespace quern::node
