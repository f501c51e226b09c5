#include "content/store.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/fs.h"
#include "base/log.h"
#include "content/store_impl.h"

namespace quern::content {
namespace {

std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    DIR* handle = ::opendir(directory.c_str());
    if (handle == nullptr) return names;
    while (const dirent* entry = ::readdir(handle)) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    ::closedir(handle);
    std::sort(names.begin(), names.end());
    return names;
}

// What is free for this process, or more than any where the system does not say.
std::uint64_t free_bytes(const std::string& directory) {
    struct statvfs disk {};
    if (::statvfs(directory.c_str(), &disk) != 0) return std::numeric_limits<std::uint64_t>::max() / 2;
    return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

}  // namespace

struct Store::Upload::Impl {
    Store::Impl& store;
    Hash32 id;
    std::uint64_t size;
    std::string path;  // in tmp/
    Descriptor file;
    crypto::ContentHasher hasher;
    bool failed = false;
    std::uint64_t held = 0;     // of the room
    std::uint64_t on_disk = 0;  // of that

    // Sees that it holds so much.
    [[nodiscard]] Status hold(std::uint64_t bytes) {
        if (bytes <= held) return {};
        QUERN_CHECK(store.take_room(bytes - held));
        const MutexLock lock(store.mutex);
        store.announced += bytes - held;
        held = bytes;
        return {};
    }
    void wrote(std::uint64_t bytes) {
        const MutexLock lock(store.mutex);
        deduct(store.unwritten, bytes);
        deduct(store.announced, bytes);
        on_disk += bytes;
    }
    void give_back() QUERN_REQUIRES(store.mutex) {
        deduct(store.unwritten, held - on_disk);
        deduct(store.announced, held - on_disk);
        deduct(store.reserved, held);
        held = 0;
        on_disk = 0;
    }

