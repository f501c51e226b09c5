// The posts of the dispute games that a test plays, by their hash: who plays the rival looks up here what a chain's
// node finds in the logs. One thread at a time.
#pragma once

#include <map>

#include "compute/core/dispute_game.h"

namespace quern::test {

inline std::map<Hash32, compute::core::SplitMove>& posts() {
    static std::map<Hash32, compute::core::SplitMove> posts;
    return posts;
}

inline void remember_post(const compute::core::SplitMove& move) {
    posts().emplace(compute::core::post_hash(move), move);
}

// The defender's post that waits for the rival; null when none does.
inline const compute::core::SplitMove* waiting_post(const compute::core::Game& game) {
    const auto found = posts().find(game.post);
    return found == posts().end() ? nullptr : &found->second;
}

}  // namespace quern::test
