// Blockchain tests: https://eest.ethereum.org/main/running_tests/test_formats/blockchain_test/, which is what
// ethereum/tests has, too. Blocks on a given state, some of which must be refused; the head and its state decide.
#include "chain/statetest/cases.h"
#include "chain/statetest/expected_error.h"
#include "chain/statetest/genesis.h"
#include "chain/statetest/state_differences.h"
#include "chain/statetest/test_chain.h"

namespace quern::chain::statetest {
namespace {

constexpr std::string_view kExpectation = "expectException";

Expected<Bytes> parse_bytes(const json::Value& fields, std::string_view name) {
    QUERN_TRY(const std::string_view text, fields.get_string(name));
    return from_hex(text);
}

Expected<Hash32> parse_hash(const json::Value& fields, std::string_view name) {
    QUERN_TRY(const auto* value, fields.get(name));
    return parse_fixed<Hash32::kSize>(*value);
}

// EIP-7840. {fork: {target, max, baseFeeUpdateFraction}}
Status read_blob_schedule(const json::Value& schedule, ethereum::Network& network) {
    for (const auto& [fork, fields] : schedule.members()) {
        ethereum::BlobSchedule blobs;
        QUERN_TRY(const auto* target, fields.get("target"));
        QUERN_TRY(blobs.target, parse_u64(*target));
        QUERN_TRY(const auto* max, fields.get("max"));
        QUERN_TRY(blobs.max, parse_u64(*max));
        QUERN_TRY(const auto* fraction, fields.get("baseFeeUpdateFraction"));
        QUERN_TRY(blobs.base_fee_update_fraction, parse_number(*fraction));
        if (blobs.max == 0) return fail("statetest.bad_schedule", fork + " has no blobs");
        network.set_blob_schedule(fork, blobs);
    }
    return {};
}

// The exception that the block is to be refused with, in this network; older fixtures have one for each: "...Frontier",
// "...ALL". Empty: it is refused for any reason. Absent: it is valid.
std::optional<std::string> expectation(const json::Value& block, std::string_view network) {
    const std::string of_network = std::string(kExpectation).append(network);
    const std::string of_all = std::string(kExpectation).append("ALL");
    for (const std::string_view name : {kExpectation, std::string_view(of_network), std::string_view(of_all)})
        if (const auto text = block.get_string(name)) return std::string(*text);
    return block.find("blockHeader") == nullptr ? std::optional(std::string()) : std::nullopt;
}

Status check_block(TestChain& chain, const json::Value& fields, std::string_view network) {
    const auto expected = expectation(fields, network);
    // No block at all, of a fixture that has bytes that are none.
    const auto bytes = parse_bytes(fields, "rlp");
    if (!bytes) return expected ? Status() : fail(bytes.error());
    const auto added = chain.add(*bytes);
    if (added && expected) return fail("statetest.block_accepted", "expected " + *expected);
    if (!added && !expected) return fail("statetest.block_refused", added.error().to_string());
    if (!added && !is_expected(added.error().name, *expected))
        return fail("statetest.other_reason", "refused as " + added.error().to_string() + ", expected " + *expected);
    if (!added) return {};
    QUERN_TRY(const auto* header, fields.get("blockHeader"));
    QUERN_TRY(const Hash32 hash, parse_hash(*header, "hash"));
    if (hash != *added) return fail("statetest.other_hash", "expected " + to_hex0x(hash) + ", got " + to_hex0x(*added));
    return {};
}

Status check_end(const RunContext& context, const TestChain& chain, const json::Value& test) {
    QUERN_TRY(const Hash32 last, parse_hash(test, "lastblockhash"));
    const auto& head = chain.head();
    if (head.hash != last)
        return fail("statetest.other_head", "expected " + to_hex0x(last) + ", got " + to_hex0x(head.hash));
    const json::Value* accounts = test.find("postState");
    if (accounts == nullptr || accounts->is_null()) {
        QUERN_TRY(const Hash32 root, parse_hash(test, "postStateHash"));
        if (root == head.state_root) return {};
        return fail("statetest.other_state", "state root: expected " + to_hex0x(root));
    }
    QUERN_TRY(const PreState expected, PreState::parse(*accounts));
    const Hash32 root = expected.root();
    if (root == head.state_root) return {};
    std::string why = "state root: expected " + to_hex0x(root) + ", got " + to_hex0x(head.state_root);
    if (context.verbose) why += differences(*accounts, chain.head_state(), state::Overlay(chain.head_state()));
    return fail("statetest.other_state", why);
}

Status run(RunContext& context, const json::Value& test, ethereum::Network& network, std::string_view network_name,
           CaseResult& result) {
    std::uint64_t chain_id = 1;
    if (const json::Value* config = test.find("config")) {
        if (const json::Value* number = config->find("chainid")) {
            QUERN_TRY(chain_id, parse_u64(*number));
        }
        if (const json::Value* schedule = config->find("blobSchedule"))
            QUERN_CHECK(read_blob_schedule(*schedule, network));
    }
    QUERN_TRY(const auto* pre, test.get_object("pre"));
    QUERN_TRY(PreState state, PreState::parse(*pre));
    QUERN_TRY(const ethereum::Header genesis, parse_genesis(test));
    if (const Hash32 root = state.root(); root != genesis.state_root)
        return fail("statetest.bad_genesis", "the root of its state is " + to_hex0x(root));
    TestChain chain(context, network, chain_id, std::move(state), genesis);
    QUERN_TRY(const auto blocks, test.get_array("blocks"));
    for (std::size_t i = 0; i < blocks.size(); ++i)
        if (const Status done = check_block(chain, blocks[i], network_name); !done)
            return detailed(done.error(),
                            std::string("block ").append(std::to_string(i + 1)).append(": ") + done.error().detail);
    result.state_root = chain.head().state_root;
    return check_end(context, chain, test);
}

}  // namespace

std::optional<CaseResults> run_blockchain_test(RunContext& context, std::string_view, const json::Value& test) {
    const auto name = test.get_string("network");
    if (!name || !test.get_array("blocks") || !test.get_object("genesisBlockHeader") || !test.get_object("pre"))
        return std::nullopt;
    auto network = ethereum::Network::parse(*name);
    CaseResult result;
    if (!network) {
        result = skipped("a network that is not known");
    } else if (context.fork && network->last().revision != *context.fork) {
        return CaseResults();
    } else if (test.get_string("sealEngine").value_or("NoProof") == "Ethash") {
        result = skipped("seals of proof of work are not checked");
    } else if (const Status done = run(context, test, *network, *name, result); !done) {
        const auto root = result.state_root;
        result = failed(done.error().to_string());
        result.state_root = root;
    }
    result.fork = std::string(*name);
    return CaseResults{std::move(result)};
}

}  // namespace quern::chain::statetest
