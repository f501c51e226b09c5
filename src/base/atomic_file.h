// A file that is written piece by piece and appears whole or not at all: under a temporary name beside its path until
// commit(), removed where it comes to none. Used by fs::write_file_atomic and by what writes more than fits in memory.
// Belongs to one thread.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern {
inline namespace base {
namespace fs {

class AtomicFile {
public:
    // `mode` is the new file's permissions, whatever the process's umask. Errors: fs.write_failed, fs.disk_full.
    [[nodiscard]] static Expected<AtomicFile> create(const std::string& path, unsigned mode = 0644);
    // Appends. Errors: the same.
    [[nodiscard]] Status write(BytesView content);
    // Syncs it, renames it over the path and syncs the directory: after a crash the path holds the old content or the
    // new, whole. Once. Errors: the same, and fs.sync_failed.
    [[nodiscard]] Status commit();

    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&& other) noexcept;
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

private:
    AtomicFile(std::string path, std::string temporary, int descriptor)
        : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}
    std::string path_;
    std::string temporary_;  // empty: nothing to remove
    int descriptor_;
};

}  // namespace fs
}  // namespace base
}  // namespace quern
