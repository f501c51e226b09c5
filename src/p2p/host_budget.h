// What each host may cost this node, in whatever unit the caller counts: so much a second, and so much at once. What a
// question cost may be known only when it was answered, so that a host may come into debt; it is asked to wait until
// that is paid. A host is forgotten when it owes nothing; when too many owe, those that owe least are. Used by
// network_content.cpp. Pure: time is an argument in microseconds. One thread.
#pragma once

#include <map>
#include <string>

#include "p2p/transport/token_bucket.h"

namespace quern::p2p {

class HostBudget {
public:
    static constexpr std::size_t kMaxHosts = 4'096;

    HostBudget(std::uint64_t per_second, std::uint64_t burst) : per_second_(per_second), burst_(burst) {}

    [[nodiscard]] bool may_spend(const std::string& host, std::uint64_t now_us) {
        const auto at = hosts_.find(host);
        return at == hosts_.end() || at->second.available(now_us) != 0;
    }
    void spend(const std::string& host, std::uint64_t cost, std::uint64_t now_us) {
        if (cost == 0) return;
        if (hosts_.size() >= kMaxHosts && !hosts_.contains(host)) make_room(now_us);
        transport::TokenBucket& left = hosts_.try_emplace(host, per_second_, burst_).first->second;
        (void)left.available(now_us);  // what it has had time for
        left.spend(cost);
    }
    [[nodiscard]] std::size_t hosts() const { return hosts_.size(); }

private:
    void make_room(std::uint64_t now_us) {
        for (auto at = hosts_.begin(); at != hosts_.end();)
            at = at->second.wait_us(burst_, now_us) == 0 ? hosts_.erase(at) : std::next(at);
        if (hosts_.size() < kMaxHosts) return;
        auto least = hosts_.begin();
        for (auto at = hosts_.begin(); at != hosts_.end(); ++at)
            if (at->second.wait_us(burst_, now_us) < least->second.wait_us(burst_, now_us)) least = at;
        hosts_.erase(least);
    }

    std::uint64_t per_second_;
    std::uint64_t burst_;
    std::map<std::string, transport::TokenBucket> hosts_;
};

}  // namespace quern::p2p
