// Cells of recurrent networks, composed of builder ops; unrolled over the steps of a window by who uses them. Used by
// model builders and tests. Pure functions on a Builder. Gates lie as PyTorch lays them.
#pragma once

#include "compute/program/builder.h"

namespace quern::compute::program {

// Gate number `gate` of rows of gates, each as wide as `state`.
[[nodiscard]] Value gate_of(Builder& b, Value gates, std::uint32_t gate, const Shape& state);

// Of n rows: x [1,1,n,inputs], states [1,1,n,size].
struct CellWeights {
    Value input;          // [1,1,inputs,gates * size]
    Value hidden;         // [1,1,size,gates * size]
    Value input_bias{};   // [1,1,1,gates * size]; left out when invalid
    Value hidden_bias{};  // the same
};

struct LstmState {
    Value hidden;
    Value cell;
};
// Long short-term memory (Hochreiter, Schmidhuber 1997, with forget gates): gates i, f, g, o.
[[nodiscard]] LstmState lstm_cell(Builder& b, Value x, const LstmState& before, const CellWeights& weights);

// Gated recurrent unit (Cho et al., arXiv 1406.1078), the reset gate behind the product: gates r, z, n.
[[nodiscard]] Value gru_cell(Builder& b, Value x, Value before, const CellWeights& weights);

}  // namespace quern::compute::program
