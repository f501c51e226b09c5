// The door for transactions from outside. Thread-safe.
#pragma once

#include "chain/types/transaction.h"

namespace quern::chain::api {

class TxSubmitter {
public:
    virtual ~TxSubmitter() = default;
    // Checks and queues; the hash on success. Errors carry the messages that wallets match on: "already known",
    // "nonce too low", "insufficient funds for gas * price + value", "replacement transaction underpriced",
    // "intrinsic gas too low", "exceeds block gas limit", "invalid sender", ...
    [[nodiscard]] virtual Expected<Hash32> submit(BytesView encoded) = 0;
};

}  // namespace quern::chain::api
