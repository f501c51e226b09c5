// Names of errors of this folder that others tell apart: clients know them by other words, or more than one place
// decides by them. Plain constants.
#pragma once

#include <string_view>

namespace quern::chain::types {

inline constexpr std::string_view kBlobUnsupported = "tx.blob_unsupported";
inline constexpr std::string_view kUnknownType = "tx.unknown_type";
inline constexpr std::string_view kInvalidSignature = "tx.invalid_signature";
inline constexpr std::string_view kWrongChainId = "tx.wrong_chain_id";
inline constexpr std::string_view kPriorityFeeAboveMaxFee = "tx.priority_fee_above_max_fee";

}  // namespace quern::chain::types
