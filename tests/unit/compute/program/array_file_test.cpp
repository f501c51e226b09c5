// Arrays of NumPy's and safetensors files: conversions bit by bit, and headers that lie.
#include "compute/program/array_file.h"

#include <gtest/gtest.h>

#include <bit>

#include "compute/program/array_dataset.h"

namespace quern::compute::program {
namespace {

using vm::tensor::DataType;

Bytes little(std::uint64_t value, std::size_t width) {
    Bytes bytes;
    for (std::size_t i = 0; i < width; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
    return bytes;
}
Bytes joined(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}
Bytes bytes_of(std::string_view text) { return Bytes(text.begin(), text.end()); }

Bytes npy_with(const std::string& header, const Bytes& elements, std::uint8_t major = 1) {
    return joined({bytes_of("\x93NUMPY"), Bytes{major, 0}, little(header.size(), major == 1 ? 2 : 4), bytes_of(header),
                   elements});
}
Bytes npy(const std::string& type, const std::string& shape, const Bytes& elements) {
    return npy_with("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }   \n", elements);
}
Bytes safetensors(const std::string& header, const Bytes& data) {
    return joined({little(header.size(), 8), bytes_of(header), data});
}
Bytes one_tensor(const std::string& type, const std::string& shape, const Bytes& data) {
    return safetensors(R"({"__metadata__":{"a":"b"},"x":{"dtype":")" + type + R"(","shape":)" + shape +
                           R"(,"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
                       data);
}

std::string error_of(const Expected<Array>& array) { return array ? "taken" : std::string(array.error().name); }
std::string npy_error(const Bytes& file) { return error_of(read_npy(file)); }
std::string header_error(const std::string& header) { return npy_error(npy_with(header, Bytes(4))); }

TEST(Npy, keeps_elements_of_a_data_tensors_types) {
    const struct {
        const char* name;
        DataType type;
        std::size_t width;
    } kKept[] = {{"<f4", DataType::f32, 4},
                 {"<i4", DataType::i32, 4},
                 {"|u1", DataType::u8, 1},
                 {"|i1", DataType::i8, 1},
                 {"<u2", DataType::u16, 2}};
    for (const auto& kept : kKept) {
        Bytes elements;
        for (std::size_t i = 0; i < 6 * kept.width; ++i) elements.push_back(static_cast<std::uint8_t>(17 * i + 3));
        for (const std::uint8_t major : Bytes{1, 2, 3}) {
            const auto array = read_npy(
                npy_with(std::string("{'descr': '") + kept.name + "', 'fortran_order': False, 'shape': (3, 2), }\n",
                         elements, major));
            ASSERT_TRUE(array) << kept.name << array.error().to_string();
            EXPECT_EQ(array->type, kept.type);
            EXPECT_EQ(array->shape, (std::vector<std::uint64_t>{3, 2}));
            EXPECT_EQ(array->elements, elements);
            EXPECT_EQ(array->count(), 6U);
            EXPECT_EQ(array->examples(), 3U);
        }
    }
}

std::string as_f32(double value) {
    const auto array = read_npy(npy("<f8", "(1,)", little(std::bit_cast<std::uint64_t>(value), 8)));
    return array ? to_hex(array->elements) : std::string(array.error().name);
}
std::string as_i32(std::int64_t value) {
    const auto array = read_npy(npy("<i8", "()", little(static_cast<std::uint64_t>(value), 8)));
    return array ? to_hex(array->elements) : std::string(array.error().name);
}
std::string hex_of(std::uint32_t word) { return to_hex(little(word, 4)); }

TEST(Npy, rounds_f8_to_the_nearest_f32) {
    EXPECT_EQ(as_f32(1.5), hex_of(0x3fc00000));
    EXPECT_EQ(as_f32(-0.0), hex_of(0x80000000));
    EXPECT_EQ(as_f32(0.1), hex_of(0x3dcccccd));
    EXPECT_EQ(as_f32(1 + 0x1p-24), hex_of(0x3f800000));  // half way: to even
    EXPECT_EQ(as_f32(1 + 0x3p-24), hex_of(0x3f800002));  // likewise
    EXPECT_EQ(as_f32(1 + 0x1p-24 + 0x1p-50), hex_of(0x3f800001));
    EXPECT_EQ(as_f32(0x1p-149), hex_of(1));
    EXPECT_EQ(as_f32(0x1p-151), hex_of(0));
    EXPECT_EQ(as_f32(0x1.fffffefp127), hex_of(0x7f7fffff));
    EXPECT_EQ(as_f32(0x1.ffffffp127), "array.out_of_range");
    EXPECT_EQ(as_f32(std::bit_cast<double>(0x7ff0000000000000)), "array.not_finite");
    EXPECT_EQ(as_f32(std::bit_cast<double>(0x7ff8000000000001)), "array.not_finite");
}

TEST(Npy, takes_i8_that_fit_i32) {
    EXPECT_EQ(as_i32(-1), "ffffffff");
    EXPECT_EQ(as_i32(2147483647), "ffffff7f");
    EXPECT_EQ(as_i32(-2147483648LL), "00000080");
    EXPECT_EQ(as_i32(2147483648LL), "array.out_of_range");
    EXPECT_EQ(as_i32(-2147483649LL), "array.out_of_range");
}

TEST(Npy, refuses_what_no_model_can_learn_from) {
    const auto array = read_npy(npy("<f4", "(2,)", joined({little(0x3f800000, 4), little(0x7f800000, 4)})));
    EXPECT_EQ(error_of(array), "array.not_finite");
    EXPECT_EQ(array.error().detail, "element 1");
    EXPECT_EQ(npy_error(npy("<f4", "(1,)", little(0x7fc00000, 4))), "array.not_finite");
    EXPECT_EQ(npy_error(npy("<f4", "(0,)", {})), "array.empty");
    EXPECT_EQ(npy_error(npy("<f4", "(0, 18446744073709551)", {})), "npy.bad_header");
}

TEST(Npy, refuses_files_that_lie) {
    const Bytes good = npy("<i4", "(1,)", Bytes(4));
    EXPECT_EQ(npy_error(good), "taken");
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_NE(npy_error(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))), "taken") << size;
    Bytes longer = good;
    longer.push_back(0);
    EXPECT_EQ(npy_error(longer), "npy.wrong_size");
    EXPECT_EQ(npy_error(bytes_of("PK\3\4....")), "npy.bad_magic");
    EXPECT_EQ(npy_error(bytes_of("\x93NUMPY")), "npy.truncated");
    EXPECT_EQ(npy_error(joined({bytes_of("\x93NUMPY"), Bytes{1, 0, 9}})), "npy.truncated");
    EXPECT_EQ(npy_error(joined({bytes_of("\x93NUMPY"), Bytes{1, 0, 9, 0}})), "npy.truncated");
    EXPECT_EQ(npy_error(joined({bytes_of("\x93NUMPY"), Bytes{4, 0, 9, 0, 0, 0}})), "npy.unknown_version");
    EXPECT_EQ(npy_error(joined({bytes_of("\x93NUMPY"), Bytes{1, 1, 9, 0, 0, 0}})), "npy.unknown_version");
    EXPECT_EQ(npy_error(joined({bytes_of("\x93NUMPY"), Bytes{2, 0, 0xff, 0xff, 0xff, 0xff}})), "npy.header_too_large");
    // Shapes of more than there is, among them products that wrap to 0 and to 4 bytes.
    for (const char* shape : {"(2,)", "(281474976710656,)", "(4294967296, 4294967296)", "(65536, 65536, 65536, 65536)",
                              "(4611686018427387905,)", "(3, 1)", "(0,)"})
        EXPECT_NE(npy_error(npy("<i4", shape, Bytes(4))), "taken") << shape;
    EXPECT_EQ(npy_error(npy("<i4", "(4294967296, 4294967296)", Bytes(4))), "npy.wrong_size");
    EXPECT_EQ(npy_error(npy("<i4", "(281474976710656, 65536)", {})), "npy.wrong_size");
    for (const char* type : {">f4", "<f2", "<u4", "<c8", "|b1", "<U3", "|O", "f4", "", "=i4"})
        EXPECT_EQ(npy_error(npy(type, "(1,)", Bytes(4))), "npy.unsupported_dtype") << type;
    EXPECT_EQ(read_npy(npy("\x1b[2J", "(1,)", Bytes(4))).error().detail, "?[2J");
}

TEST(Npy, refuses_headers_that_are_none) {
    EXPECT_EQ(header_error("{'descr':'<i4','fortran_order':False,'shape':(1,)}"), "taken");
    EXPECT_EQ(header_error(R"({"shape": (1, 1), "fortran_order": False, "descr": "<i4"}  )"), "taken");
    EXPECT_EQ(header_error("{'descr': '<i4', 'fortran_order': True, 'shape': (1,), }"), "npy.fortran_order");
    EXPECT_EQ(header_error("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }"),
              "npy.unsupported_dtype");
    std::string deep = "{'descr': '<i4', 'fortran_order': False, 'shape': (";
    for (std::size_t i = 0; i < kMaxArrayDims; ++i) deep += "1,";
    EXPECT_EQ(header_error(deep + ")}"), "taken");
    EXPECT_EQ(header_error(deep + "1,)}"), "npy.bad_header");
    for (const char* header : {"",
                               " ",
                               "[]",
                               "{",
                               "{}",
                               "{'descr': '<i4'}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1)}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1 1)}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': 1}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (,)}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1,",
                               "{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,)}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} x",
                               "{'descr': '<i4' 'fortran_order': False, 'shape': (1,)}",
                               "{'descr' '<i4', 'fortran_order': False, 'shape': (1,)}",
                               "{'descr': '<i4, 'fortran_order': False, 'shape': (1,)}",
                               "{'descr",
                               "{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,)}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'more': (1,)}"})
        EXPECT_EQ(header_error(header), "npy.bad_header") << header;
}

std::string half(const std::string& type, std::uint32_t bits) {
    const auto array = read_safetensors_array(one_tensor(type, "[1]", little(bits, 2)), "x");
    return array ? to_hex(array->elements) : std::string(array.error().name);
}

TEST(SafetensorsArray, makes_halves_exactly_f32) {
    EXPECT_EQ(half("F16", 0x3c00), hex_of(0x3f800000));
    EXPECT_EQ(half("F16", 0xc500), hex_of(0xc0a00000));  // -5
    EXPECT_EQ(half("F16", 0x7bff), hex_of(0x477fe000));  // 65504
    EXPECT_EQ(half("F16", 0x0400), hex_of(0x38800000));  // 2^-14
    EXPECT_EQ(half("F16", 0x8000), hex_of(0x80000000));
    EXPECT_EQ(half("F16", 0x7c00), "array.not_finite");
    EXPECT_EQ(half("F16", 0xfe00), "array.not_finite");
    for (std::uint32_t bits = 0; bits < 0x400; ++bits)  // subnormals: so many times 2^-24
        EXPECT_EQ(half("F16", bits), hex_of(std::bit_cast<std::uint32_t>(static_cast<float>(bits) * 0x1p-24F)));
    EXPECT_EQ(half("BF16", 0x3f80), hex_of(0x3f800000));
    EXPECT_EQ(half("BF16", 0x8001), hex_of(0x80010000));
    EXPECT_EQ(half("BF16", 0x7f80), "array.not_finite");
}

TEST(SafetensorsArray, takes_one_of_several_tensors) {
    const Bytes file = safetensors(R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"U8","shape":[2,1],"data_offsets":[4,6]}})",
                                   Bytes{1, 0, 1, 0, 7, 9});
    const auto array = read_safetensors_array(file, "b");
    ASSERT_TRUE(array) << array.error().to_string();
    EXPECT_EQ(array->type, DataType::u8);
    EXPECT_EQ(array->elements, (Bytes{7, 9}));
    EXPECT_EQ(array->shape, (std::vector<std::uint64_t>{2, 1}));
    EXPECT_EQ(error_of(read_safetensors_array(file, "a")), "safetensors.unsupported_dtype");
    EXPECT_EQ(error_of(read_safetensors_array(file, "c")), "safetensors.no_such_tensor");
    EXPECT_EQ(error_of(read_safetensors_array(one_tensor("I64", "[1]", little(5, 8)), "x")), "taken");
    EXPECT_EQ(error_of(read_safetensors_array(one_tensor("F64", "[]", little(0, 8)), "x")), "taken");
}

