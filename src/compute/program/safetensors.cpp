#include "compute/program/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

#include "base/json.h"
#include "compute/program/readable.h"

namespace quern::compute::program {

using vm::tensor::DType;
using vm::tensor::Shape;
using vm::tensor::Tensor;

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

std::vector<std::uint32_t> read_words(BytesView bytes) {
    std::vector<std::uint32_t> words(bytes.size() / 4);
    if constexpr (std::endian::native == std::endian::little) {
        if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
    } else {
        for (std::size_t i = 0; i < bytes.size(); ++i) words[i / 4] |= std::uint32_t{bytes[i]} << (8 * (i % 4));
    }
    return words;
}

std::uint64_t read_u64(BytesView bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

Status check_name(std::string_view name) {
    if (name.empty() || name.size() > kMaxSafetensorsName || name == kMetadataKey)
        return fail("safetensors.bad_name", readable(name));
    if (has_controls(name)) return fail("safetensors.bad_name", readable(name) + " has control characters");
    return {};
}

struct Entry {
    std::string_view name;
    DType dtype;
    Shape shape;
    std::uint64_t begin;
    std::uint64_t end;
};

Expected<DType> parse_dtype(std::string_view name, std::string_view text) {
    if (text == "F32") return DType::f32;
    if (text == "I32") return DType::i32;
    return fail("safetensors.unsupported_dtype", std::string(name) + " is " + readable(text, 16));
}

Expected<Shape> parse_shape(std::string_view name, std::span<const json::Value> dims) {
    const auto bad = [&] { return fail("safetensors.bad_shape", std::string(name)); };
    if (dims.size() > 4) return bad();
    Shape shape;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const auto dim = dims[d].as_u64();
        if (!dim || *dim == 0 || *dim > 0xffffffff) return bad();
        shape.dims[4 - dims.size() + d] = static_cast<std::uint32_t>(*dim);
    }
    if (!shape.validate()) return bad();
    return shape;
}

Expected<Entry> parse_entry(const json::Member& member, std::uint64_t data_size) {
    const auto bad = [&] { return fail("safetensors.bad_entry", member.key.substr(0, 64)); };
    QUERN_CHECK(check_name(member.key));
    const auto dtype_text = member.value.get_string("dtype");
    const auto dims = member.value.get_array("shape");
    const auto offsets = member.value.get_array("data_offsets");
    if (!dtype_text || !dims || !offsets || member.value.size() != 3 || offsets->size() != 2) return bad();
    const auto begin = (*offsets)[0].as_u64();
    const auto end = (*offsets)[1].as_u64();
    if (!begin || !end || *begin > *end) return bad();
    if (*end > data_size) return fail("safetensors.truncated", member.key.substr(0, 64) + " ends beyond the file");
    QUERN_TRY(const DType dtype, parse_dtype(member.key, *dtype_text));
    QUERN_TRY(const Shape shape, parse_shape(member.key, *dims));
    if (shape.elements() * 4 != *end - *begin) return fail("safetensors.wrong_size", member.key.substr(0, 64));
    return Entry{member.key, dtype, shape, *begin, *end};
}

Expected<Metadata> parse_metadata(const json::Value& value) {
    const auto members = value.as_object();
    if (!members) return fail("safetensors.bad_metadata", "no object");
    Metadata metadata;
    for (const json::Member& member : *members) {
        const auto text = member.value.as_string();
        if (!text) return fail("safetensors.bad_metadata", readable(member.key));
        metadata.emplace_back(member.key, std::string(*text));
    }
    return metadata;
}

Expected<json::Value> parse_header(BytesView bytes) {
    if (bytes.empty() || bytes.front() != '{') return fail("safetensors.bad_header", "does not start with '{'");
    auto header = json::parse(as_text(bytes), {kMaxSafetensorsHeader, 4});
    if (!header)
        return fail(
            header.error().name == "json.duplicate_key" ? "safetensors.duplicate_name" : "safetensors.bad_header",
            header.error().to_string());
    if (!header->is_object()) return fail("safetensors.bad_header", "no object");
    return std::move(*header);
}

}  // namespace

const Tensor* Safetensors::find(std::string_view name) const {
    for (const NamedTensor& entry : tensors)
        if (entry.name == name) return &entry.tensor;
    return nullptr;
}

const std::string* find_metadata(const Metadata& metadata, std::string_view key) {
    for (const auto& [name, text] : metadata)
        if (name == key) return &text;
    return nullptr;
}

