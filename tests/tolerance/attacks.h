// The attack corpus: for each attack the checkpoint before a segment and the claim after it that a dishonest solver
// posts (doc/tolerance.md, "Attacks"). Used by quern-tolerance. One thread at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tolerance/lab.h"

namespace quern::tolerance_lab {

// What the attacks of one corpus share: an honest history and one of another run.
struct Histories {
    std::uint64_t k = 1;
    std::vector<State> honest;  // checkpoints 0 … n
    std::vector<State> other;   // of another initial state and another order of the data
};

struct Forged {
    State previous;
    State claimed;
    bool honest_start = false;  // previous is the honest checkpoint: the honest replay is this one's, too
};

struct Attack {
    std::string name;
    std::function<Forged(std::size_t segment)> forge;  // segment 1 … n leads from checkpoint segment - 1
};
// `lab` and `histories` outlive them, and `architecture` is the lab's.
[[nodiscard]] std::vector<Attack> attack_corpus(const Lab& lab, const compute::program::Architecture& architecture,
                                                const Histories& histories);
// Training with the learning rate times `factor`, of an attack and of the table of what a limit lets pass.
[[nodiscard]] State train_at_rate(const Lab& lab, const compute::program::Architecture& architecture, State previous,
                                  std::uint64_t k, float factor);

}  // namespace quern::tolerance_lab
