#include "compute/worker/shell.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "chain/market/bonds.h"
#include "chain/market/delays.h"
#include "chain/market/watchers.h"
#include "chain/market/windows.h"

namespace quern::compute::worker {
namespace {

using chain::types::Role;
using log::Category;

constexpr std::uint64_t kIdleMs = 5'000;   // orders come with each block; a stop is seen sooner
constexpr std::uint64_t kBondBlocks = 16;  // from one look at the own bonds to the next
// Files of a task that has ended are kept for so many blocks, should its end be disputed in a block that comes later.
constexpr std::uint64_t kKeepFilesBlocks = 1'000;
constexpr std::uint64_t kMostMemoryMib = 1ULL << 40;  // keeps the limit below 2^64 bytes

InputLimits limits_of(const WorkerOptions& options) {
    InputLimits limits;
    limits.memory_bytes = std::min(options.max_memory_mib, kMostMemoryMib) << 20;
    limits.step_work = options.max_step_work;
    return limits;
}

Me me_of(const WorkerOptions& options, const Address& address) {
    Me me{address,
          options.solver,
          options.verifier,
          options.whistleblower,
          options.custodian,
          options.ticks,
          options.bid_price,
          options.max_memory_mib,
          chain::market::class_of_rate(options.speed),
          chain::market::class_of_rate(options.bandwidth),
          std::nullopt,
          options.fault.fault};
    me.profiles = options.profiles;
    return me;
}

// Whether watchers may seal what they find in its reports.
bool has_watchers(const Claim& claim) {
    return !claim.forced_beacon.is_zero() && !claim.voided && claim.state >= chain::types::ClaimState::revealing &&
           claim.state <= chain::types::ClaimState::disputed;
}

bool is_drawn(const TaskClaim& live, const Address& verifier) {
    return std::any_of(live.reports.begin(), live.reports.end(),
                       [&](const chain::types::VerifierReport& report) { return report.verifier == verifier; });
}

}  // namespace

Shell::Shell(Parts parts)
    : parts_(std::move(parts)),
      me_(me_of(parts_.options, parts_.sender.address())),
      sources_({parts_.options.sources, parts_.options.datadir + "/sources", parts_.options.sources_max_mib << 20},
               parts_.connect, parts_.clock),
      inputs_(limits_of(parts_.options), &sources_),
      owed_(parts_.options.datadir + "/owed.rlp", me_.address),
      examine_(parts_.bell),
      train_(parts_.bell),
      report_(parts_.bell),
      watch_(parts_.bell),
      keep_(parts_.bell),
      play_(parts_.bell),
      pieces_(parts_.bell),
      profile_(parts_.bell),
      disputes_at_play_(play_) {
    append(public_key_, parts_.sender.public_key().bytes);
    rng_ = parts_.make_rng();
    const WorkerOptions& options = parts_.options;
    const std::uint64_t slice = options.slice_ms;
    const auto pool = [&] { return std::make_shared<ThreadPool>(options.threads); };
    // What a thread runs lives in it, from its start to its end.
    if (options.solver) {
        start(nullptr, [this](Context& context) {
            return [this, jobs = ExamineJobs(context, examine_)]() mutable {
                if (!jobs.work()) examine_.wait(kIdleMs, parts_.stop);
            };
        });
        start(nullptr, [this](Context& context) {
            return [this, jobs = PieceJobs(context, pieces_)]() mutable {
                if (!jobs.work()) pieces_.wait(kIdleMs, parts_.stop);
            };
        });
        start(pool(), [this, slice](Context& context) {
            return [this, slice, jobs = TrainingJobs(context, train_)]() mutable {
                if (!jobs.work(slice)) train_.wait(kIdleMs, parts_.stop);
            };
        });
    }
    if (options.verifier) {
        start(pool(), [this, slice](Context& context) {
            return [this, slice, jobs = ProfileJobs(context, profile_, me_.address)]() mutable {
                if (!jobs.work(slice)) profile_.wait(kIdleMs, parts_.stop);
            };
        });
        start(pool(), [this, slice](Context& context) {
            return [this, slice,
                    jobs = ReplayJobs(context, report_, verifier_duty(me_.address, parts_.options.fault))]() mutable {
                if (!jobs.work(slice)) report_.wait(kIdleMs, parts_.stop);
            };
        });
    }
    if (options.whistleblower)
        start(pool(), [this, slice](Context& context) {
            return [this, slice, jobs = ReplayJobs(context, watch_, whistleblower_duty())]() mutable {
                if (!jobs.work(slice)) watch_.wait(kIdleMs, parts_.stop);
            };
        });
    if (options.custodian)
        start(nullptr, [this](Context& context) {
            return [this, jobs = CustodyJobs(context, keep_)]() mutable {
                if (!jobs.work()) keep_.wait(kIdleMs, parts_.stop);
            };
        });
    const auto players = pool();
    for (std::size_t i = 0; i < std::max<std::size_t>(options.dispute_threads, 1); ++i)
        start(players, [this](Context& context) {
            return [this, &context] {
                if (!disputes_at_play_.work(context)) play_.wait(kIdleMs, parts_.stop);
            };
        });
}

template <class Work>
void Shell::start(std::shared_ptr<ThreadPool> pool, Work work) {
    threads_.emplace_back([this, pool = std::move(pool), work = std::move(work)] {
        Context context{parts_.options,   parts_.clock, inputs_,           parts_.stop,   parts_.connect,
                        parts_.connect(), pool,         parts_.make_rng(), parts_.profile};
        auto run = work(context);
        while (!parts_.stop) run();
    });
}

// `stop` is set, or the shell would wait for ever.
Shell::~Shell() {
    for (std::thread& thread : threads_) thread.join();
}

// --- Looking ---------------------------------------------------------------------------------------------------------

Status Shell::look() {
    QUERN_TRY(const auto update, tasks_.update(parts_.node));
    if (update.new_block) look_at_block(update);
    decide_all();
    if (std::exchange(probes_read_, false)) decide_all();
    return {};
}

void Shell::look_at_block(const LiveTasks::Update& update) {
    height_ = tasks_.head().height;
    market_ms_ = tasks_.head().market_ms;
    parts_.sender.refresh(height_);
    look_at_bonds();
    look_at_bids();
    look_at_profiles();
    look_at_forced_errors();
    look_at_owed();
    for (auto& [id, known] : disputes_) known.changed = known.changed || update.all_anew;
    for (const std::uint64_t id : update.disputes)
        if (const auto known = disputes_.find(id); known != disputes_.end()) known->second.changed = true;
    unread_.clear();
    std::set<std::uint64_t> named;
    std::set<Hash32> results;
    std::set<JobId> claims;
    for (const LiveTasks::Tasks* tasks : {&tasks_.tasks(), &tasks_.next()}) {
        for (const auto& [id, live] : *tasks) {
            claims.insert(TaskOrder{live}.id());
            named.insert(live->claim.disputes.begin(), live->claim.disputes.end());
            for (const auto& report : live->reports) results.insert(report.result_root);
            if (live->claim.rivals + live->claim.report_rivals != 0)
                if (const auto* const told = market()) me_.max_disputes = told->max_disputes;
            read_disputes(*live);
            seen_at_[id] = height_;
        }
    }
    watch_lots_.keep(claims);
    std::erase_if(declined_, [&](const auto& entry) { return !tasks_.tasks().contains(entry.first); });
    std::erase_if(probes_, [&](const auto& entry) { return !results.contains(entry.first); });
    std::erase_if(disputes_, [&](const auto& entry) { return !named.contains(entry.first); });
    clean();
}

void Shell::read_disputes(const TaskClaim& live) {
    // Who may accuse must know what it has accused already.
    if (live.claim.open_disputes == 0 && !me_.whistleblower && !is_drawn(live, me_.address)) return;
    for (const std::uint64_t id : live.claim.disputes) {
        KnownDispute& known = disputes_[id];
        if (!known.changed || (known.dispute != nullptr && known.dispute->closed_at != 0)) continue;
        auto news = parts_.node.dispute(id);
        if (!news) {
            unread_.insert(live.task.id);
            continue;
        }
        Dispute* const dispute = &news->dispute;
        const bool changed = known.dispute == nullptr || !equal(known.dispute->game, dispute->game);
        const bool open = dispute->closed_at == 0;
        if (!open) known.game = nullptr;
        if (open && changed) {
            known.game = nullptr;
            auto game = dispute->game.size() <= kMaxGameBytes ? chain::types::decode_record<core::Game>(dispute->game)
                                                              : Expected<core::Game>(fail("dispute.game_too_large"));
            if (game && core::check_game(*game))
                known.game = std::make_shared<const core::Game>(std::move(*game));
            else
                log::error(Category::dispute, "unreadable game dispute={}", id);
        }
        known.post = nullptr;
        if (auto post = core::decode_split_move(news->post); post && known.game != nullptr)
            known.post = std::make_shared<const core::SplitMove>(std::move(*post));
        known.dispute = std::make_shared<const Dispute>(std::move(*dispute));
        known.changed = false;
    }
}

// --- Deciding --------------------------------------------------------------------------------------------------------

View Shell::view_of(const std::shared_ptr<const TaskClaim>& live) {
    const TaskOrder order{live};
    View view{height_,
              market_ms_,
              *live,
              examine_.facts(order),
              train_.facts(order),
              report_.facts(order),
              watch_.facts(order),
              {},
              !unread_.contains(live->task.id),
              {},
              knows_bond_ && cover_->covers(live->task)};
    for (const auto& report : live->reports)
        if (const auto known = probes_.find(report.result_root); known != probes_.end()) view.probes.insert(*known);
    if (parts_.options.roles_auto) view.watches = watch_lots_.watches(*live, *rng_);
    if (const auto drawn = lots_.find(order.id()); drawn != lots_.end() && me_.whistleblower)
        for (const auto& [place, lot] : drawn->second.by_place)
            if (lot.watches) append((view.tickets[place] = {public_key_, {}}).proof, lot.drawn.proof);
    if (const auto place = custodian_place(*live, me_.address)) view.kept = keep_.facts(CustodyOrder{live, *place});
    if (own_profiler(live->task, me_.address) != nullptr) {
        view.profiled = profile_.facts(ProfileOrder{live});
        view.covers_profile = profile_cover_.covers(live->task.id);
        view.gas_price = gas_price_;
    }
    if (!live->task.asked.empty()) view.piece = pieces_.facts(PieceOrder{live});
    for (const std::uint64_t id : live->claim.disputes) {
        const auto known = disputes_.find(id);
        if (known == disputes_.end() || known->second.dispute == nullptr) continue;
        DisputeView dispute{known->second.dispute, known->second.game, nullptr};
        if (dispute.game != nullptr) {
            PlayOrder played{live, dispute.dispute, dispute.game, {}, position_of(*dispute.game)};
            played.play.dispute = id;
            dispute.planned = play_.facts(played);
        }
        view.disputes.push_back(std::move(dispute));
    }
    return view;
}

void Shell::decide_all() {
    Orders orders;
    for (const LiveTasks::Tasks* tasks : {&tasks_.tasks(), &tasks_.next()})
        for (const auto& [id, live] : *tasks)
            for (const Action& action : decide(me_, view_of(live))) perform(live, action, orders);
    examine_.give(std::move(orders.examine));
    train_.give(std::move(orders.train));
    report_.give(std::move(orders.report));
    watch_.give(std::move(orders.watch));
    keep_.give(std::move(orders.keep));
    play_.give(std::move(orders.play));
    pieces_.give(std::move(orders.pieces));
    profile_.give(std::move(orders.profile));
}

namespace {
template <class... Functions>
struct Overloaded : Functions... {
    using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;
}  // namespace

void Shell::perform(const std::shared_ptr<const TaskClaim>& live, const Action& action, Orders& orders) {
    const TaskOrder order{live};
    std::visit(Overloaded{[&](const Send& send) {
                              if (send.attempts.front().kind == chain::types::NativeKind::task_bid)
                                  cover_->add(live->task);
                              parts_.sender.send(send);
                          },
                          [&](const Decline& declined) { decline(live->task, declined.reason); },
                          [&](const Examine&) { orders.examine.emplace(order.id(), order); },
                          [&](const Train&) { orders.train.emplace(order.id(), order); },
                          [&](const Report&) { orders.report.emplace(order.id(), order); },
                          [&](const Watch&) { orders.watch.emplace(order.id(), order); },
                          [&](const Keep& keep) {
                              orders.keep.emplace(order.id(), CustodyOrder{live, keep.place});
                          },
                          [&](const ReadProbes& read) { read_probes(read.report); },
                          [&](const ReadPiece&) { orders.pieces.emplace(live->task.id, PieceOrder{live}); },
                          [&](const Profile&) { orders.profile.emplace(order.id(), ProfileOrder{live}); },
                          [&](const Play& play) {
                              const KnownDispute& known = disputes_.at(play.dispute);
                              orders.play.emplace(play.dispute, PlayOrder{live, known.dispute, known.game, play,
                                                                          position_of(*known.game), known.post});
                          }},
               action);
}

void Shell::read_probes(const chain::types::VerifierReport& report) {
    auto probes = parts_.node.revealed_probes(report);
    if (probes && result_root_of(report, *probes) != report.result_root)
        probes = fail(kBadAnswer, "other probes than the report's");
    if (!probes) {
        log::warning(Category::whistleblower, "probes not read task={} reason={}", report.claim.task,
                     probes.error().to_string());
        return;
    }
    probes_[report.result_root] = std::make_shared<const std::vector<Hash32>>(std::move(*probes));
    probes_read_ = true;
}

void Shell::decline(const Task& task, const std::string& reason) {
    std::string& said = declined_[task.id];
    if (said != reason) log::info(Category::solver, "task declined task={} reason={}", task.id, reason);
    said = reason;
}

// The chain takes nothing from a role without a bond, which only looks as if there were no work.
void Shell::look_at_bonds() {
    if (height_ < bonds_at_) return;
    bonds_at_ = height_ + kBondBlocks;
    const WorkerOptions& options = parts_.options;
    bool acts = !options.roles_auto;
    for (const auto& [role, played] :
         {std::pair(Role::solver, me_.solver), std::pair(Role::verifier, me_.verifier),
          std::pair(Role::whistleblower, me_.whistleblower), std::pair(Role::custodian, me_.custodian)}) {
        if (!played) continue;
        const auto bond = parts_.node.bond(role, me_.address);
        acts = acts || !bond || (*bond && !(*bond)->bonded.is_zero());
        if (!bond) continue;
        if (role == Role::whistleblower && options.roles_auto) look_at_watch_bonds(*bond ? (*bond)->bonded : Uint256());
        if (!*bond || (*bond)->bonded.is_zero()) {
            const std::string name = chain::types::to_string(role);
            const bool is_new = unbonded_.insert(role).second;
            if (is_new && chain::market::is_drawn(role) && *bond && !(*bond)->unbonding.empty())
                log::warning(
                    Category::worker,
                    "the bond as {} leaves: until height {} it can be drawn and must answer (keep this running)", name,
                    (*bond)->unbonding.back().matures_at);
            else if (is_new && options.roles_auto)
                log::info(Category::worker, "no bond as {}: it does not act as one", name);
            else if (is_new)
                log::warning(Category::worker,
                             "no bond as {}: nothing to do until {} has one (quern-wallet bond --role {} --amount …)",
                             name, chain::types::to_checksum_address(me_.address), name);
            continue;
        }
        unbonded_.erase(role);
        const chain::types::Capacity mine{options.max_step_work, me_.speed_class, me_.bandwidth_class,
                                          options.max_memory_mib};
        if (role == Role::custodian) tell_of_custodians();
        if (!chain::market::is_drawn(role)) continue;
        if (const auto attempt = declare(**bond, mine)) parts_.sender.send(*attempt);
    }
    if (!acts && !std::exchange(idle_, true))
        log::warning(Category::worker, "no bond in any role: nothing to do until {} has one (quern-wallet bond)",
                     chain::types::to_checksum_address(me_.address));
    if (acts) idle_ = false;
}

void Shell::tell_of_custodians() {
    const auto* const told = market();
    if (told == nullptr || told->custodians != 0 || std::exchange(told_of_custodians_, true)) return;
    log::warning(Category::worker,
                 "this chain draws no custodians (its parameter custodians is 0): nothing to do as one");
}

void Shell::look_at_watch_bonds(const Uint256& own) {
    const auto total = parts_.node.watch_bonds();
    watch_lots_.set_bonds(own, total ? *total : Uint256());
}

// Before anything is bid with this block.
void Shell::look_at_bids() {
    knows_bond_ = false;
    const bool any = std::any_of(tasks_.tasks().begin(), tasks_.tasks().end(), [](const auto& each) {
        return each.second->task.state == chain::types::TaskState::open;
    });
    if (!me_.solver || !any) return;
    if (!cover_) {
        const auto* const told = market();
        if (told == nullptr) return;
        cover_.emplace(*told);
    }
    const auto bond = parts_.node.bond(Role::solver, me_.address);
    if (!bond) return;
    knows_bond_ = true;
    const Uint256 free_part = *bond ? chain::market::free_part(**bond) : Uint256();
    cover_->update(tasks_.tasks(), me_.address, free_part, market_ms_);
}

// Before anything is profiled with this block. Where the node does not answer what was begun goes on.
void Shell::look_at_profiles() {
    const auto is_asked = [&](const Task& task) {
        const auto* const own = own_profiler(task, me_.address);
        return own != nullptr && own->commitment.is_zero();
    };
    const auto& tasks = tasks_.tasks();
    if (!me_.verifier ||
        std::none_of(tasks.begin(), tasks.end(), [&](const auto& each) { return is_asked(each.second->task); }))
        return;
    const auto* const told = market();
    const auto price = parts_.node.gas_price();
    const auto bond = parts_.node.bond(Role::verifier, me_.address);
    if (told == nullptr || !price || !bond) return;
    gas_price_ = *price;
    profile_cover_.update(*told, tasks, *bond ? chain::market::free_part(**bond) : Uint256(), is_asked,
                          [&](const Task& task) { return reason_not_to_profile(me_, task, gas_price_).empty(); });
}

const chain::params::MarketParams* Shell::market() {
    if (!market_)
        if (auto told = parts_.node.market_params()) market_ = std::move(*told);
    return market_ ? &*market_ : nullptr;
}

void Shell::look_at_forced_errors() {
    watch_bond_.reset();
    bool asked = false;
    std::set<JobId> claims;
    for (const LiveTasks::Tasks* tasks : {&tasks_.tasks(), &tasks_.next()}) {
        for (const auto& [id, live] : *tasks) {
            if (!has_watchers(live->claim)) continue;
            claims.insert(TaskOrder{live}.id());
            if (const auto* const told = market()) me_.forced_error_inverse = told->forced_error_inverse;
            if (!me_.whistleblower) continue;
            if (!std::exchange(asked, true))
                if (auto bond = parts_.node.bond(Role::whistleblower, me_.address)) watch_bond_ = std::move(*bond);
            draw_tickets(*live);
        }
    }
    std::erase_if(lots_, [&](const auto& entry) { return !claims.contains(entry.first); });
}

void Shell::look_at_owed() {
    if (!me_.solver) return;
    const auto* const told = market();
    if (told == nullptr) return;
    for (const Attempt& attempt : owed_.look(parts_.node, tasks_, chain::market::in_ms(told->retention_s)))
        parts_.sender.send(attempt);
}

// A proof takes a while: one for each report, and none for those whose watchers nobody pays any more.
void Shell::draw_tickets(const TaskClaim& live) {
    const auto& [task, claim, reports, custody] = live;
    if (!watch_bond_) return;
    if (watch_bond_->raised_at >= claim.reveal_at) {
        lots_.erase({claim.id.task, claim.id.stretch});
        return;
    }
    Lots& own = lots_[{claim.id.task, claim.id.stretch}];
    if (own.beacon != claim.forced_beacon) own = {claim.forced_beacon, {}};
    for (const auto& report : reports) {
        if (!stands_for(report)) continue;
        const auto [at, is_new] = own.by_place.try_emplace(report.place);
        Lot& lot = at->second;
        if (is_new)
            lot.drawn =
                parts_.sender.prove(core::watch_message(claim.forced_beacon, claim.id, claim.draws, report.place));
        lot.watches = chain::market::is_watcher(lot.drawn.output, watch_bond_->bonded, claim.watch_bonds);
    }
}

void Shell::clean() {
    if (height_ < clean_at_) return;
    // Those that were there before the start are given the same time.
    const bool first = clean_at_ == 0;
    clean_at_ = height_ + kKeepFilesBlocks;
    if (first) return;
    std::erase_if(seen_at_, [&](const auto& each) { return each.second + kKeepFilesBlocks < height_; });
    std::set<std::uint64_t> keep;
    for (const auto& [task, height] : seen_at_) keep.insert(task);
    const auto removed = Workspace::remove_all_but(parts_.options.datadir, keep);
    if (!removed)
        log::warning(Category::worker, "old files not removed reason={}", removed.error().to_string());
    else if (*removed != 0)
        log::info(Category::worker, "files of ended tasks removed directories={}", *removed);
}

}  // namespace quern::compute::worker
