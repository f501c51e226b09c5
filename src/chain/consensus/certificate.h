// A quorum's signatures about one block or view. A finalization certificate is stored with its block, served to light
// clients and carried by the child's body. Plain values; thread-safe.
//
//   certificate = rlp([type, epoch, view, hash, bitmap, [signature (64)...]])
//   bitmap      = ceil(n / 8) bytes; bit i % 8 (from the least significant) of byte i / 8 stands for member i; unused
//                 bits are 0; signatures follow in the order of the set bits
#pragma once

#include <vector>

#include "base/record.h"
#include "chain/consensus/committee.h"
#include "chain/consensus/vote.h"

namespace quern::chain::consensus {

struct Certificate {
    VoteType type = VoteType::finalize;
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    Hash32 hash;
    Bytes bitmap;
    std::vector<FixedBytes<64>> signatures;
    static constexpr record::AtMost kBitmapBound{(kMaxCommittee + 7) / 8, "certificate.too_large"};
    static constexpr record::AtMost kSignaturesBound{kMaxCommittee, "certificate.too_large"};
    QUERN_FIELDS(v("type", type), v("epoch", epoch), v("view", view), v("hash", hash),
                 v("bitmap", bitmap, kBitmapBound), v("signatures", signatures, kSignaturesBound))
    [[nodiscard]] Status check() const;
    bool operator==(const Certificate&) const = default;
    [[nodiscard]] Vote vote() const { return {type, epoch, view, hash}; }
};

// Signatures by member index, ascending. Indices are below the committee's size.
[[nodiscard]] Certificate make_certificate(const Vote& vote, const Committee& committee,
                                           const std::vector<std::pair<std::size_t, FixedBytes<64>>>& signatures);
[[nodiscard]] Bytes encode(const Certificate& certificate);
// Errors: certificate.unknown_type, certificate.too_large, rlp.*.
[[nodiscard]] Expected<Certificate> decode_certificate(BytesView bytes);
// Errors: certificate.bad_bitmap, certificate.no_quorum, certificate.bad_signature.
[[nodiscard]] Status verify_certificate(const Certificate& certificate, const Committee& committee,
                                        const ChainIdentity& chain);
// What a header's parent_certificate_hash holds: SHA-256 of the encoding; zero for the genesis block, which has none.
[[nodiscard]] Hash32 certificate_hash(BytesView encoded);

}  // namespace quern::chain::consensus
