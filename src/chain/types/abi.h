// The Solidity contract ABI of records: encoding, strict decoding, signatures and selectors, generated from field
// lists. Used for native kinds called through their reserved addresses, for events, and by clients. A payload with a
// version (base/record.h) is one argument `bytes payload`, its RLP, so that a new field is no new selector; of others
// the fields are the call's arguments in order: bool; unsigned integers as uintN; enums as uint8; Uint256 as uint256;
// Address as address; 32 bytes as bytes32; Bytes as bytes; string; vectors of these as T[]. Specification:
// https://docs.soliditylang.org/en/latest/abi-spec.html. Pure; thread-safe.
//
// Decoding accepts exactly what the encoder produces: dynamic parts in order without gaps, zero padding, nothing
// behind. Errors: abi.truncated, abi.bad_offset, abi.bad_length, abi.bad_padding, abi.value_out_of_range,
// abi.trailing_bytes, abi.unknown_function.
#pragma once

#include "chain/types/native_kinds.h"
#include "chain/types/receipt.h"

namespace quern::chain::types::abi {

inline constexpr std::size_t kWord = 32;
using Selector = FixedBytes<4>;

namespace detail {

template <class T>
inline constexpr bool kIsDynamic = std::is_same_v<T, Bytes> || std::is_same_v<T, std::string> || RecordVector<T>;

template <class T>
[[nodiscard]] std::string type_name() {
    if constexpr (std::is_same_v<T, bool>) {
        return "bool";
    } else if constexpr (std::is_enum_v<T>) {
        return type_name<std::underlying_type_t<T>>();
    } else if constexpr (std::unsigned_integral<T>) {
        return "uint" + std::to_string(8 * sizeof(T));
    } else if constexpr (std::is_same_v<T, Uint256>) {
        return "uint256";
    } else if constexpr (std::is_same_v<T, Address>) {
        return "address";
    } else if constexpr (std::is_same_v<T, Hash32>) {
        return "bytes32";
    } else if constexpr (std::is_same_v<T, Bytes>) {
        return "bytes";
    } else if constexpr (std::is_same_v<T, std::string>) {
        return "string";
    } else {
        static_assert(RecordVector<T>);
        return type_name<typename T::value_type>() + "[]";
    }
}

template <class T>
[[nodiscard]] Hash32 static_word(const T& value) {
    if constexpr (std::is_enum_v<T> || std::unsigned_integral<T>) {  // bool included
        return Uint256(static_cast<std::uint64_t>(value)).to_be32();
    } else if constexpr (std::is_same_v<T, Uint256>) {
        return value.to_be32();
    } else if constexpr (std::is_same_v<T, Address>) {
        Hash32 word;
        std::copy(value.data.begin(), value.data.end(), word.data.begin() + 12);
        return word;
    } else {
        static_assert(std::is_same_v<T, Hash32>);
        return value;
    }
}

void append_word(Bytes& out, const Hash32& word);
void append_number(Bytes& out, std::uint64_t number);
void append_padded(Bytes& out, BytesView bytes);  // length, bytes, zeros up to a word

template <class T>
void append_tail(Bytes& out, const T& value) {
    if constexpr (std::is_same_v<T, Bytes>) {
        append_padded(out, value);
    } else if constexpr (std::is_same_v<T, std::string>) {
        append_padded(out, as_bytes(value));
    } else {
        append_number(out, value.size());
        if constexpr (kIsDynamic<typename T::value_type>) {
            Bytes tails;
            for (const auto& item : value) {
                append_number(out, kWord * value.size() + tails.size());
                append_tail(tails, item);
            }
            append(out, tails);
        } else {
            for (const auto& item : value) append_word(out, static_word(item));
        }
    }
}

struct CountVisitor {
    std::size_t count = 0;
    template <class T>
    void operator()(const char*, T&) {
        ++count;
    }
};
struct TypeVisitor {
    std::string list;
    template <class T>
    void operator()(const char*, T&) {
        if (!list.empty()) list += ',';
        list += type_name<T>();
    }
};
// Fields before `first` are skipped: they are an event's topics.
struct EncodeVisitor {
    std::size_t head_size;
    std::size_t first = 0;
    Bytes head;
    Bytes tail;
    std::size_t index = 0;
    template <class T>
    void operator()(const char*, const T& value) {
        if (index++ < first) return;
        if constexpr (kIsDynamic<T>) {
            append_number(head, head_size + tail.size());
            append_tail(tail, value);
        } else {
            append_word(head, static_word(value));
        }
    }
};
struct TopicVisitor {
    std::size_t count;
    std::vector<Hash32>& topics;
    std::size_t index = 0;
    template <class T>
    void operator()(const char*, const T& value) {
        if (index++ >= count) return;
        if constexpr (!kIsDynamic<T>) topics.push_back(static_word(value));
    }
};

// Reads words and dynamic parts of one head-and-tail block; `tail` is where the next dynamic part must start.
class Reader {
public:
    Reader(BytesView block, std::size_t head_words) : block_(block), tail_(kWord * head_words) {}
    [[nodiscard]] Expected<Hash32> word();
    // Checks that the next head word points at the next free place of the tail.
    [[nodiscard]] Status enter_tail();
    // The word at the tail's position, as a number that is at most what is left behind it.
    [[nodiscard]] Expected<std::size_t> tail_length();
    [[nodiscard]] Expected<BytesView> tail_bytes();  // a padded byte string at the tail's position
    [[nodiscard]] Expected<Hash32> tail_word();
    [[nodiscard]] BytesView tail_rest() const { return block_.subspan(tail_); }
    void skip_tail(std::size_t bytes) { tail_ += bytes; }
    [[nodiscard]] std::size_t tail_position() const { return tail_; }
    [[nodiscard]] Status expect_end() const;

private:
    BytesView block_;
    std::size_t head_ = 0;
    std::size_t tail_;
};

template <class T>
[[nodiscard]] Status word_to(const Hash32& word, T& value) {
    if constexpr (std::is_same_v<T, Hash32>) {
        value = word;
    } else if constexpr (std::is_same_v<T, Uint256>) {
        value = Uint256::from_be(word);
    } else if constexpr (std::is_same_v<T, Address>) {
        for (std::size_t i = 0; i < 12; ++i)
            if (word.data[i] != 0) return fail("abi.value_out_of_range", "address");
        value = Address::copy_of(word.view().subspan(12));
    } else {
        const Uint256 number = Uint256::from_be(word);
        std::uint64_t limit = 1;  // bool
        if constexpr (std::is_enum_v<T>) {
            limit = std::numeric_limits<std::underlying_type_t<T>>::max();
        } else if constexpr (!std::is_same_v<T, bool>) {
            limit = std::numeric_limits<T>::max();
        }
        if (number > Uint256(limit)) return fail("abi.value_out_of_range", type_name<T>());
        value = static_cast<T>(number.low_u64());
    }
    return {};
}

template <class T>
[[nodiscard]] Status read_tail(Reader& reader, T& value) {
    if constexpr (std::is_same_v<T, Bytes>) {
        QUERN_TRY(const BytesView view, reader.tail_bytes());
        value = to_bytes(view);
    } else if constexpr (std::is_same_v<T, std::string>) {
        QUERN_TRY(const BytesView view, reader.tail_bytes());
        value = std::string(as_text(view));
    } else {
        QUERN_TRY(const std::size_t count, reader.tail_length());
        if (count > kMaxListItems) return fail("abi.bad_length", "too many items");
        if (reader.tail_rest().size() / kWord < count) return fail("abi.truncated");
        value.clear();
        if constexpr (kIsDynamic<typename T::value_type>) {
            Reader items(reader.tail_rest(), count);
            for (std::size_t i = 0; i < count; ++i) {
                QUERN_CHECK(items.enter_tail());
                typename T::value_type item{};
                QUERN_CHECK(read_tail(items, item));
                value.push_back(std::move(item));
            }
            reader.skip_tail(items.tail_position());
        } else {
            for (std::size_t i = 0; i < count; ++i) {
                QUERN_TRY(const Hash32 word, reader.tail_word());
                typename T::value_type item{};
                QUERN_CHECK(word_to(word, item));
                value.push_back(std::move(item));
            }
        }
    }
    return {};
}

struct DecodeVisitor {
    Reader& reader;
    Status status;
    template <class T>
    void operator()(const char* name, T& value) {
        if (!status) return;
        status = read(value);
        if (!status) status = detailed(status.error(), std::string("argument ") + name + " " + status.error().detail);
    }

private:
    template <class T>
    Status read(T& value) {
        if constexpr (kIsDynamic<T>) {
            QUERN_CHECK(reader.enter_tail());
            return read_tail(reader, value);
        } else {
            QUERN_TRY(const Hash32 word, reader.word());
            return word_to(word, value);
        }
    }
};

template <Record T>
[[nodiscard]] std::size_t field_count() {
    T record{};
    CountVisitor visitor;
    record.fields(visitor);
    return visitor.count;
}

}  // namespace detail

// "(uint64,bytes32)"
template <Record T>
[[nodiscard]] std::string type_list() {
    T record{};
    detail::TypeVisitor visitor;
    record.fields(visitor);
    return "(" + visitor.list + ")";
}

// The arguments of a call; fields before `first` are left out.
template <Record T>
[[nodiscard]] Bytes encode_arguments(const T& record, std::size_t first = 0) {
    detail::EncodeVisitor visitor{kWord * (detail::field_count<T>() - first), first, {}, {}};
    record.fields(visitor);
    append(visitor.head, visitor.tail);
    return std::move(visitor.head);
}

template <Record T>
[[nodiscard]] Expected<T> decode_arguments(BytesView bytes) {
    detail::Reader reader(bytes, detail::field_count<T>());
    T record{};
    detail::DecodeVisitor visitor{reader, {}};
    record.fields(visitor);
    if (!visitor.status) return fail(visitor.status.error());
    QUERN_CHECK(reader.expect_end());
    return record;
}

// An event is a record with kEvent (its name) and kIndexed (how many leading fields are topics, all of static types).
template <Record T>
[[nodiscard]] std::string event_signature() {
    return std::string(T::kEvent) + type_list<T>();
}
[[nodiscard]] Hash32 signature_hash(std::string_view signature);
template <Record T>
[[nodiscard]] Log event_log(const Address& from, const T& event) {
    static const Hash32 signature = signature_hash(event_signature<T>());
    Log log;
    log.address = from;
    log.topics.push_back(signature);
    detail::TopicVisitor topics{T::kIndexed, log.topics};
    event.fields(topics);
    log.data = encode_arguments(event, T::kIndexed);
    return log;
}

// --- Native kinds ----------------------------------------------------------------------------------------------------
[[nodiscard]] const std::string& function_signature(NativeKind kind);  // "bond(uint8,uint256)"
[[nodiscard]] Selector selector(NativeKind kind);
// The argument names in order, for interface descriptions.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> function_arguments(NativeKind kind);  // {type, name}
[[nodiscard]] std::string interface_json();  // the ABI of all functions, as tools read it

// Call data <-> the RLP payload of a type 0x51 transaction. decode_call gives a payload that is the argument as it is:
// who runs it decodes it.
[[nodiscard]] Expected<Bytes> encode_call(NativeKind kind, BytesView payload);
struct NativeCall {
    NativeKind kind = NativeKind::tick;
    Bytes payload;  // RLP
};
[[nodiscard]] Expected<NativeCall> decode_call(KindGroup group, BytesView call_data);

// Revert data Error(string), and its text when `data` is such.
[[nodiscard]] Bytes encode_error(std::string_view message);
[[nodiscard]] std::optional<std::string> decode_error(BytesView data);

}  // namespace quern::chain::types::abi
