#include "compute/program/array_file.h"

#include <array>
#include <limits>
#include <string>

#include "base/json.h"
#include "compute/program/half_float.h"
#include "compute/program/readable.h"
#include "compute/program/safetensors.h"

namespace quern::compute::program {

namespace {

using vm::tensor::DataType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionEnd = 8;   // magic, major, minor
constexpr std::size_t kLengthBytes = 8;  // of a safetensors header's

// Of elements in files.
enum class Source : std::uint8_t { kept, f64, i64, f16, bf16 };

struct Type {
    std::string_view npy;
    std::string_view safetensors;
    Source source;
    std::size_t bytes;  // of an element in the file
    DataType type;
};
constexpr std::array<Type, 9> kTypes{{{"<f4", "F32", Source::kept, 4, DataType::f32},
                                      {"<i4", "I32", Source::kept, 4, DataType::i32},
                                      {"|u1", "U8", Source::kept, 1, DataType::u8},
                                      {"|i1", "I8", Source::kept, 1, DataType::i8},
                                      {"<u2", "U16", Source::kept, 2, DataType::u16},
                                      {"<f8", "F64", Source::f64, 8, DataType::f32},
                                      {"<i8", "I64", Source::i64, 8, DataType::i32},
                                      {"", "F16", Source::f16, 2, DataType::f32},
                                      {"", "BF16", Source::bf16, 2, DataType::f32}}};

std::uint64_t read_number(BytesView bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

bool is_finite(std::uint32_t word) { return (word >> 23 & 0xff) != 0xff; }

// One element as a word, by its number in the file.
Expected<std::uint32_t> converted(std::uint64_t bits, Source source, std::uint64_t at) {
    std::uint32_t word = static_cast<std::uint32_t>(bits);
    switch (source) {
        case Source::i64: {
            const auto value = static_cast<std::int64_t>(bits);
            if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max())
                return fail("array.out_of_range",
                            "element " + std::to_string(at) + " is " + std::to_string(value) + ", no i32");
            return static_cast<std::uint32_t>(bits);
        }
        case Source::f64: {
            if ((bits >> 52 & 0x7ff) == 0x7ff) return fail("array.not_finite", "element " + std::to_string(at));
            word = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
            if (!is_finite(word)) return fail("array.out_of_range", "element " + std::to_string(at) + " is beyond f32");
            return word;
        }
        case Source::f16:
            word = widened_half(word);
            break;
        case Source::bf16:
            word = widened_bfloat16(word);
            break;
        case Source::kept:
            break;
    }
    if (!is_finite(word)) return fail("array.not_finite", "element " + std::to_string(at));
    return word;
}

// `elements` are whole elements of the type.
Expected<Array> converted(BytesView elements, const Type& type, std::vector<std::uint64_t> shape) {
    Array result{type.type, std::move(shape), {}};
    if (elements.empty()) return fail("array.empty", "no elements");
    if (type.source == Source::kept && type.type != DataType::f32) {
        result.elements.assign(elements.begin(), elements.end());
        return result;
    }
    result.elements.reserve(elements.size() / type.bytes * 4);
    for (std::size_t i = 0; i < elements.size() / type.bytes; ++i) {
        const std::uint64_t bits = read_number(elements.subspan(i * type.bytes, type.bytes));
        QUERN_TRY(const std::uint32_t word, converted(bits, type.source, i));
        for (unsigned shift = 0; shift < 32; shift += 8)
            result.elements.push_back(static_cast<std::uint8_t>(word >> shift));
    }
    return result;
}

// Whether a shape's elements are so many bytes; no product wraps.
bool fits(std::span<const std::uint64_t> shape, std::size_t element, std::uint64_t bytes) {
    std::uint64_t size = element;
    bool is_empty = false;
    for (const std::uint64_t dim : shape) {
        is_empty = is_empty || dim == 0;
        if (dim > 1 && size > bytes / dim)
            size = bytes + 1;  // more than there are, unless a dim is 0
        else if (dim > 1)
            size *= dim;
    }
    return (is_empty ? 0 : size) == bytes;
}

// The header's dictionary, as Python writes it.
class HeaderParser {
public:
    explicit HeaderParser(std::string_view text) : text_(text) {}

