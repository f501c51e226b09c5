// Rotary positions, attention over shared heads, recurrent cells: values against plain loops, gradients against
// differences.
#include "compute/program/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compute/program/composite.h"
#include "compute/program/recurrent.h"
#include "unit/compute/program/gradient_check.h"

namespace quern::compute::program {
namespace {

using test::check_gradient;
using test::numbers;
using test::values_of;
using Doubles = std::vector<double>;

TEST(Attention, sine_and_cosine_are_near_the_true_ones) {
    Doubles angles;
    for (int i = -4000; i <= 4000; ++i) angles.push_back(static_cast<double>(static_cast<float>(i * 4.0927)));
    for (int i = 0; i < 64; ++i) angles.push_back(static_cast<double>(static_cast<float>(i * 0.785398163)));
    const Shape shape = vector_shape(static_cast<std::uint32_t>(angles.size()));
    for (const auto arithmetic : {test::Arithmetic::doubles, test::Arithmetic::canonical}) {
        const auto sines = values_of(
            {shape}, {angles}, [](Builder& b, auto x) { return sine(b, x[0]); }, arithmetic);
        const auto cosines = values_of(
            {shape}, {angles}, [](Builder& b, auto x) { return cosine(b, x[0]); }, arithmetic);
        ASSERT_EQ(sines.size(), angles.size());
        for (std::size_t i = 0; i < angles.size(); ++i) {
            ASSERT_NEAR(sines[i], std::sin(angles[i]), 0x1p-22) << angles[i];
            ASSERT_NEAR(cosines[i], std::cos(angles[i]), 0x1p-22) << angles[i];
        }
    }
}

TEST(Attention, positions_turn_pairs) {
    const Shape shape{{1, 2, 5, 6}};
    const Doubles x = numbers(shape.elements(), 0.7);
    const auto turned = values_of({shape}, {x}, [](Builder& b, auto v) { return rotary(b, v[0], 10'000.0F); });
    ASSERT_EQ(turned.size(), x.size());
    for (std::size_t row = 0; row < 10; ++row)
        for (std::size_t i = 0; i < 3; ++i) {
            const double angle = static_cast<double>(row % 5) * std::pow(10'000.0, -2.0 * static_cast<double>(i) / 6);
            const double first = x[row * 6 + i];
            const double second = x[row * 6 + i + 3];
            EXPECT_NEAR(turned[row * 6 + i], first * std::cos(angle) - second * std::sin(angle), 2e-6);
            EXPECT_NEAR(turned[row * 6 + i + 3], first * std::sin(angle) + second * std::cos(angle), 2e-6);
        }
    check_gradient({shape}, [](Builder& b, auto v) { return rotary(b, v[0], 500.0F); });
}

// Of one head: rows of q over those of k and v, all of `size`; causal or not.
Doubles plain_attention(const double* q, const double* k, const double* v, std::size_t rows, std::size_t others,
                        std::size_t size, bool causal) {
    Doubles result(rows * size, 0);
    for (std::size_t i = 0; i < rows; ++i) {
        Doubles weights;
        double sum = 0;
        for (std::size_t j = 0; j < (causal ? i + 1 : others); ++j) {
            double dot = 0;
            for (std::size_t c = 0; c < size; ++c) dot += q[i * size + c] * k[j * size + c];
            weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(size))));
            sum += weights.back();
        }
        for (std::size_t j = 0; j < weights.size(); ++j)
            for (std::size_t c = 0; c < size; ++c) result[i * size + c] += weights[j] / sum * v[j * size + c];
    }
    return result;
}

TEST(Attention, heads_of_a_group_read_the_same) {
    constexpr std::size_t kRows = 4;
    constexpr std::size_t kSize = 3;
    for (const bool causal : {false, true})
        for (const std::uint32_t groups : {1U, 2U, 6U})
            for (const std::size_t others : {kRows, causal ? kRows : kRows + 1}) {
                const Shape asked{{2, 6, kRows, kSize}};
                const Shape read{{2, groups, static_cast<std::uint32_t>(others), kSize}};
                const Doubles q = numbers(asked.elements(), 0.9);
                const Doubles k = numbers(read.elements(), 1.7);
                const Doubles v = numbers(read.elements(), 0.4);
                const auto found = values_of({asked, read, read}, {q, k, v}, [&](Builder& b, auto x) {
                    return attention(b, x[0], x[1], x[2], causal);
                });
                ASSERT_EQ(found.size(), q.size());
                for (std::size_t head = 0; head < 12; ++head) {
                    const std::size_t group = head / 6 * groups + head % 6 / (6 / groups);
                    const auto expected = plain_attention(&q[head * kRows * kSize], &k[group * others * kSize],
                                                          &v[group * others * kSize], kRows, others, kSize, causal);
                    for (std::size_t i = 0; i < expected.size(); ++i)
                        ASSERT_NEAR(found[head * kRows * kSize + i], expected[i], 1e-6);
                }
            }
    for (const bool causal : {false, true})
        check_gradient({Shape{{1, 4, 3, 2}}, Shape{{1, 2, 3, 2}}, Shape{{1, 2, 3, 2}}},
                       [&](Builder& b, auto x) { return attention(b, x[0], x[1], x[2], causal); });
}

TEST(Attention, names_what_does_not_fit) {
    const auto error = [](const auto& make) {
        Builder b;
        make(b);
        return b.failed() ? std::string(b.status().error().name) : "none";
    };
    const auto heads = [](Builder& b, const char* name, std::uint32_t count, std::uint32_t rows) {
        return b.slot(name, DType::f32, Shape{{1, count, rows, 3}}, Initializer::zeros());
    };
    EXPECT_EQ(error([&](Builder& b) { (void)rotary(b, heads(b, "x", 2, 4), 10'000.0F); }), "attention.odd_size");
    const auto over = [&](std::uint32_t groups, std::uint32_t rows, bool causal) {
        return error([&](Builder& b) {
            const auto query = heads(b, "q", 4, 4);
            const auto key = heads(b, "k", groups, rows);
            (void)attention(b, query, key, key, causal);
        });
    };
    EXPECT_EQ(over(3, 4, false), "attention.bad_groups");
    EXPECT_EQ(over(2, 5, true), "attention.not_square");
    EXPECT_EQ(over(2, 5, false), "none");
    EXPECT_EQ(error([](Builder& b) {
                  (void)group_norm(b, b.slot("x", DType::f32, Shape{{1, 2, 2, 4}}, Initializer::zeros()), {}, {}, 3, 0);
              }),
              "norm.bad_groups");
    for (const float rate : {-0.1F, 1.0F})
        EXPECT_EQ(error([&](Builder& b) {
                      const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros());
                      (void)dropout(b, x, b.seed(), rate);
                  }),
                  "dropout.bad_rate");
}

// Philox's words are even: of 20,000 elements three standard deviations are 1 %.
TEST(Dropout, drops_as_many_as_it_says_and_makes_up_for_it) {
    const Shape shape{{1, 2, 100, 100}};
    for (const float rate : {0.0F, 0.25F, 0.9F}) {
        const auto found = values_of({shape}, {Doubles(shape.elements(), 1.0)},
                                     [&](Builder& b, auto x) { return dropout(b, x[0], b.seed(), rate); });
        std::size_t dropped = 0;
        for (const double value : found) {
            if (value == 0)
                ++dropped;
            else
                ASSERT_NEAR(value, 1 / (1 - static_cast<double>(rate)), 1e-5);
        }
        EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(found.size()), static_cast<double>(rate), 0.011);
    }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Rows of x [n,k] by w [k,m] plus bias.
Doubles product(const Doubles& x, const Doubles& w, const Doubles& bias, std::size_t k) {
    const std::size_t m = bias.size();
    Doubles result;
    for (std::size_t row = 0; row < x.size() / k; ++row)
        for (std::size_t column = 0; column < m; ++column) {
            double sum = bias[column];
            for (std::size_t i = 0; i < k; ++i) sum += x[row * k + i] * w[i * m + column];
            result.push_back(sum);
        }
    return result;
}

class Recurrent : public ::testing::Test {
protected:
    static constexpr std::size_t kRows = 3;
    static constexpr std::size_t kInputs = 4;
    static constexpr std::size_t kSize = 2;

    // Shapes and values of x, hidden, cell, both weights and both biases, for so many gates.
    explicit Recurrent() = default;
    void set(std::uint32_t gates) {
        shapes = {matrix_shape(kRows, kInputs),         matrix_shape(kRows, kSize),         matrix_shape(kRows, kSize),
                  matrix_shape(kInputs, gates * kSize), matrix_shape(kSize, gates * kSize), vector_shape(gates * kSize),
                  vector_shape(gates * kSize)};
        values.clear();
        for (std::size_t i = 0; i < shapes.size(); ++i)
            values.push_back(numbers(shapes[i].elements(), 0.3 + 0.2 * static_cast<double>(i)));
        from_input = product(values[0], values[3], values[5], kInputs);
        from_hidden = product(values[1], values[4], values[6], kSize);
        width = gates * kSize;
    }
    static CellWeights weights(std::span<const Value> x) { return {x[3], x[4], x[5], x[6]}; }

    std::vector<Shape> shapes;
    std::vector<Doubles> values;
    Doubles from_input;
    Doubles from_hidden;
    std::size_t width = 0;
};

TEST_F(Recurrent, lstm_is_that_of_the_books) {
    set(4);
    const auto lstm = [](bool cell) {
        return [cell](Builder& b, std::span<const Value> x) {
            const auto after = lstm_cell(b, x[0], {x[1], x[2]}, weights(x));
            return cell ? after.cell : after.hidden;
        };
    };
    const auto cells = values_of(shapes, values, lstm(true));
    const auto hidden = values_of(shapes, values, lstm(false));
    ASSERT_EQ(cells.size(), kRows * kSize);
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const auto gate = [&](std::size_t number) {
            const std::size_t at = i / kSize * width + number * kSize + i % kSize;
            return from_input[at] + from_hidden[at];
        };
        const double cell = sigmoid(gate(1)) * values[2][i] + sigmoid(gate(0)) * std::tanh(gate(2));
        EXPECT_NEAR(cells[i], cell, 1e-9);
        EXPECT_NEAR(hidden[i], sigmoid(gate(3)) * std::tanh(cell), 1e-9);
    }
    check_gradient(shapes, lstm(true));
    check_gradient(shapes, lstm(false));
}

TEST_F(Recurrent, gru_is_that_of_the_books) {
    set(3);
    const auto gru = [](Builder& b, std::span<const Value> x) { return gru_cell(b, x[0], x[1], weights(x)); };
    const auto found = values_of(shapes, values, gru);
    ASSERT_EQ(found.size(), kRows * kSize);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const auto at = [&](std::size_t number) { return i / kSize * width + number * kSize + i % kSize; };
        const double reset = sigmoid(from_input[at(0)] + from_hidden[at(0)]);
        const double update = sigmoid(from_input[at(1)] + from_hidden[at(1)]);
        const double candidate = std::tanh(from_input[at(2)] + reset * from_hidden[at(2)]);
        EXPECT_NEAR(found[i], (1 - update) * candidate + update * values[1][i], 1e-9);
    }
    check_gradient(shapes, gru);
}

}  // namespace
}  // namespace quern::compute::program
