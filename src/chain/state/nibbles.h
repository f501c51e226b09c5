// Paths in tries, a nibble a byte: what both kinds of tries (trie.cpp, path_trie.cpp) do with them. Pure; thread-safe.
#pragma once

#include <algorithm>

#include "chain/state/trie_node.h"

namespace quern::chain::state {

// How many nibbles both begin with.
[[nodiscard]] inline std::size_t common_prefix(NibblesView a, NibblesView b) {
    const auto parted = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<std::size_t>(parted.first - a.begin());
}

[[nodiscard]] inline bool starts_with(NibblesView path, NibblesView prefix) {
    return path.size() >= prefix.size() && equal(path.first(prefix.size()), prefix);
}

[[nodiscard]] inline Nibbles concat(NibblesView a, NibblesView b) {
    Nibbles both;
    both.reserve(a.size() + b.size());
    append(both, a);
    append(both, b);
    return both;
}

}  // namespace quern::chain::state
