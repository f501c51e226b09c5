// task_*: the market's tasks.
#include <algorithm>
#include <limits>

#include "chain/market/work.h"
#include "chain/types/abi.h"
#include "rpc/methods/backend.h"
#include "rpc/methods/market_json.h"
#include "rpc/methods/state_filter.h"
#include "rpc/methods/task_changes.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
using chain::api::TaskEstimate;
using types::Task;
using types::TaskState;

constexpr std::uint64_t kDefaultPage = 100;
constexpr std::uint64_t kMaxPage = 1'000;
constexpr std::size_t kMaxPool = 1'000;

Result estimate(const Backend& backend, const Call& call) {
    const auto spec = types::record_from_json<types::TaskSubmitPayload>(call.value(0), types::ExtraMembers::refuse);
    if (!spec) return rpc_fail(spec.error(), kInvalidParams);
    QUERN_RPC_TRY(const TaskEstimate parts, backend.market->estimate_task(*spec));
    json::Value result = estimate_json(parts);
    chain::api::SimulatedCall simulated;
    if (call.has(1)) simulated.from = call.address(1);
    simulated.data = types::encode_record(*spec);
    simulated.native_kind = static_cast<std::uint8_t>(types::NativeKind::task_submit);
    const auto gas = backend.simulator->estimate_gas(simulated, {});
    result.set("gas", gas ? json::Value(quantity(*gas)) : json::Value());
    if (!gas) result.set("gasError", gas.error().to_string());
    return result;
}

// The specification that a transaction submits, in either of its two encodings.
std::optional<types::TaskSubmitPayload> submitted_spec(const types::Transaction& tx) {
    if (tx.type == types::TxType::native) {
        if (tx.native_kind != static_cast<std::uint8_t>(types::NativeKind::task_submit)) return std::nullopt;
        auto spec = types::decode_record<types::TaskSubmitPayload>(tx.data);
        return spec ? std::optional(std::move(*spec)) : std::nullopt;
    }
    if (!tx.to || types::group_at(*tx.to) != types::KindGroup::tasks) return std::nullopt;
    const auto native = types::abi::decode_call(types::KindGroup::tasks, tx.data);
    if (!native || native->kind != types::NativeKind::task_submit) return std::nullopt;
    auto spec = types::decode_record<types::TaskSubmitPayload>(native->payload);
    return spec ? std::optional(std::move(*spec)) : std::nullopt;
}

Result submit(const Backend& backend, const Call& call) {
    const Bytes raw = call.data(0);
    QUERN_RPC_TRY(const types::Transaction tx, types::decode_transaction(raw));
    if (!submitted_spec(tx))
        return rpc_fail(kInvalidParams, "not a task_submit transaction; use eth_sendRawTransaction");
    const auto submission = backend.submitter->submit(raw);
    if (!submission) return rpc_fail(kServerError, submission.result.to_string());
    return hex(submission.hash);
}

struct PoolEntry {
    Uint256 price;
    json::Value json;
};

json::Value pool_json(const types::TaskSubmitPayload& spec, const types::Address& submitter, std::uint64_t steps,
                      const Uint256& total_work) {
    return json::Value::object({{"submitter", hex(submitter)},
                                {"pricePerWorkUnit", quantity(spec.money.price_cap)},
                                {"totalWork", quantity(total_work)},
                                {"steps", steps},
                                {"interval", spec.work.interval},
                                {"stride", spec.work.stride},
                                {"tranche", spec.work.tranche},
                                {"verifiers", spec.work.verifiers},
                                {"samples", spec.work.samples},
                                {"largest", spec.work.largest},
                                {"memoryMib", spec.classes.memory_mib},
                                {"speedClass", spec.classes.speed},
                                {"bandwidthClass", spec.classes.bandwidth},
                                {"programContents", types::to_json(spec.contents.programs)},
                                {"dataRoots", types::to_json(spec.data_roots)}});
}

