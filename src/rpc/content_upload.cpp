#include "rpc/content_upload.h"

#include <algorithm>
#include <fstream>

#include "crypto/content_file.h"

namespace quern::rpc {
namespace {

// Bytes [first, first + size) of a file, as one content.
Status put_part(Client& client, std::ifstream& file, std::uint64_t first, std::uint64_t size, const Hash32& id) {
    file.clear();
    file.seekg(static_cast<std::streamoff>(first));
    std::uint64_t left = size;
    return client.put_content(id, size, [&](std::span<std::uint8_t> target) -> Expected<std::size_t> {
        const std::uint64_t part = std::min<std::uint64_t>(target.size(), left);
        file.read(reinterpret_cast<char*>(target.data()), static_cast<std::streamsize>(part));
        const auto got = static_cast<std::size_t>(file.gcount());
        left -= got;
        return got;
    });
}

}  // namespace

Expected<Hash32> put_file(Client& client, const std::string& path,
                          const std::function<void(std::size_t shard, std::size_t shards)>& on_shard) {
    QUERN_TRY(const crypto::ContentShards content, crypto::content_shards_of_file(path));
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail("fs.cannot_open", path);
    std::size_t sent = 0;
    QUERN_CHECK(crypto::put_each(content, [&](const Hash32& id, std::uint64_t first, std::uint64_t size) -> Status {
        QUERN_CHECK(put_part(client, file, first, size, id));
        if (content.is_list() && on_shard) on_shard(++sent, content.tops.size());
        return {};
    }));
    if (content.is_list()) QUERN_CHECK(client.put_shards(content));
    return content.id();
}

}  // namespace quern::rpc
