// What a block charges by what its parent used: the base fee (EIP-1559), the excess of blob gas and its price
// (EIP-4844, EIP-7691, EIP-7918). Pure; thread-safe.
#pragma once

#include "chain/ethereum/block.h"
#include "chain/ethereum/networks.h"

namespace quern::chain::ethereum {

inline constexpr std::uint64_t kBlobGas = std::uint64_t{1} << 17;

// Of a child of London or later; `parent` may be the last block without one.
[[nodiscard]] Uint256 next_base_fee(const Header& parent);

// Of a child in `fork`, which has blobs; the parent may be without.
[[nodiscard]] std::uint64_t next_excess_blob_gas(const Fork& fork, const Header& parent);

// EIP-4844's fake_exponential with factor 1; all ones when it does not fit.
[[nodiscard]] Uint256 blob_base_fee(const Uint256& excess_blob_gas, const Uint256& update_fraction);

}  // namespace quern::chain::ethereum
