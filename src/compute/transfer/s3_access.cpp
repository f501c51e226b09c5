#include <algorithm>

#include "compute/transfer/options.h"

namespace quern::compute::transfer {
namespace {

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// They become a header's text.
bool is_plain(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

Status read_credentials(std::string_view text, std::string_view profile, S3Access& access) {
    bool within = false;
    bool found = false;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.starts_with('[')) {
            within = line.ends_with(']') && trimmed(line.substr(1, line.size() - 2)) == profile;
            found = found || within;
            continue;
        }
        const std::size_t equals = line.find('=');
        if (!within || line.starts_with('#') || equals == std::string::npos) continue;
        const std::string_view key = trimmed(line.substr(0, equals));
        const std::string_view value = trimmed(line.substr(equals + 1));
        if (key == "aws_access_key_id") access.key_id = value;
        if (key == "aws_secret_access_key") access.secret = value;
        if (key == "aws_session_token") access.session_token = value;
    }
    if (!found) return fail("s3.no_profile", std::string(profile));
    if (access.key_id.empty() || access.secret.empty() || !is_plain(access.key_id) || !is_plain(access.secret) ||
        !is_plain(access.session_token))
        return fail("s3.bad_credentials", "a key id and a secret, printable and without spaces");
    return {};
}

}  // namespace quern::compute::transfer
