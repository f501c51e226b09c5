// The worker around decide(): looks at the chain, decides about each live task, sends, and keeps threads at work. One
// thread looks, decides and sends, so that no training and no replay delays a reveal or a dispute's move; beside it
// run, each with a connection of its own,
//   examine    fetches what open tasks name (solver)
//   train      the trainings that were won, the one due first (solver)
//   profile    the first segments of tasks that this worker was drawn to profile, the one due first (verifier)
//   report     the replays that this worker was drawn for, the one due first (verifier)
//   watch      the replays of all proofs, the one due first (whistleblower)
//   keep       the fragments that this worker was drawn to keep (custodian)
//   play       --dispute-threads of them: moves of disputes, the most urgent first
//   answer     reads what is asked for of last states that settled tasks' solvers must show (solver)
// All share the input store with its memory limit, the workspaces with their quota, and one sender with its spending
// limits. A Shell belongs to one thread; its own threads end with it.
#pragma once

#include <list>
#include <set>
#include <thread>

#include "compute/worker/bid_cover.h"
#include "compute/worker/custody_jobs.h"
#include "compute/worker/dispute_jobs.h"
#include "compute/worker/live_tasks.h"
#include "compute/worker/owed_shares.h"
#include "compute/worker/piece.h"
#include "compute/worker/profile_cover.h"
#include "compute/worker/profile_jobs.h"
#include "compute/worker/replay_jobs.h"
#include "compute/worker/sender.h"
#include "compute/worker/training_jobs.h"
#include "compute/worker/uri_fetcher.h"
#include "compute/worker/watch_lots.h"

namespace quern::compute::worker {

class Shell {
public:
    struct Parts {
        const WorkerOptions& options;
        NodeFactory connect;
        NodeView& node;  // of the thread that looks
        Sender& sender;
        const Clock& clock;
        std::function<std::unique_ptr<Rng>()> make_rng;
        const std::atomic<bool>& stop;
        Bell& bell;                              // rung when there is something to decide about
        const cost::Profile* profile = nullptr;  // as in Context; outlives the shell
    };
    explicit Shell(Parts parts);
    ~Shell();
    Shell(const Shell&) = delete;
    Shell& operator=(const Shell&) = delete;

    // Looks at the chain, when there is a new block, decides and sends. Error: the node did not answer.
    Status look();

private:
    struct KnownDispute {
        bool changed = true;  // since it was read
        std::shared_ptr<const Dispute> dispute;
        std::shared_ptr<const core::Game> game;       // null: closed, or unreadable
        std::shared_ptr<const core::SplitMove> post;  // that waits; null: none, or the node did not tell a readable one
    };
    // What the own key draws for the reports of a claim, by their places.
    struct Lot {
        crypto::VrfResult drawn;
        bool watches = false;  // with the bond as it is
    };
    struct Lots {
        Hash32 beacon;  // each draw of verifiers has another
        std::map<std::uint8_t, Lot> by_place;
    };
    struct Orders {
        ExamineJobs::Orders::Orders examine;
        TrainingJobs::Orders::Orders train;
        ReplayJobs::Orders::Orders report;
        ReplayJobs::Orders::Orders watch;
        CustodyJobs::Orders::Orders keep;
        PlayBoard::Orders play;
        PieceJobs::Orders::Orders pieces;
        ProfileJobs::Orders::Orders profile;
    };
    void look_at_block(const LiveTasks::Update& update);
    // Reads the disputes of a claim that matter here.
    void read_disputes(const TaskClaim& live);
    [[nodiscard]] View view_of(const std::shared_ptr<const TaskClaim>& live);
    void decide_all();
    void perform(const std::shared_ptr<const TaskClaim>& live, const Action& action, Orders& orders);
    void read_probes(const chain::types::VerifierReport& report);
    void decline(const Task& task, const std::string& reason);
    void look_at_bonds();
    void tell_of_custodians();
    void look_at_watch_bonds(const Uint256& own);
    void look_at_bids();
    void look_at_profiles();
    // What forced errors ask for: the chain's parameter, and whether the own bond makes a watcher.
    void look_at_forced_errors();
    void look_at_owed();
    void draw_tickets(const TaskClaim& live);
    // The chain's parameters; null: the node has not told them yet.
    [[nodiscard]] const chain::params::MarketParams* market();
    void clean();
    template <class Work>
    void start(std::shared_ptr<ThreadPool> pool, Work work);

    Parts parts_;
    Me me_;
    UriFetcher sources_;
    InputStore inputs_;
    std::uint64_t height_ = 0;
    std::uint64_t market_ms_ = 0;                     // of that block
    LiveTasks tasks_;                                 // at height_
    std::map<std::uint64_t, KnownDispute> disputes_;  // of live tasks
    std::set<std::uint64_t> unread_;                  // tasks of which the node did not tell some dispute
    std::map<Hash32, std::shared_ptr<const std::vector<Hash32>>> probes_;  // of reports of live tasks, by result root
    bool probes_read_ = false;                                             // since it was last decided
    OwedShares owed_;
    std::map<std::uint64_t, std::string> declined_;   // tasks not bid on, and why
    std::map<std::uint64_t, std::uint64_t> seen_at_;  // task -> height at which it was live
    std::uint64_t clean_at_ = 0;
    std::uint64_t bonds_at_ = 0;
    std::set<chain::types::Role> unbonded_;  // said so
    bool idle_ = false;                      // said that no role has a bond
    bool told_of_custodians_ = false;        // that there are none
    std::optional<chain::params::MarketParams> market_;
    std::optional<BidCover> cover_;  // none before the node has told the chain's parameters
    bool knows_bond_ = false;        // as of height_: else nothing is bid
    ProfileCover profile_cover_;
    Uint256 gas_price_;                                 // when profiles were looked at last
    std::optional<chain::types::RoleBond> watch_bond_;  // as whistleblower, where it was asked for as of height_
    std::map<JobId, Lots> lots_;                        // of live claims
    std::unique_ptr<Rng> rng_;
    WatchLots watch_lots_;  // of live claims, where few are enough
    Bytes public_key_;      // this worker's

    ExamineJobs::Orders examine_;
    TrainingJobs::Orders train_;
    ReplayJobs::Orders report_;
    ReplayJobs::Orders watch_;
    CustodyJobs::Orders keep_;
    PlayBoard play_;
    PieceJobs::Orders pieces_;
    ProfileJobs::Orders profile_;
    DisputeJobs disputes_at_play_;
    std::list<std::thread> threads_;
};

}  // namespace quern::compute::worker
