// The directory of a ZIP archive, looked at before any library reads the archive: how large its records become, what
// they are called. Used for TorchScript files. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::compute::program {

inline constexpr std::size_t kMaxZipRecords = 1U << 16;
inline constexpr std::size_t kMaxZipName = 1024;
// Of all records that are packed. Tensors are stored as they are.
inline constexpr std::uint64_t kMaxZipUnpacked = std::uint64_t{64} << 20;

struct ZipRecord {
    std::string name;
    std::uint64_t size = 0;  // unpacked
    bool packed = false;
};

// The records, in the directory's order (PKWARE's APPNOTE 6.3, sections 4.3.7, 4.3.12 to 4.3.16): one disk, no comment,
// no encryption, stored or deflated, nothing of 4 GiB. Errors: zip.not_zip (no directory, or one that does not fit the
// file, or two that do not agree), zip.too_many, zip.too_large (packed records that become more than they may, stored
// ones that lie over one another), zip.bad_name (no relative path of printable ASCII, or one with "..", or two of one
// name, in either case), zip.unsupported (a method, encryption).
[[nodiscard]] Expected<std::vector<ZipRecord>> read_zip_directory(BytesView file);

}  // namespace quern::compute::program
