// The inside of Store, shared by store.cpp (contents and uploads) and part.cpp (contents that come in chunks).
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/ensure.h"
#include "base/fs.h"
#include "base/mutex.h"
#include "content/store.h"

namespace quern::content {

inline constexpr std::string_view kManifestSuffix = ".manifest";
inline constexpr std::string_view kListSuffix = ".shards";
inline constexpr std::size_t kMaxCachedLists = 16;

class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Descriptor() { close(); }
    [[nodiscard]] int get() const { return value_; }
    void close() {
        if (value_ >= 0) ::close(value_);
        value_ = -1;
    }

private:
    int value_;
};

inline constexpr std::string_view kContentDiskFull = "content.disk_full";

inline tl::unexpected<Error> write_error(const std::string& path, int code) {
    return fault(fs::is_disk_full(code) ? kContentDiskFull : "content.write_failed", path + ": " + std::strerror(code));
}
inline tl::unexpected<Error> write_error(const Error& error) {
    return fault(error.name == fs::kDiskFull ? kContentDiskFull : "content.write_failed", error.to_string());
}

// `make_way` is asked when the disk is full, and says whether it is worth trying again.
template <class MakeWay>
Status write_all(int descriptor, std::uint64_t offset, BytesView bytes, const std::string& path,
                 const MakeWay& make_way) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        const int problem = written == 0 ? ENOSPC : errno;
        if (written < 0 && problem == EINTR) continue;
        if (written <= 0) {
            if (fs::is_disk_full(problem) && make_way()) continue;
            return write_error(path, problem);
        }
        offset += static_cast<std::uint64_t>(written);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

// Where a file of this size has data: [begin, end) for each stretch that is no hole, in order. All of it where the file
// system does not say.
template <class Take>
void for_each_stretch(int descriptor, std::uint64_t size, const Take& take) {
    std::uint64_t at = 0;
    while (at < size) {
        const off_t begin = ::lseek(descriptor, static_cast<off_t>(at), SEEK_DATA);
        const bool none_left = begin < 0 && errno == ENXIO;
        if (none_left) return;
        const off_t end = begin < 0 ? -1 : ::lseek(descriptor, begin, SEEK_HOLE);
        if (end < 0) return take(at, size);
        take(static_cast<std::uint64_t>(begin), std::min(static_cast<std::uint64_t>(end), size));
        at = static_cast<std::uint64_t>(end);
    }
}

struct KeptContent {
    std::uint64_t size = 0;
    std::uint64_t room = 0;   // what its two files cost
    bool damaged = false;     // a read found it so; until it is put or fetched again
    std::int64_t used_s = 0;  // Unix seconds: when it was put, fetched or read last; its file's time
};
// The wall clock's, as it is compared with times of files of earlier runs.
inline std::int64_t unix_now() { return static_cast<std::int64_t>(::time(nullptr)); }

// What nobody has used for so long that it may go.
struct IdleContent {
    std::int64_t used_s = 0;
    Hash32 id;
    std::uint64_t room = 0;
};

