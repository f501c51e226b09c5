// Where a content may lie outside the nodes, as a task's `uris` name it (doc/content.md, "From elsewhere"). A stranger
// wrote it: everything that is not in the grammar is refused. Pure; thread-safe.
//
//   uri  = scheme "://" rest [ "#" id ]            id: 64 hex digits, with or without 0x
//   rest = host [ ":" port ] path [ "?" query ]    https, http
//        | bucket "/" key                          s3
//        | CID [ path ]                            ipfs
//        | path                                    file
//
// A path that ends with "/", without query and id, is a folder: the content x lies at path || x in hex.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "crypto/hash.h"

namespace quern::compute::transfer {

inline constexpr std::size_t kMaxUriBytes = 2'048;  // of a task's: core::kMaxTaskUriBytes

enum class Scheme : std::uint8_t { https, http, s3, ipfs, file };
inline constexpr Scheme kSchemes[] = {Scheme::https, Scheme::http, Scheme::s3, Scheme::ipfs, Scheme::file};
[[nodiscard]] std::string_view name(Scheme scheme);

struct SourceUri {
    Scheme scheme = Scheme::https;
    std::string authority;   // host as written, bucket, CID; of file empty
    std::uint16_t port = 0;  // of https, http; 0: the scheme's
    std::string path;   // decoded, without "." and ".." and empty segments but the last; begins with "/" or is empty
    std::string query;  // of https, http: as written, without "?"
    std::optional<Hash32> id;  // the content that lies there

    [[nodiscard]] bool is_folder() const { return path.ends_with('/') && query.empty() && !id; }
    // In one way for each; what parse_source_uri takes.
    [[nodiscard]] std::string text() const;
    // For logs: without the query, which may hold a signature.
    [[nodiscard]] std::string shown() const;
};

// Errors: uri.bad (what is wrong with it), uri.unknown_scheme, uri.has_credentials.
[[nodiscard]] Expected<SourceUri> parse_source_uri(std::string_view text);

// RFC 3986: all but letters, digits and "-._~/" as %XX.
[[nodiscard]] std::string encode_path(std::string_view path);

}  // namespace quern::compute::transfer
