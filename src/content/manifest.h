// The stored list of a content's leaf hashes. Grammar in store.h. Pure; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "crypto/content_id.h"

namespace quern::content {

// Its number rises with the meaning of an id or of a leaf: files of an earlier one are of no use to anybody.
inline constexpr std::string_view kManifestMagic = "QRNCONT2";
inline constexpr std::string_view kManifestMagicOfAny = "QRNCONT";

inline constexpr std::string_view kCorrupt = "content.corrupt";
inline constexpr std::string_view kBadLeaf = "content.bad_leaf";

struct Manifest {
    std::uint64_t size = 0;
    std::vector<Hash32> leaves;
    bool operator==(const Manifest&) const = default;
};

// Bytes of the encoded manifest of a content of `size` bytes.
[[nodiscard]] constexpr std::uint64_t manifest_bytes(std::uint64_t size) {
    return 16 + 32 * crypto::content_leaf_count(size);
}
[[nodiscard]] Bytes encode(const Manifest& manifest);
// Bytes [offset, offset + length), clipped to the end, of what is encoded behind the magic: size and leaves.
[[nodiscard]] Bytes encode_part(const Manifest& manifest, std::uint64_t offset, std::uint64_t length);
// Checks that it is the manifest of `id`. Error content.corrupt.
[[nodiscard]] Expected<Manifest> decode_manifest(BytesView bytes, const Hash32& id);
// Whether these leaves and this size make the id.
[[nodiscard]] bool is_manifest_of(const Manifest& manifest, const Hash32& id);
// Whether `bytes` are the leaves from number `first` on, each of them whole.
[[nodiscard]] bool leaves_match(const Manifest& manifest, std::uint64_t first, BytesView bytes);

}  // namespace quern::content
