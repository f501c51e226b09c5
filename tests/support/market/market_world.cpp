#include "market_world.h"

#include "crypto/hash.h"
#include "crypto/merkle.h"

#include <bit>
#include <numeric>

#include "chain/exec/invariants/invariants.h"
#include "chain/exec/outlay.h"
#include "chain/market/storage.h"
#include "chain/types/event_reader.h"
#include "chain/types/post_event.h"
#include "chain/types/probe_event.h"

namespace quern::chain::exec::test {
namespace {

tensor::Tensor scalar(tensor::DType dtype, std::uint32_t word) {
    tensor::Tensor result;
    result.dtype = dtype;
    result.words = {word};
    return result;
}

constexpr std::uint32_t kConstantNode = 1;

tensor::Node constant(float value) {
    tensor::Node node;
    node.op = tensor::Op::full;
    node.immediate = std::bit_cast<std::uint32_t>(value);
    return node;
}
tensor::Node sum_of(std::uint32_t a, std::uint32_t b) {
    tensor::Node node;
    node.op = tensor::Op::elementwise;
    node.element = tensor::arith::ElementOp::add;
    node.inputs = {a, b};
    return node;
}

tensor::Program program_of(std::vector<tensor::Node> nodes) {
    tensor::Program program;
    program.nodes = std::move(nodes);
    program.slots = {{"loss", tensor::DType::f32, {}, 0}};
    program.updates = {static_cast<std::uint32_t>(program.nodes.size() - 1)};
    program.header.data = {{tensor::DataType::i32, 1}};
    program.header.loss_slot = 0;
    tensor::complete_header(program);
    if (!tensor::validate(program)) std::abort();
    return program;
}

// The node whose output is the loss after the step.
std::uint32_t update_node(const core::TaskPrograms& programs, std::uint64_t step) {
    return programs.at(step).updates.front();
}

const core::TaskPrograms& made_once(std::map<std::uint64_t, core::TaskPrograms>& made, std::uint64_t steps,
                                    const std::vector<tensor::Program>& programs, std::vector<core::PlanItem> body) {
    const auto known = made.find(steps);
    if (known != made.end()) return known->second;
    return made.emplace(steps, *core::TaskPrograms::make(programs, std::move(body))).first->second;
}

}  // namespace

TinyProgram::TinyProgram() {
    tensor::Node slot;
    slot.op = tensor::Op::slot;
    slot.attributes = {0};
    program = program_of({slot, constant(1.5F), sum_of(0, 1)});
    second = program_of({slot, constant(1.5F), sum_of(0, 1), constant(-0.375F), sum_of(2, 3)});
    data = tensor::MemoryData({{7, 0, 0, 0}});
    init = {scalar(tensor::DType::f32, 0)};
    prover = std::make_unique<core::ProgramProver>(program);
}

const core::TaskPrograms& TinyProgram::programs(std::uint64_t steps) const {
    static std::map<std::uint64_t, core::TaskPrograms> made;
    return made_once(made, steps, {program}, core::plain_body(steps));
}

const core::TaskPrograms& TinyProgram::both(std::uint64_t steps) const {
    static std::map<std::uint64_t, core::TaskPrograms> made;
    std::vector<core::PlanItem> body{core::plan_step(0), core::plan_step(1)};
    if (steps > 3) body = {core::plan_repeat(steps / 2, body)};
    if (steps % 2 != 0) body.push_back(core::plan_step(0));
    return made_once(made, steps, {program, second}, body);
}

const core::TaskPrograms& TinyProgram::tolerant(std::uint64_t steps) const {
    static std::map<std::uint64_t, core::TaskPrograms> made;
    tensor::Program read = program;
    read.header.data = {{tensor::DataType::i32, 1}, {tensor::DataType::f32, 7}, {tensor::DataType::f32, 1'024 * steps}};
    tensor::complete_header(read);
    return made_once(made, steps, {read}, core::plain_body(steps));
}

const TinyProgram& tiny() {
    static const TinyProgram program;
    return program;
}

History compute_history(std::uint64_t steps, std::uint64_t altered_step, std::uint32_t mask, std::uint64_t stride) {
    return compute_history(tiny().programs(steps), altered_step, mask, stride);
}

namespace {

// Goes on from the last of these states.
History compute_after(std::vector<tensor::State> states, const core::TaskPrograms& programs, std::uint64_t altered_step,
                      std::uint32_t mask, std::uint64_t stride) {
    History history;
    history.programs = &programs;
    history.stride = stride;
    history.altered_step = altered_step;
    history.mask = mask;
    history.states = std::move(states);
    const auto seed = tensor::seed_tensor({});
    for (std::uint64_t step = history.states.size(); step <= programs.plan.steps(); ++step) {
        const std::uint32_t update = update_node(programs, step);
        tensor::Executor executor(programs.at(step), tensor::arith::Backend::scalar, nullptr);
        const auto outputs = executor.run_altered(history.states.back(), tiny().data, seed,
                                                  [&](std::uint32_t node, tensor::Tensor& output) {
                                                      if (step == altered_step && node == update)
                                                          output.words[0] ^= mask;
                                                  });
        history.states.push_back({outputs[update]});
    }
    for (const auto& state : history.states) history.step_roots.push_back(tensor::state_root(state));
    for (std::uint64_t step = 0; step < history.step_roots.size(); step += stride)
        history.roots.push_back(history.step_roots[step]);
    history.root = core::history_root(history.roots);
    return history;
}

}  // namespace

History compute_history(const core::TaskPrograms& programs, std::uint64_t altered_step, std::uint32_t mask,
                        std::uint64_t stride, const History* base, std::uint64_t from) {
    std::vector<tensor::State> states{tiny().init};
    if (base != nullptr)
        states.assign(base->states.begin(), base->states.begin() + static_cast<std::ptrdiff_t>(from) + 1);
    return compute_after(std::move(states), programs, altered_step, mask, stride);
}

History compute_history_from(const tensor::State& first, const core::TaskPrograms& programs, std::uint64_t altered_step,
                             std::uint32_t mask, std::uint64_t stride) {
    return compute_after({first}, programs, altered_step, mask, stride);
}

std::vector<Hash32> History::roots_of(const market::Stretch& stretch) const {
    const auto first = roots.begin() + static_cast<std::ptrdiff_t>(stretch.before / stride);
    return {first, first + static_cast<std::ptrdiff_t>(stretch.steps / stride) + 1};
}

ReportData make_report(const TaskClaim& live, const types::Address& verifier, const History& history, bool pass,
                       const Hash32& rival_root, std::uint64_t randomness, std::uint32_t tile_mask) {
    const auto& [task, claim, reports, custody] = live;
    ReportData report;
    const auto stretch = market::stretch_of(live);
    const auto drawn = core::segments_of(task, claim, verifier);
    report.probes = core::draw_probes(claim.verify_beacon, verifier, drawn, task.spec.work.interval,
                                      history.programs->plan, stretch.before);
    std::vector<core::ProbeResult> results;
    for (const auto& probe : report.probes) {
        tensor::Executor executor(history.programs->at(probe.step), tensor::arith::Backend::scalar, nullptr);
        const auto outputs =
            executor.run_all(history.states[probe.step - 1], tiny().data, tensor::seed_tensor(claim.seed_beacon));
        core::ProbeResult result;
        result.words = tensor::read_tile(outputs[probe.node], 0);
        if (results.empty()) result.words[0] ^= tile_mask;
        results.push_back(result);
    }
    const Hash32 r = crypto::sha256(Uint256(randomness).to_be32());
    report.sealed = *core::seal_report(verifier, pass, rival_root, results, r);
    return report;
}

core::ProbeChallenge open_probe(const ReportData& data, const core::ProgramProver& prover) {
    const auto& leaves = core::opened_leaves(data.sealed, data.sealed.true_index);
    const auto& probe = data.probes.front();
    core::ProbeChallenge opening;
    opening.segment = probe.segment;
    opening.probe = probe.probe;
    opening.tile_hash = leaves[1];
    opening.path = crypto::merkle_path(leaves, 1);
    opening.node = prover.node(probe.node);
    return opening;
}

core::DisputeParty party_of(const TaskClaim& live, const History& history, std::uint64_t probe_step,
                            std::uint64_t probe_node, std::uint32_t probe_mask) {
    core::DisputeParty party;
    party.programs = history.programs;
    party.history = history.roots_of(market::stretch_of(live));
    party.state_before = [&history](std::uint64_t step) -> Expected<tensor::State> { return history.states[step - 1]; };
    party.states_of = [&history](std::uint64_t first, std::uint64_t last) -> Expected<std::vector<Hash32>> {
        return std::vector(history.step_roots.begin() + static_cast<std::ptrdiff_t>(first),
                           history.step_roots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    };
    party.data = &tiny().data;
    party.seed = tensor::seed_tensor(live.claim.seed_beacon);
    party.alter = [&programs = *history.programs, altered = history.altered_step, mask = history.mask, probe_step,
                   probe_node, probe_mask](std::uint64_t step, std::uint32_t node, tensor::Tensor& output) {
        if (step == altered && node == update_node(programs, step)) output.words[0] ^= mask;
        if (step == probe_step && node == probe_node) output.words[0] ^= probe_mask;
    };
    return party;
}

core::DisputeParty clumsy_party_of(const TaskClaim& live, const History& history, std::uint32_t mask) {
    core::DisputeParty party = party_of(live, history);
    party.alter = [&history, mask](std::uint64_t step, std::uint32_t node, tensor::Tensor& output) {
        if (node == kConstantNode) output.words[0] ^= mask;
        if (node == update_node(*history.programs, step)) output.words[0] = history.loss(step);
    };
    return party;
}

Bytes history_opening(const History& history) {
    return core::encode(core::HistoryChallenge{core::history_path(history.roots, 0)});
}

Bytes history_opening(const History& history, const market::Stretch& stretch) {
    return core::encode(core::HistoryChallenge{core::history_path(history.roots_of(stretch), 0)});
}

World::World() {
    block_.emplace(static_cast<const state::StateReader&>(committed_));
    auto& market = params.market;
    market.dispute_cost = 10;
    market.storage_deposit_per_byte = 3;
    market.forced_error_inverse = 0;     // but in forced_test.cpp
    market.held_percent = 0;             // but in held_test.cpp
    market.challenge_stake_percent = 0;  // a challenge stakes 1,000 whatever the task pays; no genesis may say so
    market.dispute_clock_s = 20;
    market.unbonding_blocks = 40;
    params.epoch_length = 4;
    market.retention_s = 10;
    params.max_idle_ms = 200;  // a second is the most that a block is in market time, and twelve are a window
    market.min_window_s = 12;
}

void World::begin() {
    ++height;
    auto context = block_context(height);
    context.elapsed_ms = block_ms;
    execution = std::make_unique<BlockExecution>(params, state(), context);
    execution->begin();
}

Result World::send(const types::Address& from, NativeKind kind, const Bytes& payload) {
    return send_transaction(from, native(state().account_or_empty(from).nonce, kind, payload));
}

types::Transaction World::call_transaction(const types::Address& from, NativeKind kind, const Bytes& payload) const {
    auto tx = transfer(state().account_or_empty(from).nonce, params::reserved_address(kind), 0);
    tx.data = *types::abi::encode_call(kind, payload);
    tx.gas_limit = 6'000'000;
    return tx;
}

Result World::send_transaction(const types::Address& sender, const types::Transaction& tx) {
    const auto balance = [&] { return state().account_or_empty(sender).balance; };
    const Uint256 before = balance();
    const std::size_t receipts = execution->receipts().size();
    if (before_transaction) before_transaction();
    auto result = execution->apply(from(sender, tx));
    if (after_transaction && execution->receipts().size() > receipts)
        after_transaction(from(sender, tx), last_receipt());
    // The mempool counts on it: nothing but fee, value and outlay leaves the sender's balance.
    Uint256 most = before - tx.value - outlay_of(params, tx);
    if (execution->receipts().size() > receipts)
        most -= last_receipt().effective_gas_price * Uint256(last_receipt().gas_used);
    if (execution->receipts().size() > receipts)
        for (const auto& log : last_receipt().logs)
            if (const auto posted = types::read_event<types::DisputePosted>(log))
                quern::test::remember_post(*core::decode_split_move(posted->post));
    if (result.band == Band::ok) {
        EXPECT_GE(balance(), most) << "outlay_of() of kind " << int{tx.native_kind};
    }
    return result;
}

Status World::finish() {
    auto status = execution->finish();
    fold();
    return status;
}

namespace {

// Objects are no larger than what deposits count for them.
void expect_paid_for(const Bytes& key, const Bytes& value) {
    const auto prefix = static_cast<types::ObjectPrefix>(key.at(0));
    if (prefix == types::ObjectPrefix::dispute) {
        EXPECT_LE(value.size(), market::kDisputeBytes);
    } else if (prefix == types::ObjectPrefix::report) {
        EXPECT_LE(value.size(), market::kReportBytes);
    } else if (prefix == types::ObjectPrefix::challenge) {
        EXPECT_LE(value.size(), market::kChallengeBytes);
    } else if (prefix == types::ObjectPrefix::custody) {
        EXPECT_LE(value.size(), market::custody_bytes(types::decode_record<types::Custody>(value)->custodians.size()));
    }
}

}  // namespace

void World::fold() {
    if (trace) {
        Bytes all = to_bytes(trace->view());
        for (const auto& [address, account] : block_->changed_accounts()) {
            append(all, address);
            append(all, account.balance.to_be32());
        }
        for (const auto& [key, value] : block_->changed_native()) {
            append(all, key);
            if (value) append(all, *value);
        }
        if (execution)
            for (const auto& receipt : execution->receipts()) append(all, types::encode_stored(receipt));
        trace = crypto::sha256(all);
    }
    if (execution)
        for (const auto& receipt : execution->receipts())
            for (const auto& log : receipt.logs)
                if (auto revealed = types::read_event<types::ProbesRevealed>(log))
                    probes[revealed->result_root] = std::move(revealed->probes);
    for (const auto& [address, account] : block_->changed_accounts()) committed_.set_account(address, account);
    for (const auto& [key, value] : block_->changed_native()) {
        if (value) expect_paid_for(key, *value);
        if (value)
            committed_.set_native(key, *value);
        else
            committed_.erase_native(key);
    }
    block_.emplace(static_cast<const state::StateReader&>(committed_));
}

Status World::check_from_genesis() {
    fold();
    return invariants::check_all(committed_, params);
}

void World::skip(std::uint64_t blocks) {
    for (std::uint64_t i = 0; i < blocks; ++i) {
        begin();
        const auto status = finish();
        EXPECT_TRUE(status) << status.error().to_string();
    }
}

void World::skip_to(std::uint64_t next_height) {
    while (height + 1 < next_height) skip(1);
}

void World::skip_until(std::uint64_t market_time) {
    while (market_ms() + std::min(block_ms, params::kMaxBlockIdles * params.max_idle_ms) < market_time) skip(1);
}

void World::skip_until_due(std::uint64_t id) {
    const auto waiting = live(id);
    skip_until(deadline(id));
    for (const auto& anchor :
         {market::draw_anchor(waiting.task), market::draw_anchor(waiting.claim, custody(waiting.claim.id))})
        if (anchor) skip_to(market::draw_height(*anchor));
}

std::optional<types::Custody> World::custody(const types::ClaimId& id) const {
    return *state().load<types::Custody>(id);
}

Result World::tick(std::uint64_t task) {
    return one(address(0x71c), NativeKind::tick, types::TickPayload{types::TickObject::task, task});
}

template <class T>
std::shared_ptr<const T> World::shared(const state::Overlay& overlay, const Bytes& key, std::uint64_t id,
                                       std::map<std::uint64_t, Decoded<T>>& cache) {
    auto stored = overlay.native(key).value_or(Bytes{});
    auto& [bytes, object] = cache[id];
    if (object == nullptr || !equal(bytes, stored)) {
        object = std::make_shared<const T>(*types::decode_record<T>(stored));
        bytes = std::move(stored);
    }
    return object;
}

std::shared_ptr<const types::Task> World::shared_task(std::uint64_t id) const {
    return shared(state(), types::key_of<types::Task>(id), id, tasks_);
}

std::shared_ptr<const TaskClaim> World::shared_live(std::uint64_t id) const {
    auto live = std::make_shared<TaskClaim>();
    live->task = *shared_task(id);
    if (const auto claim = types::present_claim(live->task)) take_claim(*claim, *live);
    return live;
}

void World::take_claim(const types::ClaimId& id, TaskClaim& live) const {
    const std::uint64_t number = 2 * id.task + id.stretch % 2;
    live.claim = *shared(state(), types::key_of<types::Claim>(id), number, claims_);
    for (std::uint8_t place = 0; place < live.claim.drawn; ++place)
        live.reports.push_back(*shared(state(), types::key_of<types::VerifierReport>(id, place),
                                       number * params::kMaxVerifiers + place, reports_));
    live.custody = custody(id);
}

std::vector<std::shared_ptr<const TaskClaim>> World::shared_claims(std::uint64_t id) const {
    std::vector<std::shared_ptr<const TaskClaim>> claims{shared_live(id)};
    if (const auto next = types::next_claim(claims.front()->task)) {
        auto live = std::make_shared<TaskClaim>();
        live->task = claims.front()->task;
        take_claim(*next, *live);
        claims.push_back(live);
    }
    return claims;
}

std::optional<types::Claim> World::stored_claim(const types::ClaimId& id) const {
    return *state().load<types::Claim>(id);
}

TaskClaim World::live_stretch(std::uint64_t id, std::uint32_t stretch) const {
    const auto now = task(id);
    TaskClaim live{now, {}, {}, {}};
    take_claim({id, 0, stretch, now.round}, live);
    return live;
}

types::Claim World::claim(std::uint64_t id, std::uint8_t round) const {
    return **state().load<types::Claim>(types::ClaimId{id, 0, 0, round});
}

std::uint64_t World::deadline(std::uint64_t id) const {
    const auto waiting = shared_live(id);
    return waiting->task.state == TaskState::running ? waiting->claim.deadline : waiting->task.deadline;
}

std::string World::reason(std::uint64_t id) const {
    const auto waiting = shared_live(id);
    return waiting->task.state == TaskState::running ? waiting->claim.reason : waiting->task.reason;
}

std::shared_ptr<const types::Dispute> World::shared_dispute(std::uint64_t id) const {
    return shared(state(), types::key_of<types::Dispute>(id), id, disputes_);
}

bool World::exists(std::uint64_t id) const {
    return state().native(types::object_key(types::ObjectPrefix::task, id)).has_value();
}

std::size_t World::bytes_of(std::uint64_t id) const {
    std::size_t bytes = state().native(types::key_of<types::Task>(id)).value().size();
    for (const auto& [key, value] :
         state().native_range(types::object_key(types::ObjectPrefix::claim, id), {}, 1'000)) {
        bytes += value.size();
        const auto claim = *types::decode_record<types::Claim>(value);
        for (std::uint8_t place = 0; place < claim.drawn; ++place)
            bytes += state().native(types::key_of<types::VerifierReport>(claim.id, place)).value().size();
        bytes += state().native(types::key_of<types::Custody>(claim.id)).value_or(Bytes{}).size();
        for (const std::uint64_t number : claim.disputes) {
            const auto stored = state().native(types::key_of<types::Dispute>(number)).value();
            if (types::decode_record<types::Dispute>(stored)->deposit.is_zero()) bytes += stored.size();
        }
    }
    return bytes;
}

std::optional<types::ProofRecord> World::proof(std::uint64_t task, std::uint16_t seat) const {
    const auto bytes = state().native(types::key_of<types::ProofRecord>(task, seat));
    if (!bytes) return std::nullopt;
    return types::decode_record<types::ProofRecord>(*bytes).value();
}

types::RoleBond World::bond(Role role, const types::Address& of) const {
    Bytes id{static_cast<std::uint8_t>(role)};
    append(id, of);
    const auto stored = state().native(types::object_key(types::ObjectPrefix::role_bond, id));
    return stored ? *types::decode_record<types::RoleBond>(*stored) : types::RoleBond{};
}

types::Globals World::globals() const {
    return *types::decode_record<types::Globals>(*state().native(types::object_key(types::ObjectPrefix::globals)));
}

void World::bond_role(const types::Address& of, Role role, const Uint256& amount) {
    const auto result = one(of, NativeKind::bond, types::BondPayload{role, amount});
    EXPECT_EQ(result.band, Band::ok) << result.to_string();
}

types::TaskSubmitPayload tiny_spec(std::uint64_t steps, std::uint64_t interval) {
    return spec_of(tiny().programs(steps), interval);
}

namespace {

constexpr std::uint32_t kProfiledSegments = core::kMinProfiledSegments;
constexpr std::uint64_t kProfilingSeconds = 40;
std::uint32_t word(float number) { return std::bit_cast<std::uint32_t>(number); }

}  // namespace

types::TaskSubmitPayload profiled_spec(std::uint64_t steps, std::uint64_t interval, std::uint32_t profilers) {
    auto spec = spec_of(tiny().tolerant(steps), interval);
    spec.data_roots = {tiny().data.roots()[0], {}, {}};
    spec.work.mode = types::TaskMode::tolerance;
    spec.profiling = {profilers, kProfiledSegments, kProfilingSeconds, word(1e-2F), word(1e-1F), word(16), 0, 0, 0, 0};
    return spec;
}

compute::tolerance::Profile some_profile(float noise, float movement) {
    using compute::tolerance::Measure;
    compute::tolerance::Profile profile(kProfiledSegments);
    float more = 1;
    for (auto& measured : profile) {
        measured[Measure::l2] = word(noise * more);
        measured[Measure::linf] = word(10 * noise * more);
        measured[Measure::moments] = word(2 * noise * more);
        measured[Measure::rest] = word(noise);
        measured[Measure::movement] = word(movement * more);
        more += 1.0F / 64;
    }
    return profile;
}

types::TaskSubmitPayload spec_of(const core::TaskPrograms& programs, std::uint64_t interval) {
    types::TaskSubmitPayload spec;
    spec.plan = programs.plan.bytes();
    for (const auto& program : programs.programs) {
        spec.header_paths.push_back(core::ProgramProver(program).header_path());
        spec.contents.programs.push_back(
            crypto::sha256(as_bytes(spec.contents.programs.empty() ? "program" : "second program")));
    }
    spec.init_root = tiny().init_root();
    spec.data_roots = tiny().data.roots();
    spec.contents.init = crypto::sha256(as_bytes("init"));
    spec.work.interval = interval;
    spec.work.verifiers = 2;
    spec.work.samples = 20;
    spec.money.price_cap = 10;
    spec.money.tax = 33;
    spec.windows.bid_s = spec.windows.start_s = spec.windows.heartbeat_s = 12;
    spec.windows.prove_s = spec.windows.verify_s = spec.windows.challenge_s = 12;
    return spec;
}

types::TaskCheckpointPayload checkpoint_of(const types::Task& task, const History& history, std::uint64_t step) {
    types::TaskCheckpointPayload payload;
    payload.task = task.id;
    payload.step = step;
    payload.state_root = history.step_roots[step];
    payload.content = crypto::sha256(as_bytes("checkpoint"));
    payload.loss = history.loss(step);
    return payload;  // one slot: the loss path is empty
}

types::TaskProvePayload proof_of(const types::Task& task, const History& history, std::uint32_t stretch) {
    const auto steps = market::stretch_of(task, stretch);
    const auto roots = history.roots_of(steps);
    types::TaskProvePayload payload;
    payload.task = task.id;
    payload.history_root = core::history_root(roots);
    payload.history_content =
        crypto::sha256(as_bytes(stretch == 0 ? "history" : "history of " + std::to_string(stretch)));
    if (task.custodians != 0) payload.custody_content = crypto::sha256(as_bytes("manifest"));
    if (core::claims_data(task.spec)) payload.claimed_content = crypto::sha256(as_bytes("claimed"));
    payload.largest.resize(
        std::min<std::uint64_t>(task.spec.work.largest, market::segment_count(steps.steps, task.spec.work.interval)));
    std::iota(payload.largest.begin(), payload.largest.end(), 0);
    payload.initial_path = core::history_path(roots, 0);
    payload.final_root = roots.back();
    payload.final_path = core::history_path(roots, roots.size() - 1);
    payload.loss = history.loss(steps.last());
    return payload;
}

}  // namespace quern::chain::exec::test
