// Planted protocol bugs, with which the simulator's tests show that its auditors would find them: one per rule, and one
// per check of what a Byzantine master proposes or a peer answers. In a production build has() is a constant false and
// nothing of this exists. Plain values; thread-safe.
#pragma once

#include <cstdint>

namespace quern::chain::consensus::sdbft {

// clang-format off
#define QUERN_PLANTED_BUGS(X)                                                                       \
    /* rules broken */                                                                              \
    X(finalize_after_nullify)    /* rule 3: FINALIZE although NULLIFY of the view was signed */     \
    X(finalize_after_sibling)    /* rule 3: FINALIZE although another block was notarized */        \
    X(nullify_after_finalize)    /* rule 4: NULLIFY although FINALIZE of the view was signed */     \
    X(notarize_after_nullify)    /* rule 2: NOTARIZE after an own NULLIFY */                        \
    X(notarize_twice)            /* rule 2: a second NOTARIZE for another block of the view */      \
    X(propose_twice)             /* rule 1: after a restart another block in the same view */       \
    X(skip_nullification_check)  /* rule 1, 2: views between parent and block not nullified */      \
    X(child_of_last_block)       /* rule 9: the epoch's last block gets children in its epoch */    \
    X(send_before_sync)          /* rule 7: votes leave before they are durable */                  \
    X(forget_votes)              /* rule 7: own votes are not recovered after a restart */          \
    X(no_signing_floor)          /* votes below the newest own one are signed */                    \
    X(asks_nobody)               /* a key without records signs before others told what they heard */ \
    X(stale_epoch_certificates)  /* certificates of another epoch are taken for this one's */       \
    X(quorum_by_members)         /* quorums count members instead of weight */                      \
    X(weak_quorum_finalizes)     /* a third of the weight makes a certificate */                    \
    X(no_rebroadcast)            /* rule 4: nothing is repeated while stuck */                      \
    X(commit_on_notarization)    /* rule 6: notarized blocks are committed */                       \
    /* checks of a proposal removed */                                                              \
    X(wrong_number)              /* header.wrong_number */                                          \
    X(wrong_epoch)               /* header.wrong_epoch, as far as the header's own field goes */    \
    X(wrong_timestamp)           /* header.wrong_timestamp */                                       \
    X(future_timestamp)          /* a block ahead of one's own clock is not waited for */           \
    X(wrong_committee)           /* header.wrong_committee: this epoch's or the next one's */       \
    X(wrong_beacon)              /* header.wrong_beacon: a master chooses it */                     \
    X(wrong_beacon_proof)        /* vrf.*: the output is whatever the proof says */                 \
    X(unsigned_parent)           /* the parent certificate's signatures and quorum */               \
    X(parent_of_another_block)   /* another block's certificate as the parent's */                  \
    X(parent_nullification)      /* a nullification as the parent's certificate */                  \
    X(parent_of_another_epoch)   /* the parent certificate's epoch, and that its view is earlier */ \
    X(genesis_certificate)       /* a certificate under the genesis block */                        \
    X(unclosed_epoch)            /* an epoch's first block rests on less than a finalization */     \
    X(unsigned_epoch_end)        /* the signatures of the finalization that closed an epoch */      \
    X(wrong_parent_view)         /* the certificate names another view than the parent's header */  \
    X(reproposal_of_any_block)   /* any old block may be proposed again, not an epoch's last */     \
    X(unnotarized_reproposal)    /* what is proposed again need not be notarized */                 \
    X(unsigned_proposal)         /* whether the master signed the proposal */                       \
    X(invalid_block)             /* the executor's verdict is not looked at */                      \
    X(wrong_body)                /* transactions that the header's roots do not name */             \
    X(wrong_body_certificate)    /* a parent certificate that the header does not name */           \
    /* checks of other messages removed */                                                          \
    X(unsigned_vote)             /* a vote's signature */                                           \
    X(unsigned_certificate)      /* a certificate's signatures and quorum */                        \
    X(unsigned_range)            /* the finalization under a range of blocks */                     \
    X(blames_the_late)           /* a late proposal of a final height counts as an offence */       \
    /* limits removed */                                                                            \
    X(unlimited_nullifications)  /* of a proposal */                                                \
    X(unlimited_query)           /* of certificates */                                              \
    X(unlimited_blocks)          /* that are not final */                                           \
    X(unlimited_wanted)          /* blocks asked for */                                             \
    X(unlimited_pending)         /* messages of the next epoch */
// clang-format on

enum class PlantedBug : std::uint8_t {
    none,
#define QUERN_PLANTED_BUG(name) name,
    QUERN_PLANTED_BUGS(QUERN_PLANTED_BUG)
#undef QUERN_PLANTED_BUG
};

struct Hooks {
#ifdef QUERN_SDBFT_PLANTED_BUGS
    PlantedBug bug = PlantedBug::none;
    [[nodiscard]] bool has(PlantedBug which) const { return bug == which; }
    // Bugs about this key's own votes, which the signing floor would hide. Under all others it holds.
    [[nodiscard]] bool lifts_floor() const {
        switch (bug) {
            case PlantedBug::finalize_after_nullify:
            case PlantedBug::finalize_after_sibling:
            case PlantedBug::nullify_after_finalize:
            case PlantedBug::notarize_after_nullify:
            case PlantedBug::notarize_twice:
            case PlantedBug::propose_twice:
            case PlantedBug::forget_votes:
            case PlantedBug::no_signing_floor:
                return true;
            default:
                return false;
        }
    }
#else
    [[nodiscard]] static constexpr bool has(PlantedBug) { return false; }
    [[nodiscard]] static constexpr bool lifts_floor() { return false; }
#endif
    // For a check whose removal is the bug.
    [[nodiscard]] bool checks(PlantedBug which) const { return !has(which); }
};

}  // namespace quern::chain::consensus::sdbft
