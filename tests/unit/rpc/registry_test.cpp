#include "rpc/registry.h"

#include <gtest/gtest.h>

#include "base/fs.h"
#include "quern_version.h"
#include "unit/rpc/fake_backend.h"

namespace quern::rpc {
namespace {

Method echo(std::string_view name, std::vector<Parameter> parameters) {
    return {name, "echo", std::move(parameters), {"any", "the first argument"}, {}, {}, [](const Call& call) -> Result {
                return call.has(0) ? call.value(0) : json::Value("nothing");
            }};
}

Result call(const Registry& registry, std::string_view method, std::string_view params, bool authenticated = false) {
    return registry.call(method, *json::parse(params), CallContext{{authenticated, nullptr}, nullptr, nullptr});
}

TEST(Registry, declarations_are_checked) {
    Registry registry;
    EXPECT_TRUE(registry.add(echo("a", {})));
    EXPECT_EQ(registry.add(echo("a", {})).error().name, "rpc.duplicate_method");
    EXPECT_EQ(registry.add(echo("", {})).error().name, "rpc.bad_declaration");
    EXPECT_EQ(registry.add(echo("b", {{"x", Kind::any, false, ""}, {"y", Kind::any, true, ""}})).error().name,
              "rpc.bad_declaration");
    Method bad_example = echo("c", {});
    bad_example.examples = {{"[", "1"}};
    EXPECT_EQ(registry.add(bad_example).error().name, "rpc.bad_declaration");
    Method alias = echo("d", {});
    alias.aliases = {"a"};
    EXPECT_EQ(registry.add(alias).error().name, "rpc.duplicate_method");
}

TEST(Registry, unknown_method_has_the_usual_message) {
    const Registry registry;
    const auto result = call(registry, "eth_foo", "[]");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, kMethodNotFound);
    EXPECT_EQ(result.error().message, "the method eth_foo does not exist/is not available");
}

TEST(Registry, arguments_bind_by_position_and_by_name) {
    Registry registry;
    ASSERT_TRUE(registry.add(echo("m", {{"first", Kind::number, true, ""}, {"second", Kind::boolean, false, ""}})));
    EXPECT_EQ(*call(registry, "m", "[5]"), json::Value(5));
    EXPECT_EQ(*call(registry, "m", R"(["0x5",true])"), json::Value("0x5"));
    EXPECT_EQ(*call(registry, "m", R"({"second":true,"first":6})"), json::Value(6));
    EXPECT_EQ(*call(registry, "m", "[7,null]"), json::Value(7));
    const auto message = [&](std::string_view params) { return call(registry, "m", params).error().message; };
    EXPECT_EQ(message("[]"), "missing value for required argument 0 (first)");
    EXPECT_EQ(message("{}"), "missing value for required argument 0 (first)");
    EXPECT_EQ(message("[1,true,3]"), "too many arguments, want at most 2");
    EXPECT_EQ(message(R"({"third":1})"), "unknown parameter \"third\"");
    EXPECT_EQ(message("[1,2]"), "invalid argument 1 (second): expected a boolean, got number");
    EXPECT_EQ(message("7"), "params must be an array or an object");
    EXPECT_EQ(call(registry, "m", "[]").error().code, kInvalidParams);
}

struct KindCase {
    Kind kind;
    const char* argument;
    bool accepted;
};

TEST(Registry, arguments_are_checked_by_kind) {
    const std::string hash = "\"0x" + std::string(64, 'a') + "\"";
    const std::string address = "\"0x" + std::string(40, 'A') + "\"";
    const std::string long_quantity = "\"0x1" + std::string(64, '0') + "\"";
    const KindCase cases[] = {
        {Kind::quantity, R"("0x0")", true},
        {Kind::quantity, R"("0x1f")", true},
        {Kind::quantity, R"("0x01")", false},
        {Kind::quantity, R"("0x")", false},
        {Kind::quantity, R"("31")", false},
        {Kind::quantity, "31", false},
        {Kind::quantity, long_quantity.c_str(), false},
        {Kind::number, "31", true},
        {Kind::number, R"("0x1f")", true},
        {Kind::number, "-1", false},
        {Kind::number, "1.5", false},
        {Kind::number, R"("0x10000000000000000")", false},
        {Kind::hash, hash.c_str(), true},
        {Kind::hash, R"("0xaa")", false},
        {Kind::hash, R"("0xzz")", false},
        {Kind::address, address.c_str(), true},
        {Kind::address, R"("0xaa")", false},
        {Kind::data, R"("0x")", true},
        {Kind::data, R"("0xabc")", false},
        {Kind::data, R"("abcd")", false},
        {Kind::data, R"("0x0x")", false},
        {Kind::data, R"("0xgg")", false},
        {Kind::block, R"("latest")", true},
        {Kind::block, R"("safe")", true},
        {Kind::block, R"("pending")", true},
        {Kind::block, R"("0x5")", true},
        {Kind::block, hash.c_str(), true},
        {Kind::block, R"({"blockNumber":"0x5"})", true},
        {Kind::block, R"({"blockNumber":"0x5","blockHash":"0x5"})", false},
        {Kind::block, "{}", false},
        {Kind::block, R"("newest")", false},
        {Kind::block, "5", false},
        {Kind::block, R"({"blockNumber":{"blockNumber":"0x1"}})", false},
        {Kind::boolean, "true", true},
        {Kind::boolean, R"("true")", false},
        {Kind::string, R"("x")", true},
        {Kind::string, "1", false},
        {Kind::object, "{}", true},
        {Kind::object, "[]", false},
        {Kind::array, "[]", true},
        {Kind::array, "{}", false},
        {Kind::any, "1.5", true},
    };
    for (const KindCase& one : cases) {
        Registry registry;
        ASSERT_TRUE(registry.add(echo("m", {{"x", one.kind, true, ""}})));
        const auto result = call(registry, "m", "[" + std::string(one.argument) + "]");
        EXPECT_EQ(result.has_value(), one.accepted) << name_of(one.kind) << " " << one.argument;
        if (!result) {
            EXPECT_EQ(result.error().code, kInvalidParams);
        }
    }
}

TEST(Registry, a_throwing_method_is_an_internal_error) {
    Registry registry;
    Method method = echo("m", {});
    method.handler = [](const Call&) -> Result { throw std::runtime_error("secret"); };
    ASSERT_TRUE(registry.add(method));
    const auto result = call(registry, "m", "[]");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, kInternalError);
    EXPECT_EQ(result.error().message, "internal error");
}

