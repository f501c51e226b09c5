#include "base/record.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

// A number as text, to be embedded.
struct TextCodec {
    static Bytes encode(const std::uint64_t& value) { return to_bytes(as_bytes(std::to_string(value))); }
    static Expected<std::uint64_t> decode(BytesView bytes) {
        QUERN_TRY(const Uint256 number, Uint256::from_decimal(as_text(bytes)));
        return number.low_u64();
    }
};

enum class Colour : std::uint8_t { red = 1, blue = 2 };

struct Inner {
    std::uint16_t small = 0;
    bool flag = false;
    QUERN_FIELDS(v("small", small), v("flag", flag))
    bool operator==(const Inner&) const = default;
};
struct Outer {
    std::string name;
    std::vector<Inner> list;
    Colour colour = Colour::red;
    std::uint64_t embedded = 0;
    std::vector<std::uint64_t> many;
    QUERN_FIELDS(v("name", name, record::AtMost{4, "outer.long_name"}),
                 v("list", list, record::AtMost{2, "outer.many_inner"}), v("colour", colour),
                 v("embedded", embedded, record::Embedded<TextCodec>{}),
                 v("many", many, record::EmbeddedList<TextCodec>{2, "outer.many_embedded"}))
    [[nodiscard]] Status check() const {
        if (colour > Colour::blue) return fail("outer.bad_colour");
        return {};
    }
    bool operator==(const Outer&) const = default;
};
struct Bare {
    std::vector<std::uint64_t> numbers;
    static constexpr bool kBare = true;
    QUERN_FIELDS(v("numbers", numbers, record::AtMost{3, "bare.many"}))
};
struct Perhaps {
    std::optional<Inner> inner;
    QUERN_FIELDS(v("inner", inner))
};
struct Plain {
    std::vector<std::uint64_t> numbers;
    QUERN_FIELDS(v("numbers", numbers))
};

Outer sample() { return {"abcd", {{1, true}, {65'535, false}}, Colour::blue, 17, {1, 23}}; }

std::string error_of(const Outer& value) {
    const auto decoded = record::decode_record<Outer>(record::encode_record(value));
    return decoded ? std::string() : std::string(decoded.error().name);
}

TEST(Record, has_one_encoding_which_is_rlp) {
    rlp::Writer writer;
    writer.begin_list().bytes(as_bytes("abcd")).begin_list();
    writer.begin_list().integer(std::uint64_t{1}).boolean(true).end_list();
    writer.begin_list().integer(std::uint64_t{65'535}).boolean(false).end_list();
    writer.end_list().integer(std::uint64_t{2}).bytes(as_bytes("17"));
    writer.begin_list().bytes(as_bytes("1")).bytes(as_bytes("23")).end_list().end_list();
    const Bytes expected = std::move(writer).finish();
    EXPECT_EQ(record::encode_record(sample()), expected);
    const auto decoded = record::decode_record<Outer>(expected);
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(*decoded, sample());
    for (std::size_t size = 0; size < expected.size(); ++size)
        EXPECT_FALSE(record::decode_record<Outer>(BytesView(expected).first(size))) << size;
    Bytes longer = expected;
    longer.push_back(0);
    EXPECT_FALSE(record::decode_record<Outer>(longer));
}

TEST(Record, each_field_has_its_bound_and_the_record_its_check) {
    auto value = sample();
    value.name = "abcde";
    EXPECT_EQ(error_of(value), "outer.long_name");
    value = sample();
    value.list.push_back({});
    EXPECT_EQ(error_of(value), "outer.many_inner");
    value = sample();
    value.many.push_back(1);
    EXPECT_EQ(error_of(value), "outer.many_embedded");
    value = sample();
    value.colour = static_cast<Colour>(3);
    EXPECT_EQ(error_of(value), "outer.bad_colour");
}

TEST(Record, a_number_that_is_too_large_for_its_field_is_an_error_that_names_the_field) {
    rlp::Writer writer;
    writer.begin_list().integer(std::uint64_t{65'536}).boolean(false).end_list();
    const auto decoded = record::decode_record<Inner>(std::move(writer).finish());
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().name, "rlp.integer_overflow");
    EXPECT_NE(decoded.error().detail.find("small"), std::string::npos);
}

TEST(Record, a_bare_one_is_its_field_and_no_more) {
    rlp::Writer writer;
    writer.begin_list().integer(std::uint64_t{7}).integer(std::uint64_t{8}).end_list();
    const Bytes expected = std::move(writer).finish();
    EXPECT_EQ(record::encode_record(Bare{{7, 8}}), expected);
    EXPECT_EQ(record::decode_record<Bare>(expected)->numbers, (std::vector<std::uint64_t>{7, 8}));
    EXPECT_EQ(record::decode_record<Bare>(record::encode_record(Bare{{1, 2, 3, 4}})).error().name, "bare.many");
}

TEST(Record, an_absent_record_is_an_empty_list) {
    EXPECT_EQ(record::encode_record(Perhaps{}), (Bytes{0xc1, 0xc0}));
    EXPECT_EQ(record::encode_record(Perhaps{Inner{1, true}}), (Bytes{0xc3, 0xc2, 0x01, 0x01}));
    EXPECT_FALSE(record::decode_record<Perhaps>(Bytes{0xc1, 0xc0})->inner);
    EXPECT_EQ(record::decode_record<Perhaps>(Bytes{0xc3, 0xc2, 0x01, 0x01})->inner, (Inner{1, true}));
    EXPECT_FALSE(record::decode_record<Perhaps>(Bytes{0xc4, 0xc3, 0x01, 0x01, 0x01}));
}

TEST(Record, no_list_is_longer_than_all_lists_may_be) {
    const Plain most{std::vector<std::uint64_t>(record::kMaxListItems, 1)};
    EXPECT_TRUE(record::decode_record<Plain>(record::encode_record(most)));
    const Plain more{std::vector<std::uint64_t>(record::kMaxListItems + 1, 1)};
    EXPECT_EQ(record::decode_record<Plain>(record::encode_record(more)).error().name, "rlp.list_too_long");
}

}  // namespace
}  // namespace quern
