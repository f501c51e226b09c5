// Options of programs that fetch from tasks' uris or deliver to https and S3: what they let happen, and the keys to S3,
// which come from a file or from Amazon's usual environment variables and are never shown. Used by src/bin only.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/fs.h"
#include "base/http_client.h"
#include "compute/transfer/options.h"

namespace quern {

struct TransferTexts {
    std::vector<std::string> uris{"https"};
    std::string s3_credentials;
};

// For S3 and HTTPS, in either direction.
inline void add_transfer_options(CLI::App& app, compute::transfer::TransferOptions& options, TransferTexts& texts) {
    app.add_option("--s3-endpoint", options.s3.endpoint,
                   "URL of the S3 service (default: $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, else Amazon's)");
    app.add_option("--s3-region", options.s3.region, "default: $AWS_REGION, $AWS_DEFAULT_REGION, else us-east-1");
    app.add_option("--s3-credentials", texts.s3_credentials,
                   "file as ~/.aws/credentials, of which $AWS_PROFILE or default counts (default: $AWS_ACCESS_KEY_ID, "
                   "$AWS_SECRET_ACCESS_KEY, $AWS_SESSION_TOKEN)");
    app.add_option("--ca-file", options.ca_file,
                   "PEM file of authorities that certificates may be of, beside the system's");
}

// For who fetches what strangers name.
inline void add_source_options(CLI::App& app, compute::transfer::TransferOptions& options, TransferTexts& texts) {
    app.add_option(
           "--uris", texts.uris,
           "what may be fetched from tasks' uris when no node has it, a list of https, http, s3, ipfs, file; off: "
           "nothing")
        ->delimiter(',')
        ->capture_default_str();
    app.add_flag("--uris-private", options.private_addresses,
                 "uris may lead to private networks and to this machine, by http too; without it to the open internet "
                 "alone");
    app.add_option("--uris-dir", options.directories,
                   "directory below which file:// uris may lie; several may be given");
    app.add_option("--ipfs-gateway", options.ipfs_gateway, "URL of the gateway that ipfs:// uris are fetched from");
    app.add_option("--uris-patience-s", options.limits.patience_s,
                   "a slower source than 16 KiB/s is given up after so long")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
}

inline std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}
inline void take_first(std::string& value, std::initializer_list<const char*> names) {
    for (const char* const name : names)
        if (value.empty()) value = environment(name);
}

// A URL without a path: what is asked for follows it. Errors: http.bad_url, http.unsupported_scheme.
inline Status check_base_url(std::string& url, const char* option) {
    if (url.empty()) return {};
    while (url.ends_with('/')) url.pop_back();
    const auto parsed = compute::transfer::parse_source_uri(url);
    if (parsed && parsed->path == "/" && parsed->query.empty() && !parsed->id &&
        (parsed->scheme == compute::transfer::Scheme::https || parsed->scheme == compute::transfer::Scheme::http))
        return {};
    return fail("options.bad_url", std::string(option) + ": http(s)://host[:port]");
}

// Reads what stands elsewhere. Errors: options.bad_uris, options.bad_url, s3.*, fs.*.
inline Status take_transfer_options(compute::transfer::TransferOptions& options, const TransferTexts& texts) {
    namespace transfer = compute::transfer;
    constexpr std::size_t kMaxCredentials = 64U << 10;
    options.schemes.clear();
    for (const std::string& text : texts.uris) {
        const auto* const known = std::find_if(std::begin(transfer::kSchemes), std::end(transfer::kSchemes),
                                               [&](transfer::Scheme each) { return transfer::name(each) == text; });
        if (known != std::end(transfer::kSchemes))
            options.schemes.insert(*known);
        else if (text != "off" || texts.uris.size() != 1)
            return fail("options.bad_uris", "--uris " + text + "; known: https, http, s3, ipfs, file, or off alone");
    }
    if (texts.uris == std::vector<std::string>{"off"}) options.private_addresses = false;
    transfer::S3Access& s3 = options.s3;
    take_first(s3.endpoint, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
    take_first(s3.region, {"AWS_REGION", "AWS_DEFAULT_REGION"});
    if (s3.region.empty()) s3.region = "us-east-1";
    QUERN_CHECK(check_base_url(s3.endpoint, "--s3-endpoint"));
    QUERN_CHECK(check_base_url(options.ipfs_gateway, "--ipfs-gateway"));
    if (texts.s3_credentials.empty()) {
        take_first(s3.key_id, {"AWS_ACCESS_KEY_ID"});
        take_first(s3.secret, {"AWS_SECRET_ACCESS_KEY"});
        take_first(s3.session_token, {"AWS_SESSION_TOKEN"});
        return {};
    }
    QUERN_TRY(const std::string text, fs::read_text_file(texts.s3_credentials, kMaxCredentials));
    const std::string profile = environment("AWS_PROFILE");
    return transfer::read_credentials(text, profile.empty() ? "default" : profile, s3);
}

}  // namespace quern
