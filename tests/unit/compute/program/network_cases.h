// Networks that PyTorch wrote beside its own numbers (tests/vectors, "NAME.safetensors" of their make.py): what they
// compute and their gradients against those. Used by tests of importers. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "compute/program/network.h"
#include "compute/program/safetensors.h"

namespace quern::compute::program {

struct NetworkCase {
    const char* name;
    std::uint32_t classes;
    bool is_image;
    double bound;  // of outputs, and of gradients relative to the largest of their parameter
};
inline constexpr std::uint32_t kCaseBatch = 4;

// Of a folder of tests/vectors.
[[nodiscard]] Bytes vector_file(const std::string& folder, const std::string& name);
[[nodiscard]] Safetensors numbers_of_case(const std::string& folder, const NetworkCase& each);

// In training mode without dropout: output, loss, each gradient, running statistics; and that nothing else is trained.
void expect_trains_as_its_framework(Network network, const NetworkCase& each, const Safetensors& expected);
// In evaluation mode: the output.
void expect_evaluates_as_its_framework(const Network& network, const NetworkCase& each, const Safetensors& expected);

}  // namespace quern::compute::program
