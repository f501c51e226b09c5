// How long a vote takes while bulk data fill the uplink that it leaves by: the node's own network (two connections,
// scheduling before the kernel, pacing) against the plain way, one TCP connection that carries both.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/rng.h"
#include "bench/cases.h"
#include "bench/quiet_handler.h"
#include "bench/shaped_link.h"

namespace quern::bench {
namespace {

using namespace p2p;

constexpr std::size_t kVoteBytes = 180;
constexpr std::size_t kChunk = 64U << 10;
constexpr std::size_t kContent = 96U << 20;  // more than the link carries in kSeconds
constexpr double kSettleSeconds = 3;         // before votes are counted: buffers fill, the pacing learns
constexpr double kSeconds = 6;
constexpr double kVoteEvery = 0.02;

struct Latencies {
    std::vector<double> seconds;
    double bulk_bytes_per_second = 0;

    [[nodiscard]] double quantile(double q) {
        if (seconds.empty()) give_up("no vote arrived");
        std::sort(seconds.begin(), seconds.end());
        return seconds[static_cast<std::size_t>(q * static_cast<double>(seconds.size() - 1))];
    }
};

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// --- The node's network ----------------------------------------------------------------------------------------------
struct VoteHandler final : QuietHandler {
    std::mutex mutex;
    std::vector<double> latencies;  // guarded by mutex
    double count_from = 0;          // guarded by mutex

