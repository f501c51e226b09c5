// Coefficients of Wichura's PPND7, the standard normal quantile (Applied Statistics 37, 1988, algorithm AS 241),
// highest powers first, and the domain of the random words that it is given. Used where initial states are made
// (initial_state.h says how) and where a program makes one. Constants.
#pragma once

#include <array>
#include <cstdint>

namespace quern::compute::program {

inline constexpr std::uint32_t kInitDomain = 0x494e4954;  // "INIT"

inline constexpr std::array<float, 4> kCentreTop{5.9109374720e+01F, 1.5929113202e+02F, 5.0434271938e+01F,
                                                 3.3871327179e+00F};
inline constexpr std::array<float, 4> kCentreBottom{6.7187563600e+01F, 7.8757757664e+01F, 1.7895169469e+01F, 1.0F};
inline constexpr std::array<float, 4> kMiddleTop{1.7023821103e-01F, 1.3067284816e+00F, 2.7568153900e+00F,
                                                 1.4234372777e+00F};
inline constexpr std::array<float, 3> kMiddleBottom{1.2021132975e-01F, 7.3700164250e-01F, 1.0F};

}  // namespace quern::compute::program
