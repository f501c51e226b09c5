// The door for transactions from outside. Thread-safe.
#pragma once

#include <span>
#include <vector>

#include "chain/exec/result/refusals.h"
#include "chain/types/transaction.h"

namespace quern::chain::api {

// What became of one: queued when the band is ok; else the band alone decides. retry: not now (the pool is full, a
// nonce is too far ahead); refused: not in this state; malformed: never, and whoever handed it in is to blame. The
// names are those of chain/exec/result/refusals.h, which wallets match on, or dotted ones.
struct Submission {
    exec::Result result;
    Hash32 hash;  // of what was handed in, whatever it is
    explicit operator bool() const { return result.band == exec::Band::ok; }
};

class TxSubmitter {
public:
    virtual ~TxSubmitter() = default;
    // Checks and queues them, in this order and at the cost of one; what became of each. `source`: the peer that sent
    // them, or zeros for this node's own clients.
    [[nodiscard]] virtual std::vector<Submission> submit_all(std::span<const Bytes> encoded, const Bytes20& source) = 0;

    [[nodiscard]] Submission submit(BytesView encoded) {
        const Bytes one = to_bytes(encoded);
        return std::move(submit_all({&one, 1}, {}).front());
    }
};

}  // namespace quern::chain::api
