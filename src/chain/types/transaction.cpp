#include "chain/types/transaction.h"

#include <limits>

#include "base/rlp.h"
#include "chain/types/transaction_errors.h"
#include "crypto/hash.h"

namespace quern::chain::types {
namespace {

constexpr std::uint8_t kBlobType = 3;
constexpr std::uint8_t kFirstListPrefix = 0xc0;  // an envelope that starts so is a legacy transaction
constexpr std::uint64_t kUnprotectedV = 27;
constexpr std::uint64_t kProtectedV = 35;

void write_recipient(rlp::Writer& out, const std::optional<Address>& to) { out.bytes(to ? to->view() : BytesView()); }

void write_access_list(rlp::Writer& out, const Transaction& tx) {
    out.begin_list();
    for (const auto& entry : tx.access_list) {
        out.begin_list().fixed(entry.address).begin_list();
        for (const auto& key : entry.storage_keys) out.fixed(key);
        out.end_list().end_list();
    }
    out.end_list();
}

void write_authorizations(rlp::Writer& out, const Transaction& tx) {
    out.begin_list();
    for (const auto& item : tx.authorization_list) {
        out.begin_list().integer(item.chain_id).fixed(item.address).integer(item.nonce);
        out.integer(std::uint64_t{item.y_parity}).integer(item.r).integer(item.s).end_list();
    }
    out.end_list();
}

void write_legacy(rlp::Writer& out, const Transaction& tx) {
    out.integer(tx.nonce).integer(tx.max_fee_per_gas).integer(tx.gas_limit);
    write_recipient(out, tx.to);
    out.integer(tx.value).bytes(tx.data);
}

// The fields of types 1, 2, 4 and 0x51 up to the signature.
void write_typed(rlp::Writer& out, const Transaction& tx) {
    out.integer(tx.chain_id.value_or(0)).integer(tx.nonce);
    if (tx.type != TxType::access_list) out.integer(tx.max_priority_fee_per_gas);
    out.integer(tx.max_fee_per_gas).integer(tx.gas_limit);
    if (tx.type == TxType::native) {
        out.integer(std::uint64_t{tx.native_kind}).bytes(tx.data);
        return;
    }
    write_recipient(out, tx.to);
    out.integer(tx.value).bytes(tx.data);
    write_access_list(out, tx);
    if (tx.type == TxType::set_code) write_authorizations(out, tx);
}

Bytes in_envelope(TxType type, Bytes list) {
    if (type != TxType::legacy) list.insert(list.begin(), static_cast<std::uint8_t>(type));
    return list;
}

Uint256 legacy_v(const Transaction& tx) {
    if (!tx.chain_id) return Uint256(kUnprotectedV + tx.y_parity);
    return Uint256(*tx.chain_id) * Uint256(2) + Uint256(kProtectedV + tx.y_parity);
}

Status read_nonce(rlp::Reader& in, std::uint64_t& nonce) {
    auto value = in.u64();
    if (!value) return fail(value.error().name == "rlp.integer_overflow" ? "tx.nonce_overflow" : value.error().name);
    if (*value == std::numeric_limits<std::uint64_t>::max()) return fail("tx.nonce_overflow", "EIP-2681");
    nonce = *value;
    return {};
}

Status read_recipient(rlp::Reader& in, std::optional<Address>& to) {
    QUERN_TRY(const BytesView view, in.bytes());
    if (view.empty()) return {};
    if (view.size() != Address::kSize) return fail("tx.bad_recipient", std::to_string(view.size()) + " bytes");
    to = Address::copy_of(view);
    return {};
}

Status read_access_list(rlp::Reader& in, std::vector<AccessListEntry>& list) {
    QUERN_TRY(rlp::Reader entries, in.list());
    while (!entries.at_end()) {
        QUERN_TRY(rlp::Reader fields, entries.list());
        AccessListEntry entry;
        QUERN_TRY(entry.address, fields.fixed<20>());
        QUERN_TRY(rlp::Reader keys, fields.list());
        while (!keys.at_end()) {
            QUERN_TRY(const Hash32 key, keys.fixed<32>());
            entry.storage_keys.push_back(key);
        }
        QUERN_CHECK(fields.expect_end());
        list.push_back(std::move(entry));
    }
    return {};
}

// The signatures inside are judged in execution, one by one; here only their ranges (EIP-7702).
Status read_authorizations(rlp::Reader& in, std::vector<Authorization>& list) {
    QUERN_TRY(rlp::Reader items, in.list());
    while (!items.at_end()) {
        QUERN_TRY(rlp::Reader fields, items.list());
        Authorization item;
        QUERN_TRY(item.chain_id, fields.u256());
        QUERN_TRY(item.address, fields.fixed<20>());
        QUERN_TRY(item.nonce, fields.u64());
        QUERN_TRY(const std::uint64_t parity, fields.u64());
        if (parity > 0xff) return fail("tx.bad_authorization", "y_parity");
        item.y_parity = static_cast<std::uint8_t>(parity);
        QUERN_TRY(item.r, fields.u256());
        QUERN_TRY(item.s, fields.u256());
        QUERN_CHECK(fields.expect_end());
        list.push_back(item);
    }
    return {};
}

Status read_signature_values(rlp::Reader& in, Transaction& tx) {
    QUERN_TRY(tx.r, in.u256());
    QUERN_TRY(tx.s, in.u256());
    if (tx.r.is_zero() || tx.s.is_zero() || tx.r >= crypto::kCurveOrder || tx.s >= crypto::kCurveOrder)
        return fail("tx.bad_signature_values");
    return {};
}

Expected<Transaction> decode_legacy(BytesView bytes) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    Transaction tx;
    QUERN_CHECK(read_nonce(in, tx.nonce));
    QUERN_TRY(tx.max_fee_per_gas, in.u256());
    tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    QUERN_TRY(tx.gas_limit, in.u64());
    QUERN_CHECK(read_recipient(in, tx.to));
    QUERN_TRY(tx.value, in.u256());
    QUERN_TRY(const BytesView data, in.bytes());
    QUERN_TRY(const Uint256 wide_v, in.u256());
    QUERN_CHECK(read_signature_values(in, tx));
    QUERN_CHECK(in.expect_end());
    if (!wide_v.fits_u64()) return fail("tx.bad_v");
    const std::uint64_t v = wide_v.low_u64();
    if (v == kUnprotectedV || v == kUnprotectedV + 1) {
        tx.y_parity = static_cast<std::uint8_t>(v - kUnprotectedV);
    } else if (v >= kProtectedV) {
        tx.y_parity = static_cast<std::uint8_t>((v - kProtectedV) % 2);
        tx.chain_id = (v - kProtectedV) / 2;
    } else {
        return fail("tx.bad_v", std::to_string(v));
    }
    tx.data = to_bytes(data);
    return tx;
}

Expected<Transaction> decode_typed(TxType type, BytesView list) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(list));
    Transaction tx;
    tx.type = type;
    QUERN_TRY(tx.chain_id, in.u64());
    QUERN_CHECK(read_nonce(in, tx.nonce));
    if (type != TxType::access_list) {
        QUERN_TRY(tx.max_priority_fee_per_gas, in.u256());
    }
    QUERN_TRY(tx.max_fee_per_gas, in.u256());
    if (type == TxType::access_list) tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    QUERN_TRY(tx.gas_limit, in.u64());
    if (type == TxType::native) {
        QUERN_TRY(const std::uint64_t kind, in.u64());
        if (kind > 0xff) return fail("tx.bad_native_kind");
        tx.native_kind = static_cast<std::uint8_t>(kind);
    } else {
        QUERN_CHECK(read_recipient(in, tx.to));
        QUERN_TRY(tx.value, in.u256());
    }
    QUERN_TRY(const BytesView data, in.bytes());
    tx.data = to_bytes(data);
    if (type != TxType::native) QUERN_CHECK(read_access_list(in, tx.access_list));
    if (type == TxType::set_code) {
        if (!tx.to) return fail("tx.bad_recipient", "a set-code transaction cannot create");
        QUERN_CHECK(read_authorizations(in, tx.authorization_list));
    }
    QUERN_TRY(const std::uint64_t parity, in.u64());
    if (parity > 1) return fail("tx.bad_v", "y_parity is not 0 or 1");
    tx.y_parity = static_cast<std::uint8_t>(parity);
    QUERN_CHECK(read_signature_values(in, tx));
    QUERN_CHECK(in.expect_end());
    return tx;
}

}  // namespace

