#include "compute/transfer/source_uri.h"

#include <algorithm>

#include "base/hex_digits.h"

namespace quern::compute::transfer {
namespace {

constexpr std::size_t kMaxHostBytes = 253;
constexpr std::size_t kMaxKeyBytes = 1'024;
constexpr std::size_t kMaxBucketBytes = 63;
constexpr std::size_t kMaxCidBytes = 128;
constexpr std::size_t kHashDigits = 2 * Hash32::kSize;

bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_unreserved(char c) {
    return is_alpha(c) || is_digit(c) || std::string_view("-._~").find(c) != std::string::npos;
}
bool is_path_char(char c) {
    return is_unreserved(c) || std::string_view("/!$&'()*+,;=:@%").find(c) != std::string::npos;
}
bool is_query_char(char c) { return is_path_char(c) || c == '?'; }

tl::unexpected<Error> bad(std::string_view what) { return fail("uri.bad", std::string(what)); }

// Each % is followed by two hex digits.
bool is_escaped_right(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') continue;
        if (text.size() - i < 3 || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0) return false;
        i += 2;
    }
    return true;
}

std::string decode(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out.push_back(text[i]);
            continue;
        }
        out.push_back(static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])));
        i += 2;
    }
    return out;
}

// What servers and file systems read in more than one way is refused: it could lead out of a bucket, a CID or a folder.
Status check_path(std::string_view path) {
    for (const char c : path)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\')
            return bad("a control character or a backslash in the path");
    while (!path.empty()) {
        path.remove_prefix(1);  // the slash
        const std::size_t end = std::min(path.find('/'), path.size());
        const std::string_view segment = path.substr(0, end);
        if (segment == "." || segment == "..") return bad("the path has a segment . or ..");
        if (segment.empty() && end != path.size()) return bad("the path has an empty segment");
        path.remove_prefix(end);
    }
    return {};
}

Status take_path(std::string_view text, SourceUri& uri) {
    if (!std::all_of(text.begin(), text.end(), is_path_char)) return bad("the path has a character that must be %XX");
    if (!is_escaped_right(text)) return bad("% without two hexadecimal digits");
    uri.path = decode(text);
    return check_path(uri.path);
}

Expected<std::uint16_t> parse_port(std::string_view text) {
    std::uint32_t port = 0;
    if (text.empty() || text.size() > 5 || text.front() == '0') return bad("the port");
    for (const char c : text) {
        if (!is_digit(c)) return bad("the port");
        port = port * 10 + static_cast<std::uint32_t>(c - '0');
    }
    if (port > 65'535) return bad("the port");
    return static_cast<std::uint16_t>(port);
}

Status take_host(std::string_view text, SourceUri& uri) {
    if (text.find('@') != std::string::npos) return fail("uri.has_credentials", "a name or a password before the host");
    std::size_t end = 0;
    if (text.starts_with('[')) {
        end = text.find(']');
        if (end == std::string::npos || end < 3) return bad("the host");
        for (const char c : text.substr(1, end - 1))
            if (hex_digit(c) < 0 && c != ':' && c != '.') return bad("the host");
        ++end;
    } else {
        end = std::min(text.find(':'), text.size());
        const auto host = text.substr(0, end);
        for (const char c : host)
            if (!is_alpha(c) && !is_digit(c) && c != '-' && c != '.') return bad("the host");
        if (host.empty() || host.starts_with('.') || host.starts_with('-') || host.find("..") != std::string::npos)
            return bad("the host");
    }
    if (end > kMaxHostBytes) return bad("the host");
    uri.authority = text.substr(0, end);
    if (end == text.size()) return {};
    if (text[end] != ':') return bad("the host");
    QUERN_TRY(uri.port, parse_port(text.substr(end + 1)));
    return {};
}

bool is_bucket(std::string_view text) {
    return text.size() >= 3 && text.size() <= kMaxBucketBytes && text.find("..") == std::string::npos &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '.'; }) &&
           text.front() != '.' && text.front() != '-';
}
bool is_cid(std::string_view text) {
    return text.size() >= 40 && text.size() <= kMaxCidBytes &&
           std::all_of(text.begin(), text.end(), [](char c) { return is_alpha(c) || is_digit(c); });
}

