#include "bin/wallet_stake.h"

#include "base/fs.h"
#include "bin/amount.h"
#include "chain/consensus/sdbft/evidence.h"
#include "chain/types/validator_proof.h"
#include "crypto/key_file.h"

namespace quern::wallet {
namespace {

namespace types = chain::types;
using types::NativeKind;

constexpr std::size_t kMaxEvidenceText = 4096;

Expected<Bytes> create_validator(const StakeOptions& options, std::uint64_t chain_id,
                                 const crypto::PrivateKey& sender) {
    types::CreateValidatorPayload payload;
    QUERN_TRY(payload.amount, parse_amount(options.amount));
    const auto sign = [&](const crypto::PrivateKey& key) {
        payload.public_key = to_bytes(crypto::derive_public(key).bytes.view());
        payload.proof = types::sign_validator_proof(chain_id, crypto::address20(sender), key);
    };
    if (options.validator_key.empty()) {
        sign(sender);
    } else {
        QUERN_TRY(const auto key, crypto::load_key_file(options.validator_key, options.validator_password_file));
        sign(key);
    }
    return types::encode_record(payload);
}

Expected<Bytes> evidence(const StakeOptions& options) {
    std::string text = options.evidence;
    if (text.starts_with('@')) {
        QUERN_TRY(text, fs::read_text_file(text.substr(1), kMaxEvidenceText));
    }
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    QUERN_TRY(types::EvidencePayload payload, [&]() -> Expected<types::EvidencePayload> {
        QUERN_TRY(auto bytes, from_hex(text));
        return types::EvidencePayload{std::move(bytes)};
    }());
    QUERN_TRY(const auto decoded, chain::consensus::sdbft::decode_evidence(payload.evidence));
    if (!chain::consensus::sdbft::is_slashable_pair(decoded.first, decoded.second))
        return fail("evidence.not_slashable", "an honest validator may sign both votes");
    return types::encode_record(payload);
}

}  // namespace

Expected<Bytes> stake_payload(NativeKind kind, const StakeOptions& options, std::uint64_t chain_id,
                              const crypto::PrivateKey& sender) {
    if (kind == NativeKind::create_validator) return create_validator(options, chain_id, sender);
    if (kind == NativeKind::evidence) return evidence(options);
    QUERN_TRY(const auto validator, types::parse_address(options.validator));
    if (kind == NativeKind::withdraw_stake) {
        types::WithdrawStakePayload payload{validator, crypto::address20(sender)};
        if (!options.delegator.empty()) {
            QUERN_TRY(payload.delegator, types::parse_address(options.delegator));
        }
        return types::encode_record(payload);
    }
    QUERN_TRY(const auto amount, parse_amount(options.amount));
    if (kind == NativeKind::delegate) return types::encode_record(types::DelegatePayload{validator, amount});
    return types::encode_record(types::UndelegatePayload{validator, amount});
}

void add_stake_options(CLI::App& app, NativeKind kind, StakeOptions& options) {
    if (kind == NativeKind::evidence) {
        app.add_option("--evidence", options.evidence, "hex as a node logs it, or @FILE")->required();
        return;
    }
    if (kind == NativeKind::create_validator) {
        app.add_option("--validator-key", options.validator_key,
                       "key file of the key that will sign votes; the sender's own when left out");
        app.add_option("--validator-password-file", options.validator_password_file, "password of --validator-key");
    } else {
        app.add_option("--validator", options.validator, "address of the validator's key")->required();
    }
    if (kind == NativeKind::withdraw_stake)
        app.add_option("--delegator", options.delegator, "who is paid; the sender when left out");
    else
        app.add_option("--amount", options.amount, "100qrn, or grains")->required();
}

}  // namespace quern::wallet
