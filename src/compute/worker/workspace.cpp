#include "compute/worker/workspace.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace quern::compute::worker {
namespace {

namespace disk = std::filesystem;

tl::unexpected<Error> failed(const std::string& path, const std::error_code& error) {
    return fault("fs.read_failed", path + ": " + error.message());
}

// The task of a directory "<task>-<round>"; nothing for any other name, which is left alone.
std::optional<std::uint64_t> task_of(const std::string& name) {
    std::uint64_t task = 0;
    std::uint64_t round = 0;
    const char* const end = name.data() + name.size();
    const auto first = std::from_chars(name.data(), end, task);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
    const auto second = std::from_chars(first.ptr + 1, end, round);
    if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
    return task;
}

}  // namespace

Expected<std::vector<std::string>> Workspace::files(const std::string& prefix) const {
    std::error_code error;
    std::vector<std::string> names;
    for (disk::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error))
        if (std::string name = at->path().filename().string(); name.starts_with(prefix))
            names.push_back(std::move(name));
    if (error) return failed(directory_, error);
    std::sort(names.begin(), names.end());
    return names;
}

Expected<std::uint64_t> Workspace::used_bytes(const std::string& datadir) {
    const std::string tasks = datadir + "/tasks";
    if (!fs::exists(tasks)) return 0;
    std::error_code error;
    std::uint64_t bytes = 0;
    for (disk::recursive_directory_iterator at(tasks, error), end; !error && at != end; at.increment(error)) {
        std::error_code gone;  // a file may be renamed while it is looked at
        const auto size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
        if (!gone) bytes += size;
    }
    if (error) return failed(tasks, error);
    return bytes;
}

Expected<std::size_t> Workspace::remove_all_but(const std::string& datadir, const std::set<std::uint64_t>& live) {
    const std::string tasks = datadir + "/tasks";
    if (!fs::exists(tasks)) return 0;
    std::error_code error;
    std::vector<disk::path> ended;
    for (disk::directory_iterator at(tasks, error), end; !error && at != end; at.increment(error)) {
        const auto task = task_of(at->path().filename().string());
        if (task && !live.contains(*task)) ended.push_back(at->path());
    }
    for (const auto& path : ended) {
        if (error) break;
        disk::remove_all(path, error);
    }
    if (error) return failed(tasks, error);
    return ended.size();
}

}  // namespace quern::compute::worker
