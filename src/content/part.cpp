// Contents that come in chunks.
#include <sys/stat.h>

#include <algorithm>

#include "base/fs.h"
#include "base/log.h"
#include "content/store_impl.h"

namespace quern::content {

namespace {

std::uint64_t leaf_room(std::uint64_t size, std::uint64_t leaf) {
    return disk_bytes(std::min<std::uint64_t>(crypto::kContentLeafBytes, size - leaf * crypto::kContentLeafBytes));
}

// The leaves of which the file has anything.
std::vector<bool> leaves_on_disk(int descriptor, std::uint64_t size) {
    std::vector<bool> leaves(crypto::content_leaf_count(size));
    for_each_stretch(descriptor, size, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t leaf = begin / crypto::kContentLeafBytes; leaf * crypto::kContentLeafBytes < end; ++leaf)
            leaves[leaf] = true;
    });
    return leaves;
}

std::uint64_t room_of_holes(std::uint64_t size, const std::vector<bool>& on_disk) {
    std::uint64_t room = 0;
    for (std::uint64_t leaf = 0; leaf < on_disk.size(); ++leaf)
        if (!on_disk[leaf]) room += leaf_room(size, leaf);
    return room;
}

bool has_any(const std::vector<bool>& leaves) { return std::find(leaves.begin(), leaves.end(), true) != leaves.end(); }

}  // namespace

struct Store::Part::Impl {
    Store::Impl& store;
    const Hash32 id;
    const std::shared_ptr<const Manifest> manifest;
    Descriptor file;
    Mutex mutex;
    bool published QUERN_GUARDED_BY(mutex) = false;     // then others may have a part of this id
    bool refused QUERN_GUARDED_BY(mutex) = false;       // by the disk, for good
    std::vector<bool> good QUERN_GUARDED_BY(mutex);     // leaves that are in the file
    std::vector<bool> on_disk QUERN_GUARDED_BY(mutex);  // leaves that may be, whatever they are
    std::uint64_t missing QUERN_GUARDED_BY(mutex);

    Impl(Store::Impl& owner, const Hash32& content, std::shared_ptr<const Manifest> leaves, int descriptor)
        : store(owner),
          id(content),
          manifest(std::move(leaves)),
          file(descriptor),
          good(manifest->leaves.size()),
          on_disk(leaves_on_disk(descriptor, manifest->size)),
          missing(manifest->leaves.size()) {}
    ~Impl() {
        bool keep = false;
        {
            const MutexLock lock(mutex);
            if (published) return;
            keep = !refused && has_any(on_disk);
        }
        file.close();
        store.close_part(id, keep);
    }

    // Of leaves that are not on the disk.
    [[nodiscard]] std::uint64_t room_left() QUERN_EXCLUDES(mutex) {
        const MutexLock lock(mutex);
        return room_of_holes(manifest->size, on_disk);
    }
    // Or gone: there is nothing here to close.
    void mark_published() QUERN_EXCLUDES(mutex) {
        const MutexLock lock(mutex);
        published = true;
    }
    void note(std::uint64_t first, std::uint64_t bytes, bool written) QUERN_EXCLUDES(mutex) {
        std::int64_t room = 0;
        {
            const MutexLock lock(mutex);
            for (std::uint64_t leaf = first; leaf < first + crypto::content_leaf_count(bytes); ++leaf) {
                if (!good[leaf]) --missing;
                good[leaf] = true;
                if (!written || on_disk[leaf]) continue;
                on_disk[leaf] = true;
                room += static_cast<std::int64_t>(leaf_room(manifest->size, leaf));
            }
        }
        store.wrote_part(id, room);
    }
    // Those of them that are not what was written are not there: publish() makes no content of it.
    void note_bad(std::uint64_t first, BytesView bytes) QUERN_EXCLUDES(mutex) {
        const MutexLock lock(mutex);
        for (std::uint64_t leaf = first; !bytes.empty(); ++leaf) {
            const BytesView one = bytes.first(std::min(crypto::kContentLeafBytes, bytes.size()));
            if (good[leaf] && !leaves_match(*manifest, leaf, one)) {
                good[leaf] = false;
                ++missing;
            }
            bytes = bytes.subspan(one.size());
        }
    }
    // What was found bad there costs no room, and nobody looks at it again.
    void make_hole(std::uint64_t offset, std::uint64_t bytes) QUERN_EXCLUDES(mutex) {
#ifdef FALLOC_FL_PUNCH_HOLE
        std::int64_t room = 0;
        {
            const MutexLock lock(mutex);
            if (published) return;
            const std::uint64_t first = offset / crypto::kContentLeafBytes;
            const std::uint64_t end = first + crypto::content_leaf_count(bytes);
            for (std::uint64_t leaf = first; leaf < end; ++leaf)
                if (good[leaf]) return;
            if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                            static_cast<off_t>(bytes)) != 0)
                return;
            for (std::uint64_t leaf = first; leaf < end; ++leaf) {
                if (on_disk[leaf]) room -= static_cast<std::int64_t>(leaf_room(manifest->size, leaf));
                on_disk[leaf] = false;
            }
        }
        store.wrote_part(id, room);
