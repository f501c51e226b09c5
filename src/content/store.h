// The content-addressed store: byte strings of any size (programs, data sets, states, histories) as files named by
// their content id (crypto/content_id.h). A content appears under its id whole and synced or not at all; each leaf read
// is checked against the id. Used by the node (RPC's /content) and by tools. Thread-safe.
//
//   <root>/aa/<id>            the bytes; aa = the id's first two hex digits
//   <root>/format             "QRNCONT2": there are no files of an earlier format
//   <root>/aa/<id>.manifest   "QRNCONT2" || size (8, big endian) || leaf hashes (32 each); published before the bytes
//   <root>/aa/<id>.shards     "QRNSHRD1" || a list of shards (crypto/content_shards.h): the whole is here by shard
//   <root>/tmp/               uploads that are not finished; emptied at start
//   <root>/parts/<id>         the same bytes and manifest of contents that come in chunks, kept until they are whole
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "content/manifest.h"
#include "crypto/content_shards.h"

namespace quern::content {

inline constexpr std::uint64_t kDefaultQuotaBytes = std::uint64_t{64} << 30;
inline constexpr std::uint64_t kDefaultMaxItemBytes = std::uint64_t{16} << 30;
// Of the disk: contents leave it to the chain's database and to whatever else the machine writes. No room is granted
// beyond it; bytes whose room was granted are refused once others have taken half of it.
inline constexpr std::uint64_t kDefaultMinFreeBytes = std::uint64_t{1} << 30;
// Contents that nobody has put, fetched or read for so long, and that no duty holds, may go when others want the room.
inline constexpr std::uint64_t kDefaultMinIdleSeconds = 14 * 86'400;
// As much goes at once at least, in parts of the quota: who has to be asked is asked seldom.
inline constexpr std::uint64_t kEvictedShare = 64;
inline constexpr std::int64_t kRefusedSeconds = 10;        // and not again for so long when it was in vain
inline constexpr std::size_t kMaxUploads = 128;            // open at once; who has a place is for who takes them in
inline constexpr std::uint64_t kMaxReadBytes = 16U << 20;  // of one read()
inline constexpr std::size_t kMaxCachedManifests = 64;
inline constexpr std::size_t kMaxParts = 64;  // open or kept
// A file takes whole blocks of the disk, and a small one its entry besides: what the quota counts of it is a multiple.
inline constexpr std::uint64_t kDiskBlockBytes = 4096;
inline constexpr std::size_t kDefaultMaxItems = 1'000'000;  // each is also an entry in memory, some 100 bytes

struct StoreOptions {
    std::string root;                                // directory; made if needed
    std::uint64_t quota_bytes = kDefaultQuotaBytes;  // data and manifests of all contents, and what uploads and parts
                                                     // have reserved
    std::uint64_t max_item_bytes = kDefaultMaxItemBytes;
    std::size_t max_items = kDefaultMaxItems;
    std::uint64_t min_free_bytes = kDefaultMinFreeBytes;
    std::uint64_t min_idle_seconds = kDefaultMinIdleSeconds;
    unsigned shard_level = crypto::kContentShardLevel;  // of lists of shards
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
    std::uint64_t bytes = 0;      // of the disk: published data and manifests
    std::uint64_t reserved = 0;   // of uploads and parts, each as large as it will be
    std::uint64_t unwritten = 0;  // of these: not on the disk yet
};

// Downloads of earlier versions, `<datadir>/downloads/<id>.part`, go, and the folder if nothing else is in it.
void remove_old_downloads(const std::string& directory);

class Store {
    struct Impl;

public:
    // Removes what aborted uploads and earlier formats left behind and counts what is there. Errors:
    // content.cannot_open, fs.*.
    [[nodiscard]] static Expected<std::unique_ptr<Store>> open(const StoreOptions& options);
    ~Store();
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    // Errors: content.not_found; content.corrupt (a read found its file damaged: put or fetched again it replaces
    // that).
    [[nodiscard]] Expected<std::uint64_t> size(const Hash32& id) const;
    // Bytes [offset, offset + length) clipped to the end and to kMaxReadBytes.
    // Errors: content.not_found, content.corrupt (the file differs from its id), content.read_failed.
    [[nodiscard]] Expected<Bytes> read(const Hash32& id, std::uint64_t offset, std::uint64_t length) const;
    // The leaf hashes, for who checks leaves itself. Errors: content.not_found, content.corrupt.
    [[nodiscard]] Expected<std::shared_ptr<const Manifest>> manifest(const Hash32& id) const;
    // The list of a content that is here by shard: which of them are is for their own ids to say. It is neither read
    // nor sized under its id, unless its bytes are here whole as well. Error content.not_found (also of a damaged one,
    // which goes), content.read_failed.
    [[nodiscard]] Expected<std::shared_ptr<const crypto::ContentShards>> shards(const Hash32& id) const;
    // Takes one of the store's level, of any shards. Errors: content.quota_exceeded, content.disk_full,
    // content.write_failed.
    [[nodiscard]] Status put_shards(const crypto::ContentShards& list);
    [[nodiscard]] unsigned shard_level() const;
    // As unread_leaf_bytes, of a list and `shards`.
    [[nodiscard]] std::uint64_t unread_list_bytes(const Hash32& id) const;
    // Of leaf hashes that a call of one of the two would have to read from the disk and to check: 0 where they are in
    // memory, or the content is not here.
    [[nodiscard]] std::uint64_t unread_leaf_bytes(const Hash32& id) const;
    // Reads every leaf. Errors as read.
    [[nodiscard]] Status verify(const Hash32& id) const;
    [[nodiscard]] std::vector<Hash32> list() const;
    // Error content.not_found, fs.remove_failed.
    [[nodiscard]] Status remove(const Hash32& id);
    [[nodiscard]] StoreUsage usage() const;

