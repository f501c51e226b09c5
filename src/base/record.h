// Records: values that declare their fields once. A record says
//
//   struct Bid { std::uint64_t task = 0; Uint256 price; QUERN_FIELDS(v("task", task), v("price", price)) };
//
// and from this come its RLP form (here), and where a chain record needs them its Solidity ABI and JSON forms
// (chain/types/abi.h, json_codec.h). Wire messages, payloads and stored objects are records.
//
// RLP: a record is the list of its fields in order; a vector is a list; integers are canonical; decoding is strict.
// Field types: bool, std::uint8_t/16/32/64, Uint256, FixedBytes<N>, Bytes, std::string, enums (as their number),
// records, optional records (none is an empty list), and vectors of these. A third argument of v bounds the field, or
// says that it is embedded:
//
//   v("agent", agent, AtMost{64, "message.bad_text"})        items of a list or bytes of a string; the error's name
//   v("header", header, Embedded<HeaderCodec>{})             a string that holds what the codec encodes
//   v("proofs", proofs, EmbeddedList<ProofCodec>{64, "…"})   a list of such strings
//
// Whatever its bound a list holds kMaxListItems at most; a string without one is as long as its message allows. What a
// field list cannot say a record says in `Status check() const`, which decoding calls last. A record with `static
// constexpr bool kBare = true` has one field and is encoded as that field alone. The list of one with `static constexpr
// std::uint64_t kVersion` begins with that number, which is no field: ABI and JSON forms have none. Errors: rlp.*,
// rlp.list_too_long, rlp.integer_overflow, record.unknown_version, the bounds' and check's. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/rlp.h"

// Declares fields() for those who read a record and for those who write it.
#define QUERN_FIELDS(...)     \
    template <class V>        \
    void fields(V& v) {       \
        __VA_ARGS__;          \
    }                         \
    template <class V>        \
    void fields(V& v) const { \
        __VA_ARGS__;          \
    }

