// What has come so far of a content that is being fetched: a file that grows at its end and becomes the content's by a
// rename. Used by fetch. Belongs to one thread.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::compute::transfer {

class PartFile {
public:
    // Errors: fs.cannot_open, fs.read_failed.
    [[nodiscard]] static Expected<PartFile> open(const std::string& path);
    [[nodiscard]] std::uint64_t size() const { return size_; }
    // Errors: fs.write_failed, fs.disk_full.
    [[nodiscard]] Status append(BytesView bytes);
    [[nodiscard]] Status clear();
    // Syncs it, renames it and syncs the directory. Errors: the same, and fs.sync_failed.
    [[nodiscard]] Status finish(const std::string& path);

    PartFile(PartFile&& other) noexcept;
    PartFile& operator=(PartFile&&) = delete;
    PartFile(const PartFile&) = delete;
    PartFile& operator=(const PartFile&) = delete;
    ~PartFile();

private:
    PartFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
    std::string path_;
    int descriptor_;
    std::uint64_t size_ = 0;
};

}  // namespace quern::compute::transfer