Result pool(const Backend& backend, std::size_t limit) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    std::vector<PoolEntry> entries;
    QUERN_RPC_TRY(const auto rest, scan_objects<Task>(*state, 0, [&](const Task& task) {
                      if (task.state != TaskState::open) return true;
                      json::Value entry = pool_json(task.spec, task.submitter, task.steps, task.total_work);
                      entry.set("pending", false);
                      entry.set("task", task.id);
                      entry.set("round", task.round);
                      entry.set("deadline", task.deadline);
                      entry.set("bids", task.bids.size());
                      entries.push_back({task.spec.money.price_cap, std::move(entry)});
                      return true;
                  }));
    static_cast<void>(rest);  // a view: what lies beyond the scan's limit is left out
    for (const types::RecoveredTransaction& waiting : backend.chain->pending_tasks()) {
        const auto spec = submitted_spec(waiting.tx);
        if (!spec) continue;
        const auto parts = backend.market->estimate_task(*spec);
        json::Value entry =
            pool_json(*spec, waiting.sender, parts ? parts->steps : 0, parts ? parts->total_work : Uint256());
        entry.set("pending", true);
        entry.set("transaction", hex(waiting.hash));
        entries.push_back({spec->money.price_cap, std::move(entry)});
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const PoolEntry& a, const PoolEntry& b) { return a.price > b.price; });
    json::Array result;
    for (PoolEntry& entry : entries) {
        if (result.size() == limit) break;
        result.push_back(std::move(entry.json));
    }
    return result;
}

Result list(const Backend& backend, const Call& call) {
    StateFilter filter;
    if (call.has(0)) {
        const auto read = read_state_filter(call.value(0));
        if (!read) return rpc_fail(kInvalidParams, "invalid argument 0 (state): unknown state " + call.value(0).dump());
        filter = *read;
    }
    const std::uint64_t limit = std::min(call.number_or(2, kDefaultPage), kMaxPage);
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    std::vector<Task> page;
    QUERN_RPC_TRY(const auto next, scan_objects<Task>(*state, call.number_or(1, 0), [&](const Task& task) {
                      if (!filter.admits(task)) return true;
                      if (page.size() == limit) return false;
                      page.push_back(task);
                      return true;
                  }));
    json::Array tasks;
    for (Task& task : page) {
        QUERN_RPC_TRY(const auto shown, with_claims(*state, std::move(task)));
        tasks.push_back(task_json(shown, *backend.market));
    }
    return json::Value::object({{"tasks", std::move(tasks)}, {"next", next ? json::Value(*next) : json::Value()}});
}

Result changes(const Backend& backend, const Call& call) {
    using chain::api::BlockSelector;
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    const auto head = backend.chain->block({BlockSelector::Kind::number, state->block_number(), {}});
    QUERN_RPC_TRY(const auto globals, read_object<types::Globals>(*state));
    if (!head || !globals) return rpc_fail(kInternalError, "chain.state_unavailable");
    json::Value result = json::Value::object({{"block", state->block_number()},
                                              {"hash", hex(head->hash)},
                                              {"marketMs", globals->market_ms},
                                              {"changes", json::Value()}});
    if (call.has(0) && call.has(1) && call.number(0) <= state->block_number()) {
        const auto since = backend.chain->block({BlockSelector::Kind::number, call.number(0), {}});
        if (since && since->hash == call.hash(1)) {
            const Result told = changes_of_tasks(*state, call.number(0), call);
            if (!told) return told;
            result.set("changes", *told);
        }
    }
    if (const auto status = state->status(); !status) return rpc_fail(status.error(), kInternalError);
    return result;
}

template <class Number>
std::optional<Number> narrow(std::uint64_t number) {
    if (number > std::numeric_limits<Number>::max()) return std::nullopt;
    return static_cast<Number>(number);
}

