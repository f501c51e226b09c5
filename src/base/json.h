// JSON values for RPC, keystores, configuration, reports and model headers. A value owns its data; objects keep their
// keys in order of insertion; integers in the range of int64 and uint64 stay exact. Parsing is strict (RFC 8259, valid
// UTF-8, no duplicate keys, no trailing text) and bounded in size and depth, without recursion. The parser behind it
// is RapidJSON, which only json.cpp includes. Plain values; thread-safe as such.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/expected.h"

namespace quern {
inline namespace base {
namespace json {

class Value;
struct Member;
using Array = std::vector<Value>;
using Object = std::vector<Member>;

struct Limits {
    std::size_t max_bytes = std::size_t{16} << 20;
    std::size_t max_depth = 64;
    // Keys not counted. In memory one takes up to fifty times what it may have in the text.
    std::size_t max_values = std::size_t{2} << 20;
};

class Value {
public:
    ~Value();
    Value(const Value& other);
    Value(Value&& other) noexcept;
    Value& operator=(const Value& other);
    Value& operator=(Value&& other) noexcept;
    Value();                            // null
    Value(std::nullptr_t) : Value() {}  // NOLINT: JSON literals convert
    Value(const char* text);            // NOLINT
    Value(std::string_view text);       // NOLINT
    Value(std::string text);            // NOLINT
    Value(Array items);                 // NOLINT
    Value(Object members);              // NOLINT
    Value(double number);               // NOLINT
    template <class T>
    requires std::is_integral_v<T> Value(T number);  // NOLINT
    // Value::object({{"name", "x"}, {"count", 3}}); keys must differ.
    [[nodiscard]] static Value object(std::initializer_list<Member> members = {});
    [[nodiscard]] static Value array(std::initializer_list<Value> items = {});

    [[nodiscard]] bool is_null() const { return data_.index() == 0; }
    [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(data_); }
    [[nodiscard]] bool is_integer() const {
        return std::holds_alternative<std::int64_t>(data_) || std::holds_alternative<std::uint64_t>(data_);
    }
    [[nodiscard]] bool is_number() const { return is_integer() || std::holds_alternative<double>(data_); }
    [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(data_); }
    [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(data_); }
    [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(data_); }
    [[nodiscard]] std::string_view type_name() const;  // "null", "boolean", "number", "string", "array", "object"

    // Error json.wrong_type; the integer forms also json.out_of_range. Views live as long as this value.
    [[nodiscard]] Expected<bool> as_bool() const;
    [[nodiscard]] Expected<std::uint64_t> as_u64() const;
    [[nodiscard]] Expected<std::int64_t> as_i64() const;
    [[nodiscard]] Expected<double> as_double() const;  // integers convert
    [[nodiscard]] Expected<std::string_view> as_string() const;
    [[nodiscard]] Expected<std::span<const Value>> as_array() const;
    [[nodiscard]] Expected<std::span<const Member>> as_object() const;

    // The member, or nullptr when it is missing or this is no object.
    [[nodiscard]] const Value* find(std::string_view key) const;
    // As find, with errors json.missing_field and json.wrong_type; the detail names the field. get_* read it typed.
    [[nodiscard]] Expected<const Value*> get(std::string_view key) const;
    [[nodiscard]] Expected<bool> get_bool(std::string_view key) const;
    [[nodiscard]] Expected<std::uint64_t> get_u64(std::string_view key) const;
    [[nodiscard]] Expected<std::int64_t> get_i64(std::string_view key) const;
    [[nodiscard]] Expected<double> get_double(std::string_view key) const;
    [[nodiscard]] Expected<std::string_view> get_string(std::string_view key) const;
    [[nodiscard]] Expected<std::span<const Value>> get_array(std::string_view key) const;
    [[nodiscard]] Expected<const Value*> get_object(std::string_view key) const;

    // For loops: the items of an array, the members of an object, nothing for other types. (Looping over *as_array()
    // would read a temporary that is gone.)
    [[nodiscard]] std::span<const Value> items() const;
    [[nodiscard]] std::span<const Member> members() const;
    // Members of an object or items of an array; 0 for others.
    [[nodiscard]] std::size_t size() const;
    // Item of an array; the null value when out of range or no array.
    [[nodiscard]] const Value& operator[](std::size_t index) const;

    // Sets or replaces a member; a null value becomes an object first. The caller does not call it on other types
    // (they are replaced by an object).
    Value& set(std::string_view key, Value value);
    // Appends an item; a null value becomes an array first.
    Value& push(Value value);
    // Removes a member; false when there was none.
    bool erase(std::string_view key);

    // Text without spaces / with two-space indents. Bytes that are no UTF-8 become U+FFFD; NaN and infinity, which
    // JSON lacks, become null.
    [[nodiscard]] std::string dump() const;
    [[nodiscard]] std::string dump_pretty() const;

    // Integers compare by value whatever their sign type; object members compare in order.
    friend bool operator==(const Value& a, const Value& b);

private:
    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> data_;
};

struct Member {
    std::string key;
    Value value;
    friend bool operator==(const Member&, const Member&) = default;
};

// Below Member, which they need complete.
inline Value::~Value() = default;
inline Value::Value(const Value& other) = default;
inline Value::Value(Value&& other) noexcept = default;
inline Value& Value::operator=(const Value& other) = default;
inline Value& Value::operator=(Value&& other) noexcept = default;
inline Value::Value() = default;
inline Value::Value(const char* text) : data_(std::string(text)) {}
inline Value::Value(std::string_view text) : data_(std::string(text)) {}
inline Value::Value(std::string text) : data_(std::move(text)) {}
inline Value::Value(Array items) : data_(std::move(items)) {}
inline Value::Value(Object members) : data_(std::move(members)) {}
inline Value::Value(double number) : data_(number) {}
template <class T>
requires std::is_integral_v<T> Value::Value(T number) {
    if constexpr (std::is_same_v<T, bool>)
        data_ = number;
    else if constexpr (std::is_signed_v<T>)
        data_ = static_cast<std::int64_t>(number);
    else
        data_ = static_cast<std::uint64_t>(number);
}

// Errors: json.too_large, json.too_deep, json.too_many_values, json.syntax (with the offset), json.bad_utf8,
// json.duplicate_key, json.out_of_range (an integer beyond 64 bits, a fraction beyond double).
[[nodiscard]] Expected<Value> parse(std::string_view text, const Limits& limits = {});

}  // namespace json
}  // namespace base
}  // namespace quern
