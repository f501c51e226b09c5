#include "chain/state/state_layout.h"

#include "base/big_endian.h"
#include "base/rlp.h"
#include "chain/state/account_codec.h"
#include "crypto/hash.h"

namespace quern::chain::state {

using store::Table;
using store::table_key;

namespace {

FixedBytes<2> part_number(std::size_t part) {
    FixedBytes<2> number;
    number.data = {static_cast<std::uint8_t>(part >> 8), static_cast<std::uint8_t>(part & 0xff)};
    return number;
}

constexpr std::size_t kAccountKeyBytes = 1 + types::Address::kSize;

bool is_account(BytesView key) { return key[0] == static_cast<std::uint8_t>(Table::account); }

// The hashes of accounts without code and storage are those of all such accounts: they are left out.
Bytes shorten_account(const Account& account) {
    static const Account empty = empty_account();
    if (account.code_hash != empty.code_hash || account.storage_root != empty.storage_root) return encode(account);
    rlp::Writer out;
    out.begin_list().integer(account.nonce).integer(account.balance).end_list();
    return std::move(out).finish();
}

Expected<Bytes> lengthen_account(BytesView bytes) {
    QUERN_TRY(rlp::Reader fields, rlp::decode_list(bytes));
    Account account = empty_account();
    QUERN_TRY(account.nonce, fields.u64());
    QUERN_TRY(account.balance, fields.u256());
    return fields.at_end() ? encode(account) : to_bytes(bytes);
}

}  // namespace

Bytes part_prefix(std::size_t part) {
    if (part == kNativePart) return table_key(Table::native_trie);
    const std::array<std::uint8_t, 1> number = {static_cast<std::uint8_t>(part)};
    return table_key(Table::account_trie, {number});
}

Bytes storage_trie_prefix(const types::Address& address) {
    return table_key(Table::storage_trie, {crypto::keccak256(address)});
}

Bytes mark_key(std::size_t part) { return table_key(Table::trie_part, {part_number(part)}); }

Bytes changes_key(std::size_t part) { return table_key(Table::changes, {part_number(part)}); }

Bytes changes_key(std::size_t part, std::uint64_t block) {
    return table_key(Table::changes, {part_number(part), be64(block)});
}

Bytes above_key(std::uint8_t number) {
    const std::array<std::uint8_t, 1> byte = {number};
    return table_key(Table::above_parts, {byte});
}

Bytes archive_key(const Hash32& hash) { return table_key(Table::archive, {hash}); }

std::size_t part_of(const types::Address& address) { return crypto::keccak256(address).data[0]; }

std::optional<std::size_t> part_of_key(BytesView key) {
    if (key.empty()) return std::nullopt;
    switch (static_cast<Table>(key[0])) {
        case Table::account:
        case Table::storage:
            if (key.size() < kAccountKeyBytes) return std::nullopt;
            return part_of(types::Address::copy_of(key.subspan(1, types::Address::kSize)));
        case Table::native:
            return kNativePart;
        case Table::above_parts:
            return kAbovePart;
        default:
            return std::nullopt;
    }
}

bool is_of_state(BytesView prefix) {
    if (prefix.empty()) return false;
    const auto table = static_cast<Table>(prefix[0]);
    return table == Table::account || table == Table::storage || table == Table::native || table == Table::above_parts;
}

Expected<std::optional<Bytes>> NodesUnder::node(NibblesView path) const {
    Bytes key = prefix_;
    append(key, path);
    return reader_.get(key);
}

PathNodeSink into(store::WriteBatch& batch, const Bytes& prefix) {
    return [&batch, &prefix](NibblesView path, std::optional<Bytes> encoding) {
        Bytes key;
        key.reserve(prefix.size() + path.size());
        append(key, prefix);
        append(key, path);
        if (encoding)
            batch.put(std::move(key), std::move(*encoding));
        else
            batch.erase(std::move(key));
    };
}

Bytes storage_value(const Hash32& value) {
    rlp::Writer writer;
    writer.integer(Uint256::from_be(value));
    return std::move(writer).finish();
}

void append_change(Bytes& changes, BytesView key, const std::optional<Bytes>& before) {
    rlp::Writer out;
    out.begin_list().bytes(key);
    if (before) out.bytes(*before);
    out.end_list();
    append(changes, std::move(out).finish());
}

void append_change(Bytes& changes, const types::Address& address, const std::optional<Account>& before) {
    append_change(changes, table_key(Table::account, {address}),
                  before ? std::optional(shorten_account(*before)) : std::nullopt);
}

Status visit_changes(BytesView changes, const ChangeVisitor& visit) {
    const auto read = [&]() -> Status {
        rlp::Reader all(changes);
        while (!all.at_end()) {
            QUERN_TRY(rlp::Reader change, all.list());
            QUERN_TRY(const BytesView key, change.bytes());
            if (key.empty()) return fail("rlp.wrong_length");
            std::optional<Bytes> before;
            if (!change.at_end()) {
                QUERN_TRY(const BytesView value, change.bytes());
                QUERN_CHECK(change.expect_end());
                if (is_account(key)) {
                    QUERN_TRY(before, lengthen_account(value));
                } else {
                    before = to_bytes(value);
                }
            }
            if (!visit(key, before)) break;
        }
        return {};
    };
    const auto done = read();
    return done ? Status() : fault("store.corrupt", "changes of a block: " + done.error().to_string());
}

Status visit_changes(const store::Reader& reader, std::size_t part, std::uint64_t from, std::uint64_t to,
                     const BlockChangeVisitor& visit) {
    if (from >= to) return {};
    const std::size_t number_at = changes_key(part).size();
    Status status;
    QUERN_CHECK(reader.for_each(changes_key(part), changes_key(part, from + 1), [&](BytesView key, BytesView changes) {
        const std::uint64_t block = Uint256::from_be(key.subspan(number_at)).low_u64();
        if (block > to) return false;
        bool go_on = true;
        status = visit_changes(changes, [&](BytesView changed, const std::optional<Bytes>& before) {
            return go_on = visit(block, changed, before);
        });
        return status && go_on;
    }));
    return status;
}

Expected<std::uint64_t> oldest_state(const store::Reader& reader, std::uint64_t newest) {
    QUERN_TRY(const std::uint64_t mark, stored_at(reader, kAbovePart));
    return std::max(mark, newest < kKeptStates ? 0 : newest - kKeptStates + 1);
}

Expected<std::uint64_t> stored_at(const store::Reader& reader, std::size_t part) {
    QUERN_TRY(const auto mark, reader.get(mark_key(part)));
    if (!mark) return std::uint64_t{0};
    if (mark->size() != 8) return fault("store.corrupt", "the mark of a part of the tries");
    return Uint256::from_be(*mark).low_u64();
}

}  // namespace quern::chain::state
