#include "bench/local_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/fs.h"
#include "bench/harness.h"
#include "rpc/client.h"

extern char** environ;

namespace quern::bench {
namespace {

constexpr int kStartSeconds = 30;
constexpr int kStopSeconds = 15;

pid_t spawn(const std::vector<std::string>& arguments, const std::string& log) {
    std::vector<char*> raw;
    for (const auto& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
    raw.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t process = -1;
    const int status = ::posix_spawn(&process, raw[0], &actions, nullptr, raw.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0) give_up("cannot start " + arguments[0]);
    return process;
}

std::string tail_of(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    return all.substr(all.size() > 2'000 ? all.size() - 2'000 : 0);
}

}  // namespace

std::uint16_t free_port() {
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const bool good = ::bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                      ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    ::close(probe);
    if (!good) give_up("no free port");
    return ntohs(address.sin_port);
}

std::string program_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path().string(); }

LocalNetwork::LocalNetwork(std::string folder, chain::exec::Genesis genesis,
                           const std::vector<crypto::PrivateKey>& validators, const ShapedLink* link) {
    const auto host_of = [&](std::size_t node) {
        return link == nullptr ? std::string("127.0.0.1") : ShapedLink::address(static_cast<int>(node));
    };
    const auto at_place_of = [&](std::size_t node, const std::function<void()>& function) {
        if (link == nullptr)
            function();
        else
            link->run_in(static_cast<int>(node), function);
    };
    const std::string quernd = program_folder() + "/quernd";
    if (!fs::exists(quernd)) give_up(quernd + " is not built");
    must(fs::create_directories(folder), "folder");
    for (const auto& key : validators)
        genesis.validators.push_back({to_bytes(crypto::derive_public(key).bytes.view()),
                                      Uint256(1'000) * Uint256(chain::params::kGrainsPerQrn)});
    const std::string genesis_file = folder + "/genesis.json";
    must(fs::write_file_atomic(genesis_file, as_bytes(chain::exec::to_json(genesis).dump())), "genesis");
    nodes_.resize(validators.size());
    for (Node& node : nodes_) {
        node.rpc_port = free_port();
        node.p2p_port = free_port();
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const std::string name = folder + "/node" + std::to_string(i);
        const std::string key_file = name + ".key";
        must(fs::write_file_atomic(key_file, as_bytes(to_hex(validators[i].secret_bytes()))), "key");
        if (::chmod(key_file.c_str(), 0600) != 0) give_up("cannot protect " + key_file);
        nodes_[i].folder = name;
        nodes_[i].log = name + ".log";
        std::vector<std::string> arguments = {quernd,
                                              "-datadir=" + name,
                                              "-genesis=" + genesis_file,
                                              "-validatorkey=" + key_file,
                                              "-rpcport=" + std::to_string(nodes_[i].rpc_port),
                                              "-wsport=0",
                                              "-bind=" + host_of(i),
                                              "-port=" + std::to_string(nodes_[i].p2p_port)};
        for (std::size_t other = 0; other < nodes_.size(); ++other)
            if (other != i)
                arguments.push_back("-addnode=" + to_hex0x(crypto::address20(validators[other])) + "@" +
                                    host_of(other) + ":" + std::to_string(nodes_[other].p2p_port));
        at_place_of(i, [&] { nodes_[i].process = spawn(arguments, nodes_[i].log); });
    }
    // Each has made or followed a block: keys, ports and peers are right.
    const auto wait_for = [](Node& node) {
        rpc::Client client("127.0.0.1", node.rpc_port);
        const double end = steady_seconds() + kStartSeconds;
        while (true) {
            if (const auto answer = client.call("eth_blockNumber"); answer && *answer)
                if (const auto text = (*answer)->as_string(); text && *text != "0x0") break;
            if (::waitpid(node.process, nullptr, WNOHANG) != 0) {
                node.process = -1;
                give_up("a node ended: " + tail_of(node.log));
            }
            if (steady_seconds() > end) give_up("a node makes no blocks: " + tail_of(node.log));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i) at_place_of(i, [&] { wait_for(nodes_[i]); });
}

LocalNetwork::~LocalNetwork() {
    for (const Node& node : nodes_)
        if (node.process > 0) ::kill(node.process, SIGTERM);
    const double end = steady_seconds() + kStopSeconds;
    for (const Node& node : nodes_) {
        if (node.process <= 0) continue;
        while (::waitpid(node.process, nullptr, WNOHANG) == 0) {
            if (steady_seconds() > end) {
                ::kill(node.process, SIGKILL);
                ::waitpid(node.process, nullptr, 0);
                break;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
}

double LocalNetwork::cpu_seconds() const {
    double ticks = 0;
    for (const Node& node : nodes_) {
        std::ifstream file("/proc/" + std::to_string(node.process) + "/stat");
        std::string text((std::istreambuf_iterator<char>(file)), {});
        // After the name in parentheses: state is field 3, user and system time are fields 14 and 15.
        std::istringstream fields(text.substr(std::min(text.rfind(')') + 2, text.size())));
        std::string skipped;
        for (int i = 3; i < 14; ++i) fields >> skipped;
        double user = 0;
        double system = 0;
        fields >> user >> system;
        ticks += user + system;
    }
    return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double LocalNetwork::wait_until_idle() const {
    constexpr int kMostSeconds = 60;
    for (int seconds = 0; seconds < kMostSeconds; ++seconds) {
        const double before = cpu_seconds();
        std::this_thread::sleep_for(std::chrono::seconds(1));
        if (cpu_seconds() - before < 0.05) return seconds;
    }
    return kMostSeconds;
}

std::uint64_t LocalNetwork::disk_bytes(std::size_t node) const {
    std::uint64_t sum = 0;
    std::error_code ignored;  // the node deletes files meanwhile
    for (const auto& entry : std::filesystem::recursive_directory_iterator(nodes_[node].folder, ignored))
        if (entry.is_regular_file(ignored)) sum += entry.file_size(ignored);
    return sum;
}

}  // namespace quern::bench
