// A report of evidence that is paid for: its commitment first, and the evidence once that is old enough. Used by
// quern-cli; signs nothing. Belongs to the thread that calls.
#pragma once

#include <functional>
#include <string>

#include "rpc/error.h"

namespace quern::rpc {

inline constexpr int kMaxReportWaits = 600;

struct EvidenceReport {
    std::string commitment;  // signed transactions, hex
    std::string evidence;
    std::uint64_t blocks = 0;  // from the commitment's block to the evidence's
};
// As Client::call.
using Call = std::function<Expected<Result>(std::string_view method, json::Value params)>;

// The hash of the evidence's transaction, which the node has taken. What was begun before goes on: a commitment that
// the node knows is not sent again. `pause` is called between two questions, kMaxReportWaits times for each of the two
// waits at most. Errors: evidence.refused (by the node, for what the detail says), evidence.not_old_enough (after these
// waits), those of `call`, hex.*, json.*, value.*.
[[nodiscard]] Expected<std::string> report_evidence(const Call& call, const EvidenceReport& report,
                                                    const std::function<void()>& pause);

}  // namespace quern::rpc
