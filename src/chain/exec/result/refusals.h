// Why a transaction is not taken, as wallets and libraries know it: geth's phrases, which clients match on, each with
// the band that decides relay, retry and blame. The one place for these texts; other refusals have dotted names
// ("task.not_open"). Used by execution, the mempool and the RPC's documentation. Plain constants.
#pragma once

#include "chain/exec/result/result_code.h"

namespace quern::chain::exec {

struct Refusal {
    Band band;
    std::string_view text;
};

// In this state, or beside what waits already.
inline constexpr Refusal kAlreadyKnown{Band::refused, "already known"};
inline constexpr Refusal kNonceTooLow{Band::refused, "nonce too low"};
inline constexpr Refusal kInsufficientFunds{Band::refused, "insufficient funds for gas * price + value"};
inline constexpr Refusal kReplacementUnderpriced{Band::refused, "replacement transaction underpriced"};
inline constexpr Refusal kSenderNoEoa{Band::refused, "sender not an eoa"};  // EIP-3607
// Not before the chain has learnt it.
inline constexpr Refusal kCreationNotActive{Band::refused, "contract creation is not active yet"};
// Not now.
inline constexpr Refusal kNonceTooHigh{Band::retry, "nonce too high"};
inline constexpr Refusal kAccountLimit{Band::retry, "account limit exceeded"};
inline constexpr Refusal kPoolFull{Band::retry, "txpool is full"};
inline constexpr Refusal kFeeTooLow{Band::retry, "max fee per gas less than block base fee"};
// Never.
inline constexpr Refusal kIntrinsicGas{Band::malformed, "intrinsic gas too low"};
inline constexpr Refusal kBlockGasLimit{Band::malformed, "exceeds block gas limit"};
inline constexpr Refusal kWrongChain{Band::malformed, "invalid chain id for signer"};
inline constexpr Refusal kTipAboveFee{Band::malformed, "max priority fee per gas higher than max fee per gas"};
inline constexpr Refusal kInvalidSender{Band::malformed, "invalid sender"};
inline constexpr Refusal kTypeNotSupported{Band::malformed, "transaction type not supported"};

inline constexpr Refusal kRefusals[] = {
    kAlreadyKnown, kNonceTooLow,       kInsufficientFunds, kReplacementUnderpriced,
    kSenderNoEoa,  kCreationNotActive, kNonceTooHigh,      kAccountLimit,
    kPoolFull,     kFeeTooLow,         kIntrinsicGas,      kBlockGasLimit,
    kWrongChain,   kTipAboveFee,       kInvalidSender,     kTypeNotSupported,
};

[[nodiscard]] inline Result refuse(const Refusal& refusal, std::string detail = {}) {
    return {refusal.band, refusal.text, std::move(detail)};
}
[[nodiscard]] inline bool is(const Result& result, const Refusal& refusal) { return result.name == refusal.text; }
// One of the above, and not what a native kind objects to.
[[nodiscard]] inline bool is_listed(const Result& result) {
    for (const auto& refusal : kRefusals)
        if (is(result, refusal)) return true;
    return false;
}

}  // namespace quern::chain::exec
