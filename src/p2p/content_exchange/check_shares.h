// Chunks that have come and wait to be hashed and written, by fetch: so many may wait, for the memory that they take,
// and fetches that have any share that evenly, so that one from a quick source does not hold up the others. Used by
// network_content.cpp. Pure. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace quern::p2p::content_exchange {

class CheckShares {
public:
    explicit CheckShares(std::size_t most) : most_(most) {}

    // No more is asked for once a third of what may wait does: what has been asked for comes besides.
    [[nodiscard]] bool may_ask(std::uint64_t fetch) const { return of(fetch) < share(fetch, most_ / 3); }
    [[nodiscard]] bool may_take(std::uint64_t fetch) const {
        return waiting_ < most_ && of(fetch) < share(fetch, most_);
    }
    void begin(std::uint64_t fetch) {
        ++waiting_;
        ++by_fetch_[fetch];
    }
    void end(std::uint64_t fetch) {
        --waiting_;
        if (const auto at = by_fetch_.find(fetch); --at->second == 0) by_fetch_.erase(at);
    }
    [[nodiscard]] std::size_t waiting() const { return waiting_; }

private:
    [[nodiscard]] std::size_t of(std::uint64_t fetch) const {
        const auto at = by_fetch_.find(fetch);
        return at == by_fetch_.end() ? 0 : at->second;
    }
    [[nodiscard]] std::size_t share(std::uint64_t fetch, std::size_t of_all) const {
        return std::max<std::size_t>(of_all / (by_fetch_.size() + (by_fetch_.contains(fetch) ? 0 : 1)), 1);
    }

    std::size_t most_;
    std::size_t waiting_ = 0;
    std::map<std::uint64_t, std::size_t> by_fetch_;  // of those that have any
};

}  // namespace quern::p2p::content_exchange
