#include "compute/worker/node_view.h"

#include <algorithm>

#include "crypto/content_id.h"

namespace quern::compute::worker {

Status check_leaves(const Hash32& id, BytesView bytes, std::span<const Hash32> leaves, std::uint64_t first) {
    const std::vector<Hash32> read = bytes.empty() ? std::vector<Hash32>{} : crypto::content_leaves(bytes);
    if (read.empty() || first > leaves.size() || read.size() > leaves.size() - first ||
        !std::equal(read.begin(), read.end(), leaves.subspan(first).begin()))
        return busy(kIdMismatch, to_hex(id) + " leaf " + std::to_string(first));
    return {};
}

Expected<Hash32> NodeView::put_content(BytesView content) {
    const Hash32 id = crypto::content_id_of(content);
    BytesView left = content;
    QUERN_CHECK(put_stream(id, content.size(), [&left](std::span<std::uint8_t> buffer) -> Expected<std::size_t> {
        const BytesView next = left.first(std::min(buffer.size(), left.size()));
        std::copy(next.begin(), next.end(), buffer.begin());
        left = left.subspan(next.size());
        return next.size();
    }));
    return id;
}

Expected<std::set<Hash32>> NodeView::want_contents(std::span<const Hash32> ids, std::uint64_t /*max_bytes*/) {
    std::set<Hash32> here;
    for (const Hash32& id : ids) {
        QUERN_TRY(const bool is_here, has_content(id));
        if (is_here) here.insert(id);
    }
    return here;
}

}  // namespace quern::compute::worker
