#include "crypto/keystore.h"

#include <cryptopp/scrypt.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <bit>
#include <cstdlib>
#include <memory>

#include "crypto/hash.h"

namespace quern::crypto {
namespace {

constexpr std::uint64_t kDerivedBytes = 32;
constexpr std::size_t kMaxSaltBytes = 256;

using DerivedKey = Hash32;  // first half encrypts, second half authenticates

struct Wipe {
    Hash32& secret;
    ~Wipe() { OPENSSL_cleanse(secret.data.data(), Hash32::kSize); }
};

Status check_cost(const ScryptCost& cost) {
    if (cost.n < 2 || !std::has_single_bit(cost.n) || cost.r == 0 || cost.p == 0)
        return fail("keystore.bad_cost", "n must be a power of two above 1, r and p at least 1");
    // Each factor is bounded first, so that the products cannot overflow.
    if (cost.n > kMaxScryptWork || cost.r > kMaxScryptWork || cost.p > kMaxScryptWork ||
        cost.n * cost.r > kMaxScryptWork || cost.n * cost.r * cost.p > kMaxScryptWork ||
        128 * std::uint64_t{cost.r} * (cost.n + cost.p) > kMaxScryptBytes)
        return fail("keystore.too_costly", "scrypt");
    return {};
}

Expected<DerivedKey> derive_scrypt(std::string_view password, BytesView salt, const ScryptCost& cost) {
    QUERN_CHECK(check_cost(cost));
    DerivedKey key;
    // Crypto++ and not OpenSSL, which refuses n >= 2^(16 r), and there are key files with r = 1.
    try {
        CryptoPP::Scrypt().DeriveKey(key.data.data(), kDerivedBytes, as_bytes(password).data(), password.size(),
                                     salt.data(), salt.size(), cost.n, cost.r, cost.p);
    } catch (const std::exception& problem) {
        return fail("keystore.bad_cost", problem.what());
    }
    return key;
}

Bytes aes_128_ctr(BytesView key16, BytesView iv16, BytesView input) {
    const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    Bytes output(input.size());
    int written = 0;
    if (context == nullptr ||
        EVP_EncryptInit_ex2(context.get(), EVP_aes_128_ctr(), key16.data(), iv16.data(), nullptr) != 1 ||
        EVP_EncryptUpdate(context.get(), output.data(), &written, input.data(), static_cast<int>(input.size())) != 1)
        std::abort();  // fixed sizes: only a broken library fails here
    return output;
}

Hash32 mac_of(const DerivedKey& key, BytesView ciphertext) {
    Bytes message = to_bytes(key.view().subspan(16));
    append(message, ciphertext);
    const Hash32 mac = keccak256(message);
    OPENSSL_cleanse(message.data(), message.size());
    return mac;
}

// Version 4 (random), RFC 4122.
std::string make_uuid(Rng& rng) {
    FixedBytes<16> bytes;
    rng.fill(bytes.data);
    bytes.data[6] = static_cast<std::uint8_t>((bytes.data[6] & 0x0f) | 0x40);
    bytes.data[8] = static_cast<std::uint8_t>((bytes.data[8] & 0x3f) | 0x80);
    const std::string hex = to_hex(bytes);
    return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
           hex.substr(20);
}

Expected<Bytes> hex_field(const json::Value& object, std::string_view name) {
    QUERN_TRY(const std::string_view text, object.get_string(name));
    return from_hex(text);
}

Expected<std::uint32_t> u32_field(const json::Value& object, std::string_view name) {
    QUERN_TRY(const std::uint64_t value, object.get_u64(name));
    if (value > 0xffffffff) return fail("keystore.too_costly", std::string(name));
    return static_cast<std::uint32_t>(value);
}

Expected<DerivedKey> derive(const json::Value& crypto, std::string_view password) {
    QUERN_TRY(const std::string_view kdf, crypto.get_string("kdf"));
    QUERN_TRY(const json::Value* parameters, crypto.get_object("kdfparams"));
    QUERN_TRY(const std::uint64_t length, parameters->get_u64("dklen"));
    if (length != kDerivedBytes) return fail("keystore.unsupported", "dklen is not 32");
    QUERN_TRY(const Bytes salt, hex_field(*parameters, "salt"));
    if (salt.size() > kMaxSaltBytes) return fail("keystore.bad_field", "salt");
    if (kdf == "scrypt") {
        ScryptCost cost;
        QUERN_TRY(cost.n, parameters->get_u64("n"));
        QUERN_TRY(cost.r, u32_field(*parameters, "r"));
        QUERN_TRY(cost.p, u32_field(*parameters, "p"));
        return derive_scrypt(password, salt, cost);
    }
    if (kdf != "pbkdf2") return fail("keystore.unsupported", "kdf " + std::string(kdf));
    QUERN_TRY(const std::string_view prf, parameters->get_string("prf"));
    if (prf != "hmac-sha256") return fail("keystore.unsupported", "prf " + std::string(prf));
    QUERN_TRY(const std::uint64_t rounds, parameters->get_u64("c"));
    if (rounds == 0) return fail("keystore.bad_field", "c");
    if (rounds > kMaxPbkdf2Rounds) return fail("keystore.too_costly", "pbkdf2");
    DerivedKey key;
    if (PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()), salt.data(),
                          static_cast<int>(salt.size()), static_cast<int>(rounds), EVP_sha256(),
                          static_cast<int>(kDerivedBytes), key.data.data()) != 1)
        return fail("keystore.bad_field", "pbkdf2 failed");
    return key;
}

}  // namespace

