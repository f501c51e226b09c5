// The filter of eth_getLogs and of the logs subscription: addresses and topics by position, as geth reads them. Pure;
// thread-safe.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "rpc/methods/eth_json.h"

namespace quern::rpc::methods {

// The bits of a value in a bloom filter, found once: looking them up costs no hash.
using BloomBits = std::array<std::uint16_t, 3>;

struct LogFilter {
    // Ascending; empty: any.
    template <class Value>
    struct Alternatives {
        std::vector<Value> values;
        std::vector<BloomBits> bits;
    };
    Alternatives<chain::types::Address> addresses;
    std::vector<Alternatives<Hash32>> topics;  // by position

    // What it takes in memory.
    [[nodiscard]] std::size_t bytes() const;
};

// From the members address and topics of an object. Errors: value.*.
[[nodiscard]] Expected<LogFilter> read_log_filter(const json::Value& object);
[[nodiscard]] bool matches(const LogFilter& filter, const chain::types::Log& log);
// Whether a block with this bloom may hold a matching log.
[[nodiscard]] bool may_match(const LogFilter& filter, const chain::types::Bloom& bloom);
// Visits the matching logs of a block in order until `visit` says false; says whether it never did.
bool visit_logs(const chain::api::BlockView& view, const std::vector<chain::types::Receipt>& receipts,
                const LogFilter& filter, const std::function<bool(const chain::types::Log&, const LogPlace&)>& visit);

}  // namespace quern::rpc::methods
