// The filter of eth_getLogs and of the logs subscription: addresses and topics by position, as geth reads them. Pure;
// thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "rpc/methods/eth_json.h"

namespace quern::rpc::methods {

struct LogFilter {
    std::vector<chain::types::Address> addresses;  // empty: any
    std::vector<std::vector<Hash32>> topics;       // by position; an empty list: any
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
