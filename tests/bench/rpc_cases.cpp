// Questions over JSON-RPC as wallets and explorers ask them, to a real quernd, each beside anvil (Foundry's node, from
// npm) in the same run: started, asked and ended here, left out by name where npm cannot fetch it.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/fs.h"
#include "bench/cases.h"
#include "bench/local_network.h"
#include "bench/raw_connection.h"
#include "bench/transfers.h"
#include "rpc/client.h"

extern char** environ;

namespace quern::bench {
namespace {

constexpr const char* kAnvilPackage = "@foundry-rs/anvil@1.7.1";
constexpr std::uint32_t kAccounts = 1'000;
constexpr std::size_t kBatch = 100;
constexpr std::size_t kConnections = 4;
constexpr std::size_t kBatches = 200;  // of each connection in one round
constexpr int kRounds = 7;             // of each server, in turn; the first warms up
constexpr int kHistoryCalls = 200;
constexpr int kHistoryBlocks = 5;
constexpr std::size_t kFilling = 2'000;  // transfers in the blocks that fee history is asked about
constexpr int kAnvilSeconds = 30;

// A program that is ended with this object. Its output is dropped.
class Program {
public:
    explicit Program(const std::vector<std::string>& arguments) {
        std::vector<char*> raw;
        for (const auto& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
        raw.push_back(nullptr);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
        if (::posix_spawnp(&process_, raw[0], &actions, nullptr, raw.data(), environ) != 0) process_ = -1;
        posix_spawn_file_actions_destroy(&actions);
    }
    ~Program() {
        if (process_ <= 0) return;
        ::kill(process_, SIGTERM);
        (void)wait();
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    // The exit code; -1 when it never ran.
    int wait() {
        int status = 0;
        if (process_ <= 0 || ::waitpid(std::exchange(process_, -1), &status, 0) < 0) return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    pid_t process_ = -1;
};

std::optional<std::uint64_t> height(std::uint16_t port) {
    rpc::Client client("127.0.0.1", port);
    const auto answer = client.call("eth_blockNumber");
    if (!answer || !*answer) return std::nullopt;
    const auto text = (*answer)->as_string();
    return text ? std::optional(std::stoull(std::string(*text), nullptr, 16)) : std::nullopt;
}

struct Anvil {
    std::unique_ptr<Program> program;
    std::uint16_t port = 0;
    std::string why_not;
};

Anvil start_anvil(const std::string& folder) {
    Anvil anvil;
    must(fs::create_directories(folder), "folder");
    if (Program({"npm", "install", "--no-audit", "--no-fund", "--prefix", folder, kAnvilPackage}).wait() != 0) {
        anvil.why_not = "anvil left out: npm cannot fetch " + std::string(kAnvilPackage);
        return anvil;
    }
    // The package's script only finds the program of this platform.
    std::string program;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/node_modules/@foundry-rs"))
        if (entry.is_regular_file() && entry.path().filename() == "anvil") program = entry.path().string();
    anvil.port = free_port();
    if (!program.empty())
        anvil.program = std::make_unique<Program>(std::vector<std::string>{
            program, "--silent", "--port", std::to_string(anvil.port), "--accounts", std::to_string(kAccounts)});
    const double until = steady_seconds() + kAnvilSeconds;
    while (anvil.program && !height(anvil.port)) {
        if (steady_seconds() > until) anvil.program.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (!anvil.program) anvil.why_not = "anvil left out: it does not start";
    return anvil;
}

std::vector<std::string> batches(std::string_view method, const std::vector<std::string>& addresses) {
    std::vector<std::string> requests;
    for (std::size_t at = 0; at + kBatch <= addresses.size(); at += kBatch) {
        std::string body;
        for (std::size_t i = at; i < at + kBatch; ++i) {
            body += body.empty() ? "[" : ",";
            body += R"({"jsonrpc":"2.0","id":)" + std::to_string(i) + R"(,"method":")" + std::string(method) +
                    R"(","params":[")" + addresses[i] + R"(","latest"]})";
        }
        requests.push_back(http_request(body + "]"));
    }
    return requests;
}

// Answers a second over all connections.
double rate(std::uint16_t port, const std::vector<std::string>& requests) {
    std::vector<std::thread> threads;
    std::atomic<std::size_t> answers{0};
    const double start = steady_seconds();
    for (std::size_t c = 0; c < kConnections; ++c)
        threads.emplace_back([&, c] {
            RawConnection connection(port);
            for (std::size_t i = 0; i < kBatches; ++i) {
                const auto text = connection.ask(requests[(c * kBatches + i) % requests.size()]);
                for (std::size_t at = text.find("\"result\""); at != text.npos; at = text.find("\"result\"", at + 1))
                    ++answers;
            }
        });
    for (auto& thread : threads) thread.join();
    const double seconds = steady_seconds() - start;
    if (answers != kConnections * kBatches * kBatch) give_up("answers are missing");
    return static_cast<double>(answers) / seconds;
}

double history_ms(std::uint16_t port, std::uint64_t newest) {
    char last[20];
    std::snprintf(last, sizeof last, "0x%llx", static_cast<unsigned long long>(newest));
    const std::string request = http_request(R"({"jsonrpc":"2.0","id":1,"method":"eth_feeHistory","params":["0x)" +
                                             std::to_string(kHistoryBlocks) + R"(",")" + last + R"(",[10,50,90]]})");
    RawConnection connection(port);
    const double start = steady_seconds();
    for (int i = 0; i < kHistoryCalls; ++i) (void)connection.ask(request);
    return (steady_seconds() - start) * 1e3 / kHistoryCalls;
}

