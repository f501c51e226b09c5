#include "chain/state/flat_state.h"

#include "chain/state/account_codec.h"
#include "chain/store/tables.h"

namespace quern::chain::state {

using store::Table;
using store::table_key;

std::optional<Account> FlatState::account(const types::Address& address) const {
    if (cached_.cache == nullptr) return read_account(address);
    if (const auto known = cached_.cache->find(address, cached_.height))
        return known->is_empty() ? std::nullopt : known;
    const auto account = read_account(address);
    // What a fault left unread is not known to be absent.
    if (cached_.puts && status()) cached_.cache->put(address, account ? *account : empty_account(), cached_.height);
    return account;
}

std::optional<Account> FlatState::read_account(const types::Address& address) const {
    const auto bytes = get(table_key(Table::account, {address}));
    if (!bytes) return std::nullopt;
    auto account = decode_account(*bytes);
    if (account) return *account;
    note(Error{"store.corrupt", "account " + to_hex0x(address) + ": " + account.error().to_string(),
               ErrorKind::local_fault});
    return std::nullopt;
}

Bytes FlatState::code(const Hash32& code_hash) const {
    return get(table_key(Table::code, {code_hash})).value_or(Bytes{});
}

Hash32 FlatState::storage(const types::Address& address, const Hash32& slot) const {
    const auto bytes = get(table_key(Table::storage, {address, slot}));
    if (!bytes) return {};
    if (bytes->size() == Hash32::kSize) return Hash32::copy_of(*bytes);
    note(Error{"store.corrupt", "storage of " + to_hex0x(address), ErrorKind::local_fault});
    return {};
}

std::optional<Bytes> FlatState::native(BytesView key) const { return get(table_key(Table::native, {key})); }

std::vector<std::pair<Bytes, Bytes>> FlatState::native_range(BytesView prefix, BytesView start,
                                                             std::size_t limit) const {
    std::vector<std::pair<Bytes, Bytes>> result;
    if (limit == 0) return result;
    const Bytes from = start.empty() ? Bytes{} : table_key(Table::native, {start});
    const auto status = reader_.for_each(table_key(Table::native, {prefix}), from, [&](BytesView key, BytesView value) {
        result.emplace_back(to_bytes(key.subspan(1)), to_bytes(value));
        return result.size() < limit;
    });
    if (!status) note(status.error());
    return result;
}

Status FlatState::status() const {
    const MutexLock lock(mutex_);
    if (fault_) return fail(*fault_);
    return {};
}

std::optional<Bytes> FlatState::get(const Bytes& key) const {
    auto value = reader_.get(key);
    if (value) return std::move(*value);
    note(value.error());
    return std::nullopt;
}

void FlatState::note(const Error& error) const {
    const MutexLock lock(mutex_);
    if (!fault_) fault_ = error;
}

void write_flat_tables(const Overlay& overlay, store::WriteBatch& batch) {
    for (const auto& [address, slot, value] : overlay.changed_storage()) {
        Bytes key = table_key(Table::storage, {address, slot});
        if (value.is_zero())
            batch.erase(std::move(key));
        else
            batch.put(std::move(key), value.view());
    }
    for (const auto& [hash, code] : overlay.new_code()) batch.put(table_key(Table::code, {hash}), code);
    for (const auto& [key, value] : overlay.changed_native()) {
        if (value)
            batch.put(table_key(Table::native, {key}), *value);
        else
            batch.erase(table_key(Table::native, {key}));
    }
}

}  // namespace quern::chain::state
