#include "wallet/keys.h"

#include <openssl/crypto.h>

#include "base/fs.h"
#include "chain/types/address.h"
#include "crypto/hash.h"
#include "crypto/key_file.h"
#include "crypto/keystore.h"
#include "wallet/amount.h"

namespace quern::wallet {
namespace {

constexpr std::string_view kSeedDomain = "quern insecure devnet key";

Expected<crypto::PrivateKey> open_file(const KeySource& source, const AskPassword& ask) {
    if (!source.password_file.empty()) return crypto::load_key_file(source.keystore, source.password_file);
    QUERN_TRY(const bool locked, crypto::needs_password(source.keystore));
    if (!locked) return crypto::load_key_file(source.keystore, {});
    QUERN_TRY(std::string password, ask(("Password of " + source.keystore + ": ").c_str()));
    auto key = crypto::open_keystore(source.keystore, password);
    OPENSSL_cleanse(password.data(), password.size());
    return key;
}

}  // namespace

Expected<crypto::PrivateKey> key_from_seed(std::string_view seed) {
    for (std::uint8_t attempt = 0;; ++attempt) {
        Bytes message = to_bytes(as_bytes(seed));
        message.push_back(attempt);
        auto key = crypto::PrivateKey::from_bytes(crypto::hmac_sha256(as_bytes(kSeedDomain), message));
        if (key || attempt == 0xff) return key;
    }
}

Expected<crypto::PrivateKey> open_key(const KeySource& source, const AskPassword& ask) {
    if (!source.keystore.empty()) return open_file(source, ask);
    if (!source.seed.empty()) return key_from_seed(source.seed);
    return fail("wallet.no_key", "give --keystore or --seed");
}

Expected<std::string> new_password(const std::string& file, const AskPassword& ask) {
    if (!file.empty()) {
        QUERN_TRY(std::string password, crypto::read_password_file(file));
        if (password.empty()) return fail("wallet.empty_password", "the first line of " + file + " is empty");
        return password;
    }
    QUERN_TRY(const std::string first, ask("Password: "));
    if (first.empty()) return fail("wallet.empty_password", "a keystore without a password is open to everybody");
    QUERN_TRY(const std::string second, ask("Again: "));
    if (first != second) return fail("wallet.password_differs", "the second one is another");
    return first;
}

Status make_keystore(const crypto::PrivateKey& key, const std::string& path, const std::string& password_file,
                     bool light, Rng& rng, const AskPassword& ask) {
    if (fs::exists(path)) return fail("wallet.file_exists", path + " is there already and is not overwritten");
    QUERN_TRY(std::string password, new_password(password_file, ask));
    const auto file = crypto::encrypt_key(key, password, rng, light ? crypto::kLightScrypt : crypto::ScryptCost{});
    OPENSSL_cleanse(password.data(), password.size());
    if (!file) return fail(file.error());
    return fs::write_secret_file(path, as_bytes(file->dump_pretty() + "\n"));
}

json::Value describe(const crypto::PrivateKey& key, bool show_private_key) {
    namespace types = chain::types;
    const crypto::PublicKey public_key = crypto::derive_public(key);
    json::Value object = json::Value::object({{"address", types::to_checksum_address(types::address_of(public_key))},
                                              {"publicKey", to_hex0x(public_key.bytes)}});
    if (show_private_key) object.set("privateKey", to_hex0x(key.secret_bytes()));
    return object;
}

}  // namespace quern::wallet
