// What a worker is told on its command line, as plain data (quern_worker.cpp fills it; nothing below reads argv).
#pragma once

#include <optional>
#include <string>

#include "base/http_client.h"
#include "base/uint256.h"
#include "compute/transfer/options.h"
#include "compute/worker/fast_steps.h"
#include "compute/worker/faults.h"
#include "compute/worker/spending.h"
#include "vm/tensor/arith/kernels.h"

namespace quern::compute::worker {

struct WorkerOptions {
    std::string node_host = "127.0.0.1";
    std::uint16_t node_port = 8545;
    std::string credentials_file;  // "user:password" for the node; empty: it fetches nothing from other nodes for us
    std::string key_file;          // while it runs no other worker of the chain has it
    std::string datadir;           // what it goes on with after a restart: training progress, sealed verdicts
    bool solver = false;
    bool verifier = false;
    bool whistleblower = false;
    bool custodian = false;
    bool profiles = true;     // as a verifier, measures limits where it was drawn for it
    bool roles_auto = false;  // all four where there is a bond, as whistleblower while few are (watch_lots.h)
    bool ticks = true;        // send `tick` for tasks and disputes that are due
    std::optional<std::uint64_t> chain_id;  // absent: the chain that the data directory was first used with
    // The node tells the price of gas; this is what it may cost at most (spending.h). 1,000 gwei; 10 QRN.
    SpendingLimits spending{Uint256(1'000'000'000'000), Uint256(10'000'000'000) * Uint256(1'000'000'000)};
    std::uint64_t max_disk_mib = 10'240;  // of the data directory: beyond it no bids, and no states kept for disputes
    // Of a stretch's states between the first and the newest, in the node's store: a solver has fewer where it can
    // replay the others in time (kept_states.h).
    std::uint64_t keep_states_mib = 95;
    Uint256 bid_price = 0;                // grains per work unit, the least of profiles too; 0: half of the task's cap
    std::uint64_t max_memory_mib = 4096;  // for all tasks together; a task that needs more is left alone
    // Work units of one step: the longest that one job keeps others of its kind, or the end, waiting. 2^30 are about
    // 10^12 floating-point operations.
    std::uint64_t max_step_work = std::uint64_t{1} << 30;
    // What a solver's bids promise and a verifier declares, as the class of each (chain/market/windows.h). 0: bids
    // promise what a task asks for, and nothing is declared.
    std::uint64_t speed = 0;          // work units a second
    std::uint64_t bandwidth = 0;      // bytes a second
    std::size_t threads = 0;          // of each training, replay and dispute; 0: one per CPU
    std::size_t dispute_threads = 2;  // moves of disputes that are worked out at once
    vm::tensor::arith::Backend backend = vm::tensor::arith::Backend::scalar;
    transfer::TransferOptions sources;       // what may be fetched from tasks' uris, and how
    std::uint64_t sources_max_mib = 16'384;  // of what is on its way from there; larger contents are left alone
    bool notifications = true;               // wait for the node's newHeads; polling where they do not come
    std::optional<http::Url> websocket;      // absent: where the node says
    std::uint64_t poll_ms = 200;
    std::uint64_t slice_ms = 400;  // how long jobs of one kind run before their turns are dealt out again
    // Measure once, some seconds at the start, how fast this machine is, and keep it in the data directory: tasks whose
    // segments would take too long are left alone (task_time.h). Of another version it is measured anew.
    bool benchmark = false;
    std::string version;
    MakeFastSteps fast_steps;          // of solvers in tolerance mode; none: they train canonically as well
    std::uint64_t check_segments = 1;  // of so many that are trained so one is replayed before it is claimed
    FaultPlan fault;                   // test builds only
};

}  // namespace quern::compute::worker
