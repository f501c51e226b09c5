#include "content/store.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <tuple>

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

constexpr std::string_view kPublishedSuffix = ".published";  // a manifest before it has its name

}  // namespace

struct Store::Upload::Impl {
    Store::Impl& store;
    Hash32 id;
    std::uint64_t size;
    std::string path;  // in tmp/
    Descriptor file;
    crypto::ContentHasher hasher;
    bool failed = false;
    std::uint64_t held = 0;  // of the quota

    // Takes the quota for what comes next.
    [[nodiscard]] Status take(std::uint64_t bytes) {
        QUERN_CHECK(store.take_room(bytes));
        held += bytes;
        return {};
    }

    Impl(Store::Impl& owner, const Hash32& content, std::uint64_t bytes, std::string temporary, int descriptor)
        : store(owner), id(content), size(bytes), path(std::move(temporary)), file(descriptor) {}
    ~Impl() {
        file.close();
        (void)fs::remove_file(path);  // gone already after a successful finish
        const MutexLock lock(store.mutex);
        deduct(store.reserved, held);
        --store.uploads;
    }
};

Expected<std::shared_ptr<const Manifest>> Store::Impl::manifest(const Hash32& id) const {
    {
        const MutexLock lock(mutex);
        const auto known = sizes.find(id);
        if (known == sizes.end()) return fail("content.not_found", to_hex(id));
        if (const auto cached = manifests.find(id); cached != manifests.end()) return cached->second;
    }
    auto bytes = fs::read_file(manifest_path(id), manifest_bytes(options.max_item_bytes));
    if (!bytes && bytes.error().name == "fs.not_found") return fail("content.not_found", to_hex(id));
    if (!bytes) return fail("content.read_failed", bytes.error().to_string());
    QUERN_TRY(auto decoded, decode_manifest(*bytes, id));
    auto shared = std::make_shared<const Manifest>(std::move(decoded));
    const MutexLock lock(mutex);
    if (manifests.size() >= kMaxCachedManifests) manifests.erase(manifests.begin());
    manifests[id] = shared;
    return shared;
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
            // A crash between the two renames of a publication leaves a manifest alone.
            log::info(log::Category::content, "removing half of an unfinished publication path={}", path);
            QUERN_CHECK(fs::remove_file(path));
            continue;
        }
        QUERN_TRY(const auto bytes, fs::file_size(path));
        used += disk_bytes(bytes);
        if (!is_manifest) sizes[*id] = bytes;
    }
    return {};
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
    if (const auto made = fs::create_directories(directory); !made)
        return fail(errno == ENOSPC ? "content.disk_full" : "content.write_failed", made.error().to_string());
    return fs::sync_directory(options.root);
}

Status Store::Impl::check_size(std::uint64_t size) const {
    if (size <= options.max_item_bytes) return {};
    return fail("content.too_large",
                std::to_string(size) + " bytes; the limit is " + std::to_string(options.max_item_bytes));
}

Status Store::Impl::check_room(std::uint64_t bytes) const {
    if (sizes.size() >= options.max_items)
        return fail("content.quota_exceeded", std::to_string(sizes.size()) + " contents are here, which is the limit");
    const std::uint64_t taken = used + reserved - closed_parts;
    if (bytes <= options.quota_bytes && taken <= options.quota_bytes - bytes) return {};
    return fail("content.quota_exceeded", std::to_string(bytes) + " bytes wanted; " + std::to_string(taken) + " of " +
                                              std::to_string(options.quota_bytes) + " used");
}

Status Store::Impl::take_room(std::uint64_t bytes) {
    for (;;) {
        std::optional<Hash32> oldest;
        {
            const MutexLock lock(mutex);
            QUERN_CHECK(check_room(bytes));
            if (used + reserved <= options.quota_bytes - bytes) {
                reserved += bytes;
                return {};
            }
            oldest = claim_oldest_part();
        }
        if (oldest) remove_part(*oldest);
    }
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Expected<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    QUERN_CHECK(fs::create_directories(options.root + "/tmp"));
    QUERN_CHECK(fs::create_directories(options.root + "/parts"));
    {
        const MutexLock lock(impl->mutex);
        QUERN_CHECK(impl->scan());
    }
    return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Expected<std::uint64_t> Store::size(const Hash32& id) const {
    const MutexLock lock(impl_->mutex);
    const auto found = impl_->sizes.find(id);
    if (found == impl_->sizes.end()) return fail("content.not_found", to_hex(id));
    return found->second;
}

Expected<Bytes> Store::read(const Hash32& id, std::uint64_t offset, std::uint64_t length) const {
    QUERN_TRY(const auto manifest, impl_->manifest(id));
    if (offset >= manifest->size || length == 0) return Bytes{};
    length = std::min({length, manifest->size - offset, kMaxReadBytes});

    const std::string path = impl_->data_path(id);
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
        return fail(errno == ENOENT ? "content.not_found" : "content.read_failed", path + ": " + std::strerror(errno));

    // Whole leaves are read, checked, and the wanted part is cut out.
    const std::uint64_t first = offset / crypto::kContentLeafBytes;
    const std::uint64_t last = (offset + length - 1) / crypto::kContentLeafBytes;
    const std::uint64_t start = first * crypto::kContentLeafBytes;
    const std::uint64_t end = std::min(manifest->size, (last + 1) * crypto::kContentLeafBytes);
    Bytes bytes(end - start);
    const ssize_t got = read_at(file.get(), bytes, start);
    if (got < 0) return fail("content.read_failed", path + ": " + std::strerror(errno));
    if (static_cast<std::size_t>(got) < bytes.size())
        return fail("content.corrupt", path + " is shorter than its manifest says");
    for (std::uint64_t leaf = first; leaf <= last; ++leaf) {
        const std::size_t at = (leaf - first) * crypto::kContentLeafBytes;
        const std::size_t count = std::min(crypto::kContentLeafBytes, bytes.size() - at);
        if (crypto::content_leaf(BytesView(bytes).subspan(at, count)) != manifest->leaves[leaf])
            return fail("content.corrupt", path + ": leaf " + std::to_string(leaf) + " differs from its hash");
    }
    bytes.resize(offset - start + length);
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(offset - start));
    return bytes;
}

