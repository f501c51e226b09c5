// What an Ethereum block does to the state that its parent left, in the rules of its fork, and whether its header says
// so. For official blockchain tests: the node's own blocks are chain/exec's. One thread.
#pragma once

#include <functional>

#include "chain/ethereum/ancestry.h"
#include "chain/ethereum/networks.h"
#include "chain/evm/code_cache.h"
#include "chain/state/overlay.h"
#include "vm/evm/machine.h"
#include "vm/evm/transition.h"

namespace quern::chain::ethereum {

// Sees each transaction, but not the calls that a block makes by itself.
class TransactionWatcher {
public:
    virtual ~TransactionWatcher() = default;
    virtual void begin() = 0;
    virtual void end(const vm::evm::TransactionResult& result, const state::Overlay& overlay) = 0;
};

struct Surroundings {
    const Network& network;
    std::uint64_t chain_id = 1;
    vm::evm::Machine& machine;
    evm::CodeCache& codes;
    // The root of the state under an overlay: receipts before Byzantium have it, too.
    std::function<Hash32(const state::Overlay&)> root_of;
    TransactionWatcher* watcher = nullptr;  // null: nobody
};

// Applies the block, whose header may follow `parent` (check_header), to an overlay over the parent's state. After an
// error the overlay is of no use. Errors: those that execution-spec-tests has, as check_header's, those of its
// transactions
// ("tx.nonce_mismatch_too_low"), rlp.*.
[[nodiscard]] Status execute_block(const Surroundings& surroundings, const Block& block, const Ancestor& parent,
                                   state::Overlay& overlay);

}  // namespace quern::chain::ethereum
