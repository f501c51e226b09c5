#include "node/chain/prepared_blocks.h"

#include <algorithm>
#include <set>

namespace quern::node {

const PreparedBlock* PreparedBlocks::find(const Hash32& hash) const {
    const auto found = entries_.find(hash);
    return found == entries_.end() ? nullptr : &found->second->block;
}

const chain::store::Reader& PreparedBlocks::state_after(const Hash32& hash) {
    // Up to the first ancestor that has a layer or is committed, then back down.
    std::vector<Entry*> missing;
    const chain::store::Reader* below = &committed_;
    for (auto at = entries_.find(hash); at != entries_.end();
         at = entries_.find(at->second->block.block.header.parent_hash)) {
        if (at->second->layer) {
            below = &*at->second->layer;
            break;
        }
        missing.push_back(at->second.get());
    }
    for (auto entry = missing.rbegin(); entry != missing.rend(); ++entry)
        below = &(*entry)->layer.emplace(*below, (*entry)->block.change.batch);
    return *below;
}

std::vector<const chain::state::AccountTable*> PreparedBlocks::changed_accounts(const Hash32& hash) const {
    std::vector<const chain::state::AccountTable*> changed;
    for (auto at = entries_.find(hash); at != entries_.end();
         at = entries_.find(at->second->block.block.header.parent_hash))
        changed.push_back(at->second->block.change.accounts.get());
    return changed;
}

Status PreparedBlocks::add(PreparedBlock block) {
    if (entries_.contains(block.hash)) return {};
    if (entries_.size() >= kMaxPreparedBlocks) return busy("block.too_many", std::to_string(entries_.size()));
    const Hash32 hash = block.hash;
    entries_.emplace(hash, std::make_unique<Entry>(Entry{std::move(block), std::nullopt}));
    return {};
}

void PreparedBlocks::committed(const Hash32& hash) {
    std::vector<Entry*> by_number;
    for (const auto& [other, entry] : entries_)
        if (other != hash) by_number.push_back(entry.get());
    std::stable_sort(by_number.begin(), by_number.end(), [](const Entry* a, const Entry* b) {
        return a->block.block.header.number < b->block.block.header.number;
    });
    std::set<Hash32> descend = {hash};
    for (Entry* entry : by_number) {
        const Hash32& parent = entry->block.block.header.parent_hash;
        if (!descend.contains(parent)) continue;
        descend.insert(entry->block.hash);
        if (parent == hash && entry->layer) entry->layer->rebase(committed_);
    }
    std::erase_if(entries_, [&](const auto& item) { return item.first == hash || !descend.contains(item.first); });
}

}  // namespace quern::node