struct UploadRoom {
    std::uint64_t held = 0;
    std::uint64_t on_disk = 0;  // of that
};
// Reads until `into` is full or the file ends. Bytes read, or -1 with errno.
inline ssize_t read_at(int descriptor, std::span<std::uint8_t> into, std::uint64_t offset) {
    std::size_t done = 0;
    while (done < into.size()) {
        const ssize_t got =
            ::pread(descriptor, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return got;
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(done);
}

struct KeptPart {
    std::uint64_t size = 0;  // of the content
    bool open = false;
    bool leaving = false;         // its files are being removed
    std::uint64_t turn = 0;       // of its closing
    std::uint64_t unwritten = 0;  // of its room: what is not on the disk yet
};

struct Store::Impl {
    StoreOptions options;
    Duties duties;   // set before the threads
    Mutex evicting;  // one at a time; taken before `publishing`
    std::int64_t refused_until_s QUERN_GUARDED_BY(evicting) = 0;
    // Files that appear under a content's name or go from there; taken before `mutex`, which nobody who is in a hurry
    // shall wait for while a disk syncs.
    Mutex publishing;
    mutable Mutex mutex;
    mutable std::map<Hash32, KeptContent> contents QUERN_GUARDED_BY(mutex);  // published
    mutable std::map<Hash32, KeptContent> lists QUERN_GUARDED_BY(mutex);     // of shards, by the whole's id
    // Room. Each byte of it is in one of the two: what is published, or what uploads and parts hold from when it was
    // granted to when their files are gone or a content. They change together, under one lock.
    std::uint64_t used QUERN_GUARDED_BY(mutex) = 0;       // data and manifests of the published
    std::uint64_t reserved QUERN_GUARDED_BY(mutex) = 0;   // of uploads and parts
    std::uint64_t unwritten QUERN_GUARDED_BY(mutex) = 0;  // of `reserved`: promised, and not on the disk yet
    std::uint64_t announced QUERN_GUARDED_BY(mutex) = 0;  // of `unwritten`: of uploads
    std::map<Hash32, KeptPart> parts QUERN_GUARDED_BY(mutex);
    std::uint64_t closed_parts QUERN_GUARDED_BY(mutex) = 0;  // bytes of those that nobody has open
    std::uint64_t leaving QUERN_GUARDED_BY(mutex) = 0;       // bytes of those whose files are being removed
    CondVar left;                                            // some of these are gone
    std::uint64_t part_turn QUERN_GUARDED_BY(mutex) = 0;
    std::size_t uploads QUERN_GUARDED_BY(mutex) = 0;
    std::uint64_t next_upload QUERN_GUARDED_BY(mutex) = 0;
    mutable std::map<Hash32, std::shared_ptr<const Manifest>> manifests QUERN_GUARDED_BY(mutex);                // cache
    mutable std::map<Hash32, std::shared_ptr<const crypto::ContentShards>> read_lists QUERN_GUARDED_BY(mutex);  // cache

    [[nodiscard]] std::string directory_of(const Hash32& id) const {
        return options.root + "/" + to_hex(id).substr(0, 2);
    }
    [[nodiscard]] std::string data_path(const Hash32& id) const { return directory_of(id) + "/" + to_hex(id); }
    [[nodiscard]] std::string manifest_path(const Hash32& id) const {
        return data_path(id) + std::string(kManifestSuffix);
    }
    [[nodiscard]] std::string list_path(const Hash32& id) const { return data_path(id) + std::string(kListSuffix); }
    [[nodiscard]] Expected<std::shared_ptr<const Manifest>> manifest(const Hash32& id) const;
    // Of a content that is here: `why` is content.corrupt, or an error of the system that says nothing about it.
    [[nodiscard]] tl::unexpected<Error> found(const Hash32& id, Error why) const QUERN_EXCLUDES(mutex);
    [[nodiscard]] std::string part_path(const Hash32& id) const { return options.root + "/parts/" + to_hex(id); }
    [[nodiscard]] std::string part_manifest_path(const Hash32& id) const {
        return part_path(id) + std::string(kManifestSuffix);
    }
    [[nodiscard]] Status remove_earlier_formats() const;
    [[nodiscard]] Status scan() QUERN_REQUIRES(mutex);
    [[nodiscard]] Status scan_directory(const std::string& name) QUERN_REQUIRES(mutex);
    [[nodiscard]] Status check_size(std::uint64_t size) const;
    // Whether there is room, in the quota and on the disk, when parts that nobody has open go.
    [[nodiscard]] Status check_room(std::uint64_t bytes) const QUERN_REQUIRES(mutex);
    // Whether there is as long as `gain` more bytes go.
    [[nodiscard]] bool fits_quota(std::uint64_t bytes, std::uint64_t gain) const QUERN_REQUIRES(mutex);
    [[nodiscard]] bool fits_disk(std::uint64_t bytes, std::uint64_t gain) const QUERN_REQUIRES(mutex);
    // Whether there is when so much of contents goes, and parts that nobody has open.
    [[nodiscard]] bool fits_without(std::uint64_t bytes, std::uint64_t gone) const QUERN_REQUIRES(mutex);
    void reserve(std::uint64_t bytes) QUERN_REQUIRES(mutex);
    // Takes room, of such parts where there is no other.
    [[nodiscard]] Status take_room(std::uint64_t bytes) QUERN_EXCLUDES(mutex);
    // Before bytes are written whose room is reserved: others may have filled the disk meanwhile. Parts that nobody
    // has open go first. Error content.disk_full.
    [[nodiscard]] Status check_disk(std::uint64_t bytes) QUERN_EXCLUDES(mutex);
    // Whether contents have been idle for long that would make room. Which of them a duty holds is asked, at some
    // cost, only when they go.
    [[nodiscard]] bool may_find_room(std::uint64_t bytes) QUERN_EXCLUDES(evicting, mutex);
    // Removes contents that have been idle for long and that no duty holds, if so much room can be made of them;
    // whether any went.
    [[nodiscard]] bool let_contents_go(std::uint64_t bytes) QUERN_EXCLUDES(evicting, publishing, mutex);
    [[nodiscard]] Status remove(const Hash32& id) QUERN_EXCLUDES(publishing, mutex);
    void use(const Hash32& id) const QUERN_EXCLUDES(mutex);
    // Removes the part that was closed longest ago, or waits for one that is just leaving; whether there was one.
    [[nodiscard]] bool let_part_go() QUERN_EXCLUDES(mutex);
    // Makes a written and synced file, and its manifest, a content, by renaming both. What was reserved for it, by this
    // upload or by the part of this id, is given back at once with the counting of the content.
    [[nodiscard]] Status publish(const Hash32& id, std::uint64_t size, const std::string& path,
                                 const std::string& its_manifest, UploadRoom* upload) QUERN_EXCLUDES(publishing, mutex);
    void give_back(UploadRoom& room) QUERN_REQUIRES(mutex);
    [[nodiscard]] Status move_into_place(const Hash32& id, const std::string& path, const std::string& its_manifest,
                                         bool is_new) QUERN_REQUIRES(publishing);
    [[nodiscard]] Status prepare_directory(const Hash32& id) const;

    // shard_lists.cpp
    [[nodiscard]] Status scan_list(const std::string& path, const Hash32& id) QUERN_REQUIRES(mutex);
    [[nodiscard]] Status publish_list(const Hash32& id, const std::string& path, UploadRoom& room)
        QUERN_EXCLUDES(publishing, mutex);
    [[nodiscard]] Status remove_list(const Hash32& id) QUERN_REQUIRES(publishing) QUERN_EXCLUDES(mutex);
    [[nodiscard]] std::vector<IdleContent> idle_contents() const QUERN_REQUIRES(mutex);

    // part.cpp
    void scan_parts(const std::vector<std::string>& names) QUERN_REQUIRES(mutex);
    // The part that was closed longest ago, marked as leaving for who removes it.
    [[nodiscard]] std::optional<Hash32> claim_oldest_part() QUERN_REQUIRES(mutex);
    void claim_closed_part(KeptPart& part) QUERN_REQUIRES(mutex);
    // Of this content, if nobody has it open.
    void drop_closed_part(const Hash32& id) QUERN_EXCLUDES(mutex);
    // Files and room of a part that this caller has open or claimed.
    void remove_part(const Hash32& id) QUERN_EXCLUDES(mutex);
    void forget_part(const Hash32& id) QUERN_REQUIRES(mutex);
    void close_part(const Hash32& id, bool keep) QUERN_EXCLUDES(mutex);
    // So many bytes of an open part's room are on the disk now; or, if negative, no longer.
    void wrote_part(const Hash32& id, std::int64_t bytes) QUERN_EXCLUDES(mutex);
};

}  // namespace quern::content
