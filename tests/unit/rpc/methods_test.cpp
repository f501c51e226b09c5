#include <gtest/gtest.h>

#include "base/log_control.h"
#include "chain/types/abi.h"
#include "chain/types/post_event.h"
#include "rpc/methods/log_filter.h"
#include "unit/rpc/fake_backend.h"

namespace quern::rpc {
namespace {

using testing::signed_transaction;
using testing::test_key;
namespace types = chain::types;
namespace exec = chain::exec;

std::string quoted_hash(const types::Transaction& tx) {
    return "[\"" + to_hex0x(types::transaction_hash(types::encode(tx))) + "\"]";
}

class MethodsTest : public ::testing::Test, protected testing::Fixture {
protected:
    json::Value ok(std::string_view method, std::string_view params = "[]") {
        const auto result = call(method, params);
        EXPECT_TRUE(result) << method << ": " << (result ? "" : result.error().message);
        return result ? *result : json::Value();
    }
    RpcError error(std::string_view method, std::string_view params = "[]") {
        const auto result = call(method, params);
        EXPECT_FALSE(result) << method << ": " << (result ? result->dump() : "");
        return result ? RpcError{0, "no error", {}} : result.error();
    }
    static std::string text(const json::Value& object, std::string_view key) {
        return std::string(object.get_string(key).value_or("(missing)"));
    }
    template <class T>
    void put_object(types::ObjectPrefix prefix, std::uint64_t id, const T& record) {
        chain.current->objects[types::object_key(prefix, id)] = types::encode_record(record);
    }
};

TEST_F(MethodsTest, network_and_identity) {
    EXPECT_EQ(ok("eth_chainId"), json::Value("0x1ec6"));
    EXPECT_EQ(ok("net_version"), json::Value("7878"));
    EXPECT_EQ(ok("eth_syncing"), json::Value(false));
    EXPECT_EQ(ok("eth_accounts"), json::Value(json::Array()));
    EXPECT_TRUE(ok("web3_clientVersion").as_string()->starts_with("Quern/v0.1.0/"));
    EXPECT_EQ(ok("web3_sha3", R"(["0x"])"),
              json::Value("0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"));
}

TEST_F(MethodsTest, the_network_as_the_node_sees_it) {
    EXPECT_EQ(ok("net_listening"), json::Value(false));
    EXPECT_EQ(ok("net_peerCount"), json::Value("0x0"));
    types::Address id;
    id.data[0] = 0xab;
    network.own = {id, "2001:db8::7", 7876, true, "quernd/0.1.0"};
    network.known.push_back({id, "192.0.2.7", 7877, "quernd/0.1.0", true, false, 41, 1500, 700, 6, 10, 20, 3});
    network.progress = {true, 5, 10, 40};
    EXPECT_EQ(ok("net_listening"), json::Value(true));
    EXPECT_EQ(ok("net_peerCount"), json::Value("0x1"));
    EXPECT_EQ(ok("eth_syncing"), *json::parse(R"({"startingBlock":"0x5","currentBlock":"0xa","highestBlock":"0x28"})"));

    EXPECT_FALSE(call("admin_peers"));  // only with the cookie
    EXPECT_FALSE(call("admin_nodeInfo"));
    const auto own = call("admin_nodeInfo", "[]", true);
    ASSERT_TRUE(own);
    EXPECT_EQ(text(*own, "enode"), to_hex0x(id) + "@[2001:db8::7]:7876");
    const auto peers = call("admin_peers", "[]", true);
    ASSERT_TRUE(peers);
    EXPECT_EQ(text((*peers)[0], "enode"), to_hex0x(id) + "@192.0.2.7:7877");
    EXPECT_EQ(*(*peers)[0].find("rttMs"), json::Value(1.5));
    EXPECT_EQ(*(*peers)[0].find("minRttMs"), json::Value(0.7));
    EXPECT_EQ(*(*peers)[0].find("answers"), json::Value(6));

    EXPECT_FALSE(call("admin_addPeer", R"(["0xab@192.0.2.8:7876"])"));
    EXPECT_FALSE(call("admin_addPeer", R"(["nonsense"])", true));
    EXPECT_TRUE(network.added.empty());
    EXPECT_TRUE(call("admin_addPeer", R"(["0xab@192.0.2.8:7876"])", true));
    EXPECT_EQ(network.added, std::vector<std::string>{"0xab@192.0.2.8:7876"});
}

TEST_F(MethodsTest, contents_go_when_who_administers_says_so_and_nobody_needs_them) {
    Hash32 held;
    held.data[0] = 1;
    Hash32 idle;
    idle.data[0] = 2;
    contents.ids = {held, idle};
    contents.duties = {held};
    const std::string both = R"([[")" + to_hex0x(held) + R"(",")" + to_hex0x(idle) + R"("]])";
    EXPECT_FALSE(call("admin_dropContents", both));
    EXPECT_EQ(contents.ids.size(), 2U);
    const auto dropped = call("admin_dropContents", both, true);
    ASSERT_TRUE(dropped);
    EXPECT_EQ(*dropped, *json::parse(R"({"held":[")" + to_hex0x(held) + R"("]})"));
    EXPECT_EQ(contents.ids, std::set{held});
    EXPECT_EQ(call("admin_dropContents", R"([["0x12"]])", true).error().code, kInvalidParams);
    std::string many = "[[" + std::string("\"") + to_hex0x(idle) + '"';
    for (int i = 0; i < 4'096; ++i) many += ",\"" + to_hex0x(idle) + '"';
    EXPECT_EQ(call("admin_dropContents", many + "]]", true).error().code, kInvalidParams);
    contents.broken = true;
    const auto unknown = call("admin_dropContents", both, true);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().message, "content.duties_unknown");
}

TEST_F(MethodsTest, contents_are_fetched_ahead_for_who_administers) {
    Hash32 here;
    here.data[0] = 1;
    Hash32 missing;
    missing.data[0] = 2;
    contents.ids = {here};
    const std::string both = R"([[")" + to_hex0x(missing) + R"(",")" + to_hex0x(here) + R"("]])";
    EXPECT_FALSE(call("admin_fetchContents", both));
    EXPECT_TRUE(contents.wanted.empty());
    const auto told = call("admin_fetchContents", both, true);
    ASSERT_TRUE(told);
    EXPECT_EQ(*told, *json::parse(R"({"here":[")" + to_hex0x(here) + R"("]})"));
    EXPECT_EQ(contents.wanted, std::vector{missing});
    EXPECT_EQ(contents.most, std::numeric_limits<std::uint64_t>::max());
    EXPECT_TRUE(call("admin_fetchContents", both.substr(0, both.size() - 1) + ",4096]", true));
    EXPECT_EQ(contents.most, 4096U);
    EXPECT_EQ(call("admin_fetchContents", R"([["0x12"]])", true).error().code, kInvalidParams);
}

TEST_F(MethodsTest, the_state_of_consensus) {
    types::Address first;
    types::Address second;
    second.data[19] = 2;
    network.status.epoch = 3;
    network.status.view = 7;
    network.status.master = 1;
    network.status.committee = {{first, Uint256(10)}, {second, Uint256(20)}};
    network.status.refuses_because = "sdbft.other_signer";
    network.status.finality = {9, 14, 15, 100};
    auto status = ok("sdbft_status");
    EXPECT_EQ(text(status, "master"), to_hex0x(second));
    EXPECT_EQ(text(status, "refusesBecause"), "sdbft.other_signer");
    EXPECT_EQ(status.find("signs")->as_bool(), false);
    EXPECT_EQ(text((*status.find("committee"))[1], "weight"), "0x14");
    EXPECT_EQ(*status.find("finality_ms"), *json::parse(R"({"p50":9,"p99":14,"max":15,"samples":100})"));
    // Before the first committee is known, or for a number that is none.
    network.status.master = 2;
    network.status.refuses_because.clear();
    status = ok("sdbft_status");
    EXPECT_TRUE(status.find("master")->is_null());
    EXPECT_TRUE(status.find("refusesBecause")->is_null());
}

TEST_F(MethodsTest, account_state) {
    types::Address address;
    address.data[19] = 1;
    chain.current->accounts[address] = {3, Uint256(1) << 64};
    const std::string who = to_hex0x(address);
    EXPECT_EQ(ok("eth_getBalance", "[\"" + who + "\",\"latest\"]"), json::Value("0x10000000000000000"));
    EXPECT_EQ(ok("eth_getTransactionCount", "[\"" + who + "\",\"latest\"]"), json::Value("0x3"));
    EXPECT_EQ(ok("eth_getTransactionCount", "[\"" + who + "\",\"pending\"]"), json::Value("0x2a"));
    EXPECT_EQ(ok("eth_getCode", R"(["0x0000000000000000000000000000000000005103"])"), json::Value("0x60006000fd"));
    EXPECT_EQ(ok("eth_getCode", "[\"" + who + "\"]"), json::Value("0x"));
    EXPECT_EQ(ok("eth_getStorageAt", "[\"" + who + "\",\"0x7\",\"latest\"]"),
              json::Value("0x" + std::string(63, '0') + "7"));
    const auto proof = ok("eth_getProof", "[\"" + who + "\",[\"0x7\"],\"latest\"]");
    for (const char* field : {"address", "balance", "nonce", "codeHash", "storageHash", "accountProof", "storageProof"})
        EXPECT_NE(proof.find(field), nullptr) << field;
    EXPECT_EQ(*proof.find("nonce"), ok("eth_getTransactionCount", "[\"" + who + "\"]"));
    EXPECT_EQ(*proof.find("balance"), ok("eth_getBalance", "[\"" + who + "\"]"));
    EXPECT_EQ(proof.find("accountProof")->dump(), R"(["0xc180"])");
    EXPECT_EQ(proof.find("storageProof")->dump(),
              R"([{"key":"0x)" + std::string(63, '0') + R"(7","value":"0x7","proof":["0xc20102"]}])");
    chain.current->read_status = fault("store.corrupt", "a test");
    for (const char* method : {"eth_getBalance", "eth_getTransactionCount", "eth_getCode"})
        EXPECT_EQ(error(method, "[\"" + who + "\"]").code, kInternalError) << method;
    EXPECT_EQ(error("eth_getStorageAt", "[\"" + who + "\",\"0x7\"]").message, "store.corrupt: a test");
    chain.current->read_status = {};
    std::string many = "\"0x1\"";
    for (int i = 0; i < 1024; ++i) many += ",\"0x1\"";
    EXPECT_EQ(error("eth_getProof", "[\"" + who + "\",[" + many + "],\"latest\"]").code, kInvalidParams);
    EXPECT_EQ(error("eth_getProof", "[\"" + who + "\",[7],\"latest\"]").code, kInvalidParams);
    EXPECT_TRUE(
        error("eth_getProof", "[\"" + who + "\",[],\"earliest\"]").message.starts_with("chain.state_unavailable"));
    const auto unavailable = error("eth_getBalance", "[\"" + who + "\",\"earliest\"]");
    EXPECT_EQ(unavailable.code, kServerError);
    EXPECT_TRUE(unavailable.message.starts_with("chain.state_unavailable"));
}

TEST_F(MethodsTest, block_has_every_field_that_clients_decode) {
    chain.add_block({signed_transaction()});
    const auto block = ok("eth_getBlockByNumber", R"(["0x1",true])");
    for (const char* field : {"number",
                              "hash",
                              "parentHash",
                              "sha3Uncles",
                              "miner",
                              "stateRoot",
                              "transactionsRoot",
                              "receiptsRoot",
                              "logsBloom",
                              "difficulty",
                              "gasLimit",
                              "gasUsed",
                              "timestamp",
                              "extraData",
                              "mixHash",
                              "nonce",
                              "baseFeePerGas",
                              "withdrawalsRoot",
                              "blobGasUsed",
                              "excessBlobGas",
                              "parentBeaconBlockRoot",
                              "requestsHash",
                              "size",
                              "transactions",
                              "withdrawals",
                              "uncles"})
        EXPECT_NE(block.find(field), nullptr) << field;
    EXPECT_EQ(text(block, "difficulty"), "0x0");
    EXPECT_EQ(text(block, "nonce"), "0x0000000000000000");
    EXPECT_EQ(text(block, "sha3Uncles"), "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");
    EXPECT_EQ(text(block, "logsBloom").size(), 514u);
    EXPECT_EQ(block.find("transactions")->items()[0].get_string("type"), "0x2");
    const auto by_hash = ok("eth_getBlockByHash", "[\"" + text(block, "hash") + "\",false]");
    EXPECT_TRUE(by_hash.find("transactions")->items()[0].is_string());
    EXPECT_TRUE(ok("eth_getBlockByNumber", R"(["0x99",false])").is_null());
    EXPECT_EQ(ok("eth_getBlockTransactionCountByNumber", R"(["latest"])"), json::Value("0x1"));
}

TEST_F(MethodsTest, transaction_types_have_their_shapes) {
    const auto legacy = signed_transaction([](types::Transaction& tx) {
        tx.type = types::TxType::legacy;
        tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    });
    const auto unprotected = signed_transaction([](types::Transaction& tx) {
        tx.type = types::TxType::legacy;
        tx.chain_id = std::nullopt;
    });
    const auto list = signed_transaction([](types::Transaction& tx) {
        tx.type = types::TxType::access_list;
        tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
        tx.access_list.push_back({*tx.to, {Hash32{}}});
    });
    const auto dynamic = signed_transaction();
    chain.add_block({legacy, unprotected, list, dynamic});

    const auto a = ok("eth_getTransactionByHash", quoted_hash(legacy));
    EXPECT_EQ(text(a, "type"), "0x0");
    EXPECT_EQ(text(a, "v"), quantity(7878 * 2 + 35 + legacy.y_parity));
    EXPECT_EQ(a.find("maxFeePerGas"), nullptr);
    EXPECT_EQ(text(a, "gasPrice"), "0x64");
    EXPECT_EQ(text(a, "blockTimestamp"), quantity(1'700'000'001));
    const auto b = ok("eth_getTransactionByHash", quoted_hash(unprotected));
    EXPECT_EQ(text(b, "v"), quantity(27 + unprotected.y_parity));
    EXPECT_EQ(b.find("chainId"), nullptr);
    const auto c = ok("eth_getTransactionByBlockNumberAndIndex", R"(["latest","0x2"])");
    EXPECT_EQ(text(c, "type"), "0x1");
    EXPECT_EQ(c.find("accessList")->items()[0].find("storageKeys")->size(), 1u);
    const auto d = ok("eth_getTransactionByBlockNumberAndIndex", R"(["latest","0x3"])");
    EXPECT_EQ(text(d, "type"), "0x2");
    EXPECT_EQ(text(d, "gasPrice"), "0xd");  // base fee 10 and tip 3
    EXPECT_EQ(text(d, "maxFeePerGas"), "0x64");
    EXPECT_EQ(text(d, "from"), to_hex0x(types::address_of(crypto::derive_public(test_key()))));
    EXPECT_TRUE(ok("eth_getTransactionByBlockNumberAndIndex", R"(["latest","0x4"])").is_null());
    EXPECT_TRUE(ok("eth_getTransactionByHash", "[\"0x" + std::string(64, '1') + "\"]").is_null());
}

TEST_F(MethodsTest, native_transaction_looks_like_a_call_to_its_reserved_address) {
    types::BondPayload payload{types::Role::verifier, Uint256(77)};
    const auto native = signed_transaction([&](types::Transaction& tx) {
        tx.type = types::TxType::native;
        tx.to = std::nullopt;
        tx.value = 0;
        tx.native_kind = static_cast<std::uint8_t>(types::NativeKind::bond);
        tx.data = types::encode_record(payload);
    });
    chain.add_block({native}, [](std::size_t, types::Receipt& receipt) {
        receipt.success = false;
        receipt.failure = "roles.too_small";
    });
    const auto shown = ok("eth_getTransactionByHash", quoted_hash(native));
    EXPECT_EQ(text(shown, "type"), "0x2");
    EXPECT_EQ(text(shown, "to"), "0x0000000000000000000000000000000000005102");
    EXPECT_EQ(text(shown, "input"),
              to_hex0x(*types::abi::encode_call(types::NativeKind::bond, types::encode_record(payload))));
    const json::Value* own = shown.find("quern");
    ASSERT_NE(own, nullptr);
    EXPECT_EQ(text(*own, "kind"), "bond");
    EXPECT_EQ(text(*own->find("payload"), "amount"), "0x4d");
    const auto receipt = ok("eth_getTransactionReceipt", quoted_hash(native));
    EXPECT_EQ(text(receipt, "type"), "0x2");
    EXPECT_EQ(text(receipt, "status"), "0x0");
    EXPECT_EQ(text(*receipt.find("quern"), "failure"), "roles.too_small");
    const auto as_it_is = ok("quern_getTransaction", quoted_hash(native));
    EXPECT_EQ(text(as_it_is, "type"), "0x51");
    EXPECT_EQ(text(as_it_is, "raw"), to_hex0x(types::encode(native)));
}

TEST_F(MethodsTest, receipts_number_their_logs_across_the_block) {
    const auto first = signed_transaction();
    const auto second = signed_transaction([](types::Transaction& tx) { tx.nonce = 1; });
    const auto add_logs = [](std::size_t i, types::Receipt& receipt) {
        for (std::size_t n = 0; n < 2; ++n) {
            types::Log log;
            log.address.data[19] = static_cast<std::uint8_t>(i + 1);
            log.topics.push_back(Hash32{});
            log.topics[0].data[0] = static_cast<std::uint8_t>(n + 1);
            receipt.logs.push_back(log);
        }
    };
    chain.add_block({first, second}, add_logs);
    chain.add_block({});
    const auto receipts = ok("eth_getBlockReceipts", R"(["0x1"])");
    ASSERT_EQ(receipts.size(), 2u);
    EXPECT_EQ(text(receipts[1].find("logs")->items()[1], "logIndex"), "0x3");
    EXPECT_TRUE(receipts[0].find("contractAddress")->is_null());

    const auto count = [&](std::string_view filter) { return ok("eth_getLogs", filter).size(); };
    const std::string topic2 = "\"0x02" + std::string(62, '0') + "\"";
    const std::string address1 = "\"0x" + std::string(39, '0') + "1\"";
    const std::string address9 = "\"0x" + std::string(39, '0') + "9\"";
    EXPECT_EQ(count(R"([{"fromBlock":"earliest"}])"), 4u);
    EXPECT_EQ(count(R"([{}])"), 0u);  // latest only
    EXPECT_EQ(count(R"([{"fromBlock":"0x1","toBlock":"0x99","address":)" + address1 + "}]"), 2u);
    EXPECT_EQ(count(R"([{"fromBlock":"0x1","address":[)" + address1 + "," + address9 + "]}]"), 2u);
    EXPECT_EQ(count(R"([{"fromBlock":"0x1","address":)" + address9 + "}]"), 0u);
    EXPECT_EQ(count(R"([{"fromBlock":"0x1","topics":[)" + topic2 + "]}]"), 2u);
    EXPECT_EQ(count(R"([{"fromBlock":"0x1","topics":[[)" + topic2 + "]],\"address\":" + address1 + "}]"), 1u);
    EXPECT_EQ(count(R"([{"fromBlock":"0x1","topics":[null]}])"), 4u);
    EXPECT_EQ(count(R"([{"fromBlock":"0x1","topics":[null,null]}])"), 0u);  // the logs have one topic
    EXPECT_EQ(count(R"([{"blockHash":")" + to_hex0x(chain.blocks[1]->hash) + "\"}]"), 4u);
    EXPECT_EQ(error("eth_getLogs", R"([{"fromBlock":"0x2","toBlock":"0x1"}])").message, "invalid block range params");
    EXPECT_EQ(error("eth_getLogs", R"([{"topics":["0x1"]}])").code, kInvalidParams);
    EXPECT_EQ(error("eth_getLogs", R"([{"topics":[null,null,null,null,null]}])").code, kInvalidParams);
    EXPECT_EQ(
        error("eth_getLogs", R"([{"blockHash":")" + to_hex0x(chain.blocks[1]->hash) + R"(","fromBlock":"0x1"}])").code,
        kInvalidParams);
}

TEST_F(MethodsTest, a_search_for_logs_reads_a_block_that_holds_nothing_once) {
    types::Address source;
    source.data[19] = 0x42;
    for (int i = 0; i < 50; ++i)
        chain.add_block({signed_transaction()}, [&](std::size_t, types::Receipt& receipt) {
            if (i == 30) receipt.logs.push_back({source, {}, {}});
        });
    const std::string filter = R"([{"fromBlock":"0x1","address":")" + hex(source) + R"("}])";
    EXPECT_EQ(ok("eth_getLogs", filter).size(), 1u);
    EXPECT_EQ(chain.blocks_read, 50);
    EXPECT_EQ(ok("eth_getLogs", filter).size(), 1u);
    EXPECT_EQ(chain.blocks_read, 51);
    EXPECT_EQ(chain.receipts_read, 2);
}

TEST_F(MethodsTest, a_search_ends_between_two_blocks_when_nobody_waits_for_it) {
    for (int i = 0; i < 50; ++i) chain.add_block({});
    const auto ends = [&](std::string_view method, std::string_view params) {
        CallDeadline deadline(std::chrono::hours(1), nullptr);
        chain.blocks_read = 0;
        chain.on_read = [&] {
            if (chain.blocks_read == 3) deadline.cancel();
        };
        const auto result = registry->call(method, *json::parse(params), CallContext{{}, nullptr, &deadline});
        ASSERT_FALSE(result) << method;
        EXPECT_EQ(result.error().code, kTimedOut);
        EXPECT_EQ(chain.blocks_read, 3);
    };
    ends("eth_getLogs", R"([{"fromBlock":"0x1"}])");
    ends("eth_feeHistory", R"([50,"latest"])");
    chain.on_read = {};
}

TEST_F(MethodsTest, filters_find_every_value_that_a_bloom_holds) {
    types::Bloom bloom;
    std::string list;
    for (int i = 0; i < 100; ++i) {
        types::Address address;
        address.data[0] = static_cast<std::uint8_t>(i * 37);
        address.data[7] = static_cast<std::uint8_t>(i);
        types::Bloom one;
        types::bloom_add(one, address);
        const auto filter = methods::read_log_filter(json::Value::object({{"address", hex(address)}}));
        ASSERT_TRUE(filter);
        EXPECT_TRUE(methods::may_match(*filter, one));
        EXPECT_FALSE(methods::may_match(*filter, types::Bloom()));
        EXPECT_EQ(methods::may_match(*filter, bloom), types::bloom_may_contain(bloom, address));
        types::bloom_add(bloom, address);
    }
}

TEST_F(MethodsTest, log_categories_are_switched_and_shown) {
    EXPECT_EQ(error("logging", "[]").code, kServerError);  // needs credentials
    const auto switched = registry->call("logging", *json::parse(R"([["p2p","rpc"],["rpc"]])"),
                                         CallContext{{true, nullptr}, nullptr, nullptr});
    ASSERT_TRUE(switched);
    EXPECT_EQ(switched->get_bool("p2p").value_or(false), true);
    EXPECT_EQ(switched->get_bool("rpc").value_or(true), false);
    EXPECT_TRUE(log::is_debugged(log::Category::p2p));
    const auto bad = registry->call("logging", *json::parse(R"([["rpc","nothing"]])"),
                                    CallContext{{true, nullptr}, nullptr, nullptr});
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code, kInvalidParams);
    EXPECT_FALSE(log::is_debugged(log::Category::rpc));
    const auto all =
        registry->call("logging", *json::parse(R"([[],["all"]])"), CallContext{{true, nullptr}, nullptr, nullptr});
    ASSERT_TRUE(all);
    for (const json::Member& member : all->members()) EXPECT_EQ(member.value, json::Value(false)) << member.key;
}

TEST_F(MethodsTest, submission_errors_keep_the_messages_that_wallets_match_on) {
    EXPECT_EQ(ok("eth_sendRawTransaction", R"(["0x02ff"])"), json::Value("0x" + std::string(64, '0')));
    chain.submit_result = exec::refuse(exec::kNonceTooLow, "next nonce 5, tx nonce 4");
    EXPECT_EQ(error("eth_sendRawTransaction", R"(["0x02ff"])").message, "nonce too low: next nonce 5, tx nonce 4");
    for (const auto& refusal : exec::kRefusals) {
        chain.submit_result = exec::refuse(refusal);
        const auto refused = error("eth_sendRawTransaction", R"(["0x03ff"])");
        EXPECT_EQ(refused.message, refusal.text);
        EXPECT_EQ(refused.code, kServerError);
    }
}

TEST_F(MethodsTest, reverts_carry_their_data) {
    constexpr const char* kCall = R"([{"to":"0x0000000000000000000000000000000000005103","input":"0x01"},"latest"])";
    chain.call_result = chain::api::SimulationResult{true, 21'000, {1, 2}, ""};
    EXPECT_EQ(ok("eth_call", kCall), json::Value("0x0102"));
    const Bytes reason = types::abi::encode_error("task.not_open");
    chain.call_result = chain::api::SimulationResult{false, 21'000, reason, "task.not_open"};
    const auto reverted = error("eth_call", kCall);
    EXPECT_EQ(reverted.code, kExecutionReverted);
    EXPECT_EQ(reverted.message, "execution reverted: task.not_open");
    EXPECT_EQ(reverted.data, json::Value(to_hex0x(reason)));
    chain.gas_result = fail("execution reverted");
    EXPECT_EQ(error("eth_estimateGas", kCall).code, kExecutionReverted);
    chain.call_result = chain::api::SimulationResult{false, 0, {}, "insufficient funds for transfer"};
    EXPECT_EQ(error("eth_call", kCall).code, kServerError);
}

TEST_F(MethodsTest, call_objects_are_checked) {
    const auto message = [&](std::string_view object) {
        return error("eth_call", std::string("[").append(object).append("]")).message;
    };
    EXPECT_NE(message(R"({"to":"0x1"})").find("to: "), std::string::npos);
    EXPECT_NE(message(R"({"to":null,"value":"0x1"})").find("contract creation"), std::string::npos);
    EXPECT_NE(message(R"({"data":"0x01","input":"0x02"})").find("are set and not equal"), std::string::npos);
    EXPECT_NE(message(R"({"data":"0x01","gasPrice":"0x1","maxFeePerGas":"0x1"})").find("both gasPrice"),
              std::string::npos);
    EXPECT_NE(message(R"({"data":"0x01","chainId":"0x1"})").find("chainId does not match"), std::string::npos);
    EXPECT_NE(message(R"({"data":"0x01","gas":"0x10000000000000000"})").find("gas: "), std::string::npos);
    EXPECT_NE(message(R"({"data":"0x01","accessList":[{"storageKeys":[]}]})").find("accessList: "), std::string::npos);
    EXPECT_NE(message(R"({"data":"0x01","accessList":{}})").find("accessList: "), std::string::npos);
    chain.call_result = chain::api::SimulationResult{true, 0, {}, ""};
    ok("eth_call",
       R"([{"from":"0x00000000000000000000000000000000000000bb","to":"0x00000000000000000000000000000000000000aa","gas":"0x5208","maxFeePerGas":"0x9","value":"0x2","data":"0x0304","input":"0x0304","accessList":[{"address":"0x00000000000000000000000000000000000000aa","storageKeys":["0x1111111111111111111111111111111111111111111111111111111111111111"]}]}])");
    const auto& seen = chain.calls.back();
    EXPECT_EQ(seen.from.data[19], 0xbb);
    EXPECT_EQ(seen.gas, 21'000u);
    EXPECT_EQ(seen.gas_price, Uint256(9));
    EXPECT_EQ(seen.data, (Bytes{3, 4}));
    ASSERT_EQ(seen.access_list.size(), 1u);
    EXPECT_EQ(seen.access_list[0].storage_keys.size(), 1u);
}

TEST_F(MethodsTest, fees) {
    EXPECT_EQ(ok("eth_maxPriorityFeePerGas"), json::Value(quantity(1'000'000'000)));
    EXPECT_EQ(ok("eth_gasPrice"), json::Value(quantity(1'000'000'009)));
    chain.add_block({signed_transaction()});
    EXPECT_EQ(ok("eth_maxPriorityFeePerGas"), json::Value("0x3"));
    const auto history = ok("eth_feeHistory", R"(["0x5","latest",[0,50,100]])");
    EXPECT_EQ(text(history, "oldestBlock"), "0x0");
    EXPECT_EQ(history.find("baseFeePerGas")->size(), 3u);
    EXPECT_EQ(history.find("baseFeePerGas")->items()[2], json::Value("0x9"));
    EXPECT_EQ(history.find("gasUsedRatio")->size(), 2u);
    EXPECT_EQ(history.find("reward")->items()[0].items()[0], json::Value("0x0"));
    EXPECT_EQ(history.find("reward")->items()[1].items()[2], json::Value("0x3"));
    chain.receipts_read = 0;
    EXPECT_EQ(ok("eth_feeHistory", R"(["0x5","latest",[0,50,100]])"), history);
    EXPECT_EQ(chain.receipts_read, 0);  // blocks never change
    EXPECT_EQ(ok("eth_feeHistory", R"([1,"latest"])").find("reward"), nullptr);
    EXPECT_EQ(ok("eth_feeHistory", R"([0,"latest",[]])").find("baseFeePerGas")->size(), 0u);
    EXPECT_EQ(error("eth_feeHistory", R"(["0x1","0x99",[]])").message, "request beyond head block");
    EXPECT_EQ(error("eth_feeHistory", R"(["0x1","latest",[50,10]])").code, kInvalidParams);
    EXPECT_EQ(error("eth_feeHistory", R"(["0x1","latest",[101]])").code, kInvalidParams);
}

// A proposer has the tips of its own transactions back: they must not make everybody's dearer for nothing.
TEST_F(MethodsTest, tips_of_blocks_with_room_are_no_advice) {
    const auto dear = signed_transaction([](types::Transaction& tx) {
        tx.max_fee_per_gas = Uint256(90'000'000'000);
        tx.max_priority_fee_per_gas = Uint256(50'000'000'000);
    });
    chain.add_block({dear});
    EXPECT_EQ(ok("eth_maxPriorityFeePerGas"), json::Value(quantity(1'000'000'000)));
    chain.add_block({dear}, [](std::size_t, types::Receipt& receipt) { receipt.gas_used = 15'000'000; });
    chain.add_block({dear}, [](std::size_t, types::Receipt& receipt) { receipt.gas_used = 15'000'000; });
    EXPECT_EQ(ok("eth_maxPriorityFeePerGas"), json::Value(quantity(50'000'000'000)));
}

TEST_F(MethodsTest, tasks_are_listed_by_page_and_state) {
    for (std::uint64_t id = 1; id <= 600; ++id) {
        types::Task task;
        task.id = id;
        task.state = id % 2 == 0 ? types::TaskState::settled : types::TaskState::open;
        task.spec.money.price_cap = Uint256(id);
        put_object(types::ObjectPrefix::task, id, task);
    }
    put_object(types::ObjectPrefix::challenge, 1, types::TaskIdPayload{1});  // a neighbour in the key space
    auto page = ok("task_list", R"({"state":"live","start":1,"limit":100})");
    EXPECT_EQ(page.find("tasks")->size(), 100u);
    EXPECT_EQ(*page.find("next"), json::Value(201));
    EXPECT_EQ(*page.find("tasks")->items()[0].find("stateName"), json::Value("open"));
    page = ok("task_list", R"(["live",501,1000])");
    EXPECT_EQ(page.find("tasks")->size(), 50u);
    EXPECT_TRUE(page.find("next")->is_null());
    EXPECT_EQ(ok("task_list", R"(["settled",0,1000])").find("tasks")->size(), 300u);
    EXPECT_EQ(ok("task_list", "[4,0,1000]").find("tasks")->size(), 300u);
    EXPECT_EQ(ok("task_list").find("tasks")->size(), 100u);
    EXPECT_EQ(error("task_list", R"(["sleeping"])").code, kInvalidParams);
    EXPECT_EQ(*ok("task_get", "[7]").find("id"), json::Value(7));
    EXPECT_TRUE(ok("task_get", "[601]").is_null());
    const auto back = types::record_from_json<types::Task>(ok("task_get", "[7]"));
    EXPECT_TRUE(back);
}

TEST_F(MethodsTest, what_is_held_and_asked_for_is_told_with_its_time) {
    types::Task task;
    task.id = 5;
    task.state = types::TaskState::settled;
    task.since = 70'000;
    put_object(types::ObjectPrefix::task, 5, task);
    EXPECT_TRUE(ok("task_get", "[5]").find("heldUntil")->is_null());
    EXPECT_EQ(ok("task_list", R"(["live"])").find("tasks")->size(), 0U);
    task.held = 9;
    task.asked.push_back({2, 70, 10, 90'000});
    put_object(types::ObjectPrefix::task, 5, task);
    const auto told = ok("task_get", "[5]");
    EXPECT_EQ(*told.find("heldUntil"), json::Value(71'000));
    EXPECT_EQ(*told.find("held"), json::Value("0x9"));
    ASSERT_EQ(told.find("asked")->size(), 1U);
    const auto& asked = told.find("asked")->items()[0];
    EXPECT_EQ(*asked.find("slot"), json::Value(2));
    EXPECT_EQ(*asked.find("tile"), json::Value(70));
    EXPECT_EQ(*asked.find("prepaid"), json::Value("0xa"));
    EXPECT_EQ(*asked.find("until"), json::Value(90'000));
    // Somebody has to look at it, although it has ended.
    for (const char* filter : {"live", "settled", "final"})
        EXPECT_EQ(ok("task_list", "[\"" + std::string(filter) + "\"]").find("tasks")->size(), 1U) << filter;
}

TEST_F(MethodsTest, claims_are_told_with_their_task_and_by_their_key) {
    types::Task task;
    task.id = 5;
    task.state = types::TaskState::running;
    task.round = 1;
    task.seats.resize(1);
    put_object(types::ObjectPrefix::task, 5, task);
    EXPECT_TRUE(ok("task_get", "[5]").find("claim")->is_null());
    EXPECT_TRUE(ok("claim_get", "[5]").is_null());

    task.seats[0].stretches = 1;
    put_object(types::ObjectPrefix::task, 5, task);
    types::Claim claim;
    for (std::uint8_t round = 0; round < 2; ++round) {
        claim.id = {5, 0, 0, round};
        claim.state = round == 0 ? types::ClaimState::voided : types::ClaimState::proved;
        claim.step = claim.loss = round;
        chain.current->objects[types::key_of<types::Claim>(claim.id)] = types::encode_record(claim);
    }
    const auto told = ok("task_get", "[5]");
    EXPECT_EQ(text(*told.find("claim"), "stateName"), "proved");
    EXPECT_FALSE(told.find("claim")->find("lossValue")->is_null());
    EXPECT_EQ(*ok("task_list").find("tasks")->items()[0].find("claim"), *told.find("claim"));
    EXPECT_EQ(ok("claim_get", "[5]"), *told.find("claim"));
    EXPECT_EQ(text(ok("claim_get", R"({"task":5,"round":0})"), "stateName"), "void");
    EXPECT_TRUE(ok("claim_get", R"({"task":5,"round":0})").find("lossValue")->is_null());
    EXPECT_TRUE(types::record_from_json<types::Claim>(ok("claim_get", "[5,0,0,1]")));
    EXPECT_TRUE(ok("claim_get", "[5,0,1]").is_null());
    EXPECT_TRUE(ok("claim_get", "[5,1]").is_null());
    EXPECT_TRUE(ok("claim_get", "[6]").is_null());
    EXPECT_EQ(error("claim_get", "[5,65536]").code, kInvalidParams);
    EXPECT_EQ(error("claim_get", "[5,0,0,4294967296]").code, kInvalidParams);
}

TEST_F(MethodsTest, both_claims_that_are_not_settled_are_told) {
    types::Task task;
    task.id = 5;
    task.state = types::TaskState::running;
    task.steps = 50;
    task.spec.work.tranche = 20;
    task.settled = 1;
    task.seats.resize(1);
    task.seats[0].stretches = 3;
    put_object(types::ObjectPrefix::task, 5, task);
    types::Claim claim;
    for (std::uint32_t stretch = 1; stretch < 3; ++stretch) {
        claim.id = {5, 0, stretch, 0};
        claim.state = stretch == 1 ? types::ClaimState::custody : types::ClaimState::working;
        claim.step = 40;
        chain.current->objects[types::key_of<types::Claim>(claim.id)] = types::encode_record(claim);
    }
    types::Custody custody;
    custody.claim = {5, 0, 1, 0};
    custody.custodians.resize(3);
    chain.current->objects[types::key_of<types::Custody>(custody.claim)] = types::encode_record(custody);
    const auto told = ok("task_get", "[5]");
    EXPECT_EQ(*told.find("claim")->find("custody"), types::to_json(custody));
    EXPECT_TRUE(told.find("nextClaim")->find("custody")->is_null());
    EXPECT_EQ(text(*told.find("claim"), "stateName"), "custody");
    EXPECT_EQ(text(*told.find("nextClaim"), "stateName"), "working");
    EXPECT_EQ(*told.find("claim")->find("firstStep"), json::Value(21));
    EXPECT_EQ(*told.find("claim")->find("lastStep"), json::Value(40));
    EXPECT_FALSE(told.find("claim")->find("lossValue")->is_null());
    EXPECT_EQ(*told.find("nextClaim")->find("lastStep"), json::Value(50));
    EXPECT_TRUE(told.find("nextClaim")->find("lossValue")->is_null()) << "no checkpoint of it yet";
    EXPECT_EQ(ok("claim_get", "[5,0,2]"), *told.find("nextClaim"));
    task.seats[0].stretches = 2;
    put_object(types::ObjectPrefix::task, 5, task);
    EXPECT_TRUE(ok("task_get", "[5]").find("nextClaim")->is_null());
}

TEST_F(MethodsTest, proofs_are_told_by_task_and_seat) {
    types::ProofRecord proof;
    proof.task = 5;
    proof.seat = 1;
    proof.steps = 48;
    proof.loss = std::bit_cast<std::uint32_t>(2.5F);
    chain.current->objects[types::key_of<types::ProofRecord>(std::uint64_t{5}, std::uint16_t{1})] =
        types::encode_record(proof);
    const auto told = ok("proof_get", "[5,1]");
    EXPECT_EQ(*told.find("steps"), json::Value(48));
    EXPECT_EQ(*told.find("lossValue"), json::Value(2.5));
    EXPECT_TRUE(ok("proof_get", "[5]").is_null());
    EXPECT_EQ(error("proof_get", "[5,65536]").code, kInvalidParams);
}

TEST_F(MethodsTest, pool_is_ordered_by_price_with_waiting_submissions) {
    for (std::uint64_t id = 1; id <= 3; ++id) {
        types::Task task;
        task.id = id;
        task.state = id == 3 ? types::TaskState::running : types::TaskState::open;
        task.spec.money.price_cap = Uint256(id * 10);
        put_object(types::ObjectPrefix::task, id, task);
    }
    types::TaskSubmitPayload spec;
    spec.money.price_cap = 15;
    spec.work.interval = 4;
    const auto waiting = signed_transaction([&](types::Transaction& tx) {
        tx.type = types::TxType::native;
        tx.to = std::nullopt;
        tx.native_kind = static_cast<std::uint8_t>(types::NativeKind::task_submit);
        tx.data = types::encode_record(spec);
    });
    chain.waiting_tasks.push_back(*types::recover(types::encode(waiting)));
    const auto pool = ok("task_pool");
    ASSERT_EQ(pool.size(), 3u);
    EXPECT_EQ(*pool[0].find("task"), json::Value(2));
    EXPECT_EQ(*pool[1].find("pending"), json::Value(true));
    EXPECT_EQ(text(pool[1], "totalWork"), "0xfa0");
    EXPECT_EQ(*pool[1].find("steps"), json::Value(8));
    EXPECT_EQ(*pool[2].find("task"), json::Value(1));
    EXPECT_EQ(ok("task_pool", "[1]").size(), 1u);
}

TEST_F(MethodsTest, task_submit_takes_only_task_submissions) {
    const std::string transfer = "[\"" + to_hex0x(types::encode(signed_transaction())) + "\"]";
    EXPECT_EQ(error("task_submit", transfer).code, kInvalidParams);
    types::TaskSubmitPayload spec;
    const Bytes payload = types::encode_record(spec);
    const auto by_abi = signed_transaction([&](types::Transaction& tx) {
        tx.to = types::group_address(types::KindGroup::tasks);
        tx.data = *types::abi::encode_call(types::NativeKind::task_submit, payload);
    });
    ok("task_submit", "[\"" + to_hex0x(types::encode(by_abi)) + "\"]");
    EXPECT_EQ(chain.submitted.size(), 1u);
    EXPECT_FALSE(call("task_submit", R"(["0x51"])"));
}

TEST_F(MethodsTest, task_estimate_checks_the_specification) {
    types::TaskSubmitPayload spec;
    spec.work.interval = 10;
    json::Value json = types::to_json(spec);
    const auto estimate = ok("task_estimate", "[" + json.dump() + "]");
    EXPECT_EQ(text(estimate, "totalWork"), "0x2710");
    EXPECT_EQ(text(estimate, "gas"), "0x5208");
    ASSERT_TRUE(chain.calls.back().native_kind);
    EXPECT_EQ(chain.calls.back().data, types::encode_record(spec));
    chain.gas_result = fail("insufficient funds");
    EXPECT_EQ(text(ok("task_estimate", "[" + json.dump() + "]"), "gasError"), "insufficient funds");
    json::Value misspelled = json;
    misspelled.set("intervall", 1);
    EXPECT_EQ(error("task_estimate", "[" + misspelled.dump() + "]").code, kInvalidParams);
    json::Value work = *json.find("work");
    work.set("interval", 0);
    json.set("work", work);
    EXPECT_EQ(error("task_estimate", "[" + json.dump() + "]").message, "task.bad_interval");
}

TEST_F(MethodsTest, a_dispute_has_the_post_that_waits_from_the_log_of_its_block) {
    types::Dispute dispute;
    dispute.id = 3;
    dispute.game = {0xc0};
    dispute.posted_at = 2;
    put_object(types::ObjectPrefix::dispute, 3, dispute);
    EXPECT_TRUE(ok("dispute_get", "[3]").find("post")->is_null()) << "no receipts of that block";
    const auto log_of = [](std::uint64_t id, const Bytes& post, types::KindGroup group) {
        return types::abi::event_log(types::group_address(group), types::DisputePosted{id, post});
    };
    types::Receipt receipt;
    receipt.logs = {log_of(3, {1}, types::KindGroup::disputes), log_of(3, {2, 3}, types::KindGroup::disputes),
                    log_of(4, {4}, types::KindGroup::disputes), log_of(3, {5}, types::KindGroup::tasks)};
    chain.block_receipts[2] = {receipt};
    EXPECT_EQ(text(ok("dispute_get", "[3]"), "post"), "0x0203") << "the last one of this dispute";
    dispute.posted_at = 0;
    put_object(types::ObjectPrefix::dispute, 3, dispute);
    EXPECT_TRUE(ok("dispute_get", "[3]").find("post")->is_null());
}

TEST_F(MethodsTest, disputes_are_shown_with_their_game) {
    types::Dispute dispute;
    dispute.id = 3;
    dispute.claim.task = 9;
    dispute.game = {0xc0};
    dispute.leaf_executed = true;
    dispute.leaf_op = 16;
    put_object(types::ObjectPrefix::dispute, 3, dispute);
    dispute.id = 4;
    dispute.closed_at = 5;
    dispute.winner = types::DisputeWinner::rival;
    put_object(types::ObjectPrefix::dispute, 4, dispute);
    const auto one = ok("dispute_get", "[3]");
    EXPECT_EQ(text(*one.find("gameView"), "phase"), "trace");
    EXPECT_EQ(text(one, "leafOpName"), "matmul");
    EXPECT_EQ(one.get_double("leafMicroseconds").value(), 12.5);
    EXPECT_TRUE(types::record_from_json<types::Dispute>(one));
    EXPECT_TRUE(one.find("post")->is_null());
    EXPECT_EQ(ok("dispute_list").find("disputes")->size(), 2u);
    EXPECT_EQ(ok("dispute_list", R"({"task":9,"open":true})").find("disputes")->size(), 1u);
    EXPECT_EQ(ok("dispute_list", "[8]").find("disputes")->size(), 0u);
    EXPECT_EQ(text(ok("dispute_list", "[9,false,4,1]").find("disputes")->items()[0], "winnerName"), "rival");
    EXPECT_TRUE(ok("dispute_get", "[99]").is_null());
}

TEST_F(MethodsTest, stakes_and_supply) {
    types::Address who;
    who.data[0] = 1;
    for (const types::Role role : {types::Role::solver, types::Role::verifier}) {
        Bytes id{static_cast<std::uint8_t>(role)};
        append(id, who);
        types::RoleBond bond;
        bond.address = who;
        bond.role = role;
        bond.bonded = 10;
        bond.locked = 4;
        chain.current->objects[types::object_key(types::ObjectPrefix::role_bond, id)] = types::encode_record(bond);
    }
    types::ValidatorObject validator;
    validator.stake = 1000;
    chain.current->objects[types::object_key(types::ObjectPrefix::validator, who)] = types::encode_record(validator);
    EXPECT_EQ(ok("stake_roles").size(), 2u);
    EXPECT_EQ(ok("stake_roles", R"(["solver"])").size(), 1u);
    EXPECT_EQ(text(ok("stake_roles", "[2]")[0], "free"), "0x6");
    EXPECT_EQ(ok("stake_roles", "[\"" + to_hex0x(who) + "\"]").size(), 2u);
    EXPECT_EQ(ok("stake_roles", "[\"0x" + std::string(40, '9') + "\"]").size(), 0u);
    EXPECT_EQ(error("stake_roles", R"(["king"])").code, kInvalidParams);
    EXPECT_EQ(text(ok("stake_validators"), "totalStake"), "0x3e8");
    const std::string name = "[\"" + to_hex0x(who) + "\"]";
    EXPECT_EQ(text(ok("stake_validator", name), "stake"), "0x3e8");
    EXPECT_TRUE(ok("stake_validator", "[\"0x" + std::string(40, '9') + "\"]").is_null());
    EXPECT_EQ(error("stake_validator", R"(["x"])").code, kInvalidParams);
    validator.shares = 2000;
    chain.current->objects[types::object_key(types::ObjectPrefix::validator, who)] = types::encode_record(validator);
    types::Address other = who;
    other.data[3] ^= 1;
    Bytes pair = to_bytes(who.view());
    append(pair, other);
    chain.current->objects[types::object_key(types::ObjectPrefix::stake_delegation, pair)] =
        types::encode_record(types::StakeDelegation{who, other, 501});
    chain.current->objects[types::object_key(types::ObjectPrefix::stake_unbonding, pair)] =
        types::encode_record(types::StakeUnbonding{who, other, {{7, 1, 99, false}}});
    for (const auto& filter : {name, "[\"" + to_hex0x(other) + "\"]", std::string("[]")}) {
        EXPECT_EQ(text(ok("stake_delegations", filter)[0], "value"), "0xfa");
        EXPECT_EQ(ok("stake_unbondings", filter).size(), 1u);
    }
    EXPECT_EQ(ok("stake_delegations", "[\"0x" + std::string(40, '9') + "\"]").size(), 0u);
    EXPECT_EQ(ok("stake_unbondings", "[\"0x" + std::string(40, '9') + "\"]").size(), 0u);
    EXPECT_EQ(error("stake_unbondings", R"(["x"])").code, kInvalidParams);
    types::EpochObject epoch;
    epoch.members = {{Bytes(64, 3), 5}, {Bytes(64, 4), 6}};
    chain.current->objects[types::object_key(types::ObjectPrefix::epoch, 2)] = types::encode_record(epoch);
    EXPECT_EQ(text(ok("stake_epoch", "[2]"), "totalWeight"), "0xb");
    EXPECT_EQ(ok("stake_epoch", R"(["0x2"])").find("members")->size(), 2u);
    EXPECT_TRUE(ok("stake_epoch", "[3]").is_null());
    EXPECT_EQ(error("stake_epoch", "[-1]").code, kInvalidParams);
    EXPECT_EQ(error("quern_supply").message, "chain.no_globals");
    EXPECT_EQ(error("quern_marketTime").message, "chain.no_globals");
    types::Globals globals;
    globals.minted = 100;
    globals.burned = 30;
    globals.market_ms = 6'500;
    chain.current->objects[types::object_key(types::ObjectPrefix::globals)] = types::encode_record(globals);
    EXPECT_EQ(text(ok("quern_supply"), "existing"), "0x46");
    EXPECT_EQ(*ok("quern_marketTime").find("marketMs"), json::Value(6'500));
    EXPECT_EQ(*ok("quern_marketTime").find("block"), *ok("quern_supply").find("block"));
    EXPECT_EQ(*ok("quern_params").find("chainId"), json::Value(7878));
    EXPECT_GT(ok("quern_abi").size(), 10u);
    EXPECT_TRUE(ok("quern_getFinalization").find("certificate"));
}

TEST_F(MethodsTest, a_broken_object_is_an_error_and_not_a_crash) {
    chain.current->objects[types::object_key(types::ObjectPrefix::task, std::uint64_t{1})] = {0xff, 0x00};
    EXPECT_EQ(error("task_get", "[1]").code, kServerError);
    EXPECT_EQ(error("task_list").code, kServerError);
}

}  // namespace
}  // namespace quern::rpc
