#include "node/node.h"

#include <atomic>

#include "base/fs.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "base/thread_priority.h"
#include "chain/store/leveldb_kv.h"
#include "crypto/key_file.h"
#include "crypto/recovery_count.h"
#include "node/chain/revert.h"
#include "node/network_reading.h"
#include "node/participation.h"
#include "node/serve/call_simulator.h"
#include "node/serve/content_duties.h"
#include "node/serve/content_gateway.h"
#include "node/serve/event_hub.h"
#include "node/serve/ledger.h"
#include "node/serve/market_guide.h"
#include "node/serve/reader.h"
#include "quern_version.h"
#include "rpc/dispatcher.h"
#include "rpc/methods/backend.h"

namespace quern::node {
namespace {

// Full disks come as different errors from different layers; say it in the words that help.
void log_failure(const Error& error) {
    log::error(log::Category::node, "stopping: {}", error.to_string());
    const std::string& detail = error.detail;
    if (error.name == "journal.write_failed" || error.name.starts_with("store.") ||
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
    // Of their own for what is submitted: a block's signatures must not wait for a loop of threads that stand back.
    std::unique_ptr<ThreadPool> admission_threads;
    std::unique_ptr<chain::store::LevelDbStore> store;
    std::optional<ChainSetup> setup;
    std::unique_ptr<content::Store> contents;
    std::unique_ptr<chain::mempool::Pool> pool;
    std::unique_ptr<Chain> chain;
    std::unique_ptr<TxGateway> gateway;
    std::unique_ptr<Reader> reader;
    std::unique_ptr<EventHub> events;
    std::unique_ptr<CallSimulator> simulator;
    std::unique_ptr<StoreGateway> content_gateway;
    std::unique_ptr<CoreMarketGuide> market;
    std::unique_ptr<ChainLedger> ledger;
    std::unique_ptr<Participation> participation;
    std::unique_ptr<NetworkReading> network_reading;
    rpc::methods::Backend backend;
    std::unique_ptr<rpc::Registry> registry;
    std::unique_ptr<rpc::Dispatcher> dispatcher;
    std::unique_ptr<rpc::HttpServer> server;
    std::unique_ptr<rpc::WsServer> ws_server;
    std::atomic<std::uint16_t> ws_port{0};

    std::atomic<bool> stop{false};
    Mutex mutex;
    std::optional<Error> failure QUERN_GUARDED_BY(mutex);
    std::optional<crypto::PrivateKey> validator_key;

    [[nodiscard]] Status open_storage();
    [[nodiscard]] Status open_chain();
    [[nodiscard]] Status open_network();
    [[nodiscard]] Expected<crypto::PrivateKey> node_key() const;
    void fail_with(const Error& error);
    [[nodiscard]] static std::string agent() { return std::string("quernd/") + QUERN_VERSION; }
    void open_events();
    [[nodiscard]] Status open_rpc();
    [[nodiscard]] Status open_websocket(const std::shared_ptr<const rpc::Gate>& gate);
    [[nodiscard]] rpc::BeginJob begin_job();
    [[nodiscard]] std::string path(const char* name) const { return options.datadir + "/" + name; }
};

Status Node::Services::open_storage() {
    QUERN_CHECK(fs::create_directories(options.datadir, 0700));
    log::set_rotation(options.log_rotation);
    QUERN_CHECK(log::configure(options.log));
    auto locked = fs::LockFile::acquire(path(".lock"));
    if (!locked)
        return detailed(locked.error(), "the data directory " + options.datadir + " is in use by another quernd (" +
                                            locked.error().detail + ")");
    lock.emplace(std::move(*locked));
    log::info(log::Category::node, "quernd {} datadir={}", QUERN_VERSION, options.datadir);
    threads = std::make_unique<ThreadPool>(options.threads);
    admission_threads = std::make_unique<ThreadPool>(options.threads, [] { stand_back(); });

    chain::store::LevelDbOptions database;
    database.cache_bytes = options.database_cache_mib << 20;
    QUERN_TRY(store, chain::store::LevelDbStore::open(path("chaindata"), database));
    std::optional<std::string> genesis;
    if (!options.genesis_file.empty()) {
        QUERN_TRY(genesis, fs::read_text_file(options.genesis_file, chain::exec::kMaxGenesisBytes));
    }
    QUERN_TRY(setup, open_chain_database(*store, genesis, options.archive));
    if (options.revert_to) {
        if (!options.validator_key.empty())
            return fail("node.cannot_revert",
                        "a validator has signed that the later blocks are final: without -validatorkey this node loads "
                        "them again from others");
        QUERN_CHECK(revert_chain(*store, *options.revert_to));
    }
    if (setup->archive) log::info(log::Category::store, "archive: the state after every block is kept");
    const auto& params = setup->genesis.params;
    if (!options.network.empty() && options.network != params.network)
        return fail("node.wrong_network",
                    "-chain=" + options.network + ", but the genesis is " + params.network + "'s");
    content::remove_old_downloads(path("downloads"));
    QUERN_TRY(contents, content::Store::open({path("content"), options.content_quota_bytes,
                                              options.content_max_item_bytes, content::kDefaultMaxItems,
                                              options.content_min_free_bytes, options.content_min_idle_seconds}));
    return {};
}

Status Node::Services::open_chain() {
    pool = std::make_unique<chain::mempool::Pool>(setup->genesis.params, options.mempool);
    chain::types::Address beneficiary;
    if (!options.validator_key.empty()) {
        QUERN_TRY(auto loaded, crypto::load_key_file(options.validator_key, options.validator_password_file));
        beneficiary = crypto::address20(loaded);
        validator_key.emplace(std::move(loaded));
    }
    const auto checkpoint = options.checkpoint ? options.checkpoint : checkpoint_of(setup->genesis_hash);
    QUERN_TRY(chain, Chain::open({*store, *setup, *pool, *threads, clock, beneficiary, checkpoint}));
    QUERN_TRY(auto pool_journal, chain::mempool::PoolJournal::open(path("mempool.journal")));
    contents->set_duties([this](std::set<Hash32>& idle) {
        return keep_content_duties(chain->board().latest()->state, setup->genesis.params.market, *contents, idle);
    });
    gateway = std::make_unique<TxGateway>(*pool, chain->board(), *admission_threads, std::move(pool_journal));
    const std::size_t restored = gateway->restore();

    const auto& params = setup->genesis.params;
    log::info(log::Category::node,
              "chain network={} id={} genesis={} head={} waiting={} contents={} signatures_recovered={}",
              params.network, params.chain_id, to_hex0x(setup->genesis_hash), chain->tip().number, restored,
              contents->usage().items, crypto::recoveries());
    if (!validator_key) {
        log::info(log::Category::node, "no -validatorkey: this node follows and makes no blocks");
        return {};
    }
    const std::string address = chain::types::to_checksum_address(beneficiary);
    log::info(log::Category::consensus, "validator key address={}", address);
    QUERN_TRY(const auto epoch, chain->epoch_setup());
    const auto& committee = epoch.committee;
    if (committee.index_of(crypto::derive_public(*validator_key)) == committee.members().size())
        log::warning(log::Category::consensus,
                     "the validator key {} is not in the committee of epoch {}: this node follows and makes no blocks "
                     "until the key has stake (in the genesis, or by quern-wallet create-validator)",
                     address, epoch.epoch);
    return {};
}

void Node::Services::fail_with(const Error& error) {
    const MutexLock guard(mutex);
    if (failure) return;
    log_failure(error);
    failure = error;
    stop = true;
}

// A validator's peers know it by its validator key; another node makes a key of its own once.
Expected<crypto::PrivateKey> Node::Services::node_key() const {
    if (validator_key) return validator_key->clone();
    auto loaded = crypto::load_key_file(options.node_key, {});
    if (loaded || loaded.error().name != "fs.not_found") return loaded;
    OsRng rng;
    auto made = crypto::PrivateKey::generate(rng);
    QUERN_CHECK(fs::write_secret_file(options.node_key, as_bytes(to_hex(made.secret_bytes()))));
    log::info(log::Category::node, "made node key file={}", options.node_key);
    return made;
}

Status Node::Services::open_network() {
    QUERN_CHECK(fs::create_directories(path("consensus"), 0700));
    QUERN_CHECK(fs::sync_directory(options.datadir));
    QUERN_TRY(const auto key, node_key());
    ParticipationOptions wanted;
    wanted.journal = path("consensus/sdbft.journal");
    wanted.accept_missing_journal = options.accept_missing_journal;
    wanted.test_fault = options.test_fault;
    auto& p2p = wanted.network;
    p2p.chain_id = setup->genesis.params.chain_id;
    p2p.genesis_hash = setup->genesis_hash;
    p2p.local_network = setup->genesis.params.network == "devnet";
    p2p.agent = agent();
    p2p.listen = options.peers.listen;
    p2p.listen_host = options.peers.bind;
    p2p.port = options.peers.port;
    p2p.advertised = options.peers.advertised;
    p2p.static_peers = options.peers.static_peers;
    p2p.seed_nodes = options.peers.seed_nodes;
    p2p.max_inbound = options.peers.max_inbound;
    p2p.max_outbound = options.peers.max_outbound;
    p2p.bulk_bytes_per_second = options.peers.max_upload_bytes_per_second;
    p2p.peers_file = path("peers.dat");
    p2p.contents = contents.get();
    auto started = Participation::start(
        {*store, *setup, *chain, *pool, *gateway, clock, [this](const Error& error) { fail_with(error); }}, wanted, key,
        validator_key ? std::optional(validator_key->clone()) : std::nullopt);
    if (!started && started.error().name == "p2p.cannot_listen")
        return detailed(started.error(), "port " + std::to_string(options.peers.port) + " on " + options.peers.bind +
                                             ": " + started.error().detail +
                                             " (choose another port with -port or -portoffset, an address of this "
                                             "host with -bind, or -listen=0)");
    QUERN_TRY(participation, std::move(started));
    const auto& network = participation->network();
    log::info(log::Category::node, "network address={} port={} peers_wanted={}", to_hex0x(network.address()),
              network.port(), options.peers.static_peers.size());
    return {};
}

// Before anything can submit a transaction or commit a block.
void Node::Services::open_events() {
    reader = std::make_unique<Reader>(*setup, chain->board(), *pool, chain->leaf_timer());
    events = std::make_unique<EventHub>(EventHub::Parts{chain->board(), *reader, clock});
    gateway->watch([this](std::span<const chain::mempool::PooledPtr> taken) {
        for (const auto& pooled : taken) events->transaction(pooled->transaction);
    });
}

Status Node::Services::open_rpc() {
    simulator = std::make_unique<CallSimulator>(*setup, chain->board());
    content_gateway = std::make_unique<StoreGateway>(*contents);
    // One thread at least stays free for those who do not wait for contents.
    content_gateway->fetch_from(participation->network(), clock, options.rpc.threads - 1);
    market = std::make_unique<CoreMarketGuide>(setup->genesis.params.market);
    if (!options.rpc_enabled) return {};

    backend.chain = reader.get();
    backend.submitter = gateway.get();
    backend.simulator = simulator.get();
    backend.market = market.get();
    ledger = std::make_unique<ChainLedger>(ChainLedger::Parts{chain->board(), *reader});
    backend.ledger = ledger.get();
    const auto& advertised = options.peers.advertised;
    network_reading = std::make_unique<NetworkReading>(
        *participation, advertised.empty() ? options.peers.bind : advertised[0].host, agent());
    backend.network = network_reading.get();
    backend.content = content_gateway.get();
    backend.version = QUERN_VERSION;
    backend.request_stop = [this] { stop = true; };
    backend.websocket_port = [this] { return ws_port.load(); };
    QUERN_TRY(registry, rpc::methods::make_registry(backend));
    dispatcher = std::make_unique<rpc::Dispatcher>(*registry);

    Bytes secret(32);
    OsRng().fill(secret);
    const std::string cookie = "__cookie__:" + to_hex(secret);
    QUERN_CHECK(fs::write_secret_file(path(".cookie"), as_bytes(cookie)));
    rpc::GateRules rules = options.gate;
    rules.cookie = cookie;
    QUERN_TRY(const auto gate, rpc::Gate::make(rules));
    QUERN_CHECK(open_websocket(gate));
    rpc::HttpOptions http = options.rpc;
    http.gate = gate;
    rpc::HttpHooks hooks;
    hooks.rpc = begin_job();
    hooks.home = [this] { return rpc::methods::home_text(backend); };
    hooks.health = [this] { return rpc::methods::health_report(backend); };
    hooks.content = content_gateway.get();
    if (ws_server)
        hooks.upgrade = [this](int socket, std::string received) { ws_server->adopt(socket, std::move(received)); };
    auto started = rpc::HttpServer::start(http, std::move(hooks));
    if (!started)
        return detailed(started.error(), "port " + std::to_string(http.port) + " on " + http.bind + ": " +
                                             started.error().detail +
                                             " (choose another port with -rpcport or -portoffset, an address of this "
                                             "host with -rpcbind)");
    server = std::move(*started);
    return {};
}

rpc::BeginJob Node::Services::begin_job() {
    return [this](std::string text, const rpc::CallContext& context) {
        return dispatcher->begin(std::move(text), context);
    };
}

Status Node::Services::open_websocket(const std::shared_ptr<const rpc::Gate>& gate) {
    if (!options.ws_enabled) return {};
    rpc::WsOptions ws = options.ws;
    ws.gate = gate;
    auto started = rpc::WsServer::start(ws, begin_job(), *events);
    if (!started)
        return detailed(started.error(), "WebSocket port " + std::to_string(ws.port) + " on " + ws.bind + ": " +
                                             started.error().detail +
                                             " (choose another port with -wsport or -portoffset, an address of this "
                                             "host with -wsbind, or none with -nows)");
    ws_server = std::move(*started);
    ws_port = ws_server->port();
    return {};
}

Node::Node(std::unique_ptr<Services> services) : services_(std::move(services)) {}

Expected<std::unique_ptr<Node>> Node::start(const NodeOptions& options) {
    auto services = std::make_unique<Services>();
    services->options = options;
    QUERN_CHECK(services->open_storage());
    QUERN_CHECK(services->open_chain());
    services->open_events();
    QUERN_CHECK(services->open_network());
    QUERN_CHECK(services->open_rpc());
    log::info(log::Category::node, "started");
    return std::unique_ptr<Node>(new Node(std::move(services)));
}

Node::~Node() {
    log::info(log::Category::node, "shutting down");
    if (services_->ws_server) services_->ws_server->stop();
    if (services_->server) services_->server->stop();
    services_->participation->stop();
    (void)fs::remove_file(services_->path(".cookie"));
    const auto height = services_->chain->board().latest()->number();
    services_.reset();
    log::info(log::Category::node, "stopped head={}", height);
    log::flush();
}

void Node::request_stop() { services_->stop = true; }

bool Node::stop_requested() const { return services_->stop; }

Status Node::result() const {
    const MutexLock guard(services_->mutex);
    if (services_->failure) return fail(*services_->failure);
    return {};
}

}  // namespace quern::node
