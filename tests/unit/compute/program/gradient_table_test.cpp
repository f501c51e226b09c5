// Every row of the table of gradients against central differences in double precision, and whether the table is
// complete: an op with a derivative or a composite that has no row fails here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <regex>
#include <set>

#include "base/fs.h"
#include "unit/compute/program/double_evaluator.h"
#include "unit/compute/program/gradient_rows.h"

namespace quern::compute::program {
namespace {

using quern::test::DoubleState;
using quern::test::step_in_double;
using quern::test::to_doubles;
using test::GradientRow;
using test::RowProgram;
using vm::tensor::OpKind;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {1, 2, 3, 4}};
// The truncation of a central difference is about kStep^2, the rounding 2^-53 |loss| / kStep, both below 1e-8 here.
constexpr double kStep = 1e-5;
constexpr double kBound = 2e-7;
// f32 against double: sums of some thousand terms of size 1.
constexpr double kFloatBound = 1e-4;
// Inputs of up to so many elements are moved one by one; of larger ones those where tiles begin and end, and all at
// once in some directions.
constexpr std::size_t kFewElements = 40;
constexpr int kDirections = 3;

// Elements at the borders of tiles of 32 rows and columns, and some others.
std::set<std::size_t> places_of(const Shape& shape) {
    std::set<std::size_t> places;
    const std::size_t elements = shape.elements();
    if (elements <= kFewElements) {
        for (std::size_t e = 0; e < elements; ++e) places.insert(e);
        return places;
    }
    const std::size_t columns = shape.columns();
    for (const std::size_t e : {std::size_t{0}, std::size_t{31}, std::size_t{32}, columns - 1, columns,
                                31 * columns + 31, 32 * columns + 32, elements / 2, elements - columns, elements - 1})
        places.insert(e % elements);
    return places;
}

void check_row(const GradientRow& row) {
    SCOPED_TRACE(row.name);
    auto built = test::build_row(row);
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& program = built->built.program;
    const vm::tensor::MemoryData data;
    const DoubleState start = to_doubles(built->state);
    const DoubleState after = step_in_double(program, start, data, kSeed);
    // Along `direction` from the start.
    const auto slope = [&](std::size_t input, const std::vector<std::pair<std::size_t, double>>& direction) {
        std::array<double, 2> losses{};
        for (std::size_t side = 0; side < 2; ++side) {
            DoubleState moved = start;
            for (const auto& [e, by] : direction) moved[input][e] += (side == 0 ? kStep : -kStep) * by;
            losses[side] = step_in_double(program, moved, data, kSeed)[built->loss_slot()][0];
        }
        return (losses[0] - losses[1]) / (2 * kStep);
    };
    std::mt19937 generator(7);
    for (std::size_t i = 0; i < built->inputs; ++i) {
        const auto& gradient = after[built->gradient_slot(i)];
        for (const std::size_t e : places_of(row.shapes[i])) {
            const double expected = slope(i, {{e, 1.0}});
            ASSERT_NEAR(gradient[e], expected, kBound * (1 + std::fabs(expected))) << "input " << i << " element " << e;
        }
        if (gradient.size() <= kFewElements) continue;
        for (int turn = 0; turn < kDirections; ++turn) {
            std::vector<std::pair<std::size_t, double>> direction;
            double along = 0;
            double size = 1;
            for (std::size_t e = 0; e < gradient.size(); ++e) {
                direction.emplace_back(e, (generator() >> 31) != 0 ? 1.0 : -1.0);
                along += direction.back().second * gradient[e];
                size += std::fabs(gradient[e]);
            }
            ASSERT_NEAR(along, slope(i, direction), kBound * size) << "input " << i << " direction " << turn;
        }
    }
    vm::tensor::State state = built->state;
    vm::tensor::Executor executor(program, vm::tensor::arith::best_backend(), nullptr);
    executor.step(state, data, kSeed);
    const DoubleState canonical = to_doubles(state);
    for (std::size_t s = 0; s < canonical.size(); ++s)
        for (std::size_t e = 0; e < canonical[s].size(); ++e)
            ASSERT_NEAR(canonical[s][e], after[s][e], kFloatBound * (1 + std::fabs(after[s][e])))
                << program.slots[s].name << " element " << e;
}

TEST(GradientTable, ops_have_the_gradients_of_differences) {
    for (const GradientRow& row : test::op_rows()) {
        check_row(row);
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(GradientTable, composites_have_the_gradients_of_differences) {
    for (const GradientRow& row : test::composite_rows()) {
        check_row(row);
        if (testing::Test::HasFatalFailure()) return;
    }
}

// A function of f32 that gives f32 has a derivative, be it 0.
TEST(GradientTable, has_a_row_for_each_op_with_a_derivative) {
    std::set<std::string> rows;
    for (const GradientRow& row : test::op_rows()) {
        const auto built = test::build_row(row);
        ASSERT_TRUE(built) << row.name << ": " << built.error().to_string();
        bool has_it = false;
        for (const Node& node : built->built.program.nodes)
            has_it = has_it ||
                     (node.op == Op::elementwise ? vm::tensor::arith::find_element_op(node.element)->name == row.of()
                                                 : vm::tensor::find_op(node.op)->name == row.of());
        EXPECT_TRUE(has_it) << "row " << row.name << " is none of its op";
        rows.emplace(row.of());
    }
    std::set<std::string> wanted;
    using vm::tensor::arith::WordType;
    for (const auto& op : vm::tensor::arith::kElementOps) {
        bool of_floats = false;
        for (std::size_t i = 0; i < op.arity; ++i) of_floats = of_floats || op.inputs[i] == WordType::f32;
        if (of_floats && op.output == WordType::f32) wanted.emplace(op.name);
    }
    for (const auto& op : vm::tensor::kOps)
        if ((op.kind == OpKind::reduction || op.kind == OpKind::structural || op.kind == OpKind::gather) &&
            op.op != Op::kth_last && op.op != Op::imatmul)  // of whole numbers alone
            wanted.emplace(op.name);
    EXPECT_EQ(rows, wanted);
    Builder b;
    static_cast<void>(b.kth_last(b.constant(1.0F), 1));
    EXPECT_TRUE(b.failed());
}

// What the headers of composites declare, but what is no function of a value that training moves.
TEST(GradientTable, has_a_row_for_each_composite) {
    std::set<std::string> rows;
    for (const GradientRow& row : test::composite_rows()) rows.emplace(row.of());
    std::set<std::string> wanted;
    const std::regex declaration(R"(\]\] (?:Value|Images|BatchNormed|LstmState|Routing) (\w+)\(Builder& b)");
    for (const char* header : {"composite.h", "image.h", "attention.h", "recurrent.h", "experts.h"}) {
        const auto text = fs::read_text_file(std::string(QUERN_PROGRAM_HEADERS "/") + header, 1 << 20);
        ASSERT_TRUE(text) << text.error().to_string();
        const auto before = wanted.size();
        for (std::sregex_iterator at(text->begin(), text->end(), declaration), end; at != end; ++at)
            wanted.insert((*at)[1]);
        EXPECT_GT(wanted.size(), before) << header;
    }
    for (const char* of_constants : {"sine", "cosine", "moved_towards", "key_of_use"})
        EXPECT_EQ(wanted.erase(of_constants), 1U) << of_constants;
    EXPECT_EQ(rows, wanted);
}

}  // namespace
}  // namespace quern::compute::program
