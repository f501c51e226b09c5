// Signs and sends a worker's native transactions, one at a time per purpose. A purpose ("bid/3") is not sent again
// while its transaction waits, and after a failure only some blocks later. Keeps nothing on disk: after a restart the
// chain's state tells what is still to do. Used by one thread.
#pragma once

#include <map>
#include <string>

#include "chain/types/abi.h"
#include "chain/types/transaction.h"
#include "compute/worker/node_client.h"
#include "crypto/signature.h"

namespace quern::compute::worker {

class Sender {
public:
    // `node` must outlive the sender.
    Sender(NodeClient& node, crypto::PrivateKey key, std::uint64_t chain_id);

    [[nodiscard]] const chain::types::Address& address() const { return address_; }

    // Looks after what was sent; call once per new block.
    void refresh(std::uint64_t height);

    enum class Outcome { sent, waiting, refused };
    // refused: the node says that it would fail now (logged; tried again kRetryBlocks later).
    template <chain::types::Record Payload>
    Outcome send(const std::string& purpose, chain::types::NativeKind kind, const Payload& payload) {
        return send_encoded(purpose, kind, chain::types::encode_record(payload));
    }

private:
    struct Pending {
        Hash32 hash;
        bool done = false;
        std::uint64_t height = 0;  // sent at, or failed at
    };
    Outcome send_encoded(const std::string& purpose, chain::types::NativeKind kind, const Bytes& payload);
    [[nodiscard]] Expected<Hash32> sign_and_send(chain::types::NativeKind kind, const Bytes& payload);

    NodeClient& node_;
    crypto::PrivateKey key_;
    chain::types::Address address_;
    std::uint64_t chain_id_;
    std::uint64_t height_ = 0;
    std::map<std::string, Pending> pending_;
};

}  // namespace quern::compute::worker
