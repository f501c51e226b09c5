#include "wallet/stake.h"

#include "base/fs.h"
#include "chain/consensus/sdbft/evidence.h"
#include "chain/types/validator_proof.h"
#include "crypto/key_file.h"
#include "wallet/amount.h"

namespace quern::wallet {
namespace {

namespace types = chain::types;
using types::NativeKind;

constexpr std::size_t kMaxEvidenceText = 4096;

Expected<Bytes> create_validator(const StakeOptions& options, std::uint64_t chain_id,
                                 const crypto::PrivateKey& sender) {
    types::CreateValidatorPayload payload;
    QUERN_TRY(payload.amount, amount_of_option("--amount", options.amount));
    const auto sign = [&](const crypto::PrivateKey& key) {
        payload.public_key = to_bytes(crypto::derive_public(key).bytes.view());
        payload.proof = types::sign_validator_proof(chain_id, crypto::address20(sender), key);
    };
    if (options.validator_key.empty()) {
        sign(sender);
    } else {
        QUERN_TRY(const auto key, named("--validator-key",
                                        crypto::load_key_file(options.validator_key, options.validator_password_file)));
        sign(key);
    }
    return types::encode_record(payload);
}

Expected<types::EvidencePayload> evidence(const StakeOptions& options) {
    std::string text = options.evidence;
    if (text.starts_with('@')) {
        QUERN_TRY(text, fs::read_text_file(text.substr(1), kMaxEvidenceText));
    }
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    types::EvidencePayload payload;
    QUERN_TRY(payload.evidence, named("--evidence", from_hex(text)));
    QUERN_TRY(const auto decoded, chain::consensus::sdbft::decode_evidence(payload.evidence));
    if (!chain::consensus::sdbft::is_slashable_pair(decoded.first, decoded.second))
        return fail("evidence.not_slashable", "an honest validator may sign both votes");
    return payload;
}

}  // namespace

Expected<Bytes> bond_payload(const std::string& role, const std::string& amount) {
    types::BondPayload payload;
    if (role == "verifier")
        payload.role = types::Role::verifier;
    else if (role == "whistleblower")
        payload.role = types::Role::whistleblower;
    else if (role == "custodian")
        payload.role = types::Role::custodian;
    else if (role != "solver")
        return fail("wallet.unknown_role", "--role " + role + ": solver, verifier, whistleblower or custodian");
    QUERN_TRY(payload.amount, amount_of_option("--amount", amount));
    return types::encode_record(payload);
}

Expected<Bytes> stake_payload(NativeKind kind, const StakeOptions& options, std::uint64_t chain_id,
                              const crypto::PrivateKey& sender) {
    if (kind == NativeKind::create_validator) return create_validator(options, chain_id, sender);
    if (kind == NativeKind::evidence || kind == NativeKind::evidence_commit) {
        QUERN_TRY(const auto payload, evidence(options));
        if (kind == NativeKind::evidence) return types::encode_record(payload);
        return types::encode_record(types::EvidenceCommitPayload{
            chain::consensus::sdbft::evidence_commitment(crypto::address20(sender), payload.evidence)});
    }
    QUERN_TRY(const auto validator, address_of_option("--validator", options.validator));
    if (kind == NativeKind::withdraw_stake) {
        types::WithdrawStakePayload payload{validator, crypto::address20(sender)};
        if (!options.delegator.empty()) {
            QUERN_TRY(payload.delegator, address_of_option("--delegator", options.delegator));
        }
        return types::encode_record(payload);
    }
    QUERN_TRY(const auto amount, amount_of_option("--amount", options.amount));
    if (kind == NativeKind::delegate) return types::encode_record(types::DelegatePayload{validator, amount});
    return types::encode_record(types::UndelegatePayload{validator, amount});
}

}  // namespace quern::wallet