    Impl(Store::Impl& owner, const Hash32& content, std::uint64_t bytes, std::uint64_t room, std::string temporary)
        : store(owner), id(content), size(bytes), path(std::move(temporary)), file(-1), held(room) {}
    ~Impl() {
        file.close();
        // Gone already after a successful finish.
        (void)fs::remove_file(path);
        (void)fs::remove_file(path + std::string(kManifestSuffix));
        const MutexLock lock(store.mutex);
        give_back();
        --store.uploads;
    }
};

Expected<std::shared_ptr<const Manifest>> Store::Impl::manifest(const Hash32& id) const {
    {
        const MutexLock lock(mutex);
        if (!contents.contains(id)) return fail("content.not_found", to_hex(id));
        if (const auto cached = manifests.find(id); cached != manifests.end()) return cached->second;
    }
    auto bytes = fs::read_file(manifest_path(id), manifest_bytes(options.max_item_bytes));
    if (!bytes && bytes.error().name == "fs.not_found") return fail("content.not_found", to_hex(id));
    if (!bytes) return fail("content.read_failed", bytes.error().to_string());
    auto decoded = decode_manifest(*bytes, id);
    if (!decoded) return found(id, decoded.error());
    auto shared = std::make_shared<const Manifest>(std::move(*decoded));
    const MutexLock lock(mutex);
    if (manifests.size() >= kMaxCachedManifests) manifests.erase(manifests.begin());
    manifests[id] = shared;
    return shared;
}

tl::unexpected<Error> Store::Impl::found(const Hash32& id, Error why) const {
    const MutexLock lock(mutex);
    const auto content = contents.find(id);
    if (content == contents.end() || why.name != kCorrupt) return fail(std::move(why));
    if (!std::exchange(content->second.damaged, true))
        log::warning(log::Category::content, "damaged, put it again or fetch it id={} reason={}", to_hex(id),
                     why.detail);
    return fail(std::move(why));
}

Status Store::Impl::scan_directory(const std::string& name) {
    const std::string directory = options.root + "/" + name;
    const auto names = names_in(directory);
    for (const auto& entry : names) {
        const std::string path = directory + "/" + entry;
        const bool is_manifest = entry.ends_with(kManifestSuffix);
        const std::string stem = is_manifest ? entry.substr(0, entry.size() - kManifestSuffix.size()) : entry;
        const auto id = fixed_from_hex<32>(stem);
        const std::string partner = is_manifest ? stem : entry + std::string(kManifestSuffix);
        if (!id || stem.size() != 64) {
            log::warning(log::Category::content, "unknown file in the content store path={}", path);
            continue;
        }
        if (!std::binary_search(names.begin(), names.end(), partner)) {
            // A crash between the two renames of a publication leaves a manifest here alone. A part goes on with it.
            if (is_manifest && fs::exists(part_path(*id)) && !fs::exists(part_manifest_path(*id)) &&
                ::rename(path.c_str(), part_manifest_path(*id).c_str()) == 0)
                continue;
            log::info(log::Category::content, "removing half of an unfinished publication path={}", path);
            QUERN_CHECK(fs::remove_file(path));
            continue;
        }
        QUERN_TRY(const auto bytes, fs::file_size(path));
        used += disk_bytes(bytes);
        KeptContent& content = contents[*id];
        content.room += disk_bytes(bytes);
        if (!is_manifest) content.size = bytes;
    }
    return {};
}

namespace {

// Of an earlier format, not damaged.
bool is_of_earlier_format(const std::string& manifest) {
    std::array<char, kManifestMagic.size()> magic{};
    const Descriptor file(::open(manifest.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0 || ::read(file.get(), magic.data(), magic.size()) != static_cast<ssize_t>(magic.size()))
        return false;
    const std::string_view found(magic.data(), magic.size());
    return found.starts_with(kManifestMagicOfAny) && found != kManifestMagic;
}

}  // namespace

// All manifests are looked at once in a store's life.
Status Store::Impl::remove_earlier_formats() const {
    const std::string marker = options.root + "/format";
    if (const auto format = fs::read_file(marker, 64); format && equal(*format, as_bytes(kManifestMagic))) return {};
    std::size_t removed = 0;
    for (const auto& folder : names_in(options.root)) {
        if (folder.size() != 2 && folder != "parts") continue;
        for (const auto& name : names_in(options.root + "/" + folder)) {
            const std::string path = options.root + "/" + folder + "/" + name;
            if (!name.ends_with(kManifestSuffix) || !is_of_earlier_format(path)) continue;
            QUERN_CHECK(fs::remove_file(path.substr(0, path.size() - kManifestSuffix.size())));
            QUERN_CHECK(fs::remove_file(path));
            ++removed;
        }
    }
    if (removed != 0)
        log::info(log::Category::content, "removed contents of an earlier format, put them again contents={}", removed);
    return fs::write_file_atomic(marker, as_bytes(kManifestMagic));
}

void remove_old_downloads(const std::string& directory) {
    constexpr std::string_view kSuffix = ".part";
    std::size_t removed = 0;
    for (const auto& name : names_in(directory))
        if (name.ends_with(kSuffix) && fixed_from_hex<32>(name.substr(0, 64)) &&
            fs::remove_file(directory + "/" + name))
            ++removed;
    if (::rmdir(directory.c_str()) == 0 || removed != 0)
        log::info(log::Category::content, "removed downloads of an earlier version path={} files={}", directory,
                  removed);
}

Status Store::Impl::scan() {
    for (const auto& name : names_in(options.root + "/tmp"))
        QUERN_CHECK(fs::remove_file(options.root + "/tmp/" + name));
    for (const auto& name : names_in(options.root))
        if (name.size() == 2) QUERN_CHECK(scan_directory(name));
    scan_parts(names_in(options.root + "/parts"));
    return {};
}

Status Store::Impl::prepare_directory(const Hash32& id) const {
    const std::string directory = directory_of(id);
    if (fs::exists(directory)) return {};
    Status made = fs::create_directories(directory);
    if (made) made = fs::sync_directory(options.root);
    return made ? made : write_error(made.error());
}

Status Store::Impl::check_size(std::uint64_t size) const {
    if (size <= options.max_item_bytes) return {};
    return fail("content.too_large",
                std::to_string(size) + " bytes; the limit is " + std::to_string(options.max_item_bytes));
}

bool Store::Impl::fits_quota(std::uint64_t bytes, std::uint64_t gain) const {
    return bytes <= options.quota_bytes && used + reserved - gain <= options.quota_bytes - bytes;
}

bool Store::Impl::fits_disk(std::uint64_t bytes, std::uint64_t gain) const {
    if (options.min_free_bytes == 0) return true;
    const std::uint64_t free = free_bytes(options.root) + gain;
    return bytes <= free && unwritten + options.min_free_bytes <= free - bytes;
}

Status Store::Impl::check_room(std::uint64_t bytes) const {
    if (contents.size() >= options.max_items)
        return fail("content.quota_exceeded",
                    std::to_string(contents.size()) + " contents are here, which is the limit");
    const std::uint64_t gain = closed_parts + leaving;
    if (!fits_quota(bytes, gain))
        return fail("content.quota_exceeded", std::to_string(bytes) + " bytes wanted; " +
                                                  std::to_string(used + reserved - gain) + " of " +
                                                  std::to_string(options.quota_bytes) + " used");
    if (!fits_disk(bytes, gain))
        return fault(kContentDiskFull, std::to_string(bytes) + " bytes wanted; of " +
                                           std::to_string(free_bytes(options.root)) + " that are free " +
                                           std::to_string(unwritten) + " are promised and " +
                                           std::to_string(options.min_free_bytes) + " stay so");
    return {};
}

void Store::Impl::reserve(std::uint64_t bytes) {
    reserved += bytes;
    unwritten += bytes;
}

Status Store::Impl::take_room(std::uint64_t bytes) {
    for (;;) {
        {
            const MutexLock lock(mutex);
            QUERN_CHECK(check_room(bytes));
            if (fits_quota(bytes, 0) && fits_disk(bytes, 0)) {
                reserve(bytes);
                return {};
            }
        }
        (void)let_part_go();
    }
}

Status Store::Impl::check_disk(std::uint64_t bytes) {
    if (options.min_free_bytes == 0) return {};
    for (;;) {
        const std::uint64_t free = free_bytes(options.root);
        if (free >= bytes + options.min_free_bytes / 2) return {};
        if (!let_part_go())
            return fault(kContentDiskFull, std::to_string(free) + " bytes are free, which others shall have");
    }
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Expected<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    QUERN_CHECK(fs::create_directories(options.root + "/tmp"));
    QUERN_CHECK(fs::create_directories(options.root + "/parts"));
    QUERN_CHECK(impl->remove_earlier_formats());
    {
        const MutexLock lock(impl->mutex);
        QUERN_CHECK(impl->scan());
    }
    return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Expected<std::uint64_t> Store::size(const Hash32& id) const {
    const MutexLock lock(impl_->mutex);
    const auto found = impl_->contents.find(id);
    if (found == impl_->contents.end()) return fail("content.not_found", to_hex(id));
    if (found->second.damaged) return fail(kCorrupt, to_hex(id));
    return found->second.size;
}

Expected<Bytes> Store::read(const Hash32& id, std::uint64_t offset, std::uint64_t length) const {
    QUERN_TRY(const auto manifest, impl_->manifest(id));
    if (offset >= manifest->size || length == 0) return Bytes{};
    length = std::min({length, manifest->size - offset, kMaxReadBytes});

    const std::string path = impl_->data_path(id);
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (const int problem = errno; file.get() < 0)
        return fail(problem == ENOENT ? "content.not_found" : "content.read_failed",
                    path + ": " + std::strerror(problem));

    // Whole leaves are read, checked, and the wanted part is cut out.
    const std::uint64_t first = offset / crypto::kContentLeafBytes;
    const std::uint64_t last = (offset + length - 1) / crypto::kContentLeafBytes;
    const std::uint64_t start = first * crypto::kContentLeafBytes;
    const std::uint64_t end = std::min(manifest->size, (last + 1) * crypto::kContentLeafBytes);
    Bytes bytes(end - start);
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t got =
            ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(start + done));
        const int problem = errno;
        if (got < 0 && problem == EINTR) continue;
        if (got < 0) return fail("content.read_failed", path + ": " + std::strerror(problem));
        if (got == 0)
            return impl_->found(id, Error{kCorrupt, path + " is shorter than its manifest says", ErrorKind::input});
        done += static_cast<std::size_t>(got);
    }
    for (std::uint64_t leaf = first; leaf <= last; ++leaf) {
        const std::size_t at = (leaf - first) * crypto::kContentLeafBytes;
        const std::size_t count = std::min(crypto::kContentLeafBytes, bytes.size() - at);
        if (crypto::content_leaf(BytesView(bytes).subspan(at, count)) != manifest->leaves[leaf])
            return impl_->found(id, Error{kCorrupt, path + ": leaf " + std::to_string(leaf) + " differs from its hash",
                                          ErrorKind::input});
    }
    bytes.resize(offset - start + length);
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(offset - start));
    return bytes;
}

