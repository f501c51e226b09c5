#include "base/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>

#include "base/json_plain.h"
#include "base/json_text.h"

namespace quern {
inline namespace base {
namespace json {
namespace {

// Builds a Value from RapidJSON's events. A handler that returns false ends the parse; `error` says why.
class Builder {
public:
    explicit Builder(const Limits& limits) : max_depth_(limits.max_depth), values_left_(limits.max_values) {}

    // NOLINTBEGIN(readability-identifier-naming): RapidJSON's names.
    bool Null() { return add(Value()); }
    bool Bool(bool value) { return add(Value(value)); }
    bool Int(int value) { return add(Value(value)); }
    bool Uint(unsigned value) { return add(Value(value)); }
    bool Int64(std::int64_t value) { return add(Value(value)); }
    bool Uint64(std::uint64_t value) { return add(Value(value)); }
    bool Double(double value) { return add(Value(value)); }
    bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
        const char* end = text + length;
        if (std::string_view(text, length).find_first_of(".eE") != std::string_view::npos) {
            double number = 0;
            const auto [stop, code] = std::from_chars(text, end, number);
            if (code != std::errc() || stop != end) return refuse("json.out_of_range");
            return add(Value(number));
        }
        if (*text == '-') {
            std::int64_t number = 0;
            const auto [stop, code] = std::from_chars(text, end, number);
            if (code != std::errc() || stop != end) return refuse("json.out_of_range");
            return add(Value(number));
        }
        std::uint64_t number = 0;
        const auto [stop, code] = std::from_chars(text, end, number);
        if (code != std::errc() || stop != end) return refuse("json.out_of_range");
        return add(Value(number));
    }
    bool String(const char* text, rapidjson::SizeType length, bool) {
        if (has_surrogate({text, length})) return refuse("json.bad_utf8");
        return add(Value(std::string(text, length)));
    }
    // Of ASCII without escapes: nothing is to be looked for in it.
    bool plain_string(std::string_view text) { return add(Value(std::string(text))); }
    bool plain_key(std::string_view text) {
        keys_.emplace_back(text);
        return true;
    }
    bool StartObject() { return open(); }
    bool Key(const char* text, rapidjson::SizeType length, bool) {
        if (has_surrogate({text, length})) return refuse("json.bad_utf8");
        keys_.emplace_back(text, length);
        return true;
    }
    bool EndObject(rapidjson::SizeType count) {
        --depth_;
        Object members;
        members.reserve(count);
        const std::size_t key = keys_.size() - count;
        const std::size_t value = values_.size() - count;
        for (std::size_t i = 0; i < count; ++i)
            members.push_back({std::move(keys_[key + i]), std::move(values_[value + i])});
        keys_.resize(key);
        values_.resize(value);
        if (has_duplicates(members)) return refuse("json.duplicate_key");
        return add(Value(std::move(members)));
    }
    bool StartArray() { return open(); }
    bool EndArray(rapidjson::SizeType count) {
        --depth_;
        const auto first = values_.end() - static_cast<std::ptrdiff_t>(count);
        Array items(std::make_move_iterator(first), std::make_move_iterator(values_.end()));
        values_.resize(values_.size() - count);
        return add(Value(std::move(items)));
    }
    // NOLINTEND(readability-identifier-naming)

    std::string_view error;
    Value result;

private:
    // RapidJSON takes the escape of a low surrogate alone ("\ude00") and makes three bytes of it that are no UTF-8;
    // the text's own bytes it has validated.
    static bool has_surrogate(std::string_view text) {
        for (std::size_t at = text.find('\xed'); at != std::string_view::npos; at = text.find('\xed', at + 1))
            if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xa0) return true;
        return false;
    }
    bool refuse(std::string_view name) {
        error = name;
        return false;
    }
    bool open() {
        if (depth_ >= max_depth_) return refuse("json.too_deep");
        ++depth_;
        return true;
    }
    bool add(Value value) {
        if (values_left_ == 0) return refuse("json.too_many_values");
        --values_left_;
        if (depth_ == 0)
            result = std::move(value);
        else
            values_.push_back(std::move(value));
        return true;
    }
    static bool has_duplicates(const Object& members) {
        constexpr std::size_t kFew = 12;  // comparing each with each is quicker than sorting, and allocates nothing
        if (members.size() <= kFew) {
            for (std::size_t i = 1; i < members.size(); ++i)
                for (std::size_t j = 0; j < i; ++j)
                    if (members[i].key == members[j].key) return true;
            return false;
        }
        std::vector<std::string_view> keys;
        keys.reserve(members.size());
        for (const auto& member : members) keys.push_back(member.key);
        std::sort(keys.begin(), keys.end());
        return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
    }

    std::size_t max_depth_;
    std::size_t values_left_;
    std::size_t depth_ = 0;  // arrays and objects that have begun
    // What they hold so far, one behind the other: the innermost's last.
    std::vector<std::string> keys_;
    Array values_;
};

// Length of the valid UTF-8 sequence at the start of `text`, or 0 (RFC 3629: no surrogates, no overlong forms).
std::size_t utf8_sequence(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
    unsigned low = 0x80;
    unsigned high = 0xbf;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
    if (byte(1) < low || byte(1) > high) return 0;
    for (std::size_t i = 2; i < length; ++i)
        if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
    return length;
}

// `text` itself when valid, else a repaired copy in `storage`.
std::string_view valid_utf8(std::string_view text, std::string& storage) {
    std::size_t good = 0;
    while (good < text.size()) {
        const std::size_t length = utf8_sequence(text.substr(good));
        if (length == 0) break;
        good += length;
    }
    if (good == text.size()) return text;
    storage.assign(text.substr(0, good));
    for (std::size_t at = good; at < text.size();) {
        const std::size_t length = utf8_sequence(text.substr(at));
        if (length == 0) {
            storage += "\xef\xbf\xbd";
            ++at;
        } else {
            storage += text.substr(at, length);
            at += length;
        }
    }
    return storage;
}

template <class Writer>
void write_string(Writer& writer, std::string_view text, bool is_key) {
    std::string storage;
    const std::string_view good = valid_utf8(text, storage);
    const auto length = static_cast<rapidjson::SizeType>(good.size());
    if (is_key)
        writer.Key(good.data(), length);
    else
        writer.String(good.data(), length);
}

// Whether RapidJSON's writer would put `text` between quotes as it is.
bool is_plain(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
    });
}

