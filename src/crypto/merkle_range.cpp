#include "crypto/merkle_range.h"

namespace quern::crypto {
namespace {

// A range of one level's nodes, which takes `width` of them.
struct Range {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint64_t width = 0;

    [[nodiscard]] bool valid() const { return count != 0 && first < width && count <= width - first; }
    [[nodiscard]] std::uint64_t end() const { return first + count; }
    [[nodiscard]] bool has_left() const { return first % 2 != 0; }
    [[nodiscard]] bool has_right() const { return end() % 2 != 0 && end() < width; }
    // What lies above it.
    [[nodiscard]] Range above() const {
        const std::uint64_t begin = first / 2;
        return {begin, (end() + 1) / 2 - begin, width / 2 + width % 2};
    }
};

}  // namespace

std::vector<Hash32> merkle_range_siblings(std::span<const Hash32> leaves, std::uint64_t first, std::uint64_t count) {
    std::vector<Hash32> siblings;
    std::vector<Hash32> nodes(leaves.begin(), leaves.end());
    for (Range range{first, count, leaves.size()}; range.width > 1; range = range.above()) {
        if (range.has_left()) siblings.push_back(nodes[range.first - 1]);
        if (range.has_right()) siblings.push_back(nodes[range.end()]);
        nodes = merkle_level(nodes, 1);
    }
    return siblings;
}

std::uint64_t merkle_range_sibling_count(std::uint64_t first, std::uint64_t count, std::uint64_t leaf_count) {
    Range range{first, count, leaf_count};
    if (!range.valid()) return 0;
    std::uint64_t siblings = 0;
    for (; range.width > 1; range = range.above())
        siblings += (range.has_left() ? 1U : 0U) + (range.has_right() ? 1U : 0U);
    return siblings;
}

Expected<Hash32> merkle_top_from_range(std::span<const Hash32> range, std::uint64_t first, std::uint64_t leaf_count,
                                       std::span<const Hash32> siblings) {
    Range at{first, range.size(), leaf_count};
    if (!at.valid()) return fail("merkle.index_out_of_range");
    if (siblings.size() != merkle_range_sibling_count(first, range.size(), leaf_count))
        return fail("merkle.wrong_path_length", std::to_string(siblings.size()) + " siblings");
    std::vector<Hash32> nodes(range.begin(), range.end());
    std::size_t used = 0;
    for (; at.width > 1; at = at.above()) {
        if (at.has_left()) nodes.insert(nodes.begin(), siblings[used++]);
        if (at.has_right()) nodes.push_back(siblings[used++]);
        nodes = merkle_level(nodes, 1);
    }
    return nodes.front();
}

}  // namespace quern::crypto
