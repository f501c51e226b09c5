#include "content/manifest.h"

#include <algorithm>

#include "base/big_endian.h"

namespace quern::content {
namespace {
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kSizeBytes = 8;

}  // namespace

Bytes encode(const Manifest& manifest) {
    Bytes out = to_bytes(as_bytes(kManifestMagic));
    append_big_endian(out, manifest.size, kSizeBytes);
    for (const auto& leaf : manifest.leaves) append(out, leaf);
    return out;
}

Bytes encode_part(const Manifest& manifest, std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t all = kSizeBytes + Hash32::kSize * manifest.leaves.size();
    offset = std::min(offset, all);
    const std::uint64_t end = offset + std::min(length, all - offset);
    Bytes out;
    std::uint64_t at = offset;  // of the field that comes next
    const auto take = [&](BytesView field, std::uint64_t begin) {
        const std::uint64_t part = std::min(end, begin + field.size()) - at;
        append(out, field.subspan(at - begin, part));
        at += part;
    };
    if (at < std::min<std::uint64_t>(end, kSizeBytes)) take(be64(manifest.size).view(), 0);
    while (at < end) {
        const std::uint64_t leaf = (at - kSizeBytes) / Hash32::kSize;
        take(manifest.leaves[leaf].view(), kSizeBytes + leaf * Hash32::kSize);
    }
    return out;
}

Expected<Manifest> decode_manifest(BytesView bytes, const Hash32& id) {
    if (bytes.size() < kHeaderBytes || !equal(bytes.first(8), as_bytes(kManifestMagic)))
        return fail("content.corrupt", "the manifest of " + to_hex(id) + " has no valid header");
    Manifest manifest;
    manifest.size = from_big_endian(bytes.subspan(8, kSizeBytes));
    if ((bytes.size() - kHeaderBytes) % 32 != 0 ||
        (bytes.size() - kHeaderBytes) / 32 != crypto::content_leaf_count(manifest.size))
        return fail("content.corrupt", "the manifest of " + to_hex(id) + " has a wrong length");
    for (std::size_t at = kHeaderBytes; at < bytes.size(); at += 32)
        manifest.leaves.push_back(Hash32::copy_of(bytes.subspan(at, 32)));
    if (!is_manifest_of(manifest, id))
        return fail("content.corrupt", "the manifest of " + to_hex(id) + " belongs to another id");
    return manifest;
}

bool is_manifest_of(const Manifest& manifest, const Hash32& id) {
    return manifest.leaves.size() == crypto::content_leaf_count(manifest.size) &&
           crypto::content_id_of_leaves(manifest.leaves, manifest.size) == id;
}

bool leaves_match(const Manifest& manifest, std::uint64_t first, BytesView bytes) {
    if (bytes.empty()) return true;
    if (first >= manifest.leaves.size()) return false;
    // Whole leaves, or all bytes to the end.
    const std::uint64_t rest = manifest.size - first * crypto::kContentLeafBytes;
    if (bytes.size() > rest || (bytes.size() < rest && bytes.size() % crypto::kContentLeafBytes != 0)) return false;
    const std::vector<Hash32> leaves = crypto::content_leaves(bytes);
    return std::equal(leaves.begin(), leaves.end(), manifest.leaves.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace quern::content
