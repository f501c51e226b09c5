// quern-worker: the attached compute module. Bids and trains (solver), replays and reports (verifier), watches and
// challenges (whistleblower), keeps fragments (custodian), talking to one node over JSON-RPC and its content store.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <tuple>

#include "base/http_client.h"
#include "base/log.h"
#include "base/websocket_client.h"
#include "bin/device_option.h"
#include "bin/stop_signals.h"
#include "bin/terminal.h"
#include "bin/tolerance_options.h"
#include "bin/torch_module.h"
#include "bin/transfer_options.h"
#include "compute/worker/worker.h"
#include "crypto/key_file.h"
#include "quern_version.h"
#include "wallet/amount.h"

namespace {

using namespace quern;
namespace arith = vm::tensor::arith;
using compute::worker::WorkerOptions;

constexpr const char* kProgram = "quern-worker";

Expected<arith::Backend> backend_named(const std::string& name) {
    if (name == "auto") return arith::best_backend();
    const auto backend = arith::find_backend(name);
    if (!backend)
        return fail("worker.unknown_backend", name + "; known: auto, soft, scalar, avx2, avx512, vnni, neon, cuda");
    QUERN_CHECK(vm::tensor::check_backend(*backend));
    return *backend;
}

struct Raw {  // what has to be translated after parsing
    std::string node = "http://127.0.0.1:8545";
    std::string ws;
    std::string password_file;
    std::string bid_price;
    std::string max_fee_per_gas;
    std::string max_fees_per_day;
    std::string backend = "auto";
    bool no_torch = false;
    std::string products = kTorchProductNames[0];
    std::string torch_device = kDefaultDevice;
    std::string fault;
    std::vector<std::string> roles;
    TransferTexts transfer;
    log::Options log;
    bool no_ticks = false;
    bool no_profiling = false;
    bool no_benchmark = false;
};

void declare(CLI::App& app, WorkerOptions& options, Raw& raw) {
    app.set_version_flag("--version", std::string("quern-worker ") + QUERN_VERSION);
    app.add_option("--node", raw.node, "URL of the node's JSON-RPC port")->capture_default_str();
    app.add_option("--rpc-cookie", options.credentials_file,
                   "file with USER:PASSWORD for the node (its <datadir>/.cookie, or of -rpcauth): without it the node "
                   "fetches no contents from others for this worker");
    app.add_option("--datadir", options.datadir, "directory for training progress and sealed reports")->required();
    app.add_option("--key", options.key_file, "keystore (Web3 Secret Storage) or file with a hexadecimal key, mode 600")
        ->required();
    app.add_option("--password-file", raw.password_file, "file whose first line is the keystore's password");
    app.add_flag("--solver", options.solver, "bid on tasks and train them");
    app.add_flag("--verifier", options.verifier, "replay and report when drawn");
    app.add_flag("--whistleblower", options.whistleblower, "replay every proof and challenge wrong ones");
    app.add_flag("--custodian", options.custodian, "have the node keep fragments of histories when drawn");
    app.add_option("--roles", raw.roles,
                   "the same as a list, solver,verifier; or auto: each role that the account has a bond for, as "
                   "whistleblower while few are (of each claim by a lot of its own: all claims while half of what "
                   "whistleblowers have bonded is its own, the fewer the more others have)")
        ->delimiter(',');
    app.add_option(
        "--price", raw.bid_price,
        "bid per work unit, in grains or 2gwei (default: half of the task's cap); profiles of tasks with a lower "
        "cap are left alone");
    app.add_option("--chain-id", options.chain_id,
                   "sign for this chain alone (default: the one this --datadir was first used with)");
    app.add_option("--max-fee-per-gas", raw.max_fee_per_gas,
                   "most per gas that a transaction may offer: grains, or 2gwei")
        ->default_str(options.spending.max_fee_per_gas.to_decimal());
    app.add_option("--max-fees-per-day", raw.max_fees_per_day,
                   "most that transactions may cost within 24 hours: grains, or 1.5qrn")
        ->default_str(options.spending.per_day.to_decimal());
    app.add_option(
           "--keep-states-mib", options.keep_states_mib,
           "solver: of a training's states, beside first and newest, so much stays in the node's store; others are "
           "computed again when verifiers ask")
        ->capture_default_str();
    app.add_option("--max-disk-mib", options.max_disk_mib,
                   "solver: no new tasks while --datadir holds more; others: no more states kept for disputes")
        ->capture_default_str();
    app.add_option("--max-memory-mib", options.max_memory_mib, "for all tasks together; leave alone what needs more")
        ->capture_default_str();
    app.add_option("--max-step-work", options.max_step_work, "leave alone tasks with more work units in one step")
        ->capture_default_str();
    app.add_option("--speed", options.speed,
                   "work units that it computes in a second, told on chain: tasks that ask for more are left alone; 0: "
                   "whatever a task asks for")
        ->capture_default_str();
    app.add_flag(
        "--no-benchmark", raw.no_benchmark,
        "do not measure at the first start how fast this machine is; else tasks whose segments would take more "
        "than half of their time are left alone");
    app.add_option("--bandwidth", options.bandwidth, "the same of the bytes that it sends in a second")
        ->capture_default_str();
    app.add_option("--threads", options.threads,
                   "compute threads; 0: one per CPU. Training, replays for a verifier, replays for a whistleblower and "
                   "disputes run side by side, each with so many; within each kind the task that is due first")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    app.add_option("--dispute-threads", options.dispute_threads,
                   "moves of disputes that are worked out at once, the most urgent first; neither training nor replays "
                   "hold them up")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    app.add_option("--backend", raw.backend,
                   "auto, soft, scalar, avx2, avx512, vnni, neon, or cuda: whole steps on the first graphics "
                   "processor; all give the same bits")
        ->capture_default_str();
    app.add_option(
           "--check-segments", options.check_segments,
           "solver: of so many segments that libtorch has trained one is replayed before it is claimed; more than "
           "1 trusts the submitter's program, which can make another arithmetic than the canonical one fail")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20))
        ->capture_default_str();
    CLI::Option* no_torch = app.add_flag(
        "--no-torch", raw.no_torch,
        "solver: train tasks that allow another rounding in the canonical arithmetic, too, and not by libtorch; "
        "verifier: no profiling");
    add_products(
        app, raw.products,
        "matrix products of what is trained by libtorch: f32, or bf16, as mixed precision has them: faster, for "
        "tasks whose limits were profiled so; verifiers find limits by it, too");
    add_device_option(app, "--torch-device", raw.torch_device)->excludes(no_torch);
    app.add_option("--ws", raw.ws,
                   "ws:// URL of the node's notifications; off: none (default: the port that the node names)");
    app.add_option("--poll-ms", options.poll_ms, "how often an idle worker looks at the chain without notifications")
        ->capture_default_str();
    app.add_flag(
        "--no-profiling", raw.no_profiling,
        "verifier: find no limits for tasks that leave them to profilers (doc/operations.md), though drawn for "
        "it: that costs nothing but the fee");
    app.add_flag("--no-ticks", raw.no_ticks,
                 "send no tick for what is due, but those that pay this solver its held shares");
    add_source_options(app, options.sources, raw.transfer);
    add_transfer_options(app, options.sources, raw.transfer);
    app.add_option("--uris-max-mib", options.sources_max_mib,
                   "of all that is on its way from uris; larger contents are left alone")
        ->check(CLI::Range(1, 1 << 30))
        ->capture_default_str();
    app.add_option("--debug", raw.log.debug, "log categories shown at debug level, comma separated")->delimiter(',');
    app.add_option("--logfile", raw.log.file, "also log to this file");
