// Transactions of Ethereum's blocks, types 0 to 4, in the rules of their fork (EIPs 2, 155, 2718, 2930, 1559, 4844,
// 7702). Functions without state; thread-safe.
#pragma once

#include "vm/evm/transition.h"

namespace quern::chain::ethereum {

// With its sender recovered; `data` of the result looks into the envelope. Whether the fork has the type is for the
// transition to say. Errors: rlp.*, tx.type_not_supported, tx.type_3_tx_with_full_blobs, tx.invalid_signature_vrs.
[[nodiscard]] Expected<vm::evm::TransactionInput> decode_transaction(BytesView envelope, vm::evm::Revision revision);

// Who signed it (EIP-7702): nullopt when the signature is none. `y_parity` may be any number.
[[nodiscard]] std::optional<vm::evm::Address> recover_authority(const vm::evm::SignedAuthorization& authorization,
                                                                const Uint256& y_parity, const Uint256& r,
                                                                const Uint256& s);

}  // namespace quern::chain::ethereum
