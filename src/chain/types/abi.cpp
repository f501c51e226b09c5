#include "chain/types/abi.h"

#include <algorithm>
#include <map>

#include "base/json.h"
#include "crypto/hash.h"

namespace quern::chain::types::abi {
namespace {

constexpr std::array<std::uint8_t, 4> kErrorSelector{0x08, 0xc3, 0x79, 0xa0};  // Error(string)

struct ErrorArguments {
    std::string message;
    QUERN_FIELDS(v("message", message))
};

// The call of a payload with a version.
struct PayloadArgument {
    Bytes payload;
    QUERN_FIELDS(v("payload", payload))
};

// What a call's arguments are the fields of.
template <class Payload>
using ArgumentsOf = std::conditional_t<record::VersionedRecord<Payload>, PayloadArgument, Payload>;

struct ArgumentVisitor {
    std::vector<std::pair<std::string, std::string>> arguments;
    template <class T>
    void operator()(const char* name, T&) {
        arguments.emplace_back(detail::type_name<T>(), name);
    }
};

struct FunctionInfo {
    std::string signature;
    Selector selector;
};

const FunctionInfo& function_info(NativeKind kind) {
    static const std::map<NativeKind, FunctionInfo> infos = [] {
        std::map<NativeKind, FunctionInfo> result;
        for (const auto& info : native_kinds()) {
            FunctionInfo function;
            function.signature = std::string(info.function) + visit_kind(info.kind, [](auto, auto tag) {
                                     return type_list<ArgumentsOf<typename decltype(tag)::Payload>>();
                                 });
            function.selector = Selector::copy_of(signature_hash(function.signature).view().first(4));
            result.emplace(info.kind, std::move(function));
        }
        return result;
    }();
    return infos.at(kind);
}

}  // namespace

namespace detail {

void append_word(Bytes& out, const Hash32& word) { append(out, word); }

void append_number(Bytes& out, std::uint64_t number) { append_word(out, Uint256(number).to_be32()); }

void append_padded(Bytes& out, BytesView bytes) {
    append_number(out, bytes.size());
    append(out, bytes);
    out.resize(out.size() + (kWord - bytes.size() % kWord) % kWord);
}

Expected<Hash32> Reader::word() {
    if (block_.size() < head_ + kWord) return fail("abi.truncated");
    const auto word = Hash32::copy_of(block_.subspan(head_, kWord));
    head_ += kWord;
    return word;
}

Status Reader::enter_tail() {
    QUERN_TRY(const Hash32 offset, word());
    if (Uint256::from_be(offset) != Uint256(tail_)) return fail("abi.bad_offset");
    return {};
}

Expected<Hash32> Reader::tail_word() {
    if (block_.size() < tail_ || block_.size() - tail_ < kWord) return fail("abi.truncated");
    const auto word = Hash32::copy_of(block_.subspan(tail_, kWord));
    tail_ += kWord;
    return word;
}

Expected<std::size_t> Reader::tail_length() {
    QUERN_TRY(const Hash32 word, tail_word());
    const Uint256 length = Uint256::from_be(word);
    if (length > Uint256(block_.size() - tail_)) return fail("abi.bad_length");
    return static_cast<std::size_t>(length.low_u64());
}

Expected<BytesView> Reader::tail_bytes() {
    QUERN_TRY(const std::size_t length, tail_length());
    const std::size_t padded = (length + kWord - 1) / kWord * kWord;
    if (block_.size() - tail_ < padded) return fail("abi.truncated");
    const BytesView bytes = block_.subspan(tail_, length);
    const BytesView padding = block_.subspan(tail_ + length, padded - length);
    if (std::any_of(padding.begin(), padding.end(), [](std::uint8_t b) { return b != 0; }))
        return fail("abi.bad_padding");
    tail_ += padded;
    return bytes;
}

Status Reader::expect_end() const {
    if (block_.size() < tail_) return fail("abi.truncated");
    if (block_.size() > tail_) return fail("abi.trailing_bytes");
    return {};
}

}  // namespace detail

Hash32 signature_hash(std::string_view signature) { return crypto::keccak256(as_bytes(signature)); }

const std::string& function_signature(NativeKind kind) { return function_info(kind).signature; }

Selector selector(NativeKind kind) { return function_info(kind).selector; }

std::vector<std::pair<std::string, std::string>> function_arguments(NativeKind kind) {
    return visit_kind(kind, [](auto, auto tag) {
        ArgumentsOf<typename decltype(tag)::Payload> arguments{};
        ArgumentVisitor visitor;
        arguments.fields(visitor);
        return visitor.arguments;
    });
}

std::string interface_json() {
    auto functions = json::Value::array();
    for (const auto& info : native_kinds()) {
        auto inputs = json::Value::array();
        for (const auto& [type, name] : function_arguments(info.kind))
            inputs.push(json::Value::object({{"name", name}, {"type", type}}));
        functions.push(json::Value::object({{"type", "function"},
                                            {"name", info.function},
                                            {"stateMutability", "nonpayable"},
                                            {"inputs", std::move(inputs)},
                                            {"outputs", json::Value::array()}}));
    }
    return functions.dump();
}

Expected<Bytes> encode_call(NativeKind kind, BytesView payload) {
    return visit_kind(kind, [&](auto, auto tag) -> Expected<Bytes> {
        using Payload = typename decltype(tag)::Payload;
        QUERN_TRY(const auto record, decode_record<Payload>(payload));
        Bytes call = to_bytes(selector(kind));
        if constexpr (record::VersionedRecord<Payload>)
            append(call, encode_arguments(PayloadArgument{to_bytes(payload)}));
        else
            append(call, encode_arguments(record));
        return call;
    });
}

Expected<NativeCall> decode_call(KindGroup group, BytesView call_data) {
    if (call_data.size() < Selector::kSize) return fail("abi.unknown_function", "no selector");
    const auto wanted = Selector::copy_of(call_data.first(Selector::kSize));
    for (const auto& info : native_kinds()) {
        if (info.group != group || selector(info.kind) != wanted) continue;
        return visit_kind(info.kind, [&](auto, auto tag) -> Expected<NativeCall> {
            using Payload = typename decltype(tag)::Payload;
            QUERN_TRY(auto arguments, decode_arguments<ArgumentsOf<Payload>>(call_data.subspan(Selector::kSize)));
            if constexpr (record::VersionedRecord<Payload>)
                return NativeCall{info.kind, std::move(arguments.payload)};
            else
                return NativeCall{info.kind, encode_record(arguments)};
        });
    }
    return fail("abi.unknown_function", to_hex0x(wanted));
}

Bytes encode_error(std::string_view message) {
    Bytes data(kErrorSelector.begin(), kErrorSelector.end());
    append(data, encode_arguments(ErrorArguments{std::string(message)}));
    return data;
}

std::optional<std::string> decode_error(BytesView data) {
    if (data.size() < 4 || !equal(data.first(4), kErrorSelector)) return std::nullopt;
    auto arguments = decode_arguments<ErrorArguments>(data.subspan(4));
    if (!arguments) return std::nullopt;
    return std::move(arguments->message);
}

}  // namespace quern::chain::types::abi
