// Private keys from files, as the programs take them: a Web3 Secret Storage keystore with a password, or 64 hex digits.
// Files that others may read are refused. Every error names the file. Used by quernd, quern-worker, quern-genesis and
// the wallet. Thread-safe.
#pragma once

#include <string>

#include "crypto/signature.h"

namespace quern::crypto {

// `password_file` may be empty for a hex key. Its first line is the password. Errors: key_file.permissions (group or
// others have access), key_file.password_needed, key_file.not_a_key, keystore.*, key.*, fs.*.
[[nodiscard]] Expected<PrivateKey> load_key_file(const std::string& path, const std::string& password_file);

// The parts of it, for who asks for passwords. Errors: key_file.permissions, fs.*; open_keystore() also keystore.*,
// json.*, hex.*, key.*.
[[nodiscard]] Expected<std::string> read_password_file(const std::string& path);  // its first line
[[nodiscard]] Expected<bool> needs_password(const std::string& path);             // whether it is a keystore
[[nodiscard]] Expected<PrivateKey> open_keystore(const std::string& path, std::string_view password);

}  // namespace quern::crypto
