// quern-wallet: keys and signatures, offline. Makes and opens keystores and prints signed transactions; asks nothing of
// a node, so nonce and fees are options. Private keys are printed only with --show-private-key.
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "base/args.h"
#include "base/fs.h"
#include "bin/amount.h"
#include "bin/wallet_stake.h"
#include "bin/wallet_task.h"
#include "chain/params/params.h"
#include "chain/types/abi.h"
#include "chain/types/json_codec.h"
#include "chain/types/transaction_rules.h"
#include "crypto/hash.h"
#include "crypto/key_file.h"
#include "crypto/keystore.h"
#include "quern_version.h"

namespace quern {
namespace {

namespace types = chain::types;
using types::NativeKind;
using types::Transaction;
using types::TxType;

constexpr std::size_t kMaxJsonFile = std::size_t{1} << 20;
constexpr std::uint64_t kTransferGas = 21'000;
constexpr std::uint64_t kNativeGas = 3'000'000;  // what is not used is given back
constexpr std::string_view kSeedDomain = "quern insecure devnet key";

struct KeyOptions {
    std::string keystore;
    std::string password_file;
    std::string seed;
};
struct TxOptions {
    std::uint64_t chain_id = chain::params::kDevnetChainId;
    std::uint64_t nonce = 0;
    std::uint64_t gas = 0;  // 0: the command's default
    std::string max_fee = "10gwei";
    std::string tip = "1gwei";
    int type = 2;  // of transfers
    bool via_abi = false;
    bool as_json = false;
};
struct Options {
    KeyOptions key;
    TxOptions tx;
    wallet::SpecOptions spec;
    wallet::StakeOptions stake;
    std::string source, to, amount, role, kind, text;
    bool light = false;
    bool show_private_key = false;
};

// --- Keys
// -------------------------------------------------------------------------------------------------------------

// The same text gives the same key: for networks whose keys guard nothing.
Expected<crypto::PrivateKey> key_from_seed(std::string_view seed) {
    for (std::uint8_t attempt = 0;; ++attempt) {
        Bytes message = to_bytes(as_bytes(seed));
        message.push_back(attempt);
        auto key = crypto::PrivateKey::from_bytes(crypto::hmac_sha256(as_bytes(kSeedDomain), message));
        if (key || attempt == 0xff) return key;
    }
}

Expected<std::string> ask_password(const char* prompt) {
    termios old{};
    if (isatty(STDIN_FILENO) == 0 || tcgetattr(STDIN_FILENO, &old) != 0)
        return fail("wallet.no_password", "give --password-file");
    termios silent = old;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    std::fprintf(stderr, "%s", prompt);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    std::string password;
    std::getline(std::cin, password);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
    std::fputc('\n', stderr);
    return password;
}

Expected<std::string> new_password(const std::string& file) {
    if (!file.empty()) {
        QUERN_TRY(const std::string text, fs::read_text_file(file, kMaxJsonFile));
        return text.substr(0, text.find_first_of("\r\n"));
    }
    QUERN_TRY(const std::string first, ask_password("Password: "));
    QUERN_TRY(const std::string second, ask_password("Again: "));
    if (first != second) return fail("wallet.password_differs");
    return first;
}

Expected<crypto::PrivateKey> load_key(const std::string& file, const std::string& password_file) {
    auto key = crypto::load_key_file(file, password_file);
    if (key || key.error().name != "key_file.password_needed") return key;
    QUERN_TRY(const std::string text, fs::read_text_file(file, crypto::kMaxKeystoreBytes));
    QUERN_TRY(const std::string password, ask_password("Password: "));
    return crypto::decrypt_key(std::string_view(text), password);
}

Expected<crypto::PrivateKey> load_key(const KeyOptions& options) {
    if (!options.keystore.empty()) return load_key(options.keystore, options.password_file);
    if (!options.seed.empty()) return key_from_seed(options.seed);
    return fail("wallet.no_key", "give --keystore or --seed");
}

json::Value describe(const crypto::PrivateKey& key, bool show_private_key) {
    const crypto::PublicKey public_key = crypto::derive_public(key);
    json::Value object = json::Value::object({{"address", types::to_checksum_address(types::address_of(public_key))},
                                              {"publicKey", to_hex0x(public_key.bytes)}});
    if (show_private_key) object.set("privateKey", to_hex0x(key.secret_bytes()));
    return object;
}

Status store(const crypto::PrivateKey& key, const Options& options) {
    const std::string& path = options.key.keystore;
    if (fs::exists(path)) return fail("wallet.file_exists", path + " is there already and is not overwritten");
    QUERN_TRY(const std::string password, new_password(options.key.password_file));
    OsRng rng;
    QUERN_TRY(const json::Value file,
              crypto::encrypt_key(key, password, rng, options.light ? crypto::kLightScrypt : crypto::ScryptCost{}));
    QUERN_CHECK(fs::write_secret_file(path, as_bytes(file.dump_pretty() + "\n")));
    json::Value object = describe(key, options.show_private_key);
    object.set("keystore", path);
    std::printf("%s\n", object.dump_pretty().c_str());
    return {};
}

Status make_new(const Options& options) {
    OsRng rng;
    auto key = options.key.seed.empty() ? Expected<crypto::PrivateKey>(crypto::PrivateKey::generate(rng))
                                        : key_from_seed(options.key.seed);
    if (!key) return fail(key.error());
    if (!options.key.seed.empty())
        std::fprintf(stderr, "quern-wallet: a key from --seed is no secret: for devnets only\n");
    return store(*key, options);
}

Status import_key(const Options& options) {
    QUERN_TRY(const auto key, load_key(options.source, options.text));
    return store(key, options);
}

Status show_address(const Options& options) {
    QUERN_TRY(const auto key, load_key(options.key));
    std::printf("%s\n", describe(key, options.show_private_key).dump_pretty().c_str());
    return {};
}

// --- Transactions
// -----------------------------------------------------------------------------------------------------

Expected<Transaction> base_transaction(const TxOptions& options, std::uint64_t default_gas) {
    Transaction tx;
    tx.chain_id = options.chain_id;
    tx.nonce = options.nonce;
    tx.gas_limit = options.gas != 0 ? options.gas : default_gas;
    QUERN_TRY(tx.max_fee_per_gas, parse_amount(options.max_fee));
    QUERN_TRY(tx.max_priority_fee_per_gas, parse_amount(options.tip));
    return tx;
}

Status sign_and_print(Transaction tx, const Options& options) {
    QUERN_TRY(const auto key, load_key(options.key));
    QUERN_CHECK(types::check_form(tx, tx.chain_id.value_or(0)));
    QUERN_CHECK(types::check_gas_limit(tx));
    types::sign(tx, key);
    const Bytes raw = types::encode(tx);
    QUERN_TRY(const types::RecoveredTransaction check, types::recover(raw));
    if (!options.tx.as_json) {
        std::printf("%s\n", to_hex0x(raw).c_str());
        return {};
    }
    const auto fee = checked_mul(tx.max_fee_per_gas, tx.gas_limit);
    std::printf("%s\n", json::Value::object({{"raw", to_hex0x(raw)},
                                             {"hash", to_hex0x(check.hash)},
                                             {"from", types::to_checksum_address(check.sender)},
                                             {"nonce", tx.nonce},
                                             {"gas", tx.gas_limit},
                                             {"maxFee", fee ? fee->to_decimal() : std::string()}})
                            .dump_pretty()
                            .c_str());
    return {};
}

Status transfer(const Options& options) {
    QUERN_TRY(Transaction tx, base_transaction(options.tx, kTransferGas));
    if (options.tx.type < 0 || options.tx.type > 2) return fail("wallet.bad_type", "transfers have type 0, 1 or 2");
    tx.type = static_cast<TxType>(options.tx.type);
    if (tx.type != TxType::dynamic_fee) tx.max_priority_fee_per_gas = tx.max_fee_per_gas;  // one gas price
    QUERN_TRY(const types::Address to, types::parse_address(options.to));
    tx.to = to;
    QUERN_TRY(tx.value, parse_amount(options.amount));
    return sign_and_print(std::move(tx), options);
}

Status sign_native(NativeKind kind, Bytes payload, const Options& options) {
    QUERN_TRY(Transaction tx, base_transaction(options.tx, kNativeGas));
    if (options.tx.via_abi) {
        tx.type = TxType::dynamic_fee;
        tx.to = types::group_address(types::group_of(kind));
        QUERN_TRY(tx.data, types::abi::encode_call(kind, payload));
    } else {
        tx.type = TxType::native;
        tx.native_kind = static_cast<std::uint8_t>(kind);
        tx.data = std::move(payload);
    }
    return sign_and_print(std::move(tx), options);
}

Expected<Bytes> payload_from_json(NativeKind kind, const json::Value& json) {
    return types::visit_kind(kind, [&](auto, auto tag) -> Expected<Bytes> {
        using Payload = typename decltype(tag)::Payload;
        QUERN_TRY(const Payload payload, types::record_from_json<Payload>(json, types::ExtraMembers::refuse));
        return types::encode_record(payload);
    });
}

Status sign_kind(const Options& options) {
    const auto* kind = types::find_kind(options.kind);
    if (kind == nullptr) return fail("wallet.unknown_kind", options.kind);
    QUERN_TRY(const json::Value json, wallet::read_json_argument(options.text));
    QUERN_TRY(Bytes payload, payload_from_json(kind->kind, json));
    return sign_native(kind->kind, std::move(payload), options);
}

Status sign_bond(const Options& options) {
    types::BondPayload payload;
    if (options.role == "verifier")
        payload.role = types::Role::verifier;
    else if (options.role == "whistleblower")
        payload.role = types::Role::whistleblower;
    else if (options.role != "solver")
        return fail("wallet.unknown_role", options.role + ": solver, verifier or whistleblower");
    QUERN_TRY(payload.amount, parse_amount(options.amount));
    return sign_native(NativeKind::bond, types::encode_record(payload), options);
}

template <NativeKind kind>
Status sign_stake(const Options& options) {
    QUERN_TRY(const auto key, load_key(options.key));
    QUERN_TRY(Bytes payload, wallet::stake_payload(kind, options.stake, options.tx.chain_id, key));
    return sign_native(kind, std::move(payload), options);
}

template <class Reader, class Target>
Status read_member(const json::Value& object, const char* name, Reader&& reader, Target& target) {
    const json::Value* value = object.find(name);
    if (value == nullptr || value->is_null()) return {};
    auto result = reader(*value);
    if (!result) return detailed(result.error(), std::string(name) + ": " + result.error().detail);
    target = std::move(*result);
    return {};
}

Expected<std::uint64_t> small(const json::Value& value) {
    QUERN_TRY(const Uint256 number, types::uint256_from_json(value));
    if (!number.fits_u64()) return fail("json.out_of_range");
    return number.low_u64();
}

template <class T>
Expected<T> field_value(const json::Value& value) {
    T result{};
    QUERN_CHECK(types::from_json(value, result));
    return result;
}

// The object that JSON-RPC shows and libraries build; a native one has type "0x51", kind and payload.
Expected<Transaction> transaction_from_json(const json::Value& object, std::uint64_t chain_id) {
    if (!object.is_object()) return fail("json.wrong_type", "expected an object");
    for (const json::Member& member : object.members()) {
        static constexpr std::string_view kKnown[] = {
            "type", "chainId", "nonce", "gas",   "gasLimit",   "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas",
            "to",   "value",   "data",  "input", "accessList", "kind",     "payload",      "from"};
        if (std::find(std::begin(kKnown), std::end(kKnown), member.key) == std::end(kKnown))
            return fail("json.unknown_field", member.key);
    }
    Transaction tx;
    std::uint64_t type = object.find("maxFeePerGas") != nullptr ? 2 : 0;
    tx.chain_id = chain_id;
    QUERN_CHECK(read_member(object, "type", small, type));
    QUERN_CHECK(read_member(object, "chainId", small, tx.chain_id));
    QUERN_CHECK(read_member(object, "nonce", small, tx.nonce));
    QUERN_CHECK(read_member(object, "gas", small, tx.gas_limit));
    QUERN_CHECK(read_member(object, "gasLimit", small, tx.gas_limit));
    QUERN_CHECK(read_member(object, "value", types::uint256_from_json, tx.value));
    QUERN_CHECK(read_member(object, "to", field_value<types::Address>, tx.to));
    QUERN_CHECK(read_member(object, "data", field_value<Bytes>, tx.data));
    QUERN_CHECK(read_member(object, "input", field_value<Bytes>, tx.data));
    QUERN_CHECK(read_member(object, "gasPrice", types::uint256_from_json, tx.max_fee_per_gas));
    tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    QUERN_CHECK(read_member(object, "maxFeePerGas", types::uint256_from_json, tx.max_fee_per_gas));
    QUERN_CHECK(read_member(object, "maxPriorityFeePerGas", types::uint256_from_json, tx.max_priority_fee_per_gas));
    if (type > 2 && type != static_cast<std::uint64_t>(TxType::native))
        return fail("wallet.bad_type", "types 0, 1, 2 and 0x51 can be signed");
    tx.type = static_cast<TxType>(type);
    if (const json::Value* list = object.find("accessList"))
        for (const json::Value& item : list->items()) {
            types::AccessListEntry entry;
            QUERN_CHECK(read_member(item, "address", field_value<types::Address>, entry.address));
            QUERN_CHECK(read_member(item, "storageKeys", field_value<std::vector<Hash32>>, entry.storage_keys));
            tx.access_list.push_back(std::move(entry));
        }
    if (tx.type == TxType::native) {
        QUERN_TRY(const std::string_view name, object.get_string("kind"));
        const auto* kind = types::find_kind(name);
        if (kind == nullptr) return fail("wallet.unknown_kind", std::string(name));
        QUERN_TRY(const json::Value* payload, object.get("payload"));
        tx.native_kind = static_cast<std::uint8_t>(kind->kind);
        QUERN_TRY(tx.data, payload_from_json(kind->kind, *payload));
    }
    return tx;
}

Status sign_json(const Options& options) {
    QUERN_TRY(const json::Value json, wallet::read_json_argument(options.text));
    QUERN_TRY(Transaction tx, transaction_from_json(json, options.tx.chain_id));
    return sign_and_print(std::move(tx), options);
}

// --- Tasks
// ------------------------------------------------------------------------------------------------------------

Status show_price(const Options& options) {
    QUERN_TRY(const auto spec, wallet::build_spec(options.spec));
    QUERN_TRY(const wallet::Price price, wallet::price_of(spec, options.spec));
    std::printf("%s\n", price.json.dump_pretty().c_str());
    return {};
}

Status show_spec(const Options& options) {
    QUERN_TRY(const auto spec, wallet::build_spec(options.spec));
    QUERN_CHECK(wallet::price_of(spec, options.spec));
    std::printf("%s\n", types::to_json(spec).dump_pretty().c_str());
    return {};
}

Status submit_task(const Options& options) {
    QUERN_TRY(const auto spec, wallet::build_spec(options.spec));
    QUERN_TRY(const wallet::Price price, wallet::price_of(spec, options.spec));
    if (!options.spec.max_escrow.empty()) {
        QUERN_TRY(const Uint256 limit, parse_amount(options.spec.max_escrow));
        if (price.escrow.total > limit)
            return fail("wallet.above_max_escrow", "the task takes " + in_qrn(price.escrow.total) + " QRN into escrow");
    }
    std::fprintf(stderr, "escrow %s QRN (reward up to %s, verifiers %s, tax %s, deposit %s)\n",
                 in_qrn(price.escrow.total).c_str(), in_qrn(price.escrow.reward).c_str(),
                 in_qrn(price.escrow.verifier_fees).c_str(), in_qrn(price.escrow.tax).c_str(),
                 in_qrn(price.escrow.storage_deposit).c_str());
    return sign_native(NativeKind::task_submit, types::encode_record(spec), options);
}

// --- Command line
// -----------------------------------------------------------------------------------------------------

void add_key_options(CLI::App& app, KeyOptions& key) {
    app.add_option("--keystore", key.keystore, "key file: Web3 Secret Storage v3, or 64 hex digits");
    app.add_option("--password-file", key.password_file, "its first line is the password; asked for when left out");
    app.add_option("--seed", key.seed, "a key from this text instead; anybody can make it: for devnets only");
}

void add_tx_options(CLI::App& app, TxOptions& tx) {
    app.add_option("--nonce", tx.nonce, "the account's next nonce (eth_getTransactionCount)")->required();
    app.add_option("--chain-id", tx.chain_id, "7876 mainnet, 7877 testnet, 7878 devnet")->capture_default_str();
    app.add_option("--gas", tx.gas, "gas limit; 0: 21,000 for transfers, 3,000,000 for native kinds")
        ->capture_default_str();
    app.add_option("--max-fee", tx.max_fee, "most that is paid per gas: grains, or 2gwei")->capture_default_str();
    app.add_option("--tip", tx.tip, "priority fee per gas")->capture_default_str();
    app.add_flag("--json", tx.as_json, "print raw, hash, from and fee as JSON instead of the raw transaction");
}

void add_native_options(CLI::App& app, Options& options) {
    add_key_options(app, options.key);
    add_tx_options(app, options.tx);
    app.add_flag("--via-abi", options.tx.via_abi, "a type-2 call to the reserved address instead of type 0x51");
}

int run(int argc, char** argv) {
    Options options;
    std::function<Status(const Options&)> action;
    CLI::App app{
        "quern-wallet: keys and signed transactions, offline. Send what it prints with\n"
        "  quern-cli eth_sendRawTransaction $(quern-wallet transfer …)\n"
        "Amounts are grains (10^-18 QRN), or 1.5qrn, or 2gwei. Exit codes: 0 ok, 1 failed, 2 usage.\n"};
    app.set_version_flag("--version", std::string("quern-wallet ") + QUERN_VERSION);
    app.require_subcommand(1);
    const auto command = [&](const char* name, const char* text, Status (*function)(const Options&)) {
        CLI::App* sub = app.add_subcommand(name, text);
        sub->callback([&action, function] { action = function; });
        return sub;
    };
    CLI::App* sub = command("new", "makes a key and its keystore (never overwrites one)", make_new);
    add_key_options(*sub, options.key);
    sub->get_option("--keystore")->required();
    sub->add_flag("--light", options.light, "a quick key derivation: for devnets");
    sub->add_flag("--show-private-key", options.show_private_key, "also print the private key");

    sub = command("import", "puts an existing key into a new keystore", import_key);
    sub->add_option("--from", options.source, "key file: 64 hex digits or a keystore, mode 600")->required();
    sub->add_option("--from-password-file", options.text, "password of --from");
    sub->add_option("--keystore", options.key.keystore, "the new keystore")->required();
    sub->add_option("--password-file", options.key.password_file, "its password");
    sub->add_flag("--light", options.light, "a quick key derivation: for devnets");

    sub = command("address", "prints address and public key", show_address);
    add_key_options(*sub, options.key);
    sub->add_flag("--show-private-key", options.show_private_key, "also print the private key");

    sub = command("transfer", "signs a payment", transfer);
    add_key_options(*sub, options.key);
    add_tx_options(*sub, options.tx);
    sub->add_option("--to", options.to, "recipient")->required();
    sub->add_option("--amount", options.amount, "1.5qrn, or grains")->required();
    sub->add_option("--type", options.tx.type, "transaction type 0, 1 or 2")->capture_default_str();

    sub = command("bond", "signs a role bond", sign_bond);
    add_native_options(*sub, options);
    sub->add_option("--role", options.role, "solver, verifier or whistleblower")->required();
    sub->add_option("--amount", options.amount, "100qrn, or grains")->required();

    const auto stake_command = [&](const char* name, const char* text, NativeKind kind,
                                   Status (*function)(const Options&)) {
        CLI::App* stake = command(name, text, function);
        add_native_options(*stake, options);
        wallet::add_stake_options(*stake, kind, options.stake);
    };
    stake_command("create-validator", "signs a new validator's first stake", NativeKind::create_validator,
                  sign_stake<NativeKind::create_validator>);
    stake_command("delegate", "signs stake for a validator", NativeKind::delegate, sign_stake<NativeKind::delegate>);
    stake_command("undelegate", "signs stake's way out, which takes the unbonding time", NativeKind::undelegate,
                  sign_stake<NativeKind::undelegate>);
    stake_command("withdraw-stake", "signs the payment of stake that has finished unbonding",
                  NativeKind::withdraw_stake, sign_stake<NativeKind::withdraw_stake>);
    stake_command("submit-evidence",
                  "signs the proof of a double vote; with --max-fee 0 --tip 0 and the account's next nonce it is free",
                  NativeKind::evidence, sign_stake<NativeKind::evidence>);

    sub = command("native", "signs any native kind from its payload", sign_kind);
    add_native_options(*sub, options);
    sub->add_option("kind", options.kind, "task_cancel, unbond, tick, …")->required();
    sub->add_option("payload", options.text, "the payload's fields as JSON, @FILE or @-")->required();

    sub = command("sign", "signs a transaction given as JSON", sign_json);
    add_key_options(*sub, options.key);
    sub->add_option("--chain-id", options.tx.chain_id, "when the JSON has none")->capture_default_str();
    sub->add_flag("--json", options.tx.as_json, "print raw, hash, from and fee as JSON");
    sub->add_option("transaction", options.text, "JSON, @FILE or @-")->required();

    sub = command("submit-task", "shows the price and signs a training task", submit_task);
    add_native_options(*sub, options);
    wallet::add_spec_options(*sub, options.spec);
    sub->add_option("--max-escrow", options.spec.max_escrow, "refuse to sign for more than this");

    sub = command("price", "work units, fees and escrow of a task, before anything is signed", show_price);
    wallet::add_spec_options(*sub, options.spec);
    sub = command("spec", "prints the task's specification as JSON", show_spec);
    wallet::add_spec_options(*sub, options.spec);
    try {
        app.parse(arguments_for_cli11(argc, argv));
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    const Status status = action(options);
    if (status) return 0;
    std::fprintf(stderr, "quern-wallet: %s\n", status.error().to_string().c_str());
    return 1;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) { return quern::run(argc, argv); }
