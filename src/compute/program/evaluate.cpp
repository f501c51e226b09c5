#include "compute/program/evaluate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/machine_memory.h"
#include "compute/program/initial_state.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::string_view kMissing = "evaluate.missing_slot";

// Row `row` of a matrix.
std::vector<double> row_of(const Tensor& matrix, std::uint64_t row) {
    const std::uint32_t columns = matrix.shape.columns();
    std::vector<double> numbers;
    for (std::uint32_t i = 0; i < columns; ++i)
        numbers.push_back(static_cast<double>(__builtin_bit_cast(float, matrix.words[row * columns + i])));
    return numbers;
}

// Of one example, in double precision; as the losses of composite.h have it.
double loss_of(LayersSpec::Loss loss, const std::vector<double>& x, const std::vector<double>& targets) {
    double sum = 0;
    if (loss == LayersSpec::Loss::cross_entropy || loss == LayersSpec::Loss::next_token) {
        const double largest = *std::max_element(x.begin(), x.end());
        for (const double each : x) sum += std::exp(each - largest);
        const double target = targets[0];
        const bool known = target >= 0 && target < static_cast<double>(x.size());
        return largest + std::log(sum) - (known ? x[static_cast<std::size_t>(target)] : 0.0);
    }
    for (std::size_t i = 0; i < x.size(); ++i)
        sum += loss == LayersSpec::Loss::mean_squared_error
                   ? (x[i] - targets[i]) * (x[i] - targets[i])
                   : std::max(x[i], 0.0) - x[i] * targets[i] + std::log1p(std::exp(-std::fabs(x[i])));
    return sum / static_cast<double>(x.size());
}

struct Measure {
    LayersSpec::Loss loss;
    bool classes;
    std::uint64_t rows;  // of outputs, for each example
};
Measure measure_of(const Architecture& architecture) {
    if (architecture.is_transformer()) return {LayersSpec::Loss::next_token, true, architecture.transformer().context};
    const LayersSpec& model = architecture.layers();
    return {model.loss, model.has_classes(), model.rows()};
}

}  // namespace

Expected<Evaluation> evaluate(const Architecture& architecture, const Program& training_program, const State& trained,
                              const vm::tensor::DataSource& data, ThreadPool* pool) {
    QUERN_CHECK(vm::tensor::check_state(training_program, trained));
    QUERN_TRY(const BuiltProgram built, build_evaluation_program(architecture));
    const Program& program = built.program;
    QUERN_CHECK(check_memory(training_program.header.sizes.state_bytes + program.header.sizes.state_bytes +
                             vm::tensor::step_bytes(program)));
    State state = initial_state(built, 0);
    QUERN_TRY(const std::size_t first, slot_index(program, "first", kMissing));
    QUERN_TRY(const std::size_t outputs, slot_index(program, "outputs", kMissing));
    QUERN_TRY(const std::size_t targets, slot_index(program, "targets", kMissing));
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        if (s == first || s == outputs || s == targets || s == program.header.loss_slot) continue;
        QUERN_TRY(const std::size_t from, slot_index(training_program, program.slots[s].name, kMissing));
        state[s] = trained[from];
    }
    QUERN_CHECK(vm::tensor::check_state(program, state));

    const auto [loss, classes, rows] = measure_of(architecture);
    const Tensor seed{vm::tensor::DType::i32, vector_shape(4), {0, 0, 0, 0}};
    vm::tensor::Executor executor(program, vm::tensor::arith::best_backend(), pool);
    Evaluation result;
    const std::uint64_t count = example_count(architecture);
    std::uint64_t right = 0;
    for (std::uint64_t begin = 0; begin < count; begin += architecture.batch) {
        state[first].words[0] = static_cast<std::uint32_t>(begin);
        if (!executor.step(state, data, seed)) return fail("evaluate.no_data", std::to_string(begin));
        const std::uint64_t end = std::min(count, begin + architecture.batch);
        for (std::uint64_t row = 0; row < (end - begin) * rows; ++row) {
            const std::vector<double> x = row_of(state[outputs], row);
            const std::vector<double> wanted = row_of(state[targets], row);
            result.loss += loss_of(loss, x, wanted);
            if (!classes) continue;
            const bool are_numbers = std::none_of(x.begin(), x.end(), [](double each) { return std::isnan(each); });
            const auto largest = are_numbers ? std::max_element(x.begin(), x.end()) : x.end();
            const auto best = static_cast<std::uint32_t>(largest - x.begin());
            result.predicted.push_back(best);
            right += static_cast<double>(best) == wanted[0] ? 1 : 0;
        }
    }
    result.examples = count;
    const auto all = static_cast<double>(count * rows);
    result.loss /= all;
    if (classes) result.accuracy = static_cast<double>(right) / all;
    return result;
}

}  // namespace quern::compute::program
