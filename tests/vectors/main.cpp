// test_vectors [folder or file...]: runs official vectors as quern-statetest does, or those in the folder that
// QUERN_VECTORS names. Exit code 0 when none failed and some ran, 77 when there is nothing to run on.
#include <cstdlib>
#include <iostream>

#include "chain/statetest/fixture_run.h"

int main(int argc, char** argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.empty()) {
        const char* folder = std::getenv("QUERN_VECTORS");
        if (folder == nullptr || *folder == '\0') {
            std::cout << "test_vectors: skipped, no folder given and QUERN_VECTORS is not set\n";
            return 77;
        }
        arguments.emplace_back(folder);
    }
    const auto counts = quern::chain::statetest::run_fixtures(arguments, {}, std::cout);
    if (!counts) {
        std::cout << "test_vectors: " << counts.error().to_string() << "\n";
        return 1;
    }
    std::cout << counts->passed << " passed, " << counts->failed << " failed\n";
    return counts->failed == 0 && counts->passed != 0 ? 0 : 1;
}
