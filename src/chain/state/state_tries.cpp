#include "chain/state/state_tries.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/rlp.h"
#include "chain/state/account_codec.h"
#include "chain/state/flat_state.h"
#include "chain/store/tables.h"
#include "crypto/hash.h"
#include "crypto/keccak.h"

namespace quern::chain::state {
namespace {

using store::Table;
using store::table_key;

constexpr std::size_t kTopNibbles = 2;  // of an account's path, above its part
// So many changes of accounts are not worth a thread.
constexpr std::size_t kMinParallelUpdates = 64;

// The key under which the nodes of a part begin.
Bytes part_prefix(std::size_t part) {
    if (part == kNativePart) return table_key(Table::native_trie);
    const std::array<std::uint8_t, 1> number = {static_cast<std::uint8_t>(part)};
    return table_key(Table::account_trie, {number});
}

Bytes mark_key(std::size_t part) {
    const std::array<std::uint8_t, 2> number = {static_cast<std::uint8_t>(part >> 8),
                                                static_cast<std::uint8_t>(part & 0xff)};
    return table_key(Table::trie_part, {number});
}

// Nodes under one prefix of a store's keys.
class NodesUnder final : public PathNodeReader {
public:
    NodesUnder(const store::Reader& reader, Bytes prefix) : reader_(reader), prefix_(std::move(prefix)) {}
    Expected<std::optional<Bytes>> node(NibblesView path) const override {
        Bytes key = prefix_;
        append(key, path);
        return reader_.get(key);
    }

private:
    const store::Reader& reader_;
    Bytes prefix_;
};

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
        node->path.push_back(static_cast<std::uint8_t>(only - below.begin()));
        if (only->node->kind == PathNode::Kind::branch) {
            node->kind = PathNode::Kind::extension;
            node->children.push_back(*only);
        } else {
            node->kind = only->node->kind;
            append(node->path, only->node->path);
            node->value = only->node->value;
            node->children = only->node->children;
        }
    }
    Bytes encoding;
    append_encoding(*node, encoding);
    return {reference_to(encoding), std::move(node)};
}

Bytes encode_changes(const StateVersion& version) {
    rlp::Writer out;
    out.begin_list().begin_list();
    for (const auto& address : version.accounts) out.fixed(address);
    out.end_list().begin_list();
    for (const auto& key : version.natives) out.bytes(key);
    out.end_list().end_list();
    return std::move(out).finish();
}

struct Changes {
    std::set<types::Address> accounts;
    std::set<Bytes, BytesLess> natives;
};

Status decode_changes(BytesView bytes, Changes& changes) {
    QUERN_TRY(rlp::Reader fields, rlp::decode_list(bytes));
    QUERN_TRY(rlp::Reader accounts, fields.list());
    while (!accounts.at_end()) {
        QUERN_TRY(const auto address, accounts.fixed<types::Address::kSize>());
        changes.accounts.insert(types::Address::copy_of(address));
    }
    QUERN_TRY(rlp::Reader natives, fields.list());
    while (!natives.at_end()) {
        QUERN_TRY(const BytesView key, natives.bytes());
        changes.natives.insert(to_bytes(key));
    }
    return fields.expect_end();
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
        QUERN_TRY(const auto mark, store_.get(mark_key(part)));
        if (!mark) continue;  // nothing was ever stored
        if (mark->size() != 8) return fault("store.corrupt", "the mark of a part of the tries");
        parts_[part].stored_at = Uint256::from_be(*mark).low_u64();
    }
    return {};
}

