#include "chain/state/trie.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rlp.h"
#include "base/rng.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

using Content = std::map<Bytes, Bytes, BytesLess>;

class Nodes final : public TrieNodeReader {
public:
    Expected<Bytes> node(const Hash32& hash) const override {
        const auto found = nodes.find(hash);
        if (found == nodes.end()) return fail("trie.missing_node", to_hex0x(hash));
        return found->second;
    }
    Trie::NodeSink sink() {
        return [this](const Hash32& hash, Bytes encoding) {
            EXPECT_EQ(crypto::keccak256(encoding), hash);
            nodes[hash] = std::move(encoding);
        };
    }
    std::map<Hash32, Bytes> nodes;
};

// The root from the definition, without any node structure: splits a sorted range by nibbles (Yellow Paper, appendix
// D).
struct Definition {
    std::vector<std::pair<Nibbles, Bytes>> pairs;

    Bytes reference(std::size_t begin, std::size_t end, std::size_t depth) const {
        const Bytes encoding = node(begin, end, depth);
        if (encoding.size() < 32) return encoding;
        rlp::Writer out;
        out.fixed(crypto::keccak256(encoding));
        return std::move(out).finish();
    }
    Bytes node(std::size_t begin, std::size_t end, std::size_t depth) const {
        rlp::Writer out;
        out.begin_list();
        if (end - begin == 1) {
            out.bytes(hex_prefix(BytesView(pairs[begin].first).subspan(depth), true)).bytes(pairs[begin].second);
            return std::move(out.end_list()).finish();
        }
        std::size_t common = depth;
        while (common < pairs[begin].first.size() && common < pairs[end - 1].first.size() &&
               pairs[begin].first[common] == pairs[end - 1].first[common])
            ++common;
        if (common > depth) {
            out.bytes(hex_prefix(BytesView(pairs[begin].first).subspan(depth, common - depth), false));
            out.raw(reference(begin, end, common));
            return std::move(out.end_list()).finish();
        }
        std::size_t at = begin;
        Bytes value;
        if (pairs[at].first.size() == depth) value = pairs[at++].second;
        for (std::uint8_t nibble = 0; nibble < 16; ++nibble) {
            const std::size_t first = at;
            while (at < end && pairs[at].first[depth] == nibble) ++at;
            if (at == first)
                out.bytes({});
            else
                out.raw(reference(first, at, depth + 1));
        }
        out.bytes(value);
        return std::move(out.end_list()).finish();
    }
};

Hash32 root_by_definition(const Content& content) {
    if (content.empty()) return empty_trie_root();
    Definition definition;
    for (const auto& [key, value] : content) definition.pairs.emplace_back(to_nibbles(key), value);
    return crypto::keccak256(definition.node(0, definition.pairs.size(), 0));
}

// Few distinct bytes and lengths, so that keys share prefixes, contain one another, and values are inline and not.
Bytes random_key(Rng& rng) {
    Bytes key(rng.below(4));
    for (auto& byte : key) byte = static_cast<std::uint8_t>(rng.below(3) * 0x11 + rng.below(2));
    return key;
}
Bytes random_value(Rng& rng) {
    return Bytes(rng.below(3) == 0 ? 40 : 1 + rng.below(4), static_cast<std::uint8_t>(rng.u64()));
}

TEST(Trie, random_changes_give_the_root_of_the_content) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        SeededRng rng(seed);
        Nodes nodes;
        Trie trie(nodes);
        Content content;
        for (int step = 0; step < 150; ++step) {
            const Bytes key = random_key(rng);
            if (rng.below(5) < 2) {
                ASSERT_TRUE(trie.erase(key).has_value());
                content.erase(key);
            } else {
                const Bytes value = random_value(rng);
                ASSERT_TRUE(trie.put(key, value).has_value());
                content[key] = value;
            }
            if (rng.below(10) == 0) trie.reset(trie.commit(nodes.sink()));
            if (rng.below(10) == 0) (void)trie.commit(nodes.sink());
            if (rng.below(3) == 0) {
                ASSERT_EQ(trie.root(), root_by_definition(content)) << seed << " " << step;
            }
        }
        ASSERT_EQ(trie.root(), root_by_definition(content));
        for (const auto& [key, value] : content) ASSERT_EQ(trie.get(key).value(), value);
        for (const auto& [key, value] : Content(content)) ASSERT_TRUE(trie.erase(key).has_value());
        ASSERT_EQ(trie.root(), empty_trie_root());
    }
}

TEST(Trie, every_committed_root_can_be_reopened) {
    SeededRng rng(99);
    Nodes nodes;
    Trie trie(nodes);
    std::vector<std::pair<Hash32, Content>> history;
    Content content;
    for (int block = 0; block < 30; ++block) {
        for (int i = 0; i < 5; ++i) {
            const Bytes key = random_key(rng);
            const Bytes value = rng.below(3) == 0 ? Bytes() : random_value(rng);
            ASSERT_TRUE(trie.put(key, value).has_value());
            if (value.empty())
                content.erase(key);
            else
                content[key] = value;
        }
        history.emplace_back(trie.commit(nodes.sink()), content);
    }
    for (const auto& [root, then] : history) {
        Trie old(nodes, root);
        for (const auto& [key, value] : then) ASSERT_EQ(old.get(key).value(), value);
        ASSERT_EQ(old.root(), root_by_definition(then));
    }
}

