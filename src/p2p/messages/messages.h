// What peers say to each other, as records (base/record.h). Bodies are RLP; the table of types is registry.h, the
// transport's records are transport/frames.h. Used by network.cpp, gossip, sync, content exchange, fuzzers. Plain
// values; thread-safe.
//
//   status                 = [finalized_number, finalized_hash, epoch, view, earliest_block]
//   hello                  = [version, agent (<= 64 printable ASCII), listen_port, status]
//   get_peers              = [limit]                       peers = [record...] (each a string, peer_record.h)
//   consensus              = opaque bytes, not RLP
//   proposal               = [digest, before, after, ids (10 each, one string), [[index, envelope]...]]
//                            gossip/compact_proposal.h
//   get_proposal_transactions = [digest, [index...]]       proposal_transactions = [digest, [envelope...]]
//   get_proposal           = [digest]                      is given as the consensus message that it is
//   tx_announce            = [short_id (8)...]             short_id = first 8 bytes of the transaction's hash
//   get_transactions       = [short_id (8)...]             transactions = [envelope...]
//   compact_block          = [header (string), salt, [short_id...], [[index, envelope]...], [withdrawal...] (string),
//                             parent_certificate, finalization_certificate (may be empty)]
//   get_block_transactions = [block_hash, [index...]]      block_transactions = [block_hash, [envelope...]]
//   get_block              = [block_hash]                  block = [block (string), certificate (may be empty)]
//   get_certificate        = [kind, epoch, view]           certificate = [certificate (string)...]
//   get_range              = [first_number, count, max_bytes]   range = [[block, certificate]...]
//   find_content           = [id...]                       content_info = [[id, size, chunks]...]; chunks: empty when
//                            whole, else a bitmap of 1 MiB chunks, least significant bit first
//   get_leaf_hashes        = [id, first, count]            leaf_hashes = [id, first, hashes (32 each)]
//   get_leaves             = [id, first, count]            leaves = [id, first, bytes]
//   refusal                = [code, detail (<= 128)]       answers any request
//
// Decoding errors: message.too_many (a list is longer than its limit), message.bad_text, message.empty,
// message.bad_index, message.bad_bitmap, message.bad_envelope, message.out_of_range, and the reader's rlp.*.
#pragma once

#include <vector>

#include "base/record.h"
#include "chain/types/block.h"
#include "p2p/messages/registry.h"

