#include "fuzz/target.h"

#include "fuzz/mempool_targets.h"

namespace quern::fuzz {

std::span<const Target> all_targets() {
    static const std::vector<Target> targets = [] {
        std::vector<Target> all;
        for (const auto group : {codec_targets(), native_targets(), text_targets(), program_targets(), reader_targets(),
                                 game_targets(), consensus_targets(), network_targets(), transport_targets(),
                                 session_targets(), mempool_targets(), peer_targets()})
            all.insert(all.end(), group.begin(), group.end());
        return all;
    }();
    return targets;
}

}  // namespace quern::fuzz