TEST(SafetensorsArray, refuses_files_that_lie) {
    const auto error = [](const std::string& entry, const std::string& name = "x") {
        return error_of(read_safetensors_array(safetensors("{\"" + name + "\":" + entry + "}", Bytes(8)), name));
    };
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[2],"data_offsets":[0,8]})"), "taken");
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[2],"data_offsets":[0,9]})"), "safetensors.truncated");
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[2],"data_offsets":[0,4]})"), "safetensors.wrong_size");
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
              "safetensors.wrong_size");
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[2],"data_offsets":[8,0]})"), "safetensors.bad_entry");
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[2],"data_offsets":[0,8,8]})"), "safetensors.bad_entry");
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[2],"data_offsets":[0,8],"more":1})"), "safetensors.bad_entry");
    EXPECT_EQ(error(R"({"dtype":"I32","shape":[-2],"data_offsets":[0,8]})"), "safetensors.bad_shape");
    EXPECT_EQ(error("[]"), "safetensors.bad_entry");
    EXPECT_EQ(error("{}", "__metadata__"), "safetensors.no_such_tensor");
    EXPECT_EQ(error_of(read_safetensors_array(Bytes(7), "x")), "safetensors.truncated");
    EXPECT_EQ(error_of(read_safetensors_array(little(3, 8), "x")), "safetensors.truncated");
    EXPECT_EQ(error_of(read_safetensors_array(little(~0ULL, 8), "x")), "safetensors.header_too_large");
    EXPECT_EQ(error_of(read_safetensors_array(safetensors("[]", {}), "x")), "safetensors.bad_header");
    EXPECT_EQ(error_of(read_safetensors_array(safetensors("{", {}), "x")), "safetensors.bad_header");
    EXPECT_EQ(error_of(read_safetensors_array(safetensors(" {}", {}), "x")), "safetensors.bad_header");
    EXPECT_EQ(error_of(read_safetensors_array(safetensors(R"({"x":1,"x":2})", {}), "x")), "safetensors.duplicate_name");
}

TEST(ArrayDataset, pairs_as_many_targets_as_inputs) {
    const Array three{DataType::u8, {3, 2}, Bytes(6)};
    const Array two{DataType::u8, {2}, Bytes(2)};
    EXPECT_EQ(pair_arrays(three, two).error().name, "array.different_counts");
    EXPECT_TRUE(pair_arrays(three, Array{DataType::u8, {3}, Bytes(3)}));
    EXPECT_TRUE(pair_arrays(three, {}));
    const auto dataset = pair_arrays(two, two);
    ASSERT_TRUE(dataset);
    for (const char* targets : {"folder/out", "folder/../folder/out", "folder/out.json"})
        EXPECT_EQ(write_array_dataset(*dataset, "folder/out", targets).error().name, "array.same_output") << targets;
}

}  // namespace
}  // namespace quern::compute::program
