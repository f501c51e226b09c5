// Records as JSON, generated from their field lists (fields.h). Used by RPC (results), workers (reading them back) and
// wallets (payloads from files). Names are the declared ones. bool is a boolean; u8 to u64 and enums are numbers;
// Uint256 is a "0x" quantity (read also from a decimal string or a number); byte strings and fixed bytes are "0x" hex;
// strings, records and vectors are what they are in JSON. Pure; thread-safe.
//
// Reading is strict in types, ranges and presence. Extra members are ignored by default, because RPC adds derived ones
// ("stateName"); where people write the JSON, ExtraMembers::refuse catches misspelled names.
// Errors: json.missing_field, json.wrong_type, json.out_of_range, json.unknown_field, json.too_many_items, hex.*,
// bytes.wrong_length, uint256.*; the detail leads to the field ("spec.priceCap: ...").
#pragma once

#include "base/json.h"
#include "chain/types/fields.h"

namespace quern::chain::types {

enum class ExtraMembers : std::uint8_t { ignore, refuse };

template <class T>
[[nodiscard]] json::Value to_json(const T& value);
template <class T>
[[nodiscard]] Status from_json(const json::Value& json, T& value, ExtraMembers extra = ExtraMembers::ignore);

// A Uint256 as people and programs write it: "0x1f", "31" or 31.
[[nodiscard]] inline Expected<Uint256> uint256_from_json(const json::Value& json) {
    if (json.is_integer()) {
        QUERN_TRY(const std::uint64_t number, json.as_u64());
        return Uint256(number);
    }
    QUERN_TRY(const std::string_view text, json.as_string());
    return text.starts_with("0x") ? Uint256::from_hex_quantity(text) : Uint256::from_decimal(text);
}

namespace detail {

struct JsonWriteVisitor {
    json::Object members;
    template <class T>
    void operator()(const char* name, const T& value) {
        members.push_back({name, to_json(value)});
    }
};

[[nodiscard]] inline Status at_field(std::string_view name, const Error& error) {
    const bool nested = !error.detail.empty() && error.detail[0] != ' ';
    return detailed(error, std::string(name) + (nested ? "." + error.detail : ":" + error.detail));
}

struct JsonReadVisitor {
    const json::Value& json;
    ExtraMembers extra;
    std::size_t found = 0;
    Status status{};
    template <class T>
    void operator()(const char* name, T& value) {
        if (!status) return;
        const json::Value* member = json.find(name);
        if (member == nullptr) {
            status = fail("json.missing_field", name);
            return;
        }
        ++found;
        status = from_json(*member, value, extra);
        if (!status) status = at_field(name, status.error());
    }
};

struct JsonNameVisitor {
    std::string_view wanted;
    bool declared = false;
    template <class T>
    void operator()(const char* name, T&) {
        declared = declared || wanted == name;
    }
};

// Details of leaf errors start with a space, so that at_field can tell a path from a text.
[[nodiscard]] inline tl::unexpected<Error> leaf_error(const Error& error) {
    return detailed(error, std::string(" ").append(error.detail.empty() ? error.name : std::string_view(error.detail)));
}

}  // namespace detail

template <class T>
json::Value to_json(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value;
    } else if constexpr (std::is_enum_v<T>) {
        return static_cast<std::uint64_t>(value);
    } else if constexpr (std::unsigned_integral<T>) {
        return static_cast<std::uint64_t>(value);
    } else if constexpr (std::is_same_v<T, Uint256>) {
        return value.to_hex_quantity();
    } else if constexpr (FixedBytesField<T>) {
        return to_hex0x(value.view());
    } else if constexpr (std::is_same_v<T, Bytes>) {
        return to_hex0x(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
        return value;
    } else if constexpr (RecordVector<T>) {
        json::Array items;
        items.reserve(value.size());
        for (const auto& item : value) items.push_back(to_json(item));
        return items;
    } else {
        static_assert(Record<T>);
        detail::JsonWriteVisitor visitor;
        value.fields(visitor);
        return std::move(visitor.members);
    }
}

template <class T>
Status from_json(const json::Value& json, T& value, ExtraMembers extra) {
    if constexpr (RecordVector<T>) {
        const auto items = json.as_array();
        if (!items) return detail::leaf_error(items.error());
        if (items->size() > kMaxListItems)
            return fail("json.too_many_items", std::string(" ").append(std::to_string(items->size())));
        value.clear();
        value.reserve(items->size());
        for (std::size_t i = 0; i < items->size(); ++i) {
            typename T::value_type item{};
            if (auto status = from_json((*items)[i], item, extra); !status)
                return detail::at_field(std::to_string(i), status.error());
            value.push_back(std::move(item));
        }
        return {};
    } else if constexpr (Record<T>) {
        if (!json.is_object()) return detail::leaf_error(json.as_object().error());
        detail::JsonReadVisitor visitor{json, extra};
        value.fields(visitor);
        if (!visitor.status) return visitor.status;
        if (extra == ExtraMembers::refuse && visitor.found != json.size()) {
            for (const json::Member& member : json.members()) {
                detail::JsonNameVisitor name{member.key};
                value.fields(name);
                if (!name.declared) return fail("json.unknown_field", member.key);
            }
        }
        return {};
    } else {
        const auto read = [&]() -> Status {
            if constexpr (std::is_same_v<T, bool>) {
                QUERN_TRY(value, json.as_bool());
            } else if constexpr (std::is_enum_v<T> || std::unsigned_integral<T>) {
                QUERN_TRY(const std::uint64_t number, json.as_u64());
                std::uint64_t limit = 0;
                if constexpr (std::is_enum_v<T>)
                    limit = std::numeric_limits<std::underlying_type_t<T>>::max();
                else
                    limit = std::numeric_limits<T>::max();
                if (number > limit) return fail("json.out_of_range", std::to_string(number));
                value = static_cast<T>(number);
            } else if constexpr (std::is_same_v<T, Uint256>) {
                QUERN_TRY(value, uint256_from_json(json));
            } else if constexpr (std::is_same_v<T, std::string>) {
                QUERN_TRY(const std::string_view text, json.as_string());
                value = std::string(text);
            } else {
                QUERN_TRY(const std::string_view text, json.as_string());
                if (!text.starts_with("0x")) return fail("hex.bad_digit", "expected 0x and hexadecimal digits");
                if constexpr (std::is_same_v<T, Bytes>) {
                    QUERN_TRY(value, from_hex(text));
                } else {
                    static_assert(FixedBytesField<T>);
                    QUERN_TRY(value, fixed_from_hex<T::kSize>(text));
                }
            }
            return {};
        };
        auto status = read();
        if (!status) return detail::leaf_error(status.error());
        return {};
    }
}

template <Record T>
[[nodiscard]] Expected<T> record_from_json(const json::Value& json, ExtraMembers extra = ExtraMembers::ignore) {
    T record{};
    QUERN_CHECK(from_json(json, record, extra));
    return record;
}

}  // namespace quern::chain::types
