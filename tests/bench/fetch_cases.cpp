// A content from one node's network to another's: how fast, what it costs the thread that carries the votes, and what
// choosing the next chunk costs in large contents.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "base/rng.h"
#include "bench/cases.h"
#include "bench/quiet_handler.h"
#include "p2p/content_exchange/fetch_plan.h"

namespace quern::bench {
namespace {

using namespace p2p;
using content_exchange::FetchPlan;

constexpr std::size_t kMiB = 1U << 20;
constexpr std::size_t kContent = 256 * kMiB;
constexpr int kFetches = 5;
constexpr double kMiBs = static_cast<double>(kContent) / kMiB;
constexpr double kGigabit = 110e6 / kMiB;  // MiB/s that a line of 1 Gbit/s carries

// --- Planning --------------------------------------------------------------------------------------------------------
Bytes20 source(std::uint8_t number) {
    Bytes20 address;
    address.data[19] = number;
    return address;
}

// Seconds an arrival: its bookkeeping and the choice of what is asked next. Half of the sources have a part only, and
// nothing that is still wanted.
std::vector<double> planning(std::uint64_t size) {
    auto manifest = std::make_shared<content::Manifest>();
    manifest->size = size;
    manifest->leaves.resize(crypto::content_leaf_count(size));
    OsRng rng;
    FetchPlan plan(Hash32{}, rng, size);
    plan.set_manifest(std::move(manifest));
    for (std::uint64_t chunk = 0; chunk < 8; ++chunk) {
        plan.begin_check(chunk);
        plan.checked(chunk, std::nullopt, true);
    }
    Bytes part(plan.chunks() / 8);
    part[0] = 0xff;
    for (std::uint8_t i = 0; i < 8; ++i)
        must(plan.add_source(source(i), {{}, size, i % 2 == 0 ? Bytes() : part}, 0), "source");
    std::vector<FetchPlan::Ask> asked = plan.next_asks(0);
    std::vector<double> seconds;
    messages::Leaves answer{{}, 0, Bytes(kMiB)};
    constexpr int kArrivals = 1'000;
    for (int sample = 0; sample < 12; ++sample) {
        const double start = steady_seconds();
        for (int i = 0; i < kArrivals; ++i) {
            const FetchPlan::Ask ask = asked.front();
            asked.erase(asked.begin());
            answer.first = ask.request.first;
            const auto chunk = must(plan.received_leaves(ask.peer, answer, 1), "arrival");
            plan.checked(chunk.number, ask.peer, true);
            for (auto& next : plan.next_asks(1)) asked.push_back(next);
        }
        seconds.push_back((steady_seconds() - start) / kArrivals);
    }
    return seconds;
}

// --- Two nodes -------------------------------------------------------------------------------------------------------
// Tells the CPU time of its network's thread once it has seen a message.
struct ClockHandler final : QuietHandler {
    std::atomic<bool> known{false};
    clockid_t clock{};

