// Uploads of contents over sockets into a store on the disk: those who hold the places do not keep others out.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "base/rng.h"
#include "node/serve/content_gateway.h"
#include "rpc/http_server.h"
#include "unit/p2p/test_node.h"

namespace quern::node {
namespace {

using p2p::testing::eventually;

class UploadsTest : public ::testing::Test {
protected:
    void SetUp() override {
        root_ = ::testing::TempDir() + "quern_uploads_" + std::to_string(::getpid());
        std::filesystem::remove_all(root_);
        store_ = *content::Store::open({root_, 1ULL << 30, 1ULL << 30});
        gateway_ = std::make_unique<StoreGateway>(*store_);
        rpc::HttpOptions options;
        options.port = 0;
        rpc::HttpHooks hooks;
        hooks.content = gateway_.get();
        auto started = rpc::HttpServer::start(options, std::move(hooks));
        ASSERT_TRUE(started) << started.error().to_string();
        server_ = std::move(*started);
    }
    void TearDown() override {
        for (const int descriptor : sockets_) ::close(descriptor);
        server_.reset();
        gateway_.reset();
        store_.reset();
        std::filesystem::remove_all(root_);
    }
    // As 127.0.0.`host`, which is a host of its own. Announces a content and waits for "100 Continue", by which the
    // upload has its place, or for what comes instead.
    int announce(std::uint32_t host, const Hash32& id, std::size_t size) {
        const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
        sockets_.push_back(descriptor);
        const timeval timeout{60, 0};
        ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl((127U << 24) + host);
        EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
        address.sin_port = htons(server_->port());
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
        send(descriptor, "PUT /content/" + to_hex(id) + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                             std::to_string(size) + "\r\nExpect: 100-continue\r\n\r\n");
        return descriptor;
    }
    static void send(int descriptor, std::string_view bytes) {
        EXPECT_EQ(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }
    // The status of the answer that comes next.
    static std::string status(int descriptor) {
        std::string line(25, ' ');  // of "100 Continue", whole
        const ssize_t got = ::recv(descriptor, line.data(), line.size(), MSG_WAITALL);
        return got < 12 ? std::string() : line.substr(9, 3);
    }
    [[nodiscard]] std::size_t temporary_files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(root_ + "/tmp"), {}));
    }

    std::string root_;
    std::unique_ptr<content::Store> store_;
    std::unique_ptr<StoreGateway> gateway_;
    std::unique_ptr<rpc::HttpServer> server_;
    std::vector<int> sockets_;
};

TEST_F(UploadsTest, four_hosts_that_dribble_do_not_keep_a_fifth_out) {
    SeededRng rng(5);
    const auto random = [&](std::size_t size) {
        Bytes bytes(size);
        rng.fill(bytes);
        return bytes;
    };
    for (std::uint32_t host = 2; host <= 5; ++host)
        for (int i = 0; i < 16; ++i) {
            Hash32 id;
            rng.fill(id.data);
            const int descriptor = announce(host, id, 1U << 20);
            ASSERT_EQ(status(descriptor), "100");
            send(descriptor, "x");
        }
    ASSERT_EQ(temporary_files(), 64U);
    // More than one place, and more than one piece each.
    std::vector<std::pair<int, Bytes>> uploads;
    for (int i = 0; i < 3; ++i) {
        Bytes content = random(700'000);
        const int descriptor = announce(6, crypto::content_id_of(content), content.size());
        ASSERT_EQ(status(descriptor), "100") << i;
        uploads.emplace_back(descriptor, std::move(content));
    }
    for (const auto& [descriptor, content] : uploads) {
        send(descriptor, as_text(content));
        EXPECT_EQ(status(descriptor), "201");
        EXPECT_TRUE(store_->verify(crypto::content_id_of(content)));
    }
    // What gave way has left nothing, and neither do the others.
    EXPECT_TRUE(eventually([&] { return temporary_files() <= 61; }));
    for (const int descriptor : sockets_) ::shutdown(descriptor, SHUT_RDWR);
    EXPECT_TRUE(eventually([&] { return temporary_files() == 0 && store_->usage().reserved == 0; }));
    EXPECT_EQ(store_->usage().items, 3U);
    EXPECT_EQ(store_->usage().bytes, 3 * content::stored_bytes(700'000));
}

// Uploads end for others while their pieces are on the way to the disk: the store's sums stay exact.
TEST_F(UploadsTest, what_gives_way_in_the_middle_gives_its_room_back) {
    const Bytes most(900'000, 7);
    Hash32 id;
    for (std::uint8_t number = 0; number < 64; ++number) {
        id.data[0] = number;
        const int descriptor = announce(2 + number / 16, id, 1U << 20);
        ASSERT_EQ(status(descriptor), "100");
        send(descriptor, as_text(most));
    }
    for (std::uint32_t host = 10; host < 40; ++host) {
        id.data[0] = static_cast<std::uint8_t>(100 + host);
        const int descriptor = announce(host, id, 1U << 20);
        EXPECT_EQ(status(descriptor), "100") << host;
    }
    EXPECT_TRUE(eventually([&] { return temporary_files() == 64; }));
    for (const int descriptor : sockets_) ::shutdown(descriptor, SHUT_RDWR);
    EXPECT_TRUE(eventually([&] { return temporary_files() == 0 && store_->usage().reserved == 0; }));
    EXPECT_EQ(store_->usage().bytes, 0U);
}

}  // namespace
}  // namespace quern::node
