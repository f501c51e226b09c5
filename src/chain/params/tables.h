// The numbers of the chain as data, each declared once: what a genesis file may set (parameters), and what is the same
// on every chain (constants). From these lines come the structs and constants of params.h, reading, checking and
// writing a genesis file, and doc/parameters.md. Included by params.h; used through it and parameters.h.
#pragma once

// Parameters: X(type, member, name in the file, default, least, most, what it is). Amounts are grains.
// Limits are expressions of params.cpp: kAny is the type's largest value, bits(n) is 2^n - 1.
#define QUERN_BLOCK_PARAMETERS(X)                                                                                      \
    X(std::uint64_t, block_gas_limit, "gas_limit", 300'000'000, 30'000'000, 1'000'000'000'000,                         \
      "gas of a block: 14,285 transfers by default; what a block really holds its builder's time decides (chain.md)")  \
    X(Uint256, initial_base_fee, "base_fee", 1'000'000'000, 0, bits(96), "base fee of the first block, a unit of gas") \
    X(Uint256, min_base_fee, "min_base_fee", 1'000'000'000, 0, bits(96), "the base fee does not fall below this")      \
    X(std::uint64_t, min_block_ms, "min_block_ms", 200, 0, kAny, "from one block to the next, at least")               \
    X(std::uint64_t, max_idle_ms, "max_idle_ms", 1000, 1, kMaxWindowSeconds * 1000 / kShortestWindowIdles,             \
      "a block without transactions comes after this; a block is at most five of it in market time")                   \
    X(std::uint64_t, delta_ms, "delta_ms", 300, 1, 600'000,                                                            \
      "Δ: the bound on message delay that the timers of consensus assume")                                             \
    X(std::uint64_t, epoch_length, "epoch_length", 50, kMinEpochLength, bits64(32) + 1, "blocks of an epoch")

#define QUERN_MARKET_PARAMETERS(X)                                                                                    \
    X(Uint256, dispute_cost, "dispute_cost", kGrainsPerQrn / 100, 1, bits(96),                                        \
      "γ: worst on-chain cost of one honest dispute path")                                                            \
    X(std::uint64_t, solver_bond_gammas, "solver_bond_gammas", 1000, 1, 1'000'000,                                    \
      "a solver's lock is max(this x γ, 2 x reward at the price cap, what pays those who find it wrong)")             \
    X(std::uint64_t, bid_deposit_percent, "bid_deposit_percent", 10, 1, 100,                                          \
      "of what a winner must lock: locked with each bid, lost by one that wins and is not covered")                   \
    X(std::uint64_t, verifier_bond_fees, "verifier_bond_fees", 10, 1, 1'000'000,                                      \
      "a verifier's lock is max(this x its fee, verifier_bond_gammas x γ)")                                           \
    X(std::uint64_t, verifier_bond_gammas, "verifier_bond_gammas", 100, 0, 1'000'000, "see verifier_bond_fees")       \
    X(std::uint64_t, min_bond_gammas, "min_bond_gammas", 100, 0, 1'000'000,                                           \
      "a role's bond is at least this x γ, or nothing")                                                               \
    X(std::uint64_t, challenge_stake_gammas, "challenge_stake_gammas", 100, 1, 1'000'000,                             \
      "a challenge's stake is max(this x γ, challenge_stake_percent)")                                                \
    X(std::uint64_t, challenge_stake_percent, "challenge_stake_percent", 10, 10, 100,                                 \
      "of the lock that it is against, a solver's or a verifier's, whichever is larger")                              \
    X(std::uint64_t, dispute_clock_s, "dispute_clock_s", 600, 1, bits64(32) + 1,                                      \
      "chess clock of each side, beside the task's heartbeat_s")                                                      \
    X(std::uint64_t, unbonding_blocks, "unbonding_blocks", 640, 0, bits64(40) + 1,                                    \
      "from leaving a role's bond to the withdrawal")                                                                 \
    X(std::uint64_t, no_start_slash_percent, "no_start_slash_percent", 5, 0, 100,                                     \
      "of a solver's lock, when it lets its task down")                                                               \
    X(std::uint64_t, data_missing_slash_percent, "data_missing_slash_percent", 8, 0, 100,                             \
      "of a solver's lock, when those who were drawn say that its data cannot be had; all of it is burned")           \
    X(std::uint64_t, no_reveal_slash_percent, "no_reveal_slash_percent", 10, 0, 100,                                  \
      "of a verifier's lock, when it is silent in one of its steps")                                                  \
    X(std::uint64_t, no_challenge_reveal_slash_percent, "no_challenge_reveal_slash_percent", 50, 0, 100,              \
      "of a challenger's stake: it can reveal in the next block, and an unrevealed commitment takes others' places")  \
    X(std::uint64_t, burn_percent, "burn_percent", 25, 25, 99,                                                        \
      "of a slash; a quarter at least, so that challenging oneself never pays")                                       \
    X(std::uint64_t, submitter_percent, "submitter_percent", 10, 0, 75, "of a slash, to the task's submitter")        \
    X(std::uint64_t, bounty_cost_percent, "bounty_cost_percent", 150, 0, 1'000,                                       \
      "a bounty is this part of its receiver's proven cost, or bounty_slash_percent of the slash if that is more")    \
    X(std::uint64_t, bounty_slash_percent, "bounty_slash_percent", 30, 0, 75,                                         \
      "see bounty_cost_percent; as far as what comes before it leaves so much")                                       \
    X(std::uint64_t, max_rounds, "max_rounds", 4, 0, 64, "reopenings before a task fails")                            \
    X(std::uint64_t, max_bids, "max_bids", 64, 1, 256, "bids of a task")                                              \
    X(std::uint64_t, max_disputes, "max_disputes", 64, 1, 64,                                                         \
      "challenges of a round against the history, and as many against reports")                                       \
    X(std::uint64_t, max_commitments, "max_commitments", 256, 1, 256,                                                 \
      "challenges of a task that are committed and not revealed")                                                     \
    X(std::uint64_t, min_verifiers, "min_verifiers", 1, 1, kMaxVerifiers,                                             \
      "verifiers of a task at least; three but on a devnet")                                                          \
    X(std::uint64_t, max_verifiers, "max_verifiers", kMaxVerifiers, 1, kMaxVerifiers, "verifiers of a task")          \
    X(std::uint64_t, min_window_s, "min_window_s", 60, 1, kMaxWindowSeconds,                                          \
      "a task's waiting states last so long at least; sixty times max_idle_ms, so that twelve blocks come in it")     \
    X(std::uint64_t, max_window_s, "max_window_s", 1'000'000, 1, kMaxWindowSeconds, "and so long at most")            \
    X(std::uint64_t, retention_s, "retention_s", 100'000, 0, bits64(40) + 1,                                          \
      "final tasks and their disputes stay so long")                                                                  \
    X(std::uint64_t, held_percent, "held_percent", 20, 0, 50,                                                         \
      "of the reward for a task's last stretch: held back until the result is accepted, or its retention is over")    \
    X(std::uint64_t, custodians, "custodians", 0, 0, types::kMaxCustodians,                                           \
      "drawn for each claim to keep fragments of its history, of which a third give the whole; three at least, or 0") \
    X(std::uint64_t, custodian_bond_percent, "custodian_bond_percent", 10, 0, 100,                                    \
      "of a verifier's lock: a custodian's, until its receipt is there")                                              \
    X(Uint256, custody_fee_per_mib, "custody_fee_per_mib", 100'000'000'000'000, 0, bits(96),                          \
      "to a custodian for each MiB, rounded up, that it keeps of a stretch")                                          \
    X(std::uint64_t, forced_error_inverse, "forced_error_inverse", 200, 0, bits64(32) + 1,                            \
      "1 / p_f: one report in so many must tell an altered result; 0: none has to, and nobody watches")               \
    X(Uint256, storage_deposit_per_byte, "storage_deposit_per_byte", 100'000'000'000, 0, bits(96),                    \
      "of what a task, or a challenge, may keep in the state; back when that is deleted")

#define QUERN_STAKING_PARAMETERS(X)                                                                                    \
    X(std::uint64_t, max_validators, "max_validators", types::kMaxCommittee, 1, types::kMaxCommittee,                  \
      "members of a committee, and validators of a genesis")                                                           \
    X(Uint256, min_validator_stake, "min_validator_stake", kGrainsPerQrn, 1, bits(160),                                \
      "a pool with less is in no committee; validators of a genesis need it too")                                      \
    X(std::uint64_t, unbonding_blocks, "unbonding_blocks", 1'814'400, 1, bits64(40) + 1,                               \
      "from the end of the last epoch that the stake counted in; the evidence window is as long (21 days of seconds)") \
    X(std::uint64_t, double_sign_slash_per_mille, "double_sign_slash_per_mille", 50, 1, 1'000,                         \
      "before the part that grows with the share convicted together")                                                  \
    X(std::uint64_t, reporter_percent, "reporter_percent", 5, 0, 25,                                                   \
      "of a slash, to who had committed to the evidence: little, for culprits report themselves")                      \
    X(std::uint64_t, max_unbonding_entries, "max_unbonding_entries", 7, 1, 64, "per delegator and validator")

// Constants of the rules: X(type, name, value, what it is). A change is a change of the rules, for every chain.
#define QUERN_CONSTANTS(X)                                                                                           \
    X(std::uint64_t, kGrainsPerQrn, 1'000'000'000'000'000'000ULL, "grains of a QRN")                                 \
    X(std::uint64_t, kBeaconWindow, 512, "heights whose beacons are kept in state")                                  \
    X(std::uint64_t, kBeaconDelay, 8, "d: draws that are anchored at height h use beacon(h + d)")                    \
    X(std::uint64_t, kMaxFutureMs, 2'000, "a block's timestamp against the local clock")                             \
    X(std::uint64_t, kMinEpochLength, 4, "blocks")                                                                   \
    X(std::uint64_t, kMinUnbondingEpochs, 3, "whoever signs for an epoch must still have something to lose later")   \
    X(std::uint64_t, kElasticity, 2, "EIP-1559: the gas target is the limit divided by this")                        \
    X(std::uint64_t, kBaseFeeChangeDivisor, 8, "EIP-1559: the base fee changes by at most 1 / this a block")         \
    X(std::uint64_t, kNativeGasPerObject, 5'000, "gas for each native object that a transaction changes")            \
    X(std::uint64_t, kNativeGasPerWrittenByte, 2, "and for each byte of it")                                         \
    X(std::uint64_t, kNativeGasPerStoredByte, 32,                                                                    \
      "and for each byte by which it grows: twice a byte of calldata, which is read once and not kept in the state") \
    X(std::uint64_t, kNativeGasPerAccount, 5'000, "gas for each account that a native kind changes")                 \
    X(std::uint64_t, kNativeGasPerRead, 500, "gas for each native object that a transaction looks at")               \
    X(std::uint64_t, kNativeGasPerReadByte, 1, "and for each byte of it")                                            \
    X(std::uint64_t, kLogGas, 375, "gas for each event, as on Ethereum")                                             \
    X(std::uint64_t, kLogTopicGas, 375, "for each of its topics")                                                    \
    X(std::uint64_t, kLogByteGas, 8, "and for each byte of its data")                                                \
    X(std::uint64_t, kCapacityBlocks, 32, "from one declaration of a capacity to the next")                          \
    X(std::uint64_t, kDefaultMemoryMib, 4'096, "what a task may need that claims memory of 0")                       \
    X(std::uint32_t, kMaxVerifiers, 16, "of a task")                                                                 \
    X(std::uint64_t, kMaxWindowSeconds, 1U << 20, "of a task's waiting states")                                      \
    X(std::uint64_t, kMaxBlockIdles, 5, "a block moves market time by at most so many times max_idle_ms")            \
    X(std::uint64_t, kShortestWindowBlocks, 12, "blocks that come in the shortest window whatever their timestamps") \
    X(std::uint64_t, kShortestWindowIdles, 60, "min_window_s in max_idle_ms at least: the product of the two")       \
    X(unsigned, kMaxPriceBits, 96, "of a price cap, a bid and a tax: keeps every sum below 2^256")                   \
    X(std::uint64_t, kVerifierFeeNumerator, 6, "a verifier earns 6/5 of what its samples cost at the price cap")     \
    X(std::uint64_t, kVerifierFeeDenominator, 5, "see kVerifierFeeNumerator")                                        \
    X(std::uint64_t, kSolverRewardMultiple, 2, "a solver's lock is at least so many rewards at the price cap")       \
    X(std::uint64_t, kNearTiePercent, 1, "bids within this of the lowest are as good")                               \
    X(std::uint64_t, kMaxDraws, 2, "draws of verifiers of a claim, and of its custodians")                           \
    X(std::uint32_t, kWatchersPerReport, 2, "watchers of a verifier's report in the mean")                           \
    X(std::uint8_t, kMaxSeals, 8, "verdicts that watchers seal about a report, at most")                             \
    X(std::uint32_t, kMaxQuestions, 100,                                                                             \
      "questions for pieces of a task's last state: 100 find a hundredth that is missing in 63 cases of 100")        \
    X(std::size_t, kMaxSwept, 16,                                                                                    \
      "objects that one transaction closes, drops or erases of those that a claim has many of; ticks go on")         \
    X(std::uint64_t, kLeastVerifiers, 3, "min_verifiers at least, but on a devnet")                                  \
    X(std::uint64_t, kLeastCustodians, 3, "custodians at least, where there are some")                               \
    X(std::uint64_t, kUsualCustodians, 12, "custodians of a network that quern-genesis makes, but of a devnet")      \
    X(std::uint64_t, kDrawReach, 520, "blocks from a draw's anchor to the draw at most: the beacons' window and d")  \
    X(std::size_t, kMaxDrawTries, 256, "bonds that a draw looks at")                                                 \
    X(std::size_t, kMaxPassedOver, 16,                                                                               \
      "of these, whose bond answers elsewhere: rather than go deeper a draw waits for another beacon")               \
    X(std::uint32_t, kDrawFanout, 16, "entries of a node of a table of draws")                                       \
    X(std::uint8_t, kDrawLevels, 6, "of a table of draws: 2^24 places")                                              \
    X(std::uint64_t, kMaxGamesCounted, 32, "games of a party: one that begins has its clock so many times at most")  \
    X(std::size_t, kMaxRoleUnbondings, 16, "entries of a role's unbonding queue")                                    \
    X(std::uint64_t, kShareUnit, 1'000'000'000'000'000'000ULL, "of correlations and of shares of a committee")       \
    X(std::uint64_t, kCorrelationFactor, 3, "a third of the weight, which is what a fork needs, loses all")          \
    X(std::size_t, kMaxConvictions, 1'000, "of an evidence window that are added up")                                \
    X(std::size_t, kMaxForgottenConvictions, 128, "in one block: no epoch has more members")                         \
    X(std::size_t, kMaxEvidenceBytes, 512, "real ones have about 300")                                               \
    X(std::uint64_t, kEvidenceCommitBlocks, 8,                                                                       \
      "age of a commitment that is paid: who copies the evidence would have to keep it out of so many blocks in a "  \
      "row")
