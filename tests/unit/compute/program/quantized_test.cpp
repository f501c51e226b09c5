#include "compute/program/quantized.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

const vm::tensor::MemoryData kNoData;
const Tensor kSeed = vm::tensor::seed_tensor(Hash32{});

float real(std::uint32_t word) { return std::bit_cast<float>(word); }
std::int32_t whole(std::uint32_t word) { return static_cast<std::int32_t>(word); }

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint32_t word() {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<std::uint32_t>(state_ >> 32);
    }
    float unit() { return static_cast<float>(whole(word())) * 0x1p-31F; }  // -1 to 1

private:
    std::uint64_t state_;
};

// Runs a step of what is built: slots by name.
class Step {
public:
    explicit Step(const Builder& b) {
        auto built = b.finish();
        EXPECT_TRUE(built) << built.error().to_string();
        if (!built) return;
        built_ = std::move(*built);
        state_ = initial_state(built_, 1);
    }
    Tensor& operator[](const std::string& name) {
        for (std::size_t i = 0; i < built_.program.slots.size(); ++i)
            if (built_.program.slots[i].name == name) return state_[i];
        ADD_FAILURE() << "no slot " << name;
        return state_.front();
    }
    void step() {
        vm::tensor::Executor(built_.program, vm::tensor::arith::best_backend(), nullptr).step(state_, kNoData, kSeed);
    }

private:
    BuiltProgram built_;
    State state_;
};

void add(Builder& b, const std::string& name, Value value) {
    b.update(b.slot(name, b.type(value).dtype, b.shape(value), Initializer::zeros()), value);
}
void finish_loss(Builder& b, Value loss = {}) {
    const auto slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.set_loss_slot(slot);
    if (loss.valid()) b.update(slot, loss);
}

// 2^e of a strip by its definition, in double; NaN of what is no number.
double power_of(const std::vector<float>& strip) {
    double largest = 0;
    for (const float x : strip) {
        if (!std::isfinite(x)) return std::nan("");
        largest = std::max(largest, std::fabs(static_cast<double>(x)));
    }
    if (largest == 0) return 0x1p-60;
    return std::ldexp(1.0, std::min(std::max(std::ilogb(largest) - 6, -60), 52));
}

// Elements of the axis beside the one at `at`, from a multiple of 256 on.
std::vector<std::size_t> strip_at(const Shape& shape, std::size_t axis, std::size_t at) {
    const std::size_t step = axis == 3 ? 1 : shape.columns();
    const std::size_t size = shape.dims[axis];
    const std::size_t place = at / step % size;
    std::vector<std::size_t> result;
    for (std::size_t k = place / 256 * 256; k < std::min(size, place / 256 * 256 + 256); ++k)
        result.push_back(at + k * step - place * step);
    return result;
}

const std::vector<std::pair<Shape, std::uint32_t>> kCases{
    {Shape{{1, 1, 5, 600}}, 3}, {Shape{{2, 3, 300, 4}}, 2}, {Shape{{1, 1, 1, 7}}, 3},
    {Shape{{1, 1, 1, 7}}, 2},   {Shape{{1, 1, 512, 3}}, 2}, {Shape{{2, 1, 3, 512}}, 3},
    {Shape{{1, 1, 256, 2}}, 2}, {Shape{{1, 2, 2, 257}}, 3}, {Shape{{1, 2, 75, 3}}, 2}};

TEST(Quantized, bytes_and_scales_are_those_of_the_definition) {
    Random random(5);
    for (const auto& [shape, axis] : kCases) {
        Builder b;
        const auto x = b.slot("x", DType::f32, shape, Initializer::zeros());
        const auto bytes = to_bytes(b, x, axis);
        add(b, "bytes", bytes.bytes);
        add(b, "scales", bytes.scales);
        finish_loss(b);
        Step run(b);
        std::vector<std::uint32_t>& words = run["x"].words;
        for (std::uint32_t& word : words)
            word = std::bit_cast<std::uint32_t>(std::ldexp(random.unit(), whole(random.word()) % 30));
        if (shape.elements() > 100)
            for (const std::uint32_t special : {0x7f7fffffU, 0xff800000U, 0x7f800001U, 0x00000001U, 0x5f000000U})
                words[random.word() % words.size()] = special;
        for (const std::size_t i : strip_at(shape, axis, shape.elements() - 1)) words[i] = 0;
        run.step();
        Shape of_scales = shape;
        of_scales.dims[axis] = (shape.dims[axis] + 255) / 256;
        ASSERT_EQ(run["scales"].shape, of_scales);
        ASSERT_EQ(run["bytes"].shape, shape);
        std::multiset<std::uint32_t> wanted_scales;
        for (std::size_t i = 0; i < words.size(); ++i) {
            std::vector<float> strip;
            const std::vector<std::size_t> places = strip_at(shape, axis, i);
            for (const std::size_t place : places) strip.push_back(real(words[place]));
            const double power = power_of(strip);
            if (places.front() == i)
                wanted_scales.insert(power != power ? 0x7fc00000U
                                                    : std::bit_cast<std::uint32_t>(static_cast<float>(power)));
            const double exact = std::nearbyint(static_cast<double>(real(words[i])) / power);
            const double wanted = power != power ? 0 : std::min(127.0, std::max(-127.0, exact));
            ASSERT_EQ(whole(run["bytes"].words[i]), wanted) << shape.to_string() << " element " << i;
        }
        EXPECT_EQ(std::multiset<std::uint32_t>(run["scales"].words.begin(), run["scales"].words.end()), wanted_scales);
    }
}

