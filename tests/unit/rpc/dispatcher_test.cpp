#include "rpc/dispatcher.h"

#include <gtest/gtest.h>

#include "unit/rpc/fake_backend.h"

namespace quern::rpc {
namespace {

class DispatcherTest : public ::testing::Test {
protected:
    std::optional<std::string> raw(std::string_view request) { return dispatcher.handle(request, {}); }
    json::Value ask(std::string_view request) { return *json::parse(raw(request).value()); }
    std::int64_t code(std::string_view request) { return *ask(request).find("error")->get_i64("code"); }

    testing::Fixture fixture;
    Dispatcher dispatcher{*fixture.registry, {std::size_t{1} << 20, 32, 5, 4000}};
};

TEST_F(DispatcherTest, single_call_is_answered_with_its_id) {
    for (const char* id : {"1", "\"abc\"", "null", "1.5", "-7", "18446744073709551615"}) {
        const auto answer =
            ask(std::string(R"({"jsonrpc":"2.0","id":)") + id + R"(,"method":"eth_chainId","params":[]})");
        EXPECT_EQ(*answer.find("id"), *json::parse(id));
        EXPECT_EQ(*answer.find("result"), json::Value("0x1ec6"));
        EXPECT_EQ(*answer.find("jsonrpc"), json::Value("2.0"));
        EXPECT_EQ(answer.find("error"), nullptr);
    }
}

TEST_F(DispatcherTest, params_may_be_left_out) {
    EXPECT_NE(ask(R"({"jsonrpc":"2.0","id":1,"method":"eth_chainId"})").find("result"), nullptr);
}

TEST_F(DispatcherTest, notifications_are_run_and_not_answered) {
    EXPECT_FALSE(raw(R"({"jsonrpc":"2.0","method":"eth_sendRawTransaction","params":["0x01"]})"));
    EXPECT_EQ(fixture.chain.submitted.size(), 1u);
    EXPECT_FALSE(raw(R"([{"jsonrpc":"2.0","method":"eth_chainId"},{"jsonrpc":"2.0","method":"nothing"}])"));
}

TEST_F(DispatcherTest, submissions_that_follow_each_other_in_a_batch_go_together) {
    const auto send = [](const std::string& id, const std::string& params) {
        return R"({"jsonrpc":"2.0",)" + id + R"("method":"eth_sendRawTransaction","params":)" + params + "}";
    };
    std::string batch = "[";
    batch += send(R"("id":1,)", R"(["0x01"])") + ",";
    batch += send("", R"(["0x02"])") + ",";          // a notification
    batch += send(R"("id":3,)", R"(["zz"])") + ",";  // bad arguments of its own
    batch += send(R"("id":4,)", R"(["0x04"])") + ",";
    batch += R"({"jsonrpc":"2.0","id":5,"method":"eth_chainId"},)";
    batch += send(R"("id":6,)", R"(["0x06"])") + ",";
    batch += send(R"("id":{},)", R"(["0x07"])") + "]";  // no valid request
    Dispatcher wide{*fixture.registry, {std::size_t{1} << 20, 32, 16, 4000}};
    const auto answer = *json::parse(wide.handle(batch, {}).value());
    EXPECT_EQ(fixture.chain.submissions, 2u) << "three together, and one after eth_chainId";
    EXPECT_EQ(fixture.chain.submitted, (std::vector<Bytes>{{1}, {2}, {4}, {6}}));
    ASSERT_EQ(answer.size(), 6u);
    const auto id = [&](std::size_t i) { return answer[i].find("id")->dump(); };
    EXPECT_EQ(id(0) + id(1) + id(2) + id(3) + id(4) + id(5), "13456null");
    for (const std::size_t good : {0, 2, 4})
        EXPECT_EQ(*answer[good].find("result"), json::Value("0x" + std::string(64, '0')));
    EXPECT_EQ(*answer[1].find("error")->get_i64("code"), kInvalidParams);
    EXPECT_EQ(*answer[3].find("result"), json::Value("0x1ec6"));
    EXPECT_EQ(*answer[5].find("error")->get_i64("code"), kInvalidRequest);
}

TEST_F(DispatcherTest, malformed_json_is_a_parse_error) {
    for (const char* text :
         {"", "{", "[1,", "{\"a\":}", "nul", "{} x", "\xff", "{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\"}"}) {
        const auto answer = ask(text);
        EXPECT_EQ(*answer.find("error")->get_i64("code"), kParseError) << text;
        EXPECT_TRUE(answer.find("id")->is_null());
    }
}

TEST_F(DispatcherTest, deep_nesting_is_a_parse_error) {
    EXPECT_EQ(code(std::string(100'000, '[')), kParseError);
    EXPECT_EQ(code(std::string(33, '[') + std::string(33, ']')), kParseError);
    std::string objects;
    for (int i = 0; i < 50'000; ++i) objects += "{\"a\":";
    EXPECT_EQ(code(objects), kParseError);
}

TEST_F(DispatcherTest, a_request_of_very_many_values_is_a_parse_error) {
    // In memory each takes many times its two bytes of text.
    const auto request = [](std::size_t zeros) {
        std::string text = R"({"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[0)";
        for (std::size_t i = 1; i < zeros; ++i) text += ",0";
        return text + "]}";
    };
    const std::size_t limit = DispatcherLimits().max_values;
    EXPECT_EQ(code(request(limit - 5)), kInvalidParams);  // beside these: three, the list and the whole
    EXPECT_EQ(code(request(limit - 4)), kParseError);
}

TEST_F(DispatcherTest, invalid_requests_are_named) {
    EXPECT_EQ(code("1"), kInvalidRequest);
    EXPECT_EQ(code("\"x\""), kInvalidRequest);
    EXPECT_EQ(code("{}"), kInvalidRequest);
    EXPECT_EQ(code(R"({"jsonrpc":"1.0","id":1,"method":"eth_chainId"})"), kInvalidRequest);
    EXPECT_EQ(code(R"({"id":1,"method":"eth_chainId"})"), kInvalidRequest);
    EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":5})"), kInvalidRequest);
    EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1})"), kInvalidRequest);
    EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":{},"method":"eth_chainId"})"), kInvalidRequest);
    EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":[1],"method":"eth_chainId"})"), kInvalidRequest);
    EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":7})"), kInvalidParams);
    EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"eth_nothing"})"), kMethodNotFound);
}

