// Lays a network of the ONNX standard into a program. Used by model builders. Functions on a Builder; thread-safe.
//
// Parameters are slots under the names that the network gives its initializers, "model.conv1.weight", with the words in
// the network's order, row by row, so that they go back to where they came from; the shape of such a slot is one that
// fills tiles well, not the network's. Trained is what the result depends on through operations that have a derivative;
// what else is no pattern that a node makes is a slot of constants, "constant.<name>", that keeps its words.
#pragma once

#include <string>
#include <vector>

#include "compute/program/layers.h"
#include "compute/program/network.h"

namespace quern::compute::program {

// The network's output for x, as rows of its last axis; appends to `slots`. The
// builder's error: onnx.unsupported_op (with the operations that are known), onnx.unsupported (an attribute, an axis, a
// shape that is not known beforehand), onnx.bad_input (what an example has does not fit the network's input),
// onnx.bad_node (dims that do not fit, too few inputs), onnx.unknown_frozen, onnx.unknown_layer (a precision for
// what is no linear layer, with those that are), onnx.too_large,
// onnx.not_a_number (a NaN in what is trained), and those of the ops, each
// with the node's number, operation and name.
[[nodiscard]] Features apply_network(Builder& b, const Network& network, const NetworkTraining& training,
                                     const Features& x, const LayersPass& pass, LayersSlots& slots);

}  // namespace quern::compute::program
