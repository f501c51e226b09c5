#include "chain/types/block.h"

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::chain::types {
namespace {

constexpr std::uint64_t kConsensusFieldsVersion = 1;
constexpr std::uint8_t kFirstListPrefix = 0xc0;

constexpr std::uint8_t digit(char c) { return static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }
constexpr Hash32 literal(const char (&hex)[65]) {
    Hash32 hash;
    for (std::size_t i = 0; i < 32; ++i)
        hash.data[i] = static_cast<std::uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    return hash;
}

Status expect_hash(rlp::Reader& in, const Hash32& wanted, std::string_view error) {
    QUERN_TRY(const Hash32 hash, in.fixed<32>());
    if (hash != wanted) return fail(error);
    return {};
}

Status expect_zero(rlp::Reader& in, std::string_view error) {
    QUERN_TRY(const std::uint64_t value, in.u64());
    if (value != 0) return fail(error);
    return {};
}

void write_fields(rlp::Writer& out, const BlockHeader& header) {
    out.begin_list();
    out.fixed(header.parent_hash).fixed(kEmptyOmmersHash).fixed(header.beneficiary).fixed(header.state_root);
    out.fixed(header.transactions_root).fixed(header.receipts_root).fixed(header.logs_bloom);
    out.integer(std::uint64_t{0});  // difficulty
    out.integer(header.number).integer(header.gas_limit).integer(header.gas_used).integer(header.timestamp);
    out.bytes(encode(header.consensus)).fixed(header.prev_randao);
    out.fixed(FixedBytes<8>{});  // nonce
    out.integer(header.base_fee_per_gas).fixed(header.withdrawals_root);
    out.integer(std::uint64_t{0}).integer(std::uint64_t{0});  // blob gas used, excess blob gas
    out.fixed(header.parent_beacon_block_root).fixed(kEmptyRequestsHash);
    out.end_list();
}

Expected<BlockHeader> read_fields(rlp::Reader in) {
    BlockHeader header;
    QUERN_TRY(header.parent_hash, in.fixed<32>());
    QUERN_CHECK(expect_hash(in, kEmptyOmmersHash, "header.bad_ommers_hash"));
    QUERN_TRY(header.beneficiary, in.fixed<20>());
    QUERN_TRY(header.state_root, in.fixed<32>());
    QUERN_TRY(header.transactions_root, in.fixed<32>());
    QUERN_TRY(header.receipts_root, in.fixed<32>());
    QUERN_TRY(header.logs_bloom, in.fixed<256>());
    QUERN_CHECK(expect_zero(in, "header.bad_difficulty"));
    QUERN_TRY(header.number, in.u64());
    QUERN_TRY(header.gas_limit, in.u64());
    QUERN_TRY(header.gas_used, in.u64());
    QUERN_TRY(header.timestamp, in.u64());
    QUERN_TRY(const BytesView extra, in.bytes());
    QUERN_TRY(header.consensus, decode_consensus_fields(extra));
    QUERN_TRY(header.prev_randao, in.fixed<32>());
    QUERN_TRY(const FixedBytes<8> nonce, in.fixed<8>());
    if (!nonce.is_zero()) return fail("header.bad_nonce");
    QUERN_TRY(header.base_fee_per_gas, in.u256());
    QUERN_TRY(header.withdrawals_root, in.fixed<32>());
    QUERN_CHECK(expect_zero(in, "header.bad_blob_gas"));
    QUERN_CHECK(expect_zero(in, "header.bad_blob_gas"));
    QUERN_TRY(header.parent_beacon_block_root, in.fixed<32>());
    QUERN_CHECK(expect_hash(in, kEmptyRequestsHash, "header.bad_requests_hash"));
    QUERN_CHECK(in.expect_end());
    return header;
}

// Inside a block a legacy transaction is its list, a typed one a string that holds the envelope.
Expected<Bytes> read_transaction(rlp::Reader& in) {
    QUERN_TRY(const rlp::Item item, in.next());
    if (item.is_list) return to_bytes(item.whole);
    if (item.payload.empty() || item.payload[0] >= 0x80) return fail("block.bad_transaction", "no typed envelope");
    return to_bytes(item.payload);
}

}  // namespace

constinit const Hash32 kEmptyOmmersHash = literal("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");
constinit const Hash32 kEmptyRequestsHash = literal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
constinit const Hash32 kEmptyTrieRoot = literal("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");

Bytes encode(const ConsensusFields& fields) {
    rlp::Writer out;
    out.begin_list().integer(kConsensusFieldsVersion).integer(fields.view).integer(fields.epoch);
    out.fixed(fields.parent_certificate_hash).fixed(fields.committee_hash).fixed(fields.next_committee_hash);
    out.fixed(fields.native_root).fixed(fields.beacon).bytes(fields.vrf_proof).integer(fields.timestamp_ms).end_list();
    return std::move(out).finish();
}

Expected<ConsensusFields> decode_consensus_fields(BytesView bytes) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    QUERN_TRY(const std::uint64_t version, in.u64());
    if (version != kConsensusFieldsVersion) return fail("header.unknown_consensus_version", std::to_string(version));
    ConsensusFields fields;
    QUERN_TRY(fields.view, in.u64());
    QUERN_TRY(fields.epoch, in.u64());
    QUERN_TRY(fields.parent_certificate_hash, in.fixed<32>());
    QUERN_TRY(fields.committee_hash, in.fixed<32>());
    QUERN_TRY(fields.next_committee_hash, in.fixed<32>());
    QUERN_TRY(fields.native_root, in.fixed<32>());
    QUERN_TRY(fields.beacon, in.fixed<32>());
    QUERN_TRY(const BytesView proof, in.bytes());
    if (proof.size() > kMaxVrfProofBytes) return fail("header.vrf_proof_too_large");
    fields.vrf_proof = to_bytes(proof);
    QUERN_TRY(fields.timestamp_ms, in.u64());
    QUERN_CHECK(in.expect_end());
    return fields;
}

