// The events of native changes: one ABI log from the reserved address of the group that changed, so that ordinary
// clients can follow the market with eth_getLogs. The first kIndexed fields are topics. Plain values.
#pragma once

#include "chain/types/native_objects.h"

namespace quern::chain::exec::events {

struct ValidatorCreated {  // staking
    static constexpr const char* kEvent = "ValidatorCreated";
    static constexpr std::size_t kIndexed = 2;
    types::Address validator;
    types::Address owner;
    Uint256 stake;
    QUERN_FIELDS(v("validator", validator), v("owner", owner), v("stake", stake))
};

struct Delegated {  // staking
    static constexpr const char* kEvent = "Delegated";
    static constexpr std::size_t kIndexed = 2;
    types::Address validator;
    types::Address delegator;
    Uint256 amount;
    QUERN_FIELDS(v("validator", validator), v("delegator", delegator), v("amount", amount))
};

struct Undelegated {  // staking
    static constexpr const char* kEvent = "Undelegated";
    static constexpr std::size_t kIndexed = 2;
    types::Address validator;
    types::Address delegator;
    Uint256 amount;
    std::uint64_t matures_at = 0;
    QUERN_FIELDS(v("validator", validator), v("delegator", delegator), v("amount", amount), v("maturesAt", matures_at))
};

struct StakeWithdrawn {  // staking
    static constexpr const char* kEvent = "StakeWithdrawn";
    static constexpr std::size_t kIndexed = 2;
    types::Address validator;
    types::Address delegator;
    Uint256 amount;   // paid
    Uint256 slashed;  // cut off for a conviction
    QUERN_FIELDS(v("validator", validator), v("delegator", delegator), v("amount", amount), v("slashed", slashed))
};

struct ValidatorConvicted {  // staking
    static constexpr const char* kEvent = "ValidatorConvicted";
    static constexpr std::size_t kIndexed = 2;
    types::Address validator;
    types::Address reporter;  // who is paid; zero: nobody
    std::uint64_t epoch = 0;
    Uint256 slashed;  // of the pool; what is unbonding is cut when it is withdrawn
    QUERN_FIELDS(v("validator", validator), v("reporter", reporter), v("epoch", epoch), v("slashed", slashed))
};

struct EvidenceRewarded {  // staking
    static constexpr const char* kEvent = "EvidenceRewarded";
    static constexpr std::size_t kIndexed = 1;
    types::Address reporter;
    Uint256 amount;  // paid: of what a conviction takes at once, and of each withdrawal that it cuts later
    QUERN_FIELDS(v("reporter", reporter), v("amount", amount))
};

struct EvidenceCommitted {  // staking
    static constexpr const char* kEvent = "EvidenceCommitted";
    static constexpr std::size_t kIndexed = 1;
    types::Address reporter;
    Hash32 commitment;
    Uint256 deposit;  // paid now: zero of one that replaces another
    QUERN_FIELDS(v("reporter", reporter), v("commitment", commitment), v("deposit", deposit))
};

struct EvidenceReleased {  // staking
    static constexpr const char* kEvent = "EvidenceReleased";
    static constexpr std::size_t kIndexed = 1;
    types::Address reporter;
    Uint256 deposit;  // paid back
    QUERN_FIELDS(v("reporter", reporter), v("deposit", deposit))
};

struct BondChanged {  // roles
    static constexpr const char* kEvent = "BondChanged";
    static constexpr std::size_t kIndexed = 1;
    types::Address account;
    types::Role role = types::Role::solver;
    Uint256 bonded;
    Uint256 unbonding;
    QUERN_FIELDS(v("account", account), v("role", role), v("bonded", bonded), v("unbonding", unbonding))
};

struct BondLocked {  // roles
    static constexpr const char* kEvent = "BondLocked";
    static constexpr std::size_t kIndexed = 2;
    types::Address account;
    std::uint64_t task = 0;
    types::Role role = types::Role::solver;
    Uint256 amount;
    Uint256 locked;  // of the bond, for all tasks, with it
    QUERN_FIELDS(v("account", account), v("task", task), v("role", role), v("amount", amount), v("locked", locked))
};

struct BondReleased {  // roles
    static constexpr const char* kEvent = "BondReleased";
    static constexpr std::size_t kIndexed = 2;
    types::Address account;
    std::uint64_t task = 0;
    types::Role role = types::Role::solver;
    Uint256 amount;
    Uint256 locked;  // still, for all tasks
    QUERN_FIELDS(v("account", account), v("task", task), v("role", role), v("amount", amount), v("locked", locked))
};

struct Slashed {  // roles
    static constexpr const char* kEvent = "Slashed";
    static constexpr std::size_t kIndexed = 2;
    types::Address account;
    std::uint64_t task = 0;
    types::Role role = types::Role::solver;
    Uint256 amount;  // of what is locked and of what is bonded
    std::string reason;
    QUERN_FIELDS(v("account", account), v("task", task), v("role", role), v("amount", amount), v("reason", reason))
};

struct CapacityDeclared {  // roles
    static constexpr const char* kEvent = "CapacityDeclared";
    static constexpr std::size_t kIndexed = 1;
    types::Address account;
    types::Role role = types::Role::verifier;
    types::Capacity capacity;
    QUERN_FIELDS(v("account", account), v("role", role), capacity.fields(v))
};

struct TaskSubmitted {  // tasks
    static constexpr const char* kEvent = "TaskSubmitted";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address submitter;
    Uint256 escrow;   // taken from the submitter ...
    Uint256 deposit;  // ... of which for its bytes
    QUERN_FIELDS(v("task", task), v("submitter", submitter), v("escrow", escrow), v("deposit", deposit))
};

struct TaskStateChanged {  // tasks
    static constexpr const char* kEvent = "TaskStateChanged";
    static constexpr std::size_t kIndexed = 1;
    std::uint64_t task = 0;
    types::TaskState from = types::TaskState::open;
    types::TaskState to = types::TaskState::open;
    std::string reason;
    std::uint64_t deadline = 0;  // market time; 0: none
    QUERN_FIELDS(v("task", task), v("from", from), v("to", to), v("reason", reason), v("deadline", deadline))
};

struct ClaimStateChanged {  // tasks
    static constexpr const char* kEvent = "ClaimStateChanged";
    static constexpr std::size_t kIndexed = 1;
    std::uint64_t task = 0;
    std::uint16_t seat = 0;
    std::uint32_t stretch = 0;
    std::uint32_t round = 0;
    types::ClaimState from = types::ClaimState::none;
    types::ClaimState to = types::ClaimState::none;
    std::string reason;
    std::uint64_t deadline = 0;  // market time; 0: none
    QUERN_FIELDS(v("task", task), v("seat", seat), v("stretch", stretch), v("round", round), v("from", from),
                 v("to", to), v("reason", reason), v("deadline", deadline))
};

struct LimitsFound {  // tasks
    static constexpr const char* kEvent = "LimitsFound";
    static constexpr std::size_t kIndexed = 1;
    std::uint64_t task = 0;
    Bytes limits;  // compute::tolerance::encode_limits
    QUERN_FIELDS(v("task", task), v("limits", limits))
};

struct TaskDeleted {  // tasks
    static constexpr const char* kEvent = "TaskDeleted";
    static constexpr std::size_t kIndexed = 1;
    std::uint64_t task = 0;
    QUERN_FIELDS(v("task", task))
};

struct BidPlaced {  // tasks
    static constexpr const char* kEvent = "BidPlaced";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address bidder;
    std::uint16_t seat = 0;
    Uint256 price;
    QUERN_FIELDS(v("task", task), v("bidder", bidder), v("seat", seat), v("price", price))
};

struct BidDisplaced {  // tasks
    static constexpr const char* kEvent = "BidDisplaced";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address bidder;
    types::Address by;  // who offered less
    QUERN_FIELDS(v("task", task), v("bidder", bidder), v("by", by))
};

struct SolverAssigned {  // tasks
    static constexpr const char* kEvent = "SolverAssigned";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address solver;
    Uint256 price;
    QUERN_FIELDS(v("task", task), v("solver", solver), v("price", price))
};

struct CheckpointPosted {  // tasks
    static constexpr const char* kEvent = "CheckpointPosted";
    static constexpr std::size_t kIndexed = 1;
    std::uint64_t task = 0;
    std::uint64_t step = 0;
    Hash32 state_root;
    std::uint32_t loss = 0;
    QUERN_FIELDS(v("task", task), v("step", step), v("stateRoot", state_root), v("loss", loss))
};

struct Paid {  // tasks
    static constexpr const char* kEvent = "Paid";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address to;
    Uint256 amount;
    std::string reason;
    QUERN_FIELDS(v("task", task), v("to", to), v("amount", amount), v("reason", reason))
};

struct VerifierDrawn {  // verification
    static constexpr const char* kEvent = "VerifierDrawn";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address verifier;
    std::uint32_t stretch = 0;
    QUERN_FIELDS(v("task", task), v("verifier", verifier), v("stretch", stretch))
};

struct CustodianDrawn {  // verification
    static constexpr const char* kEvent = "CustodianDrawn";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address custodian;
    std::uint32_t stretch = 0;
    std::uint8_t place = 0;  // the fragment that it keeps
    QUERN_FIELDS(v("task", task), v("custodian", custodian), v("stretch", stretch), v("place", place))
};

struct CustodyReceived {  // verification; of a verifier or a custodian
    static constexpr const char* kEvent = "CustodyReceived";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address from;
    std::uint32_t stretch = 0;
    bool data_ok = false;
    QUERN_FIELDS(v("task", task), v("from", from), v("stretch", stretch), v("dataOk", data_ok))
};

struct ProfilerDrawn {  // verification
    static constexpr const char* kEvent = "ProfilerDrawn";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address profiler;
    QUERN_FIELDS(v("task", task), v("profiler", profiler))
};

struct ProfileCommitted {  // verification
    static constexpr const char* kEvent = "ProfileCommitted";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address profiler;
    Hash32 commitment;
    QUERN_FIELDS(v("task", task), v("profiler", profiler), v("commitment", commitment))
};

struct ProfileRevealed {  // verification
    static constexpr const char* kEvent = "ProfileRevealed";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address profiler;
    Bytes measures;
    QUERN_FIELDS(v("task", task), v("profiler", profiler), v("measures", measures))
};

struct ReportCommitted {  // verification
    static constexpr const char* kEvent = "ReportCommitted";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address verifier;
    std::uint32_t stretch = 0;
    Hash32 commitment;
    QUERN_FIELDS(v("task", task), v("verifier", verifier), v("stretch", stretch), v("commitment", commitment))
};

struct ReportRevealed {  // verification
    static constexpr const char* kEvent = "ReportRevealed";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address verifier;
    std::uint32_t stretch = 0;
    bool pass = false;
    Hash32 rival_root;
    QUERN_FIELDS(v("task", task), v("verifier", verifier), v("stretch", stretch), v("pass", pass),
                 v("rivalRoot", rival_root))
};

struct WatchSealed {  // verification
    static constexpr const char* kEvent = "WatchSealed";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address watcher;
    std::uint32_t stretch = 0;
    std::uint8_t report = 0;
    Uint256 deposit;  // paid
    QUERN_FIELDS(v("task", task), v("watcher", watcher), v("stretch", stretch), v("report", report),
                 v("deposit", deposit))
};

struct ReportOpened {  // verification
    static constexpr const char* kEvent = "ReportOpened";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address verifier;
    std::uint32_t stretch = 0;
    types::ReportChoice choice = types::ReportChoice::sealed;
    Hash32 true_root;  // zero unless it was forced to tell another one
    QUERN_FIELDS(v("task", task), v("verifier", verifier), v("stretch", stretch), v("choice", choice),
                 v("trueRoot", true_root))
};

struct ErrorFound {  // verification
    static constexpr const char* kEvent = "ErrorFound";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address watcher;
    std::uint32_t stretch = 0;
    std::uint8_t report = 0;
    QUERN_FIELDS(v("task", task), v("watcher", watcher), v("stretch", stretch), v("report", report))
};

struct ChallengeCommitted {  // disputes
    static constexpr const char* kEvent = "ChallengeCommitted";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address challenger;
    std::uint32_t stretch = 0;
    Hash32 commitment;
    types::Role role = types::Role::whistleblower;  // of the bond that the stake is locked in
    Uint256 stake;
    Uint256 deposit;  // paid
    QUERN_FIELDS(v("task", task), v("challenger", challenger), v("stretch", stretch), v("commitment", commitment),
                 v("role", role), v("stake", stake), v("deposit", deposit))
};

struct ChallengeReleased {  // disputes
    static constexpr const char* kEvent = "ChallengeReleased";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address challenger;
    std::uint32_t stretch = 0;
    Hash32 commitment;
    QUERN_FIELDS(v("task", task), v("challenger", challenger), v("stretch", stretch), v("commitment", commitment))
};

struct DisputeOpened {  // disputes
    static constexpr const char* kEvent = "DisputeOpened";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t dispute = 0;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    std::uint32_t target = 0;
    types::Address defender;
    types::Address rival;
    QUERN_FIELDS(v("dispute", dispute), v("task", task), v("stretch", stretch), v("target", target),
                 v("defender", defender), v("rival", rival))
};

struct DisputeMoved {  // disputes
    static constexpr const char* kEvent = "DisputeMoved";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t dispute = 0;
    types::Address mover;
    std::uint8_t phase = 0;  // after the move
    std::uint64_t round = 0;
    QUERN_FIELDS(v("dispute", dispute), v("mover", mover), v("phase", phase), v("round", round))
};

struct DisputeClosed {  // disputes
    static constexpr const char* kEvent = "DisputeClosed";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t dispute = 0;
    std::uint64_t task = 0;
    types::DisputeWinner winner = types::DisputeWinner::none;
    std::string reason;
    QUERN_FIELDS(v("dispute", dispute), v("task", task), v("winner", winner), v("reason", reason))
};

struct DataChallenged {  // disputes
    static constexpr const char* kEvent = "DataChallenged";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address submitter;
    std::uint32_t slot = 0;
    std::uint64_t tile = 0;
    Uint256 prepaid;
    std::uint64_t until = 0;  // market time
    QUERN_FIELDS(v("task", task), v("submitter", submitter), v("slot", slot), v("tile", tile), v("prepaid", prepaid),
                 v("until", until))
};

struct DataAnswered {  // disputes
    static constexpr const char* kEvent = "DataAnswered";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    types::Address from;
    std::uint32_t slot = 0;
    std::uint64_t tile = 0;
    QUERN_FIELDS(v("task", task), v("from", from), v("slot", slot), v("tile", tile))
};

}  // namespace quern::chain::exec::events
