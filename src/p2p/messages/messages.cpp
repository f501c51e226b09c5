#include "p2p/messages/messages.h"

namespace quern::p2p::messages {

// Or the largest blocks could be neither proposed nor fetched.
static_assert(kMaxConsensusMessage >= chain::types::kMaxBlockBytes + 65 * 5'000);  // with 65 certificates
// Half of the places of the largest proposal can be asked for, each as an integer of up to three bytes.
static_assert(rule_of(Type::get_proposal_transactions).max_bytes >= kMaxBlockTransactions / 2 * 3 + 64);
static_assert(kMaxBlockMessage >= chain::types::kMaxBlockBytes + 5'000 && kMaxRangeMessage > kMaxBlockMessage);

namespace {

quern::Status check_text(std::string_view text) {
    for (const char c : text)
        if (c < 0x20 || c > 0x7e) return fail(kBadText, "not printable");
    return {};
}

quern::Status check_prefilled(const std::vector<PrefilledTransaction>& prefilled, std::size_t count) {
    if (count > kMaxBlockTransactions) return fail(kTooMany, "transactions");
    std::uint64_t least = 0;
    for (const auto& each : prefilled) {
        if (each.index < least || each.index >= count) return fail("message.bad_index");
        least = each.index + 1;
    }
    return {};
}

quern::Status check_indexes(const std::vector<std::uint64_t>& indexes) {
    if (indexes.empty()) return fail("message.empty");
    for (std::size_t i = 0; i < indexes.size(); ++i)
        if (indexes[i] >= kMaxBlockTransactions || (i != 0 && indexes[i] <= indexes[i - 1]))
            return fail("message.bad_index");
    return {};
}

struct Withdrawals {
    std::vector<chain::types::Withdrawal> list;
    static constexpr bool kBare = true;
    QUERN_FIELDS(v("withdrawals", list, record::AtMost{kMaxWithdrawals, kTooMany}))
};

}  // namespace

Bytes HeaderCodec::encode(const chain::types::BlockHeader& header) { return chain::types::encode(header); }

Expected<chain::types::BlockHeader> HeaderCodec::decode(BytesView bytes) { return chain::types::decode_header(bytes); }

Bytes WithdrawalsCodec::encode(const std::vector<chain::types::Withdrawal>& withdrawals) {
    return record::encode_record(Withdrawals{withdrawals});
}

Expected<std::vector<chain::types::Withdrawal>> WithdrawalsCodec::decode(BytesView bytes) {
    QUERN_TRY(auto withdrawals, record::decode_record<Withdrawals>(bytes));
    return std::move(withdrawals.list);
}

quern::Status Hello::check() const { return check_text(agent); }

quern::Status ShortIds::check() const {
    if (ids.empty()) return fail("message.empty");
    return {};
}

// A legacy transaction stands in the block's list as it is: bytes that are no single item would become several.
quern::Status PrefilledTransaction::check() const {
    if (!encoded.empty() && encoded[0] >= 0xc0 && !rlp::decode_single(encoded))
        return fail("message.bad_envelope", "index " + std::to_string(index));
    return {};
}

quern::Status CompactBlock::check() const { return check_prefilled(prefilled, transaction_count()); }

quern::Status GetBlockTransactions::check() const { return check_indexes(indexes); }

quern::Status CompactProposal::check() const {
    if (ids.size() % kProposalIdBytes != 0) return fail("message.out_of_range", "ids");
    if (transaction_count() == 0) return fail("message.empty");
    return check_prefilled(prefilled, transaction_count());
}

quern::Status GetProposalTransactions::check() const { return check_indexes(indexes); }

quern::Status BlockAnswer::check() const {
    if (block.empty()) return fail("message.empty", "no block");
    return {};
}

quern::Status CertificateAnswer::check() const {
    if (certificates.empty()) return fail("message.empty");
    for (const auto& certificate : certificates)
        if (certificate.empty()) return fail("message.empty");
    return {};
}

quern::Status GetRange::check() const {
    if (count == 0 || count > kMaxRangeBlocks || first > ~count) return fail("message.out_of_range");
    return {};
}

quern::Status FindContent::check() const {
    if (ids.empty()) return fail("message.empty");
    return {};
}

quern::Status ContentHolding::check() const {
    if (size > kMaxContentBytes) return fail("message.out_of_range", "content size");
    const std::uint64_t count = (size + kChunkBytes - 1) / kChunkBytes;
    if (!chunks.empty() && chunks.size() != (count + 7) / 8) return fail("message.bad_bitmap");
    if (!chunks.empty() && count % 8 != 0 && (chunks.back() >> (count % 8)) != 0) return fail("message.bad_bitmap");
    return {};
}

quern::Status GetLeaves::check() const {
    if (count == 0 || first > kMaxContentBytes / 16'384) return fail("message.out_of_range");
    return {};
}

quern::Status Refusal::check() const {
    if (code < RefusalCode::not_found || code > RefusalCode::unsupported) return fail("message.out_of_range");
    return check_text(detail);
}

Expected<Status> decode_status(BytesView body) { return record::decode_record<Status>(body); }
Expected<Hello> decode_hello(BytesView body) { return record::decode_record<Hello>(body); }
Expected<GetPeers> decode_get_peers(BytesView body) { return record::decode_record<GetPeers>(body); }
Expected<Peers> decode_peers(BytesView body) { return record::decode_record<Peers>(body); }
Expected<ShortIds> decode_short_ids(BytesView body) { return record::decode_record<ShortIds>(body); }
Expected<Transactions> decode_transactions(BytesView body) { return record::decode_record<Transactions>(body); }
Expected<CompactBlock> decode_compact_block(BytesView body) { return record::decode_record<CompactBlock>(body); }
Expected<chain::types::BlockHeader> decode_compact_header(BytesView body) {
    QUERN_TRY(auto fields, rlp::decode_list(body));
    QUERN_TRY(const BytesView header, fields.bytes());
    return HeaderCodec::decode(header);
}
Expected<GetBlockTransactions> decode_get_block_transactions(BytesView body) {
    return record::decode_record<GetBlockTransactions>(body);
}
Expected<BlockTransactions> decode_block_transactions(BytesView body) {
    return record::decode_record<BlockTransactions>(body);
}
Expected<CompactProposal> decode_compact_proposal(BytesView body) {
    return record::decode_record<CompactProposal>(body);
}
Expected<GetProposalTransactions> decode_get_proposal_transactions(BytesView body) {
    return record::decode_record<GetProposalTransactions>(body);
}
Expected<ProposalTransactions> decode_proposal_transactions(BytesView body) {
    return record::decode_record<ProposalTransactions>(body);
}
Expected<GetProposal> decode_get_proposal(BytesView body) { return record::decode_record<GetProposal>(body); }
Expected<GetBlock> decode_get_block(BytesView body) { return record::decode_record<GetBlock>(body); }
Expected<BlockAnswer> decode_block_answer(BytesView body) { return record::decode_record<BlockAnswer>(body); }
Expected<GetCertificate> decode_get_certificate(BytesView body) { return record::decode_record<GetCertificate>(body); }
Expected<CertificateAnswer> decode_certificate_answer(BytesView body) {
    return record::decode_record<CertificateAnswer>(body);
}
Expected<GetRange> decode_get_range(BytesView body) { return record::decode_record<GetRange>(body); }
Expected<Range> decode_range(BytesView body) { return record::decode_record<Range>(body); }
Expected<FindContent> decode_find_content(BytesView body) { return record::decode_record<FindContent>(body); }
Expected<ContentInfo> decode_content_info(BytesView body) { return record::decode_record<ContentInfo>(body); }
Expected<GetLeaves> decode_get_leaves(BytesView body, std::uint64_t max_count) {
    QUERN_TRY(const auto value, record::decode_record<GetLeaves>(body));
    if (value.count > max_count) return fail("message.out_of_range");
    return value;
}
Expected<GetShards> decode_get_shards(BytesView body) { return record::decode_record<GetShards>(body); }
Expected<Shards> decode_shards(BytesView body) { return record::decode_record<Shards>(body); }
Expected<Leaves> decode_leaves(BytesView body) { return record::decode_record<Leaves>(body); }
Expected<Refusal> decode_refusal(BytesView body) { return record::decode_record<Refusal>(body); }

}  // namespace quern::p2p::messages
