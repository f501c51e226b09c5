#include "compute/worker/worker.h"

#include <chrono>
#include <thread>

#include "base/log.h"
#include "compute/cost/self_benchmark.h"
#include "compute/worker/block_signal.h"
#include "compute/worker/node_client.h"
#include "compute/worker/shell.h"

namespace quern::compute::worker {
namespace {

using log::Category;

constexpr std::uint64_t kRetryNodeMs = 500;
constexpr std::uint64_t kQuietMs = 5'000;  // with notifications of blocks it is looked all the same
constexpr std::size_t kMaxChainFileBytes = 32;

void pause(std::uint64_t milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

Expected<std::uint64_t> wait_for_node(NodeClient& node, const std::atomic<bool>& stop) {
    bool told = false;
    while (!stop) {
        const auto chain_id = node.chain_id();
        if (chain_id) return *chain_id;
        if (!told) log::info(Category::worker, "waiting for the node reason={}", chain_id.error().to_string());
        told = true;
        pause(kRetryNodeMs);
    }
    return fail("worker.stopped");
}

// The chain that this directory works for: the node may be another one tomorrow, and would get signatures for its own.
Status check_chain(const WorkerOptions& options, std::uint64_t chain_id) {
    if (options.chain_id && *options.chain_id != chain_id)
        return fail("worker.wrong_chain", "the node is on chain " + std::to_string(chain_id) + ", --chain-id says " +
                                              std::to_string(*options.chain_id));
    const std::string path = options.datadir + "/chain_id";
    const std::string text = std::to_string(chain_id) + "\n";
    if (!fs::exists(path)) return fs::write_file_atomic(path, as_bytes(text), 0600);
    QUERN_TRY(const std::string known, fs::read_text_file(path, kMaxChainFileBytes));
    if (known == text) return {};
    return fail("worker.wrong_chain", "the node is on chain " + std::to_string(chain_id) + ", " + options.datadir +
                                          " belongs to chain " + known.substr(0, known.find('\n')));
}

// Two processes that bid, report and seal for one account undo each other's nonces, and a verifier's two choices are
// slashed. Other chains may have the same key. None where the key's file cannot be locked (a read-only medium).
Expected<std::optional<fs::LockFile>> lock_key(const std::string& file, std::uint64_t chain_id) {
    auto lock = fs::LockFile::acquire_within(file, chain_id);
    if (lock) return std::optional(std::move(*lock));
    if (lock.error().name == fs::kLocked)
        return fail("worker.key_in_use", file + ": another quern-worker on this chain has it");
    log::warning(Category::worker, "whether another worker has the key cannot be told reason={}",
                 lock.error().to_string());
    return std::optional<fs::LockFile>();
}

// None: nobody asks for it, or it cannot be had, which stops nobody from working.
std::optional<cost::Profile> measure_machine(const WorkerOptions& options, const std::atomic<bool>& stop) {
    if (!options.benchmark || !(options.solver || options.verifier || options.whistleblower)) return std::nullopt;
    const Cancellation stopping([&stop] { return stop.load(); });
    const std::string card =
        options.backend == vm::tensor::arith::Backend::cuda ? vm::tensor::card_name() : std::string();
    const auto key = cost::profile_key(options.backend, options.threads, options.version, card);
    auto profile = cost::load_or_measure(options.datadir + "/machine-profile.json", key, &stopping);
    if (!profile) {
        log::warning(Category::worker, "how fast this machine is cannot be told reason={}",
                     profile.error().to_string());
        return std::nullopt;
    }
    log::info(Category::worker, "machine profile processor={} backend={} threads={} error={:.3f}",
              profile->key.processor, vm::tensor::arith::name(profile->key.setup.backend), profile->key.setup.threads,
              profile->error);
    return std::move(*profile);
}

}  // namespace

Status check_roles(const WorkerOptions& options) {
    if (options.solver || options.verifier || options.whistleblower || options.custodian) return {};
    return fail("worker.no_role",
                "give --roles, or at least one of --solver, --verifier, --whistleblower, --custodian");
}

Status run(const WorkerOptions& options, crypto::PrivateKey key, const std::atomic<bool>& stop) {
    QUERN_CHECK(check_roles(options));
    QUERN_CHECK(vm::tensor::check_backend(options.backend));
    QUERN_CHECK(vm::tensor::arith::check_floating_point_environment());
    QUERN_CHECK(fs::create_directories(options.datadir, 0700));
    QUERN_TRY(const auto lock, fs::LockFile::acquire(options.datadir + "/.lock"));

    NodeClient node(options.node_host, options.node_port, options.credentials_file);
    const auto chain_id = wait_for_node(node, stop);
    if (!chain_id) return {};
    QUERN_CHECK(check_chain(options, *chain_id));
    const auto key_lock = lock_key(options.key_file, *chain_id);
    if (!key_lock) return tl::unexpected<Error>(key_lock.error());
    if (!options.credentials_file.empty() && !fs::exists(options.credentials_file))
        log::warning(
            Category::worker,
            "--rpc-cookie {} is not there: until it is, the node fetches no contents from others for this worker",
            options.credentials_file);
    const SystemClock clock;
    QUERN_TRY(auto spending, Spending::open(options.datadir + "/spending.rlp", options.spending, clock));
    QUERN_TRY(Sender sender,
              Sender::open(node, std::move(key), *chain_id, std::move(spending), options.datadir + "/sent.rlp"));
    log::info(Category::worker, "worker started address={} chain={} roles={}{}{}{}",
              chain::types::to_checksum_address(sender.address()), *chain_id, options.solver ? "solver " : "",
              options.verifier ? "verifier " : "", options.custodian ? "custodian " : "",
              options.roles_auto      ? "whistleblower while few are"
              : options.whistleblower ? "whistleblower"
                                      : "");

    const std::optional<cost::Profile> profile = measure_machine(options, stop);
    Bell bell;
    Shell shell(
        {options,
         [&options] {
             return std::make_unique<NodeClient>(options.node_host, options.node_port, options.credentials_file);
         },
         node, sender, clock, [] { return std::make_unique<OsRng>(); }, stop, bell, profile ? &*profile : nullptr});
    std::optional<BlockSignal> blocks;
    if (options.notifications) {
        BlockSignal::Options signal;
        signal.node_host = options.node_host;
        signal.node_port = options.node_port;
        signal.url = options.websocket;
        blocks.emplace(std::move(signal), bell);
    }
    bool reachable = true;
    while (!stop) {
        const Status seen = shell.look();
        if (!seen && reachable)
            log::warning(Category::worker, "node not reachable reason={}", seen.error().to_string());
        if (seen && !reachable) log::info(Category::worker, "node reachable again");
        reachable = static_cast<bool>(seen);
        const bool notified = reachable && blocks && blocks->connected();
        bell.wait(!reachable ? kRetryNodeMs : notified ? kQuietMs : options.poll_ms, stop);
    }
    log::info(Category::worker, "worker stops");
    return {};
}

}  // namespace quern::compute::worker
