#include <algorithm>
#include <map>

#include "base/rng.h"
#include "chain/state/path_trie.h"
#include "chain/state/trie.h"
#include "chain/statetest/cases.h"
#include "crypto/hash.h"

namespace quern::chain::statetest {
namespace {

using namespace state;

using Change = std::pair<Bytes, Bytes>;  // an empty value erases

class Nodes final : public TrieNodeReader {
public:
    Expected<Bytes> node(const Hash32& hash) const override {
        const auto found = nodes_.find(hash);
        if (found == nodes_.end()) return fail("trie.missing_node", to_hex0x(hash));
        return found->second;
    }
    void add(const Hash32& hash, Bytes encoding) { nodes_[hash] = std::move(encoding); }

private:
    std::map<Hash32, Bytes> nodes_;
};

Expected<Bytes> text_or_hex(const json::Value& value) {
    if (value.is_null()) return Bytes();
    QUERN_TRY(const std::string_view text, value.as_string());
    if (text.starts_with("0x")) return from_hex(text);
    return to_bytes(as_bytes(text));
}

Expected<std::vector<Change>> read_changes(const json::Value& in) {
    std::vector<Change> changes;
    const auto add = [&](const json::Value& key, const json::Value& value) -> Status {
        QUERN_TRY(Bytes key_bytes, text_or_hex(key));
        QUERN_TRY(Bytes value_bytes, text_or_hex(value));
        changes.emplace_back(std::move(key_bytes), std::move(value_bytes));
        return {};
    };
    for (const auto& pair : in.items()) QUERN_CHECK(add(pair[0], pair[1]));
    for (const auto& member : in.members()) QUERN_CHECK(add(json::Value(member.key), member.value));
    return changes;
}

// Applies the changes, storing and reloading the trie after each `reload_every` (0: never); then checks the root and a
// proof for each key.
Status check_order(const std::vector<Change>& changes, const Hash32& wanted, std::size_t reload_every) {
    Nodes nodes;
    const Trie::NodeSink store = [&](const Hash32& hash, Bytes encoding) { nodes.add(hash, std::move(encoding)); };
    Trie trie(nodes);
    std::map<Bytes, Bytes, BytesLess> content;
    for (std::size_t i = 0; i < changes.size(); ++i) {
        QUERN_CHECK(trie.put(changes[i].first, changes[i].second));
        content[changes[i].first] = changes[i].second;
        if (reload_every != 0 && i % reload_every == 0) trie.reset(trie.commit(store));
    }
    const Hash32 root = trie.commit(store);
    if (root != wanted) return fail("statetest.root", to_hex0x(root));
    for (const auto& [key, value] : content) {
        QUERN_TRY(const auto proof, trie.prove(key));
        QUERN_TRY(const auto proven, verify_trie_proof(root, key, proof));
        if (proven.value_or(Bytes()) != value) return fail("statetest.proof", to_hex0x(key));
    }
    return {};
}

class Places final : public PathNodeReader {
public:
    Expected<std::optional<Bytes>> node(NibblesView path) const override {
        const auto found = nodes_.find(to_bytes(path));
        return found == nodes_.end() ? std::nullopt : std::optional(found->second);
    }
    void store(PathTrie& trie) {
        for (const auto& place : trie.take_removed()) nodes_.erase(place);
        store_nodes(trie.root(), [this](NibblesView path, std::optional<Bytes> encoding) {
            if (encoding)
                nodes_[to_bytes(path)] = std::move(*encoding);
            else
                nodes_.erase(to_bytes(path));
        });
    }

private:
    std::map<Nibbles, Bytes, BytesLess> nodes_;
};

// The same with the tries that the state is kept in: a version and a reload after each change, or all in one.
Status check_by_path(const std::vector<Change>& changes, const Hash32& wanted, bool step_by_step) {
    Places places;
    Child root;
    std::uint64_t version = 0;
    for (std::size_t i = 0; i < changes.size();) {
        PathTrie trie(places, root, ++version);
        do QUERN_CHECK(trie.put(to_nibbles(changes[i].first), changes[i].second));
        while (++i < changes.size() && !step_by_step);
        trie.hash();
        places.store(trie);
        QUERN_TRY(root, PathTrie::load_root(places));
    }
    if (root_hash(root) != wanted) return fail("statetest.root", "by path: " + to_hex0x(root_hash(root)));
    return {};
}

}  // namespace

std::optional<CaseResult> run_trie_case(std::string_view file, const json::Value& test) {
    const json::Value* in = test.find("in");
    const auto root_text = test.get_string("root");
    if (in == nullptr || !root_text) return std::nullopt;
    const auto root = fixed_from_hex<32>(*root_text);
    auto changes = read_changes(*in);
    if (!root) return failed("root: " + root.error().to_string());
    if (!changes) return failed("in: " + changes.error().to_string());
    if (file.find("secure") != std::string_view::npos)
        for (auto& change : *changes) change.first = to_bytes(crypto::keccak256(change.first));
    // An object's pairs may come in any order; a list's may not.
    const int orders = in->is_object() ? 20 : 1;
    SeededRng rng(1);
    for (int order = 0; order < orders; ++order) {
        for (const std::size_t reload_every : {0, 1, 3}) {
            if (const auto status = check_order(*changes, *root, reload_every); !status)
                return failed(status.error().to_string());
        }
        for (const bool step_by_step : {false, true})
            if (const auto status = check_by_path(*changes, *root, step_by_step); !status)
                return failed(status.error().to_string());
        for (std::size_t i = changes->size(); i > 1; --i) std::swap((*changes)[i - 1], (*changes)[rng.below(i)]);
    }
    return passed();
}

std::optional<CaseResult> run_hex_prefix_case(std::string_view, const json::Value& test) {
    const auto sequence = test.get_array("seq");
    const auto terminator = test.get_bool("term");
    const auto out = test.get_string("out");
    if (!sequence || !terminator || !out) return std::nullopt;
    Nibbles path;
    for (const auto& item : *sequence) path.push_back(static_cast<std::uint8_t>(item.as_u64().value_or(0xff)));
    const std::string ours = to_hex(hex_prefix(path, *terminator));
    return ours == *out ? passed() : failed(ours);
}

}  // namespace quern::chain::statetest