#endif
    }
};

// --- Which there are -------------------------------------------------------------------------------------------------

void Store::Impl::scan_parts(const std::vector<std::string>& names) {
    struct Found {
        Hash32 id;
        std::uint64_t size = 0;
        std::uint64_t unwritten = 0;
        std::int64_t changed = 0;
    };
    std::vector<Found> found;
    for (const auto& name : names) {
        const auto id = fixed_from_hex<32>(name);
        struct stat data {};
        struct stat leaves {};
        const bool whole = id && name.size() == 64 && ::stat(part_path(*id).c_str(), &data) == 0 &&
                           ::stat(part_manifest_path(*id).c_str(), &leaves) == 0;
        const auto size = static_cast<std::uint64_t>(data.st_size);
        if (!whole || size > options.max_item_bytes ||
            static_cast<std::uint64_t>(leaves.st_size) != manifest_bytes(size))
            continue;
        const Descriptor file(::open(part_path(*id).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        const auto on_disk = file.get() < 0 ? std::vector<bool>{} : leaves_on_disk(file.get(), size);
        // Nothing would be gained by what is all holes.
        if (has_any(on_disk)) found.push_back({*id, size, room_of_holes(size, on_disk), data.st_mtime});
    }
    // What was worked on last keeps its room first.
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.changed > b.changed; });
    for (const Found& each : found) {
        const std::uint64_t bytes = stored_bytes(each.size);
        if (parts.size() >= kMaxParts || !fits_quota(bytes, 0) || contents.contains(each.id)) continue;
        KeptPart& part = parts[each.id];
        part.size = each.size;
        part.turn = found.size() - parts.size();
        part.unwritten = each.unwritten;
        reserved += bytes;
        unwritten += each.unwritten;
        closed_parts += bytes;
    }
    part_turn = found.size();
    for (const auto& name : names) {
        const bool is_manifest = name.ends_with(kManifestSuffix);
        const auto id = fixed_from_hex<32>(is_manifest ? name.substr(0, name.size() - kManifestSuffix.size()) : name);
        if (id && parts.contains(*id)) continue;
        log::info(log::Category::content, "removing what is left of a download name={}", name);
        (void)fs::remove_file(options.root + "/parts/" + name);
    }
}

void Store::Impl::claim_closed_part(KeptPart& part) {
    part.open = true;
    part.leaving = true;
    deduct(closed_parts, stored_bytes(part.size));
    leaving += stored_bytes(part.size);
}

std::optional<Hash32> Store::Impl::claim_oldest_part() {
    auto oldest = parts.end();
    for (auto at = parts.begin(); at != parts.end(); ++at)
        if (!at->second.open && (oldest == parts.end() || at->second.turn < oldest->second.turn)) oldest = at;
    if (oldest == parts.end()) return std::nullopt;
    claim_closed_part(oldest->second);
    return oldest->first;
}

bool Store::Impl::let_part_go() {
    std::optional<Hash32> oldest;
    {
        MutexLock lock(mutex);
        if (leaving != 0) {
            left.wait(lock);
            return true;
        }
        oldest = claim_oldest_part();
    }
    if (oldest) remove_part(*oldest);
    return oldest.has_value();
}

void Store::Impl::drop_closed_part(const Hash32& id) {
    {
        const MutexLock lock(mutex);
        const auto part = parts.find(id);
        if (part == parts.end() || part->second.open) return;
        claim_closed_part(part->second);
    }
    remove_part(id);
}

void Store::Impl::remove_part(const Hash32& id) {
    {
        const MutexLock lock(mutex);
        KeptPart& part = parts.at(id);
        if (!std::exchange(part.leaving, true)) leaving += stored_bytes(part.size);
    }
    (void)fs::remove_file(part_path(id));
    (void)fs::remove_file(part_manifest_path(id));
    const MutexLock lock(mutex);
    forget_part(id);
}

