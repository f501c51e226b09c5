#include "chain/exec/genesis.h"

#include <map>
#include <set>

#include "chain/exec/handlers/draw_table.h"
#include "chain/exec/system/validators.h"
#include "chain/market/bonds.h"
#include "chain/params/parameters.h"
#include "chain/types/native_kinds.h"
#include "crypto/hash.h"
#include "crypto/signature.h"

namespace quern::chain::exec {
namespace {

using json::Value;

constexpr std::string_view kFormat = "quern-genesis-1";

Status read_number(const Value& value, std::string_view name, std::uint64_t& out) {
    auto number = value.as_u64();
    if (!number) return fail("genesis.bad_value", std::string(name) + ": " + number.error().to_string());
    out = *number;
    return {};
}

Status read_number(const Value& value, std::string_view name, Uint256& out) {
    if (value.is_integer()) {
        std::uint64_t number = 0;
        QUERN_CHECK(read_number(value, name, number));
        out = number;
        return {};
    }
    const auto text = value.as_string();
    if (!text) return fail("genesis.bad_value", std::string(name) + ": expected a decimal string");
    auto amount = Uint256::from_decimal(*text);
    if (!amount) return fail("genesis.bad_value", std::string(name) + ": " + amount.error().to_string());
    out = *amount;
    return {};
}

Status check_keys(const Value& value, std::string_view where, const std::set<std::string_view>& known) {
    if (!value.is_object()) return fail("genesis.bad_value", std::string(where) + ": expected an object");
    for (const auto& member : value.members())
        if (!known.contains(member.key)) return fail("genesis.unknown_field", std::string(where) + "." + member.key);
    return {};
}

// The parameters that the file gives; the others keep their defaults.
Status read_parameters(const Value& root, params::ChainParams& params) {
    for (const auto section : params::kSections) {
        const Value* values = root.find(section);
        if (values == nullptr) continue;
        std::set<std::string_view> known;
        for (const auto& each : params::parameters())
            if (each.section == section) known.insert(each.name);
        QUERN_CHECK(check_keys(*values, section, known));
        Status status;
        params::visit_parameters(params, [&](const params::Parameter& parameter, auto& target) {
            if (!status || parameter.section != section) return;
            if (const Value* value = values->find(parameter.name)) status = read_number(*value, parameter.name, target);
        });
        QUERN_CHECK(status);
    }
    return {};
}

Expected<const Value*> need(const Value& object, std::string_view name) {
    const Value* value = object.find(name);
    if (value == nullptr) return fail("genesis.missing_field", std::string(name));
    return value;
}

Expected<std::string_view> need_text(const Value& object, std::string_view name) {
    QUERN_TRY(const Value* value, need(object, name));
    const auto text = value->as_string();
    if (!text) return fail("genesis.bad_value", std::string(name) + ": expected text");
    return *text;
}

Expected<types::Address> need_address(const Value& object) {
    QUERN_TRY(const auto text, need_text(object, "address"));
    auto address = types::parse_address(text);
    if (!address) return fail("genesis.bad_value", address.error().to_string());
    return *address;
}

Expected<Uint256> need_amount(const Value& object, std::string_view name) {
    QUERN_TRY(const Value* value, need(object, name));
    Uint256 amount;
    QUERN_CHECK(read_number(*value, name, amount));
    return amount;
}

// Calls read(item) for each item of a list that may be missing.
template <class Read>
Status read_list(const Value& root, std::string_view name, const std::set<std::string_view>& known, Read&& read) {
    const Value* list = root.find(name);
    if (list == nullptr) return {};
    if (!list->is_array()) return fail("genesis.bad_value", std::string(name) + ": expected an array");
    if (list->size() > kMaxGenesisEntries) return fail("genesis.too_many_entries", std::string(name));
    for (const Value& item : list->items()) {
        QUERN_CHECK(check_keys(item, name, known));
        QUERN_CHECK(read(item));
    }
    return {};
}

Expected<types::Address> validator_address(const GenesisValidator& validator) {
    auto bytes = FixedBytes<64>::from_view(validator.public_key);
    if (!bytes) return fail("genesis.bad_validator_key", bytes.error().to_string());
    return types::address_of(crypto::PublicKey{*bytes});
}

void store_first_epochs(const Genesis& genesis, state::Overlay& overlay) {
    std::map<types::Address, types::CommitteeEntry> by_address;
    for (const auto& validator : genesis.validators)
        by_address[validator_address(validator).value_or(types::Address{})] = {validator.public_key, validator.stake};
    types::EpochObject epoch;
    for (auto& [address, entry] : by_address) epoch.members.push_back(std::move(entry));
    epoch.seed = genesis_beacon(genesis);
    for (const std::uint64_t number : {0ULL, 1ULL}) overlay.store(types::key_of<types::EpochObject>(number), epoch);
}

}  // namespace

Bytes reserved_code() { return {0x60, 0x00, 0x60, 0x00, 0xfd}; }

Expected<types::Role> parse_role(std::string_view name) {
    if (const auto role = types::role_named(name)) return *role;
    return fail("genesis.bad_value", "role " + std::string(name));
}

Expected<Genesis> parse_genesis(std::string_view text) {
    QUERN_TRY(const Value root, json::parse(text, json::Limits{kMaxGenesisBytes, 8}));
    QUERN_CHECK(check_keys(root, "genesis",
                           {"format", "network", "chain_id", "timestamp_ms", "check_invariants", "block", "market",
                            "staking", "allocations", "validators", "bonds"}));
    QUERN_TRY(const auto format, need_text(root, "format"));
    if (format != kFormat) return fail("genesis.bad_format", "expected " + std::string(kFormat));

    Genesis genesis;
    auto& params = genesis.params;
    QUERN_TRY(const auto network, need_text(root, "network"));
    params.network = std::string(network);
    QUERN_TRY(const Value* chain_id, need(root, "chain_id"));
    QUERN_CHECK(read_number(*chain_id, "chain_id", params.chain_id));
    QUERN_TRY(const Value* timestamp, need(root, "timestamp_ms"));
    QUERN_CHECK(read_number(*timestamp, "timestamp_ms", genesis.timestamp_ms));
    if (const Value* check = root.find("check_invariants")) {
        const auto flag = check->as_bool();
        if (!flag) return fail("genesis.bad_value", "check_invariants");
        params.check_invariants = *flag;
    }
    QUERN_CHECK(read_parameters(root, params));

    QUERN_CHECK(read_list(root, "allocations", {"address", "balance"}, [&](const Value& item) -> Status {
        GenesisAllocation allocation;
        QUERN_TRY(allocation.address, need_address(item));
        QUERN_TRY(allocation.balance, need_amount(item, "balance"));
        genesis.allocations.push_back(allocation);
        return {};
    }));
    QUERN_CHECK(read_list(root, "validators", {"public_key", "stake"}, [&](const Value& item) -> Status {
        GenesisValidator validator;
        QUERN_TRY(const auto key, need_text(item, "public_key"));
        auto bytes = fixed_from_hex<64>(key);
        if (!bytes) return fail("genesis.bad_validator_key", bytes.error().to_string());
        validator.public_key = to_bytes(*bytes);
        QUERN_TRY(validator.stake, need_amount(item, "stake"));
        genesis.validators.push_back(std::move(validator));
        return {};
    }));
    QUERN_CHECK(read_list(root, "bonds", {"address", "role", "amount"}, [&](const Value& item) -> Status {
        GenesisBond bond;
        QUERN_TRY(bond.address, need_address(item));
        QUERN_TRY(const auto role, need_text(item, "role"));
        QUERN_TRY(bond.role, parse_role(role));
        QUERN_TRY(bond.amount, need_amount(item, "amount"));
        genesis.bonds.push_back(bond);
        return {};
    }));
    QUERN_CHECK(check_genesis(genesis));
    return genesis;
}

Status check_genesis(const Genesis& genesis) {
    QUERN_CHECK(params::check_parameters(genesis.params));
    if (genesis.allocations.size() > kMaxGenesisEntries || genesis.validators.size() > kMaxGenesisEntries ||
        genesis.bonds.size() > kMaxGenesisEntries)
        return fail("genesis.too_many_entries");

    Uint256 supply;
    const auto count = [&supply](const Uint256& amount) -> Status {
        if (amount.is_zero()) return fail("genesis.zero_amount");
        supply += amount;
        // Far below 2^256, so that no sum of balances, nor a product with a percentage, can overflow.
        if (amount.bit_length() > 160 || supply.bit_length() > 160) return fail("genesis.supply_overflow");
        return {};
    };
    std::set<types::Address> seen;
    for (const auto& allocation : genesis.allocations) {
        if (types::group_at(allocation.address)) return fail("genesis.reserved_address", to_hex0x(allocation.address));
        if (!seen.insert(allocation.address).second)
            return fail("genesis.duplicate_address", to_hex0x(allocation.address));
        QUERN_CHECK(count(allocation.balance));
    }
    if (genesis.validators.empty()) return fail("genesis.no_validators");
    if (genesis.validators.size() > genesis.params.staking.max_validators)
        return fail("genesis.too_many_entries", "more validators than max_validators");
    std::set<types::Address> validators;
    for (const auto& validator : genesis.validators) {
        QUERN_TRY(const auto address, validator_address(validator));
        if (!validators.insert(address).second) return fail("genesis.duplicate_address", to_hex0x(address));
        QUERN_CHECK(count(validator.stake));
        if (validator.stake < genesis.params.staking.min_validator_stake)
            return fail("genesis.stake_too_small",
                        to_hex0x(address) + " stakes " + validator.stake.to_decimal() + " grains, the least is " +
                            genesis.params.staking.min_validator_stake.to_decimal() + " (min_validator_stake)");
    }
    std::set<std::pair<types::Role, types::Address>> bonds;
    const Uint256 least = market::min_bond(genesis.params.market);
    for (const auto& bond : genesis.bonds) {
        if (!bonds.insert({bond.role, bond.address}).second)
            return fail("genesis.duplicate_address", to_hex0x(bond.address));
        QUERN_CHECK(count(bond.amount));
        if (bond.amount < least)
            return fail("genesis.bond_too_small", std::string(types::to_string(bond.role)) + " " +
                                                      to_hex0x(bond.address) + " bonds " + bond.amount.to_decimal() +
                                                      " grains, the least is " + least.to_decimal());
    }
    return {};
}

Value to_json(const Genesis& genesis) {
    auto root = Value::object({{"format", kFormat},
                               {"network", genesis.params.network},
                               {"chain_id", genesis.params.chain_id},
                               {"timestamp_ms", genesis.timestamp_ms},
                               {"check_invariants", genesis.params.check_invariants}});
    for (const auto section : params::kSections) root.set(section, params::to_json(genesis.params, section));

    auto allocations = Value::array();
    for (const auto& allocation : genesis.allocations)
        allocations.push(Value::object({{"address", types::to_checksum_address(allocation.address)},
                                        {"balance", allocation.balance.to_decimal()}}));
    root.set("allocations", std::move(allocations));
    auto validators = Value::array();
    for (const auto& validator : genesis.validators)
        validators.push(
            Value::object({{"public_key", to_hex0x(validator.public_key)}, {"stake", validator.stake.to_decimal()}}));
    root.set("validators", std::move(validators));
    auto bonds = Value::array();
    for (const auto& bond : genesis.bonds)
        bonds.push(Value::object({{"address", types::to_checksum_address(bond.address)},
                                  {"role", types::to_string(bond.role)},
                                  {"amount", bond.amount.to_decimal()}}));
    root.set("bonds", std::move(bonds));
    return root;
}

void apply_genesis(const Genesis& genesis, state::Overlay& overlay) {
    types::Globals globals;
    for (const auto& allocation : genesis.allocations) {
        auto account = overlay.account_or_empty(allocation.address);
        account.balance = allocation.balance;
        overlay.set_account(allocation.address, account);
        globals.minted += allocation.balance;
    }
    for (const auto& validator : genesis.validators) {
        types::ValidatorObject object;
        object.address = validator_address(validator).value_or(types::Address{});  // check_genesis made sure of it
        object.public_key = validator.public_key;
        object.stake = validator.stake;
        object.shares = validator.stake;
        object.owner = object.address;
        (void)system::store_validator(genesis.params.staking, overlay, object);  // reads nothing that could be corrupt
        overlay.store(types::key_of<types::StakeDelegation>(object.address, object.address),
                      types::StakeDelegation{object.address, object.address, object.shares});
        globals.minted += validator.stake;
    }
    store_first_epochs(genesis, overlay);
    for (const auto& bond : genesis.bonds) {
        types::RoleBond object;
        object.address = bond.address;
        object.role = bond.role;
        object.bonded = bond.amount;
        (void)handlers::update_table(overlay, object, 0, 0);  // reads nothing that could be corrupt
        overlay.store(types::key_of<types::RoleBond>(bond.role, bond.address), object);
        globals.minted += bond.amount;
        if (bond.role == types::Role::whistleblower) globals.watch_bonds += bond.amount;
    }
    overlay.store(types::key_of<types::Globals>(), globals);

    const Hash32 code_hash = crypto::keccak256(reserved_code());
    overlay.set_code(code_hash, reserved_code());
    for (auto group = types::KindGroup::staking; group <= types::KindGroup::market;
         group = static_cast<types::KindGroup>(static_cast<std::uint8_t>(group) + 1)) {
        auto account = state::empty_account();
        account.nonce = 1;  // EIP-161: contracts start at 1
        account.code_hash = code_hash;
        overlay.set_account(types::group_address(group), account);
    }
}

Hash32 genesis_beacon(const Genesis& genesis) {
    const std::string content = to_json(genesis).dump();
    return crypto::sha256({as_bytes("quern genesis"), as_bytes(content)});
}

types::BlockHeader genesis_header(const Genesis& genesis, const Hash32& state_root, const Hash32& native_root,
                                  const Hash32& committee_hash) {
    types::BlockHeader header;
    header.state_root = state_root;
    header.transactions_root = types::kEmptyTrieRoot;
    header.receipts_root = types::kEmptyTrieRoot;
    header.withdrawals_root = types::kEmptyTrieRoot;
    header.gas_limit = genesis.params.block_gas_limit;
    header.timestamp = genesis.timestamp_ms / 1000;
    header.base_fee_per_gas = genesis.params.initial_base_fee;
    auto& consensus = header.consensus;
    consensus.committee_hash = committee_hash;
    consensus.next_committee_hash = committee_hash;
    consensus.native_root = native_root;
    consensus.beacon = genesis_beacon(genesis);
    consensus.timestamp_ms = genesis.timestamp_ms;
    header.prev_randao = consensus.beacon;
    return header;
}

}  // namespace quern::chain::exec
