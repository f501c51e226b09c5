#include "chain/state/state_tries.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/big_endian.h"
#include "base/rlp.h"
#include "chain/state/account_codec.h"
#include "chain/state/archive_state.h"
#include "chain/state/flat_state.h"
#include "chain/state/nibbles.h"
#include "chain/store/tables.h"
#include "crypto/hash.h"
#include "crypto/keccak.h"

namespace quern::chain::state {
namespace {

using store::Table;
using store::table_key;

// So many changes of accounts are not worth a thread.
constexpr std::size_t kMinParallelUpdates = 64;

// The node that stands above up to 16 tries: none, a branch, or the only trie's root with one more nibble before it.
Child join(std::span<const Child, 16> below) {
    const auto used = std::count_if(below.begin(), below.end(), [](const Child& child) { return bool(child.node); });
    if (used == 0) return {};
    PathNodePtr node(new PathNode);
    if (used > 1) {
        node->kind = PathNode::Kind::branch;
        for (std::uint8_t nibble = 0; nibble < 16; ++nibble)
            if (below[nibble].node) node->add_child(nibble) = below[nibble];
    } else {
        const auto only = std::find_if(below.begin(), below.end(), [](const Child& child) { return bool(child.node); });
        const std::array<std::uint8_t, 1> step = {static_cast<std::uint8_t>(only - below.begin())};
        if (only->node->kind == PathNode::Kind::branch) {
            node->path = to_bytes(step);
            node->kind = PathNode::Kind::extension;
            node->children.push_back(*only);
        } else {
            node->kind = only->node->kind;
            node->path = concat(step, only->node->path);
            node->value = only->node->value;
            node->children = only->node->children;
        }
    }
    Bytes encoding;
    append_encoding(*node, encoding);
    return {reference_to(encoding), std::move(node)};
}

std::optional<Bytes> encoding_of(const Child& child) {
    if (!child.node) return std::nullopt;
    Bytes encoding;
    append_encoding(*child.node, encoding);
    return encoding;
}

bool is_same(const Child& a, const Child& b) {
    return bool(a.node) == bool(b.node) && (!a.node || a.reference == b.reference);
}

// Removes what an account has of slots and nodes in `state`, and tells as changes what the slots were. What the account
// gets instead is to be put into the batch later.
Status erase_storage(const types::Address& address, const store::Reader& state, store::WriteBatch& batch,
                     Bytes& changes) {
    QUERN_CHECK(state.for_each(table_key(Table::storage, {address}), {}, [&](BytesView key, BytesView value) {
        append_change(changes, key, to_bytes(value));
        batch.erase(to_bytes(key));
        return true;
    }));
    return state.for_each(storage_trie_prefix(address), {}, [&](BytesView key, BytesView) {
        batch.erase(to_bytes(key));
        return true;
    });
}

bool has_storage(const std::optional<Account>& account) {
    return account && account->storage_root != empty_trie_root();
}

std::vector<Hash32> hash_addresses(std::span<const types::Address> addresses) {
    std::vector<BytesView> messages(addresses.begin(), addresses.end());
    std::vector<Hash32> hashes(addresses.size());
    crypto::keccak256_many(messages, hashes);
    return hashes;
}

}  // namespace

Expected<std::unique_ptr<StateTries>> StateTries::open(const store::Reader& store, std::uint64_t number,
                                                       const Roots& roots, ThreadPool* pool, const Limits& limits) {
    auto tries = std::unique_ptr<StateTries>(new StateTries(store, limits));
    auto version = std::make_shared<StateVersion>();
    QUERN_CHECK(tries->load_parts(*version));
    QUERN_CHECK(tries->replay(*version, number, pool));
    if (version->roots != roots)
        return fault("store.corrupt", "the stored state is not that of block " + std::to_string(number));
    tries->head_ = std::move(version);
    return tries;
}

Status StateTries::load_parts(StateVersion& version) {
    for (std::size_t part = 0; part < kTrieParts; ++part) {
        const NodesUnder nodes(store_, part_prefix(part));
        QUERN_TRY(version.parts[part], PathTrie::load_root(nodes));
        QUERN_TRY(parts_[part].stored_at, stored_at(store_, part));
    }
    return {};
}

Status StateTries::replay(StateVersion& version, std::uint64_t number, ThreadPool* pool) {
    const auto oldest = std::min_element(parts_.begin(), parts_.end(),
                                         [](const Part& a, const Part& b) { return a.stored_at < b.stored_at; });
    next_part_ = static_cast<std::size_t>(oldest - parts_.begin());
    head_number_ = number;
    // What changed since each part was stored, at what it is now: the states in between do not matter.
    std::vector<types::Address> addresses;
    std::vector<std::pair<Bytes, Bytes>> natives;
    for (std::size_t part = 0; part < kTrieParts; ++part) {
        std::set<Bytes, BytesLess> keys;
        QUERN_CHECK(visit_changes(store_, part, parts_[part].stored_at, number,
                                  [&](std::uint64_t, BytesView key, const std::optional<Bytes>&) {
                                      const auto table = static_cast<Table>(key[0]);
                                      if (table != Table::account && table != Table::native) return true;
                                      ++parts_[part].changes;
                                      keys.insert(to_bytes(key.subspan(1)));
                                      return true;
                                  }));
        behind_ += parts_[part].changes;
        for (const Bytes& key : keys) {
            if (part != kNativePart) {
                QUERN_TRY(const auto address, types::Address::from_view(key));
                addresses.push_back(address);
                continue;
            }
            QUERN_TRY(auto value, store_.get(table_key(Table::native, {key})));
            natives.emplace_back(key, value ? std::move(*value) : Bytes{});
        }
    }
    const auto hashes = hash_addresses(addresses);
    std::vector<Update> accounts;
    accounts.reserve(addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        QUERN_TRY(auto value, store_.get(table_key(Table::account, {addresses[i]})));
        accounts.push_back({hashes[i], value ? std::move(*value) : Bytes{}});
    }
    QUERN_CHECK(update(version, std::move(accounts), natives, pool));
    for (auto& [part, place] : version.removed) parts_[part].removed.push_back(std::move(place));
    version.removed.clear();
    return {};
}

Expected<StateChange> StateTries::compute(const Overlay& overlay, const StateVersion& parent,
                                          const store::Reader& state, ThreadPool* pool) {
    auto version = std::make_shared<StateVersion>();
    version->parts = parent.parts;
    version->above = parent.above;
    version->top = parent.top;

    StateChange change;
    const auto table = std::make_shared<AccountTable>();
    change.accounts = table;
    const auto accounts = overlay.changed_accounts();
    // Before anything is put in its place.
    std::map<types::Address, Bytes> erased;
    for (const auto& [address, value] : accounts)
        if (overlay.is_storage_cleared(address) && has_storage(overlay.account_before(address)))
            QUERN_CHECK(erase_storage(address, state, change.batch, erased[address]));
    write_flat_tables(overlay, change.batch);
    const auto slots = overlay.changed_storage();
    auto account = accounts.begin();
    auto slot = slots.begin();
    std::vector<types::Address> addresses;
    std::vector<Update> updates;
    std::vector<std::span<const Overlay::StorageChange>> slots_of;
    addresses.reserve(accounts.size());
    updates.reserve(accounts.size());
    slots_of.reserve(accounts.size());
    // Both lists are ordered by address: walk them together, one account at a time.
    while (account != accounts.end() || slot != slots.end()) {
        const bool from_account = slot == slots.end() || (account != accounts.end() && account->first <= slot->address);
        const types::Address address = from_account ? account->first : slot->address;
        Account value = from_account ? account->second : overlay.account_or_empty(address);
        if (value.is_empty()) value = empty_account();
        if (from_account) ++account;
        const auto first = slot;
        while (slot != slots.end() && slot->address == address) ++slot;
        slots_of.emplace_back(first, slot);
        if (first != slot) {
            QUERN_TRY(value.storage_root,
                      update_storage(address, value.storage_root, {first, slot}, state, change.batch));
        }
        Bytes encoded = value.is_empty() ? Bytes{} : encode(value);
        if (encoded.empty())
            change.batch.erase(table_key(Table::account, {address}));
        else
            change.batch.put(table_key(Table::account, {address}), BytesView(encoded));
        table->find_or_add(address).first->value = value;
        addresses.push_back(address);
        updates.push_back({{}, std::move(encoded)});
    }
    std::vector<StateVersion::Changes> changes(kTrieParts);
    const auto hashes = hash_addresses(addresses);
    for (std::size_t i = 0; i < hashes.size(); ++i) {
        updates[i].key = hashes[i];
        auto& part = changes[hashes[i].data[0]];
        ++part.count;
        const auto account_before = overlay.account_before(addresses[i]);
        append_change(part.before, addresses[i], account_before);
        const auto gone = erased.find(addresses[i]);
        if (gone != erased.end()) append(part.before, gone->second);
        for (const auto& changed : slots_of[i]) {
            const Hash32 before =
                has_storage(account_before) ? overlay.storage_before(changed.address, changed.slot) : Hash32();
            if (gone != erased.end() && !before.is_zero()) continue;  // told with what was erased
            append_change(part.before, table_key(Table::storage, {changed.address, changed.slot}),
                          before.is_zero() ? std::nullopt : std::optional(to_bytes(before)));
        }
    }
    std::vector<std::pair<Bytes, Bytes>> natives;
    auto& native_changes = changes[kNativePart];
    for (const auto& [key, value] : overlay.changed_native()) {
        ++native_changes.count;
        append_change(native_changes.before, table_key(Table::native, {key}), overlay.base().native(key));
        natives.emplace_back(key, value.value_or(Bytes{}));
    }
    for (std::size_t part = 0; part < kTrieParts; ++part) {
        if (changes[part].count == 0) continue;
        changes[part].part = part;
        version->changes.push_back(std::move(changes[part]));
    }
    QUERN_CHECK(update(*version, std::move(updates), natives, pool));
    note_above(*version, parent, change.batch);
    if (limits_.archive)
        for (const auto& changed : version->changes)
            if (changed.part < kTrieParts) archive_nodes(version->parts[changed.part], next_version_ - 1, change.batch);
    change.roots = version->roots;
    change.version = std::move(version);
    return change;
}

void StateTries::note_above(StateVersion& version, const StateVersion& parent, store::WriteBatch& batch) const {
    StateVersion::Changes changes{kAbovePart, 0, {}};
    for (std::uint8_t number = 0; number <= kTopNode; ++number) {
        const Child& now = number == kTopNode ? version.top : version.above[number];
        const Child& before = number == kTopNode ? parent.top : parent.above[number];
        if (is_same(now, before)) continue;
        if (limits_.archive) archive_node(now, batch);
        const Bytes key = above_key(number);
        append_change(changes.before, key, encoding_of(before));
        if (auto encoding = encoding_of(now))
            batch.put(key, std::move(*encoding));
        else
            batch.erase(key);
    }
    if (!changes.before.empty()) version.changes.push_back(std::move(changes));
}

Status StateTries::update(StateVersion& version, std::vector<Update> accounts,
                          std::span<const std::pair<Bytes, Bytes>> natives, ThreadPool* pool) {
    const std::uint64_t number = next_version_++;
    {
        const NodesUnder nodes(store_, part_prefix(kNativePart));
        PathTrie trie(nodes, std::move(version.parts[kNativePart]), number);
        for (const auto& [key, value] : natives) QUERN_CHECK(trie.put(to_nibbles(key), value));
        trie.hash();
        version.parts[kNativePart] = trie.root();
        for (auto& place : trie.take_removed()) version.removed.emplace_back(kNativePart, std::move(place));
    }
    // By key, so that parts lie together and the nodes of neighbours are at hand.
    std::sort(accounts.begin(), accounts.end(), [](const Update& a, const Update& b) { return a.key < b.key; });
    struct Run {
        std::size_t part;
        std::size_t begin;
        std::size_t end;
        Status status;
        std::vector<Nibbles> removed;
    };
    std::vector<Run> runs;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
        const std::size_t part = accounts[i].key.data[0];
        if (runs.empty() || runs.back().part != part) runs.push_back({part, i, i, {}, {}});
        runs.back().end = i + 1;
    }
    // Runs begin to end - 1, whose nodes are hashed side by side.
    const auto update_parts = [&](std::size_t begin, std::size_t end) {
        std::vector<std::unique_ptr<NodesUnder>> nodes;
        std::vector<std::unique_ptr<PathTrie>> tries;
        std::vector<PathTrie*> changed_tries;
        for (std::size_t i = begin; i < end; ++i) {
            Run& run = runs[i];
            nodes.push_back(std::make_unique<NodesUnder>(store_, part_prefix(run.part)));
            tries.push_back(std::make_unique<PathTrie>(*nodes.back(), std::move(version.parts[run.part]), number));
            changed_tries.push_back(tries.back().get());
            for (std::size_t at = run.begin; at < run.end && run.status; ++at)
                run.status = tries.back()->put(NibblesView(to_nibbles(accounts[at].key)).subspan(kTopNibbles),
                                               accounts[at].value);
            if (!run.status) return;
        }
        PathTrie::hash_all(changed_tries);
        for (std::size_t i = begin; i < end; ++i) {
            runs[i].removed = tries[i - begin]->take_removed();
            version.parts[runs[i].part] = tries[i - begin]->root();
        }
    };
    if (pool != nullptr && accounts.size() >= kMinParallelUpdates)
        pool->parallel_ranges(runs.size(), update_parts);
    else
        update_parts(0, runs.size());
    std::array<bool, 16> changed{};
    for (Run& run : runs) {
        QUERN_CHECK(run.status);
        changed[run.part / 16] = true;
        for (auto& place : run.removed) version.removed.emplace_back(run.part, std::move(place));
    }
    // A version without a top has none of the nodes above its parts yet.
    if (!version.top.node) changed.fill(true);
    join_above(version, changed);
    version.roots = {root_hash(version.top), root_hash(version.parts[kNativePart])};
    return {};
}

