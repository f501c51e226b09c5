// Random market lifecycles: several tasks at once, with parties of which some are honest and the others bid and vanish,
// cheat, accuse falsely, keep silent, leave while they are needed, fill places that others need or send nonsense in
// every state. After each block: money conserved to the grain (all invariants, from genesis), no honest party slashed
// and an honest solver's proof paid whatever verifiers did (but for a majority that says that the data is missing), and
// no wrong one paid that an honest whistleblower could see. After all have gone silent, ticks alone end and delete
// every task and free every bond. QUERN_PROPERTY_RUNS sets the number of lifecycles; ten thousand have some 75,000
// dispute games, none of more than kMostMoves moves.
#include <cstdlib>
#include <map>
#include <set>

#include "base/rng.h"
#include "chain/market/bonds.h"
#include "chain/market/custody.h"
#include "chain/market/escrow.h"
#include "chain/market/storage.h"
#include "compute/core/state_piece.h"
#include "market_world.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::uint64_t kTasksPerWorld = 8;
constexpr std::uint64_t kSilentBlocks = 6'000;  // bound on what ticks alone take
constexpr std::uint64_t kMaxSteps = 6;
constexpr std::uint64_t kProfiledSteps = 8;  // of tasks whose limits profilers find
constexpr std::uint32_t kProbeMask = 1U << 18;
constexpr std::uint32_t kClumsyMask = 1U << 9;
constexpr std::size_t kMostChallenges = 5;  // of one whistleblower in a round
constexpr std::uint64_t kMostMoves = 24;    // of a game: a post and a pick for each of eight trees, an element, a leaf

enum class Part { submitter, solver, verifier, whistleblower, custodian };
struct Agent {
    types::Address address;
    Part part = Part::submitter;
    bool honest = true;
};

struct Statistics {
    std::map<std::string, std::uint64_t> ends;       // final state and reason
    std::map<std::string, std::uint64_t> slashes;    // by reason
    std::map<std::string, std::uint64_t> disputes;   // winner and reason
    std::uint64_t games = 0;                         // those disputes ...
    std::uint64_t most_moves = 0;                    // ... and what the longest took
    std::uint64_t paid_unverified = 0;               // honest solvers whose verifiers had left or kept silent
    std::uint64_t left = 0;                          // bonds withdrawn while they may be needed
    std::uint64_t squatted = 0;                      // commitments that only take places
    std::map<std::string, std::uint64_t> stretches;  // ends of claims of tasks with tranches
    std::uint64_t taken_over = 0;                    // tasks that went on where another solver was settled
    std::uint64_t accepted = 0;                      // held shares that their submitter let go ...
    std::uint64_t answered = 0;                      // ... pieces that were shown ...
    std::uint64_t forfeited = 0;                     // ... and shares that were lost by silence
    std::map<std::uint64_t, std::uint64_t> kept;     // settled claims with custodians, by draws of these
    std::uint64_t profiled = 0;                      // tasks whose limits were found ...
    std::uint64_t unbelieved = 0;                    // ... with profiles that were of another replay
    std::uint64_t lifecycles = 0;
    std::uint64_t blocks = 0;
    std::optional<Hash32> trace;  // as World's
};

// Tasks of three steps and more have two programs in turn.
const core::TaskPrograms& programs_of(std::uint64_t steps) {
    if (steps == kProfiledSteps) return tiny().tolerant(steps);
    return steps < 3 ? tiny().programs(steps) : tiny().both(steps);
}

// A history that goes on from where `base` was after step `from`, rightly or with one step altered.
const History& going_on(const types::Task& task, const History* base, std::uint64_t from, std::uint64_t step,
                        std::uint32_t mask) {
    static std::map<
        std::tuple<std::uint64_t, std::uint64_t, const History*, std::uint64_t, std::uint64_t, std::uint32_t>, History>
        cache;
    const auto key = std::make_tuple(task.steps, task.spec.work.stride, base, from, step, mask);
    const auto found = cache.find(key);
    if (found != cache.end()) return found->second;
    return cache.emplace(key, compute_history(programs_of(task.steps), step, mask, task.spec.work.stride, base, from))
        .first->second;
}

// What the parties of one world know beside the chain.
class Simulation {
public:
    Simulation(std::uint64_t seed, Statistics& statistics) : rng_(seed), statistics_(statistics) {
        world_.trace = statistics.trace;
    }

    void run() {
        set_up();
        const std::uint64_t all = 40 + rng_.below(100);
        const std::uint64_t honest = rng_.below(2) * rng_.below(60);
        run_blocks(Acting::all, all);
        run_blocks(Acting::honest, honest);
        run_blocks(Acting::nobody, kSilentBlocks);
        EXPECT_TRUE(live_tasks().empty()) << "a task has no exit: " << describe(live_tasks().front());
        for (const auto& agent : agents_)
            for (const auto role : {Role::solver, Role::verifier, Role::whistleblower, Role::custodian})
                EXPECT_TRUE(world_.bond(role, agent.address).locked.is_zero()) << "a lock outlived its task";
        const auto whole = world_.check_from_genesis();
        EXPECT_TRUE(whole) << whole.error().to_string();
        statistics_.lifecycles += submitted_;
        statistics_.blocks += world_.height;
        statistics_.trace = world_.trace;
    }

private:
    using Key = std::tuple<types::Address, std::uint64_t, std::uint64_t, std::uint64_t>;