Expected<json::Value> encrypt_key(const PrivateKey& key, std::string_view password, Rng& rng, const ScryptCost& cost) {
    Hash32 salt;
    FixedBytes<16> iv;
    rng.fill(salt.data);
    rng.fill(iv.data);
    QUERN_TRY(DerivedKey derived, derive_scrypt(password, salt, cost));
    const Wipe wipe{derived};
    const Bytes ciphertext = aes_128_ctr(derived.view().first(16), iv, key.secret_bytes());
    const json::Value kdfparams = json::Value::object(
        {{"dklen", kDerivedBytes}, {"n", cost.n}, {"p", cost.p}, {"r", cost.r}, {"salt", to_hex(salt)}});
    const json::Value crypto = json::Value::object({{"cipher", "aes-128-ctr"},
                                                    {"cipherparams", json::Value::object({{"iv", to_hex(iv)}})},
                                                    {"ciphertext", to_hex(ciphertext)},
                                                    {"kdf", "scrypt"},
                                                    {"kdfparams", kdfparams},
                                                    {"mac", to_hex(mac_of(derived, ciphertext))}});
    return json::Value::object(
        {{"address", to_hex(address20(key))}, {"crypto", crypto}, {"id", make_uuid(rng)}, {"version", 3}});
}

Expected<PrivateKey> decrypt_key(const json::Value& file, std::string_view password) {
    QUERN_TRY(const std::uint64_t version, file.get_u64("version"));
    if (version != 3) return fail("keystore.unsupported", "version " + std::to_string(version));
    // Some wallets write "Crypto".
    QUERN_TRY(const json::Value* crypto, file.get_object(file.find("crypto") != nullptr ? "crypto" : "Crypto"));
    QUERN_TRY(const std::string_view cipher, crypto->get_string("cipher"));
    if (cipher != "aes-128-ctr") return fail("keystore.unsupported", "cipher " + std::string(cipher));
    QUERN_TRY(const json::Value* cipherparams, crypto->get_object("cipherparams"));
    QUERN_TRY(const Bytes iv, hex_field(*cipherparams, "iv"));
    QUERN_TRY(const Bytes ciphertext, hex_field(*crypto, "ciphertext"));
    QUERN_TRY(const Bytes mac, hex_field(*crypto, "mac"));
    if (iv.size() != 16) return fail("keystore.bad_field", "iv");
    if (ciphertext.size() != 32) return fail("keystore.bad_field", "ciphertext");
    if (mac.size() != 32) return fail("keystore.bad_field", "mac");
    if (password.size() > kMaxKeystoreBytes) return fail("keystore.wrong_password");
    QUERN_TRY(DerivedKey derived, derive(*crypto, password));
    const Wipe wipe{derived};
    if (CRYPTO_memcmp(mac_of(derived, ciphertext).data.data(), mac.data(), Hash32::kSize) != 0)
        return fail("keystore.wrong_password");
    Bytes secret = aes_128_ctr(derived.view().first(16), iv, ciphertext);
    auto key = PrivateKey::from_bytes(secret);
    OPENSSL_cleanse(secret.data(), secret.size());
    if (!key) return key;
    if (const json::Value* named = file.find("address"); named != nullptr && named->is_string()) {
        QUERN_TRY(const Bytes20 address, fixed_from_hex<20>(*named->as_string()));
        if (address != address20(*key)) return fail("keystore.address_mismatch");
    }
    return key;
}

Expected<PrivateKey> decrypt_key(std::string_view text, std::string_view password) {
    QUERN_TRY(const json::Value file, json::parse(text, {.max_bytes = kMaxKeystoreBytes, .max_depth = 8}));
    return decrypt_key(file, password);
}

}  // namespace quern::crypto