TEST_F(DispatcherTest, batch_answers_in_order_and_mixes_errors) {
    const auto answers = ask(R"([{"jsonrpc":"2.0","id":"a","method":"eth_chainId"},
                                 {"jsonrpc":"2.0","method":"eth_chainId"},
                                 7,
                                 {"jsonrpc":"2.0","id":2,"method":"eth_nothing"}])");
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(*answers[0].find("id"), json::Value("a"));
    EXPECT_EQ(*answers[1].find("error")->get_i64("code"), kInvalidRequest);
    EXPECT_EQ(*answers[2].find("error")->get_i64("code"), kMethodNotFound);
}

TEST_F(DispatcherTest, empty_and_oversized_batches_are_refused_whole) {
    EXPECT_EQ(code("[]"), kInvalidRequest);
    std::string batch = "[";
    for (int i = 0; i < 6; ++i)
        batch += std::string(i == 0 ? "" : ",") + R"({"jsonrpc":"2.0","id":1,"method":"eth_chainId"})";
    batch += "]";
    const auto answer = ask(batch);
    EXPECT_FALSE(answer.is_array());
    EXPECT_EQ(*answer.find("error")->get_i64("code"), kInvalidRequest);
}

TEST_F(DispatcherTest, batch_response_has_a_size_limit) {
    const auto answers = ask(R"([{"jsonrpc":"2.0","id":1,"method":"rpc_discover"},
                                 {"jsonrpc":"2.0","id":2,"method":"eth_chainId"}])");
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_NE(answers[0].find("result"), nullptr);
    EXPECT_EQ(*answers[1].find("error")->get_i64("code"), kLimitExceeded);
}

}  // namespace
}  // namespace quern::rpc
