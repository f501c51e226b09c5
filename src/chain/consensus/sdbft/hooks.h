// Planted protocol bugs, one per rule, with which the simulator's tests show that its auditors would find them. In a
// production build has() is a constant false and nothing of this exists. Plain values; thread-safe.
#pragma once

#include <cstdint>

namespace quern::chain::consensus::sdbft {

enum class PlantedBug : std::uint8_t {
    none,
    finalize_after_nullify,    // rule 3: FINALIZE although NULLIFY of the view was signed
    finalize_after_sibling,    // rule 3: FINALIZE although another block of the view was notarized
    nullify_after_finalize,    // rule 4: NULLIFY although FINALIZE of the view was signed
    notarize_after_nullify,    // rule 2: NOTARIZE after an own NULLIFY
    notarize_twice,            // rule 2: a second NOTARIZE for another block of the view
    propose_twice,             // rule 1: after a restart another block is proposed in the same view
    skip_nullification_check,  // rule 1, 2: the views between parent and block need not be nullified
    child_of_last_block,       // rule 9: the epoch's last block gets children in its epoch
    send_before_sync,          // rule 7: votes leave before they are durable
    forget_votes,              // rule 7: own votes are not recovered after a restart
    stale_epoch_certificates,  // certificates of another epoch are taken for this one's
    quorum_by_members,         // quorums count members instead of weight
    weak_quorum_finalizes,     // a third of the weight makes a certificate
    no_rebroadcast,            // rule 4: nothing is repeated while stuck
    commit_on_notarization,    // rule 6: notarized blocks are committed
    count_,
};

struct Hooks {
#ifdef QUERN_SDBFT_PLANTED_BUGS
    PlantedBug bug = PlantedBug::none;
    [[nodiscard]] bool has(PlantedBug which) const { return bug == which; }
#else
    [[nodiscard]] static constexpr bool has(PlantedBug) { return false; }
#endif
};

}  // namespace quern::chain::consensus::sdbft
