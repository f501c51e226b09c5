#include "compute/torchscript/child.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/expected.h"
#include "compute/torchscript/converter.h"
#include "compute/torchscript/sandbox.h"

namespace quern::compute::torchscript {
namespace {

// Libraries of libtorch, and what reading takes beside the archive: its words as tensors, in the message, and in the
// message's bytes.
constexpr std::uint64_t kMemory = std::uint64_t{4} << 30;
constexpr std::uint64_t kMemoryOfByte = 6;

Expected<std::vector<std::int64_t>> dims_of(std::string_view text) {
    std::vector<std::int64_t> dims;
    while (true) {
        const std::size_t end = text.find('x');
        const std::string_view part = text.substr(0, end);
        std::int64_t dim = 0;
        const auto read = std::from_chars(part.data(), part.data() + part.size(), dim);
        constexpr std::int64_t kMost = 1 << 24;
        if (read.ec != std::errc{} || read.ptr != part.data() + part.size() || dim < 1 || dim > kMost ||
            dims.size() == kMaxInputDims)
            return fail("torchscript.bad_dims", std::string(text) + ": as 3x32x32, each from 1 to 2^24, seven at most");
        dims.push_back(dim);
        if (end == std::string_view::npos) return dims;
        text.remove_prefix(end + 1);
    }
}

// Of standard input, which is a file, so that memory is taken for what it has. Not in the sandbox: the C library asks
// by a call that takes paths, too.
Expected<std::uint64_t> archive_size() {
    struct stat info {};
    if (::fstat(STDIN_FILENO, &info) != 0 || !S_ISREG(info.st_mode))
        return fail("torchscript.no_file", "standard input is no file");
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size > kMaxArchiveBytes) return fail("torchscript.too_large", std::to_string(size) + " bytes");
    return size;
}

Expected<Bytes> read_archive(std::uint64_t size) {
    Bytes bytes(size);
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ::ssize_t count =
            ::pread(STDIN_FILENO, bytes.data() + done, bytes.size() - done, static_cast<::off_t>(done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return fail("torchscript.no_file", "standard input ends early");
        done += static_cast<std::size_t>(count);
    }
    return bytes;
}

Status write_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ::ssize_t count = ::write(to, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return fail("torchscript.not_written", std::strerror(errno));
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
}

Status convert_input(const ChildOptions& options) {
    QUERN_TRY(const std::vector<std::int64_t> dims, dims_of(options.dims));
    prepare();
    QUERN_TRY(const std::uint64_t size, archive_size());
    QUERN_CHECK(enter_sandbox({kMemory + kMemoryOfByte * size, kCpuSeconds}));
    QUERN_TRY(const Bytes archive, read_archive(size));
    QUERN_TRY(const std::string network, convert(archive, {dims, options.is_whole}));
    return write_all(STDOUT_FILENO, network);
}

}  // namespace

int run_child(const ChildOptions& options) {
    const Status status = convert_input(options);
    if (status) return 0;
    std::string line = status.error().to_string();
    for (char& c : line)
        if (c < 0x20 || c > 0x7e) c = ' ';
    (void)write_all(STDERR_FILENO, line + "\n");
    return kChildFailed;
}

}  // namespace quern::compute::torchscript
