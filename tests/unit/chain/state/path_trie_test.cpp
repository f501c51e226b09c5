#include "chain/state/path_trie.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "chain/state/trie.h"
#include "crypto/hash.h"
#include "crypto/keccak.h"

namespace quern::chain::state {
namespace {

using Content = std::map<Bytes, Bytes, BytesLess>;

class Places final : public PathNodeReader {
public:
    Expected<std::optional<Bytes>> node(NibblesView path) const override {
        const auto found = nodes.find(to_bytes(path));
        return found == nodes.end() ? std::nullopt : std::optional(found->second);
    }
    void store(PathTrie& trie, std::vector<Nibbles> removed) {
        for (const auto& place : removed) nodes.erase(place);
        store_nodes(trie.root(), [this](NibblesView path, std::optional<Bytes> encoding) {
            if (encoding)
                nodes[to_bytes(path)] = std::move(*encoding);
            else
                nodes.erase(to_bytes(path));
        });
    }
    std::map<Nibbles, Bytes, BytesLess> nodes;
};

Bytes random_key(Rng& rng) {
    Bytes key(rng.below(4));
    for (auto& byte : key) byte = static_cast<std::uint8_t>(rng.below(3) * 0x11 + rng.below(2));
    return key;
}
Bytes random_value(Rng& rng) {
    return Bytes(rng.below(3) == 0 ? 40 : 1 + rng.below(4), static_cast<std::uint8_t>(rng.u64()));
}

Hash32 reference_root(const Content& content) {
    std::vector<std::pair<Bytes, Bytes>> pairs(content.begin(), content.end());
    return trie_root(pairs);
}

// What the store must hold for this content, and nothing else.
std::map<Nibbles, Bytes, BytesLess> all_nodes(const Content& content) {
    Places places;
    PathTrie trie(places, {}, 1);
    for (const auto& [key, value] : content) EXPECT_TRUE(trie.put(to_nibbles(key), value));
    trie.hash();
    places.store(trie, {});
    if (content.empty()) places.nodes.clear();
    return places.nodes;
}

// A block: its trie, the content it must have, and what it took away.
struct Version {
    Child root;
    Content content;
    std::vector<Nibbles> removed;
};

TEST(PathTrie, versions_side_by_side_agree_with_the_reference_and_the_store_keeps_one_tree) {
    std::uint64_t number = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        SeededRng rng(seed);
        Places places;
        Version head;
        std::vector<Nibbles> pending;  // removed since the store was written
        for (int block = 0; block < 40; ++block) {
            // Siblings on the head, and one child each: only one of them becomes the head.
            std::vector<Version> made;
            for (int sibling = 0; sibling < 3; ++sibling) {
                Version next = sibling == 2 ? made.back() : head;  // the third is a child of the second
                PathTrie trie(places, next.root, ++number);
                for (std::uint64_t i = rng.below(12); i > 0; --i) {
                    const Bytes key = random_key(rng);
                    const Bytes value = rng.below(5) < 2 ? Bytes{} : random_value(rng);
                    ASSERT_TRUE(trie.put(to_nibbles(key), value));
                    if (value.empty())
                        next.content.erase(key);
                    else
                        next.content[key] = value;
                }
                trie.hash();
                ASSERT_EQ(root_hash(trie.root()), reference_root(next.content)) << seed << " " << block;
                next.root = trie.root();
                if (sibling != 2) next.removed.clear();
                for (auto& place : trie.take_removed()) next.removed.push_back(std::move(place));
                made.push_back(std::move(next));
            }
            head = made[rng.below(made.size())];
            pending.insert(pending.end(), head.removed.begin(), head.removed.end());
            head.removed.clear();
            if (rng.below(3) == 0) {
                PathTrie trie(places, head.root, ++number);
                places.store(trie, std::move(pending));
                pending.clear();
                ASSERT_EQ(places.nodes, all_nodes(head.content)) << seed << " " << block;
                if (rng.below(2) == 0) (void)forget_nodes(head.root, static_cast<std::uint32_t>(number + 1));
                if (rng.below(4) == 0) {  // a restart
                    const auto root = PathTrie::load_root(places);
                    ASSERT_TRUE(root);
                    ASSERT_EQ(root_hash(*root), reference_root(head.content));
                    head.root = *root;
                }
            }
            PathTrie reader(places, head.root, ++number);
            for (int i = 0; i < 5; ++i) {
                const Bytes key = random_key(rng);
                const auto found = head.content.find(key);
                const auto value = reader.get(to_nibbles(key));
                ASSERT_TRUE(value);
                ASSERT_EQ(*value, found == head.content.end() ? std::nullopt : std::optional(found->second));
                const auto proof = reader.prove(to_nibbles(key));
                ASSERT_TRUE(proof);
                const auto proven = verify_trie_proof(root_hash(head.root), key, *proof);
                ASSERT_TRUE(proven) << proven.error().to_string();
                ASSERT_EQ(*proven, *value);
            }
        }
    }
}

class StoredTrie : public ::testing::Test {
protected:
    void SetUp() override {
        SeededRng rng(5);
        PathTrie trie(places, {}, 1);
        for (int i = 0; i < 50; ++i) {
            Hash32 key;
            rng.fill(key.data);
            keys.push_back(to_nibbles(key));
            ASSERT_TRUE(trie.put(keys.back(), Bytes(40, static_cast<std::uint8_t>(i))));
        }
        trie.hash();
        places.store(trie, {});
    }
    Status change_all() {
        QUERN_TRY(const auto root, PathTrie::load_root(places));
        PathTrie trie(places, root, 2);
        for (const auto& key : keys) QUERN_CHECK(trie.put(key, Bytes(40, 0xff)));
        return {};
    }
    Places places;
    std::vector<Nibbles> keys;
};

TEST_F(StoredTrie, another_node_at_a_place_is_a_fault_however_well_formed) {
    ASSERT_TRUE(change_all());
    auto last = std::prev(places.nodes.end());
    auto other = std::prev(last);
    std::swap(last->second, other->second);
    const auto status = change_all();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().name, "trie.corrupt_node");
    EXPECT_TRUE(status.error().is_local_fault());
}

