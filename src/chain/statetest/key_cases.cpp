#include "chain/statetest/cases.h"
#include "chain/types/transaction.h"
#include "crypto/keystore.h"

namespace quern::chain::statetest {

std::optional<CaseResult> run_keystore_case(std::string_view, const json::Value& test) {
    const auto file = test.get_object("json");
    const auto password = test.get_string("password");
    const auto secret = test.get_string("priv");
    if (!file || !password || !secret) return std::nullopt;
    const auto key = crypto::decrypt_key(**file, *password);
    if (!key) return failed(key.error().to_string());
    if (to_hex(key->secret_bytes()) != *secret) return failed("another key");
    const auto refused = crypto::decrypt_key(**file, std::string(*password) + "x");
    if (refused || refused.error().name != "keystore.wrong_password") return failed("a wrong password is accepted");
    return passed();
}

std::optional<CaseResult> run_key_address_case(std::string_view, const json::Value& test) {
    const auto secret = test.get_string("key");
    const auto address = test.get_string("addr");
    if (!secret || !address || test.find("sig_of_emptystring") == nullptr) return std::nullopt;
    const auto bytes = from_hex(*secret);
    if (!bytes) return failed(bytes.error().to_string());
    const auto key = crypto::PrivateKey::from_bytes(*bytes);
    if (!key) return failed(key.error().to_string());
    return to_hex(crypto::address20(*key)) == *address ? passed() : failed("address");
}

std::optional<CaseResult> run_signed_transaction_case(std::string_view, const json::Value& test) {
    const auto secret = test.get_string("key");
    const auto encoded = test.get_string("signed");
    if (!secret || !encoded) return std::nullopt;
    const auto key_bytes = from_hex(*secret);
    const auto bytes = from_hex(*encoded);
    if (!key_bytes || !bytes) return failed("hex");
    const auto key = crypto::PrivateKey::from_bytes(*key_bytes);
    const auto transaction = types::decode_transaction(*bytes);
    if (!key || !transaction) return failed("decoding");
    if (types::encode(*transaction) != *bytes) return failed("decoding and encoding gives other bytes");
    if (!crypto::is_low_s(transaction->s.to_be32())) return skipped("signed before EIP-2");
    const auto sender = types::recover_sender(*transaction);
    if (!sender) return failed(sender.error().to_string());
    return *sender == crypto::address20(*key) ? passed() : failed("sender");
}

}  // namespace quern::chain::statetest
