#include "crypto/content_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quern::crypto {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

Expected<ContentShards> read_shards(int file, const std::string& path, unsigned level) {
    ShardHasher hasher(level);
    Bytes piece(kPieceBytes);
    for (;;) {
        const ssize_t got = ::read(file, piece.data(), piece.size());
        const int problem = errno;
        if (got < 0 && problem == EINTR) continue;
        if (got < 0) return fault("fs.read_failed", path + ": " + std::strerror(problem));
        if (got == 0) return hasher.finish();
        hasher.update(BytesView(piece).first(static_cast<std::size_t>(got)));
    }
}

}  // namespace

Expected<ContentShards> content_shards_of_file(const std::string& path, unsigned level) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        const int problem = errno;
        return fault(problem == ENOENT ? "fs.not_found" : "fs.cannot_open", path + ": " + std::strerror(problem));
    }
    auto shards = read_shards(file, path, level);
    ::close(file);
    return shards;
}

}  // namespace quern::crypto
