// What a header must say given its parent: numbers, epochs, views, times, committee, the parent's certificate. Roots
// and gas used are execution's. Used to make headers and to check them. Pure; thread-safe.
#pragma once

#include "chain/consensus/certificate.h"
#include "chain/consensus/terms.h"
#include "chain/params/params.h"
#include "chain/types/block.h"

namespace quern::chain::consensus {

// An epoch is a run of `epoch_length` heights; the genesis block is height 0 of epoch 0. Views count from 1 in each
// epoch (the genesis block has view 0).
[[nodiscard]] std::uint64_t epoch_of(const params::ChainParams& params, std::uint64_t number);
// The view that follows `parent`'s in the epoch of the next height.
[[nodiscard]] std::uint64_t next_view(const params::ChainParams& params, const Tip& parent);

// Errors: header.wrong_number, header.wrong_parent, header.wrong_epoch, header.wrong_view, header.wrong_timestamp,
// header.wrong_beacon, header.wrong_committee, header.wrong_certificate, header.wrong_gas_limit, header.vrf_proof_set,
// header.wrong_constant.
[[nodiscard]] Status check_header(const params::ChainParams& params, const Tip& parent, BytesView parent_finalization,
                                  const Committee& committee, const types::Block& block);
// The upper bound on time, against the local clock. Error header.from_the_future.
[[nodiscard]] Status check_not_future(const types::BlockHeader& header, std::uint64_t now_ms);

}  // namespace quern::chain::consensus
