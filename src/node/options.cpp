#include "node/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/args.h"
#include "base/fs.h"
#include "quern_version.h"

namespace quern::node {
namespace {

struct Raw {  // what has to be translated after parsing
    std::string conf;
    std::uint16_t rpc_port = kDefaultRpcPort;
    std::uint16_t port = kDefaultPort;
    std::uint16_t ws_port = rpc::kDefaultWsPort;
    std::uint16_t port_offset = 0;
    std::string checkpoint;
    std::vector<std::string> add_nodes;
    std::vector<std::string> seed_nodes;
    std::vector<std::string> connect;
    std::vector<std::string> external;
    std::uint64_t max_upload_kib = 0;
    std::uint64_t content_quota_mib = content::kDefaultQuotaBytes >> 20;
    std::uint64_t content_idle_days = content::kDefaultMinIdleSeconds / 86'400;
    std::uint64_t content_min_free_mib = content::kDefaultMinFreeBytes >> 20;
    std::uint64_t content_max_item_mib = content::kDefaultMaxItemBytes >> 20;
    std::string log_level = "info";
    std::uint64_t log_mib = log::Rotation{}.max_bytes >> 20;
    bool print_to_console = true;
};

std::string default_datadir() {
    const char* home = std::getenv("HOME");
    return (home != nullptr ? std::string(home) : std::string(".")) + "/.quern";
}

void declare_chain(CLI::App& app, NodeOptions& options, Raw& raw) {
    app.add_option("--datadir", options.datadir, "data directory")->default_str("~/.quern")->group("Chain");
    app.add_option("--conf", raw.conf, "configuration file; same names, name=value")
        ->default_str("<datadir>/quern.conf")
        ->group("Chain");
    app.add_option("--chain", options.network, "network that the genesis must name: devnet, testnet, mainnet")
        ->group("Chain");
    app.add_option("--genesis", options.genesis_file, "genesis file; needed at first start (quern-genesis makes one)")
        ->group("Chain");
    app.add_option("--checkpoint", raw.checkpoint,
                   "HEIGHT:HASH of a recent block that the chain must have; for a node that is new or was long away")
        ->group("Chain");
    app.add_flag(
           "--archive", options.archive,
           "keep the state after every block, not the newest 128 alone; from a database's first start on, and then "
           "for good")
        ->group("Chain");
    app.add_option("--revert", options.revert_to,
                   "go back to this block, one of the newest 128, before starting; not with a validator's key")
        ->group("Chain");
    app.add_option("--dbcache", options.database_cache_mib, "database cache, MiB")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str()
        ->group("Chain");
    app.add_option("--threads", options.threads, "threads for signatures and hashing; 0: one per CPU")
        ->check(CLI::Range(0, 256))
        ->capture_default_str()
        ->group("Chain");
}

void declare_validator(CLI::App& app, NodeOptions& options) {
    app.add_option("--validatorkey", options.validator_key,
                   "make blocks with this key: keystore v3 or hexadecimal, mode 600")
        ->group("Validator");
    app.add_option("--validatorpassword", options.validator_password_file, "file whose first line opens the keystore")
        ->group("Validator");
    app.add_flag("--acceptmissingjournal", options.accept_missing_journal,
                 "sign although consensus/sdbft.journal is missing: only when no other copy of this key signs or has "
                 "signed more")
        ->group("Validator");
#ifdef QUERN_TEST_FAULTS
    app.add_option("--testfault", options.test_fault, "misbehave: double_vote (this is a test build)")
        ->check(CLI::IsMember({"double_vote"}))
        ->group("Validator");
#endif
}

void declare_network(CLI::App& app, NodeOptions& options, Raw& raw) {
    app.add_flag("--listen,!--nolisten", options.peers.listen, "take connections from other nodes")
        ->capture_default_str()
        ->group("Network");
    app.add_option("--port", raw.port, "port for other nodes; 0: any free one")
        ->capture_default_str()
        ->group("Network");
    app.add_option("--bind", options.peers.bind, "address to listen on for other nodes")
        ->capture_default_str()
        ->group("Network");
    app.add_option("--externalip", raw.external, "HOST:PORT under which others reach this node (repeatable)")
        ->take_all()
        ->group("Network");
    app.add_option("--addnode", raw.add_nodes, "0xADDRESS@HOST:PORT of a node to stay connected to (repeatable)")
        ->take_all()
        ->group("Network");
    app.add_option("--seednode", raw.seed_nodes,
                   "0xADDRESS@HOST:PORT of a node that is asked for others when none is known, then left (repeatable)")
        ->take_all()
        ->group("Network");
    app.add_option("--connect", raw.connect, "as -addnode, and connect to no others (repeatable)")
        ->take_all()
        ->group("Network");
    app.add_option("--maxinbound", options.peers.max_inbound, "connections from others at most")
        ->check(CLI::Range(0, 10'000))
        ->capture_default_str()
        ->group("Network");
    app.add_option("--maxoutbound", options.peers.max_outbound,
                   "connections to found nodes at most, beside -addnode and the committee")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str()
        ->group("Network");
    app.add_option("--nodekey", options.node_key,
                   "key file of a node that is no validator (made at first start); a validator uses its own key")
        ->default_str("<datadir>/node.key")
        ->group("Network");
    app.add_option("--maxuploadrate", raw.max_upload_kib, "KiB/s of contents sent to others; 0: what the line bears")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 30))
        ->capture_default_str()
        ->group("Network");
}

void declare_rpc(CLI::App& app, NodeOptions& options, Raw& raw) {
    app.add_flag("--rpc,!--norpc", options.rpc_enabled, "serve JSON-RPC and contents")
        ->capture_default_str()
        ->group("RPC");
    app.add_option("--rpcbind", options.rpc.bind, "address to listen on")->capture_default_str()->group("RPC");
    app.add_option("--rpcport", raw.rpc_port, "port")->capture_default_str()->group("RPC");
    app.add_option("--portoffset", raw.port_offset, "added to every port, for several nodes on one host")
        ->capture_default_str()
        ->group("RPC");
    app.add_option("--rpcthreads", options.rpc.threads, "threads that answer")
        ->check(CLI::Range(1, 256))
        ->capture_default_str()
        ->group("RPC");
    app.add_option("--rpccorsdomain", options.rpc.cors_origins,
                   "origins that browsers may call from, comma separated; * for all")
        ->delimiter(',')
        ->take_all()
        ->group("RPC");
    app.add_option("--rpcallowhost", options.gate.allow_hosts,
                   "names by which clients may call this node, comma separated, beside localhost and addresses; * for "
                   "all")
        ->delimiter(',')
        ->take_all()
        ->group("RPC");
    app.add_option("--rpcauth", options.gate.users,
                   "USER:SALT$HASH of a user who may call all methods (contrib/rpcauth.py makes one; repeatable)")
        ->take_all()
        ->group("RPC");
    app.add_option("--rpcwhitelist", options.gate.whitelists,
                   "USER:METHOD,METHOD: what a user of -rpcauth may call instead of all (repeatable)")
        ->take_all()
        ->group("RPC");
    app.add_option("--rpcallowmethod", options.gate.allow_methods,
                   "methods that callers without credentials may use, comma separated, such as eth_*; all when left "
                   "out, but for those that need credentials")
        ->delimiter(',')
        ->take_all()
        ->group("RPC");
}

void declare_websocket(CLI::App& app, NodeOptions& options, Raw& raw) {
    app.add_flag("--ws,!--nows", options.ws_enabled,
                 "with -rpc: serve JSON-RPC and subscriptions over WebSocket, on its port and on -rpcport")
        ->capture_default_str()
        ->group("RPC");
    app.add_option("--wsbind", options.ws.bind, "address to listen on for WebSocket")
        ->capture_default_str()
        ->group("RPC");
    app.add_option("--wsport", raw.ws_port, "port for WebSocket; 0: any free one")->capture_default_str()->group("RPC");
    app.add_option("--wsorigin", options.ws.origins,
                   "origins of web pages that may connect by WebSocket, comma separated; * for all")
        ->delimiter(',')
        ->take_all()
        ->group("RPC");
    app.add_option("--wsmaxconnections", options.ws.max_connections, "WebSocket connections at most")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str()
        ->group("RPC");
}

void declare_storage(CLI::App& app, NodeOptions& options, Raw& raw) {
    app.add_option("--maxmempool", options.mempool.max_transactions, "waiting transactions at most")
        ->check(CLI::Range(1, 10'000'000))
        ->capture_default_str()
        ->group("Storage");
    app.add_option("--contentquota", raw.content_quota_mib, "content store's size at most, MiB")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
        ->capture_default_str()
        ->group("Storage");
    app.add_option("--contentidledays", raw.content_idle_days,
                   "contents that no task names may go once nobody has used them for so long, days")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{36'500}))
        ->capture_default_str()
        ->group("Storage");
    app.add_option("--contentminfree", raw.content_min_free_mib, "what contents leave free of the disk, MiB")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40))
        ->capture_default_str()
        ->group("Storage");
    app.add_option("--contentmaxitem", raw.content_max_item_mib, "one content's size at most, MiB")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
        ->capture_default_str()
        ->group("Storage");
}

void declare_log(CLI::App& app, NodeOptions& options, Raw& raw) {
    app.add_option("--debug", options.log.debug, "log categories at debug level, comma separated; all for each")
        ->delimiter(',')
        ->take_all()
        ->group("Log");
    app.add_option("--loglevel", raw.log_level, "debug, info, warning, error or off")
        ->capture_default_str()
        ->group("Log");
    app.add_option("--debuglogfile", options.log.file, "log file")->default_str("<datadir>/debug.log")->group("Log");
    app.add_option("--debuglogsize", raw.log_mib,
                   "MiB at which the log file becomes FILE.1 and a new one begins; 0: never (SIGHUP opens it anew)")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 20))
        ->capture_default_str()
        ->group("Log");
    app.add_option("--debuglogfiles", options.log_rotation.kept, "numbered log files that are kept")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str()
        ->group("Log");
    app.add_flag("--printtoconsole,!--noprinttoconsole", raw.print_to_console, "log to standard error too")
        ->capture_default_str()
        ->group("Log");
}

