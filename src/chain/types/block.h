// Blocks: Ethereum's header through Prague, with SDBFT's fields RLP-encoded in extraData, so that a client that
// recomputes keccak256(rlp(header)) gets the block's hash. Plain values.
//
//   extraData = rlp([version = 1, view, epoch, parent_certificate_hash, committee_hash, next_committee_hash,
//                    native_root, beacon, vrf_proof, timestamp_ms])
//   block     = rlp([header, [transaction...], [] (ommers), [withdrawal...], parent_certificate])
#pragma once

#include <vector>

#include "chain/types/fields.h"
#include "chain/types/transaction.h"

namespace quern::chain::types {

using Bloom = FixedBytes<256>;

inline constexpr std::size_t kMaxBlockBytes = 8U << 20;
inline constexpr std::size_t kMaxBlockTransactions = 65'536;
inline constexpr std::size_t kMaxVrfProofBytes = 128;

struct ConsensusFields {
    std::uint64_t view = 0;
    std::uint64_t epoch = 0;
    Hash32 parent_certificate_hash;
    Hash32 committee_hash;
    Hash32 next_committee_hash;
    Hash32 native_root;  // root of the native objects' trie after this block
    Hash32 beacon;       // SHA-256(parent's beacon || VRF output)
    Bytes vrf_proof;
    std::uint64_t timestamp_ms = 0;  // strictly above the parent's
    bool operator==(const ConsensusFields&) const = default;
};

struct BlockHeader {
    Hash32 parent_hash;
    Address beneficiary;
    Hash32 state_root;
    Hash32 transactions_root;
    Hash32 receipts_root;
    Bloom logs_bloom;
    std::uint64_t number = 0;
    std::uint64_t gas_limit = 0;
    std::uint64_t gas_used = 0;
    std::uint64_t timestamp = 0;  // whole seconds, timestamp_ms / 1000
    Hash32 prev_randao;           // = beacon
    Uint256 base_fee_per_gas;
    Hash32 withdrawals_root;
    Hash32 parent_beacon_block_root;
    ConsensusFields consensus;  // in extraData
    // Constant in every Quern block: ommers = keccak256(rlp([])), difficulty 0, nonce 0, blob gas 0, excess blob gas 0,
    // requests hash sha256("").
    bool operator==(const BlockHeader&) const = default;
};

struct Withdrawal {  // EIP-4895 system credit
    std::uint64_t index = 0;
    std::uint64_t validator_index = 0;
    Address address;
    std::uint64_t amount_gwei = 0;
    QUERN_FIELDS(v("index", index), v("validatorIndex", validator_index), v("address", address),
                 v("amountGwei", amount_gwei))
    bool operator==(const Withdrawal&) const = default;
};

struct Block {
    BlockHeader header;
    std::vector<Bytes> transactions;  // encoded envelopes
    std::vector<Withdrawal> withdrawals;
    Bytes parent_certificate;
    bool operator==(const Block&) const = default;
};

[[nodiscard]] Bytes encode(const ConsensusFields& fields);
[[nodiscard]] Expected<ConsensusFields> decode_consensus_fields(BytesView bytes);
[[nodiscard]] Bytes encode(const BlockHeader& header);
[[nodiscard]] Expected<BlockHeader> decode_header(BytesView bytes);
[[nodiscard]] Hash32 hash_of(const BlockHeader& header);
[[nodiscard]] Bytes encode(const Block& block);
[[nodiscard]] Expected<Block> decode_block(BytesView bytes);

extern const Hash32 kEmptyOmmersHash;    // keccak256(rlp([]))
extern const Hash32 kEmptyRequestsHash;  // sha256("") (EIP-7685)
extern const Hash32 kEmptyTrieRoot;      // keccak256(rlp(""))

}  // namespace quern::chain::types
