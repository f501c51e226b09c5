// quern-train's whole course: what is to be trained, its price, one question, the task, its end, the verified result;
// or the same without a chain. What ended it, the same call goes on. Used by quern_train.cpp. One thread.
#pragma once

#include <atomic>
#include <functional>

#include "compute/client/options.h"
#include "crypto/signature.h"

namespace quern::compute::client {

inline constexpr std::string_view kNoNode = "train.no_node";
inline constexpr std::string_view kDeclined = "train.declined";

using OpenKey = std::function<Expected<crypto::PrivateKey>()>;

// Events: price, uploading, sending, sent, submitted, state, progress, waiting, downloading, resumed, result.
// Errors beside those of its parts: train.no_node, train.wrong_chain, train.wrong_key (the job is another account's),
// train.other_job, train.no_budget, train.declined, train.data_changed, train.not_accepted (a block has the
// transaction, which failed: the fee is paid and no task made), train.task_unknown, train.task_expired,
// train.task_failed, train.task_cancelled (the detail says what was refunded), train.stopped.
[[nodiscard]] Status train(const TrainOptions& options, const OpenKey& open_key, const Console& console,
                           const std::atomic<bool>& stop);

}  // namespace quern::compute::client
