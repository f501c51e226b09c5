#include "compute/worker/local_states.h"

#include <charconv>
#include <filesystem>
#include <fstream>

namespace quern::compute::worker {
namespace {

namespace disk = std::filesystem;

std::optional<vm::tensor::State> read_words(const std::string& path, const vm::tensor::Program& program) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    vm::tensor::State state;
    for (const vm::tensor::Slot& slot : program.slots) {
        vm::tensor::Tensor tensor{slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements())};
        file.read(reinterpret_cast<char*>(tensor.words.data()),
                  static_cast<std::streamsize>(tensor.words.size() * sizeof(std::uint32_t)));
        state.push_back(std::move(tensor));
    }
    if (!file) return std::nullopt;
    return state;
}

}  // namespace

std::multimap<std::uint64_t, LocalStates::File> LocalStates::files(std::uint64_t step) const {
    std::multimap<std::uint64_t, File> files;
    std::error_code failed;
    for (const auto& file : disk::directory_iterator(disk::path(prefix_).parent_path(), failed)) {
        const std::string path = file.path().string();
        if (!path.starts_with(prefix_)) continue;
        std::uint64_t number = 0;
        const char* const end = path.data() + path.size();
        const auto [after, error] = std::from_chars(path.data() + prefix_.size(), end, number);
        if (error == std::errc() && after != end && *after == '-' && number <= step)
            files.emplace(number, File{path, std::string(after + 1, end)});
    }
    return files;
}

std::uint64_t LocalStates::nearest_step(std::uint64_t step) const {
    const auto found = files(step);
    return found.empty() ? 0 : found.rbegin()->first;
}

std::optional<LocalStates::Found> LocalStates::nearest(std::uint64_t step, const vm::tensor::Program& program,
                                                       ThreadPool* pool, const Cancellation* cancellation) const {
    const auto found = files(step);
    for (auto file = found.rbegin(); file != found.rend(); ++file) {
        auto state = read_words(file->second.path, program);
        if (!state) continue;
        const Hash32 root = vm::tensor::state_root(*state, pool, cancellation);
        if (is_requested(cancellation)) return std::nullopt;
        if (to_hex(root) == file->second.root) return Found{file->first, std::move(*state)};
    }
    return std::nullopt;
}

Status LocalStates::write(std::uint64_t step, const Hash32& root, const vm::tensor::State& state) const {
    const std::string path = path_of(step, root);
    const std::string whole = path + ".new";
    std::ofstream file(whole, std::ios::binary | std::ios::trunc);
    for (const vm::tensor::Tensor& slot : state)
        file.write(reinterpret_cast<const char*>(slot.words.data()),
                   static_cast<std::streamsize>(slot.words.size() * sizeof(std::uint32_t)));
    file.close();
    std::error_code failed;
    if (file) disk::rename(whole, path, failed);
    if (file && !failed) return {};
    disk::remove(whole, failed);
    return fail("fs.write_failed", path);
}

void LocalStates::clear() const {
    std::error_code failed;
    std::vector<disk::path> found;
    for (const auto& file : disk::directory_iterator(disk::path(prefix_).parent_path(), failed))
        if (file.path().string().starts_with(prefix_)) found.push_back(file.path());
    for (const disk::path& path : found) disk::remove(path, failed);
}

void LocalStates::remove(std::uint64_t step, const Hash32& root) const {
    std::error_code failed;
    disk::remove(path_of(step, root), failed);
}

}  // namespace quern::compute::worker