void StateTries::join_above(StateVersion& version, const std::array<bool, 16>& changed) const {
    for (std::size_t i = 0; i < 16; ++i)
        if (changed[i]) version.above[i] = join(std::span<const Child, 16>(version.parts.data() + 16 * i, 16));
    if (std::find(changed.begin(), changed.end(), true) != changed.end()) version.top = join(version.above);
}

Expected<Hash32> StateTries::update_storage(const types::Address& address, const Hash32& root,
                                            std::span<const Overlay::StorageChange> changes, const store::Reader& state,
                                            store::WriteBatch& batch) {
    const Bytes prefix = storage_trie_prefix(address);
    const NodesUnder nodes(state, prefix);
    Child start;
    if (root != empty_trie_root()) {
        QUERN_TRY(start, PathTrie::load_root(nodes));
        if (root_hash(start) != root) return fault("trie.corrupt_node", "storage of " + to_hex0x(address));
    }
    PathTrie trie(nodes, std::move(start), next_version_++);
    for (const auto& change : changes) {
        const Bytes value = change.value.is_zero() ? Bytes{} : storage_value(change.value);
        QUERN_CHECK(trie.put(to_nibbles(crypto::keccak256(change.slot)), value));
    }
    trie.hash();
    const auto sink = into(batch, prefix);
    for (const auto& place : trie.take_removed()) sink(place, std::nullopt);
    if (limits_.archive) archive_nodes(trie.root(), next_version_ - 1, batch);
    store_nodes(trie.root(), sink);
    return root_hash(trie.root());
}

