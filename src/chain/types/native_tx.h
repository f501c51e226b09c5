// Native transaction kinds and their payloads: staking of roles, tasks, verification, disputes, ticks. One kind has two
// encodings: RLP in a type 0x51 transaction, and the Solidity ABI in a call to its group's reserved address; both reach
// the same handler. Payloads of the market, which will grow, are records with a version, and their call has that RLP as
// its one argument; the others have an argument for each field. kNativeKinds (native_kinds.h) is the registry. Plain
// values. Semantics: doc/market.md.
#pragma once

#include "chain/types/address.h"
#include "chain/types/fields.h"

namespace quern::chain::types {

// High nibble = group. Stable numbers.
enum class NativeKind : std::uint8_t {
    create_validator = 0x10,
    delegate = 0x11,
    undelegate = 0x12,
    withdraw_stake = 0x13,
    evidence = 0x14,
    evidence_commit = 0x15,
    bond = 0x20,
    unbond = 0x21,
    withdraw = 0x22,
    declare_capacity = 0x23,
    task_submit = 0x30,
    task_cancel = 0x31,
    task_accept = 0x32,
    task_bid = 0x34,
    task_start = 0x35,
    task_checkpoint = 0x36,
    task_prove = 0x37,
    task_abandon = 0x38,
    custody_receipt = 0x40,
    verify_commit = 0x41,
    verify_reveal = 0x42,
    watch_commit = 0x45,
    watch_reveal = 0x46,
    report_open = 0x47,
    profile_commit = 0x48,
    profile_reveal = 0x49,
    challenge_commit = 0x50,
    challenge_reveal = 0x51,
    dispute_split = 0x52,
    dispute_prove_leaf = 0x53,
    dispute_concede = 0x54,
    data_challenge = 0x55,
    data_answer = 0x56,
    tick = 0x60,
};

enum class Role : std::uint8_t { solver = 1, verifier = 2, whistleblower = 3, custodian = 4, relay = 5 };
enum class TaskMode : std::uint8_t { exact = 0, tolerance = 1 };
enum class TaskPrivacy : std::uint8_t { open = 0, encrypted = 1 };

struct CreateValidatorPayload {  // takes `amount` from the sender's balance, as its first delegation
    Bytes public_key;            // 64 bytes; the key that will sign votes
    Bytes proof;                 // 64 bytes: its signature over validator_proof_digest
    Uint256 amount;
    QUERN_FIELDS(v("publicKey", public_key), v("proof", proof), v("amount", amount))
};
struct DelegatePayload {  // takes `amount` from the sender's balance
    Address validator;
    Uint256 amount;
    QUERN_FIELDS(v("validator", validator), v("amount", amount))
};
struct UndelegatePayload {  // moves `amount` of what the sender's shares are worth into the unbonding queue
    Address validator;
    Uint256 amount;
    QUERN_FIELDS(v("validator", validator), v("amount", amount))
};
struct WithdrawStakePayload {  // pays the delegator what has finished unbonding; anybody may send it
    Address validator;
    Address delegator;
    QUERN_FIELDS(v("validator", validator), v("delegator", delegator))
};
struct EvidencePayload {
    Bytes evidence;  // RLP: chain/consensus/sdbft/evidence.h
    QUERN_FIELDS(v("evidence", evidence))
};
struct EvidenceCommitPayload {  // takes a deposit for the sender's first one; zero erases it and gives that back
    Hash32 commitment;          // consensus::sdbft::evidence_commitment of the sender and its evidence
    QUERN_FIELDS(v("commitment", commitment))
};

struct BondPayload {  // takes `amount` from the sender's balance
    Role role = Role::solver;
    Uint256 amount;
    QUERN_FIELDS(v("role", role), v("amount", amount))
};
struct UnbondPayload {  // moves `amount` of the bond into the unbonding queue
    Role role = Role::solver;
    Uint256 amount;
    QUERN_FIELDS(v("role", role), v("amount", amount))
};
struct WithdrawPayload {  // pays out what has finished unbonding
    Role role = Role::solver;
    QUERN_FIELDS(v("role", role))
};

// What a party can do: draws leave it out of work that is more. 0: no limit. Classes: chain/market/windows.h.
struct Capacity {
    std::uint64_t step_work = 0;        // work units of one step
    std::uint32_t speed_class = 0;      // of the work units of a replay in a second
    std::uint32_t bandwidth_class = 0;  // of the bytes that it sends in a second
    std::uint64_t memory_mib = 0;       // that a task may claim
    QUERN_FIELDS(v("stepWork", step_work), v("speedClass", speed_class), v("bandwidthClass", bandwidth_class),
                 v("memoryMib", memory_mib))
    friend bool operator==(const Capacity&, const Capacity&) = default;
};
struct DeclareCapacityPayload {
    static constexpr std::uint64_t kVersion = 1;
    Role role = Role::verifier;
    Capacity capacity;
    QUERN_FIELDS(v("role", role), capacity.fields(v))
};

// What a task's first state takes from the last states of settled ones (doc/market.md, "Stacked proofs"): neighbouring
// slots, whose roots are the same in both.
struct ImportedSlots {
    std::uint32_t there = 0;  // number of the first slot in the earlier state
    std::uint32_t here = 0;   // in S_0
    std::uint32_t count = 0;
    QUERN_FIELDS(v("there", there), v("here", here), v("count", count))
    friend bool operator==(const ImportedSlots&, const ImportedSlots&) = default;
};
struct TaskImport {
    std::uint64_t task = 0;  // whose proof record names the earlier state as its final one
    std::uint16_t seat = 0;
    std::uint32_t slot_count = 0;  // of the earlier state
    std::vector<ImportedSlots> slots;
    QUERN_FIELDS(v("task", task), v("seat", seat), v("slotCount", slot_count), v("slots", slots))
    friend bool operator==(const TaskImport&, const TaskImport&) = default;
};
struct TaskImports {
    static constexpr std::uint64_t kVersion = 1;
    std::vector<TaskImport> list;
    // What opens them, in their order: the roots of the slots, and the siblings of each range in the earlier state,
    // then in S_0. The task does not keep it.
    std::vector<Hash32> roots;
    std::vector<Hash32> siblings;
    QUERN_FIELDS(v("list", list), v("roots", roots), v("siblings", siblings))
};

// Where the bytes are.
struct TaskContents {
    static constexpr std::uint64_t kVersion = 1;
    std::vector<Hash32> programs;  // by program of the plan: content ids
    Hash32 init;
    std::vector<std::string> uris;  // other sources of the same contents; at most 8
    QUERN_FIELDS(v("programs", programs), v("init", init), v("uris", uris))
};
struct WorkTerms {
    static constexpr std::uint64_t kVersion = 1;
    TaskMode mode = TaskMode::exact;
    TaskPrivacy privacy = TaskPrivacy::open;
    std::uint64_t interval = 0;  // k: a checkpoint each k of the plan's N steps; N must be a multiple of k
    std::uint64_t stride = 1;    // u: the state after each u steps is committed to; k must be a multiple of u
    std::uint64_t tranche = 0;   // T: steps that are verified and paid for together, a multiple of k; 0: all
    std::uint32_t verifiers = 3;
    std::uint32_t samples = 20;  // segments per verifier, at most N / k
    std::uint32_t largest = 0;   // in tolerance mode segments that move most, for each verifier besides; else 0
    std::uint32_t solvers = 1;   // seats
    QUERN_FIELDS(v("mode", mode), v("privacy", privacy), v("interval", interval), v("stride", stride),
                 v("tranche", tranche), v("verifiers", verifiers), v("samples", samples), v("largest", largest),
                 v("solvers", solvers))
};
struct MoneyTerms {
    static constexpr std::uint64_t kVersion = 1;
    Uint256 price_cap;  // grains per work unit
    Uint256 tax;        // to the jackpot vault at settlement
    QUERN_FIELDS(v("priceCap", price_cap), v("tax", tax))
};
// Seconds of market time each waiting state may last.
struct TaskWindows {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t bid_s = 0;
    std::uint64_t start_s = 0;
    std::uint64_t heartbeat_s = 0;  // from one checkpoint to the next
    std::uint64_t prove_s = 0;      // after the last checkpoint
    std::uint64_t verify_s = 0;     // each of custody, commit, reveal
    std::uint64_t challenge_s = 0;
    QUERN_FIELDS(v("bidS", bid_s), v("startS", start_s), v("heartbeatS", heartbeat_s), v("proveS", prove_s),
                 v("verifyS", verify_s), v("challengeS", challenge_s))
};
// What who takes part has at least.
struct TaskClasses {
    static constexpr std::uint64_t kVersion = 1;
    std::uint32_t speed = 0;       // of work units a second; 0: any
    std::uint32_t bandwidth = 0;   // of bytes a second; 0: any
    std::uint64_t memory_mib = 0;  // 0: params::kDefaultMemoryMib
    QUERN_FIELDS(v("speed", speed), v("bandwidth", bandwidth), v("memoryMib", memory_mib))
};

// How others find the limits of a task in tolerance mode; without profilers the task names them (doc/tolerance.md,
// "Profiling"). The last seven are words of binary32: compute::tolerance::Terms.
struct ProfilingTerms {
    static constexpr std::uint64_t kVersion = 1;
    std::uint32_t profilers = 0;    // that are drawn; 0: none
    std::uint32_t segments = 0;     // that each of them trains, replays and measures
    std::uint64_t window_s = 0;     // for that, seconds of market time
    std::uint32_t cap = 0;          // of l2 in a segment ...
    std::uint32_t history_cap = 0;  // ... and of the sum over all of them
    std::uint32_t range = 0;        // by which a movement may leave the profiled one
    std::uint32_t allow_l2 = 0;     // the least limits
    std::uint32_t allow_linf = 0;
    std::uint32_t allow_moments = 0;
    std::uint32_t allow_rest = 0;
    QUERN_FIELDS(v("profilers", profilers), v("segments", segments), v("windowS", window_s), v("cap", cap),
                 v("historyCap", history_cap), v("range", range), v("allowL2", allow_l2), v("allowLinf", allow_linf),
                 v("allowMoments", allow_moments), v("allowRest", allow_rest))
    friend bool operator==(const ProfilingTerms&, const ProfilingTerms&) = default;
};

struct TaskSubmitPayload {
    static constexpr std::uint64_t kVersion = 1;
    Bytes plan;                                     // RLP of compute::core::TaskPlan: which program each step runs
    std::vector<std::vector<Hash32>> header_paths;  // by program of the plan: open its header under its root
    std::vector<Hash32> data_roots;                 // content ids of the data tensors that the programs read; in
                                                    // tolerance mode the last is zero: claims bring it; and the one
                                                    // before where profilers find the limits, until they have
    Hash32 init_root;                               // root of the state S_0
    TaskContents contents;
    WorkTerms work;
    MoneyTerms money;
    TaskWindows windows;
    TaskClasses classes;
    TaskImports imports;
    ProfilingTerms profiling;
    QUERN_FIELDS(v("plan", plan), v("headerPaths", header_paths), v("dataRoots", data_roots), v("initRoot", init_root),
                 v("contents", contents), v("work", work), v("money", money), v("windows", windows),
                 v("classes", classes), v("imports", imports), v("profiling", profiling))
};
struct TaskIdPayload {  // task_cancel, task_accept, task_start, task_abandon
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    QUERN_FIELDS(v("task", task))
};
struct TaskBidPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint16_t seat = 0;             // below the task's solvers
    Uint256 price;                      // grains per work unit
    std::uint32_t speed_class = 0;      // what the bidder promises, each the task's at least
    std::uint32_t bandwidth_class = 0;  // 0: nothing
    QUERN_FIELDS(v("task", task), v("seat", seat), v("price", price), v("speedClass", speed_class),
                 v("bandwidthClass", bandwidth_class))
};
struct TaskCheckpointPayload {  // heartbeat; the loss is proven to lie in the state
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint64_t step = 0;  // a multiple of the interval
    Hash32 state_root;
    Hash32 content;                 // of the state (compute/core/state_content.h)
    std::uint32_t loss = 0;         // f32 bits of the loss slot
    std::vector<Hash32> loss_path;  // the loss slot's tensor root under state_root
    QUERN_FIELDS(v("task", task), v("step", step), v("stateRoot", state_root), v("content", content), v("loss", loss),
                 v("lossPath", loss_path))
};
struct TaskProvePayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    Hash32 history_root;                 // over S_a, S_{a+u}, … S_b of the stretch of steps a + 1 to b
    Hash32 history_content;              // compute::core::HistoryManifest: these roots and the checkpoints' content ids
    Hash32 custody_content;              // compute::core::CustodyManifest; zero where the network has no custodians
    Hash32 claimed_content;              // in tolerance mode the last data tensor, else zero (doc/tolerance.md)
    std::vector<std::uint64_t> largest;  // and as many segments as the task wants that move most, ascending
    std::vector<Hash32> initial_path;    // the claim's start root as leaf 0
    Hash32 final_root;
    std::vector<Hash32> final_path;  // as the last leaf
    std::uint32_t loss = 0;
    std::vector<Hash32> loss_path;
    QUERN_FIELDS(v("task", task), v("historyRoot", history_root), v("historyContent", history_content),
                 v("custodyContent", custody_content), v("claimedContent", claimed_content), v("largest", largest),
                 v("initialPath", initial_path), v("finalRoot", final_root), v("finalPath", final_path),
                 v("loss", loss), v("lossPath", loss_path))
};

