// How often each peer gets an answer of one kind: so many within a period, from the first of them on. Peers come and go
// under new numbers, so the table has a limit of its own; when it is full of peers whose period is not over, newcomers
// get nothing, else nobody's rate would be limited. Plain value; belongs to one thread.
#pragma once

#include <map>

#include "chain/consensus/sdbft/actions.h"

namespace quern::chain::consensus::sdbft {

class PeerRate {
public:
    PeerRate(std::size_t max_peers, std::uint64_t times) : max_peers_(max_peers), times_(times) {}

    // False: the peer has had what it may.
    [[nodiscard]] bool take(PeerId peer, std::uint64_t now_ms, std::uint64_t period_ms) {
        const auto is_over = [&](const auto& entry) { return now_ms >= entry.second.since_ms + period_ms; };
        const auto known = given_.find(peer);
        if (known != given_.end() && !is_over(*known)) {
            if (known->second.times >= times_) return false;
            ++known->second.times;
            return true;
        }
        if (given_.size() >= max_peers_) std::erase_if(given_, is_over);
        if (given_.size() >= max_peers_) return false;
        given_[peer] = {now_ms, 1};
        return true;
    }
    [[nodiscard]] std::size_t size() const { return given_.size(); }

private:
    struct Given {
        std::uint64_t since_ms = 0;
        std::uint64_t times = 0;
    };
    std::size_t max_peers_;
    std::uint64_t times_;
    std::map<PeerId, Given> given_;
};

}  // namespace quern::chain::consensus::sdbft
