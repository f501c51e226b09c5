// State tests: https://eest.ethereum.org/main/running_tests/test_formats/state_test/, which is what ethereum/tests has,
// too. One transaction on a given state, for forks and for what is picked from the transaction's lists; the root of the
// state and the hash of the logs decide, and the name of the error where the transaction must be refused.
#include "base/rlp.h"
#include "chain/ethereum/fees.h"
#include "chain/evm/state_world.h"
#include "chain/statetest/cases.h"
#include "chain/statetest/expected_error.h"
#include "chain/statetest/pre_state.h"
#include "chain/statetest/state_differences.h"
#include "chain/statetest/state_transaction.h"
#include "chain/statetest/trace.h"
#include "crypto/hash.h"

namespace quern::chain::statetest {
namespace {

using vm::evm::Revision;

// As the tests have it: the hash of the number's decimal digits.
class DecimalHashes final : public evm::BlockHashes {
public:
    Hash32 block_hash(std::uint64_t number) const override {
        return crypto::keccak256(as_bytes(std::to_string(number)));
    }
};

struct Environment {
    vm::evm::BlockContext block;
    std::optional<Uint256> excess_blob_gas;
};

Expected<Environment> parse_environment(const json::Value& env, const json::Value* config) {
    Environment environment;
    auto& block = environment.block;
    QUERN_TRY(const auto* coinbase, env.get("currentCoinbase"));
    QUERN_TRY(block.coinbase, parse_fixed<vm::evm::Address::kSize>(*coinbase));
    const auto read_u64 = [&](const char* name, std::uint64_t& number) -> Status {
        QUERN_TRY(const auto* value, env.get(name));
        QUERN_TRY(number, parse_u64(*value));
        return {};
    };
    QUERN_CHECK(read_u64("currentNumber", block.number));
    QUERN_CHECK(read_u64("currentTimestamp", block.timestamp));
    QUERN_CHECK(read_u64("currentGasLimit", block.gas_limit));
    const auto read_number = [](const json::Value& from, const char* name) -> Expected<std::optional<Uint256>> {
        const json::Value* value = from.find(name);
        if (value == nullptr) return std::optional<Uint256>();
        QUERN_TRY(const Uint256 number, parse_number(*value));
        return std::optional(number);
    };
    QUERN_TRY(const auto difficulty, read_number(env, "currentDifficulty"));
    QUERN_TRY(const auto randao, read_number(env, "currentRandom"));
    QUERN_TRY(const auto base_fee, read_number(env, "currentBaseFee"));
    QUERN_TRY(environment.excess_blob_gas, read_number(env, "currentExcessBlobGas"));
    block.difficulty = difficulty.value_or(Uint256());
    block.prev_randao = randao.value_or(Uint256()).to_be32();
    block.base_fee = base_fee.value_or(Uint256());
    if (config != nullptr) {
        QUERN_TRY(const auto chain_id, read_number(*config, "chainid"));
        block.chain_id = chain_id.value_or(block.chain_id).low_u64();
    }
    return environment;
}

// EIP-4844, EIP-7691; the schedule of the fixture comes first (EIP-7840).
Expected<Uint256> update_fraction(const json::Value* config, std::string_view fork, Revision revision) {
    const json::Value* schedule = config != nullptr ? config->find("blobSchedule") : nullptr;
    const json::Value* of_fork = schedule != nullptr ? schedule->find(fork) : nullptr;
    if (of_fork != nullptr) {
        QUERN_TRY(const auto* fraction, of_fork->get("baseFeeUpdateFraction"));
        return parse_number(*fraction);
    }
    return Uint256(revision >= Revision::prague ? 5'007'716 : 3'338'477);
}

Hash32 hash_of(const std::vector<types::Log>& logs) {
    rlp::Writer out;
    out.begin_list();
    for (const auto& log : logs) {
        out.begin_list().fixed(log.address).begin_list();
        for (const auto& topic : log.topics) out.fixed(topic);
        out.end_list().bytes(log.data).end_list();
    }
    out.end_list();
    return crypto::keccak256(std::move(out).finish());
}

// What all parts of a test share.
struct Test {
    const json::Value& transaction;
    const json::Value* config;
    Environment environment;
    PreState pre;
};

Expected<Indexes> parse_indexes(const json::Value& post) {
    Indexes indexes;
    QUERN_TRY(const auto* fields, post.get_object("indexes"));
    QUERN_TRY(indexes.data, fields->get_u64("data"));
    QUERN_TRY(indexes.gas, fields->get_u64("gas"));
    QUERN_TRY(indexes.value, fields->get_u64("value"));
    return indexes;
}

Status run_part(RunContext& context, const Test& test, Revision revision, std::string_view fork,
                const json::Value& post, const Indexes& indexes, CaseResult& result) {
    QUERN_TRY(const auto* root_field, post.get("hash"));
    QUERN_TRY(const Hash32 wanted_root, parse_fixed<Hash32::kSize>(*root_field));
    QUERN_TRY(const auto* logs_field, post.get("logs"));
    QUERN_TRY(const Hash32 wanted_logs, parse_fixed<Hash32::kSize>(*logs_field));
    const auto wanted_error = post.get_string("expectException");

    vm::evm::BlockContext block = test.environment.block;
    if (test.environment.excess_blob_gas) {
        QUERN_TRY(const Uint256 fraction, update_fraction(test.config, fork, revision));
        block.blob_base_fee = ethereum::blob_base_fee(*test.environment.excess_blob_gas, fraction);
    }
    state::Overlay overlay(
        test.pre, revision >= Revision::spurious_dragon ? state::EmptyAccounts::removed : state::EmptyAccounts::kept);
    const DecimalHashes hashes;
    evm::StateWorld world(overlay, context.codes, hashes, block.number);
    StateTransaction transaction;
    std::optional<Trace> trace;
    if (context.trace != nullptr) trace.emplace(*context.trace);
    context.machine.set_tracer(trace ? &trace->tracer() : nullptr);
    vm::evm::TransactionResult executed;  // nothing, of one that is refused
    std::string why;
    const auto parsed = parse_transaction(test.transaction, indexes, block.chain_id, transaction);
    if (!parsed) {
        // What no transaction can hold is refused before it is one.
        if (!wanted_error || parsed.error().name != kNumberTooLarge) return fail(parsed.error());
    } else {
        auto done =
            vm::evm::execute_transaction(context.machine, world, block, revision, transaction.input, block.gas_limit);
        if (done && wanted_error) why = "accepted, expected " + std::string(*wanted_error);
        if (!done && !wanted_error) why = "refused: " + done.error().to_string();
        if (!done && wanted_error && !is_expected(done.error().name, *wanted_error))
            why = "refused as " + done.error().to_string() + ", expected " + std::string(*wanted_error);
        if (done) executed = std::move(*done);
    }
    context.machine.set_tracer(nullptr);
    const Hash32 root = test.pre.root(overlay);
    if (trace) trace->sum_up({root, executed.output, executed.gas_used, executed.succeeded, fork});
    const Hash32 logs = hash_of(overlay.take_logs());
    const auto note = [&](const std::string& more) { why += (why.empty() ? "" : "; ") + more; };
    if (root != wanted_root) note("state root: expected " + to_hex0x(wanted_root) + ", got " + to_hex0x(root));
    if (logs != wanted_logs) note("hash of the logs: expected " + to_hex0x(wanted_logs) + ", got " + to_hex0x(logs));
    if (context.verbose && root != wanted_root)
        if (const json::Value* state = post.find("state")) why += differences(*state, test.pre, overlay);
    result.outcome = why.empty() ? Outcome::passed : Outcome::failed;
    result.why = std::move(why);
    result.state_root = root;
    return {};
}

}  // namespace

std::optional<CaseResults> run_state_test(RunContext& context, std::string_view, const json::Value& fields) {
    const auto env = fields.get_object("env");
    const auto pre = fields.get_object("pre");
    const auto transaction = fields.get_object("transaction");
    const auto post = fields.get_object("post");
    if (!env || !pre || !transaction || !post) return std::nullopt;
    const json::Value* config = fields.find("config");
    auto environment = parse_environment(**env, config);
    if (!environment) return CaseResults{failed("env: " + environment.error().to_string())};
    auto state = PreState::parse(**pre);
    if (!state) return CaseResults{failed("pre: " + state.error().to_string())};
    const Test test{**transaction, config, std::move(*environment), std::move(*state)};
    CaseResults results;
    for (const auto& [fork, parts] : (*post)->members()) {
        const auto revision = vm::evm::revision_of(fork);
        if (context.fork && revision != context.fork) continue;
        for (const auto& part : parts.items()) {
            CaseResult result;
            const auto indexes = parse_indexes(part);
            if (!revision)
                result = skipped("a fork that is not known");
            else if (!indexes)
                result = failed("indexes: " + indexes.error().to_string());
            else if (const auto done = run_part(context, test, *revision, fork, part, *indexes, result); !done)
                result = failed(done.error().to_string());
            result.fork = fork;
            if (indexes) {
                result.indexes = std::string("d").append(std::to_string(indexes->data));
                result.indexes.append(" g").append(std::to_string(indexes->gas));
                result.indexes.append(" v").append(std::to_string(indexes->value));
            }
            results.push_back(std::move(result));
        }
    }
    return results;
}

}  // namespace quern::chain::statetest
