#include "chain/ethereum/transactions.h"

#include "base/rlp.h"
#include "crypto/hash.h"
#include "crypto/signature.h"

namespace quern::chain::ethereum {
namespace {

using vm::evm::Address;
using vm::evm::Revision;
using vm::evm::TransactionInput;
using vm::evm::TransactionType;

constexpr std::uint8_t kFirstListPrefix = 0xc0;  // an envelope that starts so is a legacy transaction
constexpr std::uint8_t kLastType = 4;
constexpr std::uint64_t kUnprotectedV = 27;
constexpr std::uint64_t kProtectedV = 35;        // EIP-155
constexpr std::uint8_t kAuthorizationMagic = 5;  // EIP-7702
constexpr std::string_view kInvalidSignature = "tx.invalid_signature_vrs";

struct Signature {
    std::uint8_t y_parity = 0;
    Uint256 r, s;
};

Status read_recipient(rlp::Reader& in, std::optional<Address>& to) {
    QUERN_TRY(const BytesView view, in.bytes());
    if (view.empty()) return {};
    if (view.size() != Address::kSize) return fail("rlp.wrong_length", "a recipient");
    to = Address::copy_of(view);
    return {};
}

Status read_access_list(rlp::Reader& in, std::vector<vm::evm::AccessListItem>& list) {
    QUERN_TRY(rlp::Reader items, in.list());
    while (!items.at_end()) {
        QUERN_TRY(rlp::Reader fields, items.list());
        vm::evm::AccessListItem& item = list.emplace_back();
        QUERN_TRY(item.address, fields.fixed<Address::kSize>());
        QUERN_TRY(rlp::Reader keys, fields.list());
        while (!keys.at_end()) {
            QUERN_TRY(item.keys.emplace_back(), keys.fixed<Hash32::kSize>());
        }
        QUERN_CHECK(fields.expect_end());
    }
    return {};
}

Status read_authorizations(rlp::Reader& in, std::vector<vm::evm::SignedAuthorization>& list) {
    QUERN_TRY(rlp::Reader items, in.list());
    while (!items.at_end()) {
        QUERN_TRY(rlp::Reader fields, items.list());
        vm::evm::SignedAuthorization& item = list.emplace_back();
        QUERN_TRY(item.chain_id, fields.u256());
        QUERN_TRY(item.address, fields.fixed<Address::kSize>());
        QUERN_TRY(item.nonce, fields.u64());
        QUERN_TRY(const std::uint64_t y_parity, fields.u64());
        if (y_parity > 0xff) return fail("rlp.integer_overflow", "y_parity");
        QUERN_TRY(const Uint256 r, fields.u256());
        QUERN_TRY(const Uint256 s, fields.u256());
        QUERN_CHECK(fields.expect_end());
        item.signer = recover_authority(item, y_parity, r, s);
    }
    return {};
}

// The list of `fields`, which are encoded, and `more` behind them; with the type before it, where there is one.
Hash32 signing_hash(std::optional<std::uint8_t> type, BytesView fields, std::span<const std::uint64_t> more) {
    rlp::Writer list;
    list.begin_list().raw(fields);
    for (const std::uint64_t number : more) list.integer(number);
    list.end_list();
    Bytes message;
    if (type) message.push_back(*type);
    append(message, std::move(list).finish());
    return crypto::keccak256(message);
}

Expected<Address> recover_sender(const Hash32& hash, const Signature& signature, Revision revision) {
    const Hash32 s = signature.s.to_be32();
    if (revision >= Revision::homestead && !crypto::is_low_s(s)) return fail(kInvalidSignature, "high s (EIP-2)");
    const auto key = crypto::recover(hash, {signature.r.to_be32(), s, signature.y_parity});
    if (!key) return fail(kInvalidSignature, key.error().to_string());
    return crypto::address20(*key);
}

Expected<TransactionInput> decode_legacy(BytesView envelope, Revision revision) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(envelope));
    const BytesView all = in.rest();
    TransactionInput tx;
    QUERN_TRY(tx.nonce, in.u64());
    QUERN_TRY(tx.max_fee_per_gas, in.u256());
    tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    QUERN_TRY(tx.gas_limit, in.u64());
    QUERN_CHECK(read_recipient(in, tx.to));
    QUERN_TRY(tx.value, in.u256());
    QUERN_TRY(tx.data, in.bytes());
    const BytesView fields = all.first(all.size() - in.rest().size());
    QUERN_TRY(const Uint256 v, in.u256());
    Signature signature;
    QUERN_TRY(signature.r, in.u256());
    QUERN_TRY(signature.s, in.u256());
    QUERN_CHECK(in.expect_end());
    if (!v.fits_u64()) return fail(kInvalidSignature, "v");
    const std::uint64_t low_v = v.low_u64();
    if (low_v == kUnprotectedV || low_v == kUnprotectedV + 1) {
        signature.y_parity = static_cast<std::uint8_t>(low_v - kUnprotectedV);
        QUERN_TRY(tx.sender, recover_sender(signing_hash(std::nullopt, fields, {}), signature, revision));
        return tx;
    }
    if (revision < Revision::spurious_dragon || low_v < kProtectedV) return fail(kInvalidSignature, "v");
    tx.chain_id = (low_v - kProtectedV) / 2;
    signature.y_parity = static_cast<std::uint8_t>((low_v - kProtectedV) % 2);
    const std::array<std::uint64_t, 3> protection{*tx.chain_id, 0, 0};
    QUERN_TRY(tx.sender, recover_sender(signing_hash(std::nullopt, fields, protection), signature, revision));
    return tx;
}

