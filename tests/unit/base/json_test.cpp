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