// Where the scales stand: bytes times their scales are what was quantised, but for half a unit.
TEST(Quantized, products_of_bytes_are_near_products_of_what_they_stand_for) {
    Random random(6);
    for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true})
            for (const std::uint32_t inner : {40U, 512U, 600U}) {
                Builder b;
                const auto a = b.slot("a", DType::f32, transpose_a ? matrix_shape(inner, 9) : matrix_shape(9, inner),
                                      Initializer::zeros());
                const auto c = b.slot("c", DType::f32, transpose_b ? matrix_shape(11, inner) : matrix_shape(inner, 11),
                                      Initializer::zeros());
                add(b, "product", ByteProducts({}).matmul(b, a, c, transpose_a, transpose_b));
                add(b, "exact", b.matmul(a, c, transpose_a, transpose_b));
                finish_loss(b);
                Step run(b);
                for (const char* name : {"a", "c"})
                    for (std::size_t i = 0; i < run[name].words.size(); ++i)
                        run[name].words[i] =
                            std::bit_cast<std::uint32_t>(std::ldexp(random.unit(), static_cast<int>(i / 64 % 7)));
                run.step();
                double difference = 0;
                double size = 0;
                for (std::size_t i = 0; i < run["exact"].words.size(); ++i) {
                    const double wanted = real(run["exact"].words[i]);
                    difference += std::pow(real(run["product"].words[i]) - wanted, 2);
                    size += wanted * wanted;
                }
                EXPECT_LT(difference, 0.03 * 0.03 * size) << inner << transpose_a << transpose_b;
                EXPECT_GT(difference, 0.0);
            }
}

TEST(Quantized, random_rounding_is_right_on_average_and_another_one_each_use) {
    constexpr std::uint32_t kElements = 4096;
    Builder b;
    const auto x = b.slot("x", DType::f32, matrix_shape(16, kElements / 16), Initializer::zeros());
    const auto key = b.seed();
    add(b, "first", to_bytes(b, x, 3, key_of_use(b, key, 1)).bytes);
    add(b, "second", to_bytes(b, x, 3, key_of_use(b, key, 2)).bytes);
    finish_loss(b);
    Step run(b);
    // Each row has a 64, so that its scale is 1, and a number between two bytes otherwise.
    std::vector<std::uint32_t>& words = run["x"].words;
    const auto given = [](std::size_t i) {
        return i % 256 == 0 ? 64.0F : static_cast<float>(i / 256) - 8 + static_cast<float>(i / 256) / 16;
    };
    for (std::size_t i = 0; i < kElements; ++i) words[i] = std::bit_cast<std::uint32_t>(given(i));
    run.step();
    std::size_t different = 0;
    for (std::size_t row = 0; row < 16; ++row) {
        double sum = 0;
        for (std::size_t i = 256 * row; i < 256 * row + 256; ++i) {
            const std::int32_t byte = whole(run["first"].words[i]);
            ASSERT_GE(byte, std::floor(given(i))) << i;
            ASSERT_LE(byte, std::ceil(given(i))) << i;
            different += byte != whole(run["second"].words[i]) ? 1 : 0;
            if (i % 256 != 0) sum += byte;
        }
        const double fraction = static_cast<double>(row) / 16;
        const double deviation = std::sqrt(fraction * (1 - fraction) / 255);
        EXPECT_NEAR(sum / 255, given(256 * row + 1), 5 * deviation) << "row " << row;
    }
    EXPECT_GT(different, 1000U);
    EXPECT_LT(different, 1800U);  // a third, were all fractions as likely: 2 p (1 - p)
}