Bytes encode(const BlockHeader& header) {
    rlp::Writer out;
    write_fields(out, header);
    return std::move(out).finish();
}

Expected<BlockHeader> decode_header(BytesView bytes) {
    QUERN_TRY(const rlp::Reader in, rlp::decode_list(bytes));
    return read_fields(in);
}

Hash32 hash_of(const BlockHeader& header) { return crypto::keccak256(encode(header)); }

Bytes encode(const Block& block) {
    rlp::Writer out;
    out.begin_list();
    write_fields(out, block.header);
    out.begin_list();
    for (const auto& transaction : block.transactions) {
        if (!transaction.empty() && transaction[0] >= kFirstListPrefix)
            out.raw(transaction);
        else
            out.bytes(transaction);
    }
    out.end_list().begin_list().end_list();  // no ommers
    out.begin_list();
    for (const auto& withdrawal : block.withdrawals) record::write_field(out, withdrawal);
    out.end_list().bytes(block.parent_certificate).end_list();
    return std::move(out).finish();
}

Expected<Block> decode_block(BytesView bytes) {
    if (bytes.size() > kMaxBlockBytes) return fail("block.too_large", std::to_string(bytes.size()) + " bytes");
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    Block block;
    QUERN_TRY(const rlp::Reader header, in.list());
    QUERN_TRY(block.header, read_fields(header));
    QUERN_TRY(rlp::Reader transactions, in.list());
    while (!transactions.at_end()) {
        // Each takes many times what the shortest ones have on the wire.
        if (block.transactions.size() == kMaxBlockTransactions) return fail("block.too_many_transactions");
        QUERN_TRY(Bytes transaction, read_transaction(transactions));
        if (transaction.size() > kMaxTransactionBytes) return fail("tx.too_large");
        block.transactions.push_back(std::move(transaction));
    }
    QUERN_TRY(const rlp::Reader ommers, in.list());
    if (!ommers.at_end()) return fail("block.has_ommers");
    QUERN_TRY(rlp::Reader withdrawals, in.list());
    while (!withdrawals.at_end()) {
        QUERN_CHECK(record::read_field(withdrawals, block.withdrawals.emplace_back()));
    }
    QUERN_TRY(const BytesView certificate, in.bytes());
    block.parent_certificate = to_bytes(certificate);
    QUERN_CHECK(in.expect_end());
    return block;
}

}  // namespace quern::chain::types
