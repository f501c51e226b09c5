#include "node/node.h"

#include <atomic>

#include "base/fs.h"
#include "base/rng.h"
#include "chain/consensus/single_validator.h"
#include "chain/store/leveldb_kv.h"
#include "crypto/key_file.h"
#include "node/call_simulator.h"
#include "node/chain_thread.h"
#include "node/content_gateway.h"
#include "node/market_guide.h"
#include "node/reader.h"
#include "quern_version.h"
#include "rpc/dispatcher.h"
#include "rpc/methods/backend.h"

namespace quern::node {
namespace {

namespace consensus = chain::consensus;

// Full disks come as different errors from different layers; say it in the words that help.
void log_failure(const Error& error) {
    log::error(log::Category::node, "stopping: {}", error.to_string());
    const std::string& detail = error.detail;
    if (error.name == "consensus.journal_write_failed" || error.name.starts_with("store.") ||
        detail.find("No space left") != std::string::npos)
        log::error(
            log::Category::node,
            "the disk may be full or broken; nothing that was reported final is lost; free space and start again");
}

}  // namespace

// Members are destroyed in reverse order: RPC first, the database last.
struct Node::Services {
    NodeOptions options;
    SystemClock clock;
    std::optional<fs::LockFile> lock;
    std::unique_ptr<ThreadPool> threads;
    std::unique_ptr<chain::store::LevelDbStore> store;
    std::optional<ChainSetup> setup;
    std::unique_ptr<content::Store> contents;
    std::unique_ptr<chain::mempool::Pool> pool;
    std::unique_ptr<Chain> chain;
    std::unique_ptr<TxGateway> gateway;
    std::optional<consensus::FileSafetyJournal> journal;
    std::optional<consensus::SingleValidator> engine;
    std::unique_ptr<SingleProducer> producer;
    std::unique_ptr<Reader> reader;
    std::unique_ptr<CallSimulator> simulator;
    std::unique_ptr<StoreGateway> content_gateway;
    std::unique_ptr<CoreMarketGuide> market;
    std::unique_ptr<ChainThread> chain_thread;
    rpc::methods::Backend backend;
    std::unique_ptr<rpc::Registry> registry;
    std::unique_ptr<rpc::Dispatcher> dispatcher;
    std::unique_ptr<rpc::HttpServer> server;

    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::optional<Error> failure;  // guarded by mutex

