#include "compute/program/text_dataset.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace quern::compute::program {

namespace {

constexpr std::string_view kTextFormat = "quern-text-2";
constexpr std::string_view kDtype = "u8";
constexpr std::string_view kPairsFormat = "quern-bpe-1";
constexpr std::string_view kPairsDtype = "u16";
constexpr std::size_t kPairsFields = 4;

Expected<std::uint16_t> token_in(const json::Value& value, std::size_t pair) {
    const auto token = value.as_u64();
    if (!token || *token >= kMaxByteTokens) return fail("dataset.bad_vocabulary", "merge " + std::to_string(pair));
    return static_cast<std::uint16_t>(*token);
}

Expected<json::Value> parse_description(std::string_view description) {
    auto fields = json::parse(description, {kMaxDescriptionBytes});
    if (!fields || !fields->is_object())
        return fail("dataset.not_a_text_data_set", "the description is no JSON object");
    return std::move(*fields);
}

Expected<BytePairs> byte_pairs_in(const json::Value& fields) {
    const auto format = fields.get_string("format");
    const auto dtype = fields.get_string("dtype");
    const auto merges = fields.get_array("merges");
    if (!format || *format != kPairsFormat || !dtype || *dtype != kPairsDtype || !merges ||
        !fields.get_u64("elements") || fields.size() != kPairsFields)
        return fail("dataset.not_byte_pairs", "not the fields of " + std::string(kPairsFormat));
    if (merges->size() > kMaxByteTokens - kByteTokens)
        return fail("byte_pairs.too_many", std::to_string(merges->size()) + " pairs");
    std::vector<BytePairs::Pair> pairs;
    for (const json::Value& merge : *merges) {
        if (!merge.is_array() || merge.size() != 2)
            return fail("dataset.bad_vocabulary", "merge " + std::to_string(pairs.size()));
        QUERN_TRY(const std::uint16_t left, token_in(merge[0], pairs.size()));
        QUERN_TRY(const std::uint16_t right, token_in(merge[1], pairs.size()));
        pairs.push_back({left, right});
    }
    return BytePairs::of(pairs);
}

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
    QUERN_TRY(const json::Value fields, parse_description(description));
    const auto text = [&](std::string_view key) {
        const json::Value* const value = fields.find(key);
        const auto string = value == nullptr ? Expected<std::string_view>(std::string_view()) : value->as_string();
        return string ? std::string(*string) : std::string();
    };
    const json::Value* const elements = fields.find("elements");
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

std::uint32_t TextVocabulary::size() const {
    return pairs_ ? pairs_->size() : static_cast<std::uint32_t>(characters_.size());
}

vm::tensor::DataType TextVocabulary::type() const {
    return pairs_ ? vm::tensor::DataType::u16 : vm::tensor::DataType::u8;
}

std::string_view TextVocabulary::piece(std::uint32_t token) const {
    return pairs_ ? pairs_->piece(token) : std::string_view(characters_).substr(token, 1);
}

Expected<std::vector<std::uint32_t>> TextVocabulary::encode(std::string_view text) const {
    if (pairs_) {
        const std::vector<std::uint16_t> tokens = pairs_->encode(text);
        return std::vector<std::uint32_t>(tokens.begin(), tokens.end());
    }
    std::vector<std::uint32_t> tokens;
    for (const char c : text) {
        const auto place = characters_.find(c);
        if (place == std::string::npos)
            return fail("dataset.unknown_character",
                        "byte " + std::to_string(static_cast<unsigned char>(c)) + " is not in the vocabulary");
        tokens.push_back(static_cast<std::uint32_t>(place));
    }
    return tokens;
}

Expected<Bytes> byte_pair_tokens(const BytePairs& pairs, std::string_view text) {
    const std::vector<std::uint16_t> tokens = pairs.encode(text);
    if (tokens.size() < 2) return fail("dataset.too_short", std::to_string(tokens.size()) + " tokens");
    Bytes bytes;
    bytes.reserve(tokens.size() * 2);
    for (const std::uint16_t token : tokens) {
        bytes.push_back(static_cast<std::uint8_t>(token));
        bytes.push_back(static_cast<std::uint8_t>(token >> 8));
    }
    return bytes;
}

std::string describe_byte_pairs(const BytePairs& pairs, std::uint64_t elements) {
    json::Array merges;
    for (const BytePairs::Pair& pair : pairs.pairs()) merges.push_back(json::Value::array({pair.left, pair.right}));
    return json::Value::object({{"format", std::string(kPairsFormat)},
                                {"dtype", std::string(kPairsDtype)},
                                {"elements", elements},
                                {"merges", std::move(merges)}})
               .dump() +
           "\n";
}

Expected<BytePairs> read_byte_pairs(std::string_view description) {
    QUERN_TRY(const json::Value fields, parse_description(description));
    return byte_pairs_in(fields);
}

Expected<TextVocabulary> read_text_vocabulary(BytesView tokens, std::string_view description) {
    QUERN_TRY(const json::Value fields, parse_description(description));
    const auto format = fields.get_string("format");
    if (!format || *format != kPairsFormat) {
        QUERN_TRY(std::string characters, read_vocabulary(tokens, description));
        return TextVocabulary(std::move(characters));
    }
    QUERN_TRY(BytePairs pairs, byte_pairs_in(fields));
    const auto elements = fields.get_u64("elements");
    if (!elements || tokens.size() % 2 != 0 || *elements != tokens.size() / 2)
        return fail("dataset.not_a_text_data_set", "the description is of another file");
    for (std::size_t i = 0; i < tokens.size(); i += 2)
        if (const unsigned token = tokens[i] | unsigned{tokens[i + 1]} << 8; token >= pairs.size())
            return fail("dataset.bad_vocabulary", "token " + std::to_string(token) + " is beyond it");
    return TextVocabulary(std::move(pairs));
}

}  // namespace quern::compute::program
