// How the limits of different folders depend on each other: what one room lets through, the next has room for. Each
// folder states the relations among its own limits beside them; this file holds those across folders and no code. A
// limit that is changed without its neighbours does not compile.
#include "chain/consensus/sdbft/limits.h"
#include "chain/mempool/block_builder.h"
#include "chain/types/block.h"
#include "chain/types/transaction.h"
#include "content/store.h"
#include "node/agree/evidence_sender.h"
#include "node/agree/message_queue.h"
#include "node/chain/prepared_blocks.h"
#include "node/net/answer_budget.h"
#include "node/net/block_server.h"
#include "node/net/duty_queue.h"
#include "node/net/transaction_inbox.h"
#include "p2p/gossip/tx_relay.h"
#include "p2p/messages/messages.h"
#include "p2p/messages/registry.h"
#include "p2p/peer_session.h"
#include "p2p/sync/range_planner.h"
#include "p2p/transport/message_assembler.h"
#include "p2p/transport/send_queue.h"
#include "rpc/upload_places.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;
namespace transport = p2p::transport;

// A block that the builder may make is one that everybody takes; so is the largest transaction.
static_assert(chain::mempool::kMaxBlockTransactionBytes < types::kMaxBlockBytes);
static_assert(types::kMaxTransactionBytes <= p2p::gossip::kMaxTransactionsBytes &&
              p2p::gossip::kMaxTransactionsBytes <= messages::rule_of(messages::Type::transactions).max_bytes &&
              p2p::gossip::kMaxTransactionsBytes <= kMaxInboxBytes);
static_assert(messages::kMaxRangeBlocks <= sdbft::kMaxBlocksPerRange &&
              p2p::sync::kMaxSliceBlocks <= messages::kMaxRangeBlocks);

// Every message fits the queue of its class on the way out, and what one connection may leave unfinished on the way in.
constexpr bool every_message_fits() {
    for (const auto& rule : messages::kRules)
        if (rule.max_bytes > transport::kMaxQueuedBytes[static_cast<std::size_t>(rule.traffic)] ||
            rule.max_bytes > transport::kUnfinishedBytes)
            return false;
    return true;
}
static_assert(every_message_fits());

// What a peer may send, consensus has a place for: two of the largest proposals of one peer, several peers' at once.
static_assert(2 * messages::kMaxConsensusMessage <= kMaxPeerQueueBytes && 8 * kMaxPeerQueueBytes <= kMaxQueueBytes);
static_assert(messages::kMaxConsensusMessage <= sdbft::kMaxMessageBytes);

// Blocks that consensus still holds, with their siblings, have their prepared states.
static_assert(sdbft::kMaxBlocksKept <= kMaxPreparedBlocks);

// A peer has as many questions in the queue of served ones as it may have open, and many peers have theirs.
static_assert(p2p::kMaxServedPerPeer <= kMaxServedJobsPerPeer && 8 * kMaxServedJobsPerPeer <= kMaxServedJobs);
static_assert(kMaxServedRangeBytes + types::kMaxBlockBytes <= messages::kMaxRangeMessage);
// Strangers' unread answers leave room for the committee's; the largest answer fits what one peer may hold of them.
static_assert(kMaxStrangersAnswerBytes + 2 * messages::kMaxRangeMessage <= kMaxAnswerBytes &&
              8 * kMaxPeerAnswerBytes <= kMaxStrangersAnswerBytes &&
              messages::kMaxRangeMessage <= kMaxStrangersAnswerBytes);

// The HTTP server says which upload has a place, and the store takes them all.
static_assert(rpc::most_uploads(rpc::UploadLimits{}.places) <= content::kMaxUploads);

}  // namespace
}  // namespace quern::node
