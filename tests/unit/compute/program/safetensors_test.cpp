#include "compute/program/safetensors.h"

#include <gtest/gtest.h>

#include <string>

namespace quern::compute::program {
namespace {

using vm::tensor::DType;
using vm::tensor::Shape;
using vm::tensor::Tensor;

Bytes file_of(const std::string& header, std::size_t data_bytes) {
    Bytes file;
    for (unsigned shift = 0; shift < 64; shift += 8)
        file.push_back(static_cast<std::uint8_t>(std::uint64_t{header.size()} >> shift));
    append(file, as_bytes(header));
    file.resize(file.size() + data_bytes);
    return file;
}

std::string_view error_of(const std::string& header, std::size_t data_bytes) {
    const auto result = read_safetensors(file_of(header, data_bytes));
    return result ? "none" : result.error().name;
}

std::string entry(const std::string& name, const std::string& shape, std::uint64_t from, std::uint64_t to,
                  const std::string& dtype = "F32") {
    return std::string("\"")
        .append(name)
        .append("\":{\"dtype\":\"")
        .append(dtype)
        .append("\",\"shape\":")
        .append(shape)
        .append(",\"data_offsets\":[")
        .append(std::to_string(from))
        .append(",")
        .append(std::to_string(to))
        .append("]}");
}

const Tensor kMatrix{DType::f32, Shape{{1, 1, 2, 3}}, {1, 2, 3, 4, 5, 0x7fc00000}};
const Tensor kNumbers{DType::i32, Shape{{2, 1, 1, 2}}, {0xffffffff, 0, 7, 8}};

TEST(Safetensors, reads_back_what_it_writes) {
    const std::vector<TensorView> views{{"matrix", &kMatrix, false}, {"numbers", &kNumbers, false}};
    const auto file = write_safetensors(views, {{"format", "x"}, {"quote", "a\"b\\"}});
    ASSERT_TRUE(file);
    const auto content = read_safetensors(*file);
    ASSERT_TRUE(content) << content.error().to_string();
    EXPECT_EQ(content->tensors, (std::vector<NamedTensor>{{"matrix", kMatrix}, {"numbers", kNumbers}}));
    EXPECT_EQ(content->metadata, (Metadata{{"format", "x"}, {"quote", "a\"b\\"}}));
    EXPECT_EQ(*content->find("numbers"), kNumbers);
    EXPECT_EQ(content->find("none"), nullptr);
    EXPECT_EQ(*content->find_metadata("format"), "x");
    EXPECT_EQ(content->find_metadata("none"), nullptr);
}

TEST(Safetensors, writes_the_layout_that_python_reads) {
    const std::vector<TensorView> views{{"m", &kMatrix, true}};
    const auto file = write_safetensors(views, {});
    ASSERT_TRUE(file);
    std::string header = R"({"m":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
    header.append((8 - header.size() % 8) % 8, ' ');
    Bytes expected = file_of(header, 0);
    EXPECT_EQ((expected.size()) % 8, 0U);
    for (const std::uint32_t word : kMatrix.words)
        for (unsigned shift = 0; shift < 32; shift += 8) expected.push_back(static_cast<std::uint8_t>(word >> shift));
    EXPECT_EQ(*file, expected);
}

TEST(Safetensors, squeezes_leading_dims_only) {
    const Tensor vector{DType::f32, Shape{{1, 1, 1, 1}}, {5}};
    const Tensor column{DType::f32, Shape{{1, 1, 2, 1}}, {5, 6}};
    const std::vector<TensorView> views{{"v", &vector, true}, {"c", &column, true}};
    const auto content = read_safetensors(*write_safetensors(views, {}));
    ASSERT_TRUE(content);
    EXPECT_EQ(content->tensors[0].tensor, vector);
    EXPECT_EQ(content->tensors[1].tensor, column);
    const auto file = write_safetensors(views, {});
    EXPECT_NE(as_text(*file).find("\"shape\":[1]"), std::string_view::npos);
    EXPECT_NE(as_text(*file).find("\"shape\":[2,1]"), std::string_view::npos);
}

TEST(Safetensors, accepts_what_other_writers_make) {
    EXPECT_EQ(error_of("{}", 0), "none");
    EXPECT_EQ(error_of("{}      ", 0), "none");
    EXPECT_EQ(error_of("{\"__metadata__\":{\"a\":\"b\"}}", 0), "none");
    EXPECT_EQ(error_of(std::string("{") + entry("s", "[]", 0, 4) + "}", 4), "none");
    // Header order differs from data order.
    EXPECT_EQ(error_of(std::string("{") + entry("b", "[2]", 4, 12) + "," + entry("a", "[1]", 0, 4) + "}", 12), "none");
}

TEST(Safetensors, refuses_bad_headers) {
    EXPECT_EQ(read_safetensors({}).error().name, "safetensors.truncated");
    EXPECT_EQ(read_safetensors(Bytes(7)).error().name, "safetensors.truncated");
    EXPECT_EQ(read_safetensors(Bytes(8)).error().name, "safetensors.bad_header");
    EXPECT_EQ(read_safetensors(Bytes(16, 0xff)).error().name, "safetensors.header_too_large");
    EXPECT_EQ(read_safetensors(Bytes{100, 0, 0, 0, 0, 0, 0, 0, '{', '}'}).error().name, "safetensors.truncated");
    EXPECT_EQ(error_of(" {}", 0), "safetensors.bad_header");
    EXPECT_EQ(error_of("[]", 0), "safetensors.bad_header");
    EXPECT_EQ(error_of("{", 0), "safetensors.bad_header");
    EXPECT_EQ(error_of("{}x", 0), "safetensors.bad_header");
    EXPECT_EQ(error_of("{\"a\":[[[[[[]]]]]]}", 0), "safetensors.bad_header");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1]", 0, 4) + "," + entry("a", "[1]", 4, 8) + "}", 8),
              "safetensors.duplicate_name");
    EXPECT_EQ(error_of("{\"__metadata__\":{\"a\":1}}", 0), "safetensors.bad_metadata");
    EXPECT_EQ(error_of("{\"__metadata__\":[]}", 0), "safetensors.bad_metadata");
    EXPECT_EQ(error_of(std::string("{") + entry("", "[1]", 0, 4) + "}", 4), "safetensors.bad_name");
    EXPECT_EQ(error_of(std::string("{") + entry("\\u001b[2J", "[1]", 0, 4) + "}", 4), "safetensors.bad_name");
}

