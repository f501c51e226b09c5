// Outcome of a transaction: a band, which alone decides relay, retry and charging, and a stable name with a detail.
#pragma once

#include <string>
#include <string_view>

#include "base/expected.h"

namespace quern::chain::exec {

enum class Band : std::uint8_t {
    ok = 0,         // executed; fee charged; receipt status 1
    failed = 1,     // executed and undone; fee charged; receipt status 0
    retry = 2,      // not now: may become valid (nonce too high, not enough block gas left); kept
    refused = 3,    // not valid in this state (nonce too low, insufficient funds); dropped, nothing charged
    malformed = 4,  // never valid; dropped, the sender of the message is at fault
};

struct Result {
    Band band = Band::ok;
    std::string_view name = "ok";  // literal: "nonce too low", "task.not_open"
    std::string detail;

    [[nodiscard]] bool in_block() const { return band == Band::ok || band == Band::failed; }
    [[nodiscard]] std::string to_string() const {
        return detail.empty() ? std::string(name) : std::string(name) + ": " + detail;
    }
};

[[nodiscard]] inline Result ok() { return {}; }
[[nodiscard]] inline Result failed(std::string_view name, std::string detail = {}) {
    return {Band::failed, name, std::move(detail)};
}
[[nodiscard]] inline Result failed(const Error& error) { return {Band::failed, error.name, error.detail}; }
[[nodiscard]] inline Result retry(std::string_view name, std::string detail = {}) {
    return {Band::retry, name, std::move(detail)};
}
[[nodiscard]] inline Result refused(std::string_view name, std::string detail = {}) {
    return {Band::refused, name, std::move(detail)};
}
[[nodiscard]] inline Result malformed(std::string_view name, std::string detail = {}) {
    return {Band::malformed, name, std::move(detail)};
}

}  // namespace quern::chain::exec
