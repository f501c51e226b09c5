// How many transfers a second a network takes in and finalizes, and what one costs its nodes. Everything is signed and
// every request written out beforehand, so that the load costs little beside the nodes, which share the machine with
// it: first byte sent to last inclusion seen, over plain keep-alive connections.
#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "bench/cases.h"
#include "bench/local_network.h"
#include "bench/raw_connection.h"
#include "bench/transfers.h"
#include "rpc/client.h"

namespace quern::bench {
namespace {

namespace types = chain::types;

constexpr std::size_t kAccounts = 20'000;  // one transfer of each in a round
constexpr std::size_t kRounds = 4;         // the first warms up
constexpr std::size_t kBatch = 100;
constexpr std::size_t kConnections = 4;
constexpr std::size_t kSingleConnections = 16;
constexpr std::size_t kValidators = 4;
constexpr std::size_t kNewAccounts = 1'000'000;
constexpr double kHalfLoad = 3'000;  // transfers a second
constexpr double kPatience = 60;     // seconds without an inclusion
constexpr auto kPoll = std::chrono::milliseconds(2);

// Requests of `batch` transfers each; of one, outside a list.
std::vector<std::string> requests_of(const std::vector<Bytes>& transfers, std::size_t batch) {
    std::vector<std::string> requests;
    for (std::size_t at = 0; at < transfers.size(); at += batch) {
        std::string body;
        for (std::size_t i = at; i < std::min(at + batch, transfers.size()); ++i)
            body.append(body.empty() ? "" : ",")
                .append(R"({"jsonrpc":"2.0","id":)")
                .append(std::to_string(i))
                .append(R"(,"method":"eth_sendRawTransaction","params":[")")
                .append(to_hex0x(transfers[i]))
                .append("\"]}");
        requests.push_back(http_request(batch == 1 ? body : "[" + body + "]"));
    }
    return requests;
}

std::uint64_t hex_result(std::string_view body) {
    const std::size_t at = body.find(R"("result":"0x)");
    if (at == std::string_view::npos) give_up("the node gave no number: " + std::string(body.substr(0, 200)));
    return std::stoull(std::string(body.substr(at + 12)), nullptr, 16);
}

std::string hex_of(std::uint64_t number) {
    char text[20];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
    return text;
}

struct Round {
    double seconds = 0;
    double node_cpu = 0;  // of all nodes together
    double own_cpu = 0;
    double other_cpu = 0;  // of the rest of the machine
    std::uint64_t blocks = 0;
};

// One load on a running network. `rate`: transfers a second, or 0 for as many as it takes.
class Load {
public:
    explicit Load(const LocalNetwork& network) : network_(network), reader_(network.rpc_port(0)) {
        next_block_ = height() + 1;
    }

    Round run(const std::vector<Bytes>& transfers, std::size_t connections, std::size_t batch, double rate = 0) {
        const std::vector<std::string> requests = requests_of(transfers, batch);
        const double node_cpu = network_.cpu_seconds();
        const double own_cpu = own_cpu_seconds();
        const double machine_cpu = machine_cpu_seconds();
        std::latch ready(static_cast<std::ptrdiff_t>(connections) + 1);
        std::vector<std::thread> senders;
        std::atomic<double> start{0};
        for (std::size_t which = 0; which < connections; ++which)
            senders.emplace_back([&, which] {
                RawConnection connection(network_.rpc_port(which % network_.size()));
                ready.arrive_and_wait();
                for (std::size_t i = which; i < requests.size(); i += connections) {
                    if (rate > 0) {
                        const double due = start + static_cast<double>(i * batch) / rate;
                        std::this_thread::sleep_for(std::chrono::duration<double>(due - steady_seconds()));
                    }
                    connection.ask(requests[i]);
                }
            });
        start = steady_seconds();
        ready.arrive_and_wait();
        Round round;
        double heard = start;
        for (std::size_t included = 0; included < transfers.size();) {
            if (const std::size_t more = count_included(round)) {
                included += more;
                heard = steady_seconds();
            }
            if (steady_seconds() - heard > kPatience) give_up("no inclusions any more");
            if (included < transfers.size()) std::this_thread::sleep_for(kPoll);
        }
        round.seconds = steady_seconds() - start;
        for (auto& each : senders) each.join();
        round.node_cpu = network_.cpu_seconds() - node_cpu;
        round.own_cpu = own_cpu_seconds() - own_cpu;
        round.other_cpu = machine_cpu_seconds() - machine_cpu - round.node_cpu - round.own_cpu;
        return round;
    }

private:
    std::uint64_t height() {
        static const std::string request =
            http_request(R"({"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]})");
        return hex_result(reader_.ask(request));
    }
    std::size_t count_included(Round& round) {
        std::size_t included = 0;
        for (const std::uint64_t tip = height(); next_block_ <= tip; ++next_block_) {
            const auto count = hex_result(reader_.ask(
                http_request(R"({"jsonrpc":"2.0","id":1,"method":"eth_getBlockTransactionCountByNumber","params":[")" +
                             hex_of(next_block_) + "\"]}")));
            included += count;
            round.blocks += count != 0;
        }
        return included;
    }

    const LocalNetwork& network_;
    RawConnection reader_;
    std::uint64_t next_block_ = 0;
};

