// Signs and sends a worker's native transactions, one at a time per purpose. A purpose ("bid/3") is not sent again
// while its transaction waits, and after a failure only some blocks later. What it may cost is bounded (spending.h);
// else nothing is kept on disk: after a restart the chain's state tells what is still to do. Used by one thread.
#pragma once

#include <map>
#include <string>

#include "chain/types/abi.h"
#include "chain/types/transaction.h"
#include "compute/worker/node_view.h"
#include "compute/worker/spending.h"
#include "crypto/signature.h"

namespace quern::compute::worker {

class Sender {
public:
    // `node` must outlive the sender.
    Sender(NodeView& node, crypto::PrivateKey key, std::uint64_t chain_id, Spending spending);

    [[nodiscard]] const chain::types::Address& address() const { return address_; }

    // Looks after what was sent; call once per new block.
    void refresh(std::uint64_t height);

    // Whether send() would answer `waiting`.
    [[nodiscard]] bool is_pending(const std::string& purpose) const { return pending_.contains(purpose); }

    enum class Outcome { sent, waiting, refused };
    enum class Retry : bool { later, next_block };  // after a refusal: kRetryBlocks later, or with the next call
    // refused: the node says that it would fail now (logged; tried again kRetryBlocks later).
    template <chain::types::Record Payload>
    Outcome send(const std::string& purpose, chain::types::NativeKind kind, const Payload& payload,
                 Retry retry = Retry::later) {
        return send_encoded(purpose, kind, chain::types::encode_record(payload), retry);
    }

private:
    struct Pending {
        std::vector<Hash32> hashes;  // the transaction, and what replaced it at higher fees; one at most is included
        bool done = false;
        std::uint64_t height = 0;          // sent at, or failed at
        std::uint64_t raised_at = 0;       // fees last raised at
        chain::types::Transaction newest;  // what was sent last
    };
    Outcome send_encoded(const std::string& purpose, chain::types::NativeKind kind, const Bytes& payload, Retry retry);
    [[nodiscard]] Expected<Pending> sign_and_send(chain::types::NativeKind kind, const Bytes& payload);
    // Sends the same transaction at higher fees, when the node's price has outgrown them: else it would hold up all
    // that this account sends after it, for as long as somebody keeps the price up.
    [[nodiscard]] Status raise_fees(Pending& entry);

    void warn_of_limit(const Error& error);

    NodeView& node_;
    crypto::PrivateKey key_;
    chain::types::Address address_;
    std::uint64_t chain_id_;
    Spending spending_;
    std::uint64_t warned_at_ = 0;  // height
    std::uint64_t height_ = 0;
    std::map<std::string, Pending> pending_;
};

}  // namespace quern::compute::worker
