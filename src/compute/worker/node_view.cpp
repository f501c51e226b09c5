#include "compute/worker/node_view.h"

#include <algorithm>

#include "crypto/content_id.h"

namespace quern::compute::worker {

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

}  // namespace quern::compute::worker