    // Takes out of the ids what this node has a duty to serve at this moment: it never goes by itself. The rest goes
    // for an upload or a download when there is no room, the one that was used longest ago first, once it has been idle
    // for min_idle_seconds. Nothing goes by itself before this was called, or while it answers an error. Called by any
    // thread that wants room, without the store's locks; may read from the store. Before other threads use the store.
    using Duties = std::function<Status(std::set<Hash32>& idle)>;
    void set_duties(Duties duties);
    // Removes those of these contents that no duty holds, however lately they were used; gives those that one does.
    // Errors: content.duties_unknown (nobody says them), the duties'; fs.remove_failed, and the rest stays.
    [[nodiscard]] Expected<std::set<Hash32>> let_go(std::set<Hash32> ids);

    // One content on its way in chunks of any order, such as a download: a file of its own, which stays when this is
    // dropped, so that what has come need not come again, also after a restart. It holds the room of the whole content
    // from its first byte on; of those that nobody has open the one that was closed longest ago goes when others want
    // the room, be it the quota's or the disk's. Nothing stays of one without any bytes, nor of one that the disk
    // refused for another reason than that it was full. Any thread, several at once; must not outlive the store.
    class Part {
    public:
        ~Part();
        Part(const Part&) = delete;
        Part& operator=(const Part&) = delete;
        [[nodiscard]] const std::shared_ptr<const Manifest>& manifest() const;
        // Takes leaves: `offset` is where one begins, `bytes` end where one ends. They are checked first. Errors:
        // content.bad_leaf, content.disk_full, content.write_failed.
        [[nodiscard]] Status write(std::uint64_t offset, BytesView bytes);
        // Whether the file has anything there: what an earlier run left, which counts once check() finds it good.
        [[nodiscard]] bool has_data(std::uint64_t offset, std::uint64_t length) const;
        // Errors: content.bad_leaf, content.read_failed.
        [[nodiscard]] Status check(std::uint64_t offset, std::uint64_t length);
        // Clipped to the end, checked. A leaf that was good and is not any more must come again. Errors as check.
        [[nodiscard]] Expected<Bytes> read(std::uint64_t offset, std::uint64_t length) const;
        // Makes it a content by a rename, not by a copy. Errors: content.incomplete (leaves that were neither written
        // nor checked, or found bad since), content.disk_full, content.write_failed.
        [[nodiscard]] Status publish();

    private:
        friend class Store;
        struct Impl;
        explicit Part(std::unique_ptr<Impl> impl);
        std::unique_ptr<Impl> impl_;
    };
    // What an earlier one left of this content. Errors: content.not_found, content.part_open (busy).
    [[nodiscard]] Expected<std::unique_ptr<Part>> open_part(const Hash32& id);
    // A new one; `manifest` is that of `id`. Errors: content.too_large, content.quota_exceeded, content.part_open
    // (busy), content.disk_full, content.write_failed.
    [[nodiscard]] Expected<std::unique_ptr<Part>> begin_part(const Hash32& id,
                                                             std::shared_ptr<const Manifest> manifest);
    [[nodiscard]] std::uint64_t max_item_bytes() const;

    // One content on its way in; dropping it without finish() removes what was written. One thread at a time; must not
    // outlive the store.
    class Upload {
    public:
        ~Upload();
        Upload(const Upload&) = delete;
        Upload& operator=(const Upload&) = delete;
        // Errors: content.too_large (more than announced), content.quota_exceeded (it could not have its room when it
        // was announced, and others took it meanwhile), content.disk_full, content.write_failed.
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
    // Takes its room, if that is free and announcements hold less than half of the quota with it; else it takes room as
    // its bytes come. Errors: content.too_large, content.quota_exceeded, content.too_many_uploads (busy),
    // content.disk_full, content.write_failed.
    [[nodiscard]] Expected<std::unique_ptr<Upload>> begin_upload(const Hash32& id, std::uint64_t size);
    // begin, append, finish.
    [[nodiscard]] Expected<Hash32> put(BytesView content);

private:
    explicit Store(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::content