// The strip behind whole ones has words of its own.
TEST(Quantized, no_random_word_rounds_two_elements) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(512 + 256 - 1), Initializer::zeros());
    add(b, "bytes", to_bytes(b, x, 3, b.seed()).bytes);
    finish_loss(b);
    Step run(b);
    for (std::size_t i = 0; i < 767; ++i) run["x"].words[i] = std::bit_cast<std::uint32_t>(i % 256 == 0 ? 64.0F : 0.5F);
    run.step();
    const std::vector<std::uint32_t>& bytes = run["bytes"].words;
    for (const std::size_t other : {256U, 512U}) {
        std::size_t same = 0;
        for (std::size_t i = 1; i < 255; ++i) same += bytes[i] == bytes[other + i] ? 1 : 0;
        EXPECT_GT(same, 80U);
        EXPECT_LT(same, 174U);
    }
}

TEST(Quantized, gradients_are_products_in_bytes_near_those_of_a_matmul) {
    Random random(8);
    for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true}) {
            Builder b;
            const auto a = b.slot("a", DType::f32, transpose_a ? matrix_shape(70, 300) : matrix_shape(300, 70),
                                  Initializer::zeros());
            const auto c = b.slot("c", DType::f32, transpose_b ? matrix_shape(20, 70) : matrix_shape(70, 20),
                                  Initializer::zeros());
            const auto weights = b.slot("weights", DType::f32, matrix_shape(300, 20), Initializer::zeros());
            const ByteProducts products(b.seed());
            const Value of[] = {a, c};
            const auto quantized = products.matmul(b, a, c, transpose_a, transpose_b);
            const auto loss = sum_all(b, b.mul(quantized, weights));
            const std::vector<Value> gradient = gradients(b, loss, of);
            const auto exact = sum_all(b, b.mul(b.matmul(a, c, transpose_a, transpose_b), weights));
            const std::vector<Value> wanted = gradients(b, exact, of);
            add(b, "a.gradient", gradient[0]);
            add(b, "c.gradient", gradient[1]);
            add(b, "a.wanted", wanted[0]);
            add(b, "c.wanted", wanted[1]);
            finish_loss(b, loss);
            Step run(b);
            for (const char* name : {"a", "c", "weights"})
                for (std::uint32_t& word : run[name].words) word = std::bit_cast<std::uint32_t>(random.unit());
            run.step();
            for (const std::string name : {"a", "c"}) {
                double difference = 0;
                double size = 0;
                const std::vector<std::uint32_t> found = run[name + ".gradient"].words;
                for (std::size_t i = 0; i < found.size(); ++i) {
                    const double expected = real(run[name + ".wanted"].words[i]);
                    difference += std::pow(real(found[i]) - expected, 2);
                    size += expected * expected;
                }
                EXPECT_LT(difference, 0.03 * 0.03 * size) << name << transpose_a << transpose_b;
                EXPECT_GT(difference, 0.0);
            }
        }
}

TEST(Quantized, refuses_what_it_cannot_do_by_name) {
    {
        Builder b;
        const auto x = b.slot("x", DType::f32, matrix_shape(3, 4), Initializer::zeros());
        static_cast<void>(to_bytes(b, x, 1));
        EXPECT_EQ(b.status().error().name, "quantized.bad_axis");
    }
    {
        Builder b;
        const auto x = b.slot("x", DType::f32, matrix_shape(4, 4), Initializer::zeros());
        const Value of[] = {x};
        const auto product = ByteProducts({}).matmul(b, x, x);
        EXPECT_FALSE(b.failed());  // without gradients no random word is needed
        static_cast<void>(gradients(b, sum_all(b, product), of));
        EXPECT_EQ(b.status().error().name, "quantized.no_key");
    }
    {
        Builder b;
        const auto x = b.slot("x", DType::f32, matrix_shape(3, 4), Initializer::zeros());
        static_cast<void>(ByteProducts({}).matmul(b, x, x));
        EXPECT_EQ(b.status().error().name, "builder.bad_shape");
    }
}

// A gradient that is given: of twice the value, the rule says three times as much.
TEST(Quantized, a_rule_replaces_the_derivative) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(2), Initializer::constant(5.0F));
    const auto other = b.slot("other", DType::f32, vector_shape(2), Initializer::constant(7.0F));
    const auto twice = b.mul(x, b.constant(2.0F));
    const auto ruled = b.with_gradient(twice, {x, other}, [](Builder& to, Value gradient) {
        return std::vector<Value>{to.mul(gradient, to.constant(3.0F)), Value{}};
    });
    const Value of[] = {x, other};
    const std::vector<Value> gradient = gradients(b, sum_all(b, ruled), of);
    add(b, "gradient", gradient[0]);
    add(b, "none", gradient[1]);
    add(b, "value", ruled);
    finish_loss(b);
    Step run(b);
    run.step();
    EXPECT_EQ(real(run["gradient"].words[1]), 3.0F);
    EXPECT_EQ(real(run["none"].words[1]), 0.0F);
    EXPECT_EQ(real(run["value"].words[1]), 10.0F);
}

}  // namespace
}  // namespace quern::compute::program