void declare(CLI::App& app, NodeOptions& options, Raw& raw) {
    app.set_version_flag("--version", std::string("quernd ") + QUERN_VERSION);
    declare_chain(app, options, raw);
    declare_validator(app, options);
    declare_network(app, options, raw);
    declare_rpc(app, options, raw);
    declare_websocket(app, options, raw);
    declare_storage(app, options, raw);
    declare_log(app, options, raw);
    // On the command line, or in the file and on the command line: the last one counts.
    for (auto* option : app.get_options())
        if (option->get_expected_max() == 1) option->take_last();
}

std::optional<EarlyExit> parse(CLI::App& app, const std::vector<std::string>& arguments) {
    try {
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::ParseError& error) {
        std::ostringstream out;
        std::ostringstream err;
        if (app.exit(error, out, err) == 0) return EarlyExit{out.str(), 0};
        return EarlyExit{std::string("quernd: ") + error.what() + "; see quernd --help\n", 2};
    }
    return std::nullopt;
}

// "host:port", IPv6 hosts in brackets.
Expected<p2p::messages::Endpoint> parse_endpoint(const std::string& text) {
    auto peer = p2p::parse_static_peer("0x" + std::string(40, '0') + "@" + text);
    if (!peer) return fail("options.bad_endpoint", "expected HOST:PORT, not " + text);
    return std::move(peer->endpoint);
}

