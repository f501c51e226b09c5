// Custody manifests: into which fragments (crypto/content_fragments.h) the contents of a claim were cut that must not
// get lost, and the fragments' ids. Custodian j keeps fragment j of each; whoever lacks a content asks for any k of its
// fragments. Written by solvers; read by custodians, verifiers, and whoever fetches. Pure functions; thread-safe.
//
//   manifest = "QRNCUST1" || k (1) || n (1) || m (4) || content * m          numbers big endian
//   content  = id (32) || size (8) || id of fragment 0 .. n - 1 (32 each)    ascending by id
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "crypto/content_fragments.h"

namespace quern::compute::core {

inline constexpr std::string_view kCustodyMagic = "QRNCUST1";
inline constexpr std::size_t kMaxCustodyContents = 65'536;                        // of a manifest, at least one
inline constexpr std::uint64_t kMaxCustodyContentBytes = std::uint64_t{1} << 45;  // 32 TiB, as of any content
inline constexpr std::size_t kMaxCustodyManifestBytes = std::size_t{32} << 20;

// A content's names are FragmentIds, as a FragmentHasher finds them.
struct CustodyManifest {
    crypto::CellCode code;
    std::vector<crypto::FragmentIds> contents;  // ascending by id, each once
    bool operator==(const CustodyManifest&) const = default;

    // Nullptr where it is not in the manifest.
    [[nodiscard]] const crypto::FragmentIds* find(const Hash32& content) const;
    // What each custodian keeps. No overflow: kMaxCustodyContents of kMaxCustodyContentBytes are 2^61.
    [[nodiscard]] std::uint64_t bytes_of_each() const;
};

[[nodiscard]] constexpr std::size_t custody_manifest_bytes(unsigned total, std::size_t contents) {
    return kCustodyMagic.size() + 6 + contents * (Hash32::kSize + 8 + std::size_t{total} * Hash32::kSize);
}
// What would be decoded again. Errors: custody.bad_code (not 1 <= k <= n <= kMaxCodeCells), custody.too_many (contents,
// or bytes, or none at all), custody.bad_content (another number of fragments than n, or too large), custody.unsorted.
[[nodiscard]] Status check_custody(const CustodyManifest& manifest);
// Of one that check_custody takes.
[[nodiscard]] Bytes encode(const CustodyManifest& manifest);
// Errors: custody.not_a_manifest, custody.wrong_size, check_custody's.
[[nodiscard]] Expected<CustodyManifest> decode_custody_manifest(BytesView bytes);

}  // namespace quern::compute::core
