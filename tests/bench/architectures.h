// Models that more than one case trains.
#pragma once

#include <vector>

#include "compute/program/architecture.h"

namespace quern::bench {

// Of random text of the demo's alphabet.
[[nodiscard]] compute::program::Architecture transformer(const compute::program::TransformerSpec& spec,
                                                         std::uint32_t batch);
// 0.83 million parameters: what larger comparisons of this project mean by the reference transformer.
[[nodiscard]] compute::program::Architecture reference_transformer();

// 32 x 32 pixels of three colours, as CIFAR-10 has them, in ten classes. Convolutions of 3 x 3 to so many channels
// each, with ReLU, halved by a maximum behind each, or behind each but the last one; then the mean.
[[nodiscard]] compute::program::Architecture image_network(const std::vector<std::uint32_t>& channels,
                                                           bool halved_at_end);

}  // namespace quern::bench
