// Private keys from files, as the programs take them: a Web3 Secret Storage keystore with a password, or 64 hex digits.
// Files that others may read are refused. Used by quernd, quern-worker and quern-wallet.
#pragma once

#include <string>

#include "crypto/signature.h"

namespace quern::crypto {

// `password_file` may be empty for a hex key. Its first line is the password. Errors: key_file.permissions (group or
// others have access), key_file.password_needed, key_file.not_a_key, keystore.*, key.*, fs.*.
[[nodiscard]] Expected<PrivateKey> load_key_file(const std::string& path, const std::string& password_file);

}  // namespace quern::crypto
