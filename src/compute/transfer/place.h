// From a URI to where it is asked for: the request's URL and which addresses it may lead to, or the file, as the
// options allow. Used by fetch and deliver. Thread-safe: plain functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compute/transfer/http_call.h"
#include "compute/transfer/source_uri.h"

namespace quern::compute::transfer {

struct Place {
    std::string shown;  // for logs and errors
    std::string url;    // empty: a file
    std::string file;   // as named: not yet resolved
    AddressRule addresses = AddressRule::open_internet;
    bool redirects = false;
    bool is_signed = false;  // by the options' S3Access
};

// Of a source that a stranger may have named. Errors: transfer.scheme_not_allowed, transfer.no_gateway.
[[nodiscard]] Expected<Place> source_place(const SourceUri& uri, const TransferOptions& options);
// Of a target, or of what was delivered there, that the user of this machine named: any address. Error
// transfer.not_writable (ipfs), transfer.insecure (http to another machine).
[[nodiscard]] Expected<Place> target_place(const SourceUri& uri, const TransferOptions& options);

// The descriptor of a regular file below one of the directories, links resolved. Errors: transfer.outside_directories,
// fs.not_found, fs.cannot_open, transfer.not_a_file.
[[nodiscard]] Expected<int> open_within(const std::string& path, const std::vector<std::string>& directories);

}  // namespace quern::compute::transfer
