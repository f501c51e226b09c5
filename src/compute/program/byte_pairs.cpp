#include "compute/program/byte_pairs.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

namespace quern::compute::program {

namespace {

using Pair = BytePairs::Pair;

// Of encode(): different words of which it keeps where they stand.
constexpr std::size_t kMaxRememberedWords = std::size_t{1} << 20;

enum class ByteClass : std::uint8_t { letter, digit, space, other };

ByteClass class_of(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z')) return ByteClass::letter;
    if (byte >= '0' && byte <= '9') return ByteClass::digit;
    return byte == ' ' || (byte >= '\t' && byte <= '\r') ? ByteClass::space : ByteClass::other;
}

std::size_t run_end(std::string_view text, std::size_t begin) {
    const ByteClass of_run = class_of(text[begin]);
    std::size_t end = begin + 1;
    while (end < text.size() && class_of(text[end]) == of_run) ++end;
    return end;
}

// Words of a text with how often they occur, and the pairs inside them while they are joined.
class Learner {
public:
    [[nodiscard]] Status count(std::string_view text, std::size_t most_words) {
        std::map<std::string_view, std::uint32_t> numbers;
        while (!text.empty()) {
            const std::string_view word = text.substr(0, first_word(text));
            text.remove_prefix(word.size());
            const auto [place, is_new] = numbers.try_emplace(word, static_cast<std::uint32_t>(words_.size()));
            if (is_new) {
                if (words_.size() == most_words)
                    return fail("byte_pairs.too_many_words", "more than " + std::to_string(most_words));
                words_.push_back({symbols_.size(), word.size(), 0});
                for (const char c : word) symbols_.push_back(static_cast<unsigned char>(c));
            }
            ++words_[place->second].count;
        }
        for (std::uint32_t w = 0; w < words_.size(); ++w) {
            const std::uint16_t* const symbols = symbols_.data() + words_[w].begin;
            for (std::size_t i = 1; i < words_[w].length; ++i) note({symbols[i - 1], symbols[i]}, w);
        }
        for (const auto& [pair, use] : uses_) candidates_.push({use.count, pair});
        return {};
    }

    // The most frequent pair, of equally frequent ones the smallest; false: none occurs twice.
    [[nodiscard]] bool next(Pair& pair) {
        while (!candidates_.empty()) {
            const Candidate best = candidates_.top();
            candidates_.pop();
            const std::uint64_t count = uses_.at(best.pair).count;
            if (count == best.count && count >= 2) {
                pair = best.pair;
                return true;
            }
            // Counts only fall after they were noted, so that what is put back comes in its turn.
            if (count >= 2) candidates_.push({count, best.pair});
        }
        return false;
    }

    void join(Pair pair, std::uint16_t token) {
        const std::vector<std::uint32_t> words = std::move(uses_.at(pair).words);
        std::vector<Pair> made;
        for (const std::uint32_t w : words) join_in(w, pair, token, made);
        uses_.erase(pair);
        std::sort(made.begin(), made.end());
        made.erase(std::unique(made.begin(), made.end()), made.end());
        for (const Pair& next : made) candidates_.push({uses_.at(next).count, next});
    }

private:
    struct Word {
        std::size_t begin = 0;
        std::size_t length = 0;
        std::uint64_t count = 0;
    };
    struct Use {
        std::uint64_t count = 0;
        std::vector<std::uint32_t> words;  // that had it once; ascending
    };
    struct Candidate {
        std::uint64_t count = 0;
        Pair pair;
        bool operator<(const Candidate& other) const {
            return count != other.count ? count < other.count : other.pair < pair;
        }
    };

    void note(Pair pair, std::uint32_t word) {
        Use& use = uses_[pair];
        use.count += words_[word].count;
        if (use.words.empty() || use.words.back() != word) use.words.push_back(word);
    }

    // Only pairs beside the places that are joined get another count: the time is that of reading the word, and a few
    // look-ups a place.
    void join_in(std::uint32_t w, Pair pair, std::uint16_t token, std::vector<Pair>& made) {
        Word& word = words_[w];
        std::uint16_t* const symbols = symbols_.data() + word.begin;
        const auto is_here = [&](std::size_t i) {
            return i + 1 < word.length && symbols[i] == pair.left && symbols[i + 1] == pair.right;
        };
        const auto forget = [&](std::uint16_t left, std::uint16_t right) {
            uses_.at({left, right}).count -= word.count;
        };
        std::size_t found = 0;
        while (found < word.length && !is_here(found)) ++found;
        if (found == word.length) return;  // another pair took it
        std::size_t length = found;
        std::uint16_t before = found == 0 ? std::uint16_t{0} : symbols[found - 1];  // what stood before i
        bool was_here = false;                                                      // and was joined
        for (std::size_t i = found; i < word.length; ++length) {
            const bool here = is_here(i);
            if (i > 0 && (here || was_here)) forget(before, symbols[i]);
            if (here) forget(pair.left, pair.right);
            before = here ? pair.right : symbols[i];
            symbols[length] = here ? token : symbols[i];
            i += here ? 2 : 1;
            was_here = here;
        }
        word.length = length;
        for (std::size_t i = std::max<std::size_t>(found, 1); i < length; ++i) {
            const Pair next{symbols[i - 1], symbols[i]};
            if (next.left != token && next.right != token) continue;
            note(next, w);
            made.push_back(next);
        }
    }