Result claim(const Backend& backend, const Call& call) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto task, read_object<Task>(*state, call.number(0)));
    if (!task) return json::Value();
    const auto seat = narrow<std::uint16_t>(call.number_or(1, 0));
    const auto stretch = narrow<std::uint32_t>(call.number_or(2, 0));
    const auto round = narrow<std::uint32_t>(call.number_or(3, task->round));
    if (!seat || !stretch || !round) return rpc_fail(kInvalidParams, "seat, stretch or round is out of range");
    const types::ClaimId id{task->id, *seat, *stretch, *round};
    QUERN_RPC_TRY(auto found, read_object<types::Claim>(*state, id));
    if (!found) return json::Value();
    QUERN_RPC_TRY(const auto shown, with_reports(*state, std::move(*found)));
    return claim_json(*task, shown);
}

Result proof(const Backend& backend, const Call& call) {
    const auto seat = narrow<std::uint16_t>(call.number_or(1, 0));
    if (!seat) return rpc_fail(kInvalidParams, "seat is out of range");
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto found, read_object<types::ProofRecord>(*state, call.number(0), *seat));
    if (!found) return json::Value();
    json::Value object = types::to_json(*found);
    object.set("lossValue", f32_value(found->loss));
    return object;
}

}  // namespace

Status add_task_methods(Registry& registry, const Backend& backend) {
    QUERN_CHECK(registry.add({"task_submit",
                              "Queues a signed transaction that submits a task (native, or a call to 0x…5103).",
                              {{"transaction", Kind::data, true, "the signed envelope"}},
                              {"hash", "the transaction's hash; its receipt's log TaskSubmitted holds the task's id"},
                              {{kInvalidParams, "not a task_submit transaction"}},
                              {},
                              [backend](const Call& call) -> Result { return submit(backend, call); }}));
    QUERN_CHECK(registry.add(
        {"task_estimate",
         "What a task would cost before anything is signed: work units, the parts of the escrow at the price cap, "
         "bonds, gas.",
         {{"spec", Kind::object, true, "task_submit's payload, as in the spec of task_get"},
          {"from", Kind::address, false, "the submitter, for the gas estimate"}},
         {"object",
          "work units as numbers or quantities, amounts in grains; gas is null, with gasError, when the "
          "transaction would fail now"},
         {{kInvalidParams, "json.*: a field is missing, misspelled or of the wrong type"},
          {kServerError, "task.*, plan.*, program.*: the specification is not valid"}},
         {},
         [backend](const Call& call) -> Result { return estimate(backend, call); }}));
    QUERN_CHECK(registry.add(
        {"task_get",
         "A task with its whole record and its claims that are not settled.",
         {{"task", Kind::number, true, "the task's id"}},
         {"object or null",
          "the record's fields, stateName; heldUntil: market time from which a tick pays what is held of the "
          "reward to its solver, null when nothing is; claim: the first one that is not settled, after the end the "
          "last one, as in claim_get, null before a solver starts; nextClaim: of a task with tranches "
          "the one after it, which is worked on while that is verified, or null; null when unknown or "
          "deleted after its retention"},
         {},
         {},
         [backend](const Call& call) -> Result {
             QUERN_RPC_TRY(const auto state, backend.chain->state({}));
             QUERN_RPC_TRY(auto task, read_object<Task>(*state, call.number(0)));
             if (!task) return json::Value();
             QUERN_RPC_TRY(const auto shown, with_claims(*state, std::move(*task)));
             return task_json(shown, *backend.market);
         }}));
    QUERN_CHECK(registry.add(
        {"claim_get",
         "What one seat of a task has done in one stretch of its work, in one round: a settled one until two later "
         "stretches are, void ones until theirs is, those of the last stretch as long as the task is known.",
         {{"task", Kind::number, true, "the task's id"},
          {"seat", Kind::number, false, "0 when left out: a task has one"},
          {"stretch", Kind::number, false, "0 when left out: a task's whole run, or its first tranche"},
          {"round", Kind::number, false, "the task's present one when left out"}},
         {"object or null",
          "the record's fields (id: task, seat, stretch, round), firstStep and lastStep of the stretch, stateName "
          "(working, proved, custody, committing, revealing, challenge, disputed, settled, void), losses as numbers; "
          "reports: of the verifiers that were drawn last, each with the record's fields, by place, which challenges "
          "name; custody: its custodians' record, custodians in their order, null where it has none; null when nobody "
          "has begun"},
         {{kInvalidParams, "seat, stretch or round is out of range"}},
         {},
         [backend](const Call& call) -> Result { return claim(backend, call); }}));
    QUERN_CHECK(registry.add(
        {"proof_get",
         "What a settled task leaves for ever: that training by this plan, from this state and over these data, led to "
         "that state.",
         {{"task", Kind::number, true, "the task's id"},
          {"seat", Kind::number, false, "0 when left out: a task has one"}},
         {"object or null",
          "submission, plan: hashes (merkle_leaf) of the RLP of task_submit's payload, its imports without roots and "
          "siblings, and of its plan; slotRoot, initRoot, dataRoots (content ids), seedBeacon, finalRoot; steps; loss "
          "in the last "
          "state, lossValue as a number; passes: verifiers that replayed samples and said so, of the stretch with the "
          "fewest; settledAt, a height; imports: slots that the first state has of earlier proofs' final ones, {task, "
          "seat, slotCount, slots: [{there, here, count}]}; null while the task is not settled"},
         {{kInvalidParams, "seat is out of range"}},
         {},
         [backend](const Call& call) -> Result { return proof(backend, call); }}));
    QUERN_CHECK(registry.add(
        {"task_list",
         "Tasks by ascending id, a page at a time.",
         {{"state", Kind::any, false,
           "open, assigned, running, settled, failed, expired, cancelled, profiling (or its number); live: any that is "
           "not final, or has an open question about its last state; final; all (default)"},
          {"start", Kind::number, false, "first id of the page; 0 when left out"},
          {"limit", Kind::number, false, "tasks in the page, 100 when left out, at most 1,000"}},
         {"object", "tasks: as in task_get; next: the start of the next page, null at the end"},
         {},
         {{R"(["live",0,10])", R"({"tasks":[],"next":null})"}},
         [backend](const Call& call) -> Result { return list(backend, call); }}));
    QUERN_CHECK(registry.add(
        {"task_changes",
         "The newest block, and what changed of the live tasks since a block that the caller knows: who follows the "
         "market asks without a block first, reads task_list, and from then on asks with the block of the last answer.",
         {{"block", Kind::number, false, "the number of the block that the caller knows"},
          {"hash", Kind::hash, false, "its hash"}},
         {"object",
          "block, hash, marketMs: the newest block; changes: null when all is to be read anew, because no block is "
          "named, because that one is not of this chain or more than 127 blocks back, or because more changed than one "
          "answer holds (4,096 records, 8 MiB); else tasks, ended and disputes, with the values of now. tasks: id; "
          "task: "
          "the fields of the record that changed, absent when none did; claim, nextClaim: the same of these claims, "
          "all of "
          "them "
          "when another one was there, null when there is none any more; their reports all together when one of them "
          "changed, custody, their custodians' record, when that changed, null when it is gone. What is new comes "
          "whole, and so does what had ended and is asked about. ended: ids of tasks that "
          "are "
          "live no more (final without an open question, or deleted); disputes: ids of those that changed"},
         {},
         {},
         [backend](const Call& call) -> Result { return changes(backend, call); }}));
    return registry.add({"task_pool",
                         "What waits for a solver: open tasks and task submissions in the mempool, best price first.",
                         {{"limit", Kind::number, false, "entries, at most 1,000"}},
                         {"array", "pricePerWorkUnit, totalWork, steps, pending; task or transaction"},
                         {},
                         {{"[]", "[]"}},
                         [backend](const Call& call) -> Result {
                             return pool(backend, std::min<std::uint64_t>(call.number_or(0, kMaxPool), kMaxPool));
                         }});
}

}  // namespace quern::rpc::methods