TEST(Registry, cookie_methods_need_the_cookie) {
    testing::Fixture fixture;
    const auto refused = fixture.call("admin_stop");
    ASSERT_FALSE(refused);
    EXPECT_FALSE(fixture.stopped);
    EXPECT_TRUE(fixture.call("admin_stop", "[]", true));
    EXPECT_TRUE(fixture.stopped);
}

TEST(Registry, a_caller_sees_only_the_methods_on_its_list) {
    testing::Fixture fixture;
    const auto list = MethodList::read({"eth_chainId", "net_*", "admin_stop"});
    ASSERT_TRUE(list);
    const auto code = [&](std::string_view method, bool authenticated) {
        const auto result = fixture.registry->call(method, json::Value::array(),
                                                   CallContext{{authenticated, &*list}, nullptr, nullptr});
        return result ? 0 : result.error().code;
    };
    EXPECT_EQ(code("eth_chainId", false), 0);
    EXPECT_EQ(code("net_version", false), 0);
    EXPECT_EQ(code("eth_blockNumber", false), kMethodNotFound);
    EXPECT_EQ(code("rpc.discover", false), kMethodNotFound);
    EXPECT_EQ(code("admin_stop", false), kServerError);  // the list gives no credentials
    EXPECT_EQ(code("admin_nodeInfo", true), kMethodNotFound);
    EXPECT_EQ(code("admin_stop", true), 0);
}

