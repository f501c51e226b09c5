#include "chain/state/account_codec.h"

namespace quern::chain::state {

// Written out for speed: each changed account is encoded for each block.
Bytes encode(const Account& account) {
    const auto integer_size = [](const Uint256& value) {
        const unsigned bits = value.bit_length();
        return bits <= 7 ? std::size_t{1} : std::size_t{1} + (bits + 7) / 8;
    };
    const auto append_integer = [](Bytes& out, const Uint256& value) {
        const std::size_t size = (value.bit_length() + 7) / 8;
        if (size != 1 || value.low_u64() >= 0x80) out.push_back(static_cast<std::uint8_t>(0x80 + size));
        for (std::size_t i = size; i-- > 0;)
            out.push_back(static_cast<std::uint8_t>(value.limb[i / 8] >> (8 * (i % 8))));
    };
    const auto append_hash = [](Bytes& out, const Hash32& hash) {
        out.push_back(0x80 + Hash32::kSize);
        append(out, hash);
    };
    const Uint256 nonce(account.nonce);
    // Two hashes are 66 bytes, so the payload has 68 to 108: a length of one byte.
    const std::size_t payload = integer_size(nonce) + integer_size(account.balance) + 2 * (1 + Hash32::kSize);
    Bytes out;
    out.reserve(2 + payload);
    out.push_back(0xf8);
    out.push_back(static_cast<std::uint8_t>(payload));
    append_integer(out, nonce);
    append_integer(out, account.balance);
    append_hash(out, account.storage_root);
    append_hash(out, account.code_hash);
    return out;
}

Expected<Account> decode_account(BytesView bytes) {
    QUERN_TRY(rlp::Reader fields, rlp::decode_list(bytes));
    Account account;
    QUERN_TRY(account.nonce, fields.u64());
    QUERN_TRY(account.balance, fields.u256());
    QUERN_TRY(account.storage_root, fields.fixed<32>());
    QUERN_TRY(account.code_hash, fields.fixed<32>());
    QUERN_CHECK(fields.expect_end());
    return account;
}

}  // namespace quern::chain::state
