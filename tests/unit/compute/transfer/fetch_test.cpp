#include "compute/transfer/fetch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/fs.h"
#include "compute/transfer/deliver.h"
#include "compute/transfer/http_call.h"
#include "compute/transfer/place.h"
#include "odd_server.h"

namespace quern::compute::transfer {
namespace {

using namespace test;
using Clock = std::chrono::steady_clock;

class FetchTest : public testing::Test {
protected:
    FetchTest() {
        for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>((i * 2'654'435'761U) >> 13);
        options.private_addresses = true;
        options.schemes.insert(Scheme::file);
        options.directories = {directory + "/allowed"};
        options.limits.again_ms = 1;
        options.limits.patience_s = 1;
        wanted.id = crypto::content_id_of(as_bytes(content));
        wanted.size = content.size();
        wanted.is_plain = true;
        std::filesystem::remove_all(directory);
        std::filesystem::create_directories(directory + "/allowed");
    }
    ~FetchTest() override { std::filesystem::remove_all(directory); }

    Expected<Fetched> get(const std::vector<std::string>& uris, const Cancellation* cancellation = nullptr) {
        return fetch(wanted, sources_of(uris, wanted), directory + "/store", options, cancellation);
    }
    void expect_content(const Expected<Fetched>& got, const std::string& from) {
        ASSERT_TRUE(got) << got.error().to_string();
        EXPECT_EQ(got->from, from);
        EXPECT_EQ(got->path, directory + "/store/" + to_hex(wanted.id));
        EXPECT_EQ(*fs::read_text_file(got->path, 1U << 24), content);
        EXPECT_EQ(got->shards.id(), wanted.id);
        EXPECT_FALSE(fs::exists(got->path + ".part"));
    }
    void expect_refused(const Expected<Fetched>& got, std::string_view name) {
        ASSERT_FALSE(got);
        EXPECT_EQ(got.error().name, name) << got.error().to_string();
        EXPECT_FALSE(fs::exists(directory + "/store/" + to_hex(wanted.id)));
    }
    std::string local(const std::string& name, const std::string& text) {
        std::ofstream(directory + "/" + name, std::ios::binary) << text;
        return "file://" + directory + "/" + name;
    }

    const std::string directory = "/tmp/quern-transfer-" + std::to_string(::getpid()) + "-" +
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
    std::string content = std::string(300'000, 0);
    TransferOptions options;
    Wanted wanted;
};

TEST_F(FetchTest, goes_on_where_a_broken_connection_left_it) {
    constexpr std::size_t kCut = 70'000;
    OddServer server([&](const std::string& request, const OddServer::Connection& connection) {
        const std::size_t first = range_of(request);
        connection.send((first == 0 ? head(200, content.size()) : part_head(first, content.size())) +
                        content.substr(first, kCut));
    });
    expect_content(get({server.url("/data.u8")}), server.url("/data.u8"));
    const auto requests = server.requests();
    ASSERT_EQ(requests.size(), 5U);
    for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(range_of(requests[i]), i * kCut);
    for (const std::string& request : requests)
        EXPECT_EQ(request.find("Accept-Encoding"), std::string::npos) << "nothing is unpacked";
}

TEST_F(FetchTest, goes_on_in_a_later_call_and_at_another_source) {
    std::atomic<bool> cuts{true};
    const auto answer = [&](const std::string& request, const OddServer::Connection& connection) {
        const std::size_t first = range_of(request);
        const std::string rest = content.substr(first);
        connection.send((first == 0 ? head(200, content.size()) : part_head(first, content.size())) +
                        (cuts ? rest.substr(0, first == 0 ? 200'000 : 0) : rest));
    };
    OddServer one(answer);
    expect_refused(get({one.url("/a")}), kBroken);
    EXPECT_EQ(*fs::file_size(directory + "/store/" + to_hex(wanted.id) + ".part"), 200'000U);
    cuts = false;
    OddServer two(answer);
    expect_content(get({two.url("/b")}), two.url("/b"));
    ASSERT_EQ(two.requests().size(), 1U);
    EXPECT_EQ(range_of(two.requests()[0]), 200'000U);
    expect_content(get({two.url("/b")}), "");
    EXPECT_EQ(two.requests().size(), 1U) << "it was there";
}

TEST_F(FetchTest, what_a_liar_began_is_begun_anew) {
    std::string wrong = content;
    wrong[5] ^= 1;
    OddServer liar([&](const std::string& request, const OddServer::Connection& connection) {
        connection.send(head(200, content.size()) + (range_of(request) == 0 ? wrong.substr(0, 100'000) : ""));
    });
    OddServer honest([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    expect_content(get({liar.url("/a"), honest.url("/b")}), honest.url("/b"));
    ASSERT_EQ(honest.requests().size(), 2U);
    EXPECT_EQ(range_of(honest.requests()[1]), 0U);
}

TEST_F(FetchTest, keeps_nothing_wrong) {
    std::string wrong = content;
    wrong.back() ^= 1;
    OddServer server([&](const auto& request, const auto& connection) { answer_well(wrong, request, connection); });
    expect_refused(get({server.url("/a")}), "content.id_mismatch");
    EXPECT_EQ(*fs::file_size(directory + "/store/" + to_hex(wanted.id) + ".part"), 0U);
    EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(FetchTest, takes_no_byte_more_than_the_content_has) {
    OddServer endless([&](const std::string&, const OddServer::Connection& connection) {
        connection.send("HTTP/1.1 200 x\r\nConnection: close\r\n\r\n" + content);
        while (connection.send(std::string(1U << 16, 'x'))) {
        }
    });
    expect_refused(get({endless.url("/a")}), "transfer.too_large");
    EXPECT_LE(*fs::file_size(directory + "/store/" + to_hex(wanted.id) + ".part"), content.size());
    std::filesystem::remove_all(directory + "/store");  // what was right of it would be taken
    OddServer announces([&](const std::string&, const OddServer::Connection& connection) {
        connection.send(head(200, content.size() + 1) + content + "x");
    });
    expect_refused(get({announces.url("/a")}), "transfer.too_large");
    OddServer shorter([&](const std::string&, const OddServer::Connection& connection) {
        connection.send(head(200, content.size() - 1) + content.substr(1));
    });
    expect_refused(get({shorter.url("/a")}), "transfer.wrong_size");
    wanted.size.reset();
    wanted.max_bytes = content.size() - 1;
    OddServer server([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    expect_refused(get({server.url("/a")}), "transfer.too_large");
    wanted.max_bytes = content.size();
    expect_content(get({server.url("/a")}), server.url("/a"));
}

TEST_F(FetchTest, waits_for_nobody_for_long) {
    const auto begun = Clock::now();
    OddServer silent([&](const std::string&, const OddServer::Connection& connection) {
        while (!connection.receive(1).empty()) {
        }
    });
    options.limits.tries = 1;
    expect_refused(get({silent.url("/a")}), kTooSlow);
    OddServer drips([&](const std::string&, const OddServer::Connection& connection) {
        bool listens = connection.send(head(200, content.size()));
        for (std::size_t i = 0; listens; ++i) {
            listens = connection.send(content.substr(i % content.size(), 1));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    });
    expect_refused(get({drips.url("/a")}), kTooSlow);
    OddServer heads([&](const std::string&, const OddServer::Connection& connection) {
        bool listens = connection.send("HTTP/1.1 200 x\r\n");
        while (listens) listens = connection.send("X-Filler: " + std::string(1'000, 'x') + "\r\n");
    });
    expect_refused(get({heads.url("/a")}), kBadHeader);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(20));
    // It was told to stop.
    options.limits.patience_s = 60;
    const auto stopped = Clock::now();
    const Cancellation cancellation([&] { return Clock::now() - stopped > std::chrono::milliseconds(100); });
    expect_refused(get({drips.url("/a")}, &cancellation), kStopped);
    EXPECT_LT(Clock::now() - stopped, std::chrono::seconds(10));
}

TEST_F(FetchTest, follows_redirects_only_where_it_would_go_itself) {
    OddServer honest([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    std::string to = honest.url("/data");
    OddServer server([&](const std::string&, const OddServer::Connection& connection) {
        connection.send(head(302, 0, "Location: " + to + "\r\n"));
    });
    expect_content(get({server.url("/a")}), server.url("/a"));
    std::filesystem::remove_all(directory + "/store");
    for (const std::string& elsewhere :
         {local("allowed/data.u8", content), std::string("ftp://127.0.0.1/a"), std::string("gopher://127.0.0.1/a")}) {
        to = elsewhere;
        expect_refused(get({server.url("/a")}), kBadRedirect);
    }
    to = server.url("/a");
    const std::size_t before = server.requests().size();
    expect_refused(get({server.url("/a")}), kBadRedirect);
    EXPECT_EQ(server.requests().size() - before, options.limits.redirects + 1);
}

TEST_F(FetchTest, takes_no_other_range_than_it_asked_for) {
    bool begun = false;
    OddServer server([&](const std::string&, const OddServer::Connection& connection) {
        if (!begun) connection.send(head(200, content.size()) + content.substr(0, 100'000));
        if (begun) connection.send(part_head(100'001, content.size()) + content.substr(100'001));
        begun = true;
    });
    expect_refused(get({server.url("/a")}), kBadHeader);
}

TEST_F(FetchTest, begins_anew_where_a_source_has_less_than_is_here) {
    std::filesystem::create_directories(directory + "/store");
    std::ofstream(directory + "/store/" + to_hex(wanted.id) + ".part") << "nonsense";
    OddServer server([&](const std::string& request, const OddServer::Connection& connection) {
        if (range_of(request) != 0) connection.send(head(416, 0));
        if (range_of(request) == 0) answer_well(content, request, connection);
    });
    expect_content(get({server.url("/a")}), server.url("/a"));
}

TEST_F(FetchTest, goes_on_with_one_source_so_often_and_no_more) {
    OddServer server([&](const std::string& request, const OddServer::Connection& connection) {
        const std::size_t first = range_of(request);
        connection.send((first == 0 ? head(200, content.size()) : part_head(first, content.size())) +
                        content.substr(first, crypto::kContentLeafBytes));
    });
    options.limits.breaks = 2;
    expect_refused(get({server.url("/a")}), kBroken);
    EXPECT_EQ(server.requests().size(), 3U);
}

TEST_F(FetchTest, writes_to_no_file_that_a_link_names) {
    std::filesystem::create_directories(directory + "/store");
    const std::string mine = directory + "/mine";
    std::ofstream(mine) << "mine";
    std::filesystem::create_symlink(mine, directory + "/store/" + to_hex(wanted.id) + ".part");
    OddServer server([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    expect_refused(get({server.url("/a")}), "fs.cannot_open");
    EXPECT_EQ(*fs::read_text_file(mine, 1U << 24), "mine");
}

TEST_F(FetchTest, uses_no_proxy_of_the_environment) {
    OddServer server([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    OddServer proxy([](const std::string&, const OddServer::Connection& connection) { connection.send(head(200, 0)); });
    ::setenv("http_proxy", proxy.url("").c_str(), 1);
    ::setenv("all_proxy", proxy.url("").c_str(), 1);
    const auto got = get({server.url("/a")});
    ::unsetenv("http_proxy");
    ::unsetenv("all_proxy");
    expect_content(got, server.url("/a"));
    EXPECT_TRUE(proxy.requests().empty());
}

TEST_F(FetchTest, plain_http_leads_to_this_machine_alone_where_only_private_addresses_are_allowed) {
    options.limits.connect_ms = 200;
    options.limits.tries = 1;
    expect_refused(get({"http://10.0.0.1/a"}), kForbiddenAddress);
}

TEST_F(FetchTest, a_signed_request_is_followed_nowhere) {
    OddServer other([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    bool redirects = false;
    OddServer server([&](const std::string& request, const OddServer::Connection& connection) {
        if (redirects) connection.send(head(307, 0, "Location: " + other.url("/b") + "\r\n"));
        if (!redirects) answer_well(content, request, connection);
    });
    options.schemes = {Scheme::s3};
    options.s3 = {server.url(""), "here", "KEYID", "a-secret", "a-token"};
    expect_content(get({"s3://bucket/key"}), "s3://bucket/key");
    const std::string request = server.requests()[0];
    EXPECT_NE(request.find("x-amz-security-token: a-token\r\n"), std::string::npos) << request;
    EXPECT_NE(request.find("Credential=KEYID/"), std::string::npos) << request;
    EXPECT_EQ(request.find("a-secret"), std::string::npos) << request;
    std::filesystem::remove_all(directory + "/store");
    redirects = true;
    expect_refused(get({"s3://bucket/key"}), "transfer.refused");
    EXPECT_TRUE(other.requests().empty());
}

TEST_F(FetchTest, skips_no_more_of_a_redirects_body_than_it_may_have) {
    std::atomic<std::size_t> sent{0};
    OddServer server([&](const std::string&, const OddServer::Connection& connection) {
        bool listens = connection.send("HTTP/1.1 302 x\r\nLocation: /b\r\nContent-Length: 1000000000000\r\n\r\n");
        for (const std::string piece(1U << 16, 'x'); listens && sent < (64U << 20); sent += piece.size())
            listens = connection.send(piece);
    });
    expect_refused(get({server.url("/a")}), kBadRedirect);
    EXPECT_LT(sent, 32U << 20);
}

// Of plain HTTP that is allowed by itself, since only then an address but this machine's is thought of.
TEST_F(FetchTest, connects_to_no_private_address_unless_allowed) {
    OddServer server([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    const std::string port = server.url("").substr(server.url("").rfind(':'));
    options.schemes.insert(Scheme::http);
    options.private_addresses = false;
    options.limits.tries = 1;
    for (const std::string host :
         {"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0", "[::ffff:127.0.0.1]"})
        expect_refused(get({"http://" + host + port + "/a"}), kForbiddenAddress);
    EXPECT_TRUE(server.requests().empty());
    options.private_addresses = true;
    expect_content(get({"http://localhost" + port + "/a"}), "http://localhost" + port + "/a");
}

TEST_F(FetchTest, nothing_comes_by_a_scheme_that_is_not_allowed) {
    const std::string file = local("allowed/data.u8", content);
    options.schemes = {Scheme::https};
    expect_refused(get({file}), "transfer.scheme_not_allowed");
    expect_refused(get({"s3://bucket/data.u8"}), "transfer.scheme_not_allowed");
    options.private_addresses = false;
    expect_refused(get({"http://127.0.0.1/a"}), "transfer.scheme_not_allowed");
    options.schemes = {Scheme::ipfs};
    expect_refused(get({"ipfs://" + std::string(59, 'b') + "/a"}), "transfer.no_gateway");
    expect_refused(get({}), "transfer.no_source");
}

TEST_F(FetchTest, asks_a_gateway_for_what_lies_at_ipfs) {
    const std::string cid(59, 'b');
    OddServer gateway([&](const std::string& request, const OddServer::Connection& connection) {
        const std::size_t first = range_of(request);
        if (!request.starts_with("GET /ipfs/" + cid + "/set%201/data.u8 HTTP/1.1\r\n")) {
            connection.send(head(404, 0));
        } else if (first == 0) {  // breaks off
            connection.send(head(200, content.size()) + content.substr(0, 100'000));
        } else {
            connection.send(part_head(first, content.size()) + content.substr(first));
        }
    });
    options.schemes = {Scheme::ipfs};
    options.private_addresses = false;  // the operator has named the gateway, wherever it lies
    options.ipfs_gateway = gateway.url("");
    const std::string uri = "ipfs://" + cid + "/set%201/data.u8";
    expect_content(get({uri}), uri);
    const auto requests = gateway.requests();
    ASSERT_EQ(requests.size(), 2U);
    EXPECT_EQ(range_of(requests[1]), 100'000U) << "it goes on by ranges";
    EXPECT_NE(requests[0].find("\r\nHost: " + gateway.url("").substr(7) + "\r\n"), std::string::npos);
    // A CID says nothing of the content's own id, which decides.
    content[5] = static_cast<char>(content[5] ^ 1);
    std::filesystem::remove_all(directory + "/store");
    expect_refused(get({uri}), "content.id_mismatch");
}

TEST_F(FetchTest, goes_nowhere_else_by_a_gateways_redirect) {
    OddServer other([&](const auto& request, const auto& connection) { answer_well(content, request, connection); });
    OddServer gateway([&](const std::string&, const OddServer::Connection& connection) {
        connection.send(head(302, 0, "Location: " + other.url("/data") + "\r\n"));
    });
    options.schemes = {Scheme::ipfs};
    options.ipfs_gateway = gateway.url("");
    expect_refused(get({"ipfs://" + std::string(59, 'b')}), "transfer.refused");
    EXPECT_TRUE(other.requests().empty());
}

TEST_F(FetchTest, files_lie_below_the_allowed_directories) {
    const std::string inside = local("allowed/data.u8", content);
    const std::string outside = local("secret.u8", content);
    std::filesystem::create_symlink(directory + "/secret.u8", directory + "/allowed/link.u8");
    std::filesystem::create_directories(directory + "/allowed-not");
    const std::string beside = local("allowed-not/data.u8", content);
    ASSERT_EQ(::mkfifo((directory + "/allowed/pipe").c_str(), 0600), 0);
    for (const std::string& uri : {outside, beside, "file://" + directory + "/allowed/link.u8",
                                   std::string("file:///etc/hostname"), "file://" + directory + "/allowed/none"})
        expect_refused(get({uri}), "transfer.outside_directories");
    for (const char* name : {"/allowed/pipe", "/allowed/sub"}) {
        std::filesystem::create_directories(directory + "/allowed/sub");
        expect_refused(get({"file://" + directory + name}), "transfer.not_a_file");
    }
    expect_content(get({inside}), inside);
}

TEST_F(FetchTest, says_which_uri_is_which_contents) {
    const std::string id = to_hex(wanted.id);
    const std::string other(64, '1');
    const auto sources = sources_of(
        {"https://a/data#" + other, "https://b/data#" + id, "nonsense", "s3://bucket/sets/", "https://c/data.u8"},
        wanted);
    ASSERT_EQ(sources.size(), 3U);
    EXPECT_EQ(sources[0].shown(), "https://b/data");
    EXPECT_EQ(sources[1].shown(), "s3://bucket/sets/" + id);
    EXPECT_EQ(sources[2].shown(), "https://c/data.u8");
    Wanted program = wanted;
    program.is_plain = false;
    EXPECT_EQ(sources_of({"https://c/data.u8"}, program).size(), 0U);
}

TEST(ContentRange, is_read_strictly) {
    const auto range = parse_content_range("bytes 3-5/10");
    ASSERT_TRUE(range);
    EXPECT_EQ(range->first, 3U);
    EXPECT_EQ(range->last, 5U);
    EXPECT_EQ(range->total, 10U);
    EXPECT_FALSE(parse_content_range("bytes 0-0/*")->total);
    for (const char* text : {"", "bytes", "bytes 5-3/10", "bytes 3-10/10", "bytes -5/10", "bytes 3-/10", "bytes a-b/c",
                             "bytes 3-5", "bytes 3-5/", "octets 3-5/10", "bytes 3-5/10x", "bytes +3-5/10",
                             "bytes 99999999999999999999-5/10", "bytes */10"})
        EXPECT_FALSE(parse_content_range(text)) << text;
}

class DeliverTest : public FetchTest {
protected:
    // Stores what is PUT; gives it as `reads` says.
    void serve(const std::string& request, const OddServer::Connection& connection) {
        if (request.starts_with("GET ")) {
            if (reads_back == 200)
                connection.send(head(stored.empty() ? 404 : 200, stored.size()) + stored);
            else
                connection.send(head(reads_back, 0));
            return;
        }
        if (failures > 0) {
            --failures;
            connection.send(head(503, 0));
            return;
        }
        const std::size_t length = std::stoul(request.substr(request.find("Content-Length: ") + 16));
        std::string body = request.substr(request.find("\r\n\r\n") + 4);
        if (request.find("Expect: 100-continue") != std::string::npos) connection.send("HTTP/1.1 100 x\r\n\r\n");
        while (body.size() < length) {
            const std::string more = connection.receive(1U << 16);
            if (more.empty()) return;
            body += more;
        }
        stored = body;
        if (spoils) stored[0] ^= 1;
        connection.send(head(201, 0));
    }
    std::string file() {
        (void)local("out.safetensors", content);
        return directory + "/out.safetensors";
    }
    std::string stored;
    std::atomic<int> failures{0};
    std::atomic<bool> spoils{false};
    std::atomic<unsigned> reads_back{200};
};

TEST_F(DeliverTest, brings_a_file_and_reads_it_back) {
    OddServer server([&](const auto& request, const auto& connection) { serve(request, connection); });
    failures = 2;
    const auto done = deliver(file(), server.url("/results/"), options);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(stored, content);
    EXPECT_EQ(done->shown, server.url("/results/out.safetensors"));
    EXPECT_EQ(done->id, wanted.id);
    EXPECT_TRUE(done->verified);
    EXPECT_FALSE(done->before);
    const std::size_t requests = server.requests().size();
    const auto again = deliver(file(), server.url("/results/"), options);
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->before);
    EXPECT_EQ(server.requests().size(), requests + 1) << "it is not sent again";
}

TEST_F(DeliverTest, tells_what_was_not_delivered) {
    OddServer server([&](const auto& request, const auto& connection) { serve(request, connection); });
    spoils = true;
    EXPECT_EQ(deliver(file(), server.url("/a"), options).error().name, "transfer.not_delivered");
    spoils = false;
    reads_back = 403;  // may be written, and not read
    const auto hidden = deliver(file(), server.url("/a?X-Amz-Signature=topsecret"), options);
    ASSERT_TRUE(hidden) << hidden.error().to_string();
    EXPECT_FALSE(hidden->verified);
    EXPECT_EQ(hidden->shown.find("topsecret"), std::string::npos);
    failures = 100;
    const auto failed = deliver(file(), server.url("/a?X-Amz-Signature=topsecret"), options);
    EXPECT_EQ(failed.error().name, kBroken);
    EXPECT_EQ(failed.error().to_string().find("topsecret"), std::string::npos);
}

TEST_F(DeliverTest, looks_at_a_target_before_anything_is_paid) {
    EXPECT_EQ(check_target("s3://bucket/key", options).error().name, "transfer.no_credentials");
    options.s3.key_id = "ID";
    EXPECT_TRUE(check_target("s3://bucket/key", options));
    EXPECT_EQ(check_target("http://example.org/a", options).error().name, "transfer.insecure");
    EXPECT_EQ(check_target("http://127.example.org.evil/a", options).error().name, "transfer.insecure");
    EXPECT_EQ(check_target("file:///tmp/a", options).error().name, "transfer.not_writable");
    EXPECT_EQ(check_target("https://example.org/a#" + std::string(64, 'a'), options).error().name, "uri.bad");
    EXPECT_TRUE(check_target("https://example.org/a", options));
}

}  // namespace
}  // namespace quern::compute::transfer