    void consensus(const Bytes20&, Bytes envelope) override {
        double sent = 0;
        if (envelope.size() != kVoteBytes) return;
        std::memcpy(&sent, envelope.data(), sizeof sent);
        const std::lock_guard lock(mutex);
        if (sent >= count_from) latencies.push_back(steady_seconds() - sent);
    }
};

std::uint64_t bytes_received(const Network& network) {
    std::uint64_t bytes = 0;
    for (const auto& peer : network.status().peers) bytes += peer.bytes_in;
    return bytes;
}

Latencies over_network(const ShapedLink& link, const std::string& folder, bool with_bulk, std::uint64_t bulk_rate = 0) {
    SeededRng rng(21);
    const auto key_a = crypto::PrivateKey::generate(rng);
    const auto key_b = crypto::PrivateKey::generate(rng);
    const auto store_a = must(content::Store::open({.root = folder + "/a"}), "store");
    const auto store_b = must(content::Store::open({.root = folder + "/b"}), "store");
    Bytes content(kContent);
    rng.fill(content);
    const Hash32 id = must(store_a->put(content), "content");

    VoteHandler handler_a;
    VoteHandler handler_b;
    NetworkOptions options;
    options.local_network = true;
    options.chain_id = 7878;
    options.bulk_bytes_per_second = bulk_rate;
    options.contents = store_a.get();
    options.listen_host = ShapedLink::address(0);
    std::unique_ptr<Network> a;
    std::unique_ptr<Network> b;
    link.run_in(0, [&] { a = must(Network::start(options, key_a, handler_a), "network"); });
    options.static_peers = {{a->address(), {ShapedLink::address(0), a->port()}}};
    options.contents = store_b.get();
    options.listen_host = ShapedLink::address(1);
    link.run_in(1, [&] { b = must(Network::start(options, key_b, handler_b), "network"); });
    const std::set<Bytes20> committee{a->address(), b->address()};
    a->set_committee(committee);
    b->set_committee(committee);
    for (int i = 0; i < 500 && (a->peer_count() != 1 || b->peer_count() != 1); ++i) sleep_for(0.01);
    if (b->peer_count() != 1) give_up("the two nodes do not meet");

    if (with_bulk) b->fetch_content(id, [](Status) {});
    const double settle = with_bulk ? kSettleSeconds : 0.2;
    const double start = steady_seconds();
    {
        const std::lock_guard lock(handler_b.mutex);
        handler_b.count_from = start + settle;
    }
    std::uint64_t before = 0;
    bool counting = false;
    while (steady_seconds() < start + settle + kSeconds) {
        if (!counting && steady_seconds() >= start + settle) {
            counting = true;
            before = bytes_received(*b);
        }
        Bytes vote(kVoteBytes);
        const double now = steady_seconds();
        std::memcpy(vote.data(), &now, sizeof now);
        a->send_consensus_to(b->address(), std::move(vote));
        sleep_for(kVoteEvery);
    }
    Latencies result;
    result.bulk_bytes_per_second = static_cast<double>(bytes_received(*b) - before) / kSeconds;
    sleep_for(0.3);  // the last votes arrive
    b->cancel_fetch(id);
    b.reset();
    a.reset();
    result.seconds = handler_b.latencies;
    return result;
}

// --- One connection --------------------------------------------------------------------------------------------------
class Socket {
public:
    explicit Socket(int number) : number_(number) {
        if (number_ < 0) give_up("no socket");
    }
    ~Socket() { ::close(number_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    [[nodiscard]] int get() const { return number_; }
    [[nodiscard]] bool write_all(const void* data, std::size_t size) const {
        for (std::size_t done = 0; done < size;) {
            const ssize_t sent = ::send(number_, static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
            if (sent <= 0) return false;
            done += static_cast<std::size_t>(sent);
        }
        return true;
    }
    [[nodiscard]] bool read_all(void* data, std::size_t size) const {
        return ::recv(number_, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
    }

private:
    int number_;
};

struct Header {
    double sent = 0;  // of a vote; 0: a bulk chunk
    std::uint64_t size = 0;
};

// Votes are written as soon as they are due, between chunks: the best that one connection can do.
Latencies over_one_connection(const ShapedLink& link) {
    std::unique_ptr<Socket> listener;
    std::unique_ptr<Socket> sender;
    std::unique_ptr<Socket> receiver;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, ShapedLink::address(1).c_str(), &address.sin_addr);
    socklen_t length = sizeof address;
    link.run_in(1, [&] {
        listener = std::make_unique<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::bind(listener->get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(listener->get(), 1) != 0 ||
            ::getsockname(listener->get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
            give_up("cannot listen on the link");
    });
    link.run_in(0, [&] {
        sender = std::make_unique<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int on = 1;
        ::setsockopt(sender->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (::connect(sender->get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            give_up("cannot connect over the link");
    });
    receiver = std::make_unique<Socket>(::accept(listener->get(), nullptr, nullptr));

    const double start = steady_seconds();
    const double count_from = start + kSettleSeconds;
    Latencies result;
    std::uint64_t bulk = 0;
    std::thread reader([&] {
        Bytes body(kChunk);
        Header header;
        while (receiver->read_all(&header, sizeof header) && receiver->read_all(body.data(), header.size)) {
            const double now = steady_seconds();
            if (header.sent == 0) {
                if (now >= count_from && now < count_from + kSeconds) bulk += header.size;
            } else if (header.sent >= count_from) {
                result.seconds.push_back(now - header.sent);
            }
        }
    });
    const Bytes chunk(kChunk, 7);
    double next_vote = start;
    while (steady_seconds() < count_from + kSeconds) {
        bool going = true;
        // A vote that came due while the last chunk was being written has waited since then.
        for (; going && next_vote <= steady_seconds(); next_vote += kVoteEvery) {
            const Header header{next_vote, kVoteBytes};
            going = sender->write_all(&header, sizeof header) && sender->write_all(chunk.data(), kVoteBytes);
        }
        const Header header{0, kChunk};
        if (!going || !sender->write_all(&header, sizeof header) || !sender->write_all(chunk.data(), kChunk))
            give_up("the link broke");
    }
    ::shutdown(sender->get(), SHUT_WR);
    reader.join();
    result.bulk_bytes_per_second = static_cast<double>(bulk) / kSeconds;
    return result;
}

std::string megabits(const Latencies& latencies) {
    return "bulk " + std::to_string(std::lround(latencies.bulk_bytes_per_second * 8 / 1e6)) + " Mbit/s";
}

}  // namespace

void bench_votes(Bench& bench) {
    const LinkShape shape;
    auto link = ShapedLink::make(shape);
    if (!link) {
        // Nothing else shapes a link here; a figure without the link would be no figure.
        std::fprintf(stderr, "  skipped: %s\n", link.error().to_string().c_str());
        return;
    }
    Latencies alone = over_network(**link, bench.settings().scratch + "/votes-alone", false);
    Latencies ours = over_network(**link, bench.settings().scratch + "/votes", true);
    // An operator who knows the uplink gives 85 % of it to bulk.
    Latencies given = over_network(**link, bench.settings().scratch + "/votes-given", true,
                                   static_cast<std::uint64_t>(shape.megabits * 0.85 * 1e6 / 8));
    Latencies plain = over_one_connection(**link);
    const char* reference = "one TCP connection for both";
    const auto row = [&](const char* name, Latencies& latencies, double q, std::string note) {
        bench.add({name, latencies.quantile(q) * 1e3, "ms", latencies.quantile(0.25) * 1e3,
                   latencies.quantile(0.75) * 1e3, Reference{reference, plain.quantile(q) * 1e3}, 0, std::move(note)});
    };
    row("vote over 100 Mbit/s and 10 ms, nothing else sent: p50", alone, 0.5, {});
    row("vote beside bulk, its rate learned: p50", ours, 0.5, megabits(ours));
    row("vote beside bulk, its rate learned: p99", ours, 0.99, megabits(ours));
    row("vote beside bulk, its rate given as 85 %: p50", given, 0.5, megabits(given));
    row("vote beside bulk, its rate given as 85 %: p99", given, 0.99, megabits(given));
    bench.add({"bulk throughput beside the votes, its rate learned",
               ours.bulk_bytes_per_second * 8 / 1e6,
               "Mbit/s",
               0,
               0,
               Reference{reference, plain.bulk_bytes_per_second * 8 / 1e6},
               0,
               {}});
}

}  // namespace quern::bench