// Those below name a claim of the task's present round by its stretch: two may be verified at once.
struct CustodyReceiptPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    bool data_ok = false;
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("dataOk", data_ok))
};
struct VerifyCommitPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    Hash32 commitment;  // H(address || leaf_0 || leaf_1 || H(r)), see compute/core/verification_report.h
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("commitment", commitment))
};
struct VerifyRevealPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    bool pass = false;
    Hash32 rival_root;        // the verifier's own history root when !pass, else zero
    std::uint8_t opened = 0;  // which of the two leaves
    Hash32 result_root;
    Hash32 blind;
    Hash32 other_leaf;
    Hash32 randomness_hash;            // H(r)
    std::vector<Hash32> probes;        // the result tree's leaves after the verdict: hashes of the probe tiles
    std::vector<Hash32> initial_path;  // when !pass: the claim's start root as leaf 0 under rival_root
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("pass", pass), v("rivalRoot", rival_root),
                 v("opened", opened), v("resultRoot", result_root), v("blind", blind), v("otherLeaf", other_leaf),
                 v("randomnessHash", randomness_hash), v("probes", probes), v("initialPath", initial_path))
};

// What a watcher found of report `report`, sealed; and that it is one ("Forced errors" in doc/market.md).
struct WatchCommitPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    std::uint8_t report = 0;
    Hash32 seal;       // H(address || true result root || salt)
    Bytes public_key;  // 64 bytes: the sender's
    Bytes proof;       // 81 bytes: its VRF's of the report
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("report", report), v("seal", seal),
                 v("publicKey", public_key), v("proof", proof))
};
struct WatchRevealPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    std::uint8_t report = 0;
    Hash32 root;  // of the true result
    Hash32 salt;
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("report", report), v("root", root), v("salt", salt))
};
// Which result the sender's report had to tell, and what the other one is; what follows `randomness` is empty unless
// the altered one was told.
struct ReportOpenPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    Hash32 randomness;          // r
    Hash32 true_root;           // of the true result ...
    Bytes tile;                 // ... in which the altered probe's tile is this, 4,096 bytes, ...
    std::uint32_t element = 0;  // ... before the low bit of this word was flipped, ...
    std::vector<Hash32> path;   // ... with this path under both roots
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("randomness", randomness), v("trueRoot", true_root),
                 v("tile", tile), v("element", element), v("path", path))
};

