// Architectures for networks that people have in a file: what of an architecture follows from the network and from the
// data is worked out, the rest is usual values. Used by quern-compile and quern-train. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "compute/program/network.h"

namespace quern::compute::program {

struct DataFile {
    std::uint64_t bytes = 0;
    // What `quern-compile dataset` wrote beside it: "dtype", of images also "height", "width", "channels"; of the
    // targets, where there are some, "labels" or "targets" with their "dtype".
    std::optional<std::string> description;
};
struct FitChoices {
    std::string loss;  // "": next_token where a row of outputs belongs to each token and there is one file; mse where
                       // the targets are described as f32; else cross_entropy
    std::uint32_t batch = 32;
    std::string learning_rate = "0.001";  // decimals
    std::uint32_t total_steps = 0;        // 0: left out
    std::string example{};                // dims of an example, "3x32x32", for files that do not say them
    std::string precision{};              // of linear layers, f32 or int8; "": f32
    std::vector<std::string> in_f32{};    // nodes, or what holds some, whose linear layers are of f32 all the same
    std::uint32_t recompute = 0;          // as an architecture's; 0: left out
    std::uint32_t evaluate_every = 0;     // as an architecture's held_out.every, where there are files for it
};

// The text of an architecture file for the network in `file`, trained by AdamW on these data tensors. Elements without
// a description are u8 of images and tokens, f32 of rows; targets that nothing describes are as wide as their file
// says, classes whole numbers, others f32. Bytes of images become numbers between -1 and 1. Held-out files have the
// types of the data. Errors: fit.unknown_dims (neither network nor description says how large an example is),
// fit.no_data, fit.wrong_data (files that hold no whole examples, classes described as f32), fit.bad_description,
// fit.bad_rate (a learning rate that is no number), arch.unknown_precision, those of apply_network(), of loss_named()
// and of parse_architecture().
[[nodiscard]] Expected<std::string> fit_architecture(const Network& network, const std::string& file,
                                                     const std::vector<DataFile>& data, const FitChoices& choices,
                                                     const std::vector<DataFile>& held_out = {});

}  // namespace quern::compute::program
