#include "chain/state/state_tries.h"

#include "base/rlp.h"
#include "chain/state/account_codec.h"
#include "chain/state/flat_state.h"
#include "chain/store/tables.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

using store::Table;
using store::table_key;

Trie::NodeSink into(store::WriteBatch& batch, Table table) {
    return [&batch, table](const Hash32& hash, Bytes encoding) {
        batch.put(table_key(table, {hash}), std::move(encoding));
    };
}

Bytes storage_value(const Hash32& value) {
    rlp::Writer writer;
    writer.integer(Uint256::from_be(value));
    return std::move(writer).finish();
}

}  // namespace

Expected<Bytes> StoredNodes::node(const Hash32& hash) const {
    QUERN_TRY(auto encoding, reader_.get(table_key(native_ ? Table::native_node : Table::state_node, {hash})));
    if (!encoding) return fault("trie.missing_node", to_hex0x(hash));
    return std::move(*encoding);
}

StateTries::StateTries(const store::Reader& reader, const Roots& roots)
    : state_nodes_(reader, false),
      native_nodes_(reader, true),
      state_(state_nodes_, roots.state_root),
      native_(native_nodes_, roots.native_root),
      current_(roots) {}

Expected<StateChange> StateTries::compute(const Overlay& overlay, const Roots& parent, ThreadPool* pool) {
    if (current_ != parent) {
        state_.reset(parent.state_root);
        native_.reset(parent.native_root);
        current_ = parent;
    }
    auto change = compute_from(overlay, pool);
    if (!change) {
        state_.reset(parent.state_root);
        native_.reset(parent.native_root);
    } else {
        current_ = change->roots;
    }
    return change;
}

Expected<StateChange> StateTries::compute_from(const Overlay& overlay, ThreadPool* pool) {
    StateChange change;
    const auto accounts = overlay.changed_accounts();
    const auto slots = overlay.changed_storage();
    auto account = accounts.begin();
    auto slot = slots.begin();
    const auto accounts_end = accounts.end();
    const auto slots_end = slots.end();
    // Both lists are ordered by address: walk them together, one account at a time.
    while (account != accounts_end || slot != slots_end) {
        const bool from_account = slot == slots_end || (account != accounts_end && account->first <= slot->address);
        const types::Address address = from_account ? account->first : slot->address;
        Account value = overlay.account_or_empty(address);
        if (slot != slots_end && slot->address == address) {
            const auto first = slot;
            while (slot != slots_end && slot->address == address) ++slot;
            QUERN_TRY(value.storage_root, update_storage(value.storage_root, {first, slot}, change.batch));
            change.batch.put(table_key(Table::account, {address}), encode(value));
        }
        if (account != accounts_end && account->first == address) ++account;
        const Hash32 key = crypto::keccak256(address);
        if (value.is_empty())
            QUERN_CHECK(state_.erase(key));
        else
            QUERN_CHECK(state_.put(key, encode(value)));
    }
    for (const auto& [key, value] : overlay.changed_native()) {
        if (value)
            QUERN_CHECK(native_.put(key, *value));
        else
            QUERN_CHECK(native_.erase(key));
    }
    store::WriteBatch flat;
    write_flat_tables(overlay, flat);
    flat.append(std::move(change.batch));  // accounts with new storage roots come after their plain form
    change.batch = std::move(flat);
    change.roots.state_root = state_.commit(into(change.batch, Table::state_node), pool);
    change.roots.native_root = native_.commit(into(change.batch, Table::native_node), pool);
    return change;
}

Expected<Hash32> StateTries::update_storage(const Hash32& root, std::span<const Overlay::StorageChange> changes,
                                            store::WriteBatch& batch) const {
    Trie trie(state_nodes_, root);
    for (const auto& change : changes) {
        const Hash32 key = crypto::keccak256(change.slot);
        if (change.value.is_zero())
            QUERN_CHECK(trie.erase(key));
        else
            QUERN_CHECK(trie.put(key, storage_value(change.value)));
    }
    return trie.commit(into(batch, Table::state_node));
}

Expected<Roots> commit_overlay(const Overlay& overlay, const Roots& parent, store::Store& store) {
    StateTries tries(store, parent);
    QUERN_TRY(const auto change, tries.compute(overlay, parent));
    QUERN_CHECK(store.write(change.batch, true));
    return change.roots;
}

}  // namespace quern::chain::state
