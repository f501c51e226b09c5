#include "compute/worker/uri_fetcher.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/fs.h"
#include "content_node.h"

namespace quern::compute::worker {
namespace {

using namespace test;

class UriFetcherTest : public testing::Test {
protected:
    UriFetcherTest() {
        std::filesystem::remove_all(directory);
        std::filesystem::create_directories(directory + "/data");
        options.transfer.schemes = {transfer::Scheme::file};
        options.transfer.directories = {directory + "/data"};
        options.directory = directory + "/sources";
        task.id = 7;
        task.spec.contents.uris = {"file://" + directory + "/data/"};
    }
    ~UriFetcherTest() override { std::filesystem::remove_all(directory); }

    // In the folder that the task's uri names.
    WantedContent lay(const std::string& text) {
        const Hash32 id = crypto::content_id_of(as_bytes(text));
        std::ofstream(directory + "/data/" + to_hex(id), std::ios::binary) << text;
        return {id, text.size(), 0, false};
    }
    std::unique_ptr<UriFetcher> fetcher() {
        return std::make_unique<UriFetcher>(
            options, [this] { return std::make_unique<ContentNode>(node); }, clock);
    }
    bool has(const Hash32& id) {
        const MutexLock lock(node.mutex);
        return node.files.contains(id);
    }
    // Until it is no longer on its way.
    void await(UriFetcher& from, const WantedContent& content) {
        for (int i = 0; i < 1'000 && from.fetches(task, content, Duty::bound); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }

    const std::string directory = "/tmp/quern-uris-" + std::to_string(::getpid());
    UriOptions options;
    ManualClock clock;
    Contents node;
    chain::types::Task task;
};

TEST_F(UriFetcherTest, brings_a_content_into_the_nodes_store) {
    const WantedContent content = lay(std::string(100'000, 'x'));
    const auto fetcher = this->fetcher();
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::voluntary));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
    EXPECT_TRUE(std::filesystem::is_empty(options.directory));
}

TEST_F(UriFetcherTest, asks_again_later_when_it_was_in_vain) {
    WantedContent content = lay("text");
    std::filesystem::remove(directory + "/data/" + to_hex(content.id));
    const auto fetcher = this->fetcher();
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_FALSE(fetcher->fetches(task, content, Duty::bound)) << "it was in vain just now";
    lay("text");
    clock.advance(kUriAgainMs);
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
}

TEST_F(UriFetcherTest, fetches_nothing_that_is_not_allowed_or_too_large) {
    const WantedContent content = lay("some text");
    options.max_bytes = 8;
    EXPECT_FALSE(fetcher()->fetches(task, content, Duty::bound));
    options.max_bytes = 9;
    EXPECT_TRUE(fetcher()->fetches(task, content, Duty::bound));
    options.transfer.schemes = {transfer::Scheme::https};
    EXPECT_FALSE(fetcher()->fetches(task, content, Duty::bound));
    options.transfer.schemes = {};
    EXPECT_FALSE(fetcher()->fetches(task, content, Duty::bound));
    options.transfer.schemes = {transfer::Scheme::file};
    task.spec.contents.uris = {"nonsense", "file://" + directory + "/data/other"};
    EXPECT_FALSE(fetcher()->fetches(task, content, Duty::bound)) << "none of them is this content's";
}

TEST_F(UriFetcherTest, keeps_what_the_node_refuses_and_sends_it_again) {
    const WantedContent content = lay("kept");
    std::atomic<bool> refuses{true};
    node.when_put = [&]() -> Status {
        if (refuses) return fail("content.upload_refused");
        return {};
    };
    const auto fetcher = this->fetcher();
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(fs::exists(options.directory + "/" + to_hex(content.id)));
    std::filesystem::remove(directory + "/data/" + to_hex(content.id));
    refuses = false;
    clock.advance(kUriAgainMs);
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
}

TEST_F(UriFetcherTest, parts_that_nobody_fetches_make_room_the_oldest_first) {
    std::filesystem::create_directories(options.directory);
    const auto now = std::filesystem::file_time_type::clock::now();
    for (const int age : {1, 2, 3}) {
        const std::string path = options.directory + "/" + std::string(64, static_cast<char>('0' + age)) + ".part";
        std::ofstream(path) << std::string(100, 'p');
        std::filesystem::last_write_time(path, now - std::chrono::hours(age));
    }
    options.max_bytes = 250;
    const WantedContent content = lay(std::string(100, 'x'));
    const auto fetcher = this->fetcher();
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
    EXPECT_TRUE(fs::exists(options.directory + "/" + std::string(64, '1') + ".part"));
    EXPECT_FALSE(fs::exists(options.directory + "/" + std::string(64, '2') + ".part"));
    EXPECT_FALSE(fs::exists(options.directory + "/" + std::string(64, '3') + ".part"));
}

TEST_F(UriFetcherTest, parts_that_nobody_fetches_make_room_where_the_disk_is_full) {
    std::filesystem::create_directories(options.directory);
    const std::string old = options.directory + "/" + std::string(64, '1') + ".part";
    std::ofstream(old) << std::string(80, 'p');
    options.available = [](const std::string&) { return kUriFreeBytes + 50; };
    const WantedContent content = lay(std::string(100, 'x'));
    const auto fetcher = this->fetcher();
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
    EXPECT_FALSE(fs::exists(old));
    const WantedContent larger = lay(std::string(101, 'y'));
    std::ofstream(old) << std::string(50, 'p');
    EXPECT_TRUE(fetcher->fetches(task, larger, Duty::bound));
    await(*fetcher, larger);
    EXPECT_FALSE(has(larger.id));
    EXPECT_TRUE(fs::exists(old)) << "it would not be enough";
}

// While one of 100 bytes has not begun another does not either.
class RoomForOne : public UriFetcherTest {
protected:
    void expect_one_after_the_other() {
        const WantedContent first = lay(std::string(100, 'x'));
        const WantedContent second = lay(std::string(100, 'y'));
        std::atomic<int> connected{0};
        std::atomic<bool> goes_on{false};
        UriFetcher fetcher(
            options,
            [&] {
                if (++connected == 1)
                    while (!goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                return std::make_unique<ContentNode>(node);
            },
            clock);
        EXPECT_TRUE(fetcher.fetches(task, first, Duty::bound));
        while (connected == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        chain::types::Task other = task;
        other.id = 8;
        EXPECT_TRUE(fetcher.fetches(other, second, Duty::bound));
        for (int i = 0; i < 1'000 && fetcher.fetches(other, second, Duty::bound); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_FALSE(has(second.id));
        goes_on = true;
        await(fetcher, first);
        EXPECT_TRUE(has(first.id));
    }
};

TEST_F(RoomForOne, on_the_disk) {
    options.available = [](const std::string&) { return kUriFreeBytes + 150; };
    expect_one_after_the_other();
}

TEST_F(RoomForOne, that_is_allowed) {
    options.max_bytes = 150;
    expect_one_after_the_other();
}

// A server that takes connections and says nothing.
class SilentServer {
public:
    SilentServer() {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
        EXPECT_EQ(::listen(socket_, 8), 0);
        EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
        uri = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/";
    }
    SilentServer(const SilentServer&) = delete;
    SilentServer& operator=(const SilentServer&) = delete;
    ~SilentServer() { ::close(socket_); }

    std::string uri;

private:
    const int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

class SlowUris : public UriFetcherTest {
protected:
    SlowUris() {
        options.transfer.private_addresses = true;
        slow.id = 8;
        slow.spec.contents.uris = {server.uri};
    }

    SilentServer server;
    chain::types::Task slow;
    const WantedContent silent{crypto::content_id_of(as_bytes(std::string_view("silent"))), 200, 0, false};
};

TEST_F(SlowUris, make_room_to_what_the_worker_answers_for) {
    options.max_bytes = 250;
    const WantedContent content = lay(std::string(100, 'x'));
    const auto fetcher = this->fetcher();
    EXPECT_TRUE(fetcher->fetches(slow, silent, Duty::voluntary));
    while (!fs::exists(options.directory + "/" + to_hex(silent.id) + ".part"))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
}

TEST_F(SlowUris, end_when_nobody_asks_for_them_any_more) {
    const WantedContent content = lay(std::string(100, 'x'));
    task.id = slow.id;  // of which one is fetched at once
    const auto fetcher = this->fetcher();
    EXPECT_TRUE(fetcher->fetches(slow, silent, Duty::bound));
    while (!fs::exists(options.directory + "/" + to_hex(silent.id) + ".part"))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    clock.advance(kUriForgottenMs + 1);
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
}

TEST_F(SlowUris, are_one_of_a_task_for_as_long_as_somebody_asks_for_them) {
    const WantedContent content = lay(std::string(100, 'x'));
    slow.spec.contents.uris = {task.spec.contents.uris[0], server.uri};
    const auto fetcher = this->fetcher();
    const auto soon = [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return has(content.id);
    };
    EXPECT_TRUE(fetcher->fetches(slow, silent, Duty::bound));
    while (!fs::exists(options.directory + "/" + to_hex(silent.id) + ".part"))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(fetcher->fetches(slow, content, Duty::bound));
    EXPECT_FALSE(soon());
    clock.advance(kUriForgottenMs);
    EXPECT_TRUE(fetcher->fetches(slow, silent, Duty::bound));
    clock.advance(2);
    EXPECT_FALSE(soon());
    clock.advance(kUriForgottenMs);
    EXPECT_TRUE(fetcher->fetches(slow, content, Duty::bound));
    for (int i = 0; i < 500 && fetcher->fetches(slow, content, Duty::bound); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(has(content.id));
}

TEST_F(SlowUris, leave_a_fetcher_to_what_the_worker_answers_for) {
    const WantedContent content = lay(std::string(100, 'x'));
    const auto fetcher = this->fetcher();
    for (std::size_t i = 0; i < kVoluntaryUriFetchers; ++i, ++slow.id)
        EXPECT_TRUE(
            fetcher->fetches(slow, {crypto::content_id_of(as_bytes(std::to_string(i))), 1, 0, false}, Duty::voluntary));
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::voluntary));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_FALSE(has(content.id));
    await(*fetcher, content);  // who is bound now
    EXPECT_TRUE(has(content.id));
}

TEST_F(SlowUris, leave_their_places_to_what_the_worker_answers_for) {
    const auto fetcher = this->fetcher();
    for (std::size_t i = 0; i < kMaxUriJobs; ++i)
        EXPECT_TRUE(
            fetcher->fetches(slow, {crypto::content_id_of(as_bytes(std::to_string(i))), 1, 0, false}, Duty::voluntary));
    const WantedContent content = lay(std::string(100, 'x'));
    EXPECT_FALSE(fetcher->fetches(task, content, Duty::voluntary));
    EXPECT_TRUE(fetcher->fetches(task, content, Duty::bound));
    await(*fetcher, content);
    EXPECT_TRUE(has(content.id));
}

// What is put is what the list names, before the list.
class ShardNode final : public ContentNode {
public:
    ShardNode(Contents& contents, std::optional<Hash32>& list)
        : ContentNode(contents), contents_(contents), list_(list) {}
    Status put_shards(const crypto::ContentShards& given) override {
        const MutexLock lock(contents_.mutex);
        for (std::size_t i = 0; i < given.tops.size(); ++i)
            if (!contents_.files.contains(given.id_of(i))) return fail("content.incomplete");
        list_ = given.id();
        return {};
    }

private:
    Contents& contents_;
    std::optional<Hash32>& list_;
};

TEST_F(UriFetcherTest, a_large_content_comes_by_shard) {
    options.shard_level = 2;
    const std::string text(2 * crypto::content_shard_bytes(2) + 5, 'x');
    const WantedContent content = lay(text);
    std::optional<Hash32> list;
    UriFetcher fetcher(
        options, [&] { return std::make_unique<ShardNode>(node, list); }, clock);
    EXPECT_TRUE(fetcher.fetches(task, content, Duty::bound));
    await(fetcher, content);
    EXPECT_EQ(list, content.id);
    EXPECT_FALSE(has(content.id)) << "it is there by shard";
    EXPECT_EQ(node.files.size(), 2U) << "two of its three shards are the same";
}

}  // namespace
}  // namespace quern::compute::worker
