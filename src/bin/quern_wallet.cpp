// quern-wallet: keys and signatures, offline. Makes and opens keystores and prints signed transactions; asks nothing of
// a node, so nonce and fees are options. Private keys are printed only with --show-private-key. The work is done in
// src/wallet; this file is the command line.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bin/task_options.h"
#include "bin/terminal.h"
#include "bin/tolerance_options.h"
#include "bin/tolerance_task.h"
#include "chain/params/params.h"
#include "chain/types/json_codec.h"
#include "quern_version.h"
#include "wallet/amount.h"
#include "wallet/keys.h"
#include "wallet/stake.h"
#include "wallet/task.h"
#include "wallet/transaction.h"

namespace quern {
namespace {

namespace types = chain::types;
using types::NativeKind;

struct Options {
    wallet::KeySource key;
    wallet::TxFields tx;
    wallet::SpecOptions spec;
    wallet::StakeOptions stake;
    wallet::KeySource source;  // of import
    std::string to, amount, role, kind, text;
    int type = 2;  // of transfers
    std::uint64_t count = 1;
    std::uint64_t task = 0;  // of accept and data-challenge
    std::uint32_t slot = 0;
    std::uint64_t tile = 0;
    bool via_abi = false;
    bool as_json = false;
    bool light = false;
    bool show_private_key = false;
    bool plain = false;
    bool at_once = false;  // evidence without a commitment
};

void print(const json::Value& value) { std::printf("%s\n", value.dump_pretty().c_str()); }

Expected<crypto::PrivateKey> open_key(const Options& options) { return wallet::open_key(options.key, ask_password); }

// --- Keys ------------------------------------------------------------------------------------------------------------

Status store(const crypto::PrivateKey& key, const Options& options) {
    OsRng rng;
    QUERN_CHECK(
        wallet::make_keystore(key, options.key.keystore, options.key.password_file, options.light, rng, ask_password));
    json::Value object = wallet::describe(key, options.show_private_key);
    object.set("keystore", options.key.keystore);
    print(object);
    return {};
}

Status make_new(const Options& options) {
    OsRng rng;
    auto key = options.key.seed.empty() ? Expected<crypto::PrivateKey>(crypto::PrivateKey::generate(rng))
                                        : wallet::key_from_seed(options.key.seed);
    if (!key) return fail(key.error());
    if (!options.key.seed.empty())
        std::fprintf(stderr, "quern-wallet: a key from --seed is no secret: for devnets only\n");
    return store(*key, options);
}

Status import_key(const Options& options) {
    QUERN_TRY(const auto key, wallet::open_key(options.source, ask_password));
    return store(key, options);
}

Status show_address(const Options& options) {
    QUERN_TRY(const auto key, open_key(options));
    if (options.plain)
        std::printf("%s\n", types::to_checksum_address(crypto::address20(key)).c_str());
    else
        print(wallet::describe(key, options.show_private_key));
    return {};
}

// --- Transactions ----------------------------------------------------------------------------------------------------

Status sign_and_print(types::Transaction tx, const crypto::PrivateKey& key, const Options& options) {
    for (std::uint64_t i = 0; i < options.count; ++i, ++tx.nonce) {
        QUERN_TRY(const auto done, wallet::sign(tx, key));
        if (options.as_json)
            print(wallet::describe(done));
        else
            std::printf("%s\n", to_hex0x(done.encoded).c_str());
    }
    return {};
}

Status sign_and_print(types::Transaction tx, const Options& options) {
    QUERN_TRY(const auto key, open_key(options));
    return sign_and_print(std::move(tx), key, options);
}

Status transfer(const Options& options) {
    QUERN_TRY(auto tx, wallet::make_transfer(options.tx, options.type, options.to, options.amount));
    return sign_and_print(std::move(tx), options);
}

Status sign_native(NativeKind kind, Bytes payload, const Options& options) {
    QUERN_TRY(auto tx, wallet::make_native(options.tx, kind, std::move(payload), options.via_abi));
    return sign_and_print(std::move(tx), options);
}

Status sign_kind(const Options& options) {
    QUERN_TRY(const NativeKind kind, wallet::kind_named(options.kind));
    QUERN_TRY(const json::Value json, wallet::named("payload", wallet::read_json_argument(options.text)));
    QUERN_TRY(Bytes payload, wallet::named("payload", wallet::payload_from_json(kind, json)));
    return sign_native(kind, std::move(payload), options);
}

Status sign_bond(const Options& options) {
    QUERN_TRY(Bytes payload, wallet::bond_payload(options.role, options.amount));
    return sign_native(NativeKind::bond, std::move(payload), options);
}

Status sign_stake(NativeKind kind, const crypto::PrivateKey& key, const Options& options) {
    QUERN_TRY(Bytes payload, wallet::stake_payload(kind, options.stake, options.tx.chain_id, key));
    QUERN_TRY(auto tx, wallet::make_native(options.tx, kind, std::move(payload), options.via_abi));
    return sign_and_print(std::move(tx), key, options);
}

template <NativeKind kind>
Status sign_stake(const Options& options) {
    QUERN_TRY(const auto key, open_key(options));
    return sign_stake(kind, key, options);
}

// A commitment, then what it is to with the nonce that follows.
Status submit_evidence(const Options& options) {
    QUERN_TRY(const auto key, open_key(options));
    Options last = options;
    if (!options.at_once) {
        QUERN_CHECK(sign_stake(NativeKind::evidence_commit, key, options));
        ++last.tx.nonce;
    }
    return sign_stake(NativeKind::evidence, key, last);
}

Status sign_json(const Options& options) {
    QUERN_TRY(const json::Value json, wallet::named("transaction", wallet::read_json_argument(options.text)));
    QUERN_TRY(auto tx, wallet::transaction_from_json(json, options.tx.chain_id));
    return sign_and_print(std::move(tx), options);
}

// --- Tasks -----------------------------------------------------------------------------------------------------------

// What solvers can take, so far as the files say it.
Expected<types::TaskSubmitPayload> build_task(const wallet::SpecOptions& options) {
    QUERN_TRY(auto spec, wallet::build_spec(options));
    QUERN_CHECK(check_tolerance_task(options, spec));
    return spec;
}

Status show_price(const Options& options) {
    QUERN_TRY(const auto spec, build_task(options.spec));
    QUERN_TRY(const wallet::Price price, wallet::price_of(spec, options.spec));
    print(price.json);
    return {};
}

Status show_spec(const Options& options) {
    QUERN_TRY(const auto spec, build_task(options.spec));
    QUERN_CHECK(wallet::price_of(spec, options.spec));
    print(types::to_json(spec));
    return {};
}

Status accept_result(const Options& options) {
    return sign_native(NativeKind::task_accept, types::encode_record(types::TaskIdPayload{options.task}), options);
}

Status ask_for_piece(const Options& options) {
    const types::DataChallengePayload asked{options.task, options.slot, options.tile};
    return sign_native(NativeKind::data_challenge, types::encode_record(asked), options);
}

Status submit_task(const Options& options) {
    QUERN_TRY(const auto spec, build_task(options.spec));
    QUERN_TRY(const wallet::Price price, wallet::price_of(spec, options.spec));
    const auto qrn = [](const Uint256& grains) { return wallet::in_qrn(grains); };
    std::fprintf(stderr, "escrow %s QRN%s (reward up to %s, %s)\n", qrn(price.escrow.total).c_str(),
                 options.spec.params.empty() ? " if the chain has the standard parameters (--params)" : "",
                 qrn(price.escrow.reward).c_str(), wallet::other_parts(price.escrow).c_str());
    return sign_native(NativeKind::task_submit, types::encode_record(spec), options);
}

// --- Command line ----------------------------------------------------------------------------------------------------

void add_tx_options(CLI::App& app, Options& options) {
    auto& tx = options.tx;
    app.add_option("--nonce", tx.nonce, "the account's next nonce (eth_getTransactionCount)")->required();
    app.add_option("--chain-id", tx.chain_id, "7876 mainnet, 7877 testnet, 7878 devnet")->capture_default_str();
    app.add_option("--gas", tx.gas, "gas limit; 0: 21,000 for transfers, 3,000,000 for native kinds")
        ->capture_default_str();
    app.add_option("--max-fee", tx.max_fee, "most that is paid per gas: grains, or 2gwei")->capture_default_str();
    app.add_option("--tip", tx.tip, "priority fee per gas")->capture_default_str();
    app.add_flag("--json", options.as_json, "print raw, hash, from and fee as JSON instead of the raw transaction");
}

void add_native_options(CLI::App& app, Options& options) {
    add_key_options(app, options.key);
    add_tx_options(app, options);
    app.add_flag("--via-abi", options.via_abi, "a type-2 call to the reserved address instead of type 0x51");
}

void add_stake_options(CLI::App& app, NativeKind kind, wallet::StakeOptions& options) {
    if (kind == NativeKind::create_validator) {
        app.add_option("--validator-key", options.validator_key,
                       "key file of the key that will sign votes; the sender's own when left out");
        app.add_option("--validator-password-file", options.validator_password_file, "password of --validator-key");
    } else {
        app.add_option("--validator", options.validator, "address of the validator's key")->required();
    }
    if (kind == NativeKind::withdraw_stake)
        app.add_option("--delegator", options.delegator, "who is paid; the sender when left out");
    else
        app.add_option("--amount", options.amount, "100qrn, or grains")->required();
}

void add_spec_options(CLI::App& app, wallet::SpecOptions& spec) {
    app.add_option("--spec", spec.spec_file, "the whole specification as JSON or @FILE; other options override it");
    app.add_option("--program", spec.programs, "program file of quern-compile; of several the first is 0 of the plan");
    app.add_option(
        "--plan", spec.plan,
        "which program each step runs, as JSON or @FILE: [[100,[[4,[0]],1]]] is 100 times 4 steps of program "
        "0 and one of program 1");
    app.add_option("--init", spec.init, "initial state, safetensors");
    app.add_option("--data", spec.data, "data tensor, a file of its elements; several in the programs' order");
    app.add_option("--init-root", spec.init_root, "root of the initial state when --init is not given");
    app.add_option("--data-root", spec.data_roots, "content id of a data tensor when --data is not given");
    app.add_option_function<std::vector<std::tuple<std::uint64_t, std::string, std::string>>>(
           "--import",
           [&spec](const auto& given) {
               for (const auto& [task, state, program] : given) spec.imports.push_back({task, state, program});
           },
           "a settled task, its final state and its program: the chain checks that the initial state has slots of it")
        ->type_name("TASK STATE PROGRAM");
    app.add_option("--price-cap", spec.price_cap, "grains per work unit");
    app.add_option("--params", spec.params,
                   "the chain's parameters, what quern_params answers, as JSON or @FILE: for the price and the least "
                   "--verify-s (default: the standard ones)");
    app.add_option("--uri", spec.uris, kUriHelp);
    CLI::Option* const tolerance = app.add_flag_callback(
        "--tolerance", [&spec] { spec.defaults.work.mode = chain::types::TaskMode::tolerance; },
        "the programs judge what the solver claims (quern-compile --tolerance), which is their last data tensor");
    CLI::Option* const profilers =
        app.add_option(
               "--profilers", spec.profilers,
               "so many verifiers, 3 to 16, measure the limits, which --data does not have then; each is paid a fee")
            ->needs(tolerance);
    app.add_option("--profiled-segments", spec.profiled_segments,
                   "segments that each of them trains and replays, from the first on; 8 to 64")
        ->capture_default_str()
        ->needs(profilers);
    app.add_option("--profile-window", spec.profile_window_s, "seconds that they have for it")
        ->capture_default_str()
        ->needs(profilers);
    add_tolerance_terms(app, spec.tolerance, profilers);
    app.add_option("--steps", spec.steps, "training steps N of the one program; else --plan");
    add_term_options(app, spec);
    app.callback([&spec] {  // all that is missing at once, not one by one
        std::string names;
        for (const auto& name : wallet::missing_options(spec)) names += (names.empty() ? "" : ", ") + name;
        if (!names.empty()) throw CLI::RequiredError(names + " (or the whole specification with --spec)");
    });
}

using Action = Status (*)(const Options&);

class Commands {
public:
    Commands(CLI::App& app, Options& options) : app_(app), options_(options) {}

