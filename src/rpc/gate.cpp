#include "rpc/gate.h"

#include <arpa/inet.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/base64.h"
#include "crypto/hash.h"
#include "rpc/auth.h"

namespace quern::rpc {
namespace {

constexpr std::string_view kBasic = "Basic ";

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

std::string password_hash(std::string_view salt, std::string_view password) {
    return to_hex(crypto::hmac_sha256(as_bytes(salt), as_bytes(password)));
}

bool is_address(const std::string& host) {
    in6_addr address{};
    return ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

Expected<MethodList> MethodList::read(const std::vector<std::string>& entries) {
    MethodList list;
    for (const std::string& entry : entries) {
        std::string_view name = entry;
        const bool is_prefix = name.ends_with('*');
        if (is_prefix) name.remove_suffix(1);
        if ((name.empty() && !is_prefix) || !std::all_of(name.begin(), name.end(), is_name_character))
            return fail("rpc.bad_method_list", "\"" + entry + "\" is no method name");
        if (is_prefix)
            list.prefixes_.emplace_back(name);
        else
            list.names_.emplace(name);
    }
    return list;
}

bool MethodList::admits(std::string_view method) const {
    return names_.contains(method) || std::any_of(prefixes_.begin(), prefixes_.end(), [&](const std::string& prefix) {
               return method.starts_with(prefix);
           });
}

struct Gate::Impl {
    struct User {
        std::string salt;
        std::string hash;
        std::optional<MethodList> methods;
    };
    std::string cookie;  // the header's value; empty: none
    std::map<std::string, User, std::less<>> users;
    std::optional<MethodList> open_methods;
    std::set<std::string, std::less<>> hosts{"localhost"};
    bool any_host = false;

    Status add_user(const std::string& text) {
        const auto refuse = [](const char* why) { return fail("rpc.bad_auth", std::string("-rpcauth: ") + why); };
        const std::size_t colon = text.find(':');
        const std::size_t dollar = colon == std::string::npos ? colon : text.find('$', colon);
        if (dollar == std::string::npos || colon == 0) return refuse("expected NAME:SALT$HASH");
        User user{text.substr(colon + 1, dollar - colon - 1), lower(text.substr(dollar + 1)), {}};
        if (user.salt.empty() || !fixed_from_hex<32>(user.hash) || user.hash.size() != 64)
            return refuse("the hash must be 64 hexadecimal digits behind a salt");
        if (users.size() == kMaxUsers) return refuse("too many users");
        if (!users.emplace(text.substr(0, colon), std::move(user)).second) return refuse("the same name twice");
        return {};
    }

    Status add_whitelist(const std::string& text) {
        const std::size_t colon = text.find(':');
        const auto user = users.find(std::string_view(text).substr(0, colon));
        if (colon == std::string::npos || user == users.end())
            return fail("rpc.bad_whitelist", "expected NAME:method,method with a name of -rpcauth");
        std::vector<std::string> entries;
        for (std::size_t at = colon + 1; at < text.size();) {
            const std::size_t end = std::min(text.find(',', at), text.size());
            entries.push_back(text.substr(at, end - at));
            at = end + 1;
        }
        QUERN_TRY(user->second.methods, MethodList::read(entries));
        return {};
    }
};

Gate::Gate() : impl_(std::make_unique<Impl>()) {}
Gate::~Gate() { std::fill(impl_->cookie.begin(), impl_->cookie.end(), '\0'); }

Expected<std::shared_ptr<const Gate>> Gate::make(const GateRules& rules) {
    std::shared_ptr<Gate> gate(new Gate());
    Impl& impl = *gate->impl_;
    if (!rules.cookie.empty()) impl.cookie = basic_authorization(rules.cookie);
    for (const std::string& user : rules.users) QUERN_CHECK(impl.add_user(user));
    for (const std::string& list : rules.whitelists) QUERN_CHECK(impl.add_whitelist(list));
    if (!rules.allow_methods.empty()) {
        QUERN_TRY(impl.open_methods, MethodList::read(rules.allow_methods));
    }
    for (const std::string& host : rules.allow_hosts) {
        impl.any_host = impl.any_host || host == "*";
        impl.hosts.insert(lower(host));
    }
    return std::shared_ptr<const Gate>(std::move(gate));
}

bool Gate::admits_host(std::string_view header) const {
    if (impl_->any_host || header.empty()) return true;  // browsers always send one
    std::string host;
    std::string_view port;  // with its colon, or nothing
    if (header.front() == '[') {
        const std::size_t end = header.find(']');
        if (end == std::string_view::npos) return false;
        host = std::string(header.substr(1, end - 1));
        port = header.substr(end + 1);
    } else {
        const std::size_t colon = std::min(header.find(':'), header.size());
        // More than one colon: an IPv6 address without brackets.
        const bool has_port = header.find(':', colon + 1) == std::string_view::npos;
        host = std::string(has_port ? header.substr(0, colon) : header);
        if (has_port) port = header.substr(colon);
    }
    // What follows could make another name of it to whoever looks at the whole.
    if (!port.empty() && (port.front() != ':' || port.find_first_not_of("0123456789", 1) != std::string_view::npos))
        return false;
    if (host.ends_with('.')) host.pop_back();
    return is_address(host) || impl_->hosts.contains(lower(host));
}

Expected<Caller> Gate::identify(std::string_view authorization) const {
    const Caller stranger{false, impl_->open_methods ? &*impl_->open_methods : nullptr};
    if (lower(authorization.substr(0, kBasic.size())) != "basic ") return stranger;
    const auto refuse = [] { return fail("rpc.bad_credentials", "unknown user or wrong password"); };
    const std::string_view encoded = authorization.substr(kBasic.size());
    if (!impl_->cookie.empty() && equal_secrets(encoded, std::string_view(impl_->cookie).substr(kBasic.size())))
        return Caller{true, nullptr};
    const auto decoded = from_base64(encoded);
    const std::size_t colon = decoded ? decoded->find(':') : std::string::npos;
    if (colon == std::string::npos) return refuse();
    const auto user = impl_->users.find(std::string_view(*decoded).substr(0, colon));
    if (user == impl_->users.end()) return refuse();
    const std::string hash = password_hash(user->second.salt, std::string_view(*decoded).substr(colon + 1));
    if (!equal_secrets(hash, user->second.hash)) return refuse();
    return Caller{true, user->second.methods ? &*user->second.methods : nullptr};
}

}  // namespace quern::rpc