void copy_words(std::span<const std::uint32_t> words, std::size_t begin, std::span<std::uint8_t> bytes) {
    if constexpr (std::endian::native == std::endian::little) {
        if (!bytes.empty())
            std::memcpy(bytes.data(), reinterpret_cast<const std::uint8_t*>(words.data()) + begin, bytes.size());
    } else {
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<std::uint8_t>(words[(begin + i) / 4] >> 8 * ((begin + i) % 4));
    }
}

Expected<Bytes> write_safetensors(std::span<const TensorView> tensors, const Metadata& metadata) {
    QUERN_TRY(Bytes file, safetensors_header(tensors, metadata));
    std::size_t end = file.size();
    std::size_t size = end;
    for (const TensorView& view : tensors) size += view.tensor->words.size() * 4;
    file.resize(size);
    for (const TensorView& view : tensors) {
        const std::size_t bytes = view.tensor->words.size() * 4;
        copy_words(view.tensor->words, 0, std::span(file).subspan(end, bytes));
        end += bytes;
    }
    return file;
}

Expected<Bytes> safetensors_header(std::span<const TensorView> tensors, const Metadata& metadata) {
    if (tensors.size() > kMaxSafetensorsTensors) return fail("safetensors.too_many_tensors");
    json::Object header;
    if (!metadata.empty()) {
        json::Object pairs;
        std::set<std::string_view> keys;
        for (const auto& [key, text] : metadata) {
            if (!keys.insert(key).second) return fail("safetensors.duplicate_name", key);
            pairs.push_back({key, text});
        }
        header.push_back({std::string(kMetadataKey), std::move(pairs)});
    }
    std::set<std::string_view> names;
    std::uint64_t offset = 0;
    for (const TensorView& view : tensors) {
        QUERN_CHECK(check_name(view.name));
        if (!names.insert(view.name).second) return fail("safetensors.duplicate_name", std::string(view.name));
        const Shape& shape = view.tensor->shape;
        std::size_t first = 0;
        while (view.squeeze && first < 3 && shape.dims[first] == 1) ++first;
        json::Array dims;
        for (std::size_t d = first; d < 4; ++d) dims.emplace_back(shape.dims[d]);
        const std::uint64_t end = offset + std::uint64_t{view.tensor->words.size()} * 4;
        json::Object entry;
        entry.push_back({"dtype", view.tensor->dtype == DType::f32 ? "F32" : "I32"});
        entry.push_back({"shape", std::move(dims)});
        entry.push_back({"data_offsets", json::Array{offset, end}});
        header.push_back({std::string(view.name), std::move(entry)});
        offset = end;
    }
    std::string text = json::Value(std::move(header)).dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    if (text.size() > kMaxSafetensorsHeader) return fail("safetensors.header_too_large");
    Bytes file;
    file.reserve(8 + text.size());
    for (unsigned shift = 0; shift < 64; shift += 8)
        file.push_back(static_cast<std::uint8_t>(std::uint64_t{text.size()} >> shift));
    append(file, as_bytes(text));
    return file;
}

Expected<Safetensors> read_safetensors(BytesView file) {
    if (file.size() < 8) return fail("safetensors.truncated", "shorter than a header length");
    const std::uint64_t header_size = read_u64(file);
    if (header_size > kMaxSafetensorsHeader) return fail("safetensors.header_too_large", std::to_string(header_size));
    if (header_size > file.size() - 8) return fail("safetensors.truncated", "the header ends beyond the file");
    QUERN_TRY(const json::Value header, parse_header(file.subspan(8, header_size)));
    const BytesView data = file.subspan(8 + header_size);

    Safetensors result;
    std::vector<Entry> entries;
    QUERN_TRY(const auto members, header.as_object());
    if (members.size() > kMaxSafetensorsTensors) return fail("safetensors.too_many_tensors");
    for (const json::Member& member : members) {
        if (member.key == kMetadataKey) {
            QUERN_TRY(result.metadata, parse_metadata(member.value));
            continue;
        }
        QUERN_TRY(const Entry entry, parse_entry(member, data.size()));
        entries.push_back(entry);
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
    std::uint64_t covered = 0;
    for (const Entry& entry : entries) {
        if (entry.begin < covered) return fail("safetensors.overlap", std::string(entry.name));
        if (entry.begin > covered) return fail("safetensors.gap", std::string(entry.name));
        covered = entry.end;
    }
    if (covered != data.size())
        return fail("safetensors.trailing_data", std::to_string(data.size() - covered) + " bytes");
    for (const Entry& entry : entries)
        result.tensors.push_back(
            {std::string(entry.name),
             Tensor{entry.dtype, entry.shape, read_words(data.subspan(entry.begin, entry.end - entry.begin))}});
    return result;
}

}  // namespace quern::compute::program
