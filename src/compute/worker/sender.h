// Signs and sends a worker's native transactions, one at a time per purpose. A purpose ("bid/3.0") is not sent again
// while its transaction waits, and after a failure only some blocks later. What is on its way is on disk before it
// leaves: a worker that is killed, or whose node's answer got lost, sends the same transaction again and never a second
// one for the same purpose. What it may cost is bounded (spending.h). Used by one thread.
//
//   sent.rlp = [[[purpose, [hash, ...], newest transaction's envelope, done, height, raised at], ...]]
#pragma once

#include <functional>
#include <map>
#include <string>

#include "chain/types/abi.h"
#include "chain/types/transaction.h"
#include "compute/worker/decide.h"
#include "compute/worker/node_view.h"
#include "compute/worker/spending.h"
#include "crypto/signature.h"
#include "crypto/vrf.h"

namespace quern::compute::worker {

inline constexpr std::uint64_t kFeeHeadroom = 2;  // fee cap = this x the node's gas price
// The most per gas that is offered when gas costs so much.
using FeeCap = std::function<Expected<Uint256>(const Uint256& price)>;
// A native transaction of `from` as the node advises it now: its next nonce, gas over the estimate, the advised tip;
// not signed. Errors: spending.gas_too_high, abi.*; those of `fee_cap` and of the node (one that would fail:
// node.rpc_error).
[[nodiscard]] Expected<chain::types::Transaction> compose_native(NodeView& node, const chain::types::Address& from,
                                                                 std::uint64_t chain_id, chain::types::NativeKind kind,
                                                                 const Bytes& payload, const FeeCap& fee_cap);

class Sender {
public:
    // `file` keeps what is on its way; it need not exist yet. `node` must outlive the sender. Errors: fs.*, rlp.*, tx.*
    // (a damaged file).
    [[nodiscard]] static Expected<Sender> open(NodeView& node, crypto::PrivateKey key, std::uint64_t chain_id,
                                               Spending spending, std::string file);

    [[nodiscard]] const chain::types::Address& address() const { return address_; }

    // What only the owner of the account's key can tell of a message: whether it is drawn as a watcher. The key stays
    // here.
    [[nodiscard]] crypto::PublicKey public_key() const { return crypto::derive_public(key_); }
    [[nodiscard]] crypto::VrfResult prove(const Hash32& message) const {
        return crypto::vrf_prove(key_, message.view());
    }

    // Looks after what was sent; call once per new block.
    void refresh(std::uint64_t height);

    // refused: the node says that it would fail now, or limits forbid it (logged; tried again kRetryBlocks later, or
    // with the next call for an attempt of each block).
    enum class Outcome { sent, waiting, refused };
    Outcome send(const Attempt& attempt);
    // The first attempt that is not refused.
    void send(const Send& send);

private:
    struct Pending {
        std::vector<Hash32> hashes;  // the transaction, and what replaced it at higher fees; one at most is included
        bool done = false;
        bool ran_out = false;              // of gas, in a block: tried again with the next look
        bool known = false;                // the node has said that it has the newest
        std::uint64_t height = 0;          // sent at, or failed at
        std::uint64_t raised_at = 0;       // fees last raised at
        chain::types::Transaction newest;  // what was sent last
    };
    struct SavedPending {
        std::string purpose;
        std::vector<Hash32> hashes;
        Bytes newest;
        bool done = false;
        std::uint64_t height = 0;
        std::uint64_t raised_at = 0;
        QUERN_FIELDS(v("purpose", purpose), v("hashes", hashes), v("newest", newest), v("done", done),
                     v("height", height), v("raisedAt", raised_at))
    };
    struct Saved {
        std::vector<SavedPending> pending;
        QUERN_FIELDS(v("pending", pending))
    };

    Sender(NodeView& node, crypto::PrivateKey key, std::uint64_t chain_id, Spending spending, std::string file);
    [[nodiscard]] Status save() const;
    [[nodiscard]] Status load();
    [[nodiscard]] Status sign_and_send(const Attempt& attempt);
    // Signs the transaction, saves it as the newest of `entry`, and tells the node. Errors: fs.*; what the node
    // refuses. A node that does not answer may have it all the same: no error.
    [[nodiscard]] Status tell_node(Pending& entry, chain::types::Transaction tx);
    // Sends the newest again when the node does not have it. False: refused, and in no block.
    [[nodiscard]] bool repeat(Pending& entry);
    // Whether one of its transactions is in a block.
    [[nodiscard]] bool included(const std::string& purpose, Pending& entry);
    // Sends the same transaction at higher fees, when the node's price has outgrown them: else it would hold up all
    // that this account sends after it, for as long as somebody keeps the price up.
    [[nodiscard]] Status raise_fees(Pending& entry);
    // A limit of the worker's own; or what it means to do and the node does not take, as with an account that cannot
    // pay.
    void warn_of_limit(const Error& error);
    void warn_of_refusal(const std::string& purpose, const Error& error);

    NodeView* node_;
    crypto::PrivateKey key_;
    chain::types::Address address_;
    std::uint64_t chain_id_;
    Spending spending_;
    std::string file_;
    std::uint64_t warned_at_ = 0;          // height
    std::uint64_t refusal_warned_at_ = 0;  // height
    std::uint64_t height_ = 0;
    std::map<std::string, Pending> pending_;
};

}  // namespace quern::compute::worker
