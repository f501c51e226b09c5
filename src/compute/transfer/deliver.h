// A file brought to where its owner wants it: PUT to https:// or s3://, and read back. Used by quern-train.
// Thread-safe.
#pragma once

#include <string>

#include "base/cancellation.h"
#include "compute/transfer/options.h"

namespace quern::compute::transfer {

struct Delivered {
    std::string shown;  // where it is; without a query
    std::uint64_t size = 0;
    Hash32 id;              // content id of the file
    bool before = false;    // it was there already
    bool verified = false;  // read back; false: what may be written there may not be read
};
inline constexpr std::uint64_t kMaxPutBytes = std::uint64_t{5} << 30;  // that S3 takes in one request

// The place's name ends with "/": the file's own name follows. What is there already is not sent again. Errors: uri.*,
// transfer.not_writable, transfer.insecure, transfer.no_credentials, transfer.too_large, transfer.refused (a status),
// transfer.not_delivered (it reads back as something else), those of HttpCall, fs.*.
[[nodiscard]] Expected<Delivered> deliver(const std::string& file, const std::string& uri,
                                          const TransferOptions& options, const Cancellation* cancellation = nullptr);
// The form alone, for a command line. Errors: uri.*, transfer.not_writable, transfer.insecure,
// transfer.no_credentials.
[[nodiscard]] Status check_target(const std::string& uri, const TransferOptions& options);

}  // namespace quern::compute::transfer
