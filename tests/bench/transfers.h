// Accounts with fixed keys and transfers signed beforehand, for the cases that load a network. Plain functions; one
// thread.
#pragma once

#include <string>
#include <vector>

#include "chain/types/transaction.h"

namespace quern::bench {

// The same key for the same number in each run.
[[nodiscard]] crypto::PrivateKey load_key(std::uint32_t number);
[[nodiscard]] std::vector<crypto::PrivateKey> load_keys(const std::vector<std::uint32_t>& numbers);
// An address that nobody has the key of.
[[nodiscard]] chain::types::Address sink_address(std::size_t number);
// One grain to `to`, at a fee that outbids what full blocks make of the base fee; encoded.
[[nodiscard]] Bytes signed_transfer(const crypto::PrivateKey& key, std::uint64_t nonce,
                                    const chain::types::Address& to);
// Processor seconds of this process so far, and of the whole machine.
[[nodiscard]] double own_cpu_seconds();
[[nodiscard]] double machine_cpu_seconds();

}  // namespace quern::bench