Expected<std::shared_ptr<const Manifest>> Store::manifest(const Hash32& id) const { return impl_->manifest(id); }

Status Store::verify(const Hash32& id) const {
    QUERN_TRY(const auto total, size(id));
    QUERN_TRY(const auto manifest, impl_->manifest(id));
    if (manifest->size != total) return fail("content.corrupt", to_hex(id) + ": file size differs from the manifest");
    for (std::uint64_t at = 0; at < total; at += kMaxReadBytes) QUERN_CHECK(read(id, at, kMaxReadBytes));
    return {};
}

std::vector<Hash32> Store::list() const {
    const MutexLock lock(impl_->mutex);
    std::vector<Hash32> ids;
    ids.reserve(impl_->sizes.size());
    for (const auto& [id, size] : impl_->sizes) ids.push_back(id);
    return ids;
}

Status Store::remove(const Hash32& id) {
    const MutexLock alone(impl_->publishing);
    QUERN_TRY(const auto bytes, size(id));
    // The bytes go first: a manifest alone is cleaned up at the next start.
    QUERN_CHECK(fs::remove_file(impl_->data_path(id)));
    QUERN_CHECK(fs::remove_file(impl_->manifest_path(id)));
    QUERN_CHECK(fs::sync_directory(impl_->directory_of(id)));
    const MutexLock lock(impl_->mutex);
    deduct(impl_->used, stored_bytes(bytes));
    impl_->sizes.erase(id);
    impl_->manifests.erase(id);
    return {};
}

StoreUsage Store::usage() const {
    const MutexLock lock(impl_->mutex);
    return {impl_->sizes.size(), impl_->used, impl_->reserved};
}

Expected<std::unique_ptr<Store::Upload>> Store::begin_upload(const Hash32& id, std::uint64_t size) {
    QUERN_CHECK(impl_->check_size(size));
    const std::uint64_t needed = stored_bytes(size);
    std::string path;
    {
        const MutexLock lock(impl_->mutex);
        if (impl_->uploads == kMaxUploads)
            return busy("content.too_many_uploads", std::to_string(kMaxUploads) + " uploads are open");
        // Only whether it would fit: whoever announces much and sends nothing holds nothing.
        QUERN_CHECK(impl_->check_room(needed));
        path = impl_->options.root + "/tmp/" + to_hex(id) + "." + std::to_string(impl_->next_upload++);
        ++impl_->uploads;
    }
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    const int code = errno;
    // From here on the upload's destructor gives its place back.
    auto upload = std::make_unique<Upload::Impl>(*impl_, id, size, path, descriptor);
    if (descriptor < 0) return write_error(path, code);
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
    QUERN_CHECK(impl_->take(bytes.size()));
    QUERN_CHECK(write_all(impl_->file.get(), bytes, impl_->path));
    impl_->hasher.update(bytes);
    impl_->failed = false;
    return {};
}

Status Store::Impl::publish(const Hash32& id, const Manifest& manifest, const std::string& path) {
    QUERN_CHECK(prepare_directory(id));
    const Bytes encoded = encode(manifest);
    const std::string temporary = path + std::string(kPublishedSuffix);
    {
        Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        Status written;
        if (file.get() < 0)
            written = write_error(temporary, errno);
        else if (written = write_all(file.get(), encoded, temporary); written && ::fsync(file.get()) != 0)
            written = write_error(temporary, errno);
        if (!written) {
            (void)fs::remove_file(temporary);
            return written;
        }
    }
    // A removal of the same id does not fall between the two renames.
    const MutexLock alone(publishing);
    if (::rename(temporary.c_str(), manifest_path(id).c_str()) != 0) return write_error(manifest_path(id), errno);
    // The manifest's name is durable before the data's: the data's presence is what makes a content exist.
    QUERN_CHECK(fs::sync_directory(directory_of(id)));
    if (::rename(path.c_str(), data_path(id).c_str()) != 0) return write_error(data_path(id), errno);
    QUERN_CHECK(fs::sync_directory(directory_of(id)));
    const MutexLock lock(mutex);
    if (sizes.insert_or_assign(id, manifest.size).second) used += stored_bytes(manifest.size);
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
    QUERN_CHECK(impl_->take(stored_bytes(impl_->size) - impl_->size));
    if (::fsync(impl_->file.get()) != 0) return write_error(impl_->path, errno);
    QUERN_CHECK(impl_->store.publish(impl_->id, Manifest{impl_->size, impl_->hasher.leaves()}, impl_->path));
    const MutexLock lock(impl_->store.mutex);
    deduct(impl_->store.reserved, std::exchange(impl_->held, 0));  // it counts as a content now
    return {};
}

}  // namespace quern::content