Hash32 signing_hash(const Transaction& tx) {
    rlp::Writer out;
    out.begin_list();
    if (tx.type == TxType::legacy) {
        write_legacy(out, tx);
        if (tx.chain_id) out.integer(*tx.chain_id).integer(std::uint64_t{0}).integer(std::uint64_t{0});
    } else {
        write_typed(out, tx);
    }
    out.end_list();
    return crypto::keccak256(in_envelope(tx.type, std::move(out).finish()));
}

Bytes encode(const Transaction& tx) {
    rlp::Writer out;
    out.begin_list();
    if (tx.type == TxType::legacy) {
        write_legacy(out, tx);
        out.integer(legacy_v(tx));
    } else {
        write_typed(out, tx);
        out.integer(std::uint64_t{tx.y_parity});
    }
    out.integer(tx.r).integer(tx.s).end_list();
    return in_envelope(tx.type, std::move(out).finish());
}

Expected<Transaction> decode_transaction(BytesView bytes) {
    if (bytes.empty()) return fail("tx.empty");
    if (bytes.size() > kMaxTransactionBytes) return fail("tx.too_large", std::to_string(bytes.size()) + " bytes");
    if (bytes[0] >= kFirstListPrefix) return decode_legacy(bytes);
    switch (bytes[0]) {
        case static_cast<std::uint8_t>(TxType::access_list):
        case static_cast<std::uint8_t>(TxType::dynamic_fee):
        case static_cast<std::uint8_t>(TxType::set_code):
        case static_cast<std::uint8_t>(TxType::native):
            return decode_typed(static_cast<TxType>(bytes[0]), bytes.subspan(1));
        case kBlobType:
            return fail(kBlobUnsupported, "blob transactions (type 3) have no place on this chain");
        default:
            return fail(kUnknownType, "type " + std::to_string(bytes[0]));
    }
}

Hash32 transaction_hash(BytesView encoded) { return crypto::keccak256(encoded); }

Expected<Address> recover_sender(const Transaction& tx) {
    const crypto::RecoverableSignature signature{tx.r.to_be32(), tx.s.to_be32(), tx.y_parity};
    if (!crypto::is_low_s(signature.s)) return fail(kInvalidSignature, "high s (EIP-2)");
    const auto key = crypto::recover(signing_hash(tx), signature);
    if (!key) return fail(kInvalidSignature, key.error().to_string());
    return address_of(*key);
}

void sign(Transaction& tx, const crypto::PrivateKey& key) {
    const auto signature = crypto::sign(signing_hash(tx), key);
    tx.r = Uint256::from_be(signature.r);
    tx.s = Uint256::from_be(signature.s);
    tx.y_parity = signature.y_parity;
}

Expected<RecoveredTransaction> recover(BytesView encoded) {
    RecoveredTransaction result;
    QUERN_TRY(result.tx, decode_transaction(encoded));
    QUERN_TRY(result.sender, recover_sender(result.tx));
    result.encoded = to_bytes(encoded);
    result.hash = transaction_hash(encoded);
    return result;
}

}  // namespace quern::chain::types
