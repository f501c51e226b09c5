// Text sampled from a trained model of text, in the canonical arithmetic: the same seed gives the same text. Used by
// quern-compile. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "compute/program/architecture.h"
#include "compute/program/text_dataset.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {

struct SampleOptions {
    std::size_t length = 300;  // tokens to add
    std::uint64_t seed = 1;
    float temperature = 0.8F;  // above 0
    std::string prompt;        // in the vocabulary; empty: a newline where it has one, else its first token
};

// The new text, without the prompt. `trained` is a state of `training_program`, which was built for `spec`;
// `vocabulary` says what token t stands for. Errors: sample.bad_temperature, sample.bad_prompt,
// sample.wrong_vocabulary, sample.missing_parameter, executor.*.
[[nodiscard]] Expected<std::string> sample_text(const TransformerSpec& spec,
                                                const vm::tensor::Program& training_program,
                                                const vm::tensor::State& trained, const TextVocabulary& vocabulary,
                                                const SampleOptions& options, ThreadPool* pool);

}  // namespace quern::compute::program
