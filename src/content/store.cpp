#include "content/store.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

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

}  // namespace

struct Store::Upload::Impl {
    Store::Impl& store;
    Hash32 id;
    std::uint64_t size;
    std::string path;  // in tmp/
    Descriptor file;
    crypto::ContentHasher hasher;
    bool failed = false;
    UploadRoom room;

    // Sees that it holds so much.
    [[nodiscard]] Status hold(std::uint64_t bytes) {
        if (bytes <= room.held) return {};
        QUERN_CHECK(store.take_room(bytes - room.held));
        const MutexLock lock(store.mutex);
        store.announced += bytes - room.held;
        room.held = bytes;
        return {};
    }
    // So much of it is on the disk now.
    void wrote(std::uint64_t bytes) {
        const MutexLock lock(store.mutex);
        deduct(store.unwritten, bytes - room.on_disk);
        deduct(store.announced, bytes - room.on_disk);
        room.on_disk = bytes;
    }

    Impl(Store::Impl& owner, const Hash32& content, std::uint64_t bytes, std::uint64_t has, std::string temporary)
        : store(owner), id(content), size(bytes), path(std::move(temporary)), file(-1), room{has, 0} {}
    ~Impl() {
        file.close();
        // Gone already after a successful finish.
        (void)fs::remove_file(path);
        (void)fs::remove_file(path + std::string(kManifestSuffix));
        const MutexLock lock(store.mutex);
        store.give_back(room);
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
        if (entry.ends_with(kListSuffix))
            if (const auto whole = fixed_from_hex<32>(entry.substr(0, entry.size() - kListSuffix.size()))) {
                QUERN_CHECK(scan_list(path, *whole));
                continue;
            }
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
        struct stat file {};
        if (::stat(path.c_str(), &file) != 0) {
            const int problem = errno;
            return fault("content.read_failed", path + ": " + std::strerror(problem));
        }
        const auto bytes = static_cast<std::uint64_t>(file.st_size);
        used += disk_bytes(bytes);
        KeptContent& content = contents[*id];
        content.room += disk_bytes(bytes);
        if (is_manifest) continue;
        content.size = bytes;
        content.used_s = file.st_mtime;
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

void Store::Impl::use(const Hash32& id) const {
    constexpr std::int64_t kOftenEnough = 3'600;
    bool content = false;
    bool list = false;
    {
        const MutexLock lock(mutex);
        const std::int64_t now = unix_now();
        const auto is_news = [&](std::map<Hash32, KeptContent>& kept) {
            const auto at = kept.find(id);
            if (at == kept.end() || now < at->second.used_s + kOftenEnough) return false;
            at->second.used_s = now;
            return true;
        };
        content = is_news(contents);
        list = is_news(lists);
    }
    // For the next start.
    if (content) (void)::utimensat(AT_FDCWD, data_path(id).c_str(), nullptr, 0);
    if (list) (void)::utimensat(AT_FDCWD, list_path(id).c_str(), nullptr, 0);
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
    impl_->use(id);
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
    const ssize_t got = read_at(file.get(), bytes, start);
    const int problem = errno;
    if (got < 0) return fail("content.read_failed", path + ": " + std::strerror(problem));
    if (static_cast<std::size_t>(got) < bytes.size())
        return impl_->found(id, Error{kCorrupt, path + " is shorter than its manifest says", ErrorKind::input});
    if (const std::vector<Hash32> leaves = crypto::content_leaves(bytes);
        !std::equal(leaves.begin(), leaves.end(), manifest->leaves.begin() + static_cast<std::ptrdiff_t>(first)))
        return impl_->found(
            id, Error{kCorrupt, path + ": the leaves from " + std::to_string(first) + " on differ from their hashes",
                      ErrorKind::input});
    bytes.resize(offset - start + length);
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(offset - start));
    return bytes;
}

Expected<std::shared_ptr<const Manifest>> Store::manifest(const Hash32& id) const { return impl_->manifest(id); }

std::uint64_t Store::unread_leaf_bytes(const Hash32& id) const {
    const MutexLock lock(impl_->mutex);
    const auto content = impl_->contents.find(id);
    if (content == impl_->contents.end() || impl_->manifests.contains(id)) return 0;
    return crypto::content_leaf_count(content->second.size) * Hash32::kSize;
}

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
    for (const auto& [id, list] : impl_->lists)
        if (!impl_->contents.contains(id)) ids.push_back(id);
    return ids;
}

Status Store::Impl::remove(const Hash32& id) {
    const MutexLock alone(publishing);
    bool whole = false;
    bool list = false;
    {
        const MutexLock lock(mutex);
        whole = contents.contains(id);
        list = lists.contains(id);
    }
    if (list) QUERN_CHECK(remove_list(id));
    if (!whole) return list ? Status() : fail("content.not_found", to_hex(id));
    // The bytes go first: a manifest alone is cleaned up at the next start.
    QUERN_CHECK(fs::remove_file(data_path(id)));
    {
        const MutexLock lock(mutex);
        const auto content = contents.find(id);
        deduct(used, content->second.room);
        contents.erase(content);
        manifests.erase(id);
    }
    QUERN_CHECK(fs::remove_file(manifest_path(id)));
    return fs::sync_directory(directory_of(id));
}

Status Store::remove(const Hash32& id) { return impl_->remove(id); }

StoreUsage Store::usage() const {
    const MutexLock lock(impl_->mutex);
    return {impl_->contents.size() + impl_->lists.size(), impl_->used, impl_->reserved, impl_->unwritten};
}

Expected<std::unique_ptr<Store::Upload>> Store::begin_upload(const Hash32& id, std::uint64_t size) {
    QUERN_CHECK(impl_->check_size(size));
    const std::uint64_t needed = stored_bytes(size);
    std::uint64_t room = 0;
    std::string path;
    // What others have here goes for bytes that come (Upload::append), not for an announcement that costs nothing.
    Status fits;
    {
        const MutexLock lock(impl_->mutex);
        fits = impl_->check_room(needed);
    }
    if (!fits && !impl_->may_find_room(needed)) return fail(fits.error());
    {
        const MutexLock lock(impl_->mutex);
        if (impl_->uploads >= kMaxUploads)
            return busy("content.too_many_uploads", std::to_string(kMaxUploads) + " uploads are open");
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
    impl_->wrote(room);
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

Status Store::Impl::publish(const Hash32& id, std::uint64_t size, const std::string& path,
                            const std::string& its_manifest, UploadRoom* upload) {
    QUERN_CHECK(prepare_directory(id));
    // A removal of the same id does not fall between the two renames.
    const MutexLock alone(publishing);
    bool is_new = false;
    {
        const MutexLock lock(mutex);
        is_new = !contents.contains(id);
    }
    QUERN_CHECK(move_into_place(id, path, its_manifest, is_new));
    const MutexLock lock(mutex);
    if (upload != nullptr)
        give_back(*upload);
    else
        forget_part(id);
    KeptContent& content = contents[id];
    used += stored_bytes(size);
    deduct(used, content.room);  // what it replaces
    content = {size, stored_bytes(size), false, unix_now()};
    manifests.erase(id);
    return {};
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
    impl_->wrote(impl_->room.held);
    QUERN_CHECK(store.publish(impl_->id, impl_->size, impl_->path, manifest, &impl_->room));
    store.drop_closed_part(impl_->id);
    return {};
}

}  // namespace quern::content
