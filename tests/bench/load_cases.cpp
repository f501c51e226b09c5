// End to end, as a user has it: transfers signed beforehand go to real quernd processes over JSON-RPC, and count when
// their receipts are read back. With one validator and with four.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "bench/cases.h"
#include "bench/local_network.h"
#include "bench/transfers.h"
#include "rpc/client.h"

namespace quern::bench {
namespace {

namespace types = chain::types;

constexpr std::size_t kSenders = 1'000;
constexpr std::size_t kRoundNonces = 20;     // of each sender in one round
constexpr std::size_t kRounds = 4;           // the first warms up
constexpr std::size_t kBatch = 100;          // transfers of one request
constexpr std::size_t kOutstanding = 6'000;  // submitted without a receipt yet, at most
constexpr std::size_t kSubmitters = 2;       // connections that submit
constexpr std::size_t kSingles = 60;         // transfers sent one by one for the latency
constexpr double kSinglePause = 0.037;       // so that they fall anywhere between two blocks
constexpr double kPatience = 60;             // seconds without a receipt
constexpr auto kPoll = std::chrono::milliseconds(2);

struct Prepared {
    std::string hex;
    std::string hash;
    std::size_t sender = 0;
};

Prepared transfer(const crypto::PrivateKey& key, std::size_t sender, std::uint64_t nonce) {
    const Bytes encoded = signed_transfer(key, nonce, sink_address(sender % 97));
    return {to_hex0x(encoded), to_hex0x(types::transaction_hash(encoded)), sender};
}

json::Value answer_of(Expected<rpc::Result> answer, const char* what) {
    if (!answer) give_up(std::string(what) + ": " + answer.error().to_string());
    if (!*answer) give_up(std::string(what) + ": " + answer->error().message);
    return std::move(**answer);
}

std::uint64_t quantity(const json::Value& value) {
    const auto text = value.as_string();
    if (!text) give_up("the node gave no number");
    return std::stoull(std::string(*text), nullptr, 16);
}

struct Round {
    double seconds = 0;   // first submission to last receipt
    double node_cpu = 0;  // of all nodes together
    double own_cpu = 0;
    std::uint64_t blocks = 0;
    std::vector<double> latencies;
};

// One load on a running network. Submitters and the reader of receipts are threads of their own.
class Load {
public:
    Load(const LocalNetwork& network, std::vector<Prepared> transfers)
        : network_(network), transfers_(std::move(transfers)), submitted_at_(transfers_.size()) {
        for (std::size_t i = 0; i < transfers_.size(); ++i) index_[transfers_[i].hash] = i;
    }

    Round run() {
        rpc::Client reader("127.0.0.1", network_.rpc_port(0));
        next_block_ = quantity(answer_of(reader.call("eth_blockNumber"), "height")) + 1;
        Round round;
        const double node_cpu = network_.cpu_seconds();
        const double own_cpu = own_cpu_seconds();
        const double start = steady_seconds();
        std::vector<std::thread> submitters;
        for (std::size_t i = 0; i < kSubmitters; ++i) submitters.emplace_back([this, i] { submit(i); });
        double heard = start;
        while (confirmed_ < transfers_.size()) {
            if (read_receipts(reader, round)) heard = steady_seconds();
            if (steady_seconds() - heard > kPatience) give_up("no receipts any more");
            std::this_thread::sleep_for(kPoll);
        }
        round.seconds = steady_seconds() - start;
        for (auto& each : submitters) each.join();
        round.node_cpu = network_.cpu_seconds() - node_cpu;
        round.own_cpu = own_cpu_seconds() - own_cpu;
        return round;
    }

private:
    // A sender's transfers go over one connection to one node, in the order of their nonces.
    void submit(std::size_t which) {
        std::vector<std::vector<std::size_t>> by_node(network_.size());
        for (std::size_t i = 0; i < transfers_.size(); ++i)
            if (transfers_[i].sender % kSubmitters == which)
                by_node[transfers_[i].sender / kSubmitters % network_.size()].push_back(i);
        std::vector<rpc::Client> clients;
        for (std::size_t node = 0; node < network_.size(); ++node)
            clients.emplace_back("127.0.0.1", network_.rpc_port(node));
        for (std::size_t at = 0, more = 1; more != 0; at += kBatch) {
            more = 0;
            for (std::size_t node = 0; node < network_.size(); ++node) {
                const std::size_t end = std::min(at + kBatch, by_node[node].size());
                if (at >= end) continue;
                more = 1;
                std::vector<rpc::Client::Request> requests;
                for (std::size_t i = at; i < end; ++i) {
                    const Prepared& each = transfers_[by_node[node][i]];
                    requests.push_back({"eth_sendRawTransaction", json::Value::array({each.hex})});
                }
                {
                    std::unique_lock lock(mutex_);
                    confirmed_more_.wait(lock, [&] { return sent_ - confirmed_ + requests.size() <= kOutstanding; });
                    sent_ += requests.size();
                    const double now = steady_seconds();
                    for (std::size_t i = at; i < end; ++i) submitted_at_[by_node[node][i]] = now;
                }
                const auto answers = clients[node].batch(requests);
                if (!answers) give_up("submitting: " + answers.error().to_string());
                for (const auto& answer : *answers)
                    if (!answer) give_up("a transfer was refused: " + answer.error().message);
            }
        }
    }