template <class Number>
void append_number(std::string& out, Number number) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out.append(digits.data(), end);
}

template <class Writer>
void write_value(Writer& writer, const Value& value) {
    if (value.is_null()) {
        writer.Null();
    } else if (value.is_bool()) {
        writer.Bool(*value.as_bool());
    } else if (value.is_integer()) {
        if (const auto number = value.as_u64())
            writer.Uint64(*number);
        else
            writer.Int64(*value.as_i64());
    } else if (value.is_number()) {
        const double number = *value.as_double();
        if (number - number == 0)  // false for NaN and infinities
            writer.Double(number);
        else
            writer.Null();
    } else if (value.is_string()) {
        write_string(writer, *value.as_string(), false);
    } else if (value.is_array()) {
        writer.StartArray();
        for (const Value& item : value.items()) write_value(writer, item);
        writer.EndArray();
    } else {
        writer.StartObject();
        for (const Member& member : value.members()) {
            write_string(writer, member.key, true);
            write_value(writer, member.value);
        }
        writer.EndObject();
    }
}

tl::unexpected<Error> wrong_type(std::string_view wanted, const Value& value) {
    return fail("json.wrong_type", "expected " + std::string(wanted) + ", got " + std::string(value.type_name()));
}

template <class T>
Expected<T> name_field(std::string_view key, Expected<T> result) {
    if (result) return result;
    return detailed(result.error(), std::string(key) + ": " + result.error().detail);
}

const Value kNull;

}  // namespace

Value Value::object(std::initializer_list<Member> members) { return Object(members); }
Value Value::array(std::initializer_list<Value> items) { return Array(items); }

std::string_view Value::type_name() const {
    if (is_null()) return "null";
    if (is_bool()) return "boolean";
    if (is_number()) return "number";
    if (is_string()) return "string";
    return is_array() ? "array" : "object";
}

