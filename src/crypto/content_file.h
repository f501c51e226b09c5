// What a file would be as a content, whatever its size: it is read piece by piece. Used by tools. Thread-safe.
#pragma once

#include <string>

#include "crypto/content_shards.h"

namespace quern::crypto {

// By its id() the content's id, and the list of its shards where it has more than one. Errors: fs.not_found,
// fs.cannot_open, fs.read_failed.
[[nodiscard]] Expected<ContentShards> content_shards_of_file(const std::string& path,
                                                             unsigned level = kContentShardLevel);

}  // namespace quern::crypto
