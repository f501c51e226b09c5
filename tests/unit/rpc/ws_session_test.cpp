#include "rpc/ws_session.h"

#include <gtest/gtest.h>

namespace quern::rpc {
namespace {

TEST(WsNotification, takes_no_more_memory_than_it_has_bytes) {
    const std::string result(100'000, '1');
    const std::string text = notification("eth", "0x12", result);
    EXPECT_EQ(text, R"({"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x12","result":)" +
                        result + "}}");
    EXPECT_LT(text.capacity(), text.size() + 64);
}

}  // namespace
}  // namespace quern::rpc
