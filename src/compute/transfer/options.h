// What an operator or a submitter lets transfers do, as plain data. Nothing below reads argv or the environment.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compute/transfer/source_uri.h"

namespace quern::compute::transfer {

struct S3Access {
    std::string endpoint;  // http(s)://host[:port]; empty: Amazon's of the region
    std::string region;    // of the signature
    std::string key_id;    // empty: requests are not signed, for buckets that anybody may read
    std::string secret;
    std::string session_token;  // may be empty
};
// Of a file as Amazon's tools have it: "[profile]" and lines "aws_access_key_id = ...", "aws_secret_access_key",
// "aws_session_token". Errors: s3.no_profile, s3.bad_credentials (never with what stands there).
[[nodiscard]] Status read_credentials(std::string_view text, std::string_view profile, S3Access& access);

struct TransferLimits {
    std::uint64_t connect_ms = 10'000;
    std::uint64_t least_bytes_per_second = 16U << 10;  // for `patience_s`: slower transfers end
    std::uint64_t patience_s = 30;
    unsigned redirects = 4;
    unsigned tries = 3;              // one after another that bring nothing new
    unsigned breaks = 100;           // of one transfer from one source
    std::uint64_t again_ms = 1'000;  // before the second try; twice as long before each further one
};

struct TransferOptions {
    std::set<Scheme> schemes{Scheme::https};  // of sources
    bool private_addresses = false;           // sources may lie in private networks and on this machine
    std::vector<std::string> directories;     // where file sources lie
    std::string ca_file;                      // PEM; empty: the system's
    std::string ipfs_gateway;                 // http(s)://host[:port]
    S3Access s3;
    TransferLimits limits;
};

}  // namespace quern::compute::transfer