Expected<std::shared_ptr<const Manifest>> Store::manifest(const Hash32& id) const { return impl_->manifest(id); }

Status Store::verify(const Hash32& id) const {
    QUERN_TRY(const auto total, size(id));
    QUERN_TRY(const auto manifest, impl_->manifest(id));
    if (manifest->size != total)
        return impl_->found(id,
                            Error{kCorrupt, to_hex(id) + ": file size differs from the manifest", ErrorKind::input});
    for (std::uint64_t at = 0; at < total; at += kMaxReadBytes) QUERN_CHECK(read(id, at, kMaxReadBytes));
    return {};
}

std::vector<Hash32> Store::list() const {
    const MutexLock lock(impl_->mutex);
    std::vector<Hash32> ids;
    ids.reserve(impl_->contents.size());
    for (const auto& [id, content] : impl_->contents) ids.push_back(id);
    return ids;
}

Status Store::remove(const Hash32& id) {
    const MutexLock alone(impl_->publishing);
    if (const auto known = size(id); !known && known.error().name != kCorrupt) return fail(known.error());
    // The bytes go first: a manifest alone is cleaned up at the next start.
    QUERN_CHECK(fs::remove_file(impl_->data_path(id)));
    {
        const MutexLock lock(impl_->mutex);
        const auto content = impl_->contents.find(id);
        deduct(impl_->used, content->second.room);
        impl_->contents.erase(content);
        impl_->manifests.erase(id);
    }
    QUERN_CHECK(fs::remove_file(impl_->manifest_path(id)));
    return fs::sync_directory(impl_->directory_of(id));
}

