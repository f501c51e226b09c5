// Field lists. A record (a native payload or a native object) declares its fields once:
//
//   struct Bid { std::uint64_t task = 0; Uint256 price; template <class V> void fields(V& v) { v("task", task);
//   v("price", price); } };
//
// From this come its RLP form (here), its Solidity ABI form (abi.h, payloads only) and its JSON form (json_codec.h).
// RLP: a record is the list of its fields in order; a vector is a list; integers are canonical; decoding is strict and
// bounded by kMaxListItems. Field types: bool, std::uint8_t/16/32/64, Uint256, FixedBytes<N>, Bytes, std::string, enums
// (as their number), records, and vectors of these. Pure; thread-safe.
#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/rlp.h"

namespace quern::chain::types {

inline constexpr std::size_t kMaxListItems = 1U << 16;

namespace detail {
struct AnyVisitor {
    template <class T>
    void operator()(const char*, T&) {}
};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::bool_constant<!std::is_same_v<T, std::uint8_t>> {};
template <class T>
struct IsFixedBytes : std::false_type {};
template <std::size_t N>
struct IsFixedBytes<FixedBytes<N>> : std::true_type {};
}  // namespace detail

template <class T>
concept Record = requires(T& record, detail::AnyVisitor& visitor) {
    record.fields(visitor);
};
template <class T>
concept RecordVector = detail::IsVector<T>::value;
template <class T>
concept FixedBytesField = detail::IsFixedBytes<T>::value;

template <class T>
void write_field(rlp::Writer& writer, const T& value);

namespace detail {
struct RlpWriteVisitor {
    rlp::Writer& writer;
    template <class T>
    void operator()(const char*, const T& value) {
        write_field(writer, value);
    }
};
}  // namespace detail

template <class T>
void write_field(rlp::Writer& writer, const T& value) {
    if constexpr (std::is_enum_v<T>) {
        writer.integer(static_cast<std::uint64_t>(value));
    } else if constexpr (std::unsigned_integral<T>) {  // bool included
        writer.integer(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_same_v<T, Uint256>) {
        writer.integer(value);
    } else if constexpr (FixedBytesField<T>) {
        writer.bytes(value.view());
    } else if constexpr (std::is_same_v<T, Bytes>) {
        writer.bytes(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
        writer.bytes(as_bytes(value));
    } else if constexpr (RecordVector<T>) {
        writer.begin_list();
        for (const auto& item : value) write_field(writer, item);
        writer.end_list();
    } else {
        static_assert(Record<T>);
        writer.begin_list();
        detail::RlpWriteVisitor visitor{writer};
        const_cast<T&>(value).fields(visitor);  // fields() is shared by readers and writers; writers only look
        writer.end_list();
    }
}

template <class T>
Status read_field(rlp::Reader& reader, T& value);

namespace detail {
struct RlpReadVisitor {
    rlp::Reader& reader;
    Status status;
    template <class T>
    void operator()(const char* name, T& value) {
        if (!status) return;
        status = read_field(reader, value);
        if (!status) status = detailed(status.error(), std::string("field ") + name + ": " + status.error().detail);
    }
};
}  // namespace detail

template <class T>
Status read_field(rlp::Reader& reader, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        QUERN_TRY(value, reader.boolean());
    } else if constexpr (std::is_enum_v<T>) {
        QUERN_TRY(const std::uint64_t number, reader.u64());
        if (number > std::numeric_limits<std::underlying_type_t<T>>::max()) return fail("rlp.integer_overflow");
        value = static_cast<T>(number);  // handlers check that it is a known enumerator
    } else if constexpr (std::unsigned_integral<T>) {
        QUERN_TRY(const std::uint64_t number, reader.u64());
        if (number > std::numeric_limits<T>::max()) return fail("rlp.integer_overflow");
        value = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, Uint256>) {
        QUERN_TRY(value, reader.u256());
    } else if constexpr (FixedBytesField<T>) {
        QUERN_TRY(value, reader.template fixed<T::kSize>());
    } else if constexpr (std::is_same_v<T, Bytes>) {
        QUERN_TRY(const BytesView view, reader.bytes());
        value = to_bytes(view);
    } else if constexpr (std::is_same_v<T, std::string>) {
        QUERN_TRY(const BytesView view, reader.bytes());
        value = std::string(as_text(view));
    } else if constexpr (RecordVector<T>) {
        QUERN_TRY(rlp::Reader items, reader.list());
        value.clear();
        while (!items.at_end()) {
            if (value.size() == kMaxListItems) return fail("rlp.list_too_long");
            typename T::value_type item{};
            QUERN_CHECK(read_field(items, item));
            value.push_back(std::move(item));
        }
    } else {
        static_assert(Record<T>);
        QUERN_TRY(rlp::Reader items, reader.list());
        detail::RlpReadVisitor visitor{items, {}};
        value.fields(visitor);
        if (!visitor.status) return visitor.status;
        return items.expect_end();
    }
    return {};
}

template <Record T>
[[nodiscard]] Bytes encode_record(const T& record) {
    rlp::Writer writer;
    write_field(writer, record);
    return std::move(writer).finish();
}

template <Record T>
[[nodiscard]] Expected<T> decode_record(BytesView bytes) {
    rlp::Reader reader(bytes);
    T record{};
    QUERN_CHECK(read_field(reader, record));
    QUERN_CHECK(reader.expect_end());
    return record;
}

}  // namespace quern::chain::types
