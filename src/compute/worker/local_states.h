// States of a history in a worker's own files, which a player of disputes begins from: what it has replayed to once,
// and where the wrong segment begins that a whistleblower has found. <workspace>/before-<history root>-<step>-<state
// root> holds the words of the state before the step, slot after slot as they lie in memory. Between the states that a
// history commits to nothing else says what they should be, so whoever reads one checks the root. Each file belongs to
// one thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/cancellation.h"
#include "compute/worker/workspace.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

class LocalStates {
public:
    LocalStates() = default;
    LocalStates(const Workspace& workspace, const Hash32& history_root)
        : prefix_(workspace.directory() + "/before-" + to_hex(history_root) + "-") {}

    // Before which step a state is said to be here, `step` or the nearest before that; 0: none.
    [[nodiscard]] std::uint64_t nearest_step(std::uint64_t step) const;
    struct Found {
        std::uint64_t step = 0;
        vm::tensor::State state;
    };
    // The nearest such state that is what its name says. Once `cancellation` was requested it is of no use.
    [[nodiscard]] std::optional<Found> nearest(std::uint64_t step, const vm::tensor::Program& program, ThreadPool* pool,
                                               const Cancellation* cancellation) const;
    // Error fs.write_failed.
    [[nodiscard]] Status write(std::uint64_t step, const Hash32& root, const vm::tensor::State& state) const;
    void remove(std::uint64_t step, const Hash32& root) const;
    void clear() const;  // all of this history's

private:
    struct File {
        std::string path;
        std::string root;
    };
    [[nodiscard]] std::multimap<std::uint64_t, File> files(std::uint64_t step) const;  // up to this one
    [[nodiscard]] std::string path_of(std::uint64_t step, const Hash32& root) const {
        return prefix_ + std::to_string(step) + "-" + to_hex(root);
    }
    std::string prefix_;
};

}  // namespace quern::compute::worker