StoreUsage Store::usage() const {
    const MutexLock lock(impl_->mutex);
    return {impl_->contents.size(), impl_->used, impl_->reserved, impl_->unwritten};
}

Expected<std::unique_ptr<Store::Upload>> Store::begin_upload(const Hash32& id, std::uint64_t size) {
    QUERN_CHECK(impl_->check_size(size));
    const std::uint64_t needed = stored_bytes(size);
    std::uint64_t room = 0;
    std::string path;
    {
        const MutexLock lock(impl_->mutex);
        if (impl_->uploads >= kMaxUploads)
            return busy("content.too_many_uploads", std::to_string(kMaxUploads) + " uploads are open");
        QUERN_CHECK(impl_->check_room(needed));
        // Who announces much and sends nothing takes nothing from others: not what they have here, and half of what is
        // free at most.
        const bool may_announce = impl_->announced + needed <= impl_->options.quota_bytes / 2;
        if (may_announce && impl_->fits_quota(needed, 0) && impl_->fits_disk(needed, 0)) {
            room = needed;
            impl_->reserve(room);
            impl_->announced += room;
        }
        path = impl_->options.root + "/tmp/" + to_hex(id) + "." + std::to_string(impl_->next_upload++);
        ++impl_->uploads;
    }
    // From here on the upload's destructor gives its place back.
    auto upload = std::make_unique<Upload::Impl>(*impl_, id, size, room, path);
    upload->file = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (const int problem = errno; upload->file.get() < 0) return write_error(path, problem);
    return std::unique_ptr<Upload>(new Upload(std::move(upload)));
}

