#include "chain/types/validator_proof.h"

#include "base/big_endian.h"
#include "crypto/hash.h"

namespace quern::chain::types {
namespace {

constexpr std::string_view kDomain = "QUERN-VALIDATOR!";

}  // namespace

Hash32 validator_proof_digest(std::uint64_t chain_id, const Address& owner) {
    return crypto::sha256({as_bytes(kDomain), be64(chain_id).view(), owner.view()});
}

Bytes sign_validator_proof(std::uint64_t chain_id, const Address& owner, const crypto::PrivateKey& key) {
    return to_bytes(crypto::sign(validator_proof_digest(chain_id, owner), key).compact().view());
}

Status check_validator_proof(std::uint64_t chain_id, const Address& owner, BytesView public_key, BytesView proof) {
    const auto key = FixedBytes<64>::from_view(public_key);
    if (!key) return fail("validator.bad_key", "expected 64 bytes");
    const auto signature = FixedBytes<64>::from_view(proof);
    if (!signature) return fail("validator.bad_proof", "expected 64 bytes");
    if (!crypto::verify(validator_proof_digest(chain_id, owner), *signature, crypto::PublicKey{*key}))
        return fail("validator.bad_proof");
    return {};
}

}  // namespace quern::chain::types
