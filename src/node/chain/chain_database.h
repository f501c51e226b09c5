// The chain's database at start: which chain it holds, and the first state where it holds none yet. Used by the node
// and by quern-genesis. Functions belong to the thread that opens the store.
#pragma once

#include <optional>
#include <string>

#include "chain/exec/genesis.h"
#include "chain/store/kv.h"

namespace quern::node {

// 5: receipts without blooms; 6: an index of activity. One of version 5 becomes one of 6 when it is opened: a program
// that keeps no index must not go on with it afterwards, since it would leave a hole.
inline constexpr std::uint64_t kDatabaseVersion = 6;
inline constexpr std::uint64_t kVersionWithoutIndex = 5;

struct ChainSetup {
    chain::exec::Genesis genesis;
    Hash32 genesis_hash;
    bool archive = false;  // the database keeps the state after every block
};

// Block 0 and the batch that makes its state (an archive's nodes, too, when asked for), from an empty store. Errors:
// genesis.*, committee.*.
struct GenesisBlock {
    chain::types::Block block;
    Hash32 hash;
    chain::store::WriteBatch batch;  // state, block, head, meta
};
[[nodiscard]] Expected<GenesisBlock> make_genesis_block(const chain::exec::Genesis& genesis, bool archive = false);

// Opens what the store holds. An empty store is set up from `genesis_text`, in one synced batch, as an archive when
// asked for, and stays one; else the text, when given, must describe the chain that is there. Errors: node.no_genesis,
// node.wrong_genesis, node.database_version, node.not_archive (asked for, and not one from its start), genesis.*,
// store.*.
[[nodiscard]] Expected<ChainSetup> open_chain_database(chain::store::Store& store,
                                                       const std::optional<std::string>& genesis_text,
                                                       bool archive = false);

}  // namespace quern::node
