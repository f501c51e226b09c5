// Who may call what: names under which the node answers (a web page cannot reach it by a name of its own), the cookie,
// users of -rpcauth with their lists of methods, and the list of methods for everybody. Made once from the options and
// shared by the HTTP and WebSocket servers. Thread-safe.
//
// A user is "NAME:SALT$HASH" as Bitcoin Core writes it (contrib/rpcauth.py makes one): HASH = hex of HMAC-SHA-256(key
// SALT, message PASSWORD).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace quern::rpc {

inline constexpr std::size_t kMaxUsers = 256;
inline constexpr std::uint64_t kRefusedCredentialsMs = 250;  // an answer to wrong credentials waits so long

// Names of methods, an entry may end in "*". Empty: none.
class MethodList {
public:
    // Error rpc.bad_method_list: an entry with "*" elsewhere or a character that no method has.
    [[nodiscard]] static Expected<MethodList> read(const std::vector<std::string>& entries);
    [[nodiscard]] bool admits(std::string_view method) const;

private:
    std::set<std::string, std::less<>> names_;
    std::vector<std::string> prefixes_;
};

struct GateRules {
    std::string cookie;                      // "user:password" of local administration; empty: nobody has it
    std::vector<std::string> users;          // "NAME:SALT$HASH"
    std::vector<std::string> whitelists;     // "NAME:method,method": what the user may call; without one all
    std::vector<std::string> allow_methods;  // what callers without credentials may call; empty: all open methods
    std::vector<std::string> allow_hosts;    // names in the Host header beside localhost and addresses; "*": any
};

// Whoever sent a request. `methods` lives as long as the gate; null: all.
struct Caller {
    bool authenticated = false;
    const MethodList* methods = nullptr;
};

class Gate {
public:
    // Errors: rpc.bad_auth, rpc.bad_whitelist, rpc.bad_method_list.
    [[nodiscard]] static Expected<std::shared_ptr<const Gate>> make(const GateRules& rules);
    ~Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    // A Host header, port and brackets included. Addresses are always good: only names can be made to point here.
    [[nodiscard]] bool admits_host(std::string_view header) const;
    // By the value of an Authorization header; other schemes than Basic are as none. Error rpc.bad_credentials, for
    // which the answer must wait kRefusedCredentialsMs.
    [[nodiscard]] Expected<Caller> identify(std::string_view authorization) const;

private:
    Gate();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::rpc
