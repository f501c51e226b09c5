// HTTP basic authentication and the cookie that separates local administration from everybody else: "__cookie__:<hex>"
// in the data directory, made anew at each start, sent as its user and password. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace quern::rpc {

// The value of an Authorization header for "user:password".
[[nodiscard]] std::string basic_authorization(std::string_view user_and_password);
// Comparison in time that depends on the lengths only.
[[nodiscard]] bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace quern::rpc
