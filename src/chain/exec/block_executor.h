// execute(block, state) -> receipts, changes, roots: a pure function of its inputs. Used by the validator to build and
// to check blocks, by RPC to simulate calls. One executor per thread; no clocks, no IO.
#pragma once

#include <functional>
#include <memory>

#include "chain/exec/result/observer.h"
#include "chain/exec/result/result_code.h"
#include "chain/params/params.h"
#include "chain/state/overlay.h"
#include "chain/types/receipt.h"

namespace quern::chain::exec {

// What a block gives to its transactions.
struct BlockContext {
    std::uint64_t number = 0;
    std::uint64_t timestamp_ms = 0;
    types::Address beneficiary;
    std::uint64_t gas_limit = 0;
    Uint256 base_fee;
    Hash32 beacon;
    std::uint64_t elapsed_ms = 0;  // from the parent's timestamp to this one's; moves market time
};

// Gas and fees of a block while it is built or checked, one transaction after the other, on one overlay.
class BlockExecution {
public:
    BlockExecution(const params::ChainParams& params, state::Overlay& overlay, const BlockContext& context,
                   ExecutionObserver* observer = nullptr);
    BlockExecution(BlockExecution&&) noexcept;
    ~BlockExecution();

    // System steps that come before the transactions: the beacon's record, market time. Call once. What the state
    // failed in here, finish() tells.
    void begin();
    // Executes one transaction. A result code in a band that does not pay (malformed, refused, retry) leaves the
    // overlay unchanged and the transaction must not be in the block; else a receipt is appended.
    [[nodiscard]] Result apply(const types::RecoveredTransaction& tx);
    // System steps after the transactions; invariants when params.check_invariants. Errors exec.invariant_broken,
    // state.corrupt_object.
    [[nodiscard]] Status finish();

    [[nodiscard]] std::uint64_t gas_used() const;
    [[nodiscard]] const std::vector<types::Receipt>& receipts() const;
    [[nodiscard]] std::vector<types::Receipt> take_receipts();  // leaves none; nothing may be applied after it

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// A call that is not committed (eth_call, eth_estimateGas): no signature, no nonce check, fees not charged when
// gas price is 0. Works on a copy: the overlay given is thrown away by the caller.
struct CallRequest {
    types::Address from;
    std::optional<types::Address> to;
    Uint256 value;
    Bytes data;
    std::uint64_t gas_limit = 0;
    Uint256 gas_price;
    std::vector<types::AccessListEntry> access_list;  // paid for as in a type-1 transaction
};
struct CallResult {
    bool success = false;
    std::uint64_t gas_used = 0;
    Bytes output;         // return data, or revert data
    std::string failure;  // as in receipts
};
[[nodiscard]] Expected<CallResult> simulate(const params::ChainParams& params, state::Overlay& overlay,
                                            const BlockContext& context, const CallRequest& call);

// EIP-1559.
[[nodiscard]] Uint256 next_base_fee(const params::ChainParams& params, std::uint64_t parent_gas_used,
                                    std::uint64_t parent_gas_limit, const Uint256& parent_base_fee);

// Quick checks for the mempool: form, signature values, fees against `base_fee`, intrinsic gas, balance and nonce
// against `state` (a nonce ahead of the account's is ok here), and the native kind's check_form; of evidence also that
// it convicts in block `height`, the one after `state`, with the gas that it has when it offers no fee.
[[nodiscard]] Result precheck(const params::ChainParams& params, const state::StateReader& state, std::uint64_t height,
                              const types::RecoveredTransaction& tx, const Uint256& base_fee);

}  // namespace quern::chain::exec
