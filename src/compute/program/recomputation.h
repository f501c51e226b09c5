// Activation checkpointing (Chen et al., arXiv 1604.06174): of the forward pass only what goes from part to part is
// kept for the backward pass, which computes the rest of a part again when it comes to it. Used by Builder. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vm/tensor/graph.h"

namespace quern::compute::program {

struct Recomputation {
    std::vector<std::uint32_t> places;  // where parts may begin and end: numbers of nodes, ascending
    std::uint32_t forward_end = 0;      // nodes from here on are of the backward pass, or of what comes behind it
    std::uint32_t parts = 0;
};

// The first node of each part, and the end of the last: from the first place to the last one. A part is as near to an
// equal share of the outputs' bytes as half of one allows, and begins there where the fewest bytes are carried over; it
// is left out where that share has no place. Empty without two places.
[[nodiscard]] std::vector<std::uint32_t> choose_parts(std::span<const vm::tensor::Node> nodes,
                                                      const Recomputation& how);

// Gives nodes of the backward pass copies of the nodes that they read inside a part, each before the first of them that
// does, and drops what nothing needs any more: of the outputs, by number, each is as it was, bit for bit. Not copied is
// what is alive anyway (what another part or an output is given, views of it), what reads the state, the seed or data,
// and constants of one word.
void recompute(std::vector<vm::tensor::Node>& nodes, std::vector<std::uint32_t>& outputs, const Recomputation& how);

}  // namespace quern::compute::program
