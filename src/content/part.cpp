// Contents that come in chunks.
#include <sys/stat.h>

#include <algorithm>

#include "base/fs.h"
#include "base/log.h"
#include "content/store_impl.h"

namespace quern::content {

struct Store::Part::Impl {
    Store::Impl& store;
    const Hash32 id;
    const std::shared_ptr<const Manifest> manifest;
    Descriptor file;
    bool published = false;  // then others may have a part of this id
    Mutex mutex;
    std::vector<bool> good QUERN_GUARDED_BY(mutex);  // leaves that are in the file
    std::uint64_t missing QUERN_GUARDED_BY(mutex);

    Impl(Store::Impl& owner, const Hash32& content, std::shared_ptr<const Manifest> leaves, int descriptor)
        : store(owner),
          id(content),
          manifest(std::move(leaves)),
          file(descriptor),
          good(manifest->leaves.size()),
          missing(manifest->leaves.size()) {}
    ~Impl() {
        if (!published) store.close_part(id);
    }

    void note(std::uint64_t first, std::uint64_t bytes) QUERN_EXCLUDES(mutex) {
        const MutexLock lock(mutex);
        for (std::uint64_t leaf = first; leaf < first + crypto::content_leaf_count(bytes); ++leaf) {
            if (!good[leaf]) --missing;
            good[leaf] = true;
        }
    }
};

// --- Which there are -------------------------------------------------------------------------------------------------

void Store::Impl::scan_parts(const std::vector<std::string>& names) {
    struct Found {
        Hash32 id;
        std::uint64_t size = 0;
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
        if (whole && size <= options.max_item_bytes &&
            static_cast<std::uint64_t>(leaves.st_size) == manifest_bytes(size))
            found.push_back({*id, size, data.st_mtime});
    }
    // What was worked on last keeps its room first.
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.changed > b.changed; });
    for (const Found& each : found) {
        const std::uint64_t bytes = stored_bytes(each.size);
        const bool fits = bytes <= options.quota_bytes && used + reserved <= options.quota_bytes - bytes;
        if (parts.size() >= kMaxParts || !fits || sizes.contains(each.id)) continue;
        parts[each.id] = {each.size, false, found.size() - parts.size()};
        reserved += bytes;
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

std::optional<Hash32> Store::Impl::claim_oldest_part() {
    auto oldest = parts.end();
    for (auto at = parts.begin(); at != parts.end(); ++at)
        if (!at->second.open && (oldest == parts.end() || at->second.turn < oldest->second.turn)) oldest = at;
    if (oldest == parts.end()) return std::nullopt;
    oldest->second.open = true;
    deduct(closed_parts, stored_bytes(oldest->second.size));
    return oldest->first;
}

void Store::Impl::remove_part(const Hash32& id) {
    (void)fs::remove_file(part_path(id));
    (void)fs::remove_file(part_manifest_path(id));
    const MutexLock lock(mutex);
    const auto part = parts.find(id);
    deduct(reserved, stored_bytes(part->second.size));
    parts.erase(part);
}

void Store::Impl::close_part(const Hash32& id) {
    {
        const MutexLock lock(mutex);
        const auto part = parts.find(id);
        if (!sizes.contains(id)) {
            part->second.open = false;
            part->second.turn = ++part_turn;
            closed_parts += stored_bytes(part->second.size);
            return;
        }
    }
    remove_part(id);  // the content came another way
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
    if (descriptor < 0 && errno != ENOENT) {
        // For want of descriptors, say: what is there stays there.
        const int problem = errno;
        impl_->close_part(id);
        return fault("content.read_failed", std::strerror(problem));
    }
    if (descriptor < 0 || !manifest || manifest->size != size) {
        if (descriptor >= 0) ::close(descriptor);
        impl_->remove_part(id);
        return fail("content.not_found", to_hex(id) + ": what was left of it is damaged");
    }
    return std::unique_ptr<Part>(new Part(
        std::make_unique<Part::Impl>(*impl_, id, std::make_shared<const Manifest>(std::move(*manifest)), descriptor)));
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
            return busy("content.part_open", to_hex(id));
        }
        impl_->parts[id] = {manifest->size, true, 0};
    }
    if (oldest) impl_->remove_part(*oldest);
    const std::string path = impl_->part_path(id);
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    Status made;
    // As long as it will be, and empty: what was never written is a hole.
    if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(manifest->size)) != 0)
        made = write_error(path, errno);
    else if (const auto kept = fs::write_file_atomic(impl_->part_manifest_path(id), encode(*manifest)); !kept)
        made = fault(errno == ENOSPC || errno == EDQUOT ? "content.disk_full" : "content.write_failed",
                     kept.error().to_string());
    if (!made) {
        if (descriptor >= 0) ::close(descriptor);
        impl_->remove_part(id);
        return fail(made.error());
    }
    return std::unique_ptr<Part>(new Part(std::make_unique<Part::Impl>(*impl_, id, std::move(manifest), descriptor)));
}

const std::shared_ptr<const Manifest>& Store::Part::manifest() const { return impl_->manifest; }

Status Store::Part::write(std::uint64_t offset, BytesView bytes) {
    const std::uint64_t first = offset / crypto::kContentLeafBytes;
    if (offset % crypto::kContentLeafBytes != 0 || !leaves_match(*impl_->manifest, first, bytes))
        return fail("content.bad_leaf", "at " + std::to_string(offset));
    const std::uint64_t size = bytes.size();
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(impl_->file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return write_error(impl_->store.part_path(impl_->id), written == 0 ? ENOSPC : errno);
        offset += static_cast<std::uint64_t>(written);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
#ifdef __linux__
    // The disk begins with it now, so that publish() has little left to wait for.
    (void)::sync_file_range(impl_->file.get(), static_cast<off_t>(offset - size), static_cast<off_t>(size),
                            SYNC_FILE_RANGE_WRITE);
#endif
    impl_->note(first, size);
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
    if (static_cast<std::size_t>(got) < bytes.size()) return fail("content.bad_leaf", "the file is too short");
    if (offset % crypto::kContentLeafBytes != 0 ||
        !leaves_match(*impl_->manifest, offset / crypto::kContentLeafBytes, bytes))
        return fail("content.bad_leaf", "at " + std::to_string(offset));
    return bytes;
}

Status Store::Part::check(std::uint64_t offset, std::uint64_t length) {
    QUERN_TRY(const auto bytes, read(offset, length));
    impl_->note(offset / crypto::kContentLeafBytes, bytes.size());
    return {};
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
        impl_->published = true;
        store.remove_part(impl_->id);
        return write_error(path, problem);
    }
    QUERN_CHECK(store.publish(impl_->id, *impl_->manifest, path));
    impl_->published = true;
    store.remove_part(impl_->id);  // its manifest, and its room, which the content counts now
    return {};
}

}  // namespace quern::content
