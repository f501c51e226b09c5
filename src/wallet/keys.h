// A wallet's keys: opened from keystores, hex files or a seed, made, and put into new keystores. Used by quern-wallet.
// Passwords come from files or from whoever is asked (a function, so that nothing here knows a terminal). Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/rng.h"
#include "crypto/signature.h"

namespace quern::wallet {

// Where a key comes from; empty texts: not given.
struct KeySource {
    std::string keystore;       // a key file: Web3 Secret Storage v3, or 64 hex digits
    std::string password_file;  // its first line
    std::string seed;           // a key of this text instead
};
// Shows the prompt and gives what was typed. Error: wallet.no_password when nobody can be asked.
using AskPassword = std::function<Expected<std::string>(const char* prompt)>;

// The same text gives the same key: for networks whose keys guard nothing.
[[nodiscard]] Expected<crypto::PrivateKey> key_from_seed(std::string_view seed);

// Errors: wallet.no_key, wallet.no_password, and those of crypto::load_key_file(); each names the file.
[[nodiscard]] Expected<crypto::PrivateKey> open_key(const KeySource& source, const AskPassword& ask);

// Of a keystore that is made: the file's first line, or what was typed twice. Errors: key_file.permissions, fs.*,
// wallet.password_differs, wallet.empty_password, wallet.no_password.
[[nodiscard]] Expected<std::string> new_password(const std::string& file, const AskPassword& ask);

// Writes a keystore that only its owner may read. `light`: a quick key derivation, for devnets. Errors:
// wallet.file_exists (no file is overwritten; looked at first), those of new_password(), fs.write_failed.
[[nodiscard]] Status make_keystore(const crypto::PrivateKey& key, const std::string& path,
                                   const std::string& password_file, bool light, Rng& rng, const AskPassword& ask);

// {"address", "publicKey"[, "privateKey"]}.
[[nodiscard]] json::Value describe(const crypto::PrivateKey& key, bool show_private_key);

}  // namespace quern::wallet