    CLI::App* add(const char* name, const char* text, Action function) {
        CLI::App* command = app_.add_subcommand(name, text);
        actions_.emplace_back(command, function);
        return command;
    }
    void add_keys();
    void add_transactions();
    void add_tasks();
    [[nodiscard]] Action chosen() const {
        for (const auto& [command, function] : actions_)
            if (command->parsed()) return function;
        return nullptr;
    }

private:
    CLI::App* native(const char* name, const char* text, Action function) {
        CLI::App* command = add(name, text, function);
        add_native_options(*command, options_);
        return command;
    }
    template <NativeKind kind>
    void stake(const char* name, const char* text) {
        add_stake_options(*native(name, text, sign_stake<kind>), kind, options_.stake);
    }

    CLI::App& app_;
    Options& options_;
    std::vector<std::pair<CLI::App*, Action>> actions_;
};

void Commands::add_keys() {
    CLI::App* command = add("new", "makes a key and its keystore (never overwrites one)", make_new);
    add_key_options(*command, options_.key);
    command->get_option("--keystore")->required();
    command->add_flag("--light", options_.light, "a quick key derivation: for devnets");
    command->add_flag("--show-private-key", options_.show_private_key, "also print the private key");

    command = add("import", "puts an existing key into a new keystore", import_key);
    command->add_option("--from", options_.source.keystore, "key file: 64 hex digits or a keystore, mode 600")
        ->required();
    command->add_option("--from-password-file", options_.source.password_file, "password of --from");
    command->add_option("--keystore", options_.key.keystore, "the new keystore")->required();
    command->add_option("--password-file", options_.key.password_file, "its password");
    command->add_flag("--light", options_.light, "a quick key derivation: for devnets");

    command = add("address", "prints address and public key", show_address);
    add_key_options(*command, options_.key);
    command->add_flag("--plain", options_.plain, "print the address alone, for shell variables");
    command->add_flag("--show-private-key", options_.show_private_key, "also print the private key");
}

void Commands::add_transactions() {
    CLI::App* command = add("transfer", "signs a payment", transfer);
    add_key_options(*command, options_.key);
    add_tx_options(*command, options_);
    command->add_option("--to", options_.to, "recipient")->required();
    command->add_option("--amount", options_.amount, "1.5qrn, or grains")->required();
    command->add_option("--type", options_.type, "transaction type 0, 1 or 2")->capture_default_str();
    command->add_option("--count", options_.count, "sign so many, with the nonces that follow, a line each")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();

    command = native("bond", "signs a role bond", sign_bond);
    command->add_option("--role", options_.role, "solver, verifier, whistleblower or custodian")->required();
    command->add_option("--amount", options_.amount, "100qrn, or grains")->required();

    stake<NativeKind::create_validator>("create-validator", "signs a new validator's first stake");
    stake<NativeKind::delegate>("delegate", "signs stake for a validator");
    stake<NativeKind::undelegate>("undelegate", "signs stake's way out, which takes the unbonding time");
    stake<NativeKind::withdraw_stake>("withdraw-stake", "signs the payment of stake that has finished unbonding");
    command = native("submit-evidence",
                     "signs a commitment to the proof of a double vote and, with the next nonce, the proof: quern-cli\n"
                     "evidence sends the one and, some blocks later, the other, so that nobody else is paid for it",
                     submit_evidence);
    command->add_option("--evidence", options_.stake.evidence, "hex as a node logs it, or @FILE")->required();
    command->add_flag("--at-once", options_.at_once,
                      "sign the proof alone, for which nobody is paid; with --max-fee 0 --tip 0 and the account's next "
                      "nonce it is free");

    command = native("native", "signs any native kind from its payload", sign_kind);
    command->add_option("kind", options_.kind, "task_cancel, unbond, tick, …")->required();
    command->add_option("payload", options_.text, "the payload's fields as JSON, @FILE or @-")->required();

    command = add("sign", "signs a transaction given as JSON", sign_json);
    add_key_options(*command, options_.key);
    command->add_option("--chain-id", options_.tx.chain_id, "when the JSON has none")->capture_default_str();
    command->add_flag("--json", options_.as_json, "print raw, hash, from and fee as JSON");
    command->add_option("transaction", options_.text, "JSON, @FILE or @-")->required();
}

void Commands::add_tasks() {
    CLI::App* command = native("submit-task", "shows the price and signs a training task", submit_task);
    add_spec_options(*command, options_.spec);
    command->add_option("--max-escrow", options_.spec.max_escrow, "refuse to sign for more than this");
    command =
        native("accept", "signs that a settled task's result is there: its solver gets the held share", accept_result);
    command->add_option("--task", options_.task, "task id")->required();
    command = native("data-challenge",
                     "signs a question for a piece of a settled task's last state: it prepays γ to who answers; if\n"
                     "nobody does within the task's --verify-s the held share is the submitter's",
                     ask_for_piece);
    command->add_option("--task", options_.task, "task id")->required();
    command->add_option("--slot", options_.slot, "slot of the state")->required();
    command->add_option("--tile", options_.tile, "tile of the slot, modulo the number of its tiles")
        ->capture_default_str();
    command = add("price", "work units, fees and escrow of a task, before anything is signed", show_price);
    add_spec_options(*command, options_.spec);
    command = add("spec", "prints the task's specification as JSON", show_spec);
    add_spec_options(*command, options_.spec);
}

int run(int argc, char** argv) {
    Options options;
    options.tx.chain_id = chain::params::kDevnetChainId;
    CLI::App app{
        "quern-wallet: keys and signed transactions, offline. Send what it prints with\n"
        "  quern-cli eth_sendRawTransaction $(quern-wallet transfer …)\n"
        "Amounts are grains (10^-18 QRN), or 1.5qrn, or 2gwei. Exit codes: 0 done, 1 failed, 2 wrong options.\n"};
    app.set_version_flag("--version", std::string("quern-wallet ") + QUERN_VERSION);
    app.require_subcommand(1);
    Commands commands(app, options);
    commands.add_keys();
    commands.add_transactions();
    commands.add_tasks();
    if (const auto code = parse_command_line(app, "quern-wallet", argc, argv)) return *code;
    const Status status = commands.chosen()(options);
    return status ? 0 : complain("quern-wallet", status.error());
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) { return quern::run(argc, argv); }
