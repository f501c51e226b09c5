// The node's content store as RPC serves it under /content/<id>. Thread-safe.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::chain::api {

inline constexpr std::string_view kContentOnItsWay = "content.on_its_way";
// Header of a request for a content: the most bytes that whoever asks takes. Nothing larger is fetched for it.
inline constexpr std::string_view kMaxBytesHeader = "Quern-Max-Bytes";

class ContentGateway {
public:
    virtual ~ContentGateway() = default;
    // Size in bytes; error content.not_found.
    [[nodiscard]] virtual Expected<std::uint64_t> size(const Hash32& id) const = 0;
    // As size, and what this node lacks is fetched from others, unless it is larger than `max_bytes`: waits a bounded
    // time for it. Errors: content.not_found (no other node gave it), content.on_its_way and content.too_many_fetches
    // (busy: ask again).
    [[nodiscard]] virtual Expected<std::uint64_t> obtain(const Hash32& id, std::uint64_t /*max_bytes*/) {
        return size(id);
    }
    // Who will want these soon, in this order: those that this node lacks, none larger than `max_bytes`, are fetched
    // from others meanwhile, as far as it has places for that. Waits for nothing; gives those that are here.
    [[nodiscard]] virtual std::vector<Hash32> want(std::span<const Hash32> ids, std::uint64_t max_bytes) = 0;
    // Bytes [offset, offset + length) clipped to the end; every leaf read is checked against the id.
    [[nodiscard]] virtual Expected<Bytes> read(const Hash32& id, std::uint64_t offset, std::uint64_t length) const = 0;
    // The same of its size (8 bytes, big endian) and its leaves (crypto/content_id.h), with which parts of it are
    // checked.
    [[nodiscard]] virtual Expected<Bytes> read_leaves(const Hash32& id, std::uint64_t offset,
                                                      std::uint64_t length) const = 0;
    // The list of a content that is here by shard (crypto/content_shards.h), encoded. Error content.not_found.
    [[nodiscard]] virtual Expected<Bytes> shards(const Hash32& id) const {
        return fail("content.not_found", to_hex(id));
    }
    // The same, and other nodes are asked for what is not here. Errors: content.not_found, content.on_its_way (busy).
    [[nodiscard]] virtual Expected<Bytes> obtain_shards(const Hash32& id) { return shards(id); }
    // Writes come in pieces: begin, append in order, finish. finish checks the id, syncs and publishes atomically.
    // Errors: content.too_large, content.quota_exceeded, content.id_mismatch, content.disk_full.
    class Upload {
    public:
        virtual ~Upload() = default;
        [[nodiscard]] virtual Status append(BytesView bytes) = 0;
        [[nodiscard]] virtual Status finish() = 0;
    };
    [[nodiscard]] virtual Expected<std::unique_ptr<Upload>> begin_upload(const Hash32& id, std::uint64_t size) = 0;
    // The same of the list of the shards of `id`, of `size` bytes.
    [[nodiscard]] virtual Expected<std::unique_ptr<Upload>> begin_shards(const Hash32& id, std::uint64_t /*size*/) {
        return fail("content.no_lists", to_hex(id));
    }
    // Removes those of these contents that this node has no duty to serve, at once; gives those that it has one for.
    // Errors: content.duties_unknown, those of reading the state, fs.remove_failed.
    [[nodiscard]] virtual Expected<std::set<Hash32>> let_go(const std::set<Hash32>& ids) = 0;
};

}  // namespace quern::chain::api
