// The table of what is differentiated: for each op of the machine that has a derivative and for each composite,
// functions of a few f32 inputs, which broadcast along every axis, end in ragged tiles and reach over more than one.
// Used by the test against differences and by the one against libtorch. Test code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unit/compute/program/gradient_check.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program::test {

struct GradientRow {
    std::string name;  // the op's or the composite's, then perhaps ": " and what is special
    std::vector<Shape> shapes;
    Function f;
    Range range{};

    [[nodiscard]] std::string_view of() const { return std::string_view(name).substr(0, name.find(':')); }
};

[[nodiscard]] std::vector<GradientRow> op_rows();
[[nodiscard]] std::vector<GradientRow> composite_rows();

// A row as a program: slots "x0"…, then "loss", then "g0"…, the loss's gradients by gradients(). The loss is the sum of
// f's elements, each times a weight between 0.5 and 1.5. Inputs are evenly spaced over the range in no order, so that
// no two of an input are equal nor one is 0: a kink is several of the differences' steps away, mostly a hundred.
struct RowProgram {
    BuiltProgram built;
    vm::tensor::State state;
    std::size_t inputs = 0;

    [[nodiscard]] std::size_t loss_slot() const { return inputs; }
    [[nodiscard]] std::size_t gradient_slot(std::size_t input) const { return inputs + 1 + input; }
};
// Errors: the builder's.
[[nodiscard]] Expected<RowProgram> build_row(const GradientRow& row);

}  // namespace quern::compute::program::test
