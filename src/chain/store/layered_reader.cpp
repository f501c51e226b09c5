#include "chain/store/layered_reader.h"

#include <algorithm>
#include <numeric>

namespace quern::chain::store {

LayeredReader::LayeredReader(const Reader& below, const WriteBatch& batch) : below_(&below), batch_(batch) {
    const auto& operations = batch.operations();
    index_.resize(operations.size());
    std::iota(index_.begin(), index_.end(), 0U);
    const BytesLess less;
    std::sort(index_.begin(), index_.end(), [&](std::uint32_t a, std::uint32_t b) {
        const Bytes& key_a = operations[a].key;
        const Bytes& key_b = operations[b].key;
        if (less(key_a, key_b)) return true;
        if (less(key_b, key_a)) return false;
        return a > b;  // the last operation on a key comes first, and unique keeps the first
    });
    const auto end = std::unique(index_.begin(), index_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return operations[a].key == operations[b].key;
    });
    index_.erase(end, index_.end());
}

std::size_t LayeredReader::lower_bound(BytesView key) const {
    const BytesLess less;
    const auto found = std::lower_bound(index_.begin(), index_.end(), key, [&](std::uint32_t number, BytesView wanted) {
        return less(batch_.operations()[number].key, wanted);
    });
    return static_cast<std::size_t>(found - index_.begin());
}

Expected<std::optional<Bytes>> LayeredReader::get(BytesView key) const {
    const std::size_t place = lower_bound(key);
    if (place < index_.size() && equal(at(place).key, key)) return at(place).value;
    return below_->get(key);
}

Status LayeredReader::for_each(BytesView prefix, BytesView start, const Visitor& visit) const {
    const BytesLess less;
    const auto in_prefix = [&](std::size_t place) {
        return place < index_.size() && as_text(at(place).key).starts_with(as_text(prefix));
    };
    std::size_t place = lower_bound(less(prefix, start) ? start : prefix);
    bool stopped = false;
    const auto visit_own = [&] {
        const Operation& operation = at(place++);
        if (operation.value && !visit(operation.key, *operation.value)) stopped = true;
    };
    QUERN_CHECK(below_->for_each(prefix, start, [&](BytesView key, BytesView value) {
        while (!stopped && in_prefix(place) && less(at(place).key, key)) visit_own();
        if (stopped) return false;
        if (in_prefix(place) && equal(at(place).key, key))
            visit_own();
        else if (!visit(key, value))
            stopped = true;
        return !stopped;
    }));
    while (!stopped && in_prefix(place)) visit_own();
    return {};
}

}  // namespace quern::chain::store