TEST(Trie, hashing_on_a_pool_gives_the_same_root) {
    ThreadPool pool(4);
    SeededRng rng(4);
    Nodes nodes;
    Trie alone(nodes);
    Trie shared(nodes);
    for (int i = 0; i < 3000; ++i) {
        Hash32 key;
        rng.fill(key.data);
        ASSERT_TRUE(alone.put(key, Bytes(40, 1)).has_value());
        ASSERT_TRUE(shared.put(key, Bytes(40, 1)).has_value());
    }
    EXPECT_EQ(shared.commit(nodes.sink(), &pool), alone.root());
}

TEST(Trie, a_commit_hands_over_only_what_is_new) {
    SeededRng rng(4);
    Nodes nodes;
    Trie trie(nodes);
    Hash32 key;
    for (int i = 0; i < 1000; ++i) {
        rng.fill(key.data);
        ASSERT_TRUE(trie.put(key, Bytes(40, 1)).has_value());
    }
    (void)trie.commit(nodes.sink());
    const std::size_t before = nodes.nodes.size();
    ASSERT_TRUE(trie.put(key, Bytes(40, 2)).has_value());
    std::size_t handed = 0;
    (void)trie.commit([&](const Hash32&, const Bytes&) { ++handed; });
    EXPECT_GT(before, 1000U);
    EXPECT_LE(handed, 5U);
    EXPECT_GE(handed, 2U);
}

TEST(Trie, proofs_show_presence_and_absence) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        SeededRng rng(seed);
        Nodes nodes;
        Trie trie(nodes);
        Content content;
        for (std::uint64_t i = 0; i < 1 + seed * 6; ++i) {
            const Bytes key = random_key(rng);
            content[key] = random_value(rng);
            ASSERT_TRUE(trie.put(key, content[key]).has_value());
        }
        const Hash32 root = trie.commit(nodes.sink());
        for (int i = 0; i < 200; ++i) {
            const Bytes key = random_key(rng);
            const auto proof = trie.prove(key).value();
            const auto proven = verify_trie_proof(root, key, proof);
            ASSERT_TRUE(proven.has_value()) << proven.error().to_string();
            const auto found = content.find(key);
            ASSERT_EQ(proven->has_value(), found != content.end());
            if (found != content.end()) {
                ASSERT_EQ(**proven, found->second);
            }
            for (std::size_t n = 0; n < proof.size(); ++n) {
                auto damaged = proof;
                damaged[n][damaged[n].size() / 2] ^= 1;
                ASSERT_FALSE(verify_trie_proof(root, key, damaged).has_value());
                damaged = proof;
                damaged.resize(n);
                ASSERT_EQ(verify_trie_proof(root, key, damaged).error().name, "trie.bad_proof");
            }
            auto longer = proof;
            longer.push_back(proof.empty() ? Bytes{0x80} : proof.back());
            ASSERT_EQ(verify_trie_proof(root, key, longer).error().name, "trie.bad_proof");
        }
    }
    EXPECT_FALSE(verify_trie_proof(empty_trie_root(), Bytes{1}, {})->has_value());
}

TEST(Trie, malformed_nodes_are_refused) {
    const auto error_of = [](std::string_view hex) {
        const auto node = decode_node(from_hex(hex).value());
        return node ? std::string_view("accepted") : node.error().name;
    };
    for (const char* bad : {"", "80", "c0", "c22001",  // a leaf is accepted below
                            "c3200180", "c22080", "c2c001", "c24001", "c22101", "c10120", "c20020",
                            "d18080808080808080808080808080808080", "d1c22001808080808080808080808080808080"}) {
        if (std::string_view(bad) == "c22001") {
            EXPECT_EQ(error_of(bad), "accepted");
        } else {
            EXPECT_EQ(error_of(bad), "trie.corrupt_node") << bad;
        }
    }
}

TEST(Trie, errors_of_the_store_come_through) {
    const Nodes none;
    Trie trie(none, Hash32::copy_of(Bytes(32, 1)));
    EXPECT_EQ(trie.get(Bytes{1}).error().name, "trie.missing_node");
    EXPECT_EQ(trie.put(Bytes{1}, Bytes{1}).error().name, "trie.missing_node");
    EXPECT_EQ(trie.erase(Bytes{1}).error().name, "trie.missing_node");
    EXPECT_EQ(trie.prove(Bytes{1}).error().name, "trie.missing_node");
    EXPECT_EQ(trie.put(Bytes(129), Bytes{1}).error().name, "trie.key_too_long");
}

TEST(Trie, one_shot_roots_agree_with_the_trie) {
    EXPECT_EQ(trie_root({}), empty_trie_root());
    EXPECT_EQ(ordered_trie_root({}), empty_trie_root());
    std::vector<std::pair<Bytes, Bytes>> pairs;
    std::vector<Bytes> items;
    for (std::uint64_t i = 0; i < 300; ++i) {
        rlp::Writer key;
        key.integer(i);
        items.push_back(Bytes(1 + i % 50, static_cast<std::uint8_t>(i)));
        pairs.emplace_back(std::move(key).finish(), items.back());
    }
    EXPECT_EQ(ordered_trie_root(items), trie_root(pairs));
    Content content(pairs.begin(), pairs.end());
    EXPECT_EQ(trie_root(pairs), root_by_definition(content));
    for (auto& pair : pairs) pair.first = to_bytes(pair.first);
    std::vector<std::pair<Bytes, Bytes>> hashed;
    for (const auto& [key, value] : pairs) hashed.emplace_back(to_bytes(crypto::keccak256(key)), value);
    EXPECT_EQ(secure_trie_root(pairs), trie_root(hashed));
}

}  // namespace
}  // namespace quern::chain::state