    std::vector<Word> words_;  // in the order in which they occur first
    std::vector<std::uint16_t> symbols_;
    std::map<Pair, Use> uses_;
    std::priority_queue<Candidate> candidates_;
};

}  // namespace

std::size_t first_word(std::string_view text) {
    text = text.substr(0, kMaxTokenBytes + 1);  // what lies behind decides nothing
    std::size_t end = run_end(text, 0);
    if (class_of(text[0]) == ByteClass::space) {
        const bool is_space_before = text[end - 1] == ' ' && end < text.size();
        if (is_space_before && end == 1)
            end = run_end(text, 1);
        else if (is_space_before)
            --end;
    }
    return std::min(end, kMaxTokenBytes);
}

BytePairs::BytePairs() {
    for (std::uint32_t byte = 0; byte < kByteTokens; ++byte) pieces_.emplace_back(1, static_cast<char>(byte));
    by_left_.resize(kByteTokens);
}

Status BytePairs::add(Pair pair) {
    const auto at = [&] { return "pair " + std::to_string(pairs_.size()); };
    if (size() == kMaxByteTokens) return fail("byte_pairs.too_many", at());
    if (pair.left >= size() || pair.right >= size()) return fail("byte_pairs.bad_pair", at());
    if (pieces_[pair.left].size() + pieces_[pair.right].size() > kMaxTokenBytes)
        return fail("byte_pairs.too_long", at());
    std::vector<Joined>& joined = by_left_[pair.left];
    const auto place = std::lower_bound(joined.begin(), joined.end(), pair,
                                        [](const Joined& one, const Pair& other) { return one.pair < other; });
    if (place != joined.end() && place->pair == pair) return fail("byte_pairs.duplicate_pair", at());
    joined.insert(place, {pair, static_cast<std::uint16_t>(size())});
    pairs_.push_back(pair);
    pieces_.push_back(pieces_[pair.left] + pieces_[pair.right]);
    by_left_.emplace_back();
    return {};
}

Expected<BytePairs> BytePairs::of(const std::vector<Pair>& pairs) {
    BytePairs result;
    for (const Pair& pair : pairs) QUERN_CHECK(result.add(pair));
    return result;
}

Expected<BytePairs> BytePairs::learn(std::string_view text, std::uint32_t tokens, std::size_t most_words) {
    if (tokens <= kByteTokens || tokens > kMaxByteTokens)
        return fail("byte_pairs.bad_size", std::to_string(tokens) + " tokens, not " + std::to_string(kByteTokens + 1) +
                                               " to " + std::to_string(kMaxByteTokens));
    Learner learner;
    QUERN_CHECK(learner.count(text, most_words));
    BytePairs result;
    for (Pair pair; result.size() < tokens && learner.next(pair);) {
        const auto token = static_cast<std::uint16_t>(result.size());
        QUERN_CHECK(result.add(pair));
        learner.join(pair, token);
    }
    return result;
}

std::uint32_t BytePairs::token_of(Pair pair) const {
    const std::vector<Joined>& joined = by_left_[pair.left];
    const auto place = std::lower_bound(joined.begin(), joined.end(), pair,
                                        [](const Joined& one, const Pair& other) { return one.pair < other; });
    return place != joined.end() && place->pair == pair ? place->token : kNone;
}

void BytePairs::encode_word(std::string_view word, std::vector<std::uint16_t>& tokens) const {
    std::array<std::uint16_t, kMaxTokenBytes> symbols{};
    std::array<std::uint32_t, kMaxTokenBytes> joined{};  // of each symbol: what it and the next one are
    std::size_t length = 0;
    for (const char c : word) symbols[length++] = static_cast<unsigned char>(c);
    const auto look = [&](std::size_t i) { joined[i] = token_of({symbols[i], symbols[i + 1]}); };
    for (std::size_t i = 0; i + 1 < length; ++i) look(i);
    while (length > 1) {
        const auto best =
            std::min_element(joined.begin(), joined.begin() + static_cast<std::ptrdiff_t>(length - 1));  // the first
        if (*best == kNone) break;
        const auto at = static_cast<std::size_t>(best - joined.begin());
        symbols[at] = static_cast<std::uint16_t>(*best);
        std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(at + 2),
                  symbols.begin() + static_cast<std::ptrdiff_t>(length),
                  symbols.begin() + static_cast<std::ptrdiff_t>(at + 1));
        std::copy(best + 1, joined.begin() + static_cast<std::ptrdiff_t>(length - 1), best);
        --length;
        if (at > 0) look(at - 1);
        if (at + 1 < length) look(at);
    }
    tokens.insert(tokens.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(length));
}

std::vector<std::uint16_t> BytePairs::encode(std::string_view text) const {
    struct Place {
        std::size_t begin = 0;
        std::size_t length = 0;
    };
    std::map<std::string_view, Place> known;  // where in the tokens the word stands already
    std::vector<std::uint16_t> tokens;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, first_word(text));
        text.remove_prefix(word.size());
        if (const auto found = known.find(word); found != known.end()) {
            for (std::size_t i = 0; i < found->second.length; ++i) tokens.push_back(tokens[found->second.begin + i]);
            continue;
        }
        const std::size_t begin = tokens.size();
        encode_word(word, tokens);
        if (known.size() < kMaxRememberedWords) known.emplace(word, Place{begin, tokens.size() - begin});
    }
    return tokens;
}

}  // namespace quern::compute::program
