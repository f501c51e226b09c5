// Lists of shards: small files beside the contents. Each shard is a content as any other.
#include "base/log.h"
#include "content/store_impl.h"

namespace quern::content {
namespace {

constexpr std::string_view kListMagic = "QRNSHRD1";

constexpr std::size_t kMaxListFileBytes = kListMagic.size() + crypto::kMaxShardListBytes;

std::uint64_t list_room(const crypto::ContentShards& list) {
    return disk_bytes(kListMagic.size() + crypto::encode(list).size());
}

}  // namespace

std::uint64_t Store::unread_list_bytes(const Hash32& id) const {
    const MutexLock lock(impl_->mutex);
    const auto list = impl_->lists.find(id);
    return list == impl_->lists.end() || impl_->read_lists.contains(id) ? 0 : list->second.room;
}

Expected<std::shared_ptr<const crypto::ContentShards>> Store::shards(const Hash32& id) const {
    {
        const MutexLock lock(impl_->mutex);
        if (!impl_->lists.contains(id)) return fail("content.not_found", to_hex(id));
    }
    impl_->use(id);
    {
        const MutexLock lock(impl_->mutex);
        if (const auto cached = impl_->read_lists.find(id); cached != impl_->read_lists.end()) return cached->second;
    }
    const auto bytes = fs::read_file(impl_->list_path(id), kMaxListFileBytes);
    if (!bytes && bytes.error().name == "fs.not_found") return fail("content.not_found", to_hex(id));
    if (!bytes) return fail("content.read_failed", bytes.error().to_string());
    const bool is_one =
        bytes->size() > kListMagic.size() && equal(BytesView(*bytes).first(kListMagic.size()), as_bytes(kListMagic));
    auto list =
        is_one ? crypto::decode_content_shards(BytesView(*bytes).subspan(kListMagic.size()), impl_->options.shard_level)
               : fail("content.bad_shards");
    if (!list || list->id() != id) {
        // Nothing is lost that others do not have: the next who asks gets it from them.
        log::warning(log::Category::content, "damaged list of shards, put it again or fetch it id={}", to_hex(id));
        const MutexLock alone(impl_->publishing);
        (void)impl_->remove_list(id);
        return fail("content.not_found", to_hex(id));
    }
    auto shared = std::make_shared<const crypto::ContentShards>(std::move(*list));
    const MutexLock lock(impl_->mutex);
    if (impl_->read_lists.size() >= kMaxCachedLists) impl_->read_lists.erase(impl_->read_lists.begin());
    if (impl_->lists.contains(id)) impl_->read_lists[id] = shared;
    return shared;
}

unsigned Store::shard_level() const { return impl_->options.shard_level; }

Status Store::put_shards(const crypto::ContentShards& list) {
    const Hash32 id = list.id();
    if (shards(id)) return {};
    const std::uint64_t bytes = list_room(list);
    QUERN_CHECK(impl_->take_room(bytes));
    UploadRoom room{bytes, 0};
    std::string path = impl_->options.root + "/tmp/" + to_hex(id) + std::string(kListSuffix);
    {
        const MutexLock lock(impl_->mutex);
        impl_->announced += bytes;
        path += '.';
        path += std::to_string(impl_->next_upload++);
    }
    Status stored = impl_->check_disk(bytes);
    if (stored) {
        Bytes file = to_bytes(as_bytes(kListMagic));
        append(file, crypto::encode(list));
        if (const auto written = fs::write_file_atomic(path, file); !written) stored = write_error(written.error());
    }
    if (stored) stored = impl_->publish_list(id, path, room);
    if (!stored) (void)fs::remove_file(path);
    const MutexLock lock(impl_->mutex);
    impl_->give_back(room);
    return stored;
}

Status Store::Impl::publish_list(const Hash32& id, const std::string& path, UploadRoom& room) {
    QUERN_CHECK(prepare_directory(id));
    const MutexLock alone(publishing);
    if (::rename(path.c_str(), list_path(id).c_str()) != 0) {
        const int problem = errno;
        return write_error(list_path(id), problem);
    }
    const Status synced = fs::sync_directory(directory_of(id));
    {
        const MutexLock lock(mutex);
        KeptContent& kept = lists[id];
        used += room.held;
        deduct(used, kept.room);  // of another who put it at once
        kept = {0, room.held, false, unix_now()};
        give_back(room);
    }
    return synced ? synced : write_error(synced.error());
}

Status Store::Impl::remove_list(const Hash32& id) {
    QUERN_CHECK(fs::remove_file(list_path(id)));
    {
        const MutexLock lock(mutex);
        const auto list = lists.find(id);
        if (list == lists.end()) return {};
        deduct(used, list->second.room);
        lists.erase(list);
        read_lists.erase(id);
    }
    return fs::sync_directory(directory_of(id));
}

Status Store::Impl::scan_list(const std::string& path, const Hash32& id) {
    struct stat file {};
    if (::stat(path.c_str(), &file) != 0) {
        const int problem = errno;
        return fault("content.read_failed", path + ": " + std::strerror(problem));
    }
    KeptContent& list = lists[id];
    list.room = disk_bytes(static_cast<std::uint64_t>(file.st_size));
    list.used_s = file.st_mtime;
    used += list.room;
    return {};
}

std::vector<IdleContent> Store::Impl::idle_contents() const {
    const std::int64_t until = unix_now() - static_cast<std::int64_t>(options.min_idle_seconds);
    std::vector<IdleContent> idle;
    for (const auto& [id, content] : contents)
        if (content.used_s <= until && !lists.contains(id)) idle.push_back({content.used_s, id, content.room});
    for (const auto& [id, list] : lists) {  // a content that is here whole as well goes with it
        const auto content = contents.find(id);
        const std::int64_t used_s =
            content == contents.end() ? list.used_s : std::max(list.used_s, content->second.used_s);
        const std::uint64_t room = list.room + (content == contents.end() ? 0 : content->second.room);
        if (used_s <= until) idle.push_back({used_s, id, room});
    }
    return idle;
}

}  // namespace quern::content
