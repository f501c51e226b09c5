#include "compute/program/recurrent.h"

#include "compute/program/composite.h"

namespace quern::compute::program {

Value gate_of(Builder& b, Value gates, std::uint32_t gate, const Shape& state) {
    return b.slice(gates, {0, 0, 0, gate * state.columns()}, state);
}

LstmState lstm_cell(Builder& b, Value x, const LstmState& before, const CellWeights& weights) {
    if (b.failed()) return {};
    const Shape state = b.shape(before.cell);
    const auto from_input = linear(b, x, weights.input, weights.input_bias);
    const auto from_hidden = linear(b, before.hidden, weights.hidden, weights.hidden_bias);
    const auto gates = b.add(from_input, from_hidden);
    const auto in = b.sigmoid(gate_of(b, gates, 0, state));
    const auto forget = b.sigmoid(gate_of(b, gates, 1, state));
    const auto candidate = b.tanh(gate_of(b, gates, 2, state));
    const auto out = b.sigmoid(gate_of(b, gates, 3, state));
    LstmState after;
    after.cell = b.fma(forget, before.cell, b.mul(in, candidate));
    after.hidden = b.mul(out, b.tanh(after.cell));
    return after;
}

Value gru_cell(Builder& b, Value x, Value before, const CellWeights& weights) {
    if (b.failed()) return {};
    const Shape state = b.shape(before);
    const auto from_input = linear(b, x, weights.input, weights.input_bias);
    const auto from_hidden = linear(b, before, weights.hidden, weights.hidden_bias);
    const auto gate = [&](std::uint32_t number) {
        const auto input = gate_of(b, from_input, number, state);
        return b.sigmoid(b.add(input, gate_of(b, from_hidden, number, state)));
    };
    const auto reset = gate(0);
    const auto update = gate(1);
    const auto input = gate_of(b, from_input, 2, state);
    const auto candidate = b.tanh(b.fma(reset, gate_of(b, from_hidden, 2, state), input));
    // (1 - z) n + z h
    return b.fma(update, b.sub(before, candidate), candidate);
}

}  // namespace quern::compute::program
