// quern-statetest: runs Ethereum's official test fixtures. Exit codes: 0 all passed, 1 something failed or nothing ran,
// 2 wrong options.
#include <fstream>
#include <iostream>

#include "bin/terminal.h"
#include "chain/statetest/fixture_run.h"
#include "quern_version.h"

namespace {

using namespace quern;

std::string known_forks() {
    std::string names;
    for (std::size_t i = 0; i < vm::evm::kRevisions; ++i)
        names += (i == 0 ? "" : ", ") + std::string(vm::evm::fixture_name(static_cast<vm::evm::Revision>(i)));
    return names;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> paths;
    std::string fork;
    bool traces = false;
    std::string trace_file;
    chain::statetest::RunOptions options;
    CLI::App app{
        "quern-statetest: runs official fixtures: state and blockchain tests (ethereum/execution-spec-tests and "
        "ethereum/tests), transaction, RLP, trie and keystore tests"};
    app.set_version_flag("--version", std::string("quern-statetest ") + QUERN_VERSION);
    app.add_option("path", paths, "fixture files, or folders with .json files below them")->required();
    app.add_option("--fork", fork, "run the state and blockchain tests of this fork alone: " + known_forks());
    app.add_flag("--blockchain", options.only_blockchain, "run the blockchain tests alone");
    app.add_option("--run", options.name_pattern, "run tests alone in whose name this regular expression is found");
    app.add_option("--jobs", options.jobs, "threads (default: as many as the machine has)");
    app.add_flag("--verbose", options.verbose, "print what passes, too, and by which accounts failures differ");
    app.add_flag("--json", options.as_json,
                 "print a JSON list with an object for each case, and the last line on standard error");
    app.add_flag("--trace", traces, "print EIP-3155 traces of all transactions on standard error");
    app.add_option("--trace-file", trace_file, "write them to this file instead");
    if (const auto code = parse_command_line(app, "quern-statetest", argc, argv)) return *code;
    if (!fork.empty()) {
        options.fork = vm::evm::revision_of(fork);
        if (!options.fork)
            return complain("quern-statetest", "--fork " + fork + ": known are " + known_forks(), kExitUsage);
    }
    std::ofstream file;
    if (traces) options.trace = &std::cerr;
    if (!trace_file.empty()) {
        file.open(trace_file, std::ios::binary | std::ios::trunc);
        if (!file) return complain("quern-statetest", "--trace-file " + trace_file + " cannot be opened");
        options.trace = &file;
    }
    const auto counts = chain::statetest::run_fixtures(paths, options, std::cout);
    if (!counts) return complain("quern-statetest", counts.error());
    if (!trace_file.empty() && !file.flush())
        return complain("quern-statetest", "--trace-file " + trace_file + " cannot be written");
    (options.as_json ? std::cerr : std::cout) << counts->passed << " passed, " << counts->failed << " failed\n";
    return counts->failed == 0 && counts->passed != 0 ? 0 : kExitFailed;
}