Status translate_peers(NodeOptions& options, const Raw& raw) {
    auto& peers = options.peers;
    if (std::uint32_t{raw.port} + raw.port_offset > 65535)
        return fail("options.bad_port", "port and portoffset together pass 65535");
    peers.port = static_cast<std::uint16_t>(raw.port == 0 ? 0 : raw.port + raw.port_offset);
    for (const auto& text : raw.external) {
        QUERN_TRY(auto endpoint, parse_endpoint(text));
        peers.advertised.push_back(std::move(endpoint));
    }
    const bool only = !raw.connect.empty();
    if (only && !raw.add_nodes.empty()) return fail("options.bad_peers", "-connect and -addnode exclude each other");
    for (const auto& text : only ? raw.connect : raw.add_nodes) {
        QUERN_TRY(auto peer, p2p::parse_static_peer(text));
        peers.static_peers.push_back(std::move(peer));
    }
    for (const auto& text : raw.seed_nodes) {
        QUERN_TRY(auto peer, p2p::parse_static_peer(text));
        peers.seed_nodes.push_back(std::move(peer));
    }
    if (only) peers.max_outbound = 0;
    peers.max_upload_bytes_per_second = raw.max_upload_kib << 10;
    if (options.node_key.empty()) options.node_key = options.datadir + "/node.key";
    return {};
}

// Nodes whose ports differ by an offset alone must not meet one another: 8545 and 8546 are neighbours, so that a second
// node with -portoffset=1 would find its JSON-RPC port taken by the first one's WebSocket.
Status check_offset(const NodeOptions& options, const Raw& raw) {
    struct Port {
        const char* option;
        std::uint16_t number;
        bool used;
    };
    const Port ports[] = {{"-rpcport", raw.rpc_port, options.rpc_enabled},
                          {"-wsport", raw.ws_port, options.rpc_enabled && options.ws_enabled},
                          {"-port", raw.port, options.peers.listen}};
    for (const Port& mine : ports)
        for (const Port& other : ports)
            if (raw.port_offset != 0 && mine.used && other.used && mine.number != 0 &&
                mine.number + raw.port_offset == other.number)
                return fail("options.bad_port", "-portoffset=" + std::to_string(raw.port_offset) +
                                                    " makes this node's " + mine.option + " " +
                                                    std::to_string(other.number) + ", the " + other.option +
                                                    " of a node without an offset; take 10, 20, ...");
    return {};
}

