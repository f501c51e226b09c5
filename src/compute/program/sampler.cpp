#include "compute/program/sampler.h"

#include <algorithm>
#include <vector>

#include "compute/program/initial_state.h"
#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::program {

using vm::tensor::Program;
using vm::tensor::State;
using vm::tensor::Tensor;

namespace {

constexpr std::uint32_t kSampleDomain = 0x53414d50;  // "SAMP"

constexpr std::string_view kMissing = "sample.missing_parameter";

// Smallest token whose cumulative probability exceeds `uniform` in [0, 1); the last one that has any, if rounding
// leaves the sum below it.
std::uint32_t draw(const Tensor& probabilities, std::uint32_t row, double uniform) {
    const std::uint32_t columns = probabilities.shape.columns();
    double sum = 0;
    std::uint32_t last = 0;
    for (std::uint32_t t = 0; t < columns; ++t) {
        const float p = __builtin_bit_cast(float, probabilities.words[std::size_t{row} * columns + t]);
        if (!(p > 0)) continue;
        sum += static_cast<double>(p);
        last = t;
        if (sum > uniform) return t;
    }
    return last;
}

Expected<std::vector<std::uint32_t>> tokens_of(std::string_view prompt, const TextVocabulary& vocabulary) {
    if (prompt.empty()) {
        const auto newline = vocabulary.encode("\n");
        return newline ? *newline : std::vector<std::uint32_t>{0};
    }
    auto tokens = vocabulary.encode(prompt);
    if (!tokens) return fail("sample.bad_prompt", "a byte that the data did not have");
    return std::move(*tokens);
}

}  // namespace

Expected<std::string> sample_text(const TransformerSpec& spec, const Program& training_program, const State& trained,
                                  const TextVocabulary& vocabulary, const SampleOptions& options, ThreadPool* pool) {
    if (!(options.temperature > 0) || options.temperature > 1e6F) return fail("sample.bad_temperature");
    if (vocabulary.size() != spec.vocabulary)
        return fail("sample.wrong_vocabulary",
                    std::to_string(vocabulary.size()) + " tokens, the model has " + std::to_string(spec.vocabulary));
    QUERN_CHECK(vm::tensor::check_state(training_program, trained));
    QUERN_TRY(const BuiltProgram built, build_forward_program(spec));
    const Program& program = built.program;
    State state = initial_state(built, 0);
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) == 0) continue;
        QUERN_TRY(const std::size_t from, slot_index(training_program, program.slots[s].name, kMissing));
        state[s] = trained[from];
    }
    QUERN_CHECK(vm::tensor::check_state(program, state));
    QUERN_TRY(const std::size_t tokens_slot, slot_index(program, "tokens", kMissing));
    QUERN_TRY(const std::size_t temperature_slot, slot_index(program, "inverse_temperature", kMissing));
    QUERN_TRY(const std::size_t output_slot, slot_index(program, "probabilities", kMissing));
    state[temperature_slot].words[0] = __builtin_bit_cast(std::uint32_t, 1.0F / options.temperature);

    QUERN_TRY(std::vector<std::uint32_t> tokens, tokens_of(options.prompt, vocabulary));
    const vm::tensor::MemoryData data;  // the program reads none
    const Tensor seed{vm::tensor::DType::i32, vector_shape(4), {0, 0, 0, 0}};
    vm::tensor::Executor executor(program, vm::tensor::arith::best_backend(), pool);
    std::string text;
    for (std::size_t i = 0; i < options.length; ++i) {
        // Positions after the last token do not reach it through the causal mask, whatever they hold.
        const std::size_t count = std::min<std::size_t>(tokens.size(), spec.context);
        std::copy(tokens.end() - static_cast<std::ptrdiff_t>(count), tokens.end(), state[tokens_slot].words.begin());
        executor.step(state, data, seed);
        const std::uint32_t word = vm::tensor::arith::philox_word(static_cast<std::uint32_t>(i), 0, kSampleDomain,
                                                                  static_cast<std::uint32_t>(options.seed),
                                                                  static_cast<std::uint32_t>(options.seed >> 32));
        const std::uint32_t token =
            draw(state[output_slot], static_cast<std::uint32_t>(count - 1), static_cast<double>(word >> 8) * 0x1p-24);
        tokens.push_back(token);
        text += vocabulary.piece(token);
    }
    return text;
}

}  // namespace quern::compute::program
