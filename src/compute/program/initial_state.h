// Initial states from seeds, bit for bit the same everywhere. Used by quern-compile, submitters and tests. Pure;
// thread-safe.
//
// A normal slot number s of a state with 64-bit seed S holds, at the element with logical index i,
//   w = philox_word(i, s, 0x494e4954, low 32 bits of S, high 32 bits of S),
//   p = (2 (w >> 9) + 1) 2^-24, exact in binary32, 0 < p < 1,
//   element = deviation * normal_quantile(p),
// where normal_quantile is Wichura's PPND7 (Applied Statistics 37, 1988, algorithm AS 241; relative error below 1e-7
// before rounding) evaluated with the canonical add, sub, mul, div, fma, sqrt and log in the order of
// initial_state.cpp, polynomials by Horner with fma.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compute/program/builder.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {

// One tensor per slot, as the slots' initializers say; no more of them once `stop`, if there is one, is true.
[[nodiscard]] vm::tensor::State initial_state(const BuiltProgram& built, std::uint64_t seed,
                                              const std::atomic<bool>* stop = nullptr);

// What a fine-tuning has from an earlier training: the parameters that have the same name, dtype and shape in both
// programs, in slot order.
[[nodiscard]] std::vector<std::string> common_parameters(const vm::tensor::Program& earlier,
                                                         const vm::tensor::Program& program);
// Puts them, from a state of the earlier training, in the place of those of `state`, and gives their names.
std::vector<std::string> take_parameters(const vm::tensor::Program& earlier, const vm::tensor::State& trained,
                                         const vm::tensor::Program& program, vm::tensor::State& state);

// The slot of that name; `missing` is the error when there is none.
[[nodiscard]] Expected<std::size_t> slot_index(const vm::tensor::Program& program, std::string_view name,
                                               std::string_view missing);

// The standard normal quantile of p = (2k + 1) 2^-24, k < 2^23, as binary32 bits.
[[nodiscard]] std::uint32_t normal_quantile_bits(std::uint32_t k);

}  // namespace quern::compute::program
