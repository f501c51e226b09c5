// The content-addressed store: byte strings of any size (programs, data sets, states, histories) as files named by
// their content id (crypto/content_id.h). A content appears under its id whole and synced or not at all; each leaf read
// is checked against the id. Used by the node (RPC's /content) and by tools. Thread-safe.
//
//   <root>/aa/<id>            the bytes; aa = the id's first two hex digits
//   <root>/aa/<id>.manifest   "QRNCONT1" || size (8, big endian) || leaf hashes (32 each); published before the bytes
//   <root>/tmp/               uploads that are not finished; emptied at start
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "content/manifest.h"

namespace quern::content {

inline constexpr std::uint64_t kDefaultQuotaBytes = std::uint64_t{64} << 30;
inline constexpr std::uint64_t kDefaultMaxItemBytes = std::uint64_t{16} << 30;
inline constexpr std::size_t kMaxUploads = 128;            // open at once; who has a place is for who takes them in
inline constexpr std::uint64_t kMaxReadBytes = 16U << 20;  // of one read()
inline constexpr std::size_t kMaxCachedManifests = 64;
// A file takes whole blocks of the disk, and a small one its entry besides: what the quota counts of it is a multiple.
inline constexpr std::uint64_t kDiskBlockBytes = 4096;
inline constexpr std::size_t kDefaultMaxItems = 1'000'000;  // each is also an entry in memory, some 100 bytes

struct StoreOptions {
    std::string root;                                // directory; made if needed
    std::uint64_t quota_bytes = kDefaultQuotaBytes;  // data and manifests of all contents, what uploads have written,
                                                     // and reservations
    std::uint64_t max_item_bytes = kDefaultMaxItemBytes;
    std::size_t max_items = kDefaultMaxItems;
};

// What a file of so many bytes costs the disk; and a content, with its manifest.
[[nodiscard]] constexpr std::uint64_t disk_bytes(std::uint64_t size) {
    return (size / kDiskBlockBytes + (size % kDiskBlockBytes != 0 || size == 0 ? 1 : 0)) * kDiskBlockBytes;
}
[[nodiscard]] constexpr std::uint64_t stored_bytes(std::uint64_t size) {
    return disk_bytes(size) + disk_bytes(manifest_bytes(size));
}

struct StoreUsage {
    std::uint64_t items = 0;
    std::uint64_t bytes = 0;     // of the disk: published data and manifests
    std::uint64_t reserved = 0;  // written by open uploads, and reservations
};

class Store {
    struct Impl;

public:
    // Removes what aborted uploads left behind and counts what is there. Errors: content.cannot_open, fs.*.
    [[nodiscard]] static Expected<std::unique_ptr<Store>> open(const StoreOptions& options);
    ~Store();
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    // Error content.not_found.
    [[nodiscard]] Expected<std::uint64_t> size(const Hash32& id) const;
    // Bytes [offset, offset + length) clipped to the end and to kMaxReadBytes.
    // Errors: content.not_found, content.corrupt (the file differs from its id), content.read_failed.
    [[nodiscard]] Expected<Bytes> read(const Hash32& id, std::uint64_t offset, std::uint64_t length) const;
    // The leaf hashes, for who checks leaves itself. Errors: content.not_found, content.corrupt.
    [[nodiscard]] Expected<std::shared_ptr<const Manifest>> manifest(const Hash32& id) const;
    // Reads every leaf. Errors as read.
    [[nodiscard]] Status verify(const Hash32& id) const;
    [[nodiscard]] std::vector<Hash32> list() const;
    // Error content.not_found, fs.remove_failed.
    [[nodiscard]] Status remove(const Hash32& id);
    [[nodiscard]] StoreUsage usage() const;

    // Room within the quota for a content that is kept elsewhere until it is whole, such as a download; given back when
    // it is dropped. Must not outlive the store.
    class Reservation {
    public:
        ~Reservation();
        Reservation(const Reservation&) = delete;
        Reservation& operator=(const Reservation&) = delete;

    private:
        friend class Store;
        Reservation(Impl& store, std::uint64_t bytes) : store_(store), bytes_(bytes) {}
        Impl& store_;
        std::uint64_t bytes_;
    };
    // Errors: content.too_large, content.quota_exceeded (also when there are as many contents as there may be).
    [[nodiscard]] Expected<std::unique_ptr<Reservation>> reserve(std::uint64_t size);
    // Takes over a whole content in a file on the same file system, for which there is a reservation: its bytes are
    // read and checked against the id, then the file is renamed. Errors: content.incomplete, content.id_mismatch,
    // content.read_failed, content.disk_full, content.write_failed. The file is gone after a success.
    [[nodiscard]] Status adopt(const Hash32& id, std::uint64_t size, const std::string& path,
                               std::unique_ptr<Reservation> reservation);

    // One content on its way in; dropping it without finish() removes what was written. One thread at a time; must not
    // outlive the store.
    class Upload {
    public:
        ~Upload();
        Upload(const Upload&) = delete;
        Upload& operator=(const Upload&) = delete;
        // Errors: content.too_large (more than announced), content.quota_exceeded (others took the room meanwhile: an
        // announcement holds none), content.disk_full, content.write_failed.
        [[nodiscard]] Status append(BytesView bytes);
        // Publishes. Errors: content.incomplete (fewer bytes than announced), content.id_mismatch, and append's. A
        // content that is there already is replaced by the same bytes, which repairs a damaged file.
        [[nodiscard]] Status finish();

    private:
        friend class Store;
        struct Impl;
        explicit Upload(std::unique_ptr<Impl> impl);
        std::unique_ptr<Impl> impl_;
    };
    // Errors: content.too_large, content.quota_exceeded, content.too_many_uploads (busy), content.disk_full,
    // content.write_failed.
    [[nodiscard]] Expected<std::unique_ptr<Upload>> begin_upload(const Hash32& id, std::uint64_t size);
    // begin, append, finish.
    [[nodiscard]] Expected<Hash32> put(BytesView content);

private:
    explicit Store(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::content
