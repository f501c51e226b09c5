// What validators say to each other, as the bytes that p2p carries. Decoding checks form and limits, never signatures.
// Plain values; thread-safe.
//
//   message             = kind (1) || rlp(list)      the lists are records (base/record.h)
//   1 propose           = [epoch, view, block, justification, [nullification...], signature (64)]
//   2 vote              = [type, epoch, view, hash, member, signature (64)]           type 2, 3 or 4
//   3 certificate       = [certificate]
//   4 certificate query = [epoch, first_view, last_view]
//   5 block query       = [hash]
//   6 block answer      = [block]
//   7 range query       = [first_height]
//   8 range answer      = [tip_height, [block...], certificate]
//   9 vote query        = [public key (64)]
//  10 vote answer       = [epoch, public key (64), [] or [type, epoch, view, hash, signature (64)]]
//
// block, justification, nullification and certificate are strings that hold the encodings of types::Block and
// Certificate. `justification` is empty when the block is new in this view (its body carries the parent's certificate)
// and the notarization of the block itself when an epoch's last block is proposed again.
#pragma once

#include <string>
#include <variant>

#include "base/record.h"
#include "chain/consensus/sdbft/keys.h"
#include "chain/types/block.h"

namespace quern::chain::consensus::sdbft {

inline constexpr std::size_t kMaxMessageBytes = 24U << 20;
inline constexpr std::size_t kMaxNullificationsPerProposal = 64;  // older ones are fetched by view
inline constexpr std::size_t kMaxCertificatesPerQuery = 32;
inline constexpr std::size_t kMaxBlocksPerRange = 128;
inline constexpr std::size_t kMaxRangeBytes = 16U << 20;

// Certificates as the strings that hold them.
struct CertificateCodec {
    [[nodiscard]] static Bytes encode(const Certificate& certificate);
    [[nodiscard]] static Expected<Certificate> decode(BytesView bytes);
};
struct OptionalCertificateCodec {  // empty: none
    [[nodiscard]] static Bytes encode(const std::optional<Certificate>& certificate);
    [[nodiscard]] static Expected<std::optional<Certificate>> decode(BytesView bytes);
};
inline constexpr record::AtMost kBlockBound{types::kMaxBlockBytes, "message.too_large"};

struct ProposeMessage {
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    Bytes block;
    std::optional<Certificate> justification;
    std::vector<Certificate> nullifications;
    Signature signature;
    QUERN_FIELDS(v("epoch", epoch), v("view", view), v("block", block, kBlockBound),
                 v("justification", justification, record::Embedded<OptionalCertificateCodec>{}),
                 v("nullifications", nullifications,
                   record::EmbeddedList<CertificateCodec>{kMaxNullificationsPerProposal, "message.too_many"}),
                 v("signature", signature))
    bool operator==(const ProposeMessage&) const = default;
};
struct VoteMessage {
    Vote vote;
    std::uint64_t member = 0;
    Signature signature;
    QUERN_FIELDS(v("type", vote.type), v("epoch", vote.epoch), v("view", vote.view), v("hash", vote.hash),
                 v("member", member), v("signature", signature))
    [[nodiscard]] Status check() const;
    bool operator==(const VoteMessage&) const = default;
};
struct CertificateMessage {
    Certificate certificate;
    QUERN_FIELDS(v("certificate", certificate, record::Embedded<CertificateCodec>{}))
    bool operator==(const CertificateMessage&) const = default;
};
// For the certificates of these views; a node that is further adds the one that opened its view.
struct CertificateQuery {
    std::uint64_t epoch = 0;
    std::uint64_t first_view = 0;
    std::uint64_t last_view = 0;
    QUERN_FIELDS(v("epoch", epoch), v("firstView", first_view), v("lastView", last_view))
    bool operator==(const CertificateQuery&) const = default;
};
struct BlockQuery {
    Hash32 hash;
    QUERN_FIELDS(v("hash", hash))
    bool operator==(const BlockQuery&) const = default;
};
struct BlockAnswer {
    Bytes block;
    QUERN_FIELDS(v("block", block, kBlockBound))
    bool operator==(const BlockAnswer&) const = default;
};
struct RangeQuery {
    std::uint64_t first_height = 0;
    QUERN_FIELDS(v("firstHeight", first_height))
    bool operator==(const RangeQuery&) const = default;
};
// Consecutive final blocks of one epoch from the height asked for, and a finalization of the last one.
struct RangeAnswer {
    std::uint64_t tip_height = 0;  // of who answers
    std::vector<Bytes> blocks;
    Certificate certificate;
    QUERN_FIELDS(v("tipHeight", tip_height),
                 v("blocks", blocks, record::AtMost{kMaxBlocksPerRange, "message.too_many"}),
                 v("certificate", certificate, record::Embedded<CertificateCodec>{}))
    [[nodiscard]] Status check() const;
    bool operator==(const RangeAnswer&) const = default;
};
// For the newest vote of a key that a member has heard; asked by who does not know what its own key has signed.
struct VoteQuery {
    crypto::PublicKey key;
    QUERN_FIELDS(v("key", key.bytes))
    bool operator==(const VoteQuery&) const = default;
};
struct VoteAnswer {
    std::uint64_t epoch = 0;  // that who answers is in
    crypto::PublicKey key;
    struct Signed {
        Vote vote;
        Signature signature;
        QUERN_FIELDS(v("type", vote.type), v("epoch", vote.epoch), v("view", vote.view), v("hash", vote.hash),
                     v("signature", signature))
        [[nodiscard]] Status check() const;
        bool operator==(const Signed&) const = default;
    };
    std::optional<Signed> newest;  // in this epoch or the one before; absent when it has heard none
    QUERN_FIELDS(v("epoch", epoch), v("key", key.bytes), v("newest", newest))
    bool operator==(const VoteAnswer&) const = default;
};
// Position in the variant, plus one, is the kind on the wire.
using Message = std::variant<ProposeMessage, VoteMessage, CertificateMessage, CertificateQuery, BlockQuery, BlockAnswer,
                             RangeQuery, RangeAnswer, VoteQuery, VoteAnswer>;

[[nodiscard]] Bytes encode(const Message& message);
// Errors: message.empty, message.too_large, message.unknown_kind, message.bad_vote, message.too_many, certificate.*,
// rlp.*.
[[nodiscard]] Expected<Message> decode_message(BytesView bytes);
// Where in an encoded proposal the items of its block's transactions lie; nothing for other messages.
struct ByteRange {
    std::size_t begin = 0;
    std::size_t end = 0;
};
[[nodiscard]] std::optional<ByteRange> transactions_in(BytesView message);
// One line for traces and logs.
[[nodiscard]] std::string describe(const Message& message);
[[nodiscard]] std::string describe(const Certificate& certificate);
[[nodiscard]] std::string_view name_of(VoteType type);

}  // namespace quern::chain::consensus::sdbft
