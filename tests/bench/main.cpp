// quern-bench: how fast the parts of Quern are, each beside a named reference in the same run.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "base/fs.h"
#include "base/log.h"
#include "bench/cases.h"
#include "bin/terminal.h"
#ifdef QUERN_WITH_TORCH
#include "compute/torch/torch_executor.h"
#endif

namespace quern::bench {

std::vector<Case> all_cases() {
    return {
        {"matmul", "canonical matrix products against torch's", bench_matmul},
        {"imatmul", "products of bytes against the canonical ones of f32", bench_imatmul},
        {"elementwise", "canonical exp, tanh, sigmoid, add and softmax against torch's", bench_elementwise},
        {"hostile", "ops on the words that take longest against ordinary ones", bench_hostile},
        {"row-sums", "canonical sums over rows and scattered rows against a sum of as many words along rows",
         bench_row_sums},
        {"training", "one step of the demo's transformer against the same in torch", bench_training},
        {"training-reference", "one step of a transformer of 0.83 million parameters against the same in torch",
         bench_reference_transformer},
        {"training-bytes", "one step of the reference transformer in bytes against one in f32", bench_bytes},
        {"training-images", "one step of a convolutional network against the same in torch", bench_convolution},
        {"commitment", "the state's roots as a share of a training step", bench_commitment},
        {"tapped", "a probed step and a dispute's run beside a training step: time and memory", bench_tapped},
        {"prediction", "what a machine's profile says that twelve programs take, against what they take",
         bench_prediction},
        {"prediction-threads", "the same with two threads", bench_prediction_threads},
        {"demand", "memory of a solver and a disputant, and how fast states are committed to", bench_demand},
        {"demand-publish", "how long a training stands still for states that it sends", bench_publish},
        {"demand-states", "states on disk of a training by strides, and of drawn ones made again",
         bench_states_on_disk},
        {"demand-line", "a large content and a state over a line of 1 Gbit/s; needs root", bench_line},
        {"demand-reaction", "blocks from what a worker has to do to its transaction", bench_reaction},
        {"demand-tasks", "what a worker reads to know 1,000 open tasks", bench_open_tasks},
        {"leaf", "the chain's last move, per kind of op", bench_leaf},
        {"dispute", "moves and bytes of a whole game about the demo's program", bench_dispute},
        {"blocks", "blocks of 1,000 transfers: signatures, execution, roots, LevelDB", bench_blocks},
        {"transition", "transfers on accounts in memory: no signatures, no roots, no disk", bench_transition},
        {"tries", "roots and their nodes with 20,000 accounts", bench_tries},
        {"tries-million", "the same with 1,000,000 accounts; takes minutes", bench_tries_million},
        {"codecs", "hashes, transactions, tries", bench_codecs},
        {"precompiles", "the EVM's built-in contracts: a call, and nanoseconds for its gas", bench_precompiles},
        {"handshake", "CPU of an encrypted handshake against mutual TLS 1.3", bench_handshake},
        {"channel", "records against the bare cipher and TLS 1.3", bench_channel},
        {"fragments", "contents cut into fragments of which any k suffice, and put together again", bench_fragments},
        {"fetch", "a content from one node to another: rate, the network thread's share, planning", bench_fetch},
        {"votes", "a vote's latency while bulk saturates the uplink; needs root", bench_votes},
        {"consensus", "certificates, VRF, messages and bytes a block at 4 to 100 validators", bench_consensus},
        {"end-to-end", "transfers over RPC to quernd processes, to their receipts; 1 and 4 validators",
         bench_end_to_end},
        {"load-batches", "20,000 signed transfers over 4 connections in batches of 100, to 1 validator", bench_load},
        {"load-singles", "the same one by one over 16 connections", bench_load_singles},
        {"load-validators", "the same to 4 validators: rate, and finality at full and at half load",
         bench_load_validators},
        {"load-million", "the same over 1,000,000 accounts, which 1,000,000 transfers make; takes minutes",
         bench_load_million},
        {"questions", "balances, nonces and fee history over JSON-RPC, beside anvil from npm", bench_questions},
    };
}

namespace {

struct ScratchFolder {
    std::string path;
    ScratchFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "quern-bench-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) give_up("cannot make a folder for scratch files");
        path = pattern;
    }
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
};

int run(int argc, char** argv) {
    CLI::App app(
        "Measures the parts of Quern. Times are medians; a ratio is our time over the reference's, so below 1 "
        "is faster than the reference.",
        "quern-bench");
    std::string filter = ".";
    std::string json_file;
    bool list = false;
    Settings settings;
    app.add_option("--filter", filter, "only cases whose name matches this regular expression");
    app.add_option("--json", json_file, "also write the rows to this file");
    app.add_option("--repetitions", settings.repetitions, "samples of each timing")->check(CLI::Range(1, 1000));
    app.add_option(
        "--min-ms",
        [&](const CLI::results_t& values) {
            char* end = nullptr;
            const double milliseconds = std::strtod(values[0].c_str(), &end);
            settings.min_seconds = milliseconds / 1000;
            return *end == '\0' && milliseconds > 0;
        },
        "length of a sample in milliseconds (20)");
    app.add_flag("--list", list, "list the cases and end");
    if (const auto code = parse_command_line(app, "quern-bench", argc, argv)) return *code;
    if (list) {
        for (const Case& entry : all_cases())
            std::printf("%-18s %s\n", std::string(entry.name).c_str(), std::string(entry.about).c_str());
        return 0;
    }
    std::regex wanted;
    try {
        wanted = std::regex(filter);
    } catch (const std::regex_error&) {
        give_up("--filter is no regular expression: " + filter);
    }
    must(log::configure({.level = log::Level::warning}), "log");
    const ScratchFolder scratch;
    settings.scratch = scratch.path;
    json::Value machine = machine_description();
#ifdef QUERN_WITH_TORCH
    machine.set("torch", compute::torch_backend::torch_version());
    if (const auto status = compute::torch_backend::check_blas(); !status)
        std::fprintf(stderr, "warning: %s\n", status.error().to_string().c_str());
#else
    machine.set("torch", nullptr);
#endif
    Bench bench(settings);
    bool any = false;
    for (const Case& entry : all_cases()) {
        const std::string name(entry.name);
        if (!std::regex_search(name, wanted)) continue;
        any = true;
        std::fprintf(stderr, "%s\n", name.c_str());
        entry.run(bench);
    }
    if (!any) give_up("no case matches " + filter);
    for (const json::Member& member : machine.members())
        std::printf(
            "%s: %s\n", member.key.c_str(),
            member.value.is_string() ? std::string(*member.value.as_string()).c_str() : member.value.dump().c_str());
    std::printf("\n%s", format_table(bench.rows()).c_str());
    if (!json_file.empty()) {
        json::Array rows;
        for (const Row& row : bench.rows()) rows.push_back(to_json(row));
        const json::Value report = json::Value::object({{"machine", machine}, {"rows", std::move(rows)}});
        const std::string text = report.dump_pretty() + "\n";
        if (const auto status = fs::write_file_atomic(json_file, as_bytes(text)); !status)
            give_up(status.error().to_string());
    }
    return 0;
}

}  // namespace
}  // namespace quern::bench

int main(int argc, char** argv) { return quern::bench::run(argc, argv); }
