#include "chain/state/past_state.h"

#include <algorithm>
#include <limits>

#include "chain/state/trie.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

using store::Table;
using store::table_key;

// Nodes of a stored trie after changes that were made to it in memory.
class ChangedNodes final : public PathNodeReader {
public:
    ChangedNodes(const store::Reader& reader, Bytes prefix) : stored_(reader, std::move(prefix)) {}
    Expected<std::optional<Bytes>> node(NibblesView path) const override {
        const auto found = changed_.find(path);
        return found != changed_.end() ? Expected<std::optional<Bytes>>(found->second) : stored_.node(path);
    }
    const NodesUnder& stored() const { return stored_; }
    // What `trie`, which began with the stored nodes, became.
    void take(PathTrie& trie) {
        trie.hash();
        for (const auto& place : trie.take_removed()) changed_[place] = std::nullopt;
        store_nodes(trie.root(), [this](NibblesView path, std::optional<Bytes> encoding) {
            changed_[to_bytes(path)] = std::move(encoding);
        });
    }

private:
    NodesUnder stored_;
    std::map<Bytes, std::optional<Bytes>, BytesLess> changed_;
};

// The accounts' trie of one state: the nodes above the parts as its tables tell, and one part.
class AccountNodes final : public PathNodeReader {
public:
    AccountNodes(const store::Reader& state, const PathNodeReader& part) : state_(state), part_(part) {}
    Expected<std::optional<Bytes>> node(NibblesView path) const override {
        if (path.empty()) return state_.get(above_key(kTopNode));
        return path.size() == 1 ? state_.get(above_key(path[0])) : part_.node(path.subspan(kTopNibbles));
    }

private:
    const store::Reader& state_;
    const PathNodeReader& part_;
};

tl::unexpected<Error> too_many() {
    return busy("state.too_many_changes", "the answer takes more than " + std::to_string(kMaxChangesForProof) +
                                              " changes of one part of the state");
}

}  // namespace

Expected<std::optional<Bytes>> PastState::get(BytesView key) const {
    const auto part = part_of_key(key);
    if (!part) return newest_.get(key);
    // What the first block that changed it found there is what was there after every block before.
    std::optional<std::optional<Bytes>> found;
    QUERN_CHECK(visit_changes(newest_, *part, number_, newest_number_,
                              [&](std::uint64_t, BytesView changed, const std::optional<Bytes>& before) {
                                  if (!equal(changed, key)) return true;
                                  found = before;
                                  return false;
                              }));
    if (found) return std::move(*found);
    return newest_.get(key);
}

Expected<PastState::Before> PastState::changed_since(std::size_t part, BytesView prefix, std::size_t limit) const {
    Before all;
    QUERN_CHECK(visit_changes(newest_, part, number_, newest_number_,
                              [&](std::uint64_t, BytesView key, const std::optional<Bytes>& before) {
                                  if (key.size() >= prefix.size() && equal(key.first(prefix.size()), prefix))
                                      all.try_emplace(to_bytes(key), before);  // the oldest change stays
                                  return all.size() <= limit;
                              }));
    return all;
}

Status PastState::for_each(BytesView prefix, BytesView start, const Visitor& visit) const {
    const bool native = !prefix.empty() && prefix[0] == static_cast<std::uint8_t>(Table::native);
    if (!native) {
        if (prefix.empty() || is_of_state(prefix)) return fault("state.not_ordered", to_hex0x(prefix));
        return newest_.for_each(prefix, start, visit);
    }
    QUERN_TRY(const Before before, changed_since(kNativePart, prefix, std::numeric_limits<std::size_t>::max() - 1));
    auto own = before.lower_bound(BytesLess()(prefix, start) ? start : prefix);
    bool stopped = false;
    const auto visit_own = [&] {
        if (own->second && !visit(own->first, *own->second)) stopped = true;
        ++own;
    };
    QUERN_CHECK(newest_.for_each(prefix, start, [&](BytesView key, BytesView value) {
        while (!stopped && own != before.end() && BytesLess()(own->first, key)) visit_own();
        if (stopped) return false;
        if (own != before.end() && equal(own->first, key))
            visit_own();
        else if (!visit(key, value))
            stopped = true;
        return !stopped;
    }));
    while (!stopped && own != before.end()) visit_own();
    return {};
}

Expected<std::vector<Bytes>> PastState::prove_account(const Hash32& state_root, const types::Address& address) const {
    if (state_root == empty_trie_root()) return std::vector<Bytes>();
    const std::size_t part = part_of(address);
    QUERN_TRY(const std::uint64_t stored, stored_at(newest_, part));
    const Bytes prefix = table_key(Table::account);
    QUERN_TRY(Before differ, changed_since(part, prefix, kMaxChangesForProof));
    if (stored <= number_) {
        // The accounts that differ are those that changed between the two; some have changed again since.
        Before between;
        QUERN_CHECK(visit_changes(newest_, part, stored, number_,
                                  [&](std::uint64_t, BytesView key, const std::optional<Bytes>&) {
                                      if (key[0] == prefix[0]) between.try_emplace(to_bytes(key));
                                      return between.size() <= kMaxChangesForProof;
                                  }));
        for (auto& [key, value] : between) {
            if (const auto since = differ.find(key); since != differ.end()) {
                value = since->second;
            } else {
                QUERN_TRY(value, newest_.get(key));
            }
        }
        differ = std::move(between);
    }
    if (differ.size() > kMaxChangesForProof) return too_many();
    ChangedNodes nodes(newest_, part_prefix(part));
    QUERN_TRY(auto root, PathTrie::load_root(nodes.stored()));
    PathTrie trie(nodes.stored(), std::move(root), 1);
    for (const auto& [key, value] : differ) {
        const Nibbles path = to_nibbles(crypto::keccak256(BytesView(key).subspan(1)));
        QUERN_CHECK(trie.put(NibblesView(path).subspan(kTopNibbles), value ? BytesView(*value) : BytesView()));
    }
    nodes.take(trie);
    const AccountNodes all(*this, nodes);
    QUERN_TRY(auto top, PathTrie::load_root(all));
    return PathTrie(all, std::move(top), 1).prove(to_nibbles(crypto::keccak256(address)));
}

Expected<std::vector<std::vector<Bytes>>> PastState::prove_slots(const Hash32& storage_root,
                                                                 const types::Address& address,
                                                                 std::span<const Hash32> slots) const {
    std::vector<std::vector<Bytes>> proofs(slots.size());
    if (storage_root == empty_trie_root() || slots.empty()) return proofs;
    const Bytes prefix = table_key(Table::storage, {address});
    QUERN_TRY(const Before before, changed_since(part_of(address), prefix, kMaxChangesForProof));
    if (before.size() > kMaxChangesForProof) return too_many();
    ChangedNodes nodes(newest_, storage_trie_prefix(address));
    QUERN_TRY(auto root, PathTrie::load_root(nodes.stored()));
    PathTrie trie(nodes.stored(), std::move(root), 1);
    for (const auto& [key, value] : before) {
        const Hash32 slot = Hash32::copy_of(BytesView(key).subspan(prefix.size()));
        QUERN_CHECK(
            trie.put(to_nibbles(crypto::keccak256(slot)), value ? storage_value(Hash32::copy_of(*value)) : Bytes{}));
    }
    trie.hash();
    for (std::size_t i = 0; i < slots.size(); ++i) {
        QUERN_TRY(proofs[i], trie.prove(to_nibbles(crypto::keccak256(slots[i]))));
    }
    return proofs;
}

}  // namespace quern::chain::state
