// Whether a block is valid on its parent, beside what its transactions do: the header against the parent and the
// parameters, the body against the header, and the results that the header claims against those of the execution. Used
// by the node for blocks of others; what consensus checks (sdbft::check_proposed: epoch, view, committees, beacon, the
// parent's certificate) is not looked at again. Pure.
#pragma once

#include "chain/exec/block_executor.h"
#include "chain/types/block.h"

namespace quern::chain::exec {

// What the header says to the transactions. Its timestamp is above the parent's.
[[nodiscard]] BlockContext context_of(const types::BlockHeader& parent, const types::BlockHeader& header);

// The base fee of a block on `parent` (EIP-1559), in grains per gas.
[[nodiscard]] Uint256 base_fee_on(const params::ChainParams& params, const types::BlockHeader& parent);

// What the parent and the parameters alone decide. Errors: header.wrong_number, header.wrong_timestamp,
// header.wrong_beacon, header.wrong_gas_limit, header.wrong_constant, block.wrong_base_fee.
[[nodiscard]] Status check_header(const params::ChainParams& params, const types::BlockHeader& parent,
                                  const types::BlockHeader& header);

// What the body and its header decide without executing. Errors: block.unexpected_withdrawals, block.wrong_certificate.
[[nodiscard]] Status check_body(const types::Block& block);

// Whether the encoded block's transactions and withdrawals are those of its header's roots.
[[nodiscard]] bool body_matches(BytesView encoded);

// The claimed header against the one that execution gives. Errors: block.wrong_gas, block.wrong_root,
// block.wrong_header.
[[nodiscard]] Status check_results(const types::BlockHeader& claimed, const types::BlockHeader& actual);

}  // namespace quern::chain::exec
