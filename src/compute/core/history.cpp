#include "compute/core/history.h"

#include "base/rlp.h"
#include "crypto/merkle.h"

namespace quern::compute::core {

using crypto::MerkleTag;

namespace {

constexpr std::uint64_t kManifestFormat = 2;

Bytes joined(const std::vector<Hash32>& hashes) {
    Bytes bytes;
    bytes.reserve(32 * hashes.size());
    for (const Hash32& hash : hashes) append(bytes, hash);
    return bytes;
}

Expected<std::vector<Hash32>> split(BytesView bytes, std::uint64_t count) {
    if (bytes.size() % 32 != 0 || bytes.size() / 32 != count)
        return fail("history.wrong_counts",
                    "expected " + std::to_string(count) + " hashes, got " + std::to_string(bytes.size()) + " bytes");
    std::vector<Hash32> hashes;
    hashes.reserve(count);
    for (std::size_t i = 0; i < count; ++i) hashes.push_back(Hash32::copy_of(bytes.subspan(32 * i, 32)));
    return hashes;
}

Status check_steps(std::uint64_t steps, std::uint64_t interval, std::uint64_t stride) {
    if (segment_count(steps, interval) == 0)
        return fail("history.wrong_counts",
                    std::to_string(steps) + " steps are not segments of " + std::to_string(interval));
    if (stride > kMaxStride || stride_count(interval, stride) == 0)
        return fail("history.wrong_counts",
                    std::to_string(interval) + " steps are not strides of " + std::to_string(stride));
    if (const std::uint64_t strides = stride_count(steps, stride); strides == 0 || strides > kMaxStrides)
        return fail("history.wrong_counts", std::to_string(strides) + " strides");
    return {};
}

}  // namespace

Hash32 history_root(std::span<const Hash32> state_roots) { return crypto::list_id_of(MerkleTag::history, state_roots); }

std::vector<Hash32> history_path(std::span<const Hash32> state_roots, std::uint64_t index) {
    return crypto::merkle_path(state_roots, index);
}

Status check_history_leaf(const Hash32& root, const Hash32& state_root, std::uint64_t index, std::uint64_t strides,
                          std::span<const Hash32> path) {
    return crypto::check_list_path(MerkleTag::history, root, state_root, index, strides + 1, path);
}

Status check_manifest(const HistoryManifest& manifest) {
    QUERN_CHECK(check_steps(manifest.steps(), manifest.interval, manifest.stride));
    if (manifest.checkpoint_contents.size() != segment_count(manifest.steps(), manifest.interval) + 1)
        return fail("history.wrong_counts", std::to_string(manifest.checkpoint_contents.size()) + " checkpoints");
    return {};
}

Bytes encode(const HistoryManifest& manifest) {
    rlp::Writer writer;
    writer.begin_list()
        .integer(kManifestFormat)
        .integer(manifest.steps())
        .integer(manifest.interval)
        .integer(manifest.stride)
        .bytes(joined(manifest.state_roots))
        .bytes(joined(manifest.checkpoint_contents))
        .end_list();
    return std::move(writer).finish();
}

Expected<HistoryManifest> decode_manifest(BytesView bytes) {
    if (bytes.size() > kMaxManifestBytes) return fail("history.too_large", std::to_string(bytes.size()) + " bytes");
    QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
    QUERN_TRY(const std::uint64_t format, reader.u64());
    if (format != kManifestFormat) return fail("history.unknown_format", std::to_string(format));
    QUERN_TRY(const std::uint64_t steps, reader.u64());
    HistoryManifest manifest;
    QUERN_TRY(manifest.interval, reader.u64());
    QUERN_TRY(manifest.stride, reader.u64());
    QUERN_CHECK(check_steps(steps, manifest.interval, manifest.stride));
    QUERN_TRY(const BytesView roots, reader.bytes());
    QUERN_TRY(manifest.state_roots, split(roots, steps / manifest.stride + 1));
    QUERN_TRY(const BytesView contents, reader.bytes());
    QUERN_TRY(manifest.checkpoint_contents, split(contents, steps / manifest.interval + 1));
    QUERN_CHECK(reader.expect_end());
    return manifest;
}

}  // namespace quern::compute::core
