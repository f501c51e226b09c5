// One HTTP or HTTPS request by libcurl, whose headers stay in http_call.cpp: certificates are checked, no proxy or
// other setting comes from the environment, addresses are checked as they are connected, bodies are streamed, and who
// is too slow is given up. Used by fetch and deliver. Thread-safe: each call has a handle of its own.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/cancellation.h"
#include "base/expected.h"
#include "compute/transfer/address_rule.h"
#include "compute/transfer/options.h"

namespace quern::compute::transfer {

// Errors of calls. The first three may pass: the same again may bring more.
inline constexpr std::string_view kConnectFailed = "transfer.connect_failed";
inline constexpr std::string_view kBroken = "transfer.broken";  // the connection, or a status 5xx, 408, 429
inline constexpr std::string_view kTooSlow = "transfer.too_slow";
inline constexpr std::string_view kForbiddenAddress = "transfer.forbidden_address";
inline constexpr std::string_view kBadRedirect = "transfer.bad_redirect";  // too many, to another scheme, too long
inline constexpr std::string_view kTlsFailed = "transfer.tls_failed";
inline constexpr std::string_view kBadHeader = "transfer.bad_header";
inline constexpr std::string_view kStopped = "transfer.stopped";
inline constexpr std::string_view kSetup = "transfer.setup";  // libcurl lacks something that this needs

struct ContentRange {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::optional<std::uint64_t> total;
};
// "bytes a-b/c" or "bytes a-b/*", a <= b < c. nullopt: anything else.
[[nodiscard]] std::optional<ContentRange> parse_content_range(std::string_view text);

struct ResponseHead {
    unsigned status = 0;
    std::optional<std::uint64_t> length;  // as announced
    std::optional<ContentRange> range;
};

struct HttpCall {
    std::string url;    // encoded; not shown in errors, since a query may hold a signature
    std::string shown;  // instead
    AddressRule addresses = AddressRule::open_internet;
    bool redirects = false;          // of https to https alone, of http also to https
    const S3Access* sign = nullptr;  // with its key, if it has one; outlives the call
    std::uint64_t from = 0;          // > 0: asks for the bytes from there on
    std::uint64_t most_bytes = 0;    // of the answer's body: for how long the whole may take
    // Called with the last response's head before its body, and with the body; an error ends the call and is its own.
    std::function<Status(const ResponseHead&)> on_head;
    std::function<Status(BytesView)> on_body;
    // PUT, when there is a source: `upload_bytes` from it (0: error), whose SHA-256 is `upload_hash`.
    std::function<Expected<std::size_t>(std::span<std::uint8_t>)> upload;
    std::uint64_t upload_bytes = 0;
    Hash32 upload_hash;
};

// Any status is a success of the call. Errors: those above, on_head's, on_body's and the source's.
[[nodiscard]] Expected<ResponseHead> perform(const HttpCall& call, const TransferOptions& options,
                                             const Cancellation* cancellation);

}  // namespace quern::compute::transfer
