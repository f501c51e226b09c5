// The inside of Store, shared by store.cpp (contents and uploads) and part.cpp (contents that come in chunks).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include "base/ensure.h"
#include "base/mutex.h"
#include "content/store.h"

namespace quern::content {

inline constexpr std::string_view kManifestSuffix = ".manifest";

class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(); }
    [[nodiscard]] int get() const { return value_; }
    void close() {
        if (value_ >= 0) ::close(value_);
        value_ = -1;
    }

private:
    int value_;
};

inline tl::unexpected<Error> write_error(const std::string& path, int code) {
    const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
    return fault(full ? "content.disk_full" : "content.write_failed", path + ": " + std::strerror(code));
}

inline Status write_all(int descriptor, BytesView bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return write_error(path, written == 0 ? ENOSPC : errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

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
    std::uint64_t turn = 0;  // of its closing
};

struct Store::Impl {
    StoreOptions options;
    // Files that appear under a content's name or go from there; taken before `mutex`, which nobody who is in a hurry
    // shall wait for while a disk syncs.
    Mutex publishing;
    mutable Mutex mutex;
    std::map<Hash32, std::uint64_t> sizes QUERN_GUARDED_BY(mutex);  // published contents
    std::uint64_t used QUERN_GUARDED_BY(mutex) = 0;                 // data and manifests of these
    std::uint64_t reserved QUERN_GUARDED_BY(mutex) = 0;             // what uploads have written, and parts
    std::map<Hash32, KeptPart> parts QUERN_GUARDED_BY(mutex);
    std::uint64_t closed_parts QUERN_GUARDED_BY(mutex) = 0;  // bytes of those that nobody has open
    std::uint64_t part_turn QUERN_GUARDED_BY(mutex) = 0;
    std::size_t uploads QUERN_GUARDED_BY(mutex) = 0;
    std::uint64_t next_upload QUERN_GUARDED_BY(mutex) = 0;
    mutable std::map<Hash32, std::shared_ptr<const Manifest>> manifests QUERN_GUARDED_BY(mutex);  // cache

    [[nodiscard]] std::string directory_of(const Hash32& id) const {
        return options.root + "/" + to_hex(id).substr(0, 2);
    }
    [[nodiscard]] std::string data_path(const Hash32& id) const { return directory_of(id) + "/" + to_hex(id); }
    [[nodiscard]] std::string manifest_path(const Hash32& id) const {
        return data_path(id) + std::string(kManifestSuffix);
    }
    [[nodiscard]] Expected<std::shared_ptr<const Manifest>> manifest(const Hash32& id) const;
    [[nodiscard]] std::string part_path(const Hash32& id) const { return options.root + "/parts/" + to_hex(id); }
    [[nodiscard]] std::string part_manifest_path(const Hash32& id) const {
        return part_path(id) + std::string(kManifestSuffix);
    }
    [[nodiscard]] Status scan() QUERN_REQUIRES(mutex);
    [[nodiscard]] Status scan_directory(const std::string& name) QUERN_REQUIRES(mutex);
    [[nodiscard]] Status check_size(std::uint64_t size) const;
    // Whether there is room when parts that nobody has open go.
    [[nodiscard]] Status check_room(std::uint64_t bytes) const QUERN_REQUIRES(mutex);
    // Takes room, of such parts where there is no other.
    [[nodiscard]] Status take_room(std::uint64_t bytes) QUERN_EXCLUDES(mutex);
    // Makes a written and synced file a content.
    [[nodiscard]] Status publish(const Hash32& id, const Manifest& manifest, const std::string& path)
        QUERN_EXCLUDES(publishing, mutex);
    [[nodiscard]] Status prepare_directory(const Hash32& id) const;

    // part.cpp
    void scan_parts(const std::vector<std::string>& names) QUERN_REQUIRES(mutex);
    // The part that was closed longest ago, marked as open for who removes it.
    [[nodiscard]] std::optional<Hash32> claim_oldest_part() QUERN_REQUIRES(mutex);
    // Files and room of a part that this caller has open.
    void remove_part(const Hash32& id) QUERN_EXCLUDES(mutex);
    void close_part(const Hash32& id) QUERN_EXCLUDES(mutex);
};

}  // namespace quern::content
