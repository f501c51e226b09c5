// The chain's database at start: which chain it holds, and the first state where it holds none yet. Used by the node
// and by quern-genesis. Functions belong to the thread that opens the store.
#pragma once

#include <optional>
#include <string>

#include "chain/exec/genesis.h"
#include "chain/store/kv.h"

namespace quern::node {

inline constexpr std::uint64_t kDatabaseVersion = 2;  // 2: tries by path

struct ChainSetup {
    chain::exec::Genesis genesis;
    Hash32 genesis_hash;
};

// Block 0 and the batch that makes its state, from an empty store. Errors: genesis.*, committee.*.
struct GenesisBlock {
    chain::types::Block block;
    Hash32 hash;
    chain::store::WriteBatch batch;  // state, block, head, meta
};
[[nodiscard]] Expected<GenesisBlock> make_genesis_block(const chain::exec::Genesis& genesis);

// Opens what the store holds. An empty store is set up from `genesis_text`, in one synced batch; else the text, when
// given, must describe the chain that is there. Errors: node.no_genesis, node.wrong_genesis, node.database_version,
// genesis.*, store.*.
[[nodiscard]] Expected<ChainSetup> open_chain_database(chain::store::Store& store,
                                                       const std::optional<std::string>& genesis_text);

}  // namespace quern::node