Expected<bool> Value::as_bool() const {
    if (const auto* value = std::get_if<bool>(&data_)) return *value;
    return wrong_type("boolean", *this);
}

Expected<std::uint64_t> Value::as_u64() const {
    if (const auto* value = std::get_if<std::uint64_t>(&data_)) return *value;
    if (const auto* value = std::get_if<std::int64_t>(&data_)) {
        if (*value < 0) return fail("json.out_of_range", "negative");
        return static_cast<std::uint64_t>(*value);
    }
    return wrong_type("integer", *this);
}

Expected<std::int64_t> Value::as_i64() const {
    if (const auto* value = std::get_if<std::int64_t>(&data_)) return *value;
    if (const auto* value = std::get_if<std::uint64_t>(&data_)) {
        if (*value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            return fail("json.out_of_range", "beyond int64");
        return static_cast<std::int64_t>(*value);
    }
    return wrong_type("integer", *this);
}

Expected<double> Value::as_double() const {
    if (const auto* value = std::get_if<double>(&data_)) return *value;
    if (const auto* value = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*value);
    if (const auto* value = std::get_if<std::uint64_t>(&data_)) return static_cast<double>(*value);
    return wrong_type("number", *this);
}

Expected<std::string_view> Value::as_string() const {
    if (const auto* value = std::get_if<std::string>(&data_)) return std::string_view(*value);
    return wrong_type("string", *this);
}

Expected<std::span<const Value>> Value::as_array() const {
    if (const auto* value = std::get_if<Array>(&data_)) return std::span<const Value>(*value);
    return wrong_type("array", *this);
}

Expected<std::span<const Member>> Value::as_object() const {
    if (const auto* value = std::get_if<Object>(&data_)) return std::span<const Member>(*value);
    return wrong_type("object", *this);
}

const Value* Value::find(std::string_view key) const {
    if (const auto* members = std::get_if<Object>(&data_))
        for (const Member& member : *members)
            if (member.key == key) return &member.value;
    return nullptr;
}

Expected<const Value*> Value::get(std::string_view key) const {
    if (!is_object()) return wrong_type("object", *this);
    const Value* value = find(key);
    if (value == nullptr) return fail("json.missing_field", std::string(key));
    return value;
}

Expected<bool> Value::get_bool(std::string_view key) const {
    QUERN_TRY(const Value* value, get(key));
    return name_field(key, value->as_bool());
}

Expected<std::uint64_t> Value::get_u64(std::string_view key) const {
    QUERN_TRY(const Value* value, get(key));
    return name_field(key, value->as_u64());
}

Expected<std::int64_t> Value::get_i64(std::string_view key) const {
    QUERN_TRY(const Value* value, get(key));
    return name_field(key, value->as_i64());
}

Expected<double> Value::get_double(std::string_view key) const {
    QUERN_TRY(const Value* value, get(key));
    return name_field(key, value->as_double());
}

Expected<std::string_view> Value::get_string(std::string_view key) const {
    QUERN_TRY(const Value* value, get(key));
    return name_field(key, value->as_string());
}

Expected<std::span<const Value>> Value::get_array(std::string_view key) const {
    QUERN_TRY(const Value* value, get(key));
    return name_field(key, value->as_array());
}

Expected<const Value*> Value::get_object(std::string_view key) const {
    QUERN_TRY(const Value* value, get(key));
    if (!value->is_object()) return name_field<const Value*>(key, wrong_type("object", *value));
    return value;
}

std::span<const Value> Value::items() const {
    const auto* items = std::get_if<Array>(&data_);
    return items != nullptr ? std::span<const Value>(*items) : std::span<const Value>();
}

std::span<const Member> Value::members() const {
    const auto* members = std::get_if<Object>(&data_);
    return members != nullptr ? std::span<const Member>(*members) : std::span<const Member>();
}

std::size_t Value::size() const {
    if (const auto* items = std::get_if<Array>(&data_)) return items->size();
    if (const auto* members = std::get_if<Object>(&data_)) return members->size();
    return 0;
}

const Value& Value::operator[](std::size_t index) const {
    const auto* items = std::get_if<Array>(&data_);
    return items != nullptr && index < items->size() ? (*items)[index] : kNull;
}

Value& Value::set(std::string_view key, Value value) {
    if (!is_object()) data_ = Object();
    auto& members = std::get<Object>(data_);
    for (Member& member : members) {
        if (member.key != key) continue;
        member.value = std::move(value);
        return *this;
    }
    members.push_back({std::string(key), std::move(value)});
    return *this;
}

Value& Value::push(Value value) {
    if (!is_array()) data_ = Array();
    std::get<Array>(data_).push_back(std::move(value));
    return *this;
}

bool Value::erase(std::string_view key) {
    auto* members = std::get_if<Object>(&data_);
    if (members == nullptr) return false;
    return std::erase_if(*members, [&](const Member& member) { return member.key == key; }) != 0;
}

void append_string(std::string& out, std::string_view text) {
    if (is_plain(text)) {
        out += '"';
        out += text;
        out += '"';
        return;
    }
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    write_string(writer, text, false);
    out.append(buffer.GetString(), buffer.GetSize());
}

void append(std::string& out, const Value& value) {
    if (value.is_string()) {
        append_string(out, *value.as_string());
    } else if (value.is_integer()) {
        if (const auto number = value.as_u64())
            append_number(out, *number);
        else
            append_number(out, *value.as_i64());
    } else if (value.is_array()) {
        out += '[';
        bool first = true;
        for (const Value& item : value.items()) {
            if (!std::exchange(first, false)) out += ',';
            append(out, item);
        }
        out += ']';
    } else if (value.is_object()) {
        out += '{';
        bool first = true;
        for (const Member& member : value.members()) {
            if (!std::exchange(first, false)) out += ',';
            append_string(out, member.key);
            out += ':';
            append(out, member.value);
        }
        out += '}';
    } else if (value.is_null()) {
        out += "null";
    } else if (value.is_bool()) {
        out += *value.as_bool() ? "true" : "false";
    } else {
        rapidjson::StringBuffer buffer;
        rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
        write_value(writer, value);
        out.append(buffer.GetString(), buffer.GetSize());
    }
}

std::string Value::dump() const {
    std::string out;
    append(out, *this);
    return out;
}

std::string Value::dump_pretty() const {
    rapidjson::StringBuffer buffer;
    rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
    writer.SetIndent(' ', 2);
    write_value(writer, *this);
    return {buffer.GetString(), buffer.GetSize()};
}

bool operator==(const Value& a, const Value& b) {
    if (a.is_integer() && b.is_integer()) {
        const auto x = a.as_u64();
        const auto y = b.as_u64();
        if (x.has_value() && y.has_value()) return *x == *y;
        return !x.has_value() && !y.has_value() && *a.as_i64() == *b.as_i64();
    }
    return a.data_ == b.data_;
}

Expected<Value> parse(std::string_view text, const Limits& limits) {
    if (text.size() > limits.max_bytes) return fail("json.too_large", std::to_string(text.size()) + " bytes");
    {
        Builder plain(limits);
        if (PlainReader<Builder>(text).read(plain)) return std::move(plain.result);
    }
    constexpr unsigned kFlags =
        rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag;
    rapidjson::MemoryStream stream(text.data(), text.size());
    rapidjson::Reader reader;
    Builder builder(limits);
    const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
    if (result.IsError()) {
        std::string detail = "at offset " + std::to_string(result.Offset());
        if (result.Code() == rapidjson::kParseErrorTermination) return fail(builder.error, std::move(detail));
        if (result.Code() == rapidjson::kParseErrorNumberTooBig) return fail("json.out_of_range", std::move(detail));
        if (result.Code() == rapidjson::kParseErrorStringInvalidEncoding)
            return fail("json.bad_utf8", std::move(detail));
        return fail("json.syntax", std::string(rapidjson::GetParseError_En(result.Code())) + ", " + detail);
    }
    // The stream shows an embedded NUL as its end.
    if (stream.Tell() != text.size())
        return fail("json.syntax", "text after the value at offset " + std::to_string(stream.Tell()));
    return std::move(builder.result);
}

}  // namespace json
}  // namespace base
}  // namespace quern
