// Native objects: the market's state as records in the native trie (key = prefix byte || id). Written only by
// chain/exec; read by RPC, workers and wallets (as JSON through json_codec.h). Plain values. Semantics: doc/market.md.
#pragma once

#include <optional>
#include <string_view>

#include "chain/types/native_tx.h"

namespace quern::chain::types {

enum class ObjectPrefix : std::uint8_t {
    globals = 0x01,  // no id
    beacon = 0x02,   // height (8): recent beacons, the last kBeaconWindow
    epoch = 0x03,    // epoch (8): committee and seed; the present one, the next ones, and those of the evidence window
    validator = 0x10,            // address
    validator_rank = 0x11,       // 2^256 - 1 - stake (32) || address: CommitteeEntry of those who may be in a committee
    stake_delegation = 0x12,     // validator (20) || delegator (20)
    stake_unbonding = 0x13,      // validator (20) || delegator (20)
    conviction = 0x14,           // height (8) || validator (20)
    evidence_commitment = 0x15,  // address
    role_bond = 0x20,            // role (1) || address
    draw_node = 0x21,            // role (1) || level (1) || index (4)
    draw_table = 0x22,           // role (1)
    task = 0x30,                 // id (8)
    challenge = 0x31,            // the claim's id (18) || committer (20) || commitment (32)
    claim = 0x32,                // task (8) || seat (2) || stretch (4) || round (4)
    report = 0x33,               // the claim's id (18) || place (1)
    proof = 0x34,                // task (8) || seat (2): stays for ever
    custody = 0x36,              // the claim's id (18)
    dispute = 0x50,              // id (8)
    watch = 0x52,                // the claim's id (18) || draw (8) || report's place (1) || watcher (20)
};
// Of a key's object. Errors: object.reserved_prefix: of one to come (0x35 bids, 0x51 splits, 0x37 to 0x3f
// and 0x53 to 0x5f rounds, keys, vouchers); object.unknown_prefix.
[[nodiscard]] Expected<ObjectPrefix> prefix_of_key(BytesView key);

// Execution walks over these, and over no others: nodes keep them in memory (store/live_ranges.h).
inline constexpr ObjectPrefix kWalkedObjects[] = {ObjectPrefix::validator_rank, ObjectPrefix::conviction,
                                                  ObjectPrefix::challenge, ObjectPrefix::watch};

// id appended big endian where it is a number.
[[nodiscard]] Bytes object_key(ObjectPrefix prefix, BytesView id = {});
[[nodiscard]] Bytes object_key(ObjectPrefix prefix, std::uint64_t id);

struct Globals {
    std::uint64_t next_task = 1;
    std::uint64_t next_dispute = 1;
    Uint256 minted;  // at genesis
    Uint256 burned;
    Uint256 jackpot_vault;
    Uint256 treasury_vault;       // rest of slashes
    std::uint64_t market_ms = 0;  // market time: deadlines and clocks count it; each block advances it (market.md)
    Uint256 watch_bonds;          // what all whistleblowers have bonded: watchers are drawn by their parts of it
    QUERN_FIELDS(v("nextTask", next_task), v("nextDispute", next_dispute), v("minted", minted), v("burned", burned),
                 v("jackpotVault", jackpot_vault), v("treasuryVault", treasury_vault), v("marketMs", market_ms),
                 v("watchBonds", watch_bonds))
};

struct BeaconObject {
    Hash32 value;
    QUERN_FIELDS(v("value", value))
};

struct CommitteeEntry {
    Bytes public_key;  // 64 bytes
    Uint256 weight;
    QUERN_FIELDS(v("publicKey", public_key), v("weight", weight))
};
inline constexpr std::size_t kMaxCommittee = 100;  // members of an epoch
// Written with its members when they are frozen, after the last block of epoch e-2; the seed is zero until the block
// two thirds into epoch e-1 gives it.
struct EpochObject {
    std::vector<CommitteeEntry> members;  // ascending by address, at most kMaxCommittee
    Hash32 seed;
    QUERN_FIELDS(v("members", members), v("seed", seed))
};

// A pool of stake: what it holds belongs to its delegators by their shares, so that a slash hits all of them alike.
struct ValidatorObject {
    Address address;   // of the public key
    Bytes public_key;  // 64 bytes
    Uint256 stake;
    Uint256 shares;           // of all delegations
    Address owner;            // who created it
    bool tombstoned = false;  // convicted: never in a committee again
    // Of the conviction: what left the pool but counted in this epoch or later is slashed when it is withdrawn.
    std::uint64_t convicted_epoch = 0;
    std::uint64_t convicted_at = 0;  // height
    Uint256 correlation;             // second part of the slash, in 10^-18 of what the first one left
    Address reporter;                // who is paid of the slash; zero: nobody
    QUERN_FIELDS(v("address", address), v("publicKey", public_key), v("stake", stake), v("shares", shares),
                 v("owner", owner), v("tombstoned", tombstoned), v("convictedEpoch", convicted_epoch),
                 v("convictedAt", convicted_at), v("correlation", correlation), v("reporter", reporter))
};
struct StakeDelegation {
    Address validator;
    Address delegator;
    Uint256 shares;
    QUERN_FIELDS(v("validator", validator), v("delegator", delegator), v("shares", shares))
};
struct StakeUnbondingEntry {
    Uint256 amount;                // before a slash that is still due
    std::uint64_t epoch = 0;       // in which it left; it counts in committees up to epoch + 1
    std::uint64_t matures_at = 0;  // height
    bool slashed = false;          // left after the slash
    QUERN_FIELDS(v("amount", amount), v("epoch", epoch), v("maturesAt", matures_at), v("slashed", slashed))
};
struct StakeUnbonding {
    Address validator;
    Address delegator;
    std::vector<StakeUnbondingEntry> entries;  // by maturity
    QUERN_FIELDS(v("validator", validator), v("delegator", delegator), v("entries", entries))
};
struct Conviction {
    Address validator;
    std::uint64_t epoch = 0;   // of the offence
    std::uint64_t height = 0;  // of the conviction
    Uint256 share;             // of that epoch's committee, in 10^-18
    QUERN_FIELDS(v("validator", validator), v("epoch", epoch), v("height", height), v("share", share))
};
// That somebody had a certain evidence at a certain height, told without showing it.
struct EvidenceCommitment {
    Address reporter;
    Hash32 commitment;
    std::uint64_t height = 0;
    Uint256 deposit;  // for its bytes
    QUERN_FIELDS(v("reporter", reporter), v("commitment", commitment), v("height", height), v("deposit", deposit))
};

inline constexpr Role kRoles[] = {Role::solver, Role::verifier, Role::whistleblower, Role::custodian, Role::relay};
[[nodiscard]] const char* to_string(Role role);  // "solver"
[[nodiscard]] std::optional<Role> role_named(std::string_view name);
struct UnbondingEntry {
    Uint256 amount;
    std::uint64_t matures_at = 0;  // height
    QUERN_FIELDS(v("amount", amount), v("maturesAt", matures_at))
};
struct RoleBond {
    Address address;
    Role role = Role::solver;
    Uint256 bonded;  // free and locked together
    Uint256 locked;  // answers for open work: cannot be unbonded, and holds back what is unbonding where it is more
    std::vector<UnbondingEntry> unbonding;
    std::uint64_t faults = 0;  // times slashed
    std::uint64_t games = 0;   // that it plays, begun and not closed: they lengthen its clock in the next one
    std::uint32_t place = 0;   // in the role's table of draws, from 1 on; 0: in none
    Uint256 weight;            // that it has there from the next epoch on
    Capacity capacity;         // as declared at capacity_since
    Capacity former_capacity;  // before: for draws that are anchored before that
    std::uint64_t capacity_since = 0;
    std::uint64_t raised_at = 0;  // height at which `bonded` last grew: no watcher of what was reported before
    QUERN_FIELDS(v("address", address), v("role", role), v("bonded", bonded), v("locked", locked),
                 v("unbonding", unbonding), v("faults", faults), v("games", games), v("place", place),
                 v("weight", weight), v("capacity", capacity), v("formerCapacity", former_capacity),
                 v("capacitySince", capacity_since), v("raisedAt", raised_at))
};

// The bonds of a role that draws take from, as a tree of sums over their places: on level 0 a node's entries are bonds,
// above they are the sums of 16 nodes below. A node keeps what it was in the epochs that a draw may still ask for, so
// that a table stands still while an epoch lasts (exec/handlers/draw_table.h).
struct DrawVersion {
    std::uint64_t epoch = 0;         // from which on it is this; until the next version's
    std::vector<Uint256> weights;    // 16 at most
    std::vector<Address> addresses;  // of those weights on level 0, none above
    QUERN_FIELDS(v("epoch", epoch), v("weights", weights), v("addresses", addresses))
};
struct DrawNode {
    std::vector<DrawVersion> versions;  // ascending
    QUERN_FIELDS(v("versions", versions))
};
struct DrawTable {
    std::uint32_t bonds = 0;  // that have a place from the next epoch on: places 1 to this
    QUERN_FIELDS(v("bonds", bonds))
};

enum class TaskState : std::uint8_t {
    open = 1,      // bidding
    assigned = 2,  // a solver was chosen, must start
    running = 3,   // its claim goes through its own states
    settled = 4,
    failed = 5,   // reopened too often
    expired = 6,  // nobody bid, could verify it, or found its limits
    cancelled = 7,
    profiling = 8,  // its limits are measured, before it is open
};
[[nodiscard]] const char* to_string(TaskState state);
[[nodiscard]] constexpr bool is_final(TaskState s) { return s >= TaskState::settled && s <= TaskState::cancelled; }

enum class ClaimState : std::uint8_t {
    none = 0,  // there is no claim yet: of no stored one
    working = 1,
    proved = 2,      // waits for the beacon that draws the verifiers
    custody = 3,     // receipts
    committing = 4,  // verify_commit
    revealing = 5,   // verify_reveal
    challenge = 6,
    disputed = 7,  // waits for its open disputes
    opening = 8,   // report_open: verifiers show which of their two results they had to tell
    jackpots = 9,  // watch_reveal: watchers show that they had found the forced errors
    settled = 10,
    voided = 11,  // nothing is paid for it; the task is open again, or has failed
};
[[nodiscard]] const char* to_string(ClaimState state);  // "void" of voided
[[nodiscard]] constexpr bool is_final(ClaimState s) { return s >= ClaimState::settled; }

struct TaskBid {
    Address bidder;
    std::uint16_t seat = 0;
    Uint256 price;
    std::uint32_t speed_class = 0;
    std::uint32_t bandwidth_class = 0;
    std::uint64_t height = 0;
    Uint256 weight;   // the bidder's bond at that time: weighs near ties
    Uint256 deposit;  // part of the bidder's bond that is locked while the bid is in the list
    QUERN_FIELDS(v("bidder", bidder), v("seat", seat), v("price", price), v("speedClass", speed_class),
                 v("bandwidthClass", bandwidth_class), v("height", height), v("weight", weight), v("deposit", deposit))
};
struct Payment {
    Address to;
    Uint256 amount;
    std::string reason;  // "solver_reward", "verifier_fee", "refund", "held_reward", ... (doc/objects.md, "Reasons")
    QUERN_FIELDS(v("to", to), v("amount", amount), v("reason", reason))
};
struct SlashRecord {
    Address address;
    Role role = Role::solver;
    Uint256 amount;
    std::string reason;
    QUERN_FIELDS(v("address", address), v("role", role), v("amount", amount), v("reason", reason))
};

// Names a claim, and is its key: what one seat of a task has done in one stretch of its work, in one round. A task has
// one seat now (doc/formats.md); stretch i is its steps iT + 1 to (i + 1)T, the whole run where it names no tranche T.
struct ClaimId {
    std::uint64_t task = 0;
    std::uint16_t seat = 0;
    std::uint32_t stretch = 0;
    std::uint32_t round = 0;
    friend bool operator==(const ClaimId&, const ClaimId&) = default;
    QUERN_FIELDS(v("task", task), v("seat", seat), v("stretch", stretch), v("round", round))
};

// Which of a report's two results it told, as far as that is known (doc/market.md, "Forced errors").
enum class ReportChoice : std::uint8_t {
    sealed = 0,  // not opened
    truth = 1,   // the true one, as it had to
    forced = 2,  // the altered one, as it had to
};
[[nodiscard]] const char* to_string(ReportChoice choice);
// A verifier that was drawn for a claim, and what it has said of it; gone when others are drawn. Of what it revealed
// the roots: the hashes of its probe tiles are in the log of that block (ProbesRevealed).
struct VerifierReport {
    ClaimId claim;
    std::uint8_t place = 0;  // below Claim::drawn, in the order of the draw
    Address verifier;
    Uint256 locked;            // part of the verifier's bond that answers for this report
    std::uint8_t custody = 0;  // 0 none, 1 data_ok, 2 data_missing
    Hash32 commitment;
    std::uint64_t revealed_at = 0;  // height; 0: not revealed
    bool pass = false;
    Hash32 rival_root;
    std::uint8_t opened = 0;  // which of the two leaves
    Hash32 result_root;
    Hash32 other_leaf;
    std::uint64_t slashed_at = 0;  // market time; 0: it was not
    ReportChoice choice = ReportChoice::sealed;
    Hash32 true_root;        // of the true result, once a forced error is opened; else zero
    std::uint8_t seals = 0;  // watchers that have sealed a verdict about it ...
    std::uint8_t found = 0;  // ... and have shown that it is true_root
    Uint256 jackpot;         // what each of these was paid
    [[nodiscard]] bool revealed() const { return revealed_at != 0; }
    [[nodiscard]] bool slashed() const { return slashed_at != 0; }
    QUERN_FIELDS(v("claim", claim), v("place", place), v("verifier", verifier), v("locked", locked),
                 v("custody", custody), v("commitment", commitment), v("revealedAt", revealed_at), v("pass", pass),
                 v("rivalRoot", rival_root), v("opened", opened), v("resultRoot", result_root),
                 v("otherLeaf", other_leaf), v("slashedAt", slashed_at), v("choice", choice), v("trueRoot", true_root),
                 v("seals", seals), v("found", found), v("jackpot", jackpot))
};
// Neither out, for want of data, nor slashed.
[[nodiscard]] inline bool is_active(const VerifierReport& report) { return !report.slashed() && report.custody != 2; }
[[nodiscard]] inline bool stands_for(const VerifierReport& report) {
    return is_active(report) && report.revealed() && report.pass;
}

inline constexpr std::size_t kMaxCustodians = 48;  // of a claim
// Who was drawn to keep fragments of what a claim's history needs (compute/core/custody_manifest.h): the one at place j
// of the list keeps fragment j of each content. Doc/market.md, "Custodians".
struct Custodian {
    Address address;
    std::uint8_t receipt = 0;  // 0 none, 1 data_ok, 2 data_missing
    QUERN_FIELDS(v("address", address), v("receipt", receipt))
};
struct Custody {
    ClaimId claim;
    std::uint8_t draws = 0;             // of custodians
    std::uint64_t draw_at = 0;          // height that anchors another draw; 0: none is due
    Uint256 lock;                       // part of a custodian's bond that answers until its receipt is there
    std::vector<Custodian> custodians;  // of the last draw, in its order; kMaxCustodians at most
    QUERN_FIELDS(v("claim", claim), v("draws", draws), v("drawAt", draw_at), v("lock", lock),
                 v("custodians", custodians))
};

// What begins or ends with a window is market time (Globals::market_ms); what a draw refers to is a height.
struct Claim {
    ClaimId id;
    Address solver;
    Uint256 price;      // of the winning bid, grains per work unit
    Uint256 work;       // of the stretch's steps with their commitments
    Uint256 locked;     // part of the solver's bond that answers for it
    Hash32 start_root;  // of the state that the stretch begins with: leaf 0 of its history
    ClaimState state = ClaimState::none;
    std::uint64_t since = 0;     // market time at which `state` was entered
    std::uint64_t deadline = 0;  // market time from which a tick moves it on; 0 in final states
    std::string reason;          // why it is in this state, e.g. "solver_slashed"
    Hash32 seed_beacon;          // fixes the data order; the task's
    std::uint64_t step = 0;      // last heartbeat, of the plan's steps; at first the last step before the stretch
    Hash32 checkpoint_root;
    Hash32 checkpoint_content;
    std::uint32_t first_loss = 0;  // f32 bits at the first heartbeat
    std::uint32_t loss = 0;        // at the last heartbeat or the proof
    Hash32 history_root;
    Hash32 history_content;
    Hash32 custody_content;              // compute::core::CustodyManifest; zero: there are no custodians
    Hash32 claimed_content;              // in tolerance mode what the programs read as the last data tensor; else zero
    std::vector<std::uint64_t> largest;  // and segments that move most, ascending: each verifier replays them
    Hash32 final_root;
    std::uint64_t proved_since = 0;     // market time of the proof, or of the redraw of its verifiers
    std::uint64_t draw_at = 0;          // height that anchors the draw of verifiers; 0: it pauses before that
    std::uint64_t draws = 0;            // draws of verifiers
    Hash32 verify_beacon;               // draws verifiers, segments and probes
    std::uint64_t reveal_at = 0;        // height that anchors the beacon which forces errors
    Hash32 forced_beacon;               // that beacon, once somebody has asked for it; else zero
    Uint256 watch_bonds;                // Globals::watch_bonds at that height
    std::uint64_t challenge_until = 0;  // challenges may be committed before this market time; 0: no window yet
    std::uint64_t challenge_hold = 0;   // an unrevealed commitment keeps it from settling before this market time
    std::uint64_t commitments = 0;      // challenges that are committed and not revealed
    std::uint64_t rivals = 0;           // revealed against the history: the n-th stakes n times as much
    std::uint64_t report_rivals = 0;    // the same against reports, on a ladder of their own
    // Of the verifiers that were drawn last: what the claim moves on by.
    std::uint8_t drawn = 0;               // their reports are objects, with places below this
    std::uint8_t received = 0;            // had the data ...
    std::uint8_t missing = 0;             // ... or lacked it, and are out
    std::uint8_t active = 0;              // neither out nor slashed
    std::uint8_t committed = 0;           // of the active
    std::uint8_t revealed = 0;            // of the active
    std::uint8_t passes = 0;              // of the revealed
    std::uint8_t opened = 0;              // of the passes: have shown their choice
    std::uint8_t awaited = 0;             // seals about forced errors that are not opened yet
    std::vector<std::uint64_t> disputes;  // all, in order
    std::uint32_t open_disputes = 0;
    // No history stands for it any more: a game or its data were lost, its solver said so, or an earlier claim fell.
    // The state is `disputed` until what is open about it is decided, then `voided`.
    bool voided = false;
    // Of a stretch that was settled before the task: what was paid and taken since the one before it was.
    std::vector<Payment> payments;
    std::vector<SlashRecord> slashes;
    QUERN_FIELDS(v("id", id), v("solver", solver), v("price", price), v("work", work), v("locked", locked),
                 v("startRoot", start_root), v("state", state), v("since", since), v("deadline", deadline),
                 v("reason", reason), v("seedBeacon", seed_beacon), v("step", step),
                 v("checkpointRoot", checkpoint_root), v("checkpointContent", checkpoint_content),
                 v("firstLoss", first_loss), v("loss", loss), v("historyRoot", history_root),
                 v("historyContent", history_content), v("custodyContent", custody_content),
                 v("claimedContent", claimed_content), v("largest", largest), v("finalRoot", final_root),
                 v("provedSince", proved_since), v("drawAt", draw_at), v("draws", draws),
                 v("verifyBeacon", verify_beacon), v("revealAt", reveal_at), v("forcedBeacon", forced_beacon),
                 v("watchBonds", watch_bonds), v("challengeUntil", challenge_until), v("challengeHold", challenge_hold),
                 v("commitments", commitments), v("rivals", rivals), v("reportRivals", report_rivals),
                 v("drawn", drawn), v("received", received), v("missing", missing), v("active", active),
                 v("committed", committed), v("revealed", revealed), v("passes", passes), v("opened", opened),
                 v("awaited", awaited), v("disputes", disputes), v("openDisputes", open_disputes), v("voided", voided),
                 v("payments", payments), v("slashes", slashes))
};
inline constexpr std::uint32_t kMaxUnsettled = 2;  // claims of a seat: one is worked on while the other is verified

// Who solves a task in this round, and how far its stretches are.
struct TaskSeat {
    Address solver;
    Uint256 price;                  // of the winning bid
    Uint256 locked;                 // part of the solver's bond that no claim has taken over yet
    std::uint64_t assigned_at = 0;  // height
    std::uint32_t stretches = 0;    // claims were made of those before this one, from the first unsettled one on
    QUERN_FIELDS(v("solver", solver), v("price", price), v("locked", locked), v("assignedAt", assigned_at),
                 v("stretches", stretches))
};

// A piece of a settled task's last state that its submitter has asked for and nobody has shown yet.
struct DataChallenge {
    std::uint32_t slot = 0;
    std::uint64_t tile = 0;   // modulo the slot's tiles
    Uint256 prepaid;          // to who answers; the submitter's again when nobody does
    std::uint64_t until = 0;  // market time from which a tick gives the held share to the submitter
    QUERN_FIELDS(v("slot", slot), v("tile", tile), v("prepaid", prepaid), v("until", until))
};

// What a profiler has measured: compute::tolerance::ProfileSummary, words of binary32.
struct ProfiledBounds {
    std::uint32_t l2 = 0, linf = 0, moments = 0, rest = 0, loose = 0;
    std::uint32_t noise = 0, movement = 0;
    QUERN_FIELDS(v("l2", l2), v("linf", linf), v("moments", moments), v("rest", rest), v("loose", loose),
                 v("noise", noise), v("movement", movement))
};
// One that was drawn; once reveals are awaited, one that has committed.
struct TaskProfiler {
    Address address;
    Uint256 locked;         // of its bond as a verifier, from its commitment on
    Hash32 commitment;      // zero: none yet
    Hash32 replay;          // of the movements that it revealed, which are those of any replay; zero: not revealed yet
    ProfiledBounds bounds;  // of what it revealed
    QUERN_FIELDS(v("address", address), v("locked", locked), v("commitment", commitment), v("replay", replay),
                 v("bounds", bounds))
};
// How the limits of a task are found, and that they are. Empty where its submission names them.
struct TaskProfiling {
    Hash32 beacon;           // the seed that they train with; zero before they are drawn
    bool revealing = false;  // all who are left have committed
    std::vector<TaskProfiler> profilers;
    Bytes limits;  // once they are found: the data tensor before the last (compute::tolerance::encode_limits)
    QUERN_FIELDS(v("beacon", beacon), v("revealing", revealing), v("profilers", profilers), v("limits", limits))
};

inline constexpr std::size_t kMaxBarred = 64;
inline constexpr std::size_t kMaxKeptRecords = 128;  // of payments and of slashes: the newest
struct Task {
    std::uint64_t id = 0;
    Address submitter;
    TaskSubmitPayload spec;
    TaskState state = TaskState::open;
    std::uint32_t round = 0;    // times reopened
    std::uint8_t failures = 0;  // of these, since the last stretch was settled
    // In which the newest stretches came first of the unsettled ones, the present one last (market/storage.h).
    std::vector<std::uint32_t> rounds_begun = {0};
    std::uint64_t since = 0;        // market time at which `state` was entered
    std::uint64_t deadline = 0;     // market time from which a tick moves it on; 0 while it runs and in final states
    std::string reason;             // why it is in this state, e.g. "no_bids"
    std::uint64_t steps = 0;        // N, and what follows from the plan:
    std::uint64_t work_units = 0;   // of its largest step
    std::uint64_t commit_work = 0;  // of the commitment to the state that ends a stride
    Uint256 segment_work;           // of its largest segment of `interval` steps with its commitments, at most
    Uint256 stretch_work;           // of its largest stretch with its commitments, at most; total_work of a single one
    Uint256 total_work;             // of all steps with their commitments
    std::uint64_t trace_work = 0;   // of hashing what a step of it computes, at most
    std::uint8_t custodians = 0;    // drawn for each of its claims ...
    Uint256 custody_fee;            // ... and paid this each, of a stretch that is settled
    Uint256 escrow;                 // what is held for it now ...
    Uint256 deposit;                // ... of which for its bytes, until it is deleted (chain/market/storage.h)
    Uint256 held;                   // ... and of which the last stretch's solver is owed while it keeps the last state
    std::vector<DataChallenge> asked;  // one at most, while something is held
    std::uint32_t questions = 0;       // that were asked so far
    std::vector<TaskBid> bids;         // as placed; from the draw to the start those that may still have it, in order
    std::uint64_t draw_at = 0;    // height that anchors the draw of profilers, or of the solver once bidding is closed
    std::vector<TaskSeat> seats;  // one from the assignment on
    std::uint32_t settled = 0;    // stretches, in order, in whatever rounds: these are never done again
    Uint256 settled_work;         // theirs, with its commitments
    std::uint32_t passes = 0;     // of the one of them that the fewest verifiers stand for
    Hash32 start_root;            // of the state that the next one begins with
    Hash32 start_history;         // manifest of the history that ends with this state; zero: contents.init
    Hash32 start_custody;         // that claim's custody_content
    Hash32 seed_beacon;           // fixes the data order: of the round that began the first of them, then of all
    std::vector<Payment> payments;  // and slashes: since the last of them was settled; those before are its claim's
    std::vector<SlashRecord> slashes;
    std::vector<Address> barred;  // solvers that lost this task; not eligible again; the newest kMaxBarred
    TaskProfiling profiling;
    QUERN_FIELDS(v("id", id), v("submitter", submitter), v("spec", spec), v("state", state), v("round", round),
                 v("failures", failures), v("roundsBegun", rounds_begun), v("since", since), v("deadline", deadline),
                 v("reason", reason), v("steps", steps), v("workUnits", work_units), v("commitWork", commit_work),
                 v("segmentWork", segment_work), v("stretchWork", stretch_work), v("totalWork", total_work),
                 v("traceWork", trace_work), v("custodians", custodians), v("custodyFee", custody_fee),
                 v("escrow", escrow), v("deposit", deposit), v("held", held), v("asked", asked),
                 v("questions", questions), v("bids", bids), v("drawAt", draw_at), v("seats", seats),
                 v("settled", settled), v("settledWork", settled_work), v("passes", passes), v("startRoot", start_root),
                 v("startHistory", start_history), v("startCustody", start_custody), v("seedBeacon", seed_beacon),
                 v("payments", payments), v("slashes", slashes), v("barred", barred), v("profiling", profiling))
};
// Whether something may happen to it before it is deleted: workers look at these.
[[nodiscard]] inline bool is_live(const Task& task) { return !is_final(task.state) || !task.asked.empty(); }
// The claims of the task's present round that are not settled, ascending: kMaxUnsettled at most.
[[nodiscard]] std::vector<ClaimId> unsettled_claims(const Task& task);
// The first of them, after the end the last one that was settled; nullopt before task_start.
[[nodiscard]] std::optional<ClaimId> present_claim(const Task& task);
// The second of them, which is worked on while the first is verified, or waits for that to be settled.
[[nodiscard]] std::optional<ClaimId> next_claim(const Task& task);
// A task, one of its claims (state none: it has none) and what belongs to that, as who looks on is told of them. Not an
// object of its own.
struct TaskClaim {
    Task task;
    Claim claim;
    std::vector<VerifierReport> reports;  // by place
    std::optional<Custody> custody{};
};

// What a settled seat of a task leaves for ever: training by this plan, from that state and these data, led there.
struct ProofRecord {
    std::uint64_t task = 0;
    std::uint16_t seat = 0;
    Address submitter;
    Address solver;                  // of the last stretch
    Hash32 submission;               // merkle_leaf of the TaskSubmitPayload's RLP without what opened its imports
    Hash32 plan;                     // merkle_leaf of the plan's RLP
    Hash32 slot_root;                // of the records of the state's slots, as the plan's headers have it
    Hash32 init_root;                // S_0
    std::vector<Hash32> data_roots;  // content ids of the data tensors
    Hash32 seed_beacon;              // fixes the data order
    Hash32 final_root;               // S_N
    std::uint64_t steps = 0;         // N
    std::uint32_t loss = 0;          // f32 bits of the loss slot in S_N
    std::uint32_t passes = 0;        // verifiers that replayed samples of a stretch and told so, of the one with fewest
    std::uint64_t settled_at = 0;    // height
    std::string reason;              // "unchallenged"; "unverified" when `passes` is 0
    // What S_0 took from earlier proofs' final states.
    std::vector<TaskImport> imports;
    QUERN_FIELDS(v("task", task), v("seat", seat), v("submitter", submitter), v("solver", solver),
                 v("submission", submission), v("plan", plan), v("slotRoot", slot_root), v("initRoot", init_root),
                 v("dataRoots", data_roots), v("seedBeacon", seed_beacon), v("finalRoot", final_root),
                 v("steps", steps), v("loss", loss), v("passes", passes), v("settledAt", settled_at),
                 v("reason", reason), v("imports", imports))
};

struct ChallengeCommitment {
    ClaimId claim;
    Address challenger;
    Hash32 commitment;
    std::uint64_t since = 0;          // market time
    Role role = Role::whistleblower;  // of the bond that the stake is locked in: whistleblower, or verifier
    Uint256 stake;
    Uint256 deposit;  // the challenger's, for the bytes of this and of the dispute that it may become
    QUERN_FIELDS(v("claim", claim), v("challenger", challenger), v("commitment", commitment), v("since", since),
                 v("role", role), v("stake", stake), v("deposit", deposit))
};

// A watcher's verdict about a report, sealed before the report's choice was known.
struct Watch {
    ClaimId claim;
    std::uint64_t draw = 0;   // Claim::draws of the report
    std::uint8_t report = 0;  // its place
    Address watcher;
    Hash32 seal;         // H(address || true result root || salt)
    bool found = false;  // opened, and right
    Uint256 deposit;     // the watcher's, until this is deleted with its claim
    QUERN_FIELDS(v("claim", claim), v("draw", draw), v("report", report), v("watcher", watcher), v("seal", seal),
                 v("found", found), v("deposit", deposit))
};

enum class DisputeWinner : std::uint8_t { none = 0, defender = 1, rival = 2, neither = 3 };
[[nodiscard]] const char* to_string(DisputeWinner winner);
struct Dispute {
    std::uint64_t id = 0;
    ClaimId claim;
    std::uint32_t target = 0;  // 0: the solver's history; others: report i, see compute/core/claims.h
    Address defender;
    Address rival;
    Role rival_role = Role::whistleblower;  // whose bond answers: whistleblower, or verifier
    Uint256 defender_locked;
    Uint256 rival_locked;
    Uint256 deposit;               // the rival's, until this is deleted; zero after a FAIL, which the task's pays for
    std::uint64_t accused_at = 0;  // market time of the accusation: who made it first gets the bounty; 0 after a FAIL
    std::uint64_t opened_at = 0;   // height
    std::uint64_t closed_at = 0;   // height
    std::uint64_t deadline = 0;    // market time from which a tick decides it, if nobody moves; 0 when closed
    Bytes game;                    // RLP of compute::core::Game
    std::uint64_t posted_at = 0;   // height of the post that waits for the rival (log DisputePosted); 0: none does
    std::uint64_t rounds = 0;      // accepted moves
    std::uint64_t bytes = 0;       // their payload bytes
    std::uint64_t gas = 0;         // their gas
    std::uint32_t leaf_op = 0;     // vm::tensor::Op of the executed leaf, when one was
    bool leaf_executed = false;
    DisputeWinner winner = DisputeWinner::none;
    std::string reason;  // "leaf", "clock", "conceded", "input", "moot", "not_sampled", "forced"
    QUERN_FIELDS(v("id", id), v("claim", claim), v("target", target), v("defender", defender), v("rival", rival),
                 v("rivalRole", rival_role), v("defenderLocked", defender_locked), v("rivalLocked", rival_locked),
                 v("deposit", deposit), v("accusedAt", accused_at), v("openedAt", opened_at), v("closedAt", closed_at),
                 v("deadline", deadline), v("game", game), v("postedAt", posted_at), v("rounds", rounds),
                 v("bytes", bytes), v("gas", gas), v("leafOp", leaf_op), v("leafExecuted", leaf_executed),
                 v("winner", winner), v("reason", reason))
};

// Whether the rival has a lock of its own in that bond. After a FAIL its report's lock answers, and that is against the
// history always.
[[nodiscard]] inline bool has_own_stake(const Dispute& dispute) {
    return dispute.rival_role == Role::whistleblower || dispute.target != 0;
}

// --- Keys by type ----------------------------------------------------------------------------------------------------
// key_of<Task>(7), key_of<RoleBond>(role, address): who loads by type cannot ask for one object under another's key.

// For each type of objects: `at(id...)`, and the prefix that all of them share.
template <class T>
struct KeyOf;

#define QUERN_NUMBERED_OBJECT(type, name)                                                        \
    template <>                                                                                  \
    struct KeyOf<type> {                                                                         \
        static constexpr ObjectPrefix kPrefix = ObjectPrefix::name;                              \
        static Bytes at(std::uint64_t number) { return object_key(ObjectPrefix::name, number); } \
    };
QUERN_NUMBERED_OBJECT(BeaconObject, beacon)  // height
QUERN_NUMBERED_OBJECT(EpochObject, epoch)
QUERN_NUMBERED_OBJECT(Task, task)
QUERN_NUMBERED_OBJECT(Dispute, dispute)
#undef QUERN_NUMBERED_OBJECT

template <>
struct KeyOf<Globals> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::globals;
    static Bytes at() { return object_key(kPrefix); }
};
template <>
struct KeyOf<ValidatorObject> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::validator;
    static Bytes at(const Address& address) { return object_key(kPrefix, address); }
};
template <>
struct KeyOf<StakeDelegation> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::stake_delegation;
    static Bytes at(const Address& validator, const Address& delegator);
};
template <>
struct KeyOf<StakeUnbonding> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::stake_unbonding;
    static Bytes at(const Address& validator, const Address& delegator);
};
template <>
struct KeyOf<Conviction> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::conviction;
    static Bytes at(std::uint64_t height, const Address& validator);
    static Bytes from(std::uint64_t height) { return object_key(kPrefix, height); }  // where those of a height begin
};
template <>
struct KeyOf<EvidenceCommitment> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::evidence_commitment;
    static Bytes at(const Address& reporter) { return object_key(kPrefix, reporter); }
};
template <>
struct KeyOf<RoleBond> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::role_bond;
    static Bytes at(Role role, const Address& address);
    static Bytes all(Role role) { return object_key(kPrefix, Bytes{static_cast<std::uint8_t>(role)}); }
};
template <>
struct KeyOf<DrawNode> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::draw_node;
    static Bytes at(Role role, std::uint8_t level, std::uint32_t index);
};
template <>
struct KeyOf<DrawTable> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::draw_table;
    static Bytes at(Role role) { return object_key(kPrefix, Bytes{static_cast<std::uint8_t>(role)}); }
};
template <>
struct KeyOf<Claim> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::claim;
    static Bytes at(const ClaimId& id);
};
template <>
struct KeyOf<VerifierReport> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::report;
    static Bytes at(const ClaimId& claim, std::uint8_t place);
};
template <>
struct KeyOf<Custody> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::custody;
    static Bytes at(const ClaimId& claim);
};
template <>
struct KeyOf<ProofRecord> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::proof;
    static Bytes at(std::uint64_t task, std::uint16_t seat);
};
template <>
struct KeyOf<ChallengeCommitment> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::challenge;
    static Bytes at(const ClaimId& claim, const Address& challenger, const Hash32& commitment);
    static Bytes all(const ClaimId& claim);
};
template <>
struct KeyOf<Watch> {
    static constexpr ObjectPrefix kPrefix = ObjectPrefix::watch;
    static Bytes at(const ClaimId& claim, std::uint64_t draw, std::uint8_t report, const Address& watcher);
    static Bytes all(const ClaimId& claim);
    static Bytes all(const ClaimId& claim, std::uint64_t draw, std::uint8_t report);
};
// A validator's place among those who may be in a committee: ascending keys are falling stakes.
[[nodiscard]] Bytes rank_key(const Uint256& stake, const Address& validator);

template <class T, class... Id>
concept ObjectId = requires(const Id&... id) {
    KeyOf<T>::at(id...);
};
template <class T, class... Id>
requires ObjectId<T, Id...>
[[nodiscard]] Bytes key_of(const Id&... id) { return KeyOf<T>::at(id...); }
// What every key of the type begins with.
template <class T>
[[nodiscard]] Bytes prefix_of() {
    return object_key(KeyOf<T>::kPrefix);
}

}  // namespace quern::chain::types
