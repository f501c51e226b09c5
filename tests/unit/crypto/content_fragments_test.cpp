#include "crypto/content_fragments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"

namespace quern::crypto {
namespace {

constexpr std::size_t kCell = kFragmentCellBytes;
constexpr CellCode kCode{3, 7};
constexpr std::size_t kStripe = 3 * kCell;
constexpr std::size_t kSizes[] = {0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  4'095,
                                  4'096,
                                  12'289,
                                  kCell,
                                  kCell + 1,
                                  kStripe - 3,
                                  kStripe - 1,
                                  kStripe,
                                  kStripe + 1,
                                  2 * kStripe,
                                  3 * kStripe - 5'000,
                                  3 * kStripe + 2,
                                  64 * kStripe,
                                  65 * kStripe + kCell + 7};

Bytes random_bytes(std::size_t count) {
    Bytes bytes(count);
    SeededRng rng(count + 1);
    rng.fill(bytes);
    return bytes;
}

std::vector<unsigned> all_of(CellCode code) {
    std::vector<unsigned> all(code.total);
    std::iota(all.begin(), all.end(), 0U);
    return all;
}

// Of those that are wanted; the others are empty.
std::vector<Bytes> fragments_of(CellCode code, BytesView content, std::size_t piece, std::vector<unsigned> wanted) {
    std::vector<Bytes> fragments(code.total);
    auto encoder = FragmentEncoder::make(code, std::move(wanted), [&](unsigned fragment, BytesView cell) -> Status {
        EXPECT_LE(cell.size(), kCell);
        append(fragments.at(fragment), cell);
        return {};
    });
    EXPECT_TRUE(encoder);
    for (std::size_t at = 0; at < content.size(); at += piece)
        EXPECT_TRUE(encoder->update(content.subspan(at, std::min(piece, content.size() - at))));
    EXPECT_TRUE(encoder->finish());
    return fragments;
}

FragmentIds ids_of(CellCode code, BytesView content, std::size_t piece) {
    auto hasher = FragmentHasher::make(code);
    EXPECT_TRUE(hasher);
    for (std::size_t at = 0; at < content.size(); at += piece)
        hasher->update(content.subspan(at, std::min(piece, content.size() - at)));
    return hasher->finish();
}

GivenFragment given(unsigned number, const Bytes& bytes) {
    return {number, [&bytes](std::uint64_t offset, std::uint64_t length) -> Expected<Bytes> {
                if (offset > bytes.size()) return Bytes();
                return to_bytes(BytesView(bytes).subspan(offset, std::min<std::size_t>(length, bytes.size() - offset)));
            }};
}

struct Decoded {
    Bytes content;
    std::string_view error = "none";
};
Decoded decoded(CellCode code, const Hash32& id, std::uint64_t size, const std::vector<GivenFragment>& given) {
    Decoded out;
    const auto status = decode_fragments(code, id, size, given, [&](BytesView bytes) -> Status {
        append(out.content, bytes);
        return {};
    });
    if (!status) out.error = status.error().name;
    return out;
}

TEST(ContentFragments, are_of_a_kth_of_the_size_each) {
    for (const std::size_t size : kSizes) {
        const Bytes content = random_bytes(size);
        const auto fragments = fragments_of(kCode, content, 10'000, all_of(kCode));
        for (const Bytes& fragment : fragments) EXPECT_EQ(fragment.size(), fragment_bytes(size, 3)) << size;
        EXPECT_LE(fragment_bytes(size, 3), (size + 2) / 3 + kCell);
        // What of them is the content's as it is.
        for (std::size_t at = 0; at < size / kStripe * kStripe; at += kCell)
            ASSERT_TRUE(equal(BytesView(content).subspan(at, kCell),
                              BytesView(fragments[at / kCell % 3]).subspan(at / kStripe * kCell, kCell)));
    }
    EXPECT_EQ(fragment_bytes(0, 4), 0U);
    EXPECT_EQ(fragment_bytes(1, 4), 1U);
    EXPECT_EQ(fragment_bytes(5, 4), 2U);
    EXPECT_EQ(fragment_bytes(std::uint64_t{1} << 40, 4), std::uint64_t{1} << 38);
    EXPECT_GE(fragment_bytes(~std::uint64_t{0}, 64), std::uint64_t{1} << 58);
}

TEST(ContentFragments, do_not_depend_on_the_pieces_in_which_a_content_comes) {
    for (const std::size_t size : kSizes) {
        const Bytes content = random_bytes(size);
        const auto whole = fragments_of(kCode, content, std::max<std::size_t>(size, 1), all_of(kCode));
        const FragmentIds ids = ids_of(kCode, content, std::max<std::size_t>(size, 1));
        EXPECT_EQ(ids.size, size);
        EXPECT_EQ(ids.content, content_id_of(content)) << size;
        ASSERT_EQ(ids.fragments.size(), kCode.total);
        for (unsigned i = 0; i < kCode.total; ++i) EXPECT_EQ(ids.fragments[i], content_id_of(whole[i])) << size;
        for (const std::size_t piece : {std::size_t{999}, kCell, kStripe, kStripe + 1}) {
            EXPECT_EQ(fragments_of(kCode, content, piece, all_of(kCode)), whole);
            EXPECT_EQ(ids_of(kCode, content, piece), ids);
        }
        // One alone, in whatever order, is the same.
        const auto some = fragments_of(kCode, content, 5'000, {6, 1, 4});
        for (const unsigned i : {1U, 4U, 6U}) EXPECT_EQ(some[i], whole[i]);
        EXPECT_TRUE(some[0].empty() && some[5].empty());
    }
}

TEST(ContentFragments, any_k_give_the_content_back) {
    for (const std::size_t size : kSizes) {
        const Bytes content = random_bytes(size);
        const auto fragments = fragments_of(kCode, content, 100'000, all_of(kCode));
        const Hash32 id = content_id_of(content);
        const bool is_large = size > 10 * kStripe;
        for (unsigned a = 0; a < kCode.total; ++a) {
            for (unsigned b = 0; b < kCode.total; ++b) {
                for (unsigned c = 0; c < kCode.total; ++c) {
                    if (a == b || b == c || a == c || (is_large && (a + 2 * b + 4 * c) % 13 != 0)) continue;
                    const Decoded out = decoded(
                        kCode, id, size, {given(a, fragments[a]), given(b, fragments[b]), given(c, fragments[c])});
                    ASSERT_EQ(out.error, "none") << size << ": " << a << ' ' << b << ' ' << c;
                    ASSERT_EQ(out.content, content);
                }
            }
        }
    }
}

TEST(ContentFragments, one_suffices_where_k_is_one_and_all_are_needed_where_it_is_n) {
    const Bytes content = random_bytes(100'001);
    const Hash32 id = content_id_of(content);
    const auto copies = fragments_of({1, 3}, content, 7'000, all_of({1, 3}));
    for (unsigned i = 0; i < 3; ++i)
        EXPECT_EQ(decoded({1, 3}, id, content.size(), {given(i, copies[i])}).content, content);
    const auto parts = fragments_of({3, 3}, content, 7'000, all_of({3, 3}));
    EXPECT_EQ(decoded({3, 3}, id, content.size(), {given(2, parts[2]), given(0, parts[0]), given(1, parts[1])}).content,
              content);
}

TEST(ContentFragments, a_wrong_one_is_noticed_by_the_contents_id) {
    const Bytes content = random_bytes(2 * kStripe + 100);
    const Hash32 id = content_id_of(content);
    const auto fragments = fragments_of(kCode, content, content.size(), all_of(kCode));
    for (const unsigned broken : {0U, 5U}) {
        for (const std::size_t at : {std::size_t{0}, kCell, fragments[0].size() - 1}) {
            Bytes other = fragments[broken];
            other[at] ^= 1;
            const Decoded out = decoded(kCode, id, content.size(),
                                        {given(broken, other), given(2, fragments[2]), given(6, fragments[6])});
            EXPECT_EQ(out.error, "fragments.wrong_content");
        }
    }
    // Right ones under each other's numbers.
    EXPECT_EQ(
        decoded(kCode, id, content.size(), {given(4, fragments[5]), given(5, fragments[4]), given(6, fragments[6])})
            .error,
        "fragments.wrong_content");
    // Of another size: padding that was cut off must not be what decides.
    EXPECT_EQ(
        decoded(kCode, id, content.size() + 1, {given(4, fragments[4]), given(5, fragments[5]), given(6, fragments[6])})
            .error,
        "fragments.wrong_content");
}

TEST(ContentFragments, refuse_what_cannot_be_decoded) {
    const Bytes content = random_bytes(kStripe + 100);
    const Hash32 id = content_id_of(content);
    auto fragments = fragments_of(kCode, content, content.size(), all_of(kCode));
    const auto error_of = [&](CellCode code, const std::vector<unsigned>& numbers) {
        std::vector<GivenFragment> parts;
        for (const unsigned number : numbers) parts.push_back(given(number, fragments[number % kCode.total]));
        return decoded(code, id, content.size(), parts).error;
    };
    EXPECT_EQ(error_of({0, 7}, {}), "code.bad_shape");
    EXPECT_EQ(error_of({3, 65}, {0, 1, 2}), "code.bad_shape");
    EXPECT_EQ(error_of(kCode, {0, 1}), "code.bad_cells");
    EXPECT_EQ(error_of(kCode, {0, 1, 2, 3}), "code.bad_cells");
    EXPECT_EQ(error_of(kCode, {0, 1, 1}), "code.bad_cells");
    EXPECT_EQ(error_of(kCode, {0, 1, 7}), "code.bad_cells");
    EXPECT_EQ(error_of(kCode, {0, 1, 6}), "none");
    fragments[6].push_back(0);
    EXPECT_EQ(error_of(kCode, {0, 1, 6}), "none") << "what is behind the end is not read; its own id tells of it";
    fragments[6].resize(fragments[6].size() - 2);
    EXPECT_EQ(error_of(kCode, {0, 1, 6}), "fragments.wrong_size");
}

TEST(ContentFragments, pass_on_the_errors_of_readers_and_sinks) {
    const Bytes content = random_bytes(kStripe + 100);
    const auto fragments = fragments_of(kCode, content, content.size(), all_of(kCode));
    std::vector<GivenFragment> parts = {given(0, fragments[0]), given(1, fragments[1]), given(2, fragments[2])};
    const auto full = [](BytesView) -> Status { return fault("test.full"); };
    const auto ended = decode_fragments(kCode, content_id_of(content), content.size(), parts, full);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().name, "test.full");
    EXPECT_TRUE(ended.error().is_local_fault());
    parts[1].read = [](std::uint64_t, std::uint64_t) -> Expected<Bytes> { return busy("test.gone"); };
    EXPECT_EQ(decoded(kCode, content_id_of(content), content.size(), parts).error, "test.gone");

    const auto refuse = [](unsigned, BytesView) -> Status { return fault("test.full"); };
    auto encoder = FragmentEncoder::make(kCode, {6}, refuse);
    ASSERT_TRUE(encoder);
    EXPECT_TRUE(encoder->update(BytesView(content).first(100))) << "nothing is whole yet";
    EXPECT_EQ(encoder->update(content).error().name, "test.full");
    EXPECT_EQ(FragmentEncoder::make({0, 1}, {}, refuse).error().name, "code.bad_shape");
    EXPECT_EQ(FragmentEncoder::make(kCode, {1, 1}, refuse).error().name, "code.bad_cells");
    EXPECT_EQ(FragmentEncoder::make(kCode, {7}, refuse).error().name, "code.bad_cells");
    EXPECT_EQ(FragmentHasher::make({5, 4}).error().name, "code.bad_shape");
}

}  // namespace
}  // namespace quern::crypto