    [[nodiscard]] Status parse() {
        if (!take('{')) return bad("no dictionary");
        while (!take('}')) {
            QUERN_TRY(const std::string_view key, quoted());
            if (!take(':')) return bad("no colon");
            QUERN_CHECK(field(key));
            if (!take(',') && peek() != '}') return bad("no comma");
        }
        if (peek() == '\n') ++at_;
        if (at_ != text_.size()) return bad("text behind the dictionary");
        if (!has_type_ || !has_order_ || !has_shape_) return bad("a field is missing");
        return {};
    }
    std::string_view type;
    bool is_fortran = false;
    std::vector<std::uint64_t> shape;

private:
    [[nodiscard]] tl::unexpected<Error> bad(const std::string& why) const {
        return fail("npy.bad_header", why + " at " + std::to_string(at_));
    }
    char peek() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool take(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    bool take_word(std::string_view word) {
        (void)peek();
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }
    Expected<std::string_view> quoted() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') return bad("no text");
        const std::size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) return bad("no end of a text");
        const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        return inside;
    }
    Status once(bool& has) const {
        if (has) return bad("a field twice");
        has = true;
        return {};
    }
    Status field(std::string_view key) {
        if (key == "descr") {
            QUERN_CHECK(once(has_type_));
            if (peek() == '[') return fail("npy.unsupported_dtype", "records");
            QUERN_TRY(type, quoted());
            return {};
        }
        if (key == "fortran_order") {
            QUERN_CHECK(once(has_order_));
            is_fortran = take_word("True");
            if (!is_fortran && !take_word("False")) return bad("neither True nor False");
            return {};
        }
        if (key != "shape") return bad("an unknown field");
        QUERN_CHECK(once(has_shape_));
        return tuple();
    }
    Status tuple() {
        if (!take('(')) return bad("no tuple");
        bool has_comma = true;
        while (!take(')')) {
            if (!has_comma) return bad("no comma");
            if (shape.size() == kMaxArrayDims) return bad("too many dimensions");
            QUERN_TRY(const std::uint64_t dim, number());
            shape.push_back(dim);
            has_comma = take(',');
        }
        if (shape.size() == 1 && !has_comma) return bad("no tuple");
        return {};
    }
    Expected<std::uint64_t> number() {
        (void)peek();
        const std::size_t begin = at_;
        std::uint64_t value = 0;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
            if (value > vm::tensor::kMaxDataElements) return bad("a dimension too large");
            value = value * 10 + static_cast<std::uint64_t>(text_[at_++] - '0');
        }
        if (at_ == begin) return bad("no number");
        return value;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    bool has_type_ = false;
    bool has_order_ = false;
    bool has_shape_ = false;
};

Expected<Type> npy_type(std::string_view text) {
    for (const Type& type : kTypes)
        if (!text.empty() && text == type.npy) return type;
    return fail("npy.unsupported_dtype", readable(text, 16));
}

Expected<Type> safetensors_type(std::string_view name, std::string_view text) {
    for (const Type& type : kTypes)
        if (text == type.safetensors) return type;
    return fail("safetensors.unsupported_dtype", std::string(name) + " is " + readable(text, 16));
}

}  // namespace

Expected<Array> read_npy(BytesView file) {
    if (!as_text(file).starts_with(kMagic)) return fail("npy.bad_magic", "no .npy file");
    if (file.size() < kVersionEnd) return fail("npy.truncated", "no version");
    const unsigned major = file[kVersionEnd - 2];
    if (major < 1 || major > 3 || file[kVersionEnd - 1] != 0)
        return fail("npy.unknown_version", std::to_string(major) + "." + std::to_string(file[kVersionEnd - 1]));
    const std::size_t width = major == 1 ? 2 : 4;
    if (file.size() < kVersionEnd + width) return fail("npy.truncated", "no header length");
    const std::uint64_t length = read_number(file.subspan(kVersionEnd, width));
    if (length > kMaxNpyHeader) return fail("npy.header_too_large", std::to_string(length) + " bytes");
    const BytesView rest = file.subspan(kVersionEnd + width);
    if (length > rest.size()) return fail("npy.truncated", "the header ends beyond the file");
    HeaderParser header(as_text(rest.first(length)));
    QUERN_CHECK(header.parse());
    QUERN_TRY(const Type type, npy_type(header.type));
    if (header.is_fortran) return fail("npy.fortran_order", "save it with numpy.ascontiguousarray");
    const BytesView elements = rest.subspan(length);
    if (!fits(header.shape, type.bytes, elements.size()))
        return fail("npy.wrong_size", std::to_string(elements.size()) + " bytes are not what the shape says");
    return converted(elements, type, std::move(header.shape));
}

Expected<Array> read_safetensors_array(BytesView file, std::string_view name) {
    if (file.size() < kLengthBytes) return fail("safetensors.truncated", "shorter than a header length");
    const std::uint64_t length = read_number(file.first(kLengthBytes));
    if (length > kMaxSafetensorsHeader) return fail("safetensors.header_too_large", std::to_string(length));
    const BytesView rest = file.subspan(kLengthBytes);
    if (length > rest.size()) return fail("safetensors.truncated", "the header ends beyond the file");
    const std::string_view text = as_text(rest.first(length));
    if (!text.starts_with('{')) return fail("safetensors.bad_header", "does not start with '{'");
    const auto header = json::parse(text, {kMaxSafetensorsHeader, 4});
    if (!header)
        return fail(
            header.error().name == "json.duplicate_key" ? "safetensors.duplicate_name" : "safetensors.bad_header",
            header.error().to_string());
    const json::Value* const entry = name == "__metadata__" ? nullptr : header->find(name);
    if (entry == nullptr) return fail("safetensors.no_such_tensor", std::string(name));
    const auto dtype = entry->get_string("dtype");
    const auto dims = entry->get_array("shape");
    const auto offsets = entry->get_array("data_offsets");
    const auto bad_entry = [&] { return fail("safetensors.bad_entry", std::string(name)); };
    if (!dtype || !dims || !offsets || entry->size() != 3 || offsets->size() != 2) return bad_entry();
    const auto begin = (*offsets)[0].as_u64();
    const auto end = (*offsets)[1].as_u64();
    if (!begin || !end || *begin > *end) return bad_entry();
    const BytesView data = rest.subspan(length);
    if (*end > data.size()) return fail("safetensors.truncated", std::string(name) + " ends beyond the file");
    QUERN_TRY(const Type type, safetensors_type(name, *dtype));
    std::vector<std::uint64_t> shape;
    if (dims->size() > kMaxArrayDims) return fail("safetensors.bad_shape", std::string(name));
    for (const json::Value& value : *dims) {
        const auto dim = value.as_u64();
        if (!dim) return fail("safetensors.bad_shape", std::string(name));
        shape.push_back(*dim);
    }
    if (!fits(shape, type.bytes, *end - *begin)) return fail("safetensors.wrong_size", std::string(name));
    return converted(data.subspan(*begin, *end - *begin), type, std::move(shape));
}

}  // namespace quern::compute::program
