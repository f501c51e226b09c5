#include "chain/exec/block_sealer.h"

#include "chain/exec/block_validation.h"
#include "chain/state/trie.h"

namespace quern::chain::exec {

types::BlockHeader header_for(const consensus::sdbft::BlockRequest& request, const types::BlockHeader& parent,
                              const params::ChainParams& params, const types::Address& beneficiary) {
    types::BlockHeader header;
    header.parent_hash = request.parent.hash;
    header.beneficiary = beneficiary;
    header.number = parent.number + 1;
    header.gas_limit = params.block_gas_limit;
    header.timestamp = request.timestamp_ms / 1000;
    header.prev_randao = request.beacon;
    header.base_fee_per_gas = base_fee_on(params, parent);
    auto& fields = header.consensus;
    fields.view = request.view;
    fields.epoch = request.epoch;
    fields.parent_certificate_hash = consensus::certificate_hash(request.parent_certificate);
    fields.committee_hash = request.committee_hash;
    fields.next_committee_hash = request.next_committee_hash;
    fields.beacon = request.beacon;
    fields.vrf_proof = request.vrf_proof;
    fields.timestamp_ms = request.timestamp_ms;
    return header;
}

void fill_results(types::Block& block, const std::vector<types::Receipt>& receipts, std::uint64_t gas_used,
                  const state::Roots& roots) {
    auto& header = block.header;
    header.state_root = roots.state_root;
    header.consensus.native_root = roots.native_root;
    header.transactions_root = state::ordered_trie_root(block.transactions);
    std::vector<Bytes> encoded;
    encoded.reserve(receipts.size());
    header.logs_bloom = types::Bloom{};
    for (const auto& receipt : receipts) {
        const types::Bloom bloom = types::bloom_of(receipt.logs);
        encoded.push_back(types::encode_consensus(receipt, bloom));
        if (receipt.logs.empty()) continue;
        for (std::size_t i = 0; i < bloom.data.size(); ++i)
            header.logs_bloom.data[i] = static_cast<std::uint8_t>(header.logs_bloom.data[i] | bloom.data[i]);
    }
    header.receipts_root = state::ordered_trie_root(encoded);
    header.gas_used = gas_used;
    header.withdrawals_root = types::kEmptyTrieRoot;
}

}  // namespace quern::chain::exec
