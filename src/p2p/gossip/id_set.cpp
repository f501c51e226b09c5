#include "p2p/gossip/id_set.h"

namespace quern::p2p::gossip {
namespace {
constexpr std::size_t kLeastPlaces = 16;
}  // namespace

std::size_t IdSet::find(const ShortId& id) const {
    std::size_t at = home_of(id);
    while (places_[at].used && places_[at].id != id) at = (at + 1) & (places_.size() - 1);
    return at;
}

void IdSet::grow() {
    std::vector<Place> old(std::max(kLeastPlaces, 2 * places_.size()));
    old.swap(places_);
    for (const Place& place : old)
        if (place.used) places_[find(place.id)] = place;
}

bool IdSet::insert(const ShortId& id) {
    if (2 * (count_ + 1) > places_.size()) grow();
    Place& place = places_[find(id)];
    if (place.used) return false;
    place = {id, true};
    ++count_;
    return true;
}

bool IdSet::erase(const ShortId& id) {
    if (places_.empty()) return false;
    std::size_t gap = find(id);
    if (!places_[gap].used) return false;
    // What comes after and does not lie between its home and the gap moves into it.
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = (gap + 1) & mask; places_[at].used; at = (at + 1) & mask) {
        const std::size_t from_home = (at - home_of(places_[at].id)) & mask;
        if (from_home < ((at - gap) & mask)) continue;
        places_[gap] = places_[at];
        gap = at;
    }
    places_[gap].used = false;
    --count_;
    return true;
}

bool IdSet::contains(const ShortId& id) const { return !places_.empty() && places_[find(id)].used; }

std::vector<ShortId> IdSet::all() const {
    std::vector<ShortId> ids;
    ids.reserve(count_);
    for (const Place& place : places_)
        if (place.used) ids.push_back(place.id);
    return ids;
}

bool BoundedIds::insert(const ShortId& id) {
    if (!ids_.insert(id)) return false;
    if (order_.size() < capacity_) {
        order_.push_back(id);
        return true;
    }
    ids_.erase(order_[oldest_]);
    order_[oldest_] = id;
    oldest_ = (oldest_ + 1) % capacity_;
    return true;
}

}  // namespace quern::p2p::gossip