TEST(Registry, every_method_of_the_interface_is_there) {
    const testing::Fixture fixture;
    for (const char* name : {"eth_chainId",
                             "eth_blockNumber",
                             "eth_getBalance",
                             "eth_getTransactionCount",
                             "eth_gasPrice",
                             "eth_maxPriorityFeePerGas",
                             "eth_feeHistory",
                             "eth_estimateGas",
                             "eth_call",
                             "eth_sendRawTransaction",
                             "eth_getTransactionByHash",
                             "eth_getTransactionByBlockHashAndIndex",
                             "eth_getTransactionByBlockNumberAndIndex",
                             "eth_getTransactionReceipt",
                             "eth_getBlockReceipts",
                             "eth_getBlockByNumber",
                             "eth_getBlockByHash",
                             "eth_getBlockTransactionCountByHash",
                             "eth_getBlockTransactionCountByNumber",
                             "eth_getLogs",
                             "eth_getCode",
                             "eth_getStorageAt",
                             "eth_syncing",
                             "eth_accounts",
                             "net_version",
                             "net_listening",
                             "net_peerCount",
                             "sdbft_status",
                             "admin_nodeInfo",
                             "admin_peers",
                             "admin_addPeer",
                             "admin_dropContents",
                             "admin_fetchContents",
                             "web3_clientVersion",
                             "web3_sha3",
                             "task_submit",
                             "task_estimate",
                             "task_get",
                             "claim_get",
                             "proof_get",
                             "task_changes",
                             "task_list",
                             "task_pool",
                             "dispute_get",
                             "dispute_list",
                             "stake_validators",
                             "stake_roles",
                             "quern_getTransaction",
                             "quern_params",
                             "quern_supply",
                             "quern_marketTime",
                             "rpc_discover",
                             "rpc.discover",
                             "help",
                             "logging",
                             "admin_stop"})
        EXPECT_NE(fixture.registry->find(name), nullptr) << name;
}

TEST(Registry, openrpc_document_describes_every_method) {
    const testing::Fixture fixture;
    const auto document = fixture.call("rpc.discover");
    ASSERT_TRUE(document);
    EXPECT_EQ(*document->find("openrpc"), json::Value("1.3.2"));
    EXPECT_EQ(document->find("methods")->size(), fixture.registry->list().size());
    for (const json::Value& method : document->find("methods")->items()) {
        EXPECT_TRUE(method.get_string("name"));
        EXPECT_TRUE(method.get_string("summary"));
        for (const json::Value& parameter : method.find("params")->items()) {
            EXPECT_TRUE(parameter.get_string("name"));
            EXPECT_TRUE(parameter.get_object("schema"));
            EXPECT_TRUE(parameter.get_bool("required"));
        }
    }
}

TEST(Registry, examples_of_open_methods_pass_their_own_argument_checks) {
    testing::Fixture fixture;
    fixture.chain.add_block({});
    for (const Method* method : fixture.registry->list())
        for (const Example& example : method->examples) {
            const auto result = fixture.registry->call(method->name, *json::parse(example.params),
                                                       CallContext{{true, nullptr}, nullptr, nullptr});
            if (!result) {
                EXPECT_NE(result.error().code, kInvalidParams) << method->name << ": " << result.error().message;
            }
        }
}

TEST(Registry, help_lists_all_methods_and_explains_one) {
    const testing::Fixture fixture;
    const auto all = fixture.call("help");
    ASSERT_TRUE(all);
    EXPECT_NE(all->as_string()->find("eth_getBalance address [block]"), std::string_view::npos);
    const auto one = fixture.call("help", R"(["eth_getBalance"])");
    ASSERT_TRUE(one);
    EXPECT_NE(one->as_string()->find("Arguments:"), std::string_view::npos);
    EXPECT_FALSE(fixture.call("help", R"(["nothing"])"));
}

TEST(Registry, reference_page_is_up_to_date) {
    methods::Backend backend;
    backend.version = QUERN_VERSION;
    const auto registry = methods::make_registry(backend);
    ASSERT_TRUE(registry);
    const auto page = fs::read_text_file(QUERN_RPC_REFERENCE, std::size_t{1} << 20);
    ASSERT_TRUE(page) << page.error().to_string();
    EXPECT_TRUE(*page == (*registry)->markdown()) << "write it anew: quern-rpcdoc > doc/rpc.md";
}

}  // namespace
}  // namespace quern::rpc
