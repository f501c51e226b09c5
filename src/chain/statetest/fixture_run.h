// Runs official fixtures, whole folders of them on several threads, and says what came of each test. Used by
// quern-statetest and test_vectors; one thread calls it.
#pragma once

#include <ostream>
#include <span>

#include "chain/statetest/cases.h"

namespace quern::chain::statetest {

struct RunOptions {
    std::optional<vm::evm::Revision> fork;  // of state and blockchain tests: the only one (that the network ends with)
    bool only_blockchain = false;           // blockchain tests alone
    std::string name_pattern;               // ECMAScript; empty: all tests
    std::size_t jobs = 0;                   // threads; 0: as many as the machine has
    bool verbose = false;                   // also what passed or was skipped, and which accounts differ
    bool as_json = false;
    std::ostream* trace = nullptr;  // gets EIP-3155 traces of all that runs, which is on one thread then
};

struct RunCounts {
    std::size_t passed = 0;
    std::size_t failed = 0;
    std::size_t skipped = 0;
};

// Runs the files, and those that end in .json below the folders, in order of their paths. Writes to `out`: failures,
// one line each with file, test, fork and indexes; then a table of the kinds. As JSON: a list with an object for each
// test, as `evm statetest` of geth prints it, and nothing else. A file that cannot be read counts as failed.
// Errors: fs.not_found, fs.read_failed (a path), statetest.bad_pattern, statetest.no_fixtures.
[[nodiscard]] Expected<RunCounts> run_fixtures(std::span<const std::string> paths, const RunOptions& options,
                                               std::ostream& out);

}  // namespace quern::chain::statetest
