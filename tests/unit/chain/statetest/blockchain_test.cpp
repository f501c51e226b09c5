// The runner of blockchain tests: that right blocks pass, and that each way in which a block, or what a test expects,
// can be wrong is noticed. That the rules are right is what the official fixtures are for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "chain/ethereum/block.h"
#include "chain/statetest/cases.h"
#include "crypto/hash.h"
#include "crypto/signature.h"
#include "fixture_accounts.h"

namespace quern::chain::statetest {
namespace {

using ::testing::HasSubstr;

const crypto::PrivateKey& key() {
    static const crypto::PrivateKey kKey = crypto::PrivateKey::from_bytes(Bytes(32, 0x45)).value();
    return kKey;
}
std::string sender() { return to_hex0x(crypto::address20(key())); }

// What a block is encoded from.
struct Parts {
    ethereum::Header header;
    std::vector<Bytes> transactions;
    std::vector<ethereum::Header> ommers;
    std::optional<std::vector<types::Withdrawal>> withdrawals;
};

void write(rlp::Writer& out, const ethereum::Header& header) {
    out.begin_list().fixed(header.parent_hash).fixed(header.ommers_hash).fixed(header.coinbase);
    out.fixed(header.state_root).fixed(header.transactions_root).fixed(header.receipts_root);
    out.fixed(header.logs_bloom).integer(header.difficulty).integer(header.number).integer(header.gas_limit);
    out.integer(header.gas_used).integer(header.timestamp).bytes(header.extra_data).fixed(header.mix_hash);
    out.fixed(header.nonce);
    if (header.base_fee) out.integer(*header.base_fee);
    if (header.withdrawals_root) out.fixed(*header.withdrawals_root);
    out.end_list();
}
Bytes encode(const ethereum::Header& header) {
    rlp::Writer out;
    write(out, header);
    return std::move(out).finish();
}
Bytes encode(const types::Withdrawal& withdrawal) {
    rlp::Writer out;
    out.begin_list().integer(withdrawal.index).integer(withdrawal.validator_index).fixed(withdrawal.address);
    out.integer(withdrawal.amount_gwei).end_list();
    return std::move(out).finish();
}
Bytes encode(const Parts& parts) {
    rlp::Writer out;
    out.begin_list();
    write(out, parts.header);
    out.begin_list();
    for (const Bytes& transaction : parts.transactions) out.raw(transaction);
    out.end_list().begin_list();
    for (const auto& ommer : parts.ommers) write(out, ommer);
    out.end_list();
    if (parts.withdrawals) {
        out.begin_list();
        for (const auto& withdrawal : *parts.withdrawals) out.raw(encode(withdrawal));
        out.end_list();
    }
    out.end_list();
    return std::move(out).finish();
}
std::string hash_of(const ethereum::Header& header) { return to_hex0x(crypto::keccak256(encode(header))); }
Hash32 hash32(const std::string& text) { return fixed_from_hex<32>(text).value(); }

// 7 wei to the heir, at a gas price of 1,000,000,000.
Bytes transfer(std::uint64_t nonce) {
    rlp::Writer fields;
    fields.integer(nonce).integer(std::uint64_t{1'000'000'000}).integer(std::uint64_t{21'000});
    fields.fixed(fixed_from_hex<20>(kHeir).value()).integer(std::uint64_t{7}).bytes({});
    const Bytes body = std::move(fields).finish();
    rlp::Writer unsigned_form;
    unsigned_form.begin_list().raw(body).end_list();
    const auto signature = crypto::sign(crypto::keccak256(std::move(unsigned_form).finish()), key());
    rlp::Writer out;
    out.begin_list().raw(body).integer(std::uint64_t{27} + signature.y_parity);
    out.integer(Uint256::from_be(signature.r)).integer(Uint256::from_be(signature.s)).end_list();
    return std::move(out).finish();
}

constexpr std::uint64_t kRich = 1'000'000'000'000'000'000;
constexpr std::uint64_t kFee = 21'000 * 875'000'000ULL;  // burned
constexpr std::uint64_t kTip = 21'000 * (1'000'000'000ULL - 875'000'000ULL);

// A block with one transfer on an empty genesis block of London's rules without work.
class BlockchainTests : public ::testing::Test {
protected:
    BlockchainTests() {
        pre = Value::object({{sender(), account(0, kRich)}, {std::string(kHeir), account(0, 1)}});
        after = Value::object({{sender(), account(1, kRich - 7 - kFee - kTip)},
                               {std::string(kHeir), account(0, 8)},
                               {std::string(kCoinbase), account(0, kTip)}});
        genesis.ommers_hash = types::kEmptyOmmersHash;
        genesis.transactions_root = genesis.receipts_root = types::kEmptyTrieRoot;
        genesis.state_root = hash32(root_of(pre));
        genesis.gas_limit = 10'000'000;
        genesis.base_fee = 1'000'000'000;

        block.header = genesis;
        block.header.number = 1;
        block.header.timestamp = 12;
        block.header.parent_hash = hash32(hash_of(genesis));
        block.header.coinbase = fixed_from_hex<20>(kCoinbase).value();
        block.header.base_fee = 875'000'000;
        block.header.gas_used = 21'000;
        block.header.state_root = hash32(root_of(after));
        block.transactions = {transfer(0)};
        block.header.transactions_root = state::ordered_trie_root(block.transactions);
        rlp::Writer receipt;
        receipt.begin_list().integer(std::uint64_t{1}).integer(std::uint64_t{21'000}).fixed(types::Bloom());
        receipt.begin_list().end_list().end_list();
        block.header.receipts_root = state::ordered_trie_root(std::vector<Bytes>{std::move(receipt).finish()});
    }

    static Value valid(const Parts& parts) {
        return Value::object(
            {{"rlp", to_hex0x(encode(parts))}, {"blockHeader", Value::object({{"hash", hash_of(parts.header)}})}});
    }
    static Value invalid(const Parts& parts, std::string_view exception) {
        return Value::object({{"rlp", to_hex0x(encode(parts))}, {"expectException", exception}});
    }
    Value test(json::Array blocks, const Value& end, const ethereum::Header& head) const {
        Value result = Value::object({{"network", network}, {"pre", pre}, {"postState", end}});
        result.set("genesisRLP", to_hex0x(encode(Parts{genesis, {}, {}, {}})));
        result.set("genesisBlockHeader", Value::object({{"hash", hash_of(genesis)}}));
        result.set("lastblockhash", hash_of(head));
        result.set("blocks", Value(std::move(blocks)));
        return result;
    }
    // "passed", or why it failed.
    static std::string run(const Value& test, std::ostream* trace = nullptr) {
        vm::evm::Machine machine;
        evm::CodeCache codes;
        RunContext context{machine, codes, std::nullopt, true, trace};
        const auto results = run_blockchain_test(context, "", test);
        if (!results || results->size() != 1) return "no result";
        return results->front().outcome == Outcome::passed ? "passed" : results->front().why;
    }

    std::string network = "Paris";
    Value pre, after;
    ethereum::Header genesis;
    Parts block;
};

TEST_F(BlockchainTests, right_blocks_pass) {
    EXPECT_EQ(run(test({valid(block)}, after, block.header)), "passed");
    EXPECT_EQ(run(test({}, pre, genesis)), "passed");
    Value hash_alone = test({valid(block)}, after, block.header);
    hash_alone.erase("postState");
    hash_alone.set("postStateHash", root_of(after));
    EXPECT_EQ(run(hash_alone), "passed");
    hash_alone.set("postStateHash", root_of(pre));
    EXPECT_THAT(run(hash_alone), HasSubstr("statetest.other_state"));
}

TEST_F(BlockchainTests, what_a_test_expects_otherwise_is_a_failure) {
    Value other = after;
    other.set(kHeir, account(0, 9));
    const std::string why = run(test({valid(block)}, other, block.header));
    EXPECT_THAT(why, HasSubstr("statetest.other_state: state root: expected " + root_of(other)));
    EXPECT_THAT(why, HasSubstr(std::string(kHeir) + " balance: expected 0x9, got 0x8"));
    EXPECT_THAT(run(test({valid(block)}, after, genesis)), HasSubstr("statetest.other_head"));
    EXPECT_THAT(run(test({invalid(block, "BlockException.INVALID_STATE_ROOT")}, pre, genesis)),
                HasSubstr("statetest.block_accepted: block 1: expected BlockException.INVALID_STATE_ROOT"));
    Value header = valid(block);
    header.set("blockHeader", Value::object({{"hash", hash_of(genesis)}}));
    EXPECT_THAT(run(test({header}, after, block.header)), HasSubstr("statetest.other_hash"));

    Value bad_genesis = test({}, pre, genesis);
    bad_genesis.set("genesisBlockHeader", Value::object({{"hash", hash_of(block.header)}}));
    EXPECT_THAT(run(bad_genesis), HasSubstr("statetest.bad_genesis"));
    genesis.state_root = hash32(root_of(after));
    EXPECT_THAT(run(test({}, pre, genesis)), HasSubstr("statetest.bad_genesis: the root of its state is"));
}

// Each change alone makes the block one that must be refused, for this reason.
TEST_F(BlockchainTests, wrong_blocks_are_refused_by_name) {
    const std::vector<std::pair<const char*, std::function<void(Parts&)>>> changes = {
        {"INVALID_STATE_ROOT", [](Parts& it) { it.header.state_root.data[0] ^= 1; }},
        {"INVALID_RECEIPTS_ROOT", [](Parts& it) { it.header.receipts_root.data[0] ^= 1; }},
        {"INVALID_TRANSACTIONS_ROOT", [](Parts& it) { it.header.transactions_root.data[0] ^= 1; }},
        {"INVALID_LOG_BLOOM", [](Parts& it) { it.header.logs_bloom.data[0] ^= 1; }},
        {"INVALID_GAS_USED", [](Parts& it) { it.header.gas_used = 21'001; }},
        {"GAS_USED_OVERFLOW", [](Parts& it) { it.header.gas_used = 10'000'001; }},
        {"INVALID_GASLIMIT", [](Parts& it) { it.header.gas_limit = 10'000'000 + 9'765; }},
        {"INVALID_GASLIMIT", [](Parts& it) { it.header.gas_limit = 10'000'000 - 9'765; }},
        {"GASLIMIT_TOO_BIG", [](Parts& it) { it.header.gas_limit = std::uint64_t{1} << 63; }},
        {"INVALID_BASEFEE_PER_GAS", [](Parts& it) { it.header.base_fee = 875'000'001; }},
        {"INVALID_BLOCK_NUMBER", [](Parts& it) { it.header.number = 2; }},
        {"INVALID_BLOCK_TIMESTAMP_OLDER_THAN_PARENT", [](Parts& it) { it.header.timestamp = 0; }},
        {"EXTRA_DATA_TOO_BIG", [](Parts& it) { it.header.extra_data = Bytes(33); }},
        {"UNKNOWN_PARENT", [](Parts& it) { it.header.parent_hash.data[0] ^= 1; }},
        {"IMPORT_IMPOSSIBLE_DIFFICULTY_OVER_PARIS", [](Parts& it) { it.header.difficulty = 1; }},
        {"IMPORT_IMPOSSIBLE_UNCLES_OVER_PARIS", [](Parts& it) { it.header.ommers_hash.data[0] ^= 1; }},
        {"INCORRECT_BLOCK_FORMAT", [](Parts& it) { it.header.base_fee.reset(); }},
        {"INCORRECT_BLOCK_FORMAT", [](Parts& it) { it.header.withdrawals_root = types::kEmptyTrieRoot; }},
        {"INCORRECT_BLOCK_FORMAT", [](Parts& it) { it.withdrawals.emplace(); }},
        {"INVALID_UNCLES_HASH", [](Parts& it) { it.ommers.push_back(it.header); }},
        {"RLP_STRUCTURES_ENCODING",
         [](Parts& it) {
             it.transactions[0].back() ^= 0x80;
             it.transactions.push_back({0x81, 0x01});
         }},
    };
    for (const auto& [name, change] : changes) {
        Parts changed = block;
        change(changed);
        const std::string exception = std::string("BlockException.").append(name);
        EXPECT_EQ(run(test({invalid(changed, exception), valid(block)}, after, block.header)), "passed") << name;
        EXPECT_THAT(run(test({valid(changed)}, after, changed.header)), HasSubstr("statetest.block_refused")) << name;
        EXPECT_THAT(run(test({invalid(changed, "BlockException.SYSTEM_CONTRACT_EMPTY")}, pre, genesis)),
                    HasSubstr("statetest.other_reason"))
            << name;
    }
}

TEST_F(BlockchainTests, transactions_that_must_not_be_there_are_the_reason) {
    Parts changed = block;
    changed.transactions = {transfer(1)};
    EXPECT_EQ(run(test({invalid(changed, "TransactionException.NONCE_MISMATCH_TOO_HIGH")}, pre, genesis)), "passed");
    EXPECT_THAT(run(test({invalid(changed, "TransactionException.NONCE_MISMATCH_TOO_LOW")}, pre, genesis)),
                HasSubstr("refused as tx.nonce_mismatch_too_high"));
}

TEST_F(BlockchainTests, withdrawals_are_paid) {
    network = "Shanghai";
    genesis.withdrawals_root = types::kEmptyTrieRoot;
    types::Withdrawal withdrawal{0, 0, fixed_from_hex<20>(kHeir).value(), 3};
    block.withdrawals = {withdrawal};
    block.header.parent_hash = hash32(hash_of(genesis));
    block.header.withdrawals_root = state::ordered_trie_root(std::vector<Bytes>{encode(withdrawal)});
    after.set(kHeir, account(0, 8 + 3'000'000'000));
    block.header.state_root = hash32(root_of(after));
    EXPECT_EQ(run(test({valid(block)}, after, block.header)), "passed");
    block.withdrawals->front().amount_gwei = 4;
    EXPECT_EQ(run(test({invalid(block, "BlockException.INVALID_WITHDRAWALS_ROOT")}, pre, genesis)), "passed");
    block.header.withdrawals_root = state::ordered_trie_root(std::vector<Bytes>{encode(block.withdrawals->front())});
    EXPECT_EQ(run(test({invalid(block, "BlockException.INVALID_STATE_ROOT")}, pre, genesis)), "passed");
}

TEST_F(BlockchainTests, older_fixtures_expect_by_network_and_say_less) {
    Parts changed = block;
    changed.header.state_root.data[0] ^= 1;
    Value expected = Value::object({{"rlp", to_hex0x(encode(changed))}, {"expectExceptionALL", "InvalidStateRoot"}});
    EXPECT_EQ(run(test({expected}, pre, genesis)), "passed");
    expected = Value::object({{"rlp", to_hex0x(encode(changed))}, {"expectExceptionParis", "InvalidStateRoot"}});
    EXPECT_EQ(run(test({expected}, pre, genesis)), "passed");
    EXPECT_EQ(run(test({Value::object({{"rlp", "0xzz"}})}, pre, genesis)), "passed");
    EXPECT_THAT(run(test({Value::object({{"rlp", to_hex0x(encode(block))}})}, pre, genesis)),
                HasSubstr("statetest.block_accepted"));
}

TEST_F(BlockchainTests, a_trace_sums_up_each_transaction) {
    std::ostringstream out;
    EXPECT_EQ(run(test({valid(block)}, after, block.header), &out), "passed");
    EXPECT_EQ(out.str(), R"({"stateRoot":")" + root_of(after) +
                             R"(","output":"","gasUsed":"0x5208","pass":true,"fork":"Paris"})" + "\n");
}

}  // namespace
}  // namespace quern::chain::statetest
