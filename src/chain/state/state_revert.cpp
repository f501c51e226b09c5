#include "chain/state/state_revert.h"

#include "base/big_endian.h"
#include "chain/state/trie.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

using store::Table;

// What changed of one part since, as it was, by table.
using Before = std::map<Bytes, std::optional<Bytes>, BytesLess>;

bool is_of(BytesView key, Table table) { return key[0] == static_cast<std::uint8_t>(table); }

// Puts a stored trie back, and its nodes into the batch.
Status revert_trie(const store::Reader& store, const Bytes& prefix, std::span<const std::pair<Nibbles, Bytes>> values,
                   store::WriteBatch& batch) {
    const NodesUnder nodes(store, prefix);
    QUERN_TRY(auto root, PathTrie::load_root(nodes));
    PathTrie trie(nodes, std::move(root), 1);
    for (const auto& [path, value] : values) QUERN_CHECK(trie.put(path, value));
    trie.hash();
    const auto sink = into(batch, prefix);
    for (const auto& place : trie.take_removed()) sink(place, std::nullopt);
    store_nodes(trie.root(), sink);
    return {};
}

Status revert_storage(const store::Reader& store, const Before& before, store::WriteBatch& batch) {
    constexpr std::size_t kSlotAt = 1 + types::Address::kSize;
    std::map<types::Address, std::vector<std::pair<Nibbles, Bytes>>> slots;
    for (const auto& [key, value] : before) {
        if (!is_of(key, Table::storage)) continue;
        const auto address = types::Address::copy_of(BytesView(key).subspan(1, types::Address::kSize));
        const Nibbles path = to_nibbles(crypto::keccak256(BytesView(key).subspan(kSlotAt)));
        slots[address].emplace_back(path, value ? storage_value(Hash32::copy_of(*value)) : Bytes{});
    }
    for (const auto& [address, values] : slots)
        QUERN_CHECK(revert_trie(store, storage_trie_prefix(address), values, batch));
    return {};
}

Status revert_part(const store::Reader& store, std::size_t part, std::uint64_t number, const Before& before,
                   store::WriteBatch& batch) {
    QUERN_TRY(const std::uint64_t stored, stored_at(store, part));
    if (stored <= number) return {};  // a start brings it to any later block
    std::vector<std::pair<Nibbles, Bytes>> values;
    for (const auto& [key, value] : before) {
        const BytesView object = BytesView(key).subspan(1);
        if (is_of(key, Table::native)) values.emplace_back(to_nibbles(object), value.value_or(Bytes{}));
        if (!is_of(key, Table::account)) continue;
        const Nibbles path = to_nibbles(crypto::keccak256(object));
        values.emplace_back(to_bytes(NibblesView(path).subspan(kTopNibbles)), value.value_or(Bytes{}));
    }
    QUERN_CHECK(revert_trie(store, part_prefix(part), values, batch));
    batch.put(mark_key(part), be64(number).view());
    return {};
}

}  // namespace

Status revert_state(const store::Reader& store, std::uint64_t newest, std::uint64_t number, store::WriteBatch& batch) {
    QUERN_TRY(const std::uint64_t oldest, oldest_state(store, newest));
    if (number > newest || number < oldest)
        return fail("state.not_kept", "the state of block " + std::to_string(number) +
                                          " is not kept: those from block " + std::to_string(oldest) + " to " +
                                          std::to_string(newest) + " are");
    batch.put(mark_key(kAbovePart), be64(oldest).view());
    for (std::size_t part = 0; part <= kAbovePart; ++part) {
        Before before;
        QUERN_CHECK(visit_changes(store, part, number, newest,
                                  [&](std::uint64_t block, BytesView key, const std::optional<Bytes>& value) {
                                      before.try_emplace(to_bytes(key), value);  // the oldest change stays
                                      batch.erase(changes_key(part, block));
                                      return true;
                                  }));
        for (const auto& [key, value] : before) {
            if (value)
                batch.put(key, BytesView(*value));
            else
                batch.erase(key);
        }
        QUERN_CHECK(revert_storage(store, before, batch));
        if (part < kTrieParts) QUERN_CHECK(revert_part(store, part, number, before, batch));
    }
    return {};
}

}  // namespace quern::chain::state
