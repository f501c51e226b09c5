#include "compute/program/text_dataset.h"

#include <algorithm>
#include <array>

#include "compute/program/safetensors.h"

namespace quern::compute::program {

using vm::tensor::DType;
using vm::tensor::Shape;

namespace {

constexpr std::string_view kTextFormat = "quern-text-1";
constexpr std::uint32_t kMaxTextContext = 1U << 16;

}  // namespace

Expected<TextDataset> build_text_dataset(std::span<const std::string_view> texts, std::uint32_t context,
                                         std::string_view vocabulary) {
    if (context == 0 || context > kMaxTextContext) return fail("dataset.bad_context", std::to_string(context));
    std::string all;
    for (const std::string_view text : texts) all += text;
    if (all.size() <= context)
        return fail("dataset.too_short",
                    std::to_string(all.size()) + " bytes for windows of " + std::to_string(context + 1));
    std::array<bool, 256> seen{};
    for (const char c : all) seen[static_cast<unsigned char>(c)] = true;
    std::array<bool, 256> wanted = seen;
    if (!vocabulary.empty()) {
        wanted.fill(false);
        for (const char c : vocabulary) wanted[static_cast<unsigned char>(c)] = true;
        for (std::size_t byte = 0; byte < 256; ++byte)
            if (seen[byte] && !wanted[byte])
                return fail("dataset.unknown_character", "byte " + std::to_string(byte) + " is not in the vocabulary");
    }
    TextDataset result;
    std::array<std::uint32_t, 256> number{};
    for (std::size_t byte = 0; byte < 256; ++byte)
        if (wanted[byte]) {
            number[byte] = static_cast<std::uint32_t>(result.vocabulary.size());
            result.vocabulary.push_back(static_cast<char>(byte));
        }
    const std::size_t windows = (all.size() - 1) / context;
    if (windows > vm::tensor::kMaxTensorElements / (std::size_t{context} + 1)) return fail("dataset.too_large");
    result.windows.dtype = DType::i32;
    result.windows.shape = Shape{{1, 1, static_cast<std::uint32_t>(windows), context + 1}};
    result.windows.words.reserve(result.windows.shape.elements());
    for (std::size_t w = 0; w < windows; ++w)
        for (std::size_t i = 0; i <= context; ++i)
            result.windows.words.push_back(number[static_cast<unsigned char>(all[w * context + i])]);
    return result;
}

Expected<Bytes> write_text_dataset(const TextDataset& dataset) {
    const TensorView view{"data", &dataset.windows, false};
    return write_safetensors(
        {&view, 1}, {{"format", std::string(kTextFormat)}, {"vocabulary", to_hex(as_bytes(dataset.vocabulary))}});
}

Expected<TextDataset> read_text_dataset(BytesView file) {
    QUERN_TRY(Safetensors content, read_safetensors(file));
    const std::string* format = content.find_metadata("format");
    const std::string* vocabulary = content.find_metadata("vocabulary");
    if (format == nullptr || *format != kTextFormat || vocabulary == nullptr || content.tensors.size() != 1 ||
        content.tensors[0].name != "data" || content.tensors[0].tensor.dtype != DType::i32)
        return fail("dataset.not_a_text_data_set");
    const auto bytes = from_hex(*vocabulary);
    if (!bytes || bytes->empty() || bytes->size() > 256 ||
        std::adjacent_find(bytes->begin(), bytes->end(), std::greater_equal<>()) != bytes->end())
        return fail("dataset.bad_vocabulary");
    TextDataset result{std::move(content.tensors[0].tensor), std::string(as_text(*bytes))};
    for (const std::uint32_t token : result.windows.words)
        if (token >= result.vocabulary.size())
            return fail("dataset.bad_vocabulary", "token " + std::to_string(token) + " is beyond it");
    return result;
}

}  // namespace quern::compute::program