    [[nodiscard]] double cpu_seconds() const {
        struct timespec time {};
        ::clock_gettime(clock, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
    }
    void consensus(const Bytes20&, Bytes) override {
        if (::pthread_getcpuclockid(::pthread_self(), &clock) == 0) known = true;
    }
};

void wait_until(const std::function<bool()>& condition, const char* what) {
    for (int i = 0; i < 60'000; ++i) {
        if (condition()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    give_up(std::string("in vain: ") + what);
}

struct Fetched {
    std::vector<double> seconds;
    std::vector<double> sender;  // CPU of the network's thread
    std::vector<double> receiver;
};

Fetched fetches(const std::string& folder, const Bytes& content, const std::vector<std::function<void()>>& between) {
    SeededRng rng(22);
    const auto key_a = crypto::PrivateKey::generate(rng);
    const auto key_b = crypto::PrivateKey::generate(rng);
    const auto store_a = must(content::Store::open({.root = folder + "/a"}), "store");
    const auto store_b = must(content::Store::open({.root = folder + "/b"}), "store");
    const Hash32 id = must(store_a->put(content), "content");
    ClockHandler handler_a;
    ClockHandler handler_b;
    NetworkOptions options;
    options.local_network = true;
    options.chain_id = 7878;
    options.listen_host = "127.0.0.1";
    options.contents = store_a.get();
    const auto a = must(Network::start(options, key_a, handler_a), "network");
    options.contents = store_b.get();
    options.static_peers = {{a->address(), {"127.0.0.1", a->port()}}};
    const auto b = must(Network::start(options, key_b, handler_b), "network");
    wait_until([&] { return a->peer_count() == 1 && b->peer_count() == 1; }, "the two nodes do not meet");
    a->send_consensus_to(b->address(), Bytes{1});
    b->send_consensus_to(a->address(), Bytes{1});
    wait_until([&] { return handler_a.known && handler_b.known; }, "a message");
    Fetched out;
    for (int i = 0; i <= kFetches; ++i) {
        for (const auto& each : between) each();
        std::atomic<int> done{0};
        const double start = steady_seconds();
        const double sender = handler_a.cpu_seconds();
        const double receiver = handler_b.cpu_seconds();
        b->fetch_content(id, [&](const Status& status) { done = status ? 1 : 2; });
        wait_until([&] { return done != 0; }, "the fetch does not end");
        if (done != 1) give_up("the fetch fails");
        const double seconds = steady_seconds() - start;
        must(store_b->remove(id), "remove");
        if (i == 0) continue;  // the sender's rate is learned meanwhile
        out.seconds.push_back(seconds);
        out.sender.push_back(handler_a.cpu_seconds() - sender);
        out.receiver.push_back(handler_b.cpu_seconds() - receiver);
    }
    return out;
}

// --- A plain connection ----------------------------------------------------------------------------------------------
void copy_over_tcp(const Bytes& content, Bytes& into) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 || ::listen(listener, 1) != 0 ||
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        give_up("no socket");
    std::thread sender([&] {
        const int out = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (::connect(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) give_up("no connection");
        for (std::size_t at = 0; at < content.size();) {
            const ssize_t sent =
                ::send(out, content.data() + at, std::min<std::size_t>(64U << 10, content.size() - at), MSG_NOSIGNAL);
            if (sent <= 0) give_up("the connection ends");
            at += static_cast<std::size_t>(sent);
        }
        ::close(out);
    });
    const int in = ::accept(listener, nullptr, nullptr);
    for (std::size_t at = 0; at < content.size();) {
        const ssize_t got = ::recv(in, into.data() + at, std::min<std::size_t>(64U << 10, content.size() - at), 0);
        if (got <= 0) give_up("the connection ends");
        at += static_cast<std::size_t>(got);
    }
    sender.join();
    ::close(in);
    ::close(listener);
}

}  // namespace

void bench_fetch(Bench& bench) {
    Bytes content(kContent);
    SeededRng rng(23);
    rng.fill(content);
    Bytes into(kContent);
    std::vector<double> hashing;
    std::vector<double> copying;
    const auto timed = [](std::vector<double>& into_list, const std::function<void()>& function) {
        const double start = steady_seconds();
        function();
        into_list.push_back(steady_seconds() - start);
    };
    const auto fetched = fetches(bench.settings().scratch, content,
                                 {[&] { timed(hashing, [&] { keep(crypto::sha256(content)); }); },
                                  [&] { timed(copying, [&] { copy_over_tcp(content, into); }); }});
    const Timing hash = summarize(hashing);
    const Timing copy = summarize(copying);
    const Timing whole = summarize(fetched.seconds);
    const Timing receiver = summarize(fetched.receiver);
    const Timing sender = summarize(fetched.sender);
    const char* hash_name = "SHA-256 of the same bytes, 1 thread";
    bench.add_time("fetch of 256 MiB on loopback, a MiB", whole, kMiBs, hash_name, &hash, kMiBs,
                   text_of("%.0f MB/s", static_cast<double>(kContent) / whole.median / 1e6));
    bench.add_time("fetch of 256 MiB on loopback, a MiB", whole, kMiBs, "the same bytes over one TCP connection", &copy,
                   kMiBs);
    bench.add_time("fetch: CPU of the receiver's network thread, a MiB", receiver, kMiBs, hash_name, &hash, kMiBs,
                   text_of("%.1f %% of it at 1 Gbit/s", receiver.median / kMiBs * kGigabit * 100));
    bench.add_time("fetch: CPU of the sender's network thread, a MiB", sender, kMiBs, hash_name, &hash, kMiBs,
                   text_of("%.1f %% of it at 1 Gbit/s", sender.median / kMiBs * kGigabit * 100));
    for (const std::uint64_t gib : {std::uint64_t{16}, std::uint64_t{80}}) {
        const Timing plan = summarize(planning(gib << 30));
        bench.add_time("fetch: planning a chunk of 1 MiB, 8 sources, content of " + std::to_string(gib) + " GiB", plan,
                       1, "SHA-256 of the chunk", &hash, kMiBs);
    }
}

}  // namespace quern::bench