void StateTries::commit(StateVersionPtr version, std::uint64_t number, store::WriteBatch& batch) {
    for (const auto& changes : version->changes) {
        // Before the first block there is nothing to go back to.
        if (number != 0) batch.put(changes_key(changes.part, number), BytesView(changes.before));
        if (changes.part == kAbovePart) continue;
        parts_[changes.part].changes += changes.count;
        behind_ += changes.count;
    }
    if (number > kKeptStates) batch.erase(changes_key(kAbovePart, number - kKeptStates));
    for (const auto& [part, place] : version->removed) parts_[part].removed.push_back(place);
    head_ = std::move(version);
    head_number_ = number;
}

DueParts StateTries::take_due_parts() {
    DueParts due;
    due.block = head_number_;
    const std::size_t least = head_number_ % kBlocksAPart == 0 ? 1 : 0;
    while (due.parts.size() < least || (behind_ > limits_.changes_behind && due.parts.size() < kTrieParts)) {
        take_part(next_part_, due);
        next_part_ = (next_part_ + 1) % kTrieParts;
    }
    return due;
}

DueParts StateTries::take_all_parts() {
    DueParts due;
    due.block = head_number_;
    for (std::size_t part = 0; part < kTrieParts; ++part) take_part(part, due);
    return due;
}