void Store::Impl::forget_part(const Hash32& id) {
    const auto part = parts.find(id);
    const std::uint64_t room = stored_bytes(part->second.size);
    deduct(reserved, room);
    deduct(unwritten, part->second.unwritten);
    if (part->second.leaving) deduct(leaving, room);
    parts.erase(part);
    left.notify_all();
}

void Store::Impl::close_part(const Hash32& id, bool keep) {
    {
        const MutexLock lock(mutex);
        const auto part = parts.find(id);
        // Not what came another way meanwhile.
        const auto content = contents.find(id);
        if (keep && (content == contents.end() || content->second.damaged)) {
            part->second.open = false;
            part->second.turn = ++part_turn;
            closed_parts += stored_bytes(part->second.size);
            return;
        }
    }
    remove_part(id);
}

void Store::Impl::wrote_part(const Hash32& id, std::int64_t bytes) {
    if (bytes == 0) return;
    const MutexLock lock(mutex);
    std::uint64_t& left_to_write = parts.at(id).unwritten;
    if (bytes < 0) {
        unwritten += static_cast<std::uint64_t>(-bytes);
        left_to_write += static_cast<std::uint64_t>(-bytes);
    } else {
        deduct(unwritten, static_cast<std::uint64_t>(bytes));
        deduct(left_to_write, static_cast<std::uint64_t>(bytes));
    }
}

std::uint64_t Store::max_item_bytes() const { return impl_->options.max_item_bytes; }

// --- One of them -----------------------------------------------------------------------------------------------------

Store::Part::Part(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Part::~Part() = default;

Expected<std::unique_ptr<Store::Part>> Store::open_part(const Hash32& id) {
    std::uint64_t size = 0;
    {
        const MutexLock lock(impl_->mutex);
        const auto part = impl_->parts.find(id);
        if (part == impl_->parts.end()) return fail("content.not_found", to_hex(id));
        if (part->second.open) return busy("content.part_open", to_hex(id));
        part->second.open = true;
        size = part->second.size;
        deduct(impl_->closed_parts, stored_bytes(size));
    }
    const auto bytes = fs::read_file(impl_->part_manifest_path(id), manifest_bytes(size));
    auto manifest = bytes ? decode_manifest(*bytes, id) : fail(bytes.error());
    const int descriptor = ::open(impl_->part_path(id).c_str(), O_RDWR | O_CLOEXEC);
    if (const int problem = errno; descriptor < 0 && problem != ENOENT) {
        // For want of descriptors, say: what is there stays there.
        impl_->close_part(id, true);
        return fault("content.read_failed", std::strerror(problem));
    }
    if (descriptor < 0 || !manifest || manifest->size != size) {
        if (descriptor >= 0) ::close(descriptor);
        impl_->remove_part(id);
        return fail("content.not_found", to_hex(id) + ": what was left of it is damaged");
    }
    auto part =
        std::make_unique<Part::Impl>(*impl_, id, std::make_shared<const Manifest>(std::move(*manifest)), descriptor);
    // A write that failed may have left some of a leaf.
    std::uint64_t counted = 0;
    {
        const MutexLock lock(impl_->mutex);
        counted = impl_->parts.at(id).unwritten;
    }
    impl_->wrote_part(id, static_cast<std::int64_t>(counted - part->room_left()));
    return std::unique_ptr<Part>(new Part(std::move(part)));
}

Expected<std::unique_ptr<Store::Part>> Store::begin_part(const Hash32& id, std::shared_ptr<const Manifest> manifest) {
    QUERN_CHECK(impl_->check_size(manifest->size));
    const std::uint64_t bytes = stored_bytes(manifest->size);
    const auto is_known = [&]() QUERN_REQUIRES(impl_->mutex) { return impl_->parts.contains(id); };
    {
        const MutexLock lock(impl_->mutex);
        if (is_known()) return busy("content.part_open", to_hex(id));
    }
    QUERN_CHECK(impl_->take_room(bytes));
    std::optional<Hash32> oldest;
    {
        const MutexLock lock(impl_->mutex);
        const bool full = impl_->parts.size() >= kMaxParts;
        if (is_known() || (full && !(oldest = impl_->claim_oldest_part()))) {
            deduct(impl_->reserved, bytes);
            deduct(impl_->unwritten, bytes);
            return busy("content.part_open", to_hex(id));
        }
        KeptPart& part = impl_->parts[id];
        part.size = manifest->size;
        part.open = true;
        part.unwritten = bytes;
    }
    if (oldest) impl_->remove_part(*oldest);
    const std::string path = impl_->part_path(id);
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int problem = descriptor < 0 ? errno : 0;
    // As long as it will be, and empty: what was never written is a hole.
    if (descriptor >= 0 && ::ftruncate(descriptor, static_cast<off_t>(manifest->size)) != 0) problem = errno;
    Status made;
    if (problem != 0)
        made = write_error(path, problem);
    else if (const auto kept = fs::write_file_atomic(impl_->part_manifest_path(id), encode(*manifest)); !kept)
        made = write_error(kept.error());
    if (!made) {
        if (descriptor >= 0) ::close(descriptor);
        impl_->remove_part(id);
        return fail(made.error());
    }
    auto part = std::make_unique<Part::Impl>(*impl_, id, std::move(manifest), descriptor);
    impl_->wrote_part(id, static_cast<std::int64_t>(bytes - part->room_left()));
    return std::unique_ptr<Part>(new Part(std::move(part)));
}

const std::shared_ptr<const Manifest>& Store::Part::manifest() const { return impl_->manifest; }

Status Store::Part::write(std::uint64_t offset, BytesView bytes) {
    const std::uint64_t first = offset / crypto::kContentLeafBytes;
    if (offset % crypto::kContentLeafBytes != 0 || !leaves_match(*impl_->manifest, first, bytes))
        return fail(kBadLeaf, "at " + std::to_string(offset));
    Store::Impl& store = impl_->store;
    QUERN_CHECK(store.check_disk(bytes.size()));
    if (const auto written = write_all(impl_->file.get(), offset, bytes, store.part_path(impl_->id),
                                       [&store] { return store.let_part_go(); });
        !written) {
        const MutexLock lock(impl_->mutex);
        impl_->refused |= written.error().name != kContentDiskFull;
        return written;
    }
#ifdef __linux__
    // The disk begins with it now, so that publish() has little left to wait for.
    (void)::sync_file_range(impl_->file.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes.size()),
                            SYNC_FILE_RANGE_WRITE);
#endif
    impl_->note(first, bytes.size(), true);
    return {};
}

