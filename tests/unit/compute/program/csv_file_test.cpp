// Tables: what RFC 4180 allows, kinds of targets, and refusals by name and line.
#include "compute/program/csv_file.h"

#include <gtest/gtest.h>

#include <bit>

namespace quern::compute::program {
namespace {

using vm::tensor::DataType;
using Names = std::vector<std::string>;

std::vector<float> floats_in(const Array& array) {
    std::vector<float> values;
    for (std::size_t i = 0; i < array.elements.size(); i += 4) {
        std::uint32_t word = 0;
        for (std::size_t j = 4; j-- > 0;) word = word << 8 | array.elements[i + j];
        values.push_back(std::bit_cast<float>(word));
    }
    return values;
}

std::string refusal(std::string_view text, const Names& targets = {"y"}, const CsvLimits& limits = {}) {
    const auto table = read_csv(text, targets, limits);
    return table ? "taken" : table.error().to_string();
}

TEST(Csv, reads_quotes_both_line_ends_and_a_byte_order_mark) {
    const auto table =
        read_csv("\xef\xbb\xbfwidth,\"the \"\"y\"\"\",height\r\n1.5,\"a,\r\nb\",-2e1\n\"3\",\"\"\"\"\"\",4\r\n7,,8",
                 {"the \"y\""});
    ASSERT_TRUE(table) << table.error().to_string();
    EXPECT_EQ(table->columns, (Names{"width", "height"}));
    EXPECT_EQ(table->target_columns, (Names{"the \"y\""}));
    EXPECT_EQ(table->classes, (Names{"", "\"\"", "a,\r\nb"}));
    EXPECT_EQ(table->features.type, DataType::f32);
    EXPECT_EQ(table->features.shape, (std::vector<std::uint64_t>{3, 2}));
    EXPECT_EQ(floats_in(table->features), (std::vector<float>{1.5F, -20, 3, 4, 7, 8}));
    EXPECT_EQ(table->targets.type, DataType::u8);
    EXPECT_EQ(table->targets.shape, (std::vector<std::uint64_t>{3}));
    EXPECT_EQ(table->targets.elements, (Bytes{2, 1, 0}));
}

TEST(Csv, numbers_classes_by_their_bytes) {
    const auto table = read_csv("y,x\nb,1\n\xc3\xa9,1\nB,1\nnan,1\nb,1\n10,1\n9,1\n", {"y"});
    ASSERT_TRUE(table) << table.error().to_string();
    EXPECT_EQ(table->classes, (Names{"10", "9", "B", "b", "nan", "\xc3\xa9"}));
    EXPECT_EQ(table->targets.elements, (Bytes{3, 5, 2, 4, 3, 0, 1}));
    std::string many = "y,x\n";
    for (int i = 0; i < 257; ++i) many += "c" + std::to_string(1000 + i) + ",0\n";
    const auto wide = read_csv(many, {"y"});
    ASSERT_TRUE(wide);
    EXPECT_EQ(wide->targets.type, DataType::u16);
    EXPECT_EQ(wide->targets.elements[512], 0);  // of row 256
    EXPECT_EQ(wide->targets.elements[513], 1);
}

TEST(Csv, takes_numbers_as_targets) {
    const auto whole = read_csv("x,y\n1,2\n1,-3\n", {"y"});
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->targets.type, DataType::i32);
    EXPECT_EQ(whole->targets.elements, (Bytes{2, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff}));
    EXPECT_TRUE(whole->classes.empty());
    const auto broken = read_csv("x,y\n1,2\n1,0.1\n", {"y"});
    ASSERT_TRUE(broken);
    EXPECT_EQ(broken->targets.type, DataType::f32);
    EXPECT_EQ(floats_in(broken->targets), (std::vector<float>{2, 0.1F}));
    const auto two = read_csv("y,x,z\n1,5,2\n3,6,2.5\n", {"z", "y"});  // in the order of the names
    ASSERT_TRUE(two);
    EXPECT_EQ(two->targets.shape, (std::vector<std::uint64_t>{2, 2}));
    EXPECT_EQ(floats_in(two->targets), (std::vector<float>{2, 1, 2.5F, 3}));
    EXPECT_EQ(floats_in(two->features), (std::vector<float>{5, 6}));
    EXPECT_EQ(refusal("y,x,z\n1,5,2\n3,6,a\n", {"z", "y"}),
              "csv.many_class_columns: only a single target may be a class");
}

TEST(Csv, rounds_numbers_once) {
    const auto table = read_csv("x,y\n1.00000017881393432617187499,0\n16777217.00000000001,0\n1e-45,0\n-0,0\n", {"y"});
    ASSERT_TRUE(table) << table.error().to_string();
    EXPECT_EQ(to_hex(table->features.elements),
              "0100803f"
              "0100804b"
              "01000000"
              "00000080");
}

TEST(Csv, refuses_numbers_that_are_none) {
    for (const char* field : {"", " 1", "1 ", "+1", "0x10", "1,5\"", "one", "1.2.3", "\"1 \"", "1_000"})
        EXPECT_NE(refusal("x,y\n" + std::string(field) + ",0\n"), "taken") << field;
    EXPECT_EQ(refusal("x,y\n1,0\n1 ,0\n"), "csv.bad_number: line 3: x: '1 '");
    EXPECT_EQ(refusal("x,y\n1,0\n\x1b[2J,0\n"), "csv.bad_number: line 3: x: '?[2J'");
    EXPECT_EQ(refusal("x,y\n1e39,0\n"), "csv.out_of_range: line 2: x: '1e39'");
    EXPECT_EQ(refusal("x,y\nnan,0\n"), "csv.not_finite: line 2: x: 'nan'");
    EXPECT_EQ(refusal("x,y\n-inf,0\n"), "csv.not_finite: line 2: x: '-inf'");
    EXPECT_EQ(refusal("x,y\n0,inf\n"), "csv.not_finite: 'inf'");
}

TEST(Csv, refuses_forms_with_the_line) {
    EXPECT_EQ(refusal("x,y\n1,\"a\nb\"\n1\n"), "csv.wrong_columns: line 4: 1 fields, not 2");
    EXPECT_EQ(refusal("x,y\n1,2,3\n"), "csv.wrong_columns: line 2: 3 fields, not 2");
    EXPECT_EQ(refusal("x,y\n1,2\n\n"), "csv.wrong_columns: line 3: 1 fields, not 2");
    EXPECT_EQ(refusal("x,y\n1,a\"b\n"), "csv.bad_quote: line 2: inside 'a'");
    EXPECT_EQ(refusal("x,y\n1,\"a\"b\n"), "csv.bad_quote: line 2: text behind 'a'");
    EXPECT_EQ(refusal("x,y\n1,\"a\n"), "csv.bad_quote: line 2: a field has no end");
    EXPECT_EQ(refusal("x,y\n1,\"a\"\"\n"), "csv.bad_quote: line 2: a field has no end");
    EXPECT_EQ(refusal("x,y\r1,2\r"), "csv.bad_line_end: line 1");
    EXPECT_EQ(refusal("x,y\n1,2\r"), "csv.bad_line_end: line 2");
}

TEST(Csv, refuses_headers_and_names) {
    EXPECT_EQ(refusal(""), "csv.no_rows: an empty file");
    EXPECT_EQ(refusal("\xef\xbb\xbf"), "csv.no_rows: an empty file");
    EXPECT_EQ(refusal("x,y\r\n"), "csv.no_rows: a header alone");
    EXPECT_EQ(refusal("x,y\n1,2\n", {"z"}), "csv.no_such_column: z");
    EXPECT_EQ(refusal("x,y\n1,2\n", {"y", "y"}), "csv.duplicate_column: y");
    EXPECT_EQ(refusal("x,y\n1,2\n", {"y", "x"}), "csv.no_features: every column is a target");
    EXPECT_EQ(refusal("x,y,x\n1,2,3\n"), "csv.duplicate_column: x");
    EXPECT_EQ(refusal("x,,y\n1,2,3\n"), "csv.bad_name: a column without a name");
    EXPECT_EQ(refusal("\xff,y\n1,2\n").substr(0, 12), "csv.bad_name");
    EXPECT_EQ(refusal("\x1b[2J,y\n1,2\n"), "csv.bad_name: '?[2J'");
    EXPECT_EQ(refusal("\xc2\x9b[2J,y\n1,2\n"), "csv.bad_name: '??[2J'");
    EXPECT_EQ(refusal("x,y\n1,\xff\n").substr(0, 20), "csv.bad_name: line 2");
    EXPECT_EQ(refusal("x,y\n1," + std::string(255, 'c') + "\n"), "taken");
    EXPECT_EQ(refusal("x,y\n1," + std::string(256, 'c') + "\n").substr(0, 12), "csv.bad_name");
    EXPECT_EQ(refusal("x,y,z\n1,2,3\n", {"y"}, {.columns = 2}), "csv.too_many_columns: line 1: more than 2");
    EXPECT_EQ(refusal("x,y\n1,a\n1,b\n1,a\n", {"y"}, {.classes = 2}), "taken");
    EXPECT_EQ(refusal("x,y\n1,a\n1,b\n1,c\n", {"y"}, {.classes = 2}), "csv.too_many_classes: line 4: more than 2");
}

}  // namespace
}  // namespace quern::compute::program