    bool read_receipts(rpc::Client& reader, Round& round) {
        const std::uint64_t height = quantity(answer_of(reader.call("eth_blockNumber"), "height"));
        std::size_t found = 0;
        for (; next_block_ <= height; ++next_block_) {
            char number[20];
            std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(next_block_));
            const json::Value receipts =
                answer_of(reader.call("eth_getBlockReceipts", json::Value::array({number})), "receipts");
            const double now = steady_seconds();
            const std::lock_guard lock(mutex_);
            for (const json::Value& receipt : receipts.items()) {
                const auto hash = receipt.get_string("transactionHash");
                const auto status = receipt.get_string("status");
                const auto at = hash ? index_.find(std::string(*hash)) : index_.end();
                if (at == index_.end()) continue;
                if (!status || *status != "0x1") give_up("a transfer failed on the chain");
                round.latencies.push_back(now - submitted_at_[at->second]);
                index_.erase(at);
                ++confirmed_;
                ++found;
            }
            round.blocks += receipts.size() != 0;
        }
        if (found != 0) confirmed_more_.notify_all();
        return found != 0;
    }

    const LocalNetwork& network_;
    std::vector<Prepared> transfers_;
    std::mutex mutex_;  // guards all below
    std::condition_variable confirmed_more_;
    std::vector<double> submitted_at_;
    std::unordered_map<std::string, std::size_t> index_;
    std::size_t sent_ = 0;
    std::atomic<std::size_t> confirmed_{0};
    std::uint64_t next_block_ = 0;
};

// One transfer at a time on a network without load: submission to receipt.
std::vector<double> single_latencies(const LocalNetwork& network, const std::vector<Prepared>& transfers) {
    std::vector<double> seconds;
    rpc::Client client("127.0.0.1", network.rpc_port(network.size() - 1));
    for (const Prepared& each : transfers) {
        const double start = steady_seconds();
        answer_of(client.call("eth_sendRawTransaction", json::Value::array({each.hex})), "submitting");
        while (
            answer_of(client.call("eth_getTransactionReceipt", json::Value::array({each.hash})), "receipt").is_null()) {
            if (steady_seconds() - start > kPatience) give_up("a transfer gets no receipt");
            std::this_thread::sleep_for(kPoll);
        }
        seconds.push_back(steady_seconds() - start);
        std::this_thread::sleep_for(std::chrono::duration<double>(kSinglePause));
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds;
}

double quantile(const std::vector<double>& sorted, double q) {
    return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
}

struct Figures {
    Timing per_transfer;  // seconds
    double node_cpu = 0;  // seconds a transfer, all nodes
    double p50 = 0;
    double p99 = 0;
    Timing round_trip;  // of a call that does nothing
    double per_block = 0;
    double own_share = 0;  // of the processors, by this program
};

Figures measure(const std::string& folder, std::size_t validators, const std::vector<crypto::PrivateKey>& senders) {
    chain::exec::Genesis genesis;
    genesis.timestamp_ms = 1'700'000'000'000;
    for (const auto& key : senders)
        genesis.allocations.push_back(
            {crypto::address20(key), Uint256(1'000'000) * Uint256(chain::params::kGrainsPerQrn)});
    std::vector<crypto::PrivateKey> keys;
    for (std::uint32_t i = 0; i < validators; ++i) keys.push_back(load_key(1'000'000 + i));
    const LocalNetwork network(folder, genesis, keys);

    std::vector<double> seconds;
    std::vector<double> trips;
    Figures figures;
    double blocks = 0;
    double counted = 0;
    double wall = 0;
    double own = 0;
    for (std::size_t round = 0; round < kRounds; ++round) {
        std::vector<Prepared> transfers;
        for (std::size_t nonce = 0; nonce < kRoundNonces; ++nonce)
            for (std::size_t sender = 0; sender < senders.size(); ++sender)
                transfers.push_back(transfer(senders[sender], sender, round * kRoundNonces + nonce));
        const double count = static_cast<double>(transfers.size());
        const Round result = Load(network, std::move(transfers)).run();
        if (round == 0) continue;
        seconds.push_back(result.seconds / count);
        figures.node_cpu += result.node_cpu;
        counted += count;
        blocks += static_cast<double>(result.blocks);
        wall += result.seconds;
        own += result.own_cpu;
    }
    figures.per_transfer = summarize(seconds);
    figures.node_cpu /= counted;
    figures.per_block = counted / blocks;
    figures.own_share = own / wall;
    std::vector<Prepared> singles;
    for (std::size_t i = 0; i < kSingles; ++i) singles.push_back(transfer(senders[i], i, kRounds * kRoundNonces));
    const auto latencies = single_latencies(network, singles);
    figures.p50 = quantile(latencies, 0.5);
    figures.p99 = quantile(latencies, 0.99);
    rpc::Client client("127.0.0.1", network.rpc_port(0));
    for (int i = 0; i < 200; ++i) {
        const double start = steady_seconds();
        (void)answer_of(client.call("eth_chainId"), "call");
        trips.push_back(steady_seconds() - start);
    }
    figures.round_trip = summarize(trips);
    return figures;
}

}  // namespace

void bench_end_to_end(Bench& bench) {
    std::vector<crypto::PrivateKey> senders;
    for (std::uint32_t i = 0; i < kSenders; ++i) senders.push_back(load_key(i));
    // The least that each node must do for a transfer.
    std::vector<Bytes> encoded;
    for (std::size_t i = 0; i < 200; ++i)
        encoded.push_back(must(from_hex(std::string_view(transfer(senders[i], i, 0).hex).substr(2)), "hex"));
    const Timing recovery = bench.time({[&] {
        for (const Bytes& each : encoded) keep(must(types::recover(each), "recover"));
    }})[0];
    const double recoveries = static_cast<double>(encoded.size());
    const char* reference = "decoding it and recovering its sender, once";

    std::optional<Figures> alone;
    for (const std::size_t validators : {std::size_t{1}, std::size_t{4}}) {
        const Figures figures =
            measure(bench.settings().scratch + "/network-" + std::to_string(validators), validators, senders);
        const std::string name = std::to_string(validators) + (validators == 1 ? " validator: " : " validators: ");
        bench.add_time(name + "a transfer, submitted to receipt, under load", figures.per_transfer, 1, reference,
                       &recovery, recoveries,
                       text_of("%.0f tx/s, ", 1 / figures.per_transfer.median) +
                           text_of("%.0f a block, ", figures.per_block) +
                           text_of("the load itself takes %.2f CPUs", figures.own_share));
        const Timing cpu{figures.node_cpu, figures.node_cpu, figures.node_cpu};
        bench.add_time(name + "CPU of all nodes a transfer", cpu, 1, reference, &recovery, recoveries);
        const auto latency = [&](const char* what, double value, double before) {
            Row row{name + what, value * 1e3, "ms", 0, 0, {}, 0, {}};
            row.reference = alone ? Reference{"with 1 validator", before * 1e3}
                                  : Reference{"an empty RPC call", figures.round_trip.median * 1e3};
            bench.add(std::move(row));
        };
        latency("one transfer to its receipt, p50", figures.p50, alone ? alone->p50 : 0);
        latency("one transfer to its receipt, p99", figures.p99, alone ? alone->p99 : 0);
        alone = figures;
    }
}

}  // namespace quern::bench
