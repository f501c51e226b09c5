#include "compute/program/text_dataset.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace quern::compute::program {

namespace {

constexpr std::string_view kTextFormat = "quern-text-2";
constexpr std::string_view kDtype = "u8";

}  // namespace

Expected<TextDataset> build_text_dataset(std::span<const std::string_view> texts, std::string_view vocabulary) {
    std::string all;
    for (const std::string_view text : texts) all += text;
    if (all.size() < 2) return fail("dataset.too_short", std::to_string(all.size()) + " bytes");
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
    std::array<std::uint8_t, 256> number{};
    for (std::size_t byte = 0; byte < 256; ++byte)
        if (wanted[byte]) {
            number[byte] = static_cast<std::uint8_t>(result.vocabulary.size());
            result.vocabulary.push_back(static_cast<char>(byte));
        }
    result.tokens.reserve(all.size());
    for (const char c : all) result.tokens.push_back(number[static_cast<unsigned char>(c)]);
    return result;
}

std::string describe_text_dataset(const TextDataset& dataset) {
    return json::Value::object({{"format", std::string(kTextFormat)},
                                {"dtype", std::string(kDtype)},
                                {"elements", dataset.tokens.size()},
                                {"vocabulary", to_hex(as_bytes(dataset.vocabulary))}})
               .dump_pretty() +
           "\n";
}

Expected<std::string> read_vocabulary(BytesView tokens, std::string_view description) {
    const auto fields = json::parse(description);
    if (!fields || !fields->is_object())
        return fail("dataset.not_a_text_data_set", "the description is no JSON object");
    const auto text = [&](std::string_view key) {
        const json::Value* const value = fields->find(key);
        const auto string = value == nullptr ? Expected<std::string_view>(std::string_view()) : value->as_string();
        return string ? std::string(*string) : std::string();
    };
    const json::Value* const elements = fields->find("elements");
    const auto count = elements == nullptr ? Expected<std::uint64_t>(std::uint64_t{0}) : elements->as_u64();
    if (text("format") != kTextFormat || text("dtype") != kDtype || !count || *count != tokens.size())
        return fail("dataset.not_a_text_data_set", "the description is of another file");
    const auto bytes = from_hex(text("vocabulary"));
    if (!bytes || bytes->empty() || bytes->size() > 256 ||
        std::adjacent_find(bytes->begin(), bytes->end(), std::greater_equal<>()) != bytes->end())
        return fail("dataset.bad_vocabulary");
    for (const std::uint8_t token : tokens)
        if (token >= bytes->size())
            return fail("dataset.bad_vocabulary", "token " + std::to_string(token) + " is beyond it");
    return std::string(as_text(*bytes));
}

}  // namespace quern::compute::program
