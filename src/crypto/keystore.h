// Encrypted key files: Web3 Secret Storage, version 3, as geth, MetaMask and others read and write them. Used by the
// wallet and by a validator's or worker's key. Secrets are wiped from temporaries. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/rng.h"
#include "crypto/signature.h"

namespace quern::crypto {

// scrypt's cost: memory is 128 * n * r bytes, time n * r * p.
struct ScryptCost {
    std::uint64_t n = 1U << 18;
    std::uint32_t r = 8;
    std::uint32_t p = 1;
};
// About 100 ms and 32 MiB: for keys that only guard a devnet, and tests.
inline constexpr ScryptCost kLightScrypt{1U << 12, 8, 6};

// What a key file may ask of this machine, checked before any memory is taken.
inline constexpr std::uint64_t kMaxScryptBytes = std::uint64_t{512} << 20;  // 128 * r * (n + p)
inline constexpr std::uint64_t kMaxScryptWork = std::uint64_t{1} << 25;     // n * r * p
inline constexpr std::uint64_t kMaxPbkdf2Rounds = 10'000'000;
inline constexpr std::size_t kMaxKeystoreBytes = 16 << 10;

// The key file's JSON. Errors: keystore.bad_cost.
[[nodiscard]] Expected<json::Value> encrypt_key(const PrivateKey& key, std::string_view password, Rng& rng,
                                                const ScryptCost& cost = {});
// Errors: keystore.wrong_password (or a changed file), keystore.unsupported, keystore.too_costly, keystore.bad_field,
// json.*, hex.*, key.*; keystore.address_mismatch when the file names another address than the key has.
[[nodiscard]] Expected<PrivateKey> decrypt_key(const json::Value& file, std::string_view password);
[[nodiscard]] Expected<PrivateKey> decrypt_key(std::string_view text, std::string_view password);

}  // namespace quern::crypto