Status translate(NodeOptions& options, const Raw& raw) {
    QUERN_CHECK(check_offset(options, raw));
    if (options.datadir.empty()) options.datadir = default_datadir();
    if (std::uint32_t{raw.rpc_port} + raw.port_offset > 65535)
        return fail("options.bad_port", "rpcport and portoffset together pass 65535");
    options.rpc.port = static_cast<std::uint16_t>(raw.rpc_port + raw.port_offset);
    QUERN_CHECK(translate_peers(options, raw));
    if (!raw.checkpoint.empty()) {
        QUERN_TRY(options.checkpoint, parse_checkpoint(raw.checkpoint));
    }
    if (std::uint32_t{raw.ws_port} + raw.port_offset > 65535)
        return fail("options.bad_port", "wsport and portoffset together pass 65535");
    options.ws.port = static_cast<std::uint16_t>(raw.ws_port == 0 ? 0 : raw.ws_port + raw.port_offset);
    options.ws.threads = options.rpc.threads;
    options.content_quota_bytes = raw.content_quota_mib << 20;
    options.content_min_idle_seconds = raw.content_idle_days * 86'400;
    options.content_min_free_bytes = raw.content_min_free_mib << 20;
    options.content_max_item_bytes = raw.content_max_item_mib << 20;
    options.rpc.max_content_bytes = options.content_max_item_bytes;
    QUERN_TRY(options.log.level, log::level_from_name(raw.log_level));
    options.log_rotation.max_bytes = raw.log_mib << 20;
    options.log.to_stderr = raw.print_to_console;
    if (options.log.file.empty()) options.log.file = options.datadir + "/debug.log";
    return {};
}

// One attempt: the arguments, all of them.
ParsedOptions attempt(const std::vector<std::string>& arguments, std::string& conf) {
    ParsedOptions parsed;
    Raw raw;
    CLI::App app{"quernd: a node of the Quern chain", "quernd"};
    declare(app, parsed.options, raw);
    parsed.exit = parse(app, arguments);
    if (parsed.exit) return parsed;
    if (const auto done = translate(parsed.options, raw); !done)
        parsed.exit = EarlyExit{"quernd: " + done.error().to_string() + "\n", 2};
    conf = raw.conf;
    return parsed;
}

}  // namespace

Expected<std::vector<std::string>> parse_config(std::string_view text) {
    std::vector<std::string> arguments;
    std::size_t line_number = 0;
    while (!text.empty()) {
        ++line_number;
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const auto trim = [](std::string_view part) {
            while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) part.remove_prefix(1);
            while (!part.empty() && (part.back() == ' ' || part.back() == '\t' || part.back() == '\r'))
                part.remove_suffix(1);
            return part;
        };
        line = trim(line);
        if (line.empty() || line.front() == '#') continue;
        const std::size_t equals = std::min(line.find('='), line.size());
        const std::string_view name = trim(line.substr(0, equals));
        const std::string_view value = equals == line.size() ? "1" : trim(line.substr(equals + 1));
        if (name.empty() || name.find_first_of(" \t-[]") != std::string_view::npos)
            return fail("config.bad_line", "line " + std::to_string(line_number) + ": expected name=value");
        arguments.push_back("--" + std::string(name) + "=" + std::string(value));
    }
    return arguments;
}

ParsedOptions parse_options(int argc, const char* const* argv) {
    const auto command_line = normalize_arguments(argc, argv);
    std::string conf;
    auto first = attempt(command_line, conf);
    if (first.exit) return first;

    const bool named = !conf.empty();
    if (!named) conf = first.options.datadir + "/quern.conf";
    const auto text = fs::read_text_file(conf, kMaxConfigBytes);
    if (!text && text.error().name == "fs.not_found" && !named) return first;
    if (!text) {
        first.exit = EarlyExit{"quernd: cannot read the configuration: " + text.error().to_string() + "\n", 2};
        return first;
    }
    auto arguments = parse_config(*text);
    if (!arguments) {
        first.exit = EarlyExit{"quernd: " + conf + ": " + arguments.error().to_string() + "\n", 2};
        return first;
    }
    for (const auto& argument : *arguments)
        if (argument.starts_with("--conf=") || argument.starts_with("--datadir=")) {
            first.exit = EarlyExit{"quernd: " + conf + ": datadir and conf belong on the command line\n", 2};
            return first;
        }
    arguments->insert(arguments->end(), command_line.begin(), command_line.end());
    auto parsed = attempt(*arguments, conf);
    if (parsed.exit && parsed.exit->code != 0) parsed.exit->text += "(with the options of " + conf + ")\n";
    return parsed;
}

}  // namespace quern::node
