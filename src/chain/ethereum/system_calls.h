// The calls that a block makes by itself, of contracts that keep what the beacon chain is to know or has told: roots of
// its blocks (EIP-4788), hashes of ours (EIP-2935), withdrawals and consolidations asked for (EIP-7002, EIP-7251). Used
// by block_execution.h, for one block; one thread.
#pragma once

#include "vm/evm/machine.h"

namespace quern::chain::ethereum {

class SystemCalls {
public:
    // All outlive this.
    SystemCalls(vm::evm::Machine& machine, vm::evm::World& world, const vm::evm::BlockContext& block,
                vm::evm::Revision revision)
        : machine_(machine), world_(world), block_(block), revision_(revision) {}

    // Before the transactions. Whatever comes of it: where the contract is missing nothing happens.
    void store_beacon_root(const Hash32& parent_beacon_block_root);
    void store_parent_hash(const Hash32& parent_hash);

    // Behind the transactions: what the contracts have queued. Errors: block.system_contract_empty,
    // block.system_contract_call_failed.
    [[nodiscard]] Expected<Bytes> take_withdrawals();
    [[nodiscard]] Expected<Bytes> take_consolidations();

private:
    vm::evm::CallResult call(const vm::evm::Address& contract, BytesView input);
    [[nodiscard]] Expected<Bytes> take(const vm::evm::Address& contract);

    vm::evm::Machine& machine_;
    vm::evm::World& world_;
    const vm::evm::BlockContext& block_;
    const vm::evm::Revision revision_;
};

}  // namespace quern::chain::ethereum