Expected<TransactionInput> decode_typed(std::uint8_t number, BytesView list, Revision revision) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(list));
    TransactionInput tx;
    tx.type = static_cast<TransactionType>(number);
    if (tx.type == TransactionType::blob) {
        // As peers send it, with the blobs beside it: rlp([transaction, blobs, ...]).
        rlp::Reader ahead = in;
        QUERN_TRY(const rlp::Item first, ahead.next());
        if (first.is_list) return fail("tx.type_3_tx_with_full_blobs");
    }
    const BytesView all = in.rest();
    QUERN_TRY(tx.chain_id, in.u64());
    QUERN_TRY(tx.nonce, in.u64());
    QUERN_TRY(tx.max_priority_fee_per_gas, in.u256());
    if (tx.type == TransactionType::access_list) {
        tx.max_fee_per_gas = tx.max_priority_fee_per_gas;
    } else {
        QUERN_TRY(tx.max_fee_per_gas, in.u256());
    }
    QUERN_TRY(tx.gas_limit, in.u64());
    QUERN_CHECK(read_recipient(in, tx.to));
    QUERN_TRY(tx.value, in.u256());
    QUERN_TRY(tx.data, in.bytes());
    QUERN_CHECK(read_access_list(in, tx.access_list));
    if (tx.type == TransactionType::blob) {
        QUERN_TRY(tx.max_fee_per_blob_gas, in.u256());
        QUERN_TRY(rlp::Reader hashes, in.list());
        while (!hashes.at_end()) {
            QUERN_TRY(tx.blob_hashes.emplace_back(), hashes.fixed<Hash32::kSize>());
        }
    }
    if (tx.type == TransactionType::set_code) QUERN_CHECK(read_authorizations(in, tx.authorizations));
    const BytesView fields = all.first(all.size() - in.rest().size());
    QUERN_TRY(const std::uint64_t y_parity, in.u64());
    Signature signature;
    QUERN_TRY(signature.r, in.u256());
    QUERN_TRY(signature.s, in.u256());
    QUERN_CHECK(in.expect_end());
    if (y_parity > 1) return fail(kInvalidSignature, "y_parity");
    signature.y_parity = static_cast<std::uint8_t>(y_parity);
    QUERN_TRY(tx.sender, recover_sender(signing_hash(number, fields, {}), signature, revision));
    return tx;
}

}  // namespace

Expected<TransactionInput> decode_transaction(BytesView envelope, Revision revision) {
    if (envelope.empty()) return fail("rlp.truncated");
    if (envelope[0] >= kFirstListPrefix) return decode_legacy(envelope, revision);
    if (envelope[0] == 0 || envelope[0] > kLastType || revision < Revision::berlin)
        return fail("tx.type_not_supported", std::to_string(envelope[0]));
    return decode_typed(envelope[0], envelope.subspan(1), revision);
}

std::optional<Address> recover_authority(const vm::evm::SignedAuthorization& authorization, const Uint256& y_parity,
                                         const Uint256& r, const Uint256& s) {
    if (!y_parity.fits_u64() || y_parity.low_u64() > 1 || !crypto::is_low_s(s.to_be32())) return std::nullopt;
    rlp::Writer message;
    message.begin_list().integer(authorization.chain_id).fixed(authorization.address).integer(authorization.nonce);
    message.end_list();
    Bytes signed_bytes = {kAuthorizationMagic};
    append(signed_bytes, std::move(message).finish());
    const auto key = crypto::recover(crypto::keccak256(signed_bytes),
                                     {r.to_be32(), s.to_be32(), static_cast<std::uint8_t>(y_parity.low_u64())});
    return key ? std::optional(crypto::address20(*key)) : std::nullopt;
}

}  // namespace quern::chain::ethereum
