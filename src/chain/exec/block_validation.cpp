#include "chain/exec/block_validation.h"

#include <algorithm>

#include "chain/consensus/certificate.h"
#include "chain/state/trie.h"
#include "chain/types/transaction_rules.h"

namespace quern::chain::exec {

BlockContext context_of(const types::BlockHeader& parent, const types::BlockHeader& header) {
    const std::uint64_t now = header.consensus.timestamp_ms;
    return {header.number,
            now,
            header.beneficiary,
            header.gas_limit,
            header.base_fee_per_gas,
            header.consensus.beacon,
            now - std::min(now, parent.consensus.timestamp_ms)};
}

Uint256 base_fee_on(const params::ChainParams& params, const types::BlockHeader& parent) {
    return next_base_fee(params, parent.gas_used, parent.gas_limit, parent.base_fee_per_gas);
}

Status check_header(const params::ChainParams& params, const types::BlockHeader& parent,
                    const types::BlockHeader& header) {
    const auto& fields = header.consensus;
    if (header.number != parent.number + 1) return fail("header.wrong_number", std::to_string(header.number));
    if (fields.timestamp_ms <= parent.consensus.timestamp_ms || header.timestamp != fields.timestamp_ms / 1000)
        return fail("header.wrong_timestamp", std::to_string(fields.timestamp_ms));
    if (header.prev_randao != fields.beacon) return fail("header.wrong_beacon");
    if (header.gas_limit != params.block_gas_limit)
        return fail("header.wrong_gas_limit", std::to_string(header.gas_limit));
    // There is no consensus layer beside this one (EIP-4788's root has nothing to say).
    if (!header.parent_beacon_block_root.is_zero()) return fail("header.wrong_constant", "parent beacon block root");
    if (header.base_fee_per_gas != base_fee_on(params, parent)) return fail("block.wrong_base_fee");
    return {};
}

Status check_body(const types::Block& block) {
    if (!block.withdrawals.empty()) return fail("block.unexpected_withdrawals");
    // Before anybody recovers their signatures.
    if (block.transactions.size() > block.header.gas_limit / types::kTxBaseGas)
        return fail("block.too_many_transactions", std::to_string(block.transactions.size()));
    if (block.header.consensus.parent_certificate_hash != consensus::certificate_hash(block.parent_certificate))
        return fail("block.wrong_certificate");
    return {};
}

bool body_matches(BytesView encoded) {
    const auto block = types::decode_block(encoded);
    return block && block->withdrawals.empty() && block->header.withdrawals_root == types::kEmptyTrieRoot &&
           // Before their root is reckoned: more than its gas can have paid for are not its own.
           block->transactions.size() <= block->header.gas_used / types::kTxBaseGas &&
           state::ordered_trie_root(block->transactions) == block->header.transactions_root;
}

Status check_results(const types::BlockHeader& claimed, const types::BlockHeader& actual) {
    const auto wrong = [](const char* field) { return fail("block.wrong_root", field); };
    if (claimed.gas_used != actual.gas_used) return fail("block.wrong_gas", std::to_string(actual.gas_used));
    if (claimed.transactions_root != actual.transactions_root) return wrong("transactions");
    if (claimed.receipts_root != actual.receipts_root) return wrong("receipts");
    if (claimed.logs_bloom != actual.logs_bloom) return wrong("logs bloom");
    if (claimed.state_root != actual.state_root) return wrong("state");
    if (claimed.consensus.native_root != actual.consensus.native_root) return wrong("native objects");
    if (claimed.withdrawals_root != actual.withdrawals_root) return wrong("withdrawals");
    if (claimed != actual) return fail("block.wrong_header");
    return {};
}

}  // namespace quern::chain::exec
