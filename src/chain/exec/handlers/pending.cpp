#include "chain/exec/handlers/handler.h"

namespace quern::chain::exec::handlers {

#define QUERN_PENDING(name, payload)                                                                           \
    Status Handler<types::NativeKind::name>::check_form(const params::MarketParams&, const types::payload&) {  \
        return fail("native.not_active");                                                                      \
    }                                                                                                          \
    Status Handler<types::NativeKind::name>::check_state(const Context&, const types::payload&) { return {}; } \
    Status Handler<types::NativeKind::name>::apply(Context&, const types::payload&) { return {}; }
QUERN_PENDING(task_submit, TaskSubmitPayload)
QUERN_PENDING(task_cancel, TaskIdPayload)
QUERN_PENDING(task_bid, TaskBidPayload)
QUERN_PENDING(task_start, TaskIdPayload)
QUERN_PENDING(task_checkpoint, TaskCheckpointPayload)
QUERN_PENDING(task_prove, TaskProvePayload)
QUERN_PENDING(task_abandon, TaskIdPayload)
QUERN_PENDING(custody_receipt, CustodyReceiptPayload)
QUERN_PENDING(verify_commit, VerifyCommitPayload)
QUERN_PENDING(verify_reveal, VerifyRevealPayload)
QUERN_PENDING(challenge_commit, ChallengeCommitPayload)
QUERN_PENDING(challenge_reveal, ChallengeRevealPayload)
QUERN_PENDING(dispute_split, DisputeSplitPayload)
QUERN_PENDING(dispute_prove_leaf, DisputeProveLeafPayload)
QUERN_PENDING(dispute_concede, DisputeConcedePayload)
QUERN_PENDING(tick, TickPayload)

}  // namespace quern::chain::exec::handlers