Expected<Hash32> Store::put(BytesView content) {
    const Hash32 id = crypto::content_id_of(content);
    QUERN_TRY(const auto upload, begin_upload(id, content.size()));
    QUERN_CHECK(upload->append(content));
    QUERN_CHECK(upload->finish());
    return id;
}

Store::Upload::Upload(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Upload::~Upload() = default;

Status Store::Upload::append(BytesView bytes) {
    if (impl_->failed) return fault("content.write_failed", "the upload failed before");
    impl_->failed = true;  // until this append is through
    if (bytes.size() > impl_->size - impl_->hasher.size())
        return fail("content.too_large", "more than the announced " + std::to_string(impl_->size) + " bytes");
    const std::uint64_t offset = impl_->hasher.size();
    const std::uint64_t end = offset + bytes.size();
    const std::uint64_t room = end == 0 ? 0 : disk_bytes(end);
    QUERN_CHECK(impl_->hold(room));
    QUERN_CHECK(impl_->store.check_disk(bytes.size()));
    QUERN_CHECK(write_all(impl_->file.get(), offset, bytes, impl_->path,
                          [&store = impl_->store] { return store.let_part_go(); }));
    impl_->wrote(room - impl_->on_disk);
    impl_->hasher.update(bytes);
    impl_->failed = false;
    return {};
}

Status Store::Impl::move_into_place(const Hash32& id, const std::string& path, const std::string& its_manifest,
                                    bool is_new) {
    const std::string data = data_path(id);
    const std::string manifest = manifest_path(id);
    const auto move = [](const std::string& from, const std::string& to) -> Status {
        if (::rename(from.c_str(), to.c_str()) == 0) return {};
        const int problem = errno;
        return write_error(to, problem);
    };
    const auto sync = [&]() -> Status {
        const Status synced = fs::sync_directory(directory_of(id));
        return synced ? synced : write_error(synced.error());
    };
    QUERN_CHECK(move(its_manifest, manifest));
    // The manifest's name is durable before the data's: the data's presence is what makes a content exist.
    Status moved = sync();
    if (moved) moved = move(path, data);
    if (moved && !(moved = sync()) && is_new) (void)move(data, path);
    if (!moved && is_new) (void)move(manifest, its_manifest);
    return moved;
}

Status Store::Upload::finish() {
    if (impl_->failed) return fault("content.write_failed", "the upload failed before");
    impl_->failed = true;  // one finish only
    if (impl_->hasher.size() != impl_->size)
        return fail("content.incomplete",
                    "got " + std::to_string(impl_->hasher.size()) + " of " + std::to_string(impl_->size) + " bytes");
    if (const Hash32 actual = impl_->hasher.finish(); actual != impl_->id)
        return fail("content.id_mismatch", "announced " + to_hex(impl_->id) + ", the bytes are " + to_hex(actual));
    Store::Impl& store = impl_->store;
    QUERN_CHECK(impl_->hold(stored_bytes(impl_->size)));
    if (::fsync(impl_->file.get()) != 0) {
        const int problem = errno;
        return write_error(impl_->path, problem);
    }
    const std::string manifest = impl_->path + std::string(kManifestSuffix);
    if (const auto written = fs::write_file_atomic(manifest, encode(Manifest{impl_->size, impl_->hasher.leaves()}));
        !written)
        return write_error(written.error());
    impl_->wrote(impl_->held - impl_->on_disk);
    QUERN_CHECK(store.publish(impl_->id, impl_->size, impl_->path, manifest,
                              [&]() QUERN_REQUIRES(store.mutex) { impl_->give_back(); }));
    store.drop_closed_part(impl_->id);
    return {};
}

}  // namespace quern::content
