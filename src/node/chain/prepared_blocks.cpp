#include "node/chain/prepared_blocks.h"

#include <algorithm>
#include <set>

#include "base/ensure.h"

namespace quern::node {
namespace {

// The encodings, here and of each transaction; what it decodes to, its receipt, and what it changes.
constexpr std::size_t kEncodings = 4;
constexpr std::size_t kOfTransaction = 1'024;

std::size_t footprint(const PreparedBlock& block) {
    return sizeof(PreparedBlock) + kEncodings * block.encoded.size() + kOfTransaction * block.hashes.size();
}

}  // namespace

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

PreparedBlocks::Entries::iterator PreparedBlocks::oldest_leaf(const Hash32& parent) {
    std::set<Hash32> parents = {parent};
    for (const auto& item : entries_) parents.insert(item.second->block.block.header.parent_hash);
    const auto view_of = [](const Entries::iterator& at) { return at->second->block.block.header.consensus.view; };
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at)
        if (!parents.contains(at->first) && (oldest == entries_.end() || view_of(at) < view_of(oldest))) oldest = at;
    return oldest;
}

Status PreparedBlocks::add(PreparedBlock block, std::vector<Hash32>& gone) {
    if (entries_.contains(block.hash)) return {};
    const std::size_t bytes = footprint(block);
    while (entries_.size() >= kMaxPreparedBlocks || (bytes_ + bytes > kMaxPreparedBytes && !entries_.empty())) {
        const auto oldest = oldest_leaf(block.block.header.parent_hash);
        if (oldest == entries_.end()) return busy("block.too_many", std::to_string(entries_.size()));
        gone.push_back(oldest->first);
        deduct(bytes_, oldest->second->bytes);
        entries_.erase(oldest);
    }
    const Hash32 hash = block.hash;
    bytes_ += bytes;
    entries_.emplace(hash, std::make_unique<Entry>(Entry{std::move(block), std::nullopt, bytes}));
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
    bytes_ = 0;
    for (const auto& item : entries_) bytes_ += item.second->bytes;
}

}  // namespace quern::node
