#include "compute/program/zip_directory.h"

#include <set>
#include <string_view>
#include <utility>

namespace quern::compute::program {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kCentral = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::uint32_t kIn64 = 0xffffffff;

std::uint64_t number(BytesView file, std::size_t at, std::size_t bytes) {
    std::uint64_t result = 0;
    for (std::size_t i = 0; i < bytes; ++i) result |= std::uint64_t{file[at + i]} << (8 * i);
    return result;
}
std::uint32_t u16(BytesView file, std::size_t at) { return static_cast<std::uint32_t>(number(file, at, 2)); }
std::uint32_t u32(BytesView file, std::size_t at) { return static_cast<std::uint32_t>(number(file, at, 4)); }

struct Directory {
    std::uint64_t records = 0;
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
};

// Readers prefer the directory's place in 64 bits where there is one: it must say the same.
Status check_end64(BytesView file, std::size_t end, const Directory& directory) {
    if (end < kLocatorBytes || u32(file, end - kLocatorBytes) != kLocator64) return {};
    const std::uint64_t at = number(file, end - kLocatorBytes + 8, 8);
    const std::uint64_t behind = directory.begin + directory.size;
    if (at != behind || at > end || end - at != kEnd64Bytes + kLocatorBytes || u32(file, at) != kEnd64 ||
        u32(file, at + 16) != 0 || u32(file, at + 20) != 0 || number(file, at + 24, 8) != directory.records ||
        number(file, at + 32, 8) != directory.records || number(file, at + 40, 8) != directory.size ||
        number(file, at + 48, 8) != directory.begin)
        return fail("zip.not_zip", "two directories that do not agree");
    return {};
}

Status check_name(std::string_view name) {
    const auto bad = [&](std::string_view why) { return fail("zip.bad_name", "a record's name " + std::string(why)); };
    if (name.empty() || name.size() > kMaxZipName) return bad("of " + std::to_string(name.size()) + " bytes");
    for (const char c : name)
        if (c < 0x20 || c > 0x7e || c == '\\' || c == ':')
            return bad("with a byte that is no printable ASCII, \\ or :");
    if (name.front() == '/') return bad("that begins with /");
    while (!name.empty()) {
        const std::size_t slash = name.find('/');
        if (name.substr(0, slash) == "..") return bad("with ..");
        name.remove_prefix(slash == std::string_view::npos ? name.size() : slash + 1);
    }
    return {};
}

// Readers find a record by its name in either case.
std::string in_lower_case(std::string name) {
    for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return name;
}

}  // namespace

Expected<std::vector<ZipRecord>> read_zip_directory(BytesView file) {
    if (file.size() < kEndBytes) return fail("zip.not_zip", std::to_string(file.size()) + " bytes");
    const std::size_t end = file.size() - kEndBytes;
    if (u32(file, end) != kEnd || u16(file, end + 20) != 0) return fail("zip.not_zip", "it ends without a directory");
    const Directory directory{u16(file, end + 10), u32(file, end + 16), u32(file, end + 12)};
    if (u16(file, end + 4) != 0 || u16(file, end + 6) != 0 || u16(file, end + 8) != directory.records ||
        directory.begin > end || directory.size > end - directory.begin)
        return fail("zip.not_zip", "a directory that does not fit the file");
    if (directory.records >= kMaxZipRecords - 1) return fail("zip.too_many", "records");
    QUERN_CHECK(check_end64(file, end, directory));
    std::vector<ZipRecord> records;
    std::set<std::string> names;
    std::uint64_t unpacked = 0;
    std::uint64_t stored = 0;
    std::uint64_t at = directory.begin;
    const std::uint64_t behind = directory.begin + directory.size;
    for (std::uint64_t i = 0; i < directory.records; ++i) {
        if (behind - at < kCentralBytes || u32(file, at) != kCentral)
            return fail("zip.not_zip", "a directory that is cut");
        const std::uint32_t flags = u16(file, at + 8);
        const std::uint32_t method = u16(file, at + 10);
        const std::uint64_t packed_size = u32(file, at + 20);
        const std::uint64_t size = u32(file, at + 24);
        const std::uint64_t name_size = u16(file, at + 28);
        const std::uint64_t rest = name_size + u16(file, at + 30) + u16(file, at + 32);
        const std::uint64_t local = u32(file, at + 42);
        if (behind - at - kCentralBytes < rest) return fail("zip.not_zip", "a directory that is cut");
        ZipRecord record;
        record.name.assign(file.begin() + static_cast<std::ptrdiff_t>(at + kCentralBytes),
                           file.begin() + static_cast<std::ptrdiff_t>(at + kCentralBytes + name_size));
        record.size = size;
        record.packed = method != 0;
        QUERN_CHECK(check_name(record.name));
        if (!names.insert(in_lower_case(record.name)).second)
            return fail("zip.bad_name", "two records of one name, or of names that differ in case alone");
        if ((method != 0 && method != 8) || (flags & 1) != 0)
            return fail("zip.unsupported", record.name + ": encrypted, or packed by another method than deflate");
        if (packed_size == kIn64 || size == kIn64 || local == kIn64)
            return fail("zip.unsupported", record.name + ": 4 GiB or more");
        if (local > directory.begin || directory.begin - local < kLocalBytes || u32(file, local) != kLocal ||
            packed_size > directory.begin - local - kLocalBytes || (!record.packed && size != packed_size))
            return fail("zip.not_zip", record.name + " does not lie in the file");
        if (record.packed)
            unpacked += size;
        else
            stored += size;
        if (unpacked > kMaxZipUnpacked || stored > file.size())
            return fail("zip.too_large",
                        record.name + " and those before it become " + std::to_string(unpacked + stored) + " bytes");
        records.push_back(std::move(record));
        at += kCentralBytes + rest;
    }
    if (at != behind) return fail("zip.not_zip", "a directory with more than its records");
    return records;
}

}  // namespace quern::compute::program
