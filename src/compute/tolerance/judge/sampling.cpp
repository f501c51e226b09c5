#include "compute/tolerance/judge/sampling.h"

#include <algorithm>

#include "compute/tolerance/measures.h"

namespace quern::compute::tolerance {

std::vector<std::uint64_t> choose_segments(const Hash32& beacon, const core::Address& verifier,
                                           std::span<const std::uint32_t> said, std::uint64_t drawn,
                                           std::uint64_t largest) {
    std::vector<std::uint64_t> chosen = core::draw_segments(beacon, verifier, said.size(), drawn);
    std::vector<std::uint64_t> others;
    for (std::uint64_t i = 0; i < said.size(); ++i)
        if (!std::binary_search(chosen.begin(), chosen.end(), i)) others.push_back(i);
    std::stable_sort(others.begin(), others.end(),
                     [&](std::uint64_t a, std::uint64_t b) { return order_of(said[a]) > order_of(said[b]); });
    others.resize(std::min<std::uint64_t>(others.size(), largest));
    chosen.insert(chosen.end(), others.begin(), others.end());
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

}  // namespace quern::compute::tolerance
