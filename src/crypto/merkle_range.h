// Openings of neighbouring leaves of a Merkle tree (merkle.h): the leaves themselves and only those nodes beside them
// that they do not give, at most two on each level. Of one leaf it is the path. Used for the imported slots of a task.
// Pure functions; thread-safe.
#pragma once

#include "crypto/merkle.h"

namespace quern::crypto {

// The nodes beside leaves `first` to `first` + `count` - 1 and what lies above them, from the leaves up, on each level
// the left one before the right one. The range is not empty and lies in `leaves`.
[[nodiscard]] std::vector<Hash32> merkle_range_siblings(std::span<const Hash32> leaves, std::uint64_t first,
                                                        std::uint64_t count);
// How many they are in a tree of `leaf_count` leaves; 0 for a range that is empty or reaches beyond them.
[[nodiscard]] std::uint64_t merkle_range_sibling_count(std::uint64_t first, std::uint64_t count,
                                                       std::uint64_t leaf_count);
// The top that `range` from leaf `first` on and its siblings imply. Errors: merkle.index_out_of_range,
// merkle.wrong_path_length.
[[nodiscard]] Expected<Hash32> merkle_top_from_range(std::span<const Hash32> range, std::uint64_t first,
                                                     std::uint64_t leaf_count, std::span<const Hash32> siblings);

}  // namespace quern::crypto