bool Store::Part::has_data(std::uint64_t offset, std::uint64_t length) const {
    const off_t next = ::lseek(impl_->file.get(), static_cast<off_t>(offset), SEEK_DATA);
    if (next < 0) return errno != ENXIO;  // ENXIO: a hole up to the end; else nobody knows, and check() will
    return static_cast<std::uint64_t>(next) < offset + length;
}

Expected<Bytes> Store::Part::read(std::uint64_t offset, std::uint64_t length) const {
    const std::uint64_t size = impl_->manifest->size;
    if (offset >= size) return Bytes{};
    Bytes bytes(std::min({length, size - offset, kMaxReadBytes}));
    const ssize_t got = read_at(impl_->file.get(), bytes, offset);
    if (got < 0) return fault("content.read_failed", std::strerror(errno));
    if (static_cast<std::size_t>(got) < bytes.size()) return fail(kBadLeaf, "the file is too short");
    const std::uint64_t first = offset / crypto::kContentLeafBytes;
    if (offset % crypto::kContentLeafBytes == 0 && leaves_match(*impl_->manifest, first, bytes)) return bytes;
    if (offset % crypto::kContentLeafBytes == 0) impl_->note_bad(first, bytes);
    return fail(kBadLeaf, "at " + std::to_string(offset));
}

Status Store::Part::check(std::uint64_t offset, std::uint64_t length) {
    const auto bytes = read(offset, length);
    if (bytes) {
        impl_->note(offset / crypto::kContentLeafBytes, bytes->size(), false);
        return {};
    }
    const std::uint64_t size = impl_->manifest->size;
    if (bytes.error().name == kBadLeaf && offset % crypto::kContentLeafBytes == 0 && offset < size)
        impl_->make_hole(offset, std::min(length, size - offset));
    return fail(bytes.error());
}

Status Store::Part::publish() {
    {
        const MutexLock lock(impl_->mutex);
        if (impl_->missing != 0)
            return fail("content.incomplete", std::to_string(impl_->missing) + " leaves are not there");
    }
    Store::Impl& store = impl_->store;
    const std::string path = store.part_path(impl_->id);
    if (::fsync(impl_->file.get()) != 0) {
        // The kernel tells of lost pages once: a later look would find right bytes that never reached the disk.
        const int problem = errno;
        impl_->mark_published();
        store.remove_part(impl_->id);
        return write_error(path, problem);
    }
    QUERN_CHECK(store.publish(impl_->id, impl_->manifest->size, path, store.part_manifest_path(impl_->id), nullptr));
    impl_->mark_published();
    return {};
}

}  // namespace quern::content
