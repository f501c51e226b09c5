// Whether gradients agree with central differences in double precision, and the canonical executor with both. Test
// code.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compute/program/builder.h"

namespace quern::compute::program::test {

struct Range {
    float low = -2.0F;
    float high = 2.0F;
};

// f of f32 slots of the given shapes; the loss is the sum of f's elements, each times a weight of its own, so that no
// two elements' gradients can be exchanged unseen.
using Function = std::function<Value(Builder&, std::span<const Value>)>;

// Fails the test where they do not agree. The slots' words are random in `range`.
void check_gradient(const std::vector<Shape>& shapes, const Function& f, Range range = {}, std::uint32_t random = 1);

// `count` numbers between -1 and 1, in no order.
[[nodiscard]] std::vector<double> numbers(std::uint64_t count, double scale);

enum class Arithmetic : std::uint8_t { doubles, canonical };

// What f gives of slots with these values; empty, and the test fails, where it is no valid program.
[[nodiscard]] std::vector<double> values_of(const std::vector<Shape>& shapes,
                                            const std::vector<std::vector<double>>& values, const Function& f,
                                            Arithmetic arithmetic = Arithmetic::doubles);

}  // namespace quern::compute::program::test
