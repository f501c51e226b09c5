// Files into a node's content store. Used by quern-cli and quern-train. Belongs to the thread that calls.
#pragma once

#include <functional>
#include <string>

#include "rpc/client.h"

namespace quern::rpc {

// Stores a file of any size, which is never in memory as a whole, and gives its content id. By shard where it has more
// than one, so that who begins again sends those that the node lacks; `on_shard` hears of each that is there, by number
// from 1. Errors: fs.not_found, fs.cannot_open, fs.read_failed; content.busy, content.refused, http.*.
[[nodiscard]] Expected<Hash32> put_file(
    Client& client, const std::string& path,
    const std::function<void(std::size_t shard, std::size_t shards)>& on_shard = {});

}  // namespace quern::rpc