// What a drawn profiler measured, sealed; and what it is, with compute/core/profiling.h.
struct ProfileCommitPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    Hash32 commitment;  // H("quern.profile" || address || measures || salt)
    QUERN_FIELDS(v("task", task), v("commitment", commitment))
};
struct ProfileRevealPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    Bytes measures;  // of each segment l2, linf, moments, rest, loose and movement: words of binary32, little endian
    Hash32 salt;
    QUERN_FIELDS(v("task", task), v("measures", measures), v("salt", salt))
};

struct ChallengeCommitPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    Hash32 commitment;  // H(address || claim || salt)
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("commitment", commitment))
};
// target 0: the solver's history, claim = rival history root. target 1 + i: the report of verifier i, claim = rival
// hash of probe tile `probe`.
struct ChallengeRevealPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    std::uint32_t target = 0;
    Hash32 claim;
    Hash32 salt;
    Bytes opening;  // RLP, by target: compute/core/claims.h
    QUERN_FIELDS(v("task", task), v("stretch", stretch), v("target", target), v("claim", claim), v("salt", salt),
                 v("opening", opening))
};
struct DisputeSplitPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t dispute = 0;
    Bytes move;  // RLP of compute::core::SplitMove
    QUERN_FIELDS(v("dispute", dispute), v("move", move))
};
struct DisputeProveLeafPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t dispute = 0;
    Bytes witness;  // RLP of compute::core::LeafWitness
    QUERN_FIELDS(v("dispute", dispute), v("witness", witness))
};
struct DisputeConcedePayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t dispute = 0;
    QUERN_FIELDS(v("dispute", dispute))
};

// Asks for a piece of a settled task's last state S_N: a tile of one slot. Takes the price of an answer from the
// sender's balance.
struct DataChallengePayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint32_t slot = 0;
    std::uint64_t tile = 0;  // counted modulo the slot's tiles, so that each number names one
    QUERN_FIELDS(v("task", task), v("slot", slot), v("tile", tile))
};
struct DataAnswerPayload {
    static constexpr std::uint64_t kVersion = 1;
    std::uint64_t task = 0;
    std::uint64_t tiles = 0;        // of the slot that was asked for
    Bytes tile;                     // the asked one, 4,096 bytes, ...
    std::vector<Hash32> tile_path;  // ... under the slot's root ...
    std::vector<Hash32> slot_path;  // ... and that under the state's
    QUERN_FIELDS(v("task", task), v("tiles", tiles), v("tile", tile), v("tilePath", tile_path),
                 v("slotPath", slot_path))
};

enum class TickObject : std::uint8_t { task = 0, dispute = 1 };
struct TickPayload {
    TickObject object = TickObject::task;
    std::uint64_t id = 0;
    QUERN_FIELDS(v("object", object), v("id", id))
};

}  // namespace quern::chain::types
