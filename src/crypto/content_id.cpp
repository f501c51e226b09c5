#include "crypto/content_id.h"

#include <algorithm>

namespace quern::crypto {
namespace {
constexpr std::uint8_t kLeafPrefix = static_cast<std::uint8_t>(MerkleTag::leaf);
}

Hash32 content_id_of_leaves(std::span<const Hash32> leaves, std::uint64_t size) {
    FixedBytes<8> context;
    for (std::size_t i = 0; i < 8; ++i) context.data[i] = static_cast<std::uint8_t>(size >> (56 - 8 * i));
    return merkle_root(MerkleTag::content, leaves, context);
}

Hash32 content_id_of(BytesView content) {
    ContentHasher hasher;
    hasher.update(content);
    return hasher.finish();
}

ContentHasher::ContentHasher() { leaf_.update({&kLeafPrefix, 1}); }

void ContentHasher::close_leaf() {
    leaves_.push_back(leaf_.finish());
    leaf_.update({&kLeafPrefix, 1});
    in_leaf_ = 0;
}

void ContentHasher::update(BytesView more) {
    size_ += more.size();
    while (!more.empty()) {
        const std::size_t part = std::min(more.size(), kContentLeafBytes - in_leaf_);
        leaf_.update(more.first(part));
        in_leaf_ += part;
        more = more.subspan(part);
        if (in_leaf_ == kContentLeafBytes) close_leaf();
    }
}

Hash32 ContentHasher::finish() {
    if (in_leaf_ != 0) close_leaf();
    return content_id_of_leaves(leaves_, size_);
}

}  // namespace quern::crypto