// Rows of quernd, beside anvil's where it runs.
void add_compared(Bench& bench, const std::string& name, const std::string& unit, std::uint16_t quern,
                  const Anvil& anvil, const std::function<double(std::uint16_t)>& measure) {
    std::vector<double> own;
    std::vector<double> other;
    for (int round = 0; round < kRounds; ++round) {
        const double first = measure(quern);
        const double second = anvil.program ? measure(anvil.port) : 0;
        if (round == 0) continue;
        own.push_back(first);
        other.push_back(second);
    }
    const Timing ours = summarize(own);
    Row row;
    row.name = name;
    row.unit = unit;
    row.value = ours.median;
    row.low = ours.low;
    row.high = ours.high;
    row.note = anvil.why_not;
    if (anvil.program) {
        row.reference = Reference{"anvil", summarize(other).median};
        row.ratio = row.value / row.reference->value;
    }
    bench.add(row);
}

}  // namespace

void bench_questions(Bench& bench) {
    chain::exec::Genesis genesis;
    genesis.timestamp_ms = 1'700'000'000'000;
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < kAccounts; ++i) {
        const auto address = crypto::address20(load_key(i));
        genesis.allocations.push_back({address, Uint256(100) * Uint256(chain::params::kGrainsPerQrn)});
        addresses.push_back(to_hex0x(address));
    }
    std::vector<crypto::PrivateKey> validators;
    validators.push_back(load_key(kAccounts));
    const LocalNetwork network(bench.settings().scratch + "/questions", genesis, validators);
    const std::uint16_t port = network.rpc_port(0);
    {  // Blocks with something in them.
        rpc::Client client("127.0.0.1", port);
        for (std::size_t i = 0; i < kFilling; ++i) {
            const auto sender = static_cast<std::uint32_t>(i % kAccounts);
            const Bytes transfer = signed_transfer(load_key(sender), i / kAccounts, sink_address(sender));
            const auto sent = client.call("eth_sendRawTransaction", json::Value::array({to_hex0x(transfer)}));
            if (!sent || !*sent) give_up("a transfer was refused");
        }
        while (*height(port) < kHistoryBlocks) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const Anvil anvil = start_anvil(bench.settings().scratch + "/anvil");
    if (!anvil.program) std::fprintf(stderr, "%s\n", anvil.why_not.c_str());
    for (const char* method : {"eth_getBalance", "eth_getTransactionCount"}) {
        const auto requests = batches(method, addresses);
        add_compared(bench, std::string(method) + ", batches of 100, 4 connections", "1/s", port, anvil,
                     [&](std::uint16_t server) { return rate(server, requests); });
    }
    if (anvil.program) {  // anvil makes a block when it is told to
        rpc::Client client("127.0.0.1", anvil.port);
        (void)client.call("anvil_mine", json::Value::array({"0x10"}));
    }
    add_compared(bench, "eth_feeHistory, 5 blocks, 3 percentiles", "ms", port, anvil,
                 [&](std::uint16_t server) { return history_ms(server, *height(server)); });
}

}  // namespace quern::bench