    [[nodiscard]] Status open_storage();
    [[nodiscard]] Status open_chain();
    [[nodiscard]] Status open_consensus();
    [[nodiscard]] Status open_rpc();
    [[nodiscard]] std::string path(const char* name) const { return options.datadir + "/" + name; }
};

Status Node::Services::open_storage() {
    QUERN_CHECK(fs::create_directories(options.datadir, 0700));
    QUERN_CHECK(log::configure(options.log));
    auto locked = fs::LockFile::acquire(path(".lock"));
    if (!locked)
        return fail(locked.error().name, "the data directory " + options.datadir + " is in use by another quernd (" +
                                             locked.error().detail + ")");
    lock.emplace(std::move(*locked));
    log::info(log::Category::node, "quernd {} datadir={}", QUERN_VERSION, options.datadir);
    threads = std::make_unique<ThreadPool>(options.threads);

    chain::store::LevelDbOptions database;
    database.cache_bytes = options.database_cache_mib << 20;
    QUERN_TRY(store, chain::store::LevelDbStore::open(path("chaindata"), database));
    std::optional<std::string> genesis;
    if (!options.genesis_file.empty()) {
        QUERN_TRY(genesis, fs::read_text_file(options.genesis_file, chain::exec::kMaxGenesisBytes));
    }
    QUERN_TRY(setup, open_chain_database(*store, genesis));
    const auto& params = setup->genesis.params;
    if (!options.network.empty() && options.network != params.network)
        return fail("node.wrong_network",
                    "-chain=" + options.network + ", but the genesis is " + params.network + "'s");
    QUERN_TRY(contents,
              content::Store::open({path("content"), options.content_quota_bytes, options.content_max_item_bytes}));
    return {};
}

Status Node::Services::open_chain() {
    pool = std::make_unique<chain::mempool::Pool>(setup->genesis.params, options.mempool);
    chain::types::Address beneficiary;
    std::optional<crypto::PrivateKey> key;
    if (!options.validator_key.empty()) {
        QUERN_TRY(auto loaded, crypto::load_key_file(options.validator_key, options.validator_password_file));
        beneficiary = crypto::address20(loaded);
        key.emplace(std::move(loaded));
    }
    QUERN_TRY(chain, Chain::open({*store, *setup, *pool, *threads, clock, beneficiary}));
    QUERN_TRY(auto pool_journal, chain::mempool::PoolJournal::open(path("mempool.journal")));
    gateway = std::make_unique<TxGateway>(*pool, chain->board(), std::move(pool_journal));
    const std::size_t restored = gateway->restore();

    const auto& params = setup->genesis.params;
    log::info(log::Category::node, "chain network={} id={} genesis={} head={} waiting={} contents={}", params.network,
              params.chain_id, to_hex0x(setup->genesis_hash), chain->tip().number, restored, contents->usage().items);
    if (!key) {
        log::warning(log::Category::node, "no -validatorkey: this node answers questions and makes no blocks");
        return {};
    }
    QUERN_CHECK(fs::create_directories(path("consensus"), 0700));
    QUERN_CHECK(fs::sync_directory(options.datadir));
    QUERN_TRY(journal, consensus::FileSafetyJournal::open(path("consensus/safety.journal")));
    producer = std::make_unique<SingleProducer>(*chain, *setup, clock);
    QUERN_TRY(auto epoch, chain->epoch_setup());
    consensus::SingleValidatorSetup validator{
        params,          {setup->genesis_hash, params.chain_id}, std::move(epoch.committee), chain->tip(),
        journal->last(), options.accept_missing_journal};
    QUERN_TRY(engine, consensus::SingleValidator::make(std::move(validator), std::move(*key)));
    log::info(log::Category::consensus, "validating address={}", chain::types::to_checksum_address(beneficiary));
    return {};
}

Status Node::Services::open_consensus() {
    if (!engine) return {};
    chain_thread = std::make_unique<ChainThread>(
        ChainThread::Parts{*chain, *producer, *pool, *gateway, *engine, *journal, clock}, [this](const Error& error) {
            log_failure(error);
            const std::lock_guard guard(mutex);
            failure = error;
            stop = true;
        });
    gateway->on_admitted([this] { chain_thread->wake(); });
    return {};
}

Status Node::Services::open_rpc() {
    reader = std::make_unique<Reader>(*setup, chain->board(), *pool, chain->leaf_timer());
    simulator = std::make_unique<CallSimulator>(*setup, chain->board());
    content_gateway = std::make_unique<StoreGateway>(*contents);
    market = std::make_unique<CoreMarketGuide>(setup->genesis.params.market);
    if (!options.rpc_enabled) return {};

    backend.chain = reader.get();
    backend.submitter = gateway.get();
    backend.simulator = simulator.get();
    backend.market = market.get();
    backend.version = QUERN_VERSION;
    backend.request_stop = [this] { stop = true; };
    QUERN_TRY(registry, rpc::methods::make_registry(backend));
    dispatcher = std::make_unique<rpc::Dispatcher>(*registry);

    Bytes secret(32);
    OsRng().fill(secret);
    const std::string cookie = "__cookie__:" + to_hex(secret);
    QUERN_CHECK(fs::write_secret_file(path(".cookie"), as_bytes(cookie)));
    rpc::HttpOptions http = options.rpc;
    http.cookie = cookie;
    rpc::HttpHooks hooks;
    hooks.rpc = [this](std::string_view text, const rpc::CallContext& context) {
        return dispatcher->handle(text, context);
    };
    hooks.home = [this] { return rpc::methods::home_text(backend); };
    hooks.health = [this] { return rpc::methods::health_report(backend); };
    hooks.content = content_gateway.get();
    auto started = rpc::HttpServer::start(http, std::move(hooks));
    if (!started)
        return fail(started.error().name, "port " + std::to_string(http.port) + " on " + http.bind + ": " +
                                              started.error().detail +
                                              " (choose another with -rpcport or -portoffset)");
    server = std::move(*started);
    return {};
}

Node::Node(std::unique_ptr<Services> services) : services_(std::move(services)) {}

Expected<std::unique_ptr<Node>> Node::start(const NodeOptions& options) {
    auto services = std::make_unique<Services>();
    services->options = options;
    QUERN_CHECK(services->open_storage());
    QUERN_CHECK(services->open_chain());
    QUERN_CHECK(services->open_consensus());
    QUERN_CHECK(services->open_rpc());
    if (services->chain_thread) services->chain_thread->start();
    log::info(log::Category::node, "started");
    return std::unique_ptr<Node>(new Node(std::move(services)));
}

Node::~Node() {
    log::info(log::Category::node, "shutting down");
    if (services_->server) services_->server->stop();
    if (services_->chain_thread) services_->chain_thread->stop();
    (void)fs::remove_file(services_->path(".cookie"));
    const auto height = services_->chain->tip().number;
    services_.reset();
    log::info(log::Category::node, "stopped head={}", height);
    log::flush();
}

void Node::request_stop() { services_->stop = true; }

bool Node::stop_requested() const { return services_->stop; }

Status Node::result() const {
    const std::lock_guard guard(services_->mutex);
    if (services_->failure) return fail(*services_->failure);
    return {};
}

}  // namespace quern::node
