#include "compute/worker/claimed_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_write.h"
#include "crypto/content_file.h"

namespace quern::compute::worker {

ClaimedRows::ClaimedRows(ClaimedRows&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      row_bytes_(other.row_bytes_) {}

ClaimedRows::~ClaimedRows() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Expected<ClaimedRows> ClaimedRows::open(const std::string& path, std::uint64_t bytes, std::uint64_t row_bytes,
                                        bool fresh) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (fresh ? O_CREAT : 0), 0600);
    if (descriptor < 0 && errno == ENOENT) return fail("worker.rows_gone", path);
    if (descriptor < 0) return fs::fail_write(errno, "fs.cannot_open", path);
    ClaimedRows rows(path, descriptor, bytes, row_bytes);
    struct stat found {};
    if (::fstat(descriptor, &found) != 0) return fs::fail_write(errno, "fs.cannot_open", path);
    if (found.st_size == 0 && fresh && ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0)
        return fs::fail_write(errno, "fs.write_failed", path);
    if ((found.st_size != 0 || !fresh) && static_cast<std::uint64_t>(found.st_size) != bytes)
        return fail("worker.bad_rows",
                    path + " has " + std::to_string(found.st_size) + " bytes, not " + std::to_string(bytes));
    return rows;
}

Status ClaimedRows::write(std::uint64_t number, BytesView row) {
    if (row.size() != row_bytes_ || number >= bytes_ / row_bytes_)
        return fail("worker.bad_rows", "row " + std::to_string(number));
    if (::lseek(descriptor_, static_cast<off_t>(number * row_bytes_), SEEK_SET) < 0)
        return fs::fail_write(errno, "fs.write_failed", path_);
    QUERN_CHECK(fs::write_all(descriptor_, row, path_));
    if (::fdatasync(descriptor_) != 0) return fs::fail_write(errno, "fs.write_failed", path_);
    return {};
}

bool ClaimedRows::read(std::uint64_t first, std::span<std::uint8_t> out) const {
    if (first > bytes_ || out.size() > bytes_ - first) return false;
    for (std::size_t done = 0; done < out.size();) {
        const ssize_t got =
            ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(first + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += static_cast<std::size_t>(got);
    }
    return true;
}

Expected<Hash32> ClaimedRows::put(NodeView& node) const {
    QUERN_TRY(const crypto::ContentShards content, crypto::content_shards_of_file(path_));
    QUERN_CHECK(crypto::put_each(content, [&](const Hash32& id, std::uint64_t first, std::uint64_t size) {
        std::uint64_t done = 0;
        return node.put_stream(id, size, [&](std::span<std::uint8_t> target) -> Expected<std::size_t> {
            const auto next = static_cast<std::size_t>(std::min<std::uint64_t>(target.size(), size - done));
            if (!read(first + done, target.first(next))) return fail("fs.read_failed", path_);
            done += next;
            return next;
        });
    }));
    if (content.is_list()) QUERN_CHECK(node.put_shards(content));
    return content.id();
}

}  // namespace quern::compute::worker
