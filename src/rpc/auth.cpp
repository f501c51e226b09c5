#include "rpc/auth.h"

#include "base/base64.h"

namespace quern::rpc {

std::string basic_authorization(std::string_view user_and_password) { return "Basic " + base64(user_and_password); }

bool equal_secrets(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
    return difference == 0;
}

}  // namespace quern::rpc