TEST_F(StoredTrie, each_missing_node_is_a_fault) {
    for (const auto& [path, encoding] : std::map(places.nodes)) {
        if (path.empty()) continue;
        places.nodes.erase(path);
        const auto status = change_all();
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().name, "trie.missing_node");
        EXPECT_TRUE(status.error().is_local_fault());
        places.nodes[path] = encoding;
    }
}

TEST_F(StoredTrie, each_flipped_byte_is_a_fault_or_another_root) {
    const Hash32 right = root_hash(*PathTrie::load_root(places));
    for (auto& [path, encoding] : places.nodes)
        for (std::size_t i = 0; i < encoding.size(); i += 7) {
            encoding[i] ^= 0x40;
            const auto root = PathTrie::load_root(places);
            const auto status = change_all();
            EXPECT_TRUE(!status || root_hash(*root) != right);
            if (!status) {
                EXPECT_TRUE(status.error().is_local_fault()) << status.error().to_string();
            }
            encoding[i] ^= 0x40;
        }
    EXPECT_TRUE(change_all());
}

// An extension whose child, a leaf of 34 bytes, stands in it in place of its hash.
constexpr const char* kLongInlineChild = "e311e1209f11111111111111111111111111111111111111111111111111111111111111";

TEST_F(StoredTrie, malformed_nodes_are_refused) {
    for (const char* bad : {"", "80", "c0", "c3200180", "c22080", "c2c001", "c24001", "c22101", "c10120", "c20020",
                            "c21080", "d18080808080808080808080808080808080", "d1c22001808080808080808080808080808080",
                            kLongInlineChild, "d280808080808080808080808080808080808080", "c22001ff"}) {
        const auto node = decode_path_node(from_hex(bad).value());
        ASSERT_FALSE(node) << bad;
        EXPECT_EQ(node.error().name, "trie.corrupt_node") << bad;
        EXPECT_TRUE(node.error().is_local_fault()) << bad;
    }
    EXPECT_TRUE(decode_path_node(from_hex("c22001").value()));
}

TEST_F(StoredTrie, what_changes_nothing_writes_nothing) {
    auto root = PathTrie::load_root(places).value();
    PathTrie trie(places, root, 2);
    for (std::size_t i = 0; i < keys.size(); ++i)
        ASSERT_TRUE(trie.put(keys[i], Bytes(40, static_cast<std::uint8_t>(i))));
    Nibbles absent = keys[0];
    absent.back() ^= 1;
    ASSERT_TRUE(trie.put(absent, {}));
    trie.hash();
    EXPECT_TRUE(trie.take_removed().empty());
    store_nodes(trie.root(), [](NibblesView, const auto&) { ADD_FAILURE() << "written"; });
    EXPECT_EQ(trie.put(Nibbles(257), Bytes{1}).error().name, "trie.key_too_long");
}

TEST(Keccak, lanes_agree_with_the_plain_function_for_each_length) {
    std::vector<Bytes> messages;
    for (std::size_t i = 0; i < 600; ++i) messages.push_back(Bytes((i * 37) % 600, static_cast<std::uint8_t>(i)));
    const std::vector<BytesView> views(messages.begin(), messages.end());
    for (const std::size_t lanes : {1U, 4U, 8U}) {
        std::vector<Hash32> hashes(views.size());
        if (!crypto::keccak256_many_in_lanes(lanes, views, hashes)) continue;  // this CPU has not got them
        for (std::size_t i = 0; i < views.size(); ++i) ASSERT_EQ(hashes[i], crypto::keccak256(views[i])) << lanes;
    }
    std::vector<Hash32> hashes(views.size());
    crypto::keccak256_many(views, hashes);
    EXPECT_EQ(hashes[599], crypto::keccak256(views[599]));
    EXPECT_FALSE(crypto::keccak256_many_in_lanes(3, views, hashes));
}

}  // namespace
}  // namespace quern::chain::state
