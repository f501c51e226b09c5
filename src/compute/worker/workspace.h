// A worker's files for one task and round: <datadir>/tasks/<task>-<round>/<name>, records written atomically. What is
// here lets a killed worker go on where it was; everything else is on the chain or in the content store. The files of a
// task are removed some time after it has ended. Each file belongs to one thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fs.h"
#include "chain/types/fields.h"
#include "chain/types/native_objects.h"

namespace quern::compute::worker {

class Workspace {
public:
    // Makes the directory. Error fs.create_directory_failed.
    [[nodiscard]] static Expected<Workspace> open(const std::string& datadir, const chain::types::Task& task) {
        Workspace workspace;
        workspace.directory_ = datadir + "/tasks/" + std::to_string(task.id) + "-" + std::to_string(task.round);
        QUERN_CHECK(fs::create_directories(workspace.directory_, 0700));
        return workspace;
    }

    // Bytes of all tasks' files. Errors fs.*.
    [[nodiscard]] static Expected<std::uint64_t> used_bytes(const std::string& datadir);
    // Whether there is room for so many bytes more; not when that cannot be told.
    [[nodiscard]] static bool has_room(const std::string& datadir, std::uint64_t more, std::uint64_t max_mib) {
        const auto used = used_bytes(datadir);
        return used && (*used + more) >> 20 <= max_mib;
    }
    // Removes the files of each task that is not in `live`; gives their number. Errors fs.*.
    [[nodiscard]] static Expected<std::size_t> remove_all_but(const std::string& datadir,
                                                              const std::set<std::uint64_t>& live);

    [[nodiscard]] const std::string& directory() const { return directory_; }
    // Names of the files that begin with `prefix`, ascending. Errors fs.*.
    [[nodiscard]] Expected<std::vector<std::string>> files(const std::string& prefix) const;

    // nullopt when there is none. Errors: fs.*, rlp.*.
    template <chain::types::Record T>
    [[nodiscard]] Expected<std::optional<T>> load(const std::string& name) const {
        const std::string path = directory_ + "/" + name;
        if (!fs::exists(path)) return std::optional<T>{};
        QUERN_TRY(const Bytes bytes, fs::read_file(path, kMaxFileBytes));
        QUERN_TRY(T record, chain::types::decode_record<T>(bytes));
        return std::optional<T>(std::move(record));
    }
    template <chain::types::Record T>
    [[nodiscard]] Status save(const std::string& name, const T& record) const {
        return fs::write_file_atomic(directory_ + "/" + name, chain::types::encode_record(record), 0600);
    }

private:
    static constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
    std::string directory_;
};

}  // namespace quern::compute::worker