namespace quern::p2p::messages {

inline constexpr std::uint16_t kProtocolVersion = 4;
inline constexpr std::size_t kMaxAgent = 64;
inline constexpr std::size_t kMaxPeersInAnswer = 64;
inline constexpr std::size_t kMaxShortIds = 1024;  // of tx_announce and get_transactions
using chain::types::kMaxBlockTransactions;
inline constexpr std::size_t kProposalIdBytes = 10;  // short_id (8) and a check of two bytes
inline constexpr std::size_t kMaxRangeBlocks = 128;
inline constexpr std::size_t kMaxCertificatesInAnswer = 8;  // of one kind about one view: contradictory ones
inline constexpr std::size_t kMaxFindContent = 64;
inline constexpr std::uint64_t kChunkBytes = 1U << 20;
inline constexpr std::uint64_t kLeavesPerChunk = 64;   // of 16 KiB
inline constexpr std::size_t kMaxLeafHashes = 32'768;  // 1 MiB of hashes speak for 512 MiB
inline constexpr std::uint64_t kMaxContentBytes = std::uint64_t{16} << 30;
inline constexpr std::size_t kMaxRefusalDetail = 128;

inline constexpr std::size_t kMaxWithdrawals = 16;
inline constexpr std::string_view kTooMany = "message.too_many";
inline constexpr std::string_view kBadText = "message.bad_text";

using ShortId = FixedBytes<8>;
[[nodiscard]] inline ShortId short_id(const Hash32& hash) { return ShortId::copy_of(hash.view().first(8)); }

// What a compact block holds as strings.
struct HeaderCodec {
    [[nodiscard]] static Bytes encode(const chain::types::BlockHeader& header);
    [[nodiscard]] static Expected<chain::types::BlockHeader> decode(BytesView bytes);
};
struct WithdrawalsCodec {
    [[nodiscard]] static Bytes encode(const std::vector<chain::types::Withdrawal>& withdrawals);
    [[nodiscard]] static Expected<std::vector<chain::types::Withdrawal>> decode(BytesView bytes);
};

struct Status {
    std::uint64_t finalized_number = 0;
    Hash32 finalized_hash;
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    std::uint64_t earliest_block = 0;  // from which on it serves blocks
    QUERN_FIELDS(v("finalizedNumber", finalized_number), v("finalizedHash", finalized_hash), v("epoch", epoch),
                 v("view", view), v("earliestBlock", earliest_block))
    bool operator==(const Status&) const = default;
};
struct Hello {
    std::uint16_t version = kProtocolVersion;
    std::string agent;
    std::uint16_t listen_port = 0;  // 0: takes no connections
    Status status;
    QUERN_FIELDS(v("version", version), v("agent", agent, record::AtMost{kMaxAgent, kBadText}),
                 v("listenPort", listen_port), v("status", status))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const Hello&) const = default;
};
struct GetPeers {
    std::uint64_t limit = 0;
    QUERN_FIELDS(v("limit", limit))
    bool operator==(const GetPeers&) const = default;
};
struct Peers {
    std::vector<Bytes> records;
    QUERN_FIELDS(v("records", records, record::AtMost{kMaxPeersInAnswer, kTooMany}))
    static constexpr bool kBare = true;
    bool operator==(const Peers&) const = default;
};
struct ShortIds {  // tx_announce and get_transactions
    std::vector<ShortId> ids;
    QUERN_FIELDS(v("ids", ids, record::AtMost{kMaxShortIds, kTooMany}))
    static constexpr bool kBare = true;
    [[nodiscard]] quern::Status check() const;
    bool operator==(const ShortIds&) const = default;
};
struct Transactions {
    std::vector<Bytes> encoded;
    QUERN_FIELDS(v("encoded", encoded, record::AtMost{kMaxShortIds, kTooMany}))
    static constexpr bool kBare = true;
    bool operator==(const Transactions&) const = default;
};
struct PrefilledTransaction {
    std::uint64_t index = 0;
    Bytes encoded;
    QUERN_FIELDS(v("index", index), v("encoded", encoded))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const PrefilledTransaction&) const = default;
};
struct CompactBlock {
    chain::types::BlockHeader header;
    std::uint64_t salt = 0;                       // of the ids: gossip/compact_block.h
    std::vector<ShortId> ids;                     // of the transactions that are not prefilled, in order
    std::vector<PrefilledTransaction> prefilled;  // ascending indices into the whole list
    std::vector<chain::types::Withdrawal> withdrawals;
    Bytes parent_certificate;
    Bytes certificate;
    QUERN_FIELDS(v("header", header, record::Embedded<HeaderCodec>{}), v("salt", salt),
                 v("ids", ids, record::AtMost{kMaxBlockTransactions, kTooMany}),
                 v("prefilled", prefilled, record::AtMost{kMaxBlockTransactions, kTooMany}),
                 v("withdrawals", withdrawals, record::Embedded<WithdrawalsCodec>{}),
                 v("parentCertificate", parent_certificate), v("certificate", certificate))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const CompactBlock&) const = default;
    [[nodiscard]] std::size_t transaction_count() const { return ids.size() + prefilled.size(); }
};
struct GetBlockTransactions {
    Hash32 block;
    std::vector<std::uint64_t> indexes;  // ascending
    QUERN_FIELDS(v("block", block), v("indexes", indexes, record::AtMost{kMaxBlockTransactions, kTooMany}))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const GetBlockTransactions&) const = default;
};
struct BlockTransactions {
    Hash32 block;
    std::vector<Bytes> encoded;
    QUERN_FIELDS(v("block", block), v("encoded", encoded, record::AtMost{kMaxBlockTransactions, kTooMany}))
    bool operator==(const BlockTransactions&) const = default;
};
// A proposal without the transactions that its receivers have; gossip/compact_proposal.h makes and reads it.
struct CompactProposal {
    Hash32 digest;                                // SHA-256 of the whole proposal
    Bytes before;                                 // its bytes up to the first transaction
    Bytes after;                                  // and behind the last one
    Bytes ids;                                    // of the transactions that are not prefilled, in order
    std::vector<PrefilledTransaction> prefilled;  // ascending indices into the whole list
    QUERN_FIELDS(v("digest", digest), v("before", before), v("after", after),
                 v("ids", ids, record::AtMost{kMaxBlockTransactions * kProposalIdBytes, kTooMany}),
                 v("prefilled", prefilled, record::AtMost{kMaxBlockTransactions, kTooMany}))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const CompactProposal&) const = default;
    [[nodiscard]] std::size_t transaction_count() const { return ids.size() / kProposalIdBytes + prefilled.size(); }
};
struct GetProposalTransactions {
    Hash32 digest;
    std::vector<std::uint64_t> indexes;  // ascending
    QUERN_FIELDS(v("digest", digest), v("indexes", indexes, record::AtMost{kMaxBlockTransactions, kTooMany}))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const GetProposalTransactions&) const = default;
};
struct ProposalTransactions {
    Hash32 digest;
    std::vector<Bytes> encoded;
    QUERN_FIELDS(v("digest", digest), v("encoded", encoded, record::AtMost{kMaxBlockTransactions, kTooMany}))
    bool operator==(const ProposalTransactions&) const = default;
};
struct GetProposal {
    Hash32 digest;
    QUERN_FIELDS(v("digest", digest))
    bool operator==(const GetProposal&) const = default;
};
struct GetBlock {
    Hash32 hash;
    QUERN_FIELDS(v("hash", hash))
    bool operator==(const GetBlock&) const = default;
};
struct BlockAnswer {
    Bytes block;
    Bytes certificate;
    QUERN_FIELDS(v("block", block), v("certificate", certificate))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const BlockAnswer&) const = default;
};
struct GetCertificate {
    std::uint8_t kind = 0;  // consensus' vote type
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    QUERN_FIELDS(v("kind", kind), v("epoch", epoch), v("view", view))
    bool operator==(const GetCertificate&) const = default;
};
struct CertificateAnswer {
    std::vector<Bytes> certificates;
    QUERN_FIELDS(v("certificates", certificates, record::AtMost{kMaxCertificatesInAnswer, kTooMany}))
    static constexpr bool kBare = true;
    [[nodiscard]] quern::Status check() const;
    bool operator==(const CertificateAnswer&) const = default;
};
struct GetRange {
    std::uint64_t first = 0;
    std::uint64_t count = 0;      // 1 .. kMaxRangeBlocks
    std::uint64_t max_bytes = 0;  // the answer may stop early, never before its first block
    QUERN_FIELDS(v("first", first), v("count", count), v("maxBytes", max_bytes))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const GetRange&) const = default;
};
struct Range {
    std::vector<BlockAnswer> blocks;
    QUERN_FIELDS(v("blocks", blocks, record::AtMost{kMaxRangeBlocks, kTooMany}))
    static constexpr bool kBare = true;
    bool operator==(const Range&) const = default;
};
struct FindContent {
    std::vector<Hash32> ids;
    QUERN_FIELDS(v("ids", ids, record::AtMost{kMaxFindContent, kTooMany}))
    static constexpr bool kBare = true;
    [[nodiscard]] quern::Status check() const;
    bool operator==(const FindContent&) const = default;
};
struct ContentHolding {
    Hash32 id;
    std::uint64_t size = 0;
    Bytes chunks;
    QUERN_FIELDS(v("id", id), v("size", size), v("chunks", chunks))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const ContentHolding&) const = default;
};
struct ContentInfo {
    std::vector<ContentHolding> holdings;
    QUERN_FIELDS(v("holdings", holdings, record::AtMost{kMaxFindContent, kTooMany}))
    static constexpr bool kBare = true;
    bool operator==(const ContentInfo&) const = default;
};
struct GetLeaves {  // get_leaf_hashes and get_leaves; count's limit differs
    Hash32 id;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    QUERN_FIELDS(v("id", id), v("first", first), v("count", count))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const GetLeaves&) const = default;
};
struct Leaves {  // leaf_hashes and leaves
    Hash32 id;
    std::uint64_t first = 0;
    Bytes bytes;
    QUERN_FIELDS(v("id", id), v("first", first), v("bytes", bytes))
    bool operator==(const Leaves&) const = default;
};
enum class RefusalCode : std::uint8_t { not_found = 1, busy = 2, too_fast = 3, malformed = 4, unsupported = 5 };
struct Refusal {
    RefusalCode code = RefusalCode::not_found;
    std::string detail;
    QUERN_FIELDS(v("code", code), v("detail", detail, record::AtMost{kMaxRefusalDetail, kBadText}))
    [[nodiscard]] quern::Status check() const;
    bool operator==(const Refusal&) const = default;
};