namespace quern {
inline namespace base {
namespace record {

inline constexpr std::size_t kMaxListItems = 1U << 16;  // whatever a list's own bound
inline constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

struct AtMost {
    std::size_t limit = kUnbounded;
    std::string_view error = "rlp.list_too_long";
};
// Codec: static Bytes encode(const T&), static Expected<T> decode(BytesView).
template <class Codec>
struct Embedded {};
template <class Codec>
struct EmbeddedList {
    std::size_t limit = kMaxListItems;
    std::string_view error = "rlp.list_too_long";
};

namespace detail {
struct AnyVisitor {
    template <class T>
    void operator()(const char*, T&) {}
    template <class T, class Bound>
    void operator()(const char*, T&, const Bound&) {}
};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::bool_constant<!std::is_same_v<T, std::uint8_t>> {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
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
concept OptionalRecord = detail::IsOptional<T>::value;
template <class T>
concept BareRecord = Record<T> && requires {
    requires T::kBare;
};
template <class T>
concept VersionedRecord = Record<T> && requires {
    { T::kVersion } -> std::convertible_to<std::uint64_t>;
};
template <class T>
concept CheckedRecord = Record<T> && requires(const T& record) {
    { record.check() } -> std::same_as<Status>;
};

template <class T>
void write_field(rlp::Writer& writer, const T& value);

namespace detail {
struct WriteVisitor {
    rlp::Writer& writer;
    template <class T>
    void operator()(const char*, const T& value) {
        write_field(writer, value);
    }
    template <class T>
    void operator()(const char*, const T& value, const AtMost&) {
        write_field(writer, value);
    }
    template <class T, class Codec>
    void operator()(const char*, const T& value, const Embedded<Codec>&) {
        writer.bytes(Codec::encode(value));
    }
    template <class T, class Codec>
    void operator()(const char*, const std::vector<T>& values, const EmbeddedList<Codec>&) {
        writer.begin_list();
        for (const auto& value : values) writer.bytes(Codec::encode(value));
        writer.end_list();
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
    } else if constexpr (OptionalRecord<T>) {
        if (value)
            write_field(writer, *value);
        else
            writer.begin_list().end_list();
    } else {
        static_assert(Record<T>);
        detail::WriteVisitor visitor{writer};
        if constexpr (BareRecord<T>) {
            value.fields(visitor);
        } else {
            writer.begin_list();
            if constexpr (VersionedRecord<T>) writer.integer(std::uint64_t{T::kVersion});
            value.fields(visitor);
            writer.end_list();
        }
    }
}

// The fields of a record whose list was entered, to its end, and its check.
template <Record T>
Status read_fields(rlp::Reader& items, T& value);
// `bound` is that of a list or a string; other fields have none.
template <class T>
Status read_field(rlp::Reader& reader, T& value, const AtMost& bound = {});

namespace detail {
struct ReadVisitor {
    rlp::Reader& reader;
    Status status;

    template <class T>
    void operator()(const char* name, T& value, const AtMost& bound = {}) {
        if (status) finish(name, read_field(reader, value, bound));
    }
    template <class T, class Codec>
    void operator()(const char* name, T& value, const Embedded<Codec>&) {
        if (status) finish(name, read_embedded<Codec>(reader, value));
    }
    template <class T, class Codec>
    void operator()(const char* name, std::vector<T>& values, const EmbeddedList<Codec>& bound) {
        if (status) finish(name, read_list<Codec>(values, bound));
    }

private:
    template <class Codec, class T>
    static Status read_embedded(rlp::Reader& from, T& value) {
        QUERN_TRY(const BytesView bytes, from.bytes());
        QUERN_TRY(value, Codec::decode(bytes));
        return {};
    }
    template <class Codec, class T>
    Status read_list(std::vector<T>& values, const EmbeddedList<Codec>& bound) {
        QUERN_TRY(rlp::Reader items, reader.list());
        values.clear();
        while (!items.at_end()) {
            if (values.size() == bound.limit) return fail(bound.error, "more than " + std::to_string(bound.limit));
            T value{};
            QUERN_CHECK(read_embedded<Codec>(items, value));
            values.push_back(std::move(value));
        }
        return {};
    }
    void finish(const char* name, Status read) {
        if (!read) status = detailed(read.error(), std::string("field ") + name + ": " + read.error().detail);
    }
};
}  // namespace detail

template <class T>
Status read_field(rlp::Reader& reader, T& value, const AtMost& bound) {
    if constexpr (std::is_same_v<T, bool>) {
        QUERN_TRY(value, reader.boolean());
    } else if constexpr (std::is_enum_v<T>) {
        QUERN_TRY(const std::uint64_t number, reader.u64());
        if (number > std::numeric_limits<std::underlying_type_t<T>>::max()) return fail("rlp.integer_overflow");
        value = static_cast<T>(number);  // that it is a known enumerator is checked by whoever uses it
    } else if constexpr (std::unsigned_integral<T>) {
        QUERN_TRY(const std::uint64_t number, reader.u64());
        if (number > std::numeric_limits<T>::max()) return fail("rlp.integer_overflow");
        value = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, Uint256>) {
        QUERN_TRY(value, reader.u256());
    } else if constexpr (FixedBytesField<T>) {
        QUERN_TRY(value, reader.template fixed<T::kSize>());
    } else if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, std::string>) {
        QUERN_TRY(const BytesView view, reader.bytes());
        if (view.size() > bound.limit) return fail(bound.error, "longer than " + std::to_string(bound.limit));
        if constexpr (std::is_same_v<T, Bytes>)
            value = to_bytes(view);
        else
            value = std::string(as_text(view));
    } else if constexpr (RecordVector<T>) {
        const std::size_t limit = std::min(bound.limit, kMaxListItems);
        QUERN_TRY(rlp::Reader items, reader.list());
        value.clear();
        while (!items.at_end()) {  // nothing is reserved by what a length claims
            if (value.size() == limit) return fail(bound.error, "more than " + std::to_string(limit));
            typename T::value_type item{};
            QUERN_CHECK(read_field(items, item));
            value.push_back(std::move(item));
        }
    } else if constexpr (OptionalRecord<T>) {
        QUERN_TRY(rlp::Reader items, reader.list());
        value.reset();
        if (items.at_end()) return {};
        return read_fields(items, value.emplace());
    } else {
        static_assert(Record<T>);
        if constexpr (BareRecord<T>) {
            detail::ReadVisitor visitor{reader, {}};
            value.fields(visitor);
            QUERN_CHECK(visitor.status);
            if constexpr (CheckedRecord<T>) return value.check();
        } else {
            QUERN_TRY(rlp::Reader items, reader.list());
            return read_fields(items, value);
        }
    }
    return {};
}

template <Record T>
Status read_fields(rlp::Reader& items, T& value) {
    if constexpr (VersionedRecord<T>) {
        QUERN_TRY(const std::uint64_t version, items.u64());
        if (version != T::kVersion) return fail("record.unknown_version", std::to_string(version));
    }
    detail::ReadVisitor visitor{items, {}};
    value.fields(visitor);
    QUERN_CHECK(visitor.status);
    QUERN_CHECK(items.expect_end());
    if constexpr (CheckedRecord<T>) return value.check();
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

}  // namespace record
}  // namespace base
}  // namespace quern
