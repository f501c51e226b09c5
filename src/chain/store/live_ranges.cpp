#include "chain/store/live_ranges.h"

#include <algorithm>

namespace quern::chain::store {

bool LiveRanges::covers(BytesView prefix_or_key) const {
    return std::any_of(prefixes_.begin(), prefixes_.end(),
                       [&](const Bytes& prefix) { return as_text(prefix_or_key).starts_with(as_text(prefix)); });
}

Status LiveRanges::load(const Reader& reader, std::uint64_t height) {
    const MutexLock lock(mutex_);
    entries_.clear();
    for (const Bytes& prefix : prefixes_)
        QUERN_CHECK(reader.for_each(prefix, {}, [this](BytesView key, BytesView value) QUERN_REQUIRES(mutex_) {
            entries_.insert_or_assign(to_bytes(key), to_bytes(value));
            return true;
        }));
    height_ = height;
    return {};
}

void LiveRanges::apply(const WriteBatch& batch, std::uint64_t height) {
    const MutexLock lock(mutex_);
    for (const auto& operation : batch.operations()) {
        if (!covers(operation.key)) continue;
        if (operation.value)
            entries_.insert_or_assign(operation.key, *operation.value);
        else
            entries_.erase(operation.key);
    }
    height_ = height;
}

std::optional<LiveRanges::Entries> LiveRanges::page(BytesView prefix, BytesView start,
                                                    const std::optional<std::uint64_t>& height) const {
    if (!covers(prefix)) return std::nullopt;
    const MutexLock lock(mutex_);
    if (height && *height != height_) return std::nullopt;
    Entries entries;
    const BytesView from = BytesLess()(start, prefix) ? prefix : start;
    for (auto at = entries_.lower_bound(from); at != entries_.end() && entries.size() < kPage; ++at) {
        if (!as_text(at->first).starts_with(as_text(prefix))) break;
        entries.emplace_back(at->first, at->second);
    }
    return entries;
}

std::size_t LiveRanges::size() const {
    const MutexLock lock(mutex_);
    return entries_.size();
}

Status LiveRangesReader::for_each(BytesView prefix, BytesView start, const Visitor& visit) const {
    Bytes from = to_bytes(start);
    for (;;) {
        const auto page = ranges_->page(prefix, from, height_);
        // Not one of those, or a block was committed in the meantime: the rest is below.
        if (!page) return below_.for_each(prefix, from, visit);
        for (const auto& [key, value] : *page)
            if (!visit(key, value)) return {};
        if (page->size() < LiveRanges::kPage) return {};
        from = page->back().first;
        from.push_back(0);
    }
}

}  // namespace quern::chain::store
