// quern-genesis: makes and checks genesis files. Exit codes: 0 done, 1 the file or the parts do not fit, 2 wrong
// options.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "base/fs.h"
#include "bin/terminal.h"
#include "chain/params/parameters.h"
#include "crypto/key_file.h"
#include "node/chain/chain_database.h"
#include "quern_version.h"
#include "wallet/amount.h"

namespace {

using namespace quern;
namespace exec = chain::exec;

int complain(const Error& error) { return quern::complain("quern-genesis", error); }

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (true) {
        const std::size_t end = text.find(separator);
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

// A public key's 128 hex digits, or a key file whose public key is meant.
Expected<Bytes> parse_validator_key(const std::string& text, const std::string& password_file) {
    if (auto bytes = fixed_from_hex<64>(text)) return to_bytes(*bytes);
    if (!fs::exists(text)) return fail("validator.bad_key", text + " is neither 64 bytes of hex nor a key file");
    QUERN_TRY(const auto key, crypto::load_key_file(text, password_file));
    return to_bytes(crypto::derive_public(key).bytes);
}

struct MakeOptions {
    std::string template_file;
    std::string output;
    std::string network = "devnet";
    std::uint64_t chain_id = 0;
    std::uint64_t timestamp_ms = 0;
    std::vector<std::string> allocations;
    std::vector<std::string> validators;
    std::vector<std::string> bonds;
    std::vector<std::string> block;
    std::vector<std::string> market;
    std::vector<std::string> staking;
    std::string password_file;
    bool no_invariants = false;
};

Expected<std::uint64_t> chain_id_of(std::string_view network) {
    if (network == "mainnet") return chain::params::kMainnetChainId;
    if (network == "testnet") return chain::params::kTestnetChainId;
    if (network == "devnet") return chain::params::kDevnetChainId;
    return fail("options.unknown_network",
                std::string(network) + "; known: devnet, testnet, mainnet; another one needs --chainid as well");
}

Expected<json::Value> read_template(const std::string& path) {
    if (path.empty()) return json::Value::object({{"format", "quern-genesis-1"}});
    QUERN_TRY(const auto text, fs::read_text_file(path, exec::kMaxGenesisBytes));
    QUERN_TRY(auto document, wallet::named(path, json::parse(text)));
    if (!document.is_object()) return fail("genesis.bad_value", path + ": expected an object");
    return document;
}

Status set_fields(json::Value& document, std::string_view section, const std::vector<std::string>& fields) {
    if (fields.empty()) return {};
    const std::string option = "--" + std::string(section);
    const auto* existing = document.find(section);
    json::Value values = existing != nullptr ? *existing : json::Value::object();
    for (const auto& field : fields) {
        const auto parts = split(field, '=');
        if (parts.size() != 2) return fail("options.bad_field", option + " " + field + ": expected name=value");
        QUERN_TRY(const auto number, wallet::named(option + " " + field, wallet::parse_amount(parts[1])));
        // Small numbers as numbers: counts must not be strings.
        values.set(parts[0], number.fits_u64() ? json::Value(number.low_u64()) : json::Value(number.to_decimal()));
    }
    document.set(section, std::move(values));
    return {};
}

// What a network gets that names nothing else: three verifiers at least, and twelve custodians. A devnet keeps the
// defaults, one and none.
void set_market_defaults(json::Value& document) {
    if (*document.find("chain_id") == json::Value(chain::params::kDevnetChainId)) return;
    const auto* market = document.find("market");
    json::Value values = market != nullptr ? *market : json::Value::object();
    if (!values.is_object()) return;
    if (values.find("min_verifiers") == nullptr) values.set("min_verifiers", chain::params::kLeastVerifiers);
    if (values.find("custodians") == nullptr) values.set("custodians", chain::params::kUsualCustodians);
    document.set("market", std::move(values));
}

void push(json::Value& document, std::string_view list, json::Value item) {
    const auto* existing = document.find(list);
    json::Value items = existing != nullptr ? *existing : json::Value::array();
    items.push(std::move(item));
    document.set(list, std::move(items));
}

Expected<json::Value> assemble(const MakeOptions& options) {
    QUERN_TRY(auto document, read_template(options.template_file));
    if (document.find("network") == nullptr) document.set("network", options.network);
    if (options.chain_id != 0) {
        document.set("chain_id", options.chain_id);
    } else if (document.find("chain_id") == nullptr) {
        QUERN_TRY(const std::uint64_t chain_id, chain_id_of(options.network));
        document.set("chain_id", chain_id);
    }
    if (options.timestamp_ms != 0 || document.find("timestamp_ms") == nullptr) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        document.set("timestamp_ms", options.timestamp_ms != 0
                                         ? options.timestamp_ms
                                         : static_cast<std::uint64_t>(
                                               std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
    }
    if (options.no_invariants) document.set("check_invariants", false);
    QUERN_CHECK(set_fields(document, "block", options.block));
    QUERN_CHECK(set_fields(document, "market", options.market));
    QUERN_CHECK(set_fields(document, "staking", options.staking));
    set_market_defaults(document);
    for (const auto& text : options.allocations) {
        const auto parts = split(text, ':');
        if (parts.size() != 2) return fail("options.bad_allocation", "--alloc " + text + ": expected ADDRESS:AMOUNT");
        QUERN_TRY(const auto address, wallet::address_of_option("--alloc", parts[0]));
        QUERN_TRY(const auto amount, wallet::amount_of_option("--alloc", parts[1]));
        push(document, "allocations",
             json::Value::object({{"address", to_hex0x(address)}, {"balance", amount.to_decimal()}}));
    }
    for (const auto& text : options.validators) {
        const std::size_t colon = text.rfind(':');
        if (colon == std::string::npos)
            return fail("options.bad_validator", "--validator " + text + ": expected KEY:STAKE");
        QUERN_TRY(const auto key,
                  wallet::named("--validator", parse_validator_key(text.substr(0, colon), options.password_file)));
        QUERN_TRY(const auto stake, wallet::amount_of_option("--validator", text.substr(colon + 1)));
        push(document, "validators",
             json::Value::object({{"public_key", to_hex0x(key)}, {"stake", stake.to_decimal()}}));
    }
    for (const auto& text : options.bonds) {
        const auto parts = split(text, ':');
        if (parts.size() != 3) return fail("options.bad_bond", "--bond " + text + ": expected ROLE:ADDRESS:AMOUNT");
        QUERN_TRY(const auto address, wallet::address_of_option("--bond", parts[1]));
        QUERN_TRY(const auto amount, wallet::amount_of_option("--bond", parts[2]));
        push(
            document, "bonds",
            json::Value::object({{"address", to_hex0x(address)}, {"role", parts[0]}, {"amount", amount.to_decimal()}}));
    }
    return document;
}

Expected<std::string> summary_of(const exec::Genesis& genesis) {
    QUERN_TRY(const auto block, node::make_genesis_block(genesis));
    Uint256 supply;
    for (const auto& allocation : genesis.allocations) supply += allocation.balance;
    for (const auto& validator : genesis.validators) supply += validator.stake;
    for (const auto& bond : genesis.bonds) supply += bond.amount;
    std::string text = "network     " + genesis.params.network + "\n";
    text += "chain id    " + std::to_string(genesis.params.chain_id) + "\n";
    text += "hash        " + to_hex0x(block.hash) + "\n";
    text += "state root  " + to_hex0x(block.block.header.state_root) + "\n";
    text += "supply      " + supply.to_decimal() + " grains in " + std::to_string(genesis.allocations.size()) +
            " accounts, " + std::to_string(genesis.validators.size()) + " validators, " +
            std::to_string(genesis.bonds.size()) + " bonds\n";
    return text;
}

int make(const MakeOptions& options) {
    const auto document = assemble(options);
    if (!document) return complain(document.error());
    const auto genesis = exec::parse_genesis(document->dump());
    if (!genesis) return complain(genesis.error());
    const auto summary = summary_of(*genesis);
    if (!summary) return complain(summary.error());
    const std::string text = exec::to_json(*genesis).dump_pretty() + "\n";
    if (options.output.empty() || options.output == "-") {
        std::cout << text;
        return 0;
    }
    if (const auto written = fs::write_file_atomic(options.output, as_bytes(text)); !written)
        return complain(written.error());
    std::cout << *summary;
    return 0;
}

int validate(const std::string& path) {
    const auto text = fs::read_text_file(path, exec::kMaxGenesisBytes);
    if (!text) return complain(text.error());
    const auto genesis = wallet::named(path, exec::parse_genesis(*text));
    if (!genesis) return complain(genesis.error());
    const auto summary = summary_of(*genesis);
    if (!summary) return complain(summary.error());
    std::cout << *summary;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    MakeOptions options;
    std::string path;
    CLI::App app{"quern-genesis: makes and checks genesis files of Quern chains"};
    app.set_version_flag("--version", std::string("quern-genesis ") + QUERN_VERSION);
    app.require_subcommand(1);
    auto* make_command = app.add_subcommand("make", "write a genesis file; amounts are grains, or decimals with qrn");
    make_command->add_option("--template", options.template_file, "genesis JSON to start from");
    make_command->add_option("-o,--out", options.output, "file to write (default: standard output)");
    make_command
        ->add_option("--network", options.network, "devnet, testnet, mainnet, or a name of your own with --chainid")
        ->capture_default_str();
    make_command->add_option("--chainid", options.chain_id, "default: the network's");
    make_command->add_option("--timestamp", options.timestamp_ms, "milliseconds since 1970 (default: now)");
    make_command->add_option("--alloc", options.allocations, "ADDRESS:AMOUNT; may be repeated")->take_all();
    make_command->add_option("--validator", options.validators, "PUBLICKEY:STAKE or KEYFILE:STAKE; may be repeated")
        ->take_all();
    make_command->add_option("--validatorpassword", options.password_file, "file that opens the validators' keystores");
    make_command->add_option("--bond", options.bonds, "ROLE:ADDRESS:AMOUNT; may be repeated")->take_all();
    make_command->add_option("--block", options.block, "NAME=VALUE of the block parameters; may be repeated")
        ->take_all();
    make_command->add_option("--market", options.market, "NAME=VALUE of the market's parameters; may be repeated")
        ->take_all();
    make_command->add_option("--staking", options.staking, "NAME=VALUE of the staking's parameters; may be repeated")
        ->take_all();
    make_command->add_flag("--noinvariants", options.no_invariants, "do not check invariants after each block");
    auto* validate_command = app.add_subcommand("validate", "check a genesis file and print its hash");
    validate_command->add_option("file", path)->required();
    auto* parameters_command = app.add_subcommand("parameters", "print doc/parameters.md: what a file may set");
    if (const auto code = parse_command_line(app, "quern-genesis", argc, argv)) return *code;
    if (*parameters_command) {
        std::cout << chain::params::parameters_page();
        return 0;
    }
    return *make_command ? make(options) : validate(path);
}
