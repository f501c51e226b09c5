#include "chain/state/archive_state.h"

#include "base/rlp.h"
#include "chain/state/account_codec.h"
#include "chain/state/trie.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

using store::Table;

class ArchivedNodes final : public TrieNodeReader {
public:
    explicit ArchivedNodes(const store::Reader& store) : store_(store) {}
    Expected<Bytes> node(const Hash32& hash) const override {
        QUERN_TRY(auto encoding, store_.get(archive_key(hash)));
        if (!encoding) return fault("trie.missing_node", to_hex0x(hash));
        if (crypto::keccak256(*encoding) != hash) return fault("trie.corrupt_node", to_hex0x(hash));
        return std::move(*encoding);
    }

private:
    const store::Reader& store_;
};

// Walks a trie in the order of its keys. Nodes on the way are as many as a key has nibbles.
class OrderedWalk {
public:
    OrderedWalk(const TrieNodeReader& nodes, BytesView prefix, BytesView start, const store::Reader::Visitor& visit)
        : nodes_(nodes), prefix_(to_nibbles(prefix)), start_(to_nibbles(start)), visit_(visit) {}

    // False: the visitor stopped.
    Expected<bool> walk(const TrieNode& node) {
        if (node.kind == TrieNode::Kind::unloaded) {
            if (!may_hold_some()) return true;
            QUERN_TRY(const Bytes encoding, nodes_.node(node.hash));
            QUERN_TRY(const auto loaded, decode_node(encoding));
            return walk(*loaded);
        }
        const std::size_t length = path_.size();
        append(path_, node.path);
        QUERN_TRY(const bool go_on, walk_below(node));
        path_.resize(length);
        return go_on;
    }

private:
    Expected<bool> walk_below(const TrieNode& node) {
        if (!may_hold_some()) return true;
        if (!node.value.empty() && !show(node.value)) return false;
        if (node.child) return walk(*node.child);
        if (!node.children) return true;
        for (std::uint8_t nibble = 0; nibble < 16; ++nibble) {
            const auto& child = (*node.children)[nibble];
            if (!child) continue;
            path_.push_back(nibble);
            QUERN_TRY(const bool go_on, walk(*child));
            path_.pop_back();
            if (!go_on) return false;
        }
        return true;
    }
    // Whether keys that begin with path_ can have the prefix and lie at or behind the start.
    bool may_hold_some() const {
        const auto common = [this](NibblesView other) { return std::min(path_.size(), other.size()); };
        const NibblesView path = path_;
        if (!equal(path.first(common(prefix_)), NibblesView(prefix_).first(common(prefix_)))) return false;
        return !BytesLess()(path.first(common(start_)), NibblesView(start_).first(common(start_)));
    }
    bool show(BytesView value) {
        if (path_.size() < prefix_.size() || BytesLess()(path_, start_)) return true;
        Bytes key;
        for (std::size_t i = 0; i + 1 < path_.size(); i += 2)
            key.push_back(static_cast<std::uint8_t>(path_[i] << 4 | path_[i + 1]));
        return visit_(key, value);
    }

    const TrieNodeReader& nodes_;
    Nibbles prefix_;
    Nibbles start_;
    const store::Reader::Visitor& visit_;
    Nibbles path_;
};

void put_node(const Child& child, bool is_root, store::WriteBatch& batch) {
    if (!is_root && !child.reference.is_hash()) return;  // it lies in its parent
    Bytes encoding;
    append_encoding(*child.node, encoding);
    const Hash32 hash = child.reference.is_hash() ? child.reference.bytes : crypto::keccak256(encoding);
    batch.put(archive_key(hash), std::move(encoding));
}

void put_below(const Child& child, std::uint64_t version, bool is_root, store::WriteBatch& batch) {
    if (!child.node || child.node->owner != version) return;
    for (const Child& below : child.node->children) put_below(below, version, false, batch);
    put_node(child, is_root, batch);
}

}  // namespace

void archive_node(const Child& child, store::WriteBatch& batch) {
    if (child.node) put_node(child, true, batch);
}

void archive_nodes(const Child& root, std::uint64_t version, store::WriteBatch& batch) {
    put_below(root, version, true, batch);
}

Expected<std::optional<Bytes>> ArchiveState::get(BytesView key) const {
    if (!part_of_key(key)) return store_.get(key);
    const ArchivedNodes nodes(store_);
    const auto table = static_cast<Table>(key[0]);
    if (table == Table::native) return Trie(nodes, roots_.native_root).get(key.subspan(1));
    if (table != Table::account && table != Table::storage) return store_.get(key);
    const BytesView address = key.subspan(1, types::Address::kSize);
    QUERN_TRY(auto account, Trie(nodes, roots_.state_root).get(crypto::keccak256(address)));
    if (table == Table::account || !account) return account;
    const auto decoded = decode_account(*account);
    if (!decoded) return fault("store.corrupt", "account " + to_hex0x(address));
    const BytesView slot = key.subspan(1 + types::Address::kSize);
    QUERN_TRY(const auto value, Trie(nodes, decoded->storage_root).get(crypto::keccak256(slot)));
    if (!value) return std::optional<Bytes>();
    rlp::Reader integer(*value);
    const auto word = integer.u256();
    if (!word) return fault("store.corrupt", "storage of " + to_hex0x(address));
    return std::optional(to_bytes(word->to_be32()));
}

Status ArchiveState::for_each(BytesView prefix, BytesView start, const Visitor& visit) const {
    const bool native = !prefix.empty() && prefix[0] == static_cast<std::uint8_t>(Table::native);
    if (!native) {
        if (prefix.empty() || is_of_state(prefix)) return fault("state.not_ordered", to_hex0x(prefix));
        return store_.for_each(prefix, start, visit);
    }
    if (roots_.native_root == empty_trie_root()) return {};
    const ArchivedNodes nodes(store_);
    const std::array<std::uint8_t, 1> table = {prefix[0]};
    const Visitor with_table = [&](BytesView key, BytesView value) {
        Bytes whole = to_bytes(table);
        append(whole, key);
        return visit(whole, value);
    };
    const BytesView from = start.empty() || BytesLess()(start, prefix) ? prefix : start;
    const auto done = OrderedWalk(nodes, prefix.subspan(1), from.subspan(1), with_table)
                          .walk(*TrieNode::make_unloaded(roots_.native_root));
    QUERN_CHECK(done);
    return {};
}

Expected<std::vector<Bytes>> ArchiveState::prove_account(const Hash32& state_root,
                                                         const types::Address& address) const {
    const ArchivedNodes nodes(store_);
    return Trie(nodes, state_root).prove(crypto::keccak256(address));
}

Expected<std::vector<std::vector<Bytes>>> ArchiveState::prove_slots(const Hash32& storage_root, const types::Address&,
                                                                    std::span<const Hash32> slots) const {
    const ArchivedNodes nodes(store_);
    Trie trie(nodes, storage_root);
    std::vector<std::vector<Bytes>> proofs;
    for (const Hash32& slot : slots) {
        QUERN_TRY(proofs.emplace_back(), trie.prove(crypto::keccak256(slot)));
    }
    return proofs;
}

}  // namespace quern::chain::state