chain::exec::Genesis genesis_for(const std::vector<crypto::PrivateKey>& senders) {
    chain::exec::Genesis genesis;
    genesis.timestamp_ms = 1'700'000'000'000;
    for (const auto& key : senders)
        genesis.allocations.push_back(
            {crypto::address20(key), Uint256(1'000'000) * Uint256(chain::params::kGrainsPerQrn)});
    return genesis;
}

std::vector<crypto::PrivateKey> sender_keys() {
    std::vector<crypto::PrivateKey> keys;
    for (std::uint32_t i = 0; i < kAccounts; ++i) keys.push_back(load_key(i));
    return keys;
}

std::vector<crypto::PrivateKey> validator_keys(std::size_t count) {
    std::vector<crypto::PrivateKey> keys;
    for (std::uint32_t i = 0; i < count; ++i) keys.push_back(load_key(1'000'000 + i));
    return keys;
}

// One transfer of each account, to receivers[i].
std::vector<Bytes> round_of(const std::vector<crypto::PrivateKey>& senders, std::uint64_t nonce,
                            const std::vector<types::Address>& receivers) {
    std::vector<Bytes> transfers;
    for (std::size_t i = 0; i < senders.size(); ++i)
        transfers.push_back(signed_transfer(senders[i], nonce, receivers[i]));
    return transfers;
}