TEST(Safetensors, refuses_bad_entries) {
    EXPECT_EQ(error_of("{\"a\":1}", 0), "safetensors.bad_entry");
    EXPECT_EQ(error_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4), "safetensors.bad_entry");
    EXPECT_EQ(error_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4), "safetensors.bad_entry");
    EXPECT_EQ(error_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4),
              "safetensors.bad_entry");
    EXPECT_EQ(error_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,-4]}}", 4),
              "safetensors.bad_entry");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1]", 4, 0) + "}", 4), "safetensors.bad_entry");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1]", 0, 4, "BF16") + "}", 4), "safetensors.unsupported_dtype");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1,1,1,1,1]", 0, 4) + "}", 4), "safetensors.bad_shape");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[0]", 0, 0) + "}", 0), "safetensors.bad_shape");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1.0]", 0, 4) + "}", 4), "safetensors.bad_shape");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[4294967296]", 0, 4) + "}", 4), "safetensors.bad_shape");
    // 2^32 * 2^32 elements would wrap to 0.
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[4294967295,4294967295,4294967295]", 0, 4) + "}", 4),
              "safetensors.bad_shape");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[2]", 0, 4) + "}", 4), "safetensors.wrong_size");
}

TEST(Safetensors, refuses_data_that_is_not_covered_exactly) {
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[2]", 0, 8) + "}", 4), "safetensors.truncated");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1]", 0, 4) + "}", 8), "safetensors.trailing_data");
    EXPECT_EQ(error_of("{}", 1), "safetensors.trailing_data");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1]", 4, 8) + "}", 8), "safetensors.gap");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1]", 0, 4) + "," + entry("b", "[1]", 8, 12) + "}", 12),
              "safetensors.gap");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[2]", 0, 8) + "," + entry("b", "[2]", 4, 12) + "}", 12),
              "safetensors.overlap");
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[1]", 0, 4) + "," + entry("b", "[1]", 0, 4) + "}", 4),
              "safetensors.overlap");
    // Claims of gigabytes allocate nothing: the file would have to hold them.
    EXPECT_EQ(error_of(std::string("{") + entry("a", "[2147483648]", 0, 8589934592) + "}", 4), "safetensors.truncated");
}

TEST(Safetensors, survives_every_truncation_and_single_byte_change) {
    const std::vector<TensorView> views{{"matrix", &kMatrix, false}, {"numbers", &kNumbers, true}};
    const auto file = write_safetensors(views, {{"format", "x"}});
    ASSERT_TRUE(file);
    for (std::size_t size = 0; size < file->size(); ++size)
        ASSERT_FALSE(read_safetensors(BytesView(*file).first(size))) << size;
    for (std::size_t i = 0; i < file->size(); ++i)
        for (const char byte : {'\0', '\xff', '"', '9', '}'}) {
            Bytes changed = *file;
            changed[i] = static_cast<std::uint8_t>(byte);
            const auto result = read_safetensors(changed);
            ASSERT_TRUE(result || result.error().name.starts_with("safetensors."))
                << (result ? "" : result.error().name);
        }
}

TEST(Safetensors, refuses_to_write_what_cannot_be_read) {
    const auto error = [](const std::vector<TensorView>& views, const Metadata& metadata = {}) {
        const auto file = write_safetensors(views, metadata);
        return file ? std::string_view("none") : file.error().name;
    };
    EXPECT_EQ(error({{"a", &kMatrix, false}, {"a", &kMatrix, false}}), "safetensors.duplicate_name");
    EXPECT_EQ(error({{"", &kMatrix, false}}), "safetensors.bad_name");
    EXPECT_EQ(error({{"__metadata__", &kMatrix, false}}), "safetensors.bad_name");
    const std::string long_name(kMaxSafetensorsName + 1, 'x');
    EXPECT_EQ(error({{long_name, &kMatrix, false}}), "safetensors.bad_name");
    EXPECT_EQ(error({}, {{"k", "1"}, {"k", "2"}}), "safetensors.duplicate_name");
}

}  // namespace
}  // namespace quern::compute::program