template <record::Record T>
[[nodiscard]] Bytes encode(const T& value) {
    return record::encode_record(value);
}
[[nodiscard]] Expected<Status> decode_status(BytesView body);
[[nodiscard]] Expected<Hello> decode_hello(BytesView body);
[[nodiscard]] Expected<GetPeers> decode_get_peers(BytesView body);
[[nodiscard]] Expected<Peers> decode_peers(BytesView body);
[[nodiscard]] Expected<ShortIds> decode_short_ids(BytesView body);
[[nodiscard]] Expected<Transactions> decode_transactions(BytesView body);
[[nodiscard]] Expected<CompactBlock> decode_compact_block(BytesView body);
// Its first field alone, at a cost that does not grow with the block; what follows is not looked at.
[[nodiscard]] Expected<chain::types::BlockHeader> decode_compact_header(BytesView body);
[[nodiscard]] Expected<GetBlockTransactions> decode_get_block_transactions(BytesView body);
[[nodiscard]] Expected<BlockTransactions> decode_block_transactions(BytesView body);
[[nodiscard]] Expected<CompactProposal> decode_compact_proposal(BytesView body);
[[nodiscard]] Expected<GetProposalTransactions> decode_get_proposal_transactions(BytesView body);
[[nodiscard]] Expected<ProposalTransactions> decode_proposal_transactions(BytesView body);
[[nodiscard]] Expected<GetProposal> decode_get_proposal(BytesView body);
[[nodiscard]] Expected<GetBlock> decode_get_block(BytesView body);
[[nodiscard]] Expected<BlockAnswer> decode_block_answer(BytesView body);
[[nodiscard]] Expected<GetCertificate> decode_get_certificate(BytesView body);
[[nodiscard]] Expected<CertificateAnswer> decode_certificate_answer(BytesView body);
[[nodiscard]] Expected<GetRange> decode_get_range(BytesView body);
[[nodiscard]] Expected<Range> decode_range(BytesView body);
[[nodiscard]] Expected<FindContent> decode_find_content(BytesView body);
[[nodiscard]] Expected<ContentInfo> decode_content_info(BytesView body);
// max_count: kMaxLeafHashes for get_leaf_hashes, kLeavesPerChunk for get_leaves.
[[nodiscard]] Expected<GetLeaves> decode_get_leaves(BytesView body, std::uint64_t max_count);
[[nodiscard]] Expected<Leaves> decode_leaves(BytesView body);
[[nodiscard]] Expected<Refusal> decode_refusal(BytesView body);

}  // namespace quern::p2p::messages