Status StateTries::replay(StateVersion& version, std::uint64_t number, ThreadPool* pool) {
    const auto oldest = std::min_element(parts_.begin(), parts_.end(),
                                         [](const Part& a, const Part& b) { return a.stored_at < b.stored_at; });
    next_part_ = static_cast<std::size_t>(oldest - parts_.begin());
    oldest_change_ = oldest->stored_at + 1;
    // What changed since each part was stored, at what it is now: the states in between do not matter.
    Changes all;
    for (std::uint64_t block = oldest_change_; block <= number; ++block) {
        QUERN_TRY(const auto bytes, store_.get(table_key(Table::changes, {store::be64(block)})));
        if (!bytes) return fault("store.corrupt", "no list of changes of block " + std::to_string(block));
        Changes changes;
        if (const auto decoded = decode_changes(*bytes, changes); !decoded)
            return fault("store.corrupt", "list of changes: " + decoded.error().to_string());
        const std::vector<types::Address> addresses(changes.accounts.begin(), changes.accounts.end());
        const auto hashes = hash_addresses(addresses);
        for (std::size_t i = 0; i < hashes.size(); ++i) {
            Part& part = parts_[hashes[i].data[0]];
            if (block <= part.stored_at) continue;
            ++part.changes;
            all.accounts.insert(addresses[i]);
        }
        if (block <= parts_[kNativePart].stored_at) continue;
        parts_[kNativePart].changes += changes.natives.size();
        all.natives.merge(changes.natives);
    }
    for (const Part& part : parts_) behind_ += part.changes;

    const std::vector<types::Address> addresses(all.accounts.begin(), all.accounts.end());
    const auto hashes = hash_addresses(addresses);
    std::vector<Update> accounts;
    accounts.reserve(addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        QUERN_TRY(auto value, store_.get(table_key(Table::account, {addresses[i]})));
        accounts.push_back({hashes[i], value ? std::move(*value) : Bytes{}});
    }
    std::vector<std::pair<Bytes, Bytes>> natives;
    for (const auto& key : all.natives) {
        QUERN_TRY(auto value, store_.get(table_key(Table::native, {key})));
        natives.emplace_back(key, value ? std::move(*value) : Bytes{});
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
    write_flat_tables(overlay, change.batch);
    const auto accounts = overlay.changed_accounts();
    const auto slots = overlay.changed_storage();
    auto account = accounts.begin();
    auto slot = slots.begin();
    std::vector<Update> updates;
    updates.reserve(accounts.size());
    // Both lists are ordered by address: walk them together, one account at a time.
    while (account != accounts.end() || slot != slots.end()) {
        const bool from_account = slot == slots.end() || (account != accounts.end() && account->first <= slot->address);
        const types::Address address = from_account ? account->first : slot->address;
        Account value = from_account ? account->second : overlay.account_or_empty(address);
        if (value.is_empty()) value = empty_account();
        if (from_account) ++account;
        const auto first = slot;
        while (slot != slots.end() && slot->address == address) ++slot;
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
        version->accounts.push_back(address);
        updates.push_back({{}, std::move(encoded)});
    }
    const auto hashes = hash_addresses(version->accounts);
    for (std::size_t i = 0; i < hashes.size(); ++i) {
        updates[i].key = hashes[i];
        ++version->changes[hashes[i].data[0]];
    }
    std::vector<std::pair<Bytes, Bytes>> natives;
    for (const auto& [key, value] : overlay.changed_native()) {
        version->natives.push_back(key);
        natives.emplace_back(key, value.value_or(Bytes{}));
    }
    version->changes[kNativePart] = static_cast<std::uint32_t>(natives.size());
    QUERN_CHECK(update(*version, std::move(updates), natives, pool));
    change.roots = version->roots;
    change.version = std::move(version);
    return change;
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
    const Bytes prefix = table_key(Table::storage_trie, {crypto::keccak256(address)});
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
    store_nodes(trie.root(), sink);
    return root_hash(trie.root());
}

void StateTries::commit(StateVersionPtr version, std::uint64_t number, store::WriteBatch& batch) {
    batch.put(table_key(Table::changes, {store::be64(number)}), encode_changes(*version));
    adopt(std::move(version));
    std::size_t stored = number % kBlocksAPart == 0 ? 0 : 1;
    while (stored == 0 || (behind_ > limits_.changes_behind && stored <= kTrieParts)) {
        store_part(next_part_, number, batch);
        next_part_ = (next_part_ + 1) % kTrieParts;
        ++stored;
    }
    forget_changes(batch);
}

void StateTries::commit_whole(StateVersionPtr version, std::uint64_t number, store::WriteBatch& batch) {
    adopt(std::move(version));
    for (std::size_t part = 0; part < kTrieParts; ++part) store_part(part, number, batch);
    forget_changes(batch);
}

void StateTries::adopt(StateVersionPtr version) {
    for (const auto& [part, place] : version->removed) parts_[part].removed.push_back(place);
    for (std::size_t part = 0; part < kTrieParts; ++part) {
        parts_[part].changes += version->changes[part];
        behind_ += version->changes[part];
    }
    head_ = std::move(version);
}

void StateTries::store_part(std::size_t number, std::uint64_t block, store::WriteBatch& batch) {
    Part& part = parts_[number];
    const Child& root = head_->parts[number];
    const Bytes prefix = part_prefix(number);
    const auto sink = into(batch, prefix);
    for (const auto& place : part.removed) sink(place, std::nullopt);
    store_nodes(root, sink);
    batch.put(mark_key(number), store::be64(block).view());

    const std::size_t before = cached_nodes();
    const std::uint32_t used_since = before > limits_.cached_nodes + limits_.cached_nodes / 2
                                         ? static_cast<std::uint32_t>(next_version_)  // all that are not in use now
                                     : before > limits_.cached_nodes ? part.used_since
                                                                     : 0;
    behind_ -= part.changes;
    part = {block, 0, forget_nodes(root, used_since), static_cast<std::uint32_t>(next_version_), {}};
}

// The lists that no part needs any more.
void StateTries::forget_changes(store::WriteBatch& batch) {
    std::uint64_t oldest = parts_[0].stored_at;
    for (const Part& part : parts_) oldest = std::min(oldest, part.stored_at);
    for (; oldest_change_ <= oldest; ++oldest_change_)
        batch.erase(table_key(Table::changes, {store::be64(oldest_change_)}));
}

Expected<std::vector<Bytes>> StateTries::prove_account(const StateVersion& version, const types::Address& address) {
    // The nodes above the parts are in memory, so that only those of one part are ever loaded, by their place in it.
    class NodesOfPart final : public PathNodeReader {
    public:
        NodesOfPart(const store::Reader& reader, std::size_t part) : nodes_(reader, part_prefix(part)) {}
        Expected<std::optional<Bytes>> node(NibblesView path) const override {
            return nodes_.node(path.subspan(kTopNibbles));
        }

    private:
        NodesUnder nodes_;
    };
    const Hash32 key = crypto::keccak256(address);
    const NodesOfPart nodes(store_, key.data[0]);
    PathTrie trie(nodes, version.top, next_version_++);
    return trie.prove(to_nibbles(key));
}

std::size_t StateTries::cached_nodes() const {
    return std::accumulate(parts_.begin(), parts_.end(), std::size_t{0},
                           [](std::size_t sum, const Part& part) { return sum + part.nodes; });
}

Expected<Roots> commit_overlay(const Overlay& overlay, const Roots& parent, store::Store& store) {
    QUERN_TRY(const auto tries, StateTries::open(store, 0, parent));
    QUERN_TRY(auto change, tries->compute(overlay, *tries->head(), store));
    tries->commit_whole(change.version, 0, change.batch);
    QUERN_CHECK(store.write(change.batch, true));
    return change.roots;
}

}  // namespace quern::chain::state
