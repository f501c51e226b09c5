#include "chain/state/account_codec.h"

namespace quern::chain::state {

Bytes encode(const Account& account) {
    rlp::Writer writer;
    writer.begin_list().integer(account.nonce).integer(account.balance);
    writer.fixed(account.storage_root).fixed(account.code_hash).end_list();
    return std::move(writer).finish();
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