Status write_parts(store::Store& store, DueParts& due, bool sync) {
    const std::uint64_t last = due.block < kKeptStates ? 0 : due.block - kKeptStates;
    for (const std::size_t part : due.parts) {
        QUERN_CHECK(store.for_each(changes_key(part), {}, [&](BytesView key, BytesView) {
            if (BytesLess()(changes_key(part, last), key)) return false;
            due.batch.erase(to_bytes(key));
            return true;
        }));
    }
    return due.parts.empty() ? Status() : store.write(due.batch, sync);
}

void StateTries::take_part(std::size_t number, DueParts& due) {
    Part& part = parts_[number];
    const Bytes prefix = part_prefix(number);
    const auto sink = into(due.batch, prefix);
    for (const auto& place : part.removed) sink(place, std::nullopt);
    store_nodes(head_->parts[number], sink);
    due.batch.put(mark_key(number), be64(head_number_).view());
    due.parts.push_back(number);
    behind_ -= part.changes;
    part.stored_at = head_number_;
    part.changes = 0;
    part.removed.clear();
    ++part.unwritten;
}

void StateTries::parts_stored(const std::vector<std::size_t>& parts) {
    for (const std::size_t number : parts) {
        Part& part = parts_[number];
        // What was taken again is marked as stored already, and can be loaded only when that is written, too.
        if (--part.unwritten != 0) continue;
        const std::size_t before = cached_nodes();
        const std::uint32_t used_since = before > limits_.cached_nodes + limits_.cached_nodes / 2
                                             ? static_cast<std::uint32_t>(next_version_)  // all that are not in use now
                                         : before > limits_.cached_nodes ? part.used_since
                                                                         : 0;
        part.nodes = forget_nodes(head_->parts[number], used_since);
        part.used_since = static_cast<std::uint32_t>(next_version_);
    }
}

std::size_t StateTries::cached_nodes() const {
    return std::accumulate(parts_.begin(), parts_.end(), std::size_t{0},
                           [](std::size_t sum, const Part& part) { return sum + part.nodes; });
}

Expected<Roots> commit_overlay(const Overlay& overlay, const Roots& parent, store::Store& store) {
    QUERN_TRY(const auto tries, StateTries::open(store, 0, parent));
    QUERN_TRY(auto change, tries->compute(overlay, *tries->head(), store));
    tries->commit(change.version, 0, change.batch);
    change.batch.append(tries->take_all_parts().batch);
    QUERN_CHECK(store.write(change.batch, true));
    return change.roots;
}

}  // namespace quern::chain::state
