#include "crypto/content_id.h"

#include <algorithm>

namespace quern::crypto {

Hash32 content_id_of_leaves(std::span<const Hash32> leaves, std::uint64_t size) {
    std::array<std::uint8_t, 8> context;
    for (std::size_t i = 0; i < 8; ++i) context[i] = static_cast<std::uint8_t>(size >> (56 - 8 * i));
    return merkle_root(MerkleTag::content, leaves, context);
}

Hash32 content_id_of(BytesView content) {
    ContentHasher hasher;
    hasher.update(content);
    return hasher.finish();
}

void ContentHasher::update(BytesView more) {
    size_ += more.size();
    while (!more.empty()) {
        if (pending_.empty() && more.size() >= kContentLeafBytes) {
            leaves_.push_back(merkle_leaf(more.first(kContentLeafBytes)));
            more = more.subspan(kContentLeafBytes);
            continue;
        }
        const std::size_t take = std::min(kContentLeafBytes - pending_.size(), more.size());
        append(pending_, more.first(take));
        more = more.subspan(take);
        if (pending_.size() == kContentLeafBytes) {
            leaves_.push_back(merkle_leaf(pending_));
            pending_.clear();
        }
    }
}

Hash32 ContentHasher::finish() {
    if (!pending_.empty()) {
        leaves_.push_back(merkle_leaf(pending_));
        pending_.clear();
    }
    return content_id_of_leaves(leaves_, size_);
}

}  // namespace quern::crypto
