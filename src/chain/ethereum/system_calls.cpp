#include "chain/ethereum/system_calls.h"

#include "vm/evm/code.h"

namespace quern::chain::ethereum {
namespace {

using vm::evm::Address;

Address address(std::string_view text) { return fixed_from_hex<Address::kSize>(text).value(); }

const Address kSystem = address("0xfffffffffffffffffffffffffffffffffffffffe");
const Address kBeaconRoots = address("0x000f3df6d732807ef1319fb7b8bb8522d0beac02");
const Address kHistory = address("0x0000f90827f1c53a10cb7a02335b175320002935");
const Address kWithdrawals = address("0x00000961ef480eb55e80d19ad83579a64c007002");
const Address kConsolidations = address("0x0000bbddc7ce488642fb579f8b00f3a590007251");

constexpr std::int64_t kSystemCallGas = 30'000'000;  // beside the block's

}  // namespace

void SystemCalls::store_beacon_root(const Hash32& parent_beacon_block_root) {
    (void)call(kBeaconRoots, parent_beacon_block_root);
}

void SystemCalls::store_parent_hash(const Hash32& parent_hash) { (void)call(kHistory, parent_hash); }

Expected<Bytes> SystemCalls::take_withdrawals() { return take(kWithdrawals); }

Expected<Bytes> SystemCalls::take_consolidations() { return take(kConsolidations); }

vm::evm::CallResult SystemCalls::call(const Address& contract, BytesView input) {
    world_.begin_transaction();
    vm::evm::CallMessage message;
    message.sender = kSystem;
    message.recipient = message.code_address = contract;
    message.input = input;
    message.gas = kSystemCallGas;
    const vm::evm::TransactionContext transaction{kSystem, {}, {}};
    vm::evm::CallResult result = machine_.run(world_, block_, transaction, revision_, message);
    world_.end_transaction(true);
    return result;
}

Expected<Bytes> SystemCalls::take(const Address& contract) {
    if (world_.code(contract)->bytes().empty()) return fail("block.system_contract_empty", to_hex0x(contract));
    vm::evm::CallResult result = call(contract, {});
    if (result.halt != vm::evm::Halt::none)
        return fail("block.system_contract_call_failed", std::string(vm::evm::halt_message(result.halt)));
    return std::move(result.output);
}

}  // namespace quern::chain::ethereum