Status take_web(std::string_view rest, SourceUri& uri) {
    const std::size_t host_end = std::min(rest.find_first_of("/?"), rest.size());
    QUERN_CHECK(take_host(rest.substr(0, host_end), uri));
    rest.remove_prefix(host_end);
    const std::size_t path_end = std::min(rest.find('?'), rest.size());
    QUERN_CHECK(take_path(rest.substr(0, path_end), uri));
    if (uri.path.empty()) uri.path.assign(1, '/');
    if (path_end == rest.size()) return {};
    uri.query = rest.substr(path_end + 1);
    if (uri.query.empty() || !std::all_of(uri.query.begin(), uri.query.end(), is_query_char) ||
        !is_escaped_right(uri.query))
        return bad("the query");
    return {};
}

Status take_rest(std::string_view rest, SourceUri& uri) {
    if (uri.scheme == Scheme::https || uri.scheme == Scheme::http) return take_web(rest, uri);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    uri.authority = rest.substr(0, end);
    if (uri.scheme == Scheme::s3 && !is_bucket(uri.authority)) return bad("the bucket's name");
    if (uri.scheme == Scheme::ipfs && !is_cid(uri.authority)) return bad("the CID");
    if (uri.scheme == Scheme::file && !uri.authority.empty()) return bad("a file has no host: file:///path");
    QUERN_CHECK(take_path(rest.substr(end), uri));
    if (uri.scheme == Scheme::s3 && (uri.path.size() < 2 || uri.path.size() > kMaxKeyBytes + 1))
        return bad("the key, of 1 to 1,024 bytes");
    if (uri.scheme == Scheme::file && uri.path.size() < 2) return bad("the file's name");
    return {};
}

}  // namespace

std::string_view name(Scheme scheme) {
    switch (scheme) {
        case Scheme::https:
            return "https";
        case Scheme::http:
            return "http";
        case Scheme::s3:
            return "s3";
        case Scheme::ipfs:
            return "ipfs";
        case Scheme::file:
            return "file";
    }
    return "";
}

std::string encode_path(std::string_view path) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string out;
    for (const char c : path) {
        if (is_unreserved(c) || c == '/') {
            out.push_back(c);
            continue;
        }
        const auto value = static_cast<unsigned char>(c);
        out.push_back('%');
        out.push_back(kDigits[value >> 4]);
        out.push_back(kDigits[value & 15]);
    }
    return out;
}

std::string SourceUri::shown() const {
    std::string out(name(scheme));
    out.append("://").append(authority);
    if (port != 0) out.append(":").append(std::to_string(port));
    return out.append(encode_path(path));
}

std::string SourceUri::text() const {
    std::string out = shown();
    if (!query.empty()) out.append("?").append(query);
    if (id) out.append("#").append(to_hex(*id));
    return out;
}

Expected<SourceUri> parse_source_uri(std::string_view text) {
    if (text.empty() || text.size() > kMaxUriBytes) return bad("1 to 2,048 characters");
    if (std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c > '~'; }))
        return bad("printable ASCII without spaces");
    const std::size_t colon = text.find("://");
    if (colon == std::string::npos) return bad("no scheme://");
    SourceUri uri;
    const auto scheme = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                     [&](Scheme each) { return name(each) == text.substr(0, colon); });
    if (scheme == std::end(kSchemes)) return fail("uri.unknown_scheme", std::string(text.substr(0, colon)));
    uri.scheme = *scheme;
    text.remove_prefix(colon + 3);
    const std::size_t hash = std::min(text.find('#'), text.size());
    QUERN_CHECK(take_rest(text.substr(0, hash), uri));
    if (hash == text.size()) return uri;
    std::string_view digits = text.substr(hash + 1);
    if (digits.starts_with("0x")) digits.remove_prefix(2);
    const auto id = fixed_from_hex<Hash32::kSize>(digits);
    if (digits.size() != kHashDigits || !id) return bad("after # stands a content id, 64 hexadecimal digits");
    uri.id = *id;
    return uri;
}

}  // namespace quern::compute::transfer
