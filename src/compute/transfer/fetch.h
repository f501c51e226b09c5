// A content fetched by its id from URIs: one source after the other, each continued where a broken connection left it,
// and nothing taken that has another id. Used by workers. Thread-safe; of one content in one directory one call at a
// time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "compute/transfer/options.h"
#include "crypto/content_shards.h"

namespace quern::compute::transfer {

struct Wanted {
    Hash32 id;
    std::optional<std::uint64_t> size;  // where it is known beforehand
    std::uint64_t max_bytes = 0;        // where it is not
    bool is_plain = false;              // a URI that names neither a folder nor an id means this content
    unsigned shard_level = crypto::kContentShardLevel;
};

// Those that may have it, in their order. What is no URI, or another content's, is left out.
[[nodiscard]] std::vector<SourceUri> sources_of(const std::vector<std::string>& uris, const Wanted& wanted);

struct Fetched {
    std::string path;              // of the file; the caller removes it
    crypto::ContentShards shards;  // what it is
    std::string from;              // a source, as shown; empty: it was there already
};

// Into `directory`/ID, by way of `directory`/ID.part, which stays when it comes to nothing: the next call goes on with
// it. Errors: of the last source (transfer.*, uri.*, fs.*, content.id_mismatch), with those of all in the detail;
// transfer.no_source; transfer.stopped (busy).
[[nodiscard]] Expected<Fetched> fetch(const Wanted& wanted, const std::vector<SourceUri>& sources,
                                      const std::string& directory, const TransferOptions& options,
                                      const Cancellation* cancellation = nullptr);

}  // namespace quern::compute::transfer