#ifdef QUERN_TEST_FAULTS
    app.add_option("--test-fault", raw.fault, "test builds only: " + compute::worker::known_faults());
#endif
}

// "auto" alone, or names.
Status take_roles(WorkerOptions& options, const std::vector<std::string>& roles) {
    if (roles == std::vector<std::string>{"auto"}) {
        if (options.solver || options.verifier || options.whistleblower || options.custodian)
            return fail("worker.bad_role",
                        "--roles auto takes every role that has a bond: leave the other options out");
        options.solver = options.verifier = options.whistleblower = options.custodian = options.roles_auto = true;
        return {};
    }
    for (const std::string& name : roles) {
        if (name == "solver")
            options.solver = true;
        else if (name == "verifier")
            options.verifier = true;
        else if (name == "whistleblower")
            options.whistleblower = true;
        else if (name == "custodian")
            options.custodian = true;
        else
            return fail("worker.bad_role", name + "; known: solver, verifier, whistleblower, custodian, or auto alone");
    }
    return {};
}

Status translate(WorkerOptions& options, const Raw& raw) {
    QUERN_CHECK(take_roles(options, raw.roles));
    QUERN_CHECK(compute::worker::check_roles(options));
    QUERN_TRY(const http::Url url, http::parse_url(raw.node));
    options.node_host = url.host;
    options.node_port = url.port;
    options.notifications = raw.ws != "off";
    if (options.notifications && !raw.ws.empty()) {
        QUERN_TRY(options.websocket, websocket::parse_url(raw.ws));
    }
    options.ticks = !raw.no_ticks;
    options.profiles = !raw.no_profiling;
    options.benchmark = !raw.no_benchmark;
    options.version = QUERN_VERSION;
    for (const auto& [name, text, amount] :
         {std::tuple("--price", &raw.bid_price, &options.bid_price),
          std::tuple("--max-fee-per-gas", &raw.max_fee_per_gas, &options.spending.max_fee_per_gas),
          std::tuple("--max-fees-per-day", &raw.max_fees_per_day, &options.spending.per_day)}) {
        if (text->empty()) continue;
        QUERN_TRY(*amount, wallet::amount_of_option(name, *text));
    }
    QUERN_CHECK(take_transfer_options(options.sources, raw.transfer));
    QUERN_TRY(options.backend, backend_named(raw.backend));
    if (raw.torch_device == "cuda") QUERN_CHECK(check_torch_device(raw.torch_device));  // now, not at the first task
    if (!raw.no_torch)
        options.fast_steps = steps_by_torch(options.threads, {torch_products(raw.products), raw.torch_device});
#ifdef QUERN_TEST_FAULTS
    if (!raw.fault.empty()) {
        QUERN_TRY(options.fault, compute::worker::parse_fault(raw.fault));
    }
#endif
    return log::configure(raw.log);
}

}  // namespace

int main(int argc, char** argv) {
    WorkerOptions options;
    Raw raw;
    CLI::App app{"quern-worker: solver, verifier, whistleblower and custodian of the Quern compute market"};
    declare(app, options, raw);
    if (const auto code = parse_command_line(app, kProgram, argc, argv)) return *code;
    if (const Status done = translate(options, raw); !done) return complain(kProgram, done.error(), kExitUsage);
    auto key = crypto::load_key_file(options.key_file, raw.password_file);
    if (!key) return complain(kProgram, key.error());

    stop_on({SIGINT, SIGTERM});
    struct sigaction hangup {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) stop_on({SIGHUP});  // its terminal is closed, and no nohup
    const Status status = compute::worker::run(options, std::move(*key), stop_requested);
    log::flush();
    return status ? 0 : complain(kProgram, status.error());
}
