// quern-cli: calls a node's JSON-RPC methods, moves contents in and out of its store and reports evidence.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include "base/args.h"
#include "base/fs.h"
#include "base/printable.h"
#include "base/uint256.h"
#include "bin/program_file.h"
#include "bin/terminal.h"
#include "chain/params/params.h"
#include "compute/core/state_content.h"
#include "compute/program/state_file.h"
#include "crypto/content_file.h"
#include "quern_version.h"
#include "rpc/client.h"
#include "rpc/content_upload.h"
#include "rpc/evidence_report.h"
#include "rpc/statement_text.h"
#include "wallet/amount.h"

namespace quern {
namespace {

constexpr int kNoNode = 3;
constexpr int kMaxContentTries = 600;  // a second apart, for a content that the node gets from others
constexpr std::chrono::seconds kContentPause{1};
constexpr std::size_t kMaxArgumentFile = std::size_t{8} << 20;
constexpr std::size_t kMaxCookie = 4096;
constexpr std::size_t kMaxConfig = std::size_t{1} << 20;
constexpr auto kRetryPause = std::chrono::milliseconds(200);

constexpr std::uint16_t kDefaultPort = 8545;
constexpr std::uint16_t kMaxPort = std::numeric_limits<std::uint16_t>::max();

struct Options {
    std::string connect = "127.0.0.1";
    std::uint16_t port = kDefaultPort;
    std::uint16_t port_offset = 0;
    std::string datadir;
    bool named = false;
    bool wait = false;
    std::uint64_t wait_seconds = 0;
    std::uint64_t timeout_seconds = 60;
    bool get_info = false;
    bool csv = false;
    std::vector<std::string> words;
};

int complain(int code, const std::string& text) { return quern::complain("quern-cli", text, code); }

int transport_failure(const Options& options, const Error& error) {
    const int code = complain(kNoNode, error.to_string());
    if (error.name == "http.connect_failed")
        std::fprintf(stderr, "Is quernd running? -rpcconnect=%s -rpcport=%u\n", options.connect.c_str(),
                     unsigned{options.port});
    return code;
}

int rpc_failure(const rpc::RpcError& error) {
    std::fprintf(stderr, "error code: %d\nerror message:\n%s\n", error.code, printable(error.message).c_str());
    if (!error.data.is_null()) std::fprintf(stderr, "data: %s\n", printable(error.data.dump()).c_str());
    return kExitFailed;
}

// All of what a node answers: byte by byte into a file, as what can do no harm on a terminal.
void show(std::string_view text) {
    const std::string shown =
        ::isatty(STDOUT_FILENO) != 0 ? printable(text, kUnlimited, Lines::many) : std::string(text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
}

void print_result(const json::Value& value) {
    const auto text = value.as_string();
    show((text ? std::string(*text) : value.dump_pretty()) + "\n");
}

// "@file" is the file's text, "@-" standard input.
Expected<std::string> expand(const std::string& word) {
    if (word.size() < 2 || word[0] != '@') return word;
    std::string text;
    if (word == "@-") {
        text.assign(std::istreambuf_iterator<char>(std::cin), {});
    } else {
        QUERN_TRY(text, fs::read_text_file(word.substr(1), kMaxArgumentFile));
    }
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
    return text;
}

bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A word as the method's declaration wants it: decimal numbers become quantities where those are meant, bare words
// strings; JSON is taken as it is.
Expected<json::Value> argument(const std::string& text, std::string_view kind) {
    const auto as_json = json::parse(text);
    if (text == "null") return json::Value();
    const bool is_text = kind == "string" || kind == "data" || kind == "hash" || kind == "address";
    if (is_text) return as_json && as_json->is_string() ? *as_json : json::Value(text);
    if (kind == "quantity" || kind == "block") {
        if (as_json && (as_json->is_string() || as_json->is_object())) return *as_json;
        if (!all_digits(text)) return json::Value(text);
        QUERN_TRY(const Uint256 number, Uint256::from_decimal(text));
        return json::Value(number.to_hex_quantity());
    }
    if (as_json) return *as_json;
    if (kind == "object" || kind == "array" || kind == "boolean")
        return fail("cli.bad_argument", "expected JSON (" + std::string(kind) + "): " + text);
    return json::Value(text);
}

// name -> kind of a method's parameters, in order; empty when the node does not say.
std::vector<std::pair<std::string, std::string>> parameters_of(rpc::Client& client, std::string_view method) {
    std::vector<std::pair<std::string, std::string>> parameters;
    const auto document = client.call("rpc_discover");
    if (!document || !*document) return parameters;
    const auto methods = (*document)->get_array("methods");
    if (!methods) return parameters;
    for (const json::Value& entry : *methods) {
        const json::Value* name = entry.find("name");
        if (name == nullptr || !(*name == json::Value(method))) continue;
        const json::Value* params = entry.find("params");
        if (params == nullptr) break;
        for (const json::Value& parameter : params->items())
            parameters.emplace_back(parameter.get_string("name").value_or(""),
                                    parameter.get_string("x-kind").value_or("any"));
    }
    return parameters;
}

Expected<json::Value> build_params(rpc::Client& client, const Options& options) {
    const std::vector<std::string> words(options.words.begin() + 1, options.words.end());
    json::Array positional;
    json::Value named = json::Value::object();
    if (words.empty()) return positional;
    const auto parameters = parameters_of(client, options.words[0]);
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string name;
        std::string word = words[i];
        std::string kind = i < parameters.size() ? parameters[i].second : "any";
        if (options.named) {
            const std::size_t equals = word.find('=');
            if (equals == std::string::npos) return fail("cli.bad_argument", "expected name=value: " + word);
            name = word.substr(0, equals);
            word = word.substr(equals + 1);
            kind = "any";
            for (const auto& [known, its_kind] : parameters)
                if (known == name) kind = its_kind;
        }
        QUERN_TRY(const std::string text, expand(word));
        QUERN_TRY(json::Value value, argument(text, kind));
        if (options.named)
            named.set(name, std::move(value));
        else
            positional.push_back(std::move(value));
    }
    if (options.named) return named;
    return positional;
}

std::string in_qrn(const json::Value* quantity) {
    const auto text = quantity != nullptr ? quantity->as_string() : fail("cli.no_number");
    const auto grains = text ? Uint256::from_hex_quantity(*text) : fail("cli.no_number");
    return grains ? wallet::in_qrn(*grains) : "?";
}

int get_info(rpc::Client& client, const Options& options) {
    const auto answers = client.batch({{"web3_clientVersion"},
                                       {"eth_chainId"},
                                       {"eth_getBlockByNumber", json::Value::array({"latest", false})},
                                       {"eth_gasPrice"},
                                       {"net_peerCount"},
                                       {"quern_supply"},
                                       {"task_list", json::Value::array({"live", 0, 1000})},
                                       {"dispute_list", json::Value::array({nullptr, true, 0, 500})}});
    if (!answers) return transport_failure(options, answers.error());
    for (const auto& answer : *answers)
        if (!answer) return rpc_failure(answer.error());
    const auto& results = *answers;
    const auto number = [](const json::Value& quantity) -> json::Value {
        const auto text = quantity.as_string();
        const auto value = text ? Uint256::from_hex_quantity(*text) : fail("cli.no_number");
        if (!value) return nullptr;
        return value->fits_u64() ? json::Value(value->low_u64()) : json::Value(value->to_decimal());
    };
    const json::Value& block = *results[2];
    const auto member = [](const json::Value& object, const char* name) {
        const json::Value* value = object.find(name);
        return value != nullptr ? *value : json::Value();
    };
    const auto count = [&](const json::Value& object, const char* name) { return member(object, name).size(); };
    print_result(json::Value::object({{"version", *results[0]},
                                      {"chainId", number(*results[1])},
                                      {"block", number(member(block, "number"))},
                                      {"blockHash", member(block, "hash")},
                                      {"blockTime", number(member(block, "timestamp"))},
                                      {"blockTransactions", count(block, "transactions")},
                                      {"gasPrice", number(*results[3])},
                                      {"peers", number(*results[4])},
                                      {"liveTasks", count(*results[6], "tasks")},
                                      {"openDisputes", count(*results[7], "disputes")},
                                      {"mintedQrn", in_qrn(results[5]->find("minted"))},
                                      {"burnedQrn", in_qrn(results[5]->find("burned"))}}));
    return 0;
}

int failure(const Options& options, const Error& error) {
    if (error.name.starts_with("http.")) return transport_failure(options, error);
    return complain(kExitFailed, error.to_string());
}

int content_put(rpc::Client& client, const Options& options, const std::string& path) {
    const auto id = rpc::put_file(client, path, [](std::size_t shard, std::size_t shards) {
        std::fprintf(stderr, "shard %zu of %zu\n", shard, shards);
    });
    if (!id) return failure(options, id.error());
    std::printf("%s\n", to_hex0x(*id).c_str());
    return 0;
}

int content_id(const std::string& path) {
    const auto content = crypto::content_shards_of_file(path);
    if (!content) return complain(kExitFailed, content.error().to_string());
    std::printf("%s\n", to_hex0x(content->id()).c_str());
    return 0;
}

// Asks again while the node gets it from others; what came before that is nothing.
template <class Ask>
auto ask_until_here(const Hash32& id, const Ask& ask) {
    auto answer = ask();
    for (int i = 0; i < kMaxContentTries && !answer && answer.error().is_busy(); ++i) {
        std::this_thread::sleep_for(kContentPause);
        answer = ask();
    }
    if (!answer && answer.error().detail.empty()) answer = detailed(answer.error(), to_hex0x(id));
    return answer;
}

// Takes the content's bytes as they come, which are checked when all are there.
Status fetch(rpc::Client& client, const Hash32& id, const http::Sink& sink) {
    crypto::ContentHasher hasher;
    const http::Sink hashed = [&](BytesView piece) -> Status {
        hasher.update(piece);
        return sink(piece);
    };
    QUERN_CHECK(ask_until_here(id, [&] { return client.get_content(id, hashed); }));
    if (hasher.finish() != id) return fail("content.id_mismatch", "the node sent other bytes");
    return {};
}

Expected<Bytes> fetch_bytes(rpc::Client& client, const Hash32& id, std::uint64_t most) {
    Bytes bytes;
    QUERN_CHECK(fetch(client, id, [&](BytesView piece) -> Status {
        if (bytes.size() + piece.size() > most) return fail("content.too_large", to_hex0x(id));
        append(bytes, piece);
        return {};
    }));
    return bytes;
}

// Writes a file of its own, which takes the name when it is whole.
int write_content(const Options& options, const std::string& path,
                  const std::function<Status(const http::Sink&)>& content) {
    const std::string partial = path + ".part";
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    if (!file) return complain(kExitFailed, "cannot write " + partial);
    Status status = content([&](BytesView piece) -> Status {
        file.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
        if (!file) return fault("fs.write_failed", partial);
        return {};
    });
    file.close();
    if (status && !file) status = fault("fs.write_failed", partial);
    if (status && std::rename(partial.c_str(), path.c_str()) != 0) status = fault("fs.write_failed", path);
    if (!status) {
        std::remove(partial.c_str());
        return failure(options, status.error());
    }
    return 0;
}

int content_get(rpc::Client& client, const Options& options, const std::string& text, const std::string& path) {
    const auto id = fixed_from_hex<32>(text);
    if (!id) return complain(kExitUsage, "not a content id: " + text);
    return write_content(options, path, [&](const http::Sink& sink) -> Status {
        const Status whole = fetch(client, *id, sink);
        if (whole || whole.error().name != "content.not_found") return whole;
        const auto shards = ask_until_here(*id, [&] { return client.get_shards(*id); });
        if (!shards) return fail(shards.error());
        for (std::size_t i = 0; i < shards->tops.size(); ++i) QUERN_CHECK(fetch(client, shards->id_of(i), sink));
        return {};
    });
}

// The file of a state whose slots are contents, under the names that the program gives them.
Expected<Bytes> fetch_state(rpc::Client& client, const std::string& program_file, const Hash32& id) {
    namespace core = compute::core;
    QUERN_TRY(const vm::tensor::Program program, read_program(program_file));
    QUERN_TRY(const Bytes content, fetch_bytes(client, id, core::state_content_bytes(program)));
    QUERN_TRY(const std::vector<Hash32> roots, core::slot_roots(content));
    QUERN_TRY(core::StateParts parts, core::decode_state(program, vm::tensor::state_root(roots), content));
    for (std::size_t i = 0; i < program.slots.size(); ++i) {
        const vm::tensor::Slot& slot = program.slots[i];
        if (!parts.slots[i].words.empty()) continue;
        QUERN_TRY(const Bytes tiles, fetch_bytes(client, roots[i], core::slot_bytes(slot.shape)));
        QUERN_TRY(parts.slots[i], core::tensor_of_tiles(slot, tiles));
    }
    return compute::program::write_state(program, parts.slots);
}

int content_state(rpc::Client& client, const Options& options, const std::string& program, const std::string& text,
                  const std::string& path) {
    const auto id = fixed_from_hex<32>(text);
    if (!id) return complain(kExitUsage, "not a content id: " + text);
    return write_content(options, path, [&](const http::Sink& sink) -> Status {
        QUERN_TRY(const Bytes file, fetch_state(client, program, *id));
        return sink(file);
    });
}

int run_content(rpc::Client& client, const Options& options) {
    const auto& words = options.words;
    if (words.size() == 3 && words[1] == "put") return content_put(client, options, words[2]);
    if (words.size() == 3 && words[1] == "id") return content_id(words[2]);
    if (words.size() == 4 && words[1] == "get") return content_get(client, options, words[2], words[3]);
    if (words.size() == 5 && words[1] == "state") return content_state(client, options, words[2], words[3], words[4]);
    return complain(kExitUsage,
                    "usage: quern-cli content put FILE | content id FILE | content get ID FILE | "
                    "content state PROGRAM ID FILE");
}

int run_evidence(rpc::Client& client, const Options& options) {
    if (options.words.size() != 3) return complain(kExitUsage, "usage: quern-cli evidence COMMITMENT EVIDENCE");
    const auto hash = rpc::report_evidence(
        [&](std::string_view method, json::Value params) { return client.call(method, std::move(params)); },
        {options.words[1], options.words[2], chain::params::kEvidenceCommitBlocks},
        [] { std::this_thread::sleep_for(kRetryPause); });
    if (!hash) return failure(options, hash.error());
    std::printf("%s\n", hash->c_str());
    return 0;
}

int run_account(rpc::Client& client, const Options& options) {
    const auto& words = options.words;
    rpc::StatementQuery query;
    const auto block_of = [](const std::string& word) -> std::optional<std::uint64_t> {
        const auto number = Uint256::from_decimal(word);
        return number && number->fits_u64() ? std::optional(number->low_u64()) : std::nullopt;
    };
    bool right = words.size() >= 3 && words.size() <= 5 && words[1] == "statement";
    if (right) query.address = words[2];
    if (right && words.size() > 3) right = (query.from = block_of(words[3])).has_value();
    if (right && words.size() > 4) right = (query.to = block_of(words[4])).has_value();
    right = right && !(query.from && query.to && *query.to < *query.from);
    if (!right)
        return complain(kExitUsage, "usage: quern-cli [-csv] account statement ADDRESS [FROM_BLOCK [TO_BLOCK]]");
    const auto pages = rpc::fetch_statement(
        [&](std::string_view method, json::Value params) { return client.call(method, std::move(params)); }, query);
    if (!pages) return failure(options, pages.error());
    const auto text = options.csv ? rpc::statement_csv(*pages) : rpc::statement_table(*pages);
    if (!text) return failure(options, text.error());
    show(*text);
    if (!options.csv) return 0;
    const auto remarks = rpc::statement_remarks(*pages);
    if (!remarks) return failure(options, remarks.error());
    std::fwrite(remarks->data(), 1, remarks->size(), stderr);
    return 0;
}

// Port and offset in the node's own quern.conf, so that -datadir alone is enough.
void read_config(std::uint64_t& port, std::uint64_t& offset, const Options& options) {
    const auto text = fs::read_text_file(options.datadir + "/quern.conf", kMaxConfig);
    if (!text) return;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        const auto number = [&](std::string_view name, std::uint64_t& target) {
            if (!line.starts_with(name)) return;
            const auto value = Uint256::from_decimal(std::string_view(line).substr(name.size()));
            if (value && *value <= Uint256(kMaxPort)) target = value->low_u64();
        };
        number("rpcport=", port);
        number("portoffset=", offset);
    }
}

// The node's RPC port: what is typed counts before the configuration file. Error: cli.bad_port.
Expected<std::uint16_t> choose_port(const Options& options, bool port_given, bool offset_given) {
    std::uint64_t port = kDefaultPort;
    std::uint64_t offset = 0;
    read_config(port, offset, options);
    if (port_given) {  // meant as it is, unless an offset is typed too
        port = options.port;
        offset = 0;
    }
    if (offset_given) offset = options.port_offset;
    if (port + offset > kMaxPort) return fail("cli.bad_port", "-rpcport and -portoffset together pass 65535");
    return static_cast<std::uint16_t>(port + offset);
}

// The first word after the options that looks like one: CLI11 leaves all of them to us from the first word on.
std::optional<std::string> stray_option(const std::vector<std::string>& words) {
    for (const auto& word : words) {
        if (word == "--") return std::nullopt;
        if (word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9'))
            return word.starts_with("--") ? word.substr(1) : word;
    }
    return std::nullopt;
}

std::string default_datadir() {
    const char* home = std::getenv("HOME");
    return (home != nullptr ? std::string(home) : std::string(".")) + "/.quern";
}

// Waits until the node answers, for -rpcwait.
bool wait_for_node(rpc::Client& client, const Options& options) {
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
        if (client.call("eth_blockNumber")) return true;
        const auto waited = std::chrono::steady_clock::now() - start;
        if (options.wait_seconds != 0 && waited >= std::chrono::seconds(options.wait_seconds)) return false;
        std::this_thread::sleep_for(kRetryPause);
    }
}

bool is_local(const std::string& host) { return host == "127.0.0.1" || host == "localhost" || host == "::1"; }

std::string why_no_cookie(const Options& options) {
    if (!is_local(options.connect)) return "admin methods are answered on the node's own host only";
    return "no cookie in " + options.datadir +
           "/.cookie: give the running node's data directory, -datadir=DIR, as the " + "user that runs it";
}

int run(const Options& options) {
    http::ClientOptions http_options;
    http_options.io_timeout_ms = options.timeout_seconds * 1000;
    rpc::Client client(options.connect, options.port, http_options);
    bool has_cookie = false;
    if (is_local(options.connect))  // a cookie is nobody else's business
        if (const auto cookie = fs::read_text_file(options.datadir + "/.cookie", kMaxCookie)) {
            client.set_cookie(*cookie);
            has_cookie = true;
        }
    if (options.wait && !wait_for_node(client, options))
        return complain(kNoNode, "no answer after " + std::to_string(options.wait_seconds) + " s");
    if (options.get_info) return get_info(client, options);
    if (options.words[0] == "content") return run_content(client, options);
    if (options.words[0] == "evidence") return run_evidence(client, options);
    if (options.words[0] == "account") return run_account(client, options);
    const auto params = build_params(client, options);
    if (!params) return complain(kExitUsage, params.error().to_string());
    const auto answer = client.call(options.words[0], *params);
    if (!answer) return transport_failure(options, answer.error());
    if (!*answer) {
        const int code = rpc_failure(answer->error());
        if (answer->error().code == rpc::kMethodNotFound)
            std::fputs("quern-cli help lists this node's methods\n", stderr);
        if (options.words[0].starts_with("admin_") && !has_cookie)
            std::fprintf(stderr, "%s\n", why_no_cookie(options).c_str());
        return code;
    }
    print_result(**answer);
    return 0;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
    quern::Options options;
    CLI::App app{
        "quern-cli: calls a Quern node.\n\n"
        "  quern-cli [options] METHOD [PARAMETER...]      e.g. quern-cli eth_getBalance 0x… latest\n"
        "  quern-cli [options] -named METHOD [NAME=VALUE...]\n"
        "  quern-cli [options] help [METHOD]              the node's methods\n"
        "  quern-cli [options] -getinfo                   a summary\n"
        "  quern-cli [options] content put FILE           stores a file, prints its content id; one of more\n"
        "                                                 than 1 GiB by shard, and those that the node lacks\n"
        "  quern-cli [options] content id FILE            prints the content id alone\n"
        "  quern-cli [options] content get ID FILE        fetches and checks a content\n"
        "  quern-cli [options] content state PROGRAM ID FILE\n"
        "                                                 fetches a checkpoint of a task with this program, as a file\n"
        "                                                 that quern-compile reads\n"
        "  quern-cli [options] evidence COMMITMENT EVIDENCE\n"
        "                                                 sends the two transactions of quern-wallet submit-evidence,\n"
        "                                                 the second when the first is old enough to be paid for\n"
        "  quern-cli [options] account statement ADDRESS [FROM_BLOCK [TO_BLOCK]]\n"
        "                                                 what the market moved of an account's money, as a table or\n"
        "                                                 with -csv for spreadsheets\n\n"
        "A parameter is JSON or a bare word; decimal numbers become quantities where the method wants those; @FILE is\n"
        "the file's text, @- standard input. Options stand before the method. Exit codes: 0 done, 1 failed (the node\n"
        "refused, a file), 2 wrong options, 3 no node answers.\n"};
    app.add_option("--rpcconnect", options.connect, "the node's host")->capture_default_str();
    const CLI::Option* port = app.add_option("--rpcport", options.port,
                                             "the node's RPC port; else the one in the data directory's quern.conf")
                                  ->capture_default_str();
    const CLI::Option* offset =
        app.add_option("--portoffset", options.port_offset, "the node's -portoffset, added to the RPC port");
    options.datadir = quern::default_datadir();
    app.add_option("--datadir", options.datadir, "the node's data directory: its cookie lets admin methods through")
        ->default_str("~/.quern");
    app.add_flag("--named", options.named, "parameters are NAME=VALUE");
    app.add_flag("--rpcwait", options.wait, "wait until the node answers");
    app.add_option("--rpcwaittimeout", options.wait_seconds, "give up waiting after this many seconds; 0: never")
        ->capture_default_str();
    app.add_option("--rpcclienttimeout", options.timeout_seconds, "seconds to wait for an answer")
        ->capture_default_str();
    app.add_flag("--csv", options.csv, "account statement: comma-separated values, with a header");
    app.add_flag("--getinfo", options.get_info, "print a summary of the node");
    app.set_version_flag("--version", std::string("quern-cli ") + QUERN_VERSION);
    app.prefix_command();
    if (const auto code = quern::parse_command_line(app, "quern-cli", argc, argv)) return *code;
    options.words = app.remaining();
    // Who asks for a statement may say so at its end, too.
    if (!options.words.empty() && options.words[0] == "account")
        options.csv = std::erase_if(options.words,
                                    [](const std::string& word) { return word == "--csv" || word == "-csv"; }) != 0 ||
                      options.csv;
    if (const auto stray = quern::stray_option(options.words))
        return quern::complain("quern-cli",
                               "unknown option " + *stray +
                                   "; see quern-cli --help (options stand before the method; what begins with - and is "
                                   "a parameter stands after --)",
                               quern::kExitUsage);
    const auto chosen = quern::choose_port(options, port->count() != 0, offset->count() != 0);
    if (!chosen) return quern::complain("quern-cli", chosen.error(), quern::kExitUsage);
    options.port = *chosen;
    if (const auto end = std::find(options.words.begin(), options.words.end(), "--"); end != options.words.end())
        options.words.erase(end);
    if (options.words.empty() && !options.get_info) {
        std::fputs(app.help().c_str(), stderr);
        return quern::kExitUsage;
    }
    return quern::run(options);
}
