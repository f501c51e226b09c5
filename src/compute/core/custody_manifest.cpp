#include "compute/core/custody_manifest.h"

#include <algorithm>

#include "base/big_endian.h"

namespace quern::compute::core {
namespace {

constexpr std::size_t kCountBytes = 4;
constexpr std::size_t kSizeBytes = 8;
constexpr std::size_t kHeadBytes = custody_manifest_bytes(0, 0);

bool is_before(const crypto::FragmentIds& a, const crypto::FragmentIds& b) { return a.content < b.content; }

Status check_head(crypto::CellCode code, std::uint64_t contents) {
    if (!code.is_valid()) return fail("custody.bad_code");
    if (contents == 0 || contents > kMaxCustodyContents) return fail("custody.too_many", std::to_string(contents));
    const std::size_t bytes = custody_manifest_bytes(code.total, static_cast<std::size_t>(contents));
    if (bytes > kMaxCustodyManifestBytes) return fail("custody.too_many", std::to_string(bytes) + " bytes");
    return {};
}

}  // namespace

const crypto::FragmentIds* CustodyManifest::find(const Hash32& content) const {
    const auto at = std::lower_bound(contents.begin(), contents.end(), content,
                                     [](const auto& each, const Hash32& id) { return each.content < id; });
    return at != contents.end() && at->content == content ? &*at : nullptr;
}

std::uint64_t CustodyManifest::bytes_of_each() const {
    std::uint64_t bytes = 0;
    for (const auto& each : contents) bytes += crypto::fragment_bytes(each.size, code.data);
    return bytes;
}

Status check_custody(const CustodyManifest& manifest) {
    QUERN_CHECK(check_head(manifest.code, manifest.contents.size()));
    for (const auto& each : manifest.contents)
        if (each.fragments.size() != manifest.code.total || each.size > kMaxCustodyContentBytes)
            return fail("custody.bad_content", to_hex0x(each.content));
    for (std::size_t i = 1; i < manifest.contents.size(); ++i)
        if (!is_before(manifest.contents[i - 1], manifest.contents[i])) return fail("custody.unsorted");
    return {};
}

Bytes encode(const CustodyManifest& manifest) {
    Bytes out = to_bytes(as_bytes(kCustodyMagic));
    out.reserve(custody_manifest_bytes(manifest.code.total, manifest.contents.size()));
    append_big_endian(out, manifest.code.data, 1);
    append_big_endian(out, manifest.code.total, 1);
    append_big_endian(out, manifest.contents.size(), kCountBytes);
    for (const auto& each : manifest.contents) {
        append(out, each.content);
        append_big_endian(out, each.size, kSizeBytes);
        for (const Hash32& fragment : each.fragments) append(out, fragment);
    }
    return out;
}

Expected<CustodyManifest> decode_custody_manifest(BytesView bytes) {
    const std::size_t magic = kCustodyMagic.size();
    if (bytes.size() < kHeadBytes || !equal(bytes.first(magic), as_bytes(kCustodyMagic)))
        return fail("custody.not_a_manifest");
    CustodyManifest manifest;
    manifest.code = {bytes[magic], bytes[magic + 1]};
    const std::uint64_t count = from_big_endian(bytes.subspan(magic + 2, kCountBytes));
    QUERN_CHECK(check_head(manifest.code, count));
    if (bytes.size() != custody_manifest_bytes(manifest.code.total, static_cast<std::size_t>(count)))
        return fail("custody.wrong_size", std::to_string(bytes.size()) + " bytes");
    bytes = bytes.subspan(kHeadBytes);
    const auto take = [&bytes](std::size_t length) {
        const BytesView taken = bytes.first(length);
        bytes = bytes.subspan(length);
        return taken;
    };
    manifest.contents.resize(static_cast<std::size_t>(count));
    for (auto& each : manifest.contents) {
        each.content = Hash32::copy_of(take(Hash32::kSize));
        each.size = from_big_endian(take(kSizeBytes));
        each.fragments.reserve(manifest.code.total);
        for (unsigned i = 0; i < manifest.code.total; ++i)
            each.fragments.push_back(Hash32::copy_of(take(Hash32::kSize)));
    }
    QUERN_CHECK(check_custody(manifest));
    return manifest;
}

}  // namespace quern::compute::core
