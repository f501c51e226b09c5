// Files: bounded reads, writes that survive power loss, directory locks. Errors are values that carry the path and
// errno's text. Functions are thread-safe (two writers of one path: the last rename wins).
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern {
inline namespace base {
namespace fs {

// Instead of fs.write_failed and fs.create_directory_failed, where the disk, a quota of the system's or the largest
// file that it allows is what refuses: `is_disk_full` of errno.
inline constexpr std::string_view kDiskFull = "fs.disk_full";
[[nodiscard]] bool is_disk_full(int code);

// The whole file. Errors: fs.not_found, fs.cannot_open, fs.too_large (more than max_bytes; not read), fs.read_failed.
[[nodiscard]] Expected<Bytes> read_file(const std::string& path, std::size_t max_bytes);
[[nodiscard]] Expected<std::string> read_text_file(const std::string& path, std::size_t max_bytes);

// Writes a temporary file beside `path`, syncs it, renames it over `path` and syncs the directory: after a crash the
// path holds the old content or the new, whole. `mode` is the new file's permissions. Errors: fs.write_failed,
// fs.disk_full.
[[nodiscard]] Status write_file_atomic(const std::string& path, BytesView content, unsigned mode = 0644);
// For secrets: mode 0600.
[[nodiscard]] Status write_secret_file(const std::string& path, BytesView content);

[[nodiscard]] bool exists(const std::string& path);
// Size in bytes. Errors: fs.not_found, fs.read_failed.
[[nodiscard]] Expected<std::uint64_t> file_size(const std::string& path);
// With parents; no error when it is there already. Errors: fs.create_directory_failed, fs.disk_full.
[[nodiscard]] Status create_directories(const std::string& path, unsigned mode = 0755);
// That what is there, if anything is, was written by this process's user: no link, a plain file or a directory, the
// user's own, which no other may write to. As of now: whoever may rename in the directory above may put another in its
// place later. Errors: fs.foreign, with the reason; fs.read_failed.
[[nodiscard]] Status check_own_file(const std::string& path);
[[nodiscard]] Status check_own_directory(const std::string& path);
// Makes a rename, creation or removal inside the directory durable. Error: fs.sync_failed.
[[nodiscard]] Status sync_directory(const std::string& path);
// No error when it is missing. Error: fs.remove_failed.
[[nodiscard]] Status remove_file(const std::string& path);

inline constexpr std::string_view kLocked = "fs.locked";
// An advisory lock (flock) on a file that is made if needed and holds the owner's process id; let go on destruction
// and when the process dies.
class LockFile {
public:
    // Errors: fs.locked (another process has it; the detail says which), fs.cannot_open.
    [[nodiscard]] static Expected<LockFile> acquire(const std::string& path);
    // Of a file that is there and stays as it is (a part of it that is named by a number): several owners may have
    // different parts. Errors: the same, without the process.
    [[nodiscard]] static Expected<LockFile> acquire_within(const std::string& path, std::uint64_t part);
    LockFile(LockFile&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
    LockFile& operator=(LockFile&& other) noexcept;
    LockFile(const LockFile&) = delete;
    LockFile& operator=(const LockFile&) = delete;
    ~LockFile();

private:
    explicit LockFile(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
};

}  // namespace fs
}  // namespace base
}  // namespace quern
