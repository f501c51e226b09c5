// Contents between two quernd processes at the ends of a line of 1 Gbit/s: as the node fetches a large one, and as a
// worker has a state of many slots. Beside one TCP connection over the same line.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <latch>
#include <thread>

#include "base/rng.h"
#include "bench/cases.h"
#include "bench/local_network.h"
#include "bench/market_task.h"
#include "bench/transfers.h"
#include "compute/worker/task_inputs.h"

namespace quern::bench {
namespace {

using namespace compute::worker;
namespace tensor = vm::tensor;

// Large packets, as in a machine hall: the two processors that play the line besides have 14,000 of them a second.
constexpr LinkShape kLine{1'000, 2, 50, 9'000};
constexpr std::size_t kContent = 128U << 20;
constexpr int kFetches = 3;  // and one before, in which the sender learns its rate
constexpr std::size_t kPiece = 256U << 10;
constexpr std::uint16_t kPort = 7'000;
constexpr double kPatience = 120;

double rate_of(double seconds, double bytes) { return bytes / 1e6 / seconds; }

// Seconds until all of `bytes` has come from side 0 to side 1.
double copy_over_tcp(const ShapedLink& link, std::size_t bytes) {
    double taken = 0;
    std::latch listens(1);
    std::thread receiver([&] {
        link.run_in(1, [&] {
            const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            const int on = 1;
            ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_port = htons(kPort);
            if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
                ::listen(listener, 1) != 0)
                give_up("no socket");
            listens.count_down();
            const int in = ::accept(listener, nullptr, nullptr);
            const double start = steady_seconds();
            Bytes into(kPiece);
            for (std::size_t at = 0; at < bytes;) {
                const ssize_t got = ::recv(in, into.data(), into.size(), 0);
                if (got <= 0) give_up("the connection ends");
                at += static_cast<std::size_t>(got);
            }
            taken = steady_seconds() - start;
            ::close(in);
            ::close(listener);
        });
    });
    link.run_in(0, [&] {
        listens.wait();
        const int out = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(kPort);
        ::inet_pton(AF_INET, ShapedLink::address(1).c_str(), &address.sin_addr);
        if (::connect(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) give_up("no connection");
        const Bytes piece(kPiece, 7);
        for (std::size_t at = 0; at < bytes;) {
            const ssize_t sent = ::send(out, piece.data(), std::min(piece.size(), bytes - at), MSG_NOSIGNAL);
            if (sent <= 0) give_up("the connection ends");
            at += static_cast<std::size_t>(sent);
        }
        receiver.join();
        ::close(out);
    });
    return taken;
}

// Asks again while the content is on its way, as workers do.
template <class Ask>
double seconds_until(const Ask& ask) {
    const double start = steady_seconds();
    while (true) {
        const auto answer = ask();
        if (answer) return steady_seconds() - start;
        if (!answer.error().is_busy()) give_up("not fetched: " + answer.error().to_string());
        if (steady_seconds() - start > kPatience) give_up("a fetch comes to no end");
    }
}

struct Fetches {
    std::vector<double> content;
    std::vector<double> state;
    std::vector<double> tcp;  // as many bytes as the content's
    double state_bytes = 0;
    std::size_t slots = 0;
};

Fetches fetch_over(const ShapedLink& link, const std::string& folder) {
    const LocalNetwork network(folder, devnet_genesis({}), load_keys({1'000'000, 1'000'001}), &link);
    const MarketTask task = market_task(architecture_of(kModels[0]), 1, 1, 1'000'000);
    const tensor::Program& program = task.programs.any();
    // Slots of zeros are not sent: all are of a state that was trained.
    tensor::State state = task.init;
    SeededRng rng(24);
    for (tensor::Tensor& slot : state)
        for (std::uint32_t& word : slot.words) word = static_cast<std::uint32_t>(rng.below(std::uint64_t{1} << 32));
    const std::vector<Hash32> roots = tensor::slot_roots(state);
    const Hash32 state_root = tensor::state_root(roots);
    Bytes bytes(kContent);
    rng.fill(bytes);
    Hash32 content;
    Hash32 state_content;
    link.run_in(0, [&] {
        NodeClient node("127.0.0.1", network.rpc_port(0), network.credentials(0));
        content = must(node.put_content(bytes), "content");
        state_content = put_state(program, state, roots, node);
    });
    Fetches out;
    out.state_bytes = static_cast<double>(sent_bytes(program, roots));
    out.slots = roots.size();
    std::vector<Hash32> parts = roots;
    parts.push_back(state_content);
    link.run_in(1, [&] {
        NodeClient node("127.0.0.1", network.rpc_port(1), network.credentials(1));
        for (int i = 0; i <= kFetches; ++i) {
            const double whole = seconds_until([&] { return node.read_content(content, 0, 1); });
            InputStore inputs{InputLimits{}};
            const double slots = seconds_until([&] {
                return inputs.checkpoint(node, program, {state_content, state_root});
            });
            (void)must(node.drop_contents(parts), "room");
            (void)must(node.drop_contents(std::array{content}), "room");
            const double tcp = copy_over_tcp(link, kContent);
            if (i == 0) continue;
            out.content.push_back(whole);
            out.state.push_back(slots);
            out.tcp.push_back(tcp);
        }
    });
    return out;
}

}  // namespace

void bench_line(Bench& bench) {
    const auto link = ShapedLink::make(kLine);
    if (!link) {
        std::fprintf(stderr, "  skipped: %s\n", link.error().to_string().c_str());
        return;
    }
    const Fetches fetches = fetch_over(**link, bench.settings().scratch + "/line");
    const Timing tcp = summarize(fetches.tcp);
    const auto add = [&](const std::string& name, const Timing& timing, double size, const std::string& note) {
        const double reference = rate_of(tcp.median, kContent);
        bench.add({name, rate_of(timing.median, size), "MB/s", rate_of(timing.high, size), rate_of(timing.low, size),
                   Reference{"one TCP connection over the same line", reference}, 0, note});
    };
    const std::string line = text_of("1 Gbit/s, %.0f ms each way", kLine.one_way_ms);
    add("content of 128 MiB from another node, " + line, summarize(fetches.content), kContent, {});
    add("state that a worker has from another node, " + line, summarize(fetches.state), fetches.state_bytes,
        text_of("%.0f MB, ", fetches.state_bytes / 1e6) + std::to_string(fetches.slots) + " slots");
}

}  // namespace quern::bench
