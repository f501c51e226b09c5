#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quern {
namespace {

std::string_view error_of(std::string_view text, const json::Limits& limits = {}) {
    const auto value = json::parse(text, limits);
    return value ? std::string_view("accepted") : value.error().name;
}

TEST(Json, keeps_integers_exact_and_keys_in_order) {
    const std::string text = R"({"z":18446744073709551615,"a":-9223372036854775808,"m":[1,2.5,true,null,"x\n"]})";
    const auto value = json::parse(text).value();
    EXPECT_EQ(*value.get_u64("z"), 18446744073709551615ULL);
    EXPECT_EQ(*value.get_i64("a"), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(value.dump(), text);
    EXPECT_EQ(json::parse(value.dump_pretty()).value(), value);
    EXPECT_EQ((*value.get("m"))->items()[1], json::Value(2.5));
}

TEST(Json, typed_access_names_the_field_that_is_wrong) {
    const auto value = json::parse(R"({"a":"text","n":-1,"big":18446744073709551615})").value();
    EXPECT_EQ(value.get_u64("b").error().name, "json.missing_field");
    EXPECT_EQ(value.get_u64("a").error().name, "json.wrong_type");
    EXPECT_NE(value.get_u64("a").error().detail.find("a: "), std::string::npos);
    EXPECT_EQ(value.get_u64("n").error().name, "json.out_of_range");
    EXPECT_EQ(value.get_i64("big").error().name, "json.out_of_range");
    EXPECT_EQ(json::Value(3).get("x").error().name, "json.wrong_type");
    EXPECT_EQ(value.find("nothing"), nullptr);
    EXPECT_TRUE(value[5].is_null());
}

TEST(Json, refuses_what_is_not_strict_json) {
    for (const char* bad :
         {"",    " ",     "{",     "[1,]",     "{\"a\":1,}", "01",       "1.",      "+1",      ".5", "nul",
          "'a'", "[1] 2", "{a:1}", "\"\x01\"", "NaN",        "Infinity", "// c\n1", "\"\\x\"", "[1", "\"abc"})
        EXPECT_EQ(error_of(bad), "json.syntax") << bad;
    EXPECT_EQ(error_of(std::string_view("1\0", 2)), "json.syntax");
    EXPECT_EQ(error_of(std::string_view("1\0 2", 4)), "json.syntax");
    EXPECT_EQ(error_of("\"\xff\""), "json.bad_utf8");
    EXPECT_EQ(error_of("\"\xc0\xaf\""), "json.bad_utf8");
    EXPECT_EQ(error_of("\"\xed\xa0\x80\""), "json.bad_utf8");
    EXPECT_EQ(error_of(R"("\ude00")"), "json.bad_utf8");
    EXPECT_EQ(error_of(R"({"\udfff":1})"), "json.bad_utf8");
    EXPECT_EQ(error_of(R"("\ud83d")"), "json.syntax");
    EXPECT_EQ(error_of(R"({"a":1,"b":2,"a":3})"), "json.duplicate_key");
    EXPECT_EQ(error_of("18446744073709551616"), "json.out_of_range");
    EXPECT_EQ(error_of("-9223372036854775809"), "json.out_of_range");
    EXPECT_EQ(error_of("1e999"), "json.out_of_range");
}

// There are two readers, a quick one for plain texts and a strict one: a text that is plain and the same text made
// longer by what only the strict one takes must be read alike, and damaged ones be refused alike.
TEST(Json, plain_texts_are_read_as_the_strict_reader_reads_them) {
    const std::vector<std::string> plain = {
        R"({"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x00112233445566778899aabbccddeeff00112233"]})",
        R"([1,-2,0,-0,18446744073709551615,-9223372036854775808,true,false,null,"",[],{},[[]],[{}],{"a":[]}])",
        " [ 1 ,\n\t{ \"a\" : \"b\" , \"c\" : [ ] } ]\r\n ",
        R"("1234567")",
        R"("12345678")",
        R"("123456789abcdef ~!#[]^_`{|}")",
        "7",
        "null"};
    const auto read = [](const std::string& text) { return json::parse(text, {1 << 20, 4, 40}); };
    // An escape for what needs none makes a text that only the strict reader takes.
    const auto read_strictly = [](const std::string& text) {
        return json::parse("[\"\\u0041\"," + text + "]", {1 << 20, 5, 42});
    };
    for (const auto& text : plain) {
        const auto quick = read(text);
        const auto strict = read_strictly(text);
        ASSERT_TRUE(quick && strict) << text;
        EXPECT_EQ(*quick, (*strict)[1]) << text;
        for (std::size_t at = 0; at < text.size(); ++at) {
            for (const char other :
                 {'"', '\\', ',', ':', '[', ']', '{', '}', '0', '-', '.', 'e', ' ', '\0', '\x1f', '\x7f', '\xc3'}) {
                std::string damaged = text;
                damaged[at] = other;
                const auto one = read(damaged);
                const auto both = read_strictly(damaged);
                // Commas and brackets may divide it into several values of the longer text.
                if (both && both->size() != 2) continue;
                ASSERT_EQ(one.has_value(), both.has_value()) << damaged;
                if (one) {
                    EXPECT_EQ(*one, (*both)[1]) << damaged;
                }
            }
            EXPECT_EQ(read(text.substr(0, at)).has_value(), read_strictly(text.substr(0, at)).has_value())
                << text.substr(0, at);
        }
    }
}

TEST(Json, limits_hold_for_plain_texts) {
    EXPECT_TRUE(json::parse("[[[1]]]", {100, 3, 100}));
    EXPECT_EQ(json::parse("[[[[1]]]]", {100, 3, 100}).error().name, "json.too_deep");
    EXPECT_EQ(json::parse("[1,2,3]", {100, 3, 3}).error().name, "json.too_many_values");
    EXPECT_EQ(json::parse(R"({"a":1,"b":2,"a":3})").error().name, "json.duplicate_key");
    EXPECT_EQ(json::parse("18446744073709551616").error().name, "json.out_of_range");
    EXPECT_EQ(json::parse("-9223372036854775809").error().name, "json.out_of_range");
}

TEST(Json, size_and_depth_are_bounded) {
    const std::string deep64 = std::string(64, '[') + std::string(64, ']');
    const std::string deep65 = std::string(65, '[') + std::string(65, ']');
    EXPECT_EQ(error_of(deep64), "accepted");
    EXPECT_EQ(error_of(deep65), "json.too_deep");
    EXPECT_EQ(error_of(std::string(1'000'000, '[')), "json.too_deep");
    EXPECT_EQ(error_of("[1,2,3]", {.max_bytes = 6}), "json.too_large");
}

TEST(Json, bounds_the_number_of_values) {
    const json::Limits limits{.max_values = 5};
    EXPECT_TRUE(json::parse(R"([1,{"a":2},3])", limits));
    EXPECT_EQ(json::parse(R"([1,{"a":2},3,4])", limits).error().name, "json.too_many_values");
    EXPECT_EQ(json::parse(R"([1,{"a":2},[],[]])", limits).error().name, "json.too_many_values");
}

TEST(Json, writes_valid_text_whatever_strings_hold) {
    EXPECT_EQ(json::Value("a\xff"
                          "b")
                  .dump(),
              "\"a\xef\xbf\xbd"
              "b\"");
    EXPECT_EQ(json::Value(std::string("a\0b", 3)).dump(), R"("a\u0000b")");
    EXPECT_EQ(json::Value(std::nan("")).dump(), "null");
    EXPECT_EQ(json::Value(0.1).dump(), "0.1");
    EXPECT_TRUE(json::parse(json::Value("\"\\/\b\f\n\r\t\x1f").dump()).has_value());
}

TEST(Json, objects_are_edited_in_place) {
    json::Value value;
    value.set("a", 1).set("b", "two").set("a", 3);
    EXPECT_EQ(value.dump(), R"({"a":3,"b":"two"})");
    EXPECT_TRUE(value.erase("a"));
    EXPECT_FALSE(value.erase("a"));
    json::Value list;
    list.push(1).push(json::Value::array({2, 3}));
    EXPECT_EQ(list.dump(), "[1,[2,3]]");
    EXPECT_EQ(json::Value(1), json::Value(1U));
    EXPECT_FALSE(json::Value(-1) == json::Value(~0ULL));
    EXPECT_FALSE(json::Value(1) == json::Value("1"));
}

}  // namespace
}  // namespace quern