std::vector<types::Address> each_other(const std::vector<crypto::PrivateKey>& senders) {
    std::vector<types::Address> receivers;
    for (std::size_t i = 0; i < senders.size(); ++i)
        receivers.push_back(crypto::address20(senders[(i * 7'919 + 1) % senders.size()]));
    return receivers;
}

// After the load: each account has made as many transfers as were sent.
void check_nonces(const LocalNetwork& network, const std::vector<crypto::PrivateKey>& senders, std::uint64_t nonce) {
    rpc::Client client("127.0.0.1", network.rpc_port(0));
    for (std::size_t i = 0; i < senders.size(); i += 97) {
        const auto answer = must(client.call("eth_getTransactionCount",
                                             json::Value::array({to_hex0x(crypto::address20(senders[i])), "latest"})),
                                 "nonce");
        if (!answer || answer->as_string() != hex_of(nonce)) give_up("a transfer was not made");
    }
}

// The work that each node must do at least, a second and core: the measure of the machine.
double recoveries_a_second(Bench& bench) {
    std::vector<Bytes> encoded;
    for (std::uint32_t i = 0; i < 200; ++i) encoded.push_back(signed_transfer(load_key(i), 0, sink_address(0)));
    const Timing recovery = bench.time({[&] {
        for (const Bytes& each : encoded) keep(must(types::recover(each), "recover"));
    }})[0];
    return static_cast<double>(encoded.size()) / recovery.median;
}

void add_rows(Bench& bench, const std::string& name, const std::vector<Round>& rounds, double recoveries) {
    const double count = kAccounts;
    std::vector<double> seconds;
    std::vector<double> cpu;
    double blocks = 0;
    double wall = 0;
    double own = 0;
    double other = 0;
    for (const Round& round : rounds) {
        seconds.push_back(round.seconds / count);
        cpu.push_back(round.node_cpu / count);
        blocks += static_cast<double>(round.blocks);
        wall += round.seconds;
        own += round.own_cpu;
        other += round.other_cpu;
    }
    const Timing time = summarize(seconds);
    const char* reference = "decoding and recovering one by one";
    bench.add({name + "transfers a second", 1 / time.median, "1/s", 1 / time.high, 1 / time.low,
               Reference{reference, recoveries}, 0,
               text_of("%.0f a block, ", count * static_cast<double>(rounds.size()) / blocks) +
                   text_of("the load takes %.2f CPUs, ", own / wall) +
                   text_of("other programs %.2f", std::max(other, 0.0) / wall)});
    const Timing used = summarize(cpu);
    bench.add({name + "CPU of all nodes a transfer", used.median * 1e6, "µs", used.low * 1e6, used.high * 1e6,
               Reference{reference, 1e6 / recoveries}, 0, ""});
}

void measure_one(Bench& bench, const std::string& name, std::size_t connections, std::size_t batch) {
    const double recoveries = recoveries_a_second(bench);
    const auto senders = sender_keys();
    const auto receivers = each_other(senders);
    const LocalNetwork network(bench.settings().scratch + "/load-" + std::to_string(connections), genesis_for(senders),
                               validator_keys(1));
    Load load(network);
    std::vector<Round> rounds;
    for (std::size_t i = 0; i < kRounds; ++i)
        rounds.push_back(load.run(round_of(senders, i, receivers), connections, batch));
    check_nonces(network, senders, kRounds);
    rounds.erase(rounds.begin());
    add_rows(bench, name, rounds, recoveries);
}

std::pair<double, double> finality(const LocalNetwork& network) {
    rpc::Client client("127.0.0.1", network.rpc_port(0));
    const auto status = must(client.call("sdbft_status"), "status");
    const auto times = must(status ? status->get("finality_ms") : fail("no answer"), "finality");
    return {must(times->get_double("p50"), "p50"), must(times->get_double("p99"), "p99")};
}

}  // namespace

void bench_load(Bench& bench) {
    measure_one(bench, "1 validator, 4 connections, batches of 100: ", kConnections, kBatch);
}

void bench_load_singles(Bench& bench) {
    measure_one(bench, "1 validator, 16 connections, one by one: ", kSingleConnections, 1);
}

void bench_load_validators(Bench& bench) {
    const double recoveries = recoveries_a_second(bench);
    const auto senders = sender_keys();
    const auto receivers = each_other(senders);
    // Two networks: the nodes' figures of finality are about their last 4,096 blocks.
    for (const double rate : {kHalfLoad, 0.0}) {
        const LocalNetwork network(bench.settings().scratch + (rate > 0 ? "/half" : "/full"), genesis_for(senders),
                                   validator_keys(kValidators));
        Load load(network);
        std::vector<Round> rounds;
        for (std::size_t i = 0; i < kRounds; ++i)
            rounds.push_back(load.run(round_of(senders, i, receivers), kConnections, kBatch, rate));
        const auto [p50, p99] = finality(network);
        check_nonces(network, senders, kRounds);
        rounds.erase(rounds.begin());
        const std::string name = "4 validators, " + (rate > 0 ? text_of("%.0f/s: ", rate) : std::string("full load: "));
        add_rows(bench, name, rounds, recoveries);
        bench.add_count(name + "finality p50", p50, "ms");
        bench.add_count(name + "finality p99", p99, "ms");
    }
}

void bench_load_million(Bench& bench) {
    const double recoveries = recoveries_a_second(bench);
    const auto senders = sender_keys();
    const LocalNetwork network(bench.settings().scratch + "/million", genesis_for(senders), validator_keys(1));
    Load load(network);
    std::uint64_t nonce = 0;
    std::size_t made = 0;
    const auto receivers_from = [&](std::size_t first, std::size_t step) {
        std::vector<types::Address> receivers;
        for (std::size_t i = 0; i < senders.size(); ++i)
            receivers.push_back(sink_address((first + i * step) % kNewAccounts));
        return receivers;
    };
    const auto measured = [&](const std::string& name, std::size_t& first) {
        std::vector<Round> rounds;
        const std::uint64_t before = network.disk_bytes(0);
        for (std::size_t i = 0; i < kRounds; ++i, first += 13)
            rounds.push_back(load.run(round_of(senders, nonce++, receivers_from(first, 49)), kConnections, kBatch));
        (void)network.wait_until_idle();
        const double grown = static_cast<double>(network.disk_bytes(0)) - static_cast<double>(before);
        rounds.erase(rounds.begin());
        add_rows(bench, name, rounds, recoveries);
        bench.add_count(name + "disk a transfer", grown / static_cast<double>(kRounds * kAccounts), "bytes",
                        "blocks, receipts and indexes included");
    };
    const std::uint64_t empty = network.disk_bytes(0);
    for (; made < kNewAccounts; made += kAccounts) {
        (void)load.run(round_of(senders, nonce++, receivers_from(made, 1)), kConnections, kBatch);
        if (made % (10 * kAccounts) == 0) std::fprintf(stderr, "  %zu accounts made\n", made + kAccounts);
    }
    bench.add_count("1,000,000 transfers to new accounts: disk a transfer",
                    static_cast<double>(network.disk_bytes(0) - empty) / static_cast<double>(kNewAccounts), "bytes",
                    "blocks, receipts and indexes included");
    bench.add_count("1,000,000 transfers to new accounts: the database goes on for", network.wait_until_idle(), "s");
    std::size_t first = 0;
    measured("1 validator, 1,000,000 accounts, batches of 100: ", first);
    check_nonces(network, senders, nonce);
}

}  // namespace quern::bench