    void set_up() {
        // Few places, so that they can be filled.
        world_.params.market.max_bids = 3;
        world_.params.market.held_percent = 10 * rng_.below(6);
        world_.params.market.max_commitments = 16;
        for (std::uint64_t i = 0; i < 2; ++i) add(Part::submitter, 100 + i, true);
        for (std::uint64_t i = 0; i < 4; ++i) add(Part::solver, 200 + i, rng_.below(2) == 0);
        for (std::uint64_t i = 0; i < 5; ++i) add(Part::verifier, 300 + i, rng_.below(5) < 3);
        for (std::uint64_t i = 0; i < 2; ++i) add(Part::whistleblower, 400 + i, rng_.below(2) == 0);
        if (rng_.below(3) == 0) {
            world_.params.market.custodians = 3 + rng_.below(2);
            world_.params.market.custody_fee_per_mib = rng_.below(100);
            for (std::uint64_t i = 0; i < 6; ++i) add(Part::custodian, 500 + i, rng_.below(6) < 5);
        }
        give(world_.state(), ticker_, rich_);
        world_.begin();
        for (const auto& agent : agents_) {
            if (agent.part == Part::submitter) continue;
            const Role role = agent.part == Part::solver      ? Role::solver
                              : agent.part == Part::verifier  ? Role::verifier
                              : agent.part == Part::custodian ? Role::custodian
                                                              : Role::whistleblower;
            send(agent, NativeKind::bond, types::BondPayload{role, 30'000 + rng_.below(200'000)});
        }
        ASSERT_TRUE(world_.finish());
    }
    void add(Part part, std::uint64_t number, bool honest) {
        agents_.push_back({address(number), part, honest});
        give(world_.state(), agents_.back().address, rich_);
    }

    template <types::Record T>
    bool send(const Agent& agent, NativeKind kind, const T& payload) {
        // Either way in: the handler is the same.
        return (rng_.below(8) == 0 ? world_.call(agent.address, kind, payload)
                                   : world_.send(agent.address, kind, payload))
                   .band == Band::ok;
    }

    std::vector<std::uint64_t> live_tasks() const {
        std::vector<std::uint64_t> ids;
        for (std::uint64_t id = 1; id <= submitted_; ++id)
            if (world_.exists(id)) ids.push_back(id);
        return ids;
    }
    std::string describe(std::uint64_t id) const {
        const auto live = world_.live(id);
        return std::to_string(id) + " " + types::to_string(live.task.state) + " " + types::to_string(live.claim.state) +
               " " + world_.reason(id);
    }

    enum class Acting { all, honest, nobody };  // ticks come in any case

    void run_blocks(Acting acting, std::uint64_t count) {
        for (std::uint64_t i = 0; i < count && !::testing::Test::HasFatalFailure(); ++i) {
            if (submitted_ > 0 && live_tasks().empty() && acting != Acting::all) return;
            block(acting);
        }
    }

    void block(Acting acting) {
        constexpr std::uint64_t kPacesMs[] = {1'000, 1'000, 1'000, 600, 86'400'000};  // also after halts of a day
        world_.block_ms = kPacesMs[rng_.below(std::size(kPacesMs))];
        world_.begin();
        for (const auto id : live_tasks())
            if (acting == Acting::nobody || rng_.below(3) == 0)
                world_.send(ticker_, NativeKind::tick, types::TickPayload{types::TickObject::task, id});
        if (acting != Acting::nobody) {
            for (std::size_t i = agents_.size(); i > 1; --i) std::swap(agents_[i - 1], agents_[rng_.below(i)]);
            for (const auto& agent : agents_)
                if (acting == Acting::all || (agent.honest && agent.part != Part::submitter)) act(agent);
        }
        const auto status = world_.finish();
        ASSERT_TRUE(status) << status.error().to_string() << " at height " << world_.height;
        look_back(acting);
    }

    void look_back(Acting acting) {
        for (const auto id : live_tasks()) {
            const auto task = world_.shared_task(id);
            for (const auto& each : types::unsettled_claims(*task))
                claims_.try_emplace({each.task, each.stretch, each.round}, false);
        }
        for (auto it = claims_.begin(); it != claims_.end() && !::testing::Test::HasFatalFailure();) {
            const auto [id, stretch, round] = it->first;
            ASSERT_TRUE(world_.exists(id));
            const TaskClaim live{*world_.shared_task(id), world_.stored_claim({id, 0, stretch, round}).value(), {}, {}};
            if (!types::is_final(live.claim.state)) {
                it->second = it->second || (live.claim.state >= ClaimState::proved && !live.claim.voided &&
                                            agent_at(live.claim.solver).honest);
                ++it;
                continue;
            }
            check_slashes(acting, id, live.claim.slashes);
            if (live.claim.state == ClaimState::settled) seen_slashes_[id] = 0;
            check_end(live, it->second, acting);
            it = claims_.erase(it);
        }
        for (const auto id : live_tasks()) {
            const auto task = world_.shared_task(id);
            check_slashes(acting, id, task->slashes);
            check_held(acting, *task);
            if (types::is_final(task->state) && ended_.insert(id).second)
                ++statistics_.ends[std::string(types::to_string(task->state)) + " " + task->reason];
        }
    }

    void check_held(Acting acting, const types::Task& task) {
        const bool lost = std::any_of(task.payments.begin(), task.payments.end(),
                                      [](const auto& payment) { return payment.reason == "held_forfeited"; });
        if (!lost || !forfeited_.insert(task.id).second) return;
        ++statistics_.forfeited;
        ASSERT_FALSE(acting == Acting::all && agent_at(task.seats.at(0).solver).honest)
            << "an honest solver lost its share of task " << describe(task.id);
    }

    void check_slashes(Acting acting, std::uint64_t id, const std::vector<types::SlashRecord>& slashes) {
        auto& seen = seen_slashes_[id];
        for (; seen < slashes.size(); ++seen) {
            ++statistics_.slashes[slashes[seen].reason];
            if (acting == Acting::nobody) continue;                // who stops acting is not honest any more
            if (slashes[seen].reason == "data_missing") continue;  // a majority says so, and nobody can prove it
            for (const auto& agent : agents_)
                ASSERT_FALSE(agent.honest && agent.address == slashes[seen].address)
                    << "honest party slashed: " << slashes[seen].reason << " in task " << describe(id);
        }
    }

    // Of the plan, as it was agreed: what the steps cost, and a commitment each stride.
    static Uint256 work_of(const types::Task& task, const market::Stretch& stretch) {
        Uint256 work;
        for (std::uint64_t step = stretch.before + 1; step <= stretch.last(); ++step) {
            work += Uint256(programs_of(task.steps).at(step).header.work_units);
            if (step % task.spec.work.stride == 0) work += Uint256(task.commit_work);
        }
        return work;
    }

    // What an honest solver has proved is paid, to the grain, and what was wrong and could be seen by an honest
    // whistleblower is not. `proved`: by an honest one.
    void check_end(const TaskClaim& live, bool proved, Acting acting) {
        const auto& [task, claim, reports, custody] = live;
        const auto stretch = market::stretch_of(live);
        const bool settled = claim.state == ClaimState::settled;
        if (task.spec.work.tranche != 0)
            ++statistics_.stretches[std::string(types::to_string(claim.state)) + " " + claim.reason];
        const auto& solved = solved_[{task.id, claim.id.round}];
        count_disputes(live);
        ASSERT_LE(world_.bytes_of(task.id),
                  market::stored_bytes(world_.params.market, task.spec, market::stretch_count(task)))
            << "more is stored than was paid for: " << describe(task.id);
        if (settled) {
            const auto& payments = stretch.last() == task.steps ? task.payments : claim.payments;
            const auto paid = std::find_if(payments.begin(), payments.end(), [&](const auto& payment) {
                return payment.to == claim.solver && payment.reason == "solver_reward";
            });
            ASSERT_NE(paid, payments.end()) << "unpaid " << describe(task.id);
            const Uint256 reward = claim.price * work_of(task, stretch);
            const bool ends = stretch.last() == task.steps;
            const Uint256 held = ends ? market::held_share(world_.params.market, reward) : Uint256();
            ASSERT_EQ(paid->amount, reward - held) << describe(task.id);
            ASSERT_TRUE(task.held.is_zero() || task.held == held) << describe(task.id);  // or accepted at once
            if (claim.reason == "unverified" && proved) ++statistics_.paid_unverified;
            const auto custody = world_.custody(claim.id);
            const auto fees =
                static_cast<std::size_t>(std::count_if(payments.begin(), payments.end(), [&](const auto& each) {
                    return each.reason == "custodian_fee" && each.amount == task.custody_fee;
                }));
            const bool pays = custody && !task.custody_fee.is_zero();
            ASSERT_EQ(fees, pays ? market::receipts_of(*custody, 1) : 0) << describe(task.id);
            if (custody) ++statistics_.kept[custody->draws];
            if (claim.id.round != 0 && claim.id.stretch != 0 && bases_[task.id].round != claim.id.round)
                ++statistics_.taken_over;
            bases_[task.id] = {solved.history, stretch.last(), claim.id.round};
        } else if (proved && acting != Acting::nobody) {
            ASSERT_TRUE(claim.reason == "data_missing" || claim.reason == "earlier_void")
                << "unpaid " << describe(task.id);
        }
        if (!settled || acting == Acting::nobody) return;
        const bool watched = std::any_of(agents_.begin(), agents_.end(), [](const Agent& agent) {
            return agent.part == Part::whistleblower && agent.honest;
        });
        ASSERT_FALSE(watched && solved.available && solved.history->is_altered_in(stretch))
            << "paid for a wrong result: " << describe(task.id);
    }
    void count_disputes(const TaskClaim& live) {
        for (const auto dispute_id : live.claim.disputes) {
            const auto dispute = world_.dispute(dispute_id);
            const auto result = std::to_string(static_cast<int>(dispute.winner)) + " " + dispute.reason;
            if (dispute.target != 0 && dispute.rival_role == Role::verifier)
                ++statistics_.disputes[result + " by a peer"];
            ++statistics_.disputes[result + (core::is_pass_target(dispute.target)    ? " pass"
                                             : core::is_probe_target(dispute.target) ? " probe"
                                                                                     : "")];
            ++statistics_.games;
            statistics_.most_moves = std::max(statistics_.most_moves, dispute.rounds);
            const auto game = *types::decode_record<core::Game>(dispute.game);
            if (dispute.target == 0 && game.claims[0] == truth(live).root_of(market::stretch_of(live)))
                ++statistics_.disputes[result + " against a right history"];
        }
    }

    // --- Histories ---------------------------------------------------------------------------------------------------
    struct Base {  // what the next stretch of a task goes on from
        const History* history = nullptr;
        std::uint64_t from = 0;
        std::uint32_t round = 0;
    };
    // The solver's own: from where the task was when it was assigned.
    const History& own(const types::Task& task, std::uint64_t step, std::uint32_t mask) {
        const Base& base = bases_[task.id];
        return going_on(task, base.history, base.from, step, mask);
    }
    // Of a claim: from the state that it begins with.
    const History& altered(const TaskClaim& live, std::uint64_t step, std::uint32_t mask) {
        const auto& solved = solved_[{live.task.id, live.claim.id.round}];
        return going_on(live.task, solved.history, market::stretch_of(live).before, step, mask);
    }
    const History& truth(const TaskClaim& live) { return altered(live, 0, 0); }
    // Some step of the claim's.
    std::uint64_t some_step(const Agent& agent, const TaskClaim& live, std::uint64_t occasion, std::uint64_t kind) {
        const auto stretch = market::stretch_of(live);
        return stretch.before + 1 + plan(agent, live.task.id, occasion, kind, stretch.steps);
    }

    // A choice that an agent makes once for an occasion and then keeps to.
    std::uint64_t plan(const Agent& agent, std::uint64_t task, std::uint64_t occasion, std::uint64_t kind,
                       std::uint64_t choices) {
        const Key key{agent.address, task, occasion, kind};
        const auto found = plans_.find(key);
        if (found != plans_.end()) return found->second;
        return plans_[key] = rng_.below(choices);
    }

    void act(const Agent& agent) {
        if (agent.part == Part::submitter) submit(agent);
        for (const auto id : live_tasks()) {
            if (types::is_final(world_.shared_task(id)->state)) {
                look_after(agent, *world_.shared_task(id));
                continue;
            }
            if (agent.part == Part::submitter && rng_.below(60) == 0)
                send(agent, NativeKind::task_cancel, types::TaskIdPayload{id});
            for (std::size_t i = 0; i < types::kMaxUnsettled; ++i) {
                const auto claims = world_.shared_claims(id);  // what was done about the first may change the next
                if (i == claims.size() || types::is_final(claims[i]->task.state)) break;
                const auto& live = *claims[i];
                if (agent.part == Part::solver) solve(agent, live);
                if (agent.part == Part::verifier && live.task.state == TaskState::profiling) measure(agent, live.task);
                if (agent.part == Part::verifier) verify(agent, live);
                if (agent.part == Part::custodian) keep(agent, live);
                if (agent.part == Part::whistleblower || is_drawn(agent, live)) watch(agent, live);
                if (live.claim.open_disputes > 0) dispute(agent, live);
            }
        }
        if (!agent.honest && agent.part == Part::verifier && rng_.below(40) == 0) leave_or_return(agent);
        if (!agent.honest && agent.part == Part::whistleblower && rng_.below(6) == 0) squat(agent);
        if (!agent.honest && rng_.below(20) == 0) nonsense(agent);
    }

    // Of a settled task a share is held: the submitter accepts, or asks for a piece; honest solvers answer at once.
    void look_after(const Agent& agent, const types::Task& task) {
        if (task.submitter == agent.address && rng_.below(12) == 0) {
            if (send(agent, NativeKind::task_accept, types::TaskIdPayload{task.id})) ++statistics_.accepted;
        } else if (task.submitter == agent.address && rng_.below(4) == 0) {
            send(agent, NativeKind::data_challenge, types::DataChallengePayload{task.id, 0, rng_.below(1'000)});
        }
        const bool answers = agent.part == Part::solver && (agent.honest || rng_.below(40) == 0);
        const History* history = bases_[task.id].history;  // null in the block in which it settles
        if (history == nullptr || task.asked.empty() || task.seats.at(0).solver != agent.address || !answers) return;
        const tensor::Tensor& slot = history->states.back()[0];
        const std::vector<Hash32> roots{tensor::tensor_root(slot)};
        const auto answer = core::make_piece(task.id, roots, 0, tensor::tile_hashes(slot), task.asked[0].tile,
                                             tensor::tile_bytes(tensor::read_tile(slot, 0)));
        if (send(agent, NativeKind::data_answer, answer)) ++statistics_.answered;
    }
    void submit(const Agent& agent) {
        // Once there are tables of who may be drawn.
        const bool profiled = !has_profiled_ && world_.height > world_.params.epoch_length;
        if ((submitted_ == kTasksPerWorld && !profiled) || rng_.below(4) != 0) return;
        constexpr std::uint64_t kIntervals[] = {1, 2, 3};
        const std::uint64_t interval = kIntervals[rng_.below(3)];
        const auto profilers = static_cast<std::uint32_t>(core::kMinProfilers + rng_.below(3));
        auto spec = profiled ? profiled_spec(kProfiledSteps, 1, profilers)
                             : spec_of(programs_of(interval * (1 + rng_.below(kMaxSteps / interval))), interval);
        if (rng_.below(2) == 0) spec.work.stride = spec.work.interval;
        if (rng_.below(2) == 0) spec.work.tranche = spec.work.interval * (1 + rng_.below(2));
        spec.work.verifiers = static_cast<std::uint32_t>(1 + rng_.below(3));
        spec.work.samples = static_cast<std::uint32_t>(1 + rng_.below(4));
        spec.money.price_cap = profiled ? 1 : 1 + rng_.below(20);
        spec.money.tax = rng_.below(100);
        for (auto* seconds : {&spec.windows.bid_s, &spec.windows.start_s, &spec.windows.heartbeat_s,
                              &spec.windows.prove_s, &spec.windows.verify_s, &spec.windows.challenge_s})
            *seconds = 12 + rng_.below(3);
        if (!send(agent, NativeKind::task_submit, spec)) return;
        ++submitted_;
        has_profiled_ = has_profiled_ || profiled;
    }

    // --- Solvers -----------------------------------------------------------------------------------------------------
    enum Solving : std::uint64_t { properly, no_start, stops, no_proof, abandons, cheats, withholds, solving_choices };

    std::uint64_t solving_plan(const Agent& agent, const TaskClaim& live) {
        const auto& task = live.task;
        if (agent.honest) return properly;
        const auto choice = plan(agent, task.id, task.round, 1, 2 * solving_choices);
        return choice < solving_choices ? choice : std::uint64_t{cheats};
    }
    const History& solver_history(const Agent& agent, const TaskClaim& live) {
        const auto& task = live.task;
        const auto& known = solved_[{task.id, task.round}];
        if (known.history != nullptr) return *known.history;
        if (solving_plan(agent, live) != cheats) return own(task, 0, 0);
        const std::uint64_t from = bases_[task.id].from;
        return own(task, from + 1 + plan(agent, task.id, task.round, 2, task.steps - from),
                   1U << (10 + plan(agent, task.id, task.round, 3, 10)));
    }
    // Whether the agent's bond covers a bid whatever other bids of its win.
    bool covers(const Agent& agent, const types::Task& task) const {
        const auto bond = world_.bond(Role::solver, agent.address);
        Uint256 needed = market::seat_bond(world_.params.market, task);
        for (const auto id : live_tasks()) {
            const auto other = world_.shared_task(id);
            for (const auto& bid : other->bids)
                if (id != task.id && bid.bidder == agent.address)
                    needed += market::seat_bond(world_.params.market, *other) - bid.deposit;
        }
        return bond.bonded - bond.locked >= needed;
    }
    // The honest measure; the others may leave it, guess, or not show what they have sealed.
    enum Measuring : std::uint64_t { measures, leaves_it, guesses, hides, measuring_choices };
    void measure(const Agent& agent, const types::Task& task) {
        const auto& all = task.profiling.profilers;
        const auto mine =
            std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.address == agent.address; });
        const auto how = agent.honest ? std::uint64_t{measures} : plan(agent, task.id, 0, 50, measuring_choices);
        if (mine == all.end() || how == leaves_it) return;
        const float noise = 1e-6F * static_cast<float>(1 + mine->address.data[19] % 4);
        const Bytes shown = core::encode_profile(some_profile(noise, how == guesses ? 2.5F : 3.0F));
        const Hash32 salt = crypto::sha256(mine->address);
        if (!task.profiling.revealing) {
            if (mine->commitment.is_zero())
                send(agent, NativeKind::profile_commit,
                     types::ProfileCommitPayload{task.id, core::profile_commitment(mine->address, shown, salt)});
        } else if (mine->replay.is_zero() && how != hides) {
            if (how == guesses) ++statistics_.unbelieved;
            if (send(agent, NativeKind::profile_reveal, types::ProfileRevealPayload{task.id, shown, salt}) &&
                world_.shared_task(task.id)->state == TaskState::open)
                ++statistics_.profiled;
        }
    }

    void solve(const Agent& agent, const TaskClaim& live) {
        const auto& task = live.task;
        const auto& claim = live.claim;
        const auto mine = solving_plan(agent, live);
        if (task.state == TaskState::open && rng_.below(2) == 0) {
            if (agent.honest && !covers(agent, task)) return;
            send(agent, NativeKind::task_bid,
                 types::TaskBidPayload{task.id, 0, 1 + rng_.below(task.spec.money.price_cap.low_u64())});
            return;
        }
        if (task.state == TaskState::assigned) {
            if (task.seats.at(0).solver == agent.address && mine != no_start)
                send(agent, NativeKind::task_start, types::TaskIdPayload{task.id});
            return;
        }
        if (claim.state != ClaimState::working || claim.solver != agent.address) return;
        if (mine == abandons && rng_.below(3) == 0)
            send(agent, NativeKind::task_abandon, types::TaskIdPayload{task.id});
        if (mine == stops && claim.step > 0) return;
        const auto& history = solver_history(agent, live);
        solved_[{task.id, task.round}] = {&history, mine != withholds};
        const std::uint64_t last = market::stretch_of(live).last();
        if (claim.step + task.spec.work.interval <= last)
            send(agent, NativeKind::task_checkpoint,
                 checkpoint_of(task, history, claim.step + task.spec.work.interval));
        else if (mine != no_proof || last < task.steps)
            send(agent, NativeKind::task_prove, proof_of(task, history, claim.id.stretch));
    }

    // --- Verifiers ---------------------------------------------------------------------------------------------------
    enum Verifying : std::uint64_t {
        diligently,
        no_receipt,
        says_missing,
        no_commit,
        no_reveal,
        fails_falsely,
        passes_blindly,
        wrong_tiles,
        verifying_choices
    };
    struct Solved {
        const History* history = nullptr;
        bool available = true;
    };

    static std::uint64_t part(const TaskClaim& live) { return live.task.round * 8 + live.claim.id.stretch; }
    static std::uint64_t occasion(const TaskClaim& live) { return part(live) * 8 + live.claim.draws; }
    std::uint64_t verifying_plan(const Agent& agent, const TaskClaim& live) {
        const auto& task = live.task;
        return agent.honest ? std::uint64_t{diligently} : plan(agent, task.id, occasion(live), 4, verifying_choices);
    }
    static bool sampled(const TaskClaim& live, const types::Address& verifier, std::uint64_t step) {
        const auto& task = live.task;
        const auto& claim = live.claim;
        const auto stretch = market::stretch_of(live);
        const auto drawn = core::segments_of(task, claim, verifier);
        return std::binary_search(drawn.begin(), drawn.end(),
                                  core::segment_of(step, task.spec.work.interval, stretch.before));
    }
    // The history that a FAIL stands for, or nullptr for PASS.
    const History* verdict(const Agent& agent, const TaskClaim& live, const Solved& solved) {
        const auto mine = verifying_plan(agent, live);
        const auto stretch = market::stretch_of(live);
        if (mine == fails_falsely) {
            const auto& rival = altered(live, some_step(agent, live, occasion(live), 5), 1U << 21);
            return rival.root_of(stretch) == solved.history->root_of(stretch) ? nullptr : &rival;
        }
        if (mine != diligently || !solved.history->is_altered_in(stretch)) return nullptr;
        return sampled(live, agent.address, solved.history->altered_step) ? &truth(live) : nullptr;
    }
    ReportData report(const Agent& agent, const TaskClaim& live, const Solved& solved) {
        const auto& task = live.task;
        const History* rival = verdict(agent, live, solved);
        const std::uint32_t mask = verifying_plan(agent, live) == wrong_tiles ? kProbeMask : 0;
        return make_report(live, agent.address, rival != nullptr ? *rival : *solved.history, rival == nullptr,
                           rival != nullptr ? rival->root_of(market::stretch_of(live)) : Hash32{}, task.id, mask);
    }
    // The honest say what is; the others may keep silent, or say the contrary.
    void keep(const Agent& agent, const TaskClaim& live) {
        const auto custody = world_.custody(live.claim.id);
        if (live.claim.state != ClaimState::custody || !custody) return;
        const bool is_there = solved_[{live.task.id, live.task.round}].available;
        const auto how = agent.honest ? 0 : plan(agent, live.task.id, custody->draws, 40, 3);
        for (const auto& custodian : custody->custodians)
            if (custodian.address == agent.address && custodian.receipt == 0 && how != 1)
                send(agent, NativeKind::custody_receipt,
                     types::CustodyReceiptPayload{live.task.id, live.claim.id.stretch, is_there == (how == 0)});
    }
    void verify(const Agent& agent, const TaskClaim& live) {
        const auto& task = live.task;
        const auto& claim = live.claim;
        const types::VerifierReport* mine = nullptr;
        for (const auto& entry : live.reports)
            if (entry.verifier == agent.address) mine = &entry;
        if (mine == nullptr || mine->slashed()) return;
        const auto& solved = solved_[{task.id, task.round}];
        const auto how = verifying_plan(agent, live);
        if (claim.state == ClaimState::custody && mine->custody == 0 && how != no_receipt)
            send(agent, NativeKind::custody_receipt,
                 types::CustodyReceiptPayload{task.id, claim.id.stretch,
                                              how == says_missing ? false : solved.available});
        if (claim.state == ClaimState::committing && mine->commitment.is_zero() && how != no_commit)
            send(agent, NativeKind::verify_commit,
                 types::VerifyCommitPayload{task.id, claim.id.stretch, report(agent, live, solved).sealed.commitment});
        if (claim.state == ClaimState::revealing && !mine->commitment.is_zero() && !mine->revealed() &&
            how != no_reveal) {
            const auto data = report(agent, live, solved);
            auto reveal = core::make_reveal(data.sealed, task.id, data.sealed.true_index, claim.id.stretch);
            const History* rival = verdict(agent, live, solved);
            if (rival != nullptr)
                reveal.initial_path = core::history_path(rival->roots_of(market::stretch_of(live)), 0);
            send(agent, NativeKind::verify_reveal, reveal);
        }
    }

    // --- Whistleblowers ----------------------------------------------------------------------------------------------
    struct Challenge {
        types::ChallengeRevealPayload reveal;
        std::uint64_t committed_at = 0;
        bool withheld = false;
        bool revealed = false;
    };
    using Challenges = std::vector<Challenge>;
    static bool made(const Challenges& before, const types::ChallengeRevealPayload& reveal) {
        return std::any_of(before.begin(), before.end(), [&](const Challenge& challenge) {
            return challenge.reveal.target == reveal.target && challenge.reveal.claim == reveal.claim;
        });
    }
    static bool is_drawn(const Agent& agent, const TaskClaim& live) {
        return std::any_of(live.reports.begin(), live.reports.end(),
                           [&](const auto& report) { return report.verifier == agent.address; });
    }
    // A challenge that the agent wants to make: of the wrong history, of a report that passed it, or of a wrong probe
    // tile; a dishonest one of right ones. A verifier's are about its peers: the chain takes no others from its bond.
    std::optional<types::ChallengeRevealPayload> wanted(const Agent& agent, const TaskClaim& live,
                                                        const Challenges& before) {
        const auto& task = live.task;
        const auto& claim = live.claim;
        const auto& solved = solved_[{task.id, task.round}];
        if (solved.history == nullptr || !solved.available) return std::nullopt;
        types::ChallengeRevealPayload reveal;
        reveal.task = task.id;
        reveal.stretch = claim.id.stretch;
        reveal.salt = Uint256(rng_.u64()).to_be32();
        const bool honest_peer = agent.honest && agent.part == Part::verifier;
        if (!honest_peer && accuses_history(agent, live, solved, reveal) && !made(before, reveal)) return reveal;
        for (std::size_t i = 0; i < live.reports.size(); ++i) {
            const auto& entry = live.reports[i];
            if (!entry.revealed() || !entry.pass || entry.slashed()) continue;
            reveal.target = core::kPassTarget + static_cast<std::uint32_t>(i);
            if (accuses_pass(agent, live, solved, entry, reveal) && !made(before, reveal)) return reveal;
            if (solved.history->is_altered_in(market::stretch_of(live))) continue;
            reveal.target = static_cast<std::uint32_t>(1 + i);
            if (accuses_probe(agent, live, solved, entry, reveal) && !made(before, reveal)) return reveal;
        }
        return std::nullopt;
    }
    static bool claims(const TaskClaim& live, const History& rival, const Solved& solved,
                       types::ChallengeRevealPayload& reveal) {
        const auto stretch = market::stretch_of(live);
        reveal.claim = rival.root_of(stretch);
        if (reveal.claim == solved.history->root_of(stretch)) return false;
        reveal.opening = history_opening(rival, stretch);
        return true;
    }
    bool accuses_history(const Agent& agent, const TaskClaim& live, const Solved& solved,
                         types::ChallengeRevealPayload& reveal) {
        const auto& task = live.task;
        if (agent.honest)
            return solved.history->is_altered_in(market::stretch_of(live)) && claims(live, truth(live), solved, reveal);
        return plan(agent, task.id, part(live), 6, 4) == 0 &&
               claims(live, altered(live, some_step(agent, live, part(live), 7), 1U << 22), solved, reveal);
    }
    // An honest one accuses whoever passed the wrong segment; others now and then whoever was not drawn for it, which
    // must cost them and not the verifier.
    bool accuses_pass(const Agent& agent, const TaskClaim& live, const Solved& solved,
                      const types::VerifierReport& entry, types::ChallengeRevealPayload& reveal) {
        const auto& task = live.task;
        const std::uint64_t verifier = 16 * occasion(live) + reveal.target - core::kPassTarget;
        const bool wrong = solved.history->is_altered_in(market::stretch_of(live));
        const bool drawn = wrong && sampled(live, entry.verifier, solved.history->altered_step);
        if (agent.honest) return drawn && claims(live, truth(live), solved, reveal);
        if (wrong && !drawn && plan(agent, task.id, verifier, 10, 2) == 0)
            return claims(live, truth(live), solved, reveal);
        return plan(agent, task.id, verifier, 11, 4) == 0 &&
               claims(live, altered(live, some_step(agent, live, verifier, 12), 1U << 22), solved, reveal);
    }
    bool accuses_probe(const Agent& agent, const TaskClaim& live, const Solved& solved,
                       const types::VerifierReport& entry, types::ChallengeRevealPayload& reveal) {
        const auto& task = live.task;
        const Agent& verifier = agent_at(entry.verifier);
        const bool is_wrong = verifying_plan(verifier, live) == wrong_tiles;
        if (!(agent.honest ? is_wrong : !is_wrong && plan(agent, task.id, occasion(live), 8, 4) == 0)) return false;
        const auto shown = report(verifier, live, solved);
        // The same tile as the agent claims it: right when it is honest.
        const auto own_tiles =
            make_report(live, entry.verifier, *solved.history, true, {}, task.id, agent.honest ? 0 : kProbeMask);
        reveal.claim = core::opened_leaves(own_tiles.sealed, own_tiles.sealed.true_index)[1];
        // An altered leaf may have hit this very tile: then there is nothing to say.
        const auto opening = open_probe(shown, core::ProgramProver(solved.history->programs->at(shown.probes[0].step)));
        if (opening.tile_hash == reveal.claim) return false;
        reveal.opening = core::encode(opening);
        return true;
    }
    void watch(const Agent& agent, const TaskClaim& live) {
        const auto& task = live.task;
        const auto& claim = live.claim;
        if (claim.state < ClaimState::proved) return;
        auto& challenges = challenges_[{agent.address, task.id, task.round, claim.id.stretch}];
        for (auto& challenge : challenges)
            if (!challenge.revealed && !challenge.withheld && world_.height > challenge.committed_at)
                challenge.revealed = send(agent, NativeKind::challenge_reveal, challenge.reveal);
        if (challenges.size() >= kMostChallenges || world_.shared_task(task.id)->round != task.round) return;
        auto reveal = wanted(agent, live, challenges);
        if (!reveal) return;
        const Hash32 commitment = core::challenge_commitment(agent.address, reveal->claim, reveal->salt);
        if (!send(agent, NativeKind::challenge_commit,
                  types::ChallengeCommitPayload{task.id, claim.id.stretch, commitment}))
            return;
        challenges.push_back({*reveal, world_.height, !agent.honest && rng_.below(3) == 0, false});
    }

    // --- Disputes ----------------------------------------------------------------------------------------------------
    // clumsily: to the leaf, but badly, whether its history is right or not.
    enum Playing : std::uint64_t { plays, concedes, silent, gives_up, clumsily, playing_choices };

    const Agent& agent_at(const types::Address& address) const {
        for (const auto& agent : agents_)
            if (agent.address == address) return agent;
        return agents_.front();
    }
    const History& history_with(const TaskClaim& live, const Hash32& root) {
        const auto stretch = market::stretch_of(live);
        if (live.claim.history_root == root) return *solved_[{live.task.id, live.claim.id.round}].history;
        if (truth(live).root_of(stretch) == root) return truth(live);
        for (std::uint64_t step = stretch.before + 1; step <= stretch.last(); ++step)
            for (std::uint32_t bit = 10; bit <= 22; ++bit)
                if (altered(live, step, 1U << bit).root_of(stretch) == root) return altered(live, step, 1U << bit);
        ADD_FAILURE() << "unknown history";
        return truth(live);
    }
    core::DisputeStrategy& strategy(const TaskClaim& live, const types::Dispute& dispute, const core::Game& game,
                                    core::Side side, const Agent& agent, std::uint64_t how) {
        const auto& claim = live.claim;
        const auto key = std::make_pair(dispute.id, side);
        const auto found = strategies_.find(key);
        if (found != strategies_.end()) return found->second;
        const auto index = static_cast<std::size_t>(side);
        core::DisputeParty party;
        if (!core::is_probe_target(dispute.target)) {
            const History& claimed = history_with(live, game.claims[index]);
            party = how == clumsily ? clumsy_party_of(live, claimed, kClumsyMask << index) : party_of(live, claimed);
            // An honest verifier executes what it passed; where it was not drawn, that may not be what the solver says.
            if (agent.honest && side == core::Side::defender) party.alter = {};
        } else {
            // Whichever side claims the wrong tile altered it; the other did not.
            const Agent& verifier = agent_at(dispute.defender);
            const bool verifier_wrong = verifying_plan(verifier, live) == wrong_tiles;
            const bool wrong = (side == core::Side::defender) == verifier_wrong;
            party = party_of(live, history_with(live, claim.history_root), wrong ? game.probe_step : 0, game.probe_node,
                             wrong ? kProbeMask : 0);
        }
        return strategies_.emplace(key, core::DisputeStrategy(std::move(party))).first->second;
    }
    // Of an honest defender, which replays for one game at a time and takes as long as its clock gives for one: whether
    // it has the states that the game has come to.
    bool has_replayed(const Agent& agent, const TaskClaim& live, std::uint64_t id, const core::Game& game) {
        if (game.phase == core::Phase::history || replayed_.contains(id)) return true;
        auto& machine = machines_[{agent.address, 8 * live.task.id + live.claim.id.stretch}];
        if (machine.dispute == id) {
            if (world_.market_ms() < machine.until) return false;
            return replayed_.insert(id).second;
        }
        if (machine.dispute != 0 && !replayed_.contains(machine.dispute) &&
            world_.shared_dispute(machine.dispute)->closed_at == 0)
            return false;
        // Each claim has a machine.
        const std::uint64_t seconds = market::dispute_replay_s(live.task.spec, market::work_of(live.task).plan) /
                                      market::claims_at_once(market::stretch_count(live.task));
        machine = {id, world_.market_ms() + market::in_ms(seconds)};
        return false;
    }
    void dispute(const Agent& agent, const TaskClaim& live) {
        const auto& task = live.task;
        const auto& claim = live.claim;
        for (const auto id : claim.disputes) {
            const auto current = world_.shared_dispute(id);
            const auto& dispute = *current;
            if (dispute.closed_at != 0) continue;
            const bool defends = dispute.defender == agent.address;
            if (!defends && dispute.rival != agent.address) continue;
            auto how = agent.honest ? std::uint64_t{plays} : plan(agent, task.id, id, 9, playing_choices);
            // Colluders: a solver with a right history can lose it only to a rival that plays well.
            if (how == silent && dispute.target == 0) how = defends ? std::uint64_t{clumsily} : std::uint64_t{plays};
            if (how == silent || (how == gives_up && dispute.rounds > 3)) continue;
            if (how == concedes) {
                send(agent, NativeKind::dispute_concede, types::DisputeConcedePayload{id});
                continue;
            }
            const auto side = defends ? core::Side::defender : core::Side::rival;
            const auto game = *types::decode_record<core::Game>(dispute.game);
            if (agent.honest && !core::has_begun(game)) continue;
            if (agent.honest && defends && !has_replayed(agent, live, id, game)) continue;
            const auto move = strategy(live, dispute, game, side, agent, how).next_move(game, side, waiting_post(game));
            if (!move) {
                EXPECT_FALSE(agent.honest) << move.error().to_string();
                continue;
            }
            bool sent = true;
            if (const auto* split = std::get_if<core::SplitMove>(&*move))
                sent = send(agent, NativeKind::dispute_split,
                            types::DisputeSplitPayload{id, types::encode_record(*split)});
            else if (const auto* leaf = std::get_if<core::LeafWitness>(&*move))
                sent = send(agent, NativeKind::dispute_prove_leaf,
                            types::DisputeProveLeafPayload{id, types::encode_record(*leaf)});
            else if (std::holds_alternative<core::Concede>(*move)) {
                ASSERT_TRUE(!agent.honest || (defends && core::is_pass_target(dispute.target) &&
                                              !sampled(live, agent.address, core::disputed_from(game))));
                sent = send(agent, NativeKind::dispute_concede, types::DisputeConcedePayload{id});
            }
            ASSERT_TRUE(sent || !agent.honest) << world_.last_receipt().failure;
            if (const auto now = world_.stored_claim(claim.id);
                types::is_final(now->state) || claim.voided != now->voided)
                return;
        }
    }

    // --- Tactics -----------------------------------------------------------------------------------------------------
    void leave_or_return(const Agent& agent) {
        const auto bond = world_.bond(Role::verifier, agent.address);
        if (bond.bonded > bond.locked) {
            if (send(agent, NativeKind::unbond, types::UnbondPayload{Role::verifier, bond.bonded - bond.locked}))
                ++statistics_.left;
        } else {
            send(agent, NativeKind::bond, types::BondPayload{Role::verifier, 30'000 + rng_.below(200'000)});
        }
    }
    // Takes places for challenges without a claim.
    void squat(const Agent& agent) {
        const auto live = live_tasks();
        if (live.empty()) return;
        const std::uint64_t id = live[rng_.below(live.size())];
        for (std::uint64_t i = 0; i < 6; ++i)
            if (send(agent, NativeKind::challenge_commit,
                     types::ChallengeCommitPayload{id, some_stretch(id), Uint256(rng_.u64()).to_be32()}))
                ++statistics_.squatted;
    }

    std::uint32_t some_stretch(std::uint64_t id) {
        const std::uint32_t settled = world_.exists(id) ? world_.shared_task(id)->settled : 0;
        return settled + static_cast<std::uint32_t>(rng_.below(2));
    }

    // --- Nonsense ----------------------------------------------------------------------------------------------------
    void nonsense(const Agent& agent) {
        const auto kinds = types::native_kinds();
        const auto& kind = kinds[rng_.below(kinds.size())];
        const std::uint64_t id = rng_.below(submitted_ + 2);
        types::visit_kind(kind.kind, [&](auto constant, auto tag) {
            typename decltype(tag)::Payload payload{};
            if constexpr (requires { payload.task = id; }) payload.task = id;
            if constexpr (requires { payload.dispute = id; }) payload.dispute = id;
            if constexpr (requires { payload.id = id; }) payload.id = id;
            if constexpr (requires { payload.stretch; }) payload.stretch = some_stretch(id);
            if constexpr (requires { payload.amount = Uint256(1); }) payload.amount = 1 + rng_.below(50'000);
            if constexpr (requires { payload.role; }) payload.role = static_cast<Role>(1 + rng_.below(4));
            if constexpr (requires { payload.price = Uint256(1); }) payload.price = 1 + rng_.below(20);
            if constexpr (requires { payload.commitment; }) payload.commitment = Uint256(rng_.u64()).to_be32();
            send(agent, decltype(constant)::value, payload);
        });
    }

    SeededRng rng_;
    Statistics& statistics_;
    World world_;
    const Uint256 rich_ = Uint256(1'000'000'000'000'000'000ULL);
    const types::Address ticker_ = address(900);
    std::vector<Agent> agents_;
    std::uint64_t submitted_ = 0;
    bool has_profiled_ = false;
    std::map<std::pair<std::uint64_t, std::uint64_t>, Solved> solved_;  // by task and round
    std::map<Key, std::uint64_t> plans_;
    std::map<Key, std::vector<Challenge>> challenges_;
    std::map<std::pair<std::uint64_t, core::Side>, core::DisputeStrategy> strategies_;
    struct Replay {
        std::uint64_t dispute = 0;
        std::uint64_t until = 0;  // market time
    };
    std::map<std::pair<types::Address, std::uint64_t>, Replay> machines_;  // by defender and claim
    std::set<std::uint64_t> replayed_;                                     // disputes
    std::map<std::uint64_t, std::size_t> seen_slashes_;
    std::set<std::uint64_t> ended_;
    std::set<std::uint64_t> forfeited_;
    std::map<std::uint64_t, Base> bases_;  // by task
    // Task, stretch and round of what has not ended, and whether an honest solver has proved it.
    std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint8_t>, bool> claims_;
};

std::uint64_t wanted_runs() {
    const char* text = std::getenv("QUERN_PROPERTY_RUNS");
    const auto number = text != nullptr ? Uint256::from_decimal(text) : Expected<Uint256>(Uint256(14'000));
    return number && number->fits_u64() ? number->low_u64() : 14'000;
}

TEST(MarketProperties, money_is_conserved_everything_ends_and_the_honest_never_pay) {
    Statistics statistics;
    const std::uint64_t runs = wanted_runs();
    for (std::uint64_t seed = 1; statistics.lifecycles < runs && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Simulation(seed, statistics).run();
    }
    std::uint64_t settled = 0;
    for (const auto& [end, count] : statistics.ends) {
        std::printf("%8llu %s\n", static_cast<unsigned long long>(count), end.c_str());
        if (end.rfind("settled", 0) == 0) settled += count;
    }
    for (const auto& [reason, count] : statistics.slashes)
        std::printf("%8llu slashed: %s\n", static_cast<unsigned long long>(count), reason.c_str());
    for (const auto& [result, count] : statistics.disputes)
        std::printf("%8llu disputes: %s\n", static_cast<unsigned long long>(count), result.c_str());
    for (const auto& [end, count] : statistics.stretches)
        std::printf("%8llu stretches: %s\n", static_cast<unsigned long long>(count), end.c_str());
    std::printf("%8llu games of %llu moves at most\n", static_cast<unsigned long long>(statistics.games),
                static_cast<unsigned long long>(statistics.most_moves));
    std::printf("%8llu tasks went on with another solver\n", static_cast<unsigned long long>(statistics.taken_over));
    std::printf("%8llu tasks were profiled, %llu profiles of another replay\n",
                static_cast<unsigned long long>(statistics.profiled),
                static_cast<unsigned long long>(statistics.unbelieved));
    std::printf("%8llu blocks\n", static_cast<unsigned long long>(statistics.blocks));
    std::printf("%8llu honest solvers paid without verifiers, %llu bonds withdrawn, %llu places squatted\n",
                static_cast<unsigned long long>(statistics.paid_unverified),
                static_cast<unsigned long long>(statistics.left), static_cast<unsigned long long>(statistics.squatted));
    EXPECT_LE(statistics.most_moves, kMostMoves);
    if (runs < 1'000) return;
    EXPECT_GT(statistics.games, 7 * runs);
    // The runs mean something only if every way through the market was taken.
    EXPECT_GT(settled, runs / 20);
    for (const char* end : {"cancelled by_submitter", "expired no_bids", "expired no_verifiers", "settled unverified",
                            "expired no_profilers", "expired profilers_silent", "expired profiles_differ"})
        EXPECT_GT(statistics.ends[end], 0U) << end;
    EXPECT_GT(statistics.paid_unverified, 0U);
    EXPECT_GT(statistics.left, runs / 100);
    EXPECT_GT(statistics.squatted, runs);
    EXPECT_GT(statistics.taken_over, 0U);
    EXPECT_GT(statistics.profiled, runs / 100);
    EXPECT_GT(statistics.unbelieved, runs / 100);
    for (const std::uint64_t draws : {1, 2}) EXPECT_GT(statistics.kept[draws], 0U) << draws;
    for (const auto count : {statistics.accepted, statistics.answered, statistics.forfeited})
        EXPECT_GT(count, runs / 300);
    for (const char* end : {"settled unchallenged", "settled unverified", "void solver_slashed", "void earlier_void",
                            "void no_heartbeat", "void data_missing"})
        EXPECT_GT(statistics.stretches[end], 0U) << end;
    for (const char* reason :
         {"no_start", "no_heartbeat", "no_proof", "abandoned", "no_custody_receipt", "no_commitment", "no_reveal",
          "wrong_result", "false_accusation", "false_fail", "wrong_probe", "passed_wrong_result", "no_challenge_reveal",
          "data_missing", "bid_not_covered"})
        EXPECT_GT(statistics.slashes[reason], 0U) << reason;
    for (const char* result :
         {"1 leaf", "1 clock", "1 conceded", "2 leaf", "2 clock", "2 conceded", "0 moot", "1 leaf probe",
          "2 leaf probe", "1 leaf pass", "2 leaf pass", "2 clock pass", "1 not_sampled pass", "0 moot pass",
          "2 leaf against a right history", "1 leaf by a peer", "2 leaf by a peer", "0 moot by a peer"})
        EXPECT_GT(statistics.disputes[result], 0U) << result;
}

// Of whole lives of tasks: objects, balances, logs, gas and failures. It changes when the chain's rules do.
TEST(MarketProperties, the_same_lives_leave_the_same_bytes) {
    Statistics statistics;
    statistics.trace = Hash32{};
    for (std::uint64_t seed = 1; seed <= 40; ++seed) Simulation(seed, statistics).run();
    EXPECT_EQ(to_hex(*statistics.trace), "0a888018900abdf273bbec93fd61435ea5769d604865148a1a5829c17410e8d2");
}

}  // namespace
}  // namespace quern::chain::exec::test
