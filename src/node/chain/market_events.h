// The events of market and staking, read back out of logs: which one it is, and what it names. Used by the index of
// what concerns whom, and by those who tell people. Pure; thread-safe.
#pragma once

#include <variant>

#include "chain/api/ledger.h"
#include "chain/exec/handlers/events.h"
#include "chain/types/abi.h"
#include "chain/types/post_event.h"
#include "chain/types/probe_event.h"

namespace quern::node {

namespace events = chain::exec::events;

using MarketEvent =
    std::variant<events::ValidatorCreated, events::Delegated, events::Undelegated, events::StakeWithdrawn,
                 events::ValidatorConvicted, events::EvidenceRewarded, events::EvidenceCommitted,
                 events::EvidenceReleased, events::BondChanged, events::BondLocked, events::BondReleased,
                 events::Slashed, events::CapacityDeclared, events::TaskSubmitted, events::TaskStateChanged,
                 events::ClaimStateChanged, events::LimitsFound, events::TaskDeleted, events::BidPlaced,
                 events::BidDisplaced, events::SolverAssigned, events::CheckpointPosted, events::Paid,
                 events::VerifierDrawn, events::CustodianDrawn, events::CustodyReceived, events::ProfilerDrawn,
                 events::ProfileCommitted, events::ProfileRevealed, events::ReportCommitted, events::ReportRevealed,
                 events::WatchSealed, events::ReportOpened, events::ErrorFound, chain::types::ProbesRevealed,
                 events::ChallengeCommitted, events::ChallengeReleased, events::DisputeOpened, events::DisputeMoved,
                 chain::types::DisputePosted, events::DisputeClosed, events::DataChallenged, events::DataAnswered>;

// The event of a reserved address' log.
[[nodiscard]] std::optional<MarketEvent> read_market_event(const chain::types::Log& log);
[[nodiscard]] std::optional<std::uint64_t> task_of(const MarketEvent& event);
[[nodiscard]] std::optional<std::uint64_t> dispute_of(const MarketEvent& event);
// Whose money it moves, as far as it says so.
[[nodiscard]] std::optional<chain::types::Address> account_of(const MarketEvent& event);
[[nodiscard]] chain::api::ToldEvent tell(const MarketEvent& event);

// Whether it is native, or a call to a reserved address.
[[nodiscard]] bool is_native_call(const chain::types::Transaction& tx);
// The native kind that it asks for, and its payload. Absent when it is none, or does not decode.
[[nodiscard]] std::optional<chain::types::abi::NativeCall> native_call_of(const chain::types::Transaction& tx);
// That its payload names; a tick names one or the other.
[[nodiscard]] std::optional<std::uint64_t> task_named_by(const chain::types::abi::NativeCall& call);
[[nodiscard]] std::optional<std::uint64_t> dispute_named_by(const chain::types::abi::NativeCall& call);

}  // namespace quern::node
